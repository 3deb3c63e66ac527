//! A small world around the machine: a kernel with its mask and its pending signals, the handler
//! that takes them, and a thread that makes system calls in the steps in which the engine makes
//! them. Every order of steps and arrivals is tried.

use std::collections::HashSet;

use super::{Delivery, Signal};
use crate::signals::{SYNCHRONOUS, bit, kernel_mask};

const ORDINARY: i32 = libc::SIGUSR1;
const REAL_TIME: i32 = 40;
const SENT_FAULT: i32 = libc::SIGSEGV;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct Sent(i32);

impl Signal for Sent {
    fn number(&self) -> i32 {
        self.0
    }

    fn is_forced(&self) -> bool {
        false
    }

    fn is_for_process(&self) -> bool {
        false
    }
}

/// What the program does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Operation {
    SetMask(u64),
    /// `sigsuspend`.
    WaitWith(u64),
    /// A call that the kernel does at once.
    Other,
}

/// Where the engine is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Happening {
    /// In translated code.
    Runs,
    /// In a system call, behind the look at what is pending.
    Calls,
    /// In the kernel, in a call that waits; the mask before.
    Waits(u64),
    /// A call has changed the kernel's mask, and is to change the program's.
    MaskSet(u64, bool),
    /// In [`deliver`](crate::signal_handling::deliver::deliver), which has cleared the word.
    Delivers,
    /// It is about to open the kernel's mask.
    Opens,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct World {
    delivery: Delivery<Sent>,
    held: Vec<Sent>,
    pending: bool,
    kernel_mask: u64,
    kernel_pending: Vec<Sent>,
    unsent: Vec<Sent>,
    program: Vec<Operation>,
    step: Happening,
    frames: Vec<u64>,
    handled: Vec<i32>,
    /// The engine as it was: it holds one signal, and opens the mask whatever is pending.
    careless: bool,
}

impl World {
    fn new(mask: u64, program: &[Operation], signals: &[i32], careless: bool) -> World {
        World {
            delivery: Delivery::new(mask),
            held: Vec::new(),
            pending: false,
            kernel_mask: kernel_mask(mask),
            kernel_pending: Vec::new(),
            unsent: signals.iter().copied().map(Sent).collect(),
            program: program.to_vec(),
            step: Happening::Runs,
            frames: Vec::new(),
            handled: Vec::new(),
            careless,
        }
    }

    /// What a gate does: nothing, if something is pending.
    fn set_kernel_mask(&mut self, mask: u64) -> bool {
        if self.pending && !self.careless {
            return false;
        }
        self.kernel_mask = kernel_mask(mask);
        true
    }

    fn settle(&mut self) {
        self.pending |= self.delivery.is_due();
    }

    fn collect(&mut self) {
        for signal in self.held.drain(..) {
            self.delivery.take(signal);
        }
    }

    /// The kernel calls the handler.
    fn handler(&mut self, index: usize) {
        let signal = self.kernel_pending.remove(index);
        if self.careless {
            self.held.clear();
        }
        self.held.push(signal);
        self.pending = true;
        self.kernel_mask = !SYNCHRONOUS;
        if let Happening::Waits(before) = self.step {
            // The wait is interrupted, and was made with its own mask.
            let Some(Operation::WaitWith(mask)) = self.program.first().copied() else {
                unreachable!("only a wait waits");
            };
            self.program.remove(0);
            assert_eq!(before, self.delivery.mask());
            self.collect();
            self.delivery.begin_wait(mask);
            self.delivery.end_wait(true);
            self.settle();
            self.step = Happening::Runs;
        }
    }

    /// The thread's next step; false if it waits or is done.
    fn advance(&mut self) -> bool {
        match self.step {
            Happening::Runs if self.pending => {
                self.pending = false;
                self.step = Happening::Delivers;
            }
            Happening::Runs if !self.frames.is_empty() || !self.program.is_empty() => {
                self.step = Happening::Calls;
            }
            Happening::Runs | Happening::Waits(_) => return false,
            Happening::Calls => self.call(),
            Happening::MaskSet(mask, returns) => {
                self.delivery.set_mask(mask);
                self.settle();
                if returns {
                    self.frames.pop();
                } else {
                    self.program.remove(0);
                }
                self.step = Happening::Runs;
            }
            Happening::Delivers => {
                self.collect();
                if let Some(signal) = self.delivery.take_next() {
                    let mask = self.delivery.mask();
                    assert_eq!(mask & bit(signal.0), 0, "{} is blocked", signal.0);
                    self.handled.push(signal.0);
                    let frame = self.delivery.enter_handler(signal.0, 0, true);
                    self.frames.push(frame);
                }
                self.delivery.end_without_handler();
                self.settle();
                self.step = Happening::Opens;
            }
            Happening::Opens => {
                self.set_kernel_mask(self.delivery.mask());
                self.step = Happening::Runs;
            }
        }
        true
    }

    fn call(&mut self) {
        self.step = Happening::Runs;
        if self.pending && !self.careless {
            return;
        }
        if let Some(&mask) = self.frames.last() {
            // The handler returns.
            if self.set_kernel_mask(mask) {
                self.step = Happening::MaskSet(mask, true);
            }
            return;
        }
        match self.program[0] {
            Operation::SetMask(mask) => {
                if self.set_kernel_mask(mask) {
                    self.step = Happening::MaskSet(mask, false);
                }
            }
            Operation::WaitWith(mask) => {
                self.step = Happening::Waits(self.delivery.mask());
                // The kernel has what the thread has kept, while it blocks that.
                let blocked = self.delivery.mask() & SYNCHRONOUS;
                while let Some(signal) = self.delivery.remove(blocked) {
                    self.kernel_pending.push(signal);
                }
                self.kernel_mask = mask;
            }
            Operation::Other => drop(self.program.remove(0)),
        }
    }

