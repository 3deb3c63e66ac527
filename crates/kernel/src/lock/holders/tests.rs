//! Every interleaving of a few threads, under the C11 memory model, as `loom` tries them.

use std::process::Command;

use loom::cell::UnsafeCell;
use loom::sync::atomic::{AtomicU32, Ordering};
use loom::sync::{Arc, Condvar, Mutex};
use loom::thread;

use super::{CLOSED, Group, Holders, Word};

/// A word as the kernel's futex calls see it: looking at it and beginning to wait are one step.
struct Futex {
    value: AtomicU32,
    queue: Mutex<()>,
    woken: Condvar,
}

impl Futex {
    fn new() -> Futex {
        Futex {
            value: AtomicU32::new(0),
            queue: Mutex::new(()),
            woken: Condvar::new(),
        }
    }
}

impl Word for Futex {
    fn load(&self) -> u32 {
        self.value.load(Ordering::Acquire)
    }

    fn reset(&self) {
        self.value.store(0, Ordering::Release);
    }

    fn add(&self, value: u32) -> u32 {
        self.value.fetch_add(value, Ordering::AcqRel)
    }

    fn subtract(&self, value: u32) -> u32 {
        self.value.fetch_sub(value, Ordering::AcqRel)
    }

    fn set(&self, bits: u32) -> u32 {
        self.value.fetch_or(bits, Ordering::AcqRel)
    }

    fn clear(&self, bits: u32) {
        self.value.fetch_and(!bits, Ordering::AcqRel);
    }

    fn wait(&self, value: u32) {
        let queue = self.queue.lock().unwrap();
        // The kernel's look at the word comes after all changes behind which it was woken.
        if self.value.fetch_add(0, Ordering::AcqRel) == value {
            drop(self.woken.wait(queue).unwrap());
        }
    }

    fn wake_all(&self) {
        let queue = self.queue.lock().unwrap();
        self.woken.notify_all();
        drop(queue);
    }
}

/// Ways in which the algorithm could be wrong.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Defect {
    None,
    /// A thread looks whether it may begin, and then counts itself.
    LooksFirst,
    /// A thread that finds that it may not begin does not tell that it is not counted any more.
    UndoesInSilence,
    /// Callers of `exclude` do not exclude each other.
    SharesExclusion,
    /// Threads that wait to begin are not woken.
    AdmitsInSilence,
}

/// Threads of two groups that hold locks, and what is changed under them.
struct World {
    holders: Holders<Futex, 2>,
    /// Changed by whoever holds locks, of each thread one, and seen by whoever forks.
    protected: Vec<UnsafeCell<bool>>,
    defect: Defect,
}

impl World {
    fn new(threads: usize, defect: Defect) -> Arc<World> {
        Arc::new(World {
            holders: Holders([Group(Futex::new()), Group(Futex::new())]),
            protected: (0..threads).map(|_| UnsafeCell::new(false)).collect(),
            defect,
        })
    }

    fn begin(&self, group: usize) {
        let word = &self.holders.0[group].0;
        match self.defect {
            Defect::LooksFirst => {
                self.holders.0[group].wait_while(|word| word & CLOSED != 0);
                word.add(1);
            }
            Defect::UndoesInSilence => {
                while word.add(1) & CLOSED != 0 {
                    word.subtract(1);
                    self.holders.0[group].wait_while(|word| word & CLOSED != 0);
                }
            }
            _ => self.holders.begin(group),
        }
    }

    /// A thread takes a lock, changes something in two steps, and gives the lock back.
    fn hold(&self, thread: usize, group: usize) {
        self.begin(group);
        self.protected[thread].with_mut(|half| {
            // SAFETY: only this thread and those that exclude it use the cell, as loom checks.
            unsafe { *half = true };
            thread::yield_now();
            // SAFETY: as above.
            unsafe { *half = false };
        });
        self.holders.end(group);
    }

    /// A thread forks: nothing is half changed, and nobody else forks.
    fn fork(&self) {
        if self.defect == Defect::SharesExclusion {
            for group in &self.holders.0 {
                group.0.set(CLOSED);
            }
            for group in &self.holders.0 {
                group.wait_while(|word| word & !CLOSED != 0);
            }
        } else {
            self.holders.exclude();
        }
        for protected in &self.protected {
            // Taken for writing: a child changes its copy, and a second thread here would be seen.
            // SAFETY: all others are excluded, as loom checks.
            protected.with_mut(|half| assert!(!unsafe { *half }, "the copy is half changed"));
        }
        match self.defect {
            Defect::AdmitsInSilence => {
                for group in &self.holders.0 {
                    group.0.clear(CLOSED);
                }
            }
            _ => self.holders.admit(),
        }
    }
}

/// Runs threads that hold locks, of these groups, and threads that fork, in every order.
fn explore(groups: &'static [usize], forks: usize, defect: Defect) {
    let mut model = loom::model::Builder::new();
    // More find nothing else, and take a minute each.
    model.preemption_bound = Some(3);
    model.check(move || {
        let world = World::new(groups.len(), defect);
        let mut threads = Vec::new();
        for (number, &group) in groups.iter().enumerate() {
            let world = Arc::clone(&world);
            threads.push(thread::spawn(move || world.hold(number, group)));
        }
        for _ in 1..forks {
            let world = Arc::clone(&world);
            threads.push(thread::spawn(move || world.fork()));
        }
        world.fork();
        for thread in threads {
            thread.join().unwrap();
        }
        let counts = world.holders.0.iter().map(|group| group.0.load());
        assert!(
            counts.into_iter().all(|count| count == 0),
            "a count is left"
        );
    });
}

#[test]
fn a_fork_among_holders_of_one_group() {
    explore(&[0, 0], 1, Defect::None);
}

#[test]
fn a_fork_among_holders_of_two_groups() {
    explore(&[0, 1], 1, Defect::None);
}

#[test]
fn two_forks_and_a_holder() {
    explore(&[0], 2, Defect::None);
    explore(&[1], 2, Defect::None);
}

/// Which defect is to be explored, in a process that is to fail.
const DEFECT: &str = "UNSPOOL_TEST_DEFECT";

#[test]
fn each_defect_is_found() {
    let cases: [(&'static [usize], usize, Defect); 4] = [
        (&[0], 1, Defect::LooksFirst),
        (&[0, 0], 1, Defect::UndoesInSilence),
        (&[0], 2, Defect::SharesExclusion),
        (&[0], 1, Defect::AdmitsInSilence),
    ];
    let asked = std::env::var(DEFECT).ok();
    if let Some(number) = asked.and_then(|number| number.parse::<usize>().ok()) {
        let (groups, forks, defect) = cases[number];
        return explore(groups, forks, defect);
    }
    for number in 0..cases.len() {
        let name = "lock::holders::tests::each_defect_is_found";
        let explored = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", name, "--nocapture"])
            .env(DEFECT, number.to_string())
            .output()
            .unwrap();
        assert!(!explored.status.success(), "defect {number} goes unnoticed");
    }
}