    /// All worlds that can follow.
    fn following(&self) -> Vec<World> {
        let mut all = Vec::new();
        let mut advanced = self.clone();
        if advanced.advance() {
            all.push(advanced);
        }
        if let Some(&signal) = self.unsent.first() {
            let mut sent = self.clone();
            sent.unsent.remove(0);
            let known = sent.kernel_pending.contains(&signal);
            if signal.0 >= super::FIRST_REAL_TIME || !known {
                sent.kernel_pending.push(signal);
            }
            all.push(sent);
        }
        for (index, signal) in self.kernel_pending.iter().enumerate() {
            if self.kernel_mask & bit(signal.0) == 0 {
                let mut taken = self.clone();
                taken.handler(index);
                all.push(taken);
            }
        }
        all
    }
}

/// Tries all orders. Returns the ends: what was handled, and whether the program came to its end.
fn explore(start: World) -> Vec<World> {
    let (mut seen, mut left, mut ends) = (HashSet::new(), vec![start], Vec::new());
    while let Some(world) = left.pop() {
        if !seen.insert(world.clone()) {
            continue;
        }
        let following = world.following();
        if following.is_empty() {
            ends.push(world);
        } else {
            left.extend(following);
        }
    }
    ends
}

fn count(handled: &[i32], signal: i32) -> usize {
    handled.iter().filter(|&&other| other == signal).count()
}

/// Whether in all orders every signal is handled that can be, and the program ends.
fn nothing_is_lost(mask: u64, program: &[Operation], signals: &[i32], careless: bool) -> bool {
    let ends = explore(World::new(mask, program, signals, careless));
    assert!(!ends.is_empty());
    ends.iter().all(|end| {
        let blocked = end.delivery.mask();
        let pending = |signal| {
            let kept = end.delivery.pending() & bit(signal) != 0;
            let waits = end.kernel_pending.contains(&Sent(signal));
            kept || waits
        };
        let is_kept = |&signal: &i32| match blocked & bit(signal) != 0 {
            true => pending(signal) || count(&end.handled, signal) > 0,
            false if signal >= super::FIRST_REAL_TIME => {
                count(&end.handled, signal) == count(signals, signal)
            }
            false => count(&end.handled, signal) > 0,
        };
        let may_wait = matches!(end.step, Happening::Waits(_));
        signals.iter().all(is_kept) && (end.program.is_empty() || may_wait)
    })
}

use Operation::{Other, SetMask, WaitWith};

const BLOCKED: u64 = bit(ORDINARY) | bit(REAL_TIME) | bit(SENT_FAULT);

#[test]
fn bursts_to_a_thread_that_changes_its_mask() {
    let program = [SetMask(bit(ORDINARY)), Other, SetMask(0), Other];
    for signals in [
        [ORDINARY, REAL_TIME, REAL_TIME],
        [REAL_TIME, ORDINARY, ORDINARY],
        [SENT_FAULT, ORDINARY, REAL_TIME],
    ] {
        assert!(nothing_is_lost(0, &program, &signals, false), "{signals:?}");
    }
}

#[test]
fn what_is_blocked_waits_until_it_is_not() {
    let signals = [ORDINARY, SENT_FAULT, REAL_TIME, REAL_TIME];
    assert!(nothing_is_lost(
        BLOCKED,
        &[Other, SetMask(0)],
        &signals,
        false
    ));
    assert!(nothing_is_lost(
        0,
        &[SetMask(BLOCKED), Other],
        &signals,
        false
    ));
}

#[test]
fn a_wait_with_another_mask() {
    let signals = [ORDINARY, REAL_TIME, SENT_FAULT];
    let program = [Other, WaitWith(0), SetMask(0)];
    assert!(nothing_is_lost(BLOCKED, &program, &signals, false));
    // The mask of the wait blocks one of them, which comes when the wait is over.
    let program = [WaitWith(bit(REAL_TIME)), SetMask(0)];
    assert!(nothing_is_lost(BLOCKED, &program, &signals, false));
}

#[test]
fn the_mask_of_a_wait_is_in_force_in_its_handler_and_gone_behind_it() {
    let others = bit(libc::SIGCHLD);
    let program = [WaitWith(others)];
    for end in explore(World::new(BLOCKED, &program, &[ORDINARY], false)) {
        assert_eq!(
            (end.handled.as_slice(), end.delivery.mask()),
            (&[ORDINARY][..], BLOCKED)
        );
    }
}

#[test]
fn an_engine_that_opens_the_mask_whatever_is_pending_loses_signals() {
    let program = [SetMask(bit(ORDINARY)), Other, SetMask(0), Other];
    let signals = [REAL_TIME, REAL_TIME, REAL_TIME];
    assert!(!nothing_is_lost(0, &program, &signals, true));
}

#[test]
fn one_of_a_kind_is_kept_for_the_thread_and_one_for_the_process() {
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    struct To(bool);
    impl Signal for To {
        fn number(&self) -> i32 {
            SENT_FAULT
        }

        fn is_forced(&self) -> bool {
            false
        }

        fn is_for_process(&self) -> bool {
            self.0
        }
    }
    let mut delivery = Delivery::new(0);
    for to_process in [false, true, false, true] {
        delivery.take(To(to_process));
    }
    let all = std::iter::from_fn(|| delivery.take_next()).collect::<Vec<_>>();
    assert_eq!(all, [To(false), To(true)]);
}
