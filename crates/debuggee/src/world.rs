//! Which threads stand, which may go, and what the debugger is to be told.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, AtomicI32, Ordering};
use std::time::{Duration, Instant};
use unspool_engine::requests;
use unspool_events::ThreadId;

use unspool_kernel::ids::{Pid, Tid};
use unspool_kernel::lock::{Condvar, Mutex, MutexGuard};

use super::reason::Reason;
use super::registers::Registers;
use unspool_engine::process::Process;
use unspool_engine::thread::Thread;

/// A stop of the program.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stop {
    /// The kernel's id of the thread it is about.
    pub thread: Tid,
    /// Why.
    pub reason: Reason,
}

/// Where a thread is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum At {
    /// In the cache, or on its way.
    Running,
    /// In a system call; its registers are known.
    Calling,
    /// Waiting for the debugger; its registers are known.
    Held,
}

/// What is known of a thread.
pub(super) struct Stand {
    pub(super) id: ThreadId,
    pub(super) at: At,
    /// Whether it may go, if the program is not stopped.
    pub(super) go: bool,
    /// Whether it is to execute one instruction only.
    pub(super) step: bool,
    /// The signal that it is to get.
    pub(super) signal: Option<i32>,
    /// Whether the debugger has let it go since its state was noted.
    pub(super) resumed: bool,
    pub(super) registers: Option<Box<Registers>>,
    /// Whether the debugger has changed them.
    pub(super) changed: bool,
}

/// With what a thread goes on.
pub(super) struct Orders {
    /// Registers that the debugger has changed.
    pub(super) registers: Option<Box<Registers>>,
    /// The signal that it is to get.
    pub(super) signal: Option<i32>,
    /// Whether it is to execute one instruction only.
    pub(super) step: bool,
}

impl Stand {
    /// The thread goes on.
    pub(super) fn go_on(&mut self) -> Orders {
        self.at = At::Running;
        Orders {
            registers: self.registers.take().filter(|_| self.changed),
            signal: self.signal.take(),
            step: std::mem::take(&mut self.step),
        }
    }
}

pub(super) struct World {
    /// Whether a debugger is there.
    pub(super) attached: bool,
    /// Whether the program is stopped.
    pub(super) stopped: bool,
    /// Whether new threads may go.
    pub(super) newcomers_go: bool,
    pub(super) threads: BTreeMap<Tid, Stand>,
    /// What the debugger has not been told yet.
    pub(super) stop: Option<Stop>,
    /// Whether it has been told of the program's end.
    pub(super) told_end: bool,
    pub(super) breakpoints: BTreeSet<u64>,
}

static WORLD: Mutex<World> = Mutex::new(World {
    attached: false,
    stopped: true,
    newcomers_go: false,
    threads: BTreeMap::new(),
    stop: None,
    told_end: false,
    breakpoints: BTreeSet::new(),
});
static CHANGED: Condvar = Condvar::new();
/// Whether there may be a debugger in this process.
static ENABLED: AtomicBool = AtomicBool::new(false);
/// Whether somebody must not go.
static HOLD: AtomicBool = AtomicBool::new(false);
/// Where the debugger's thread hears that something happened; -1 for none.
pub(super) static BELL: AtomicI32 = AtomicI32::new(-1);

/// Nothing wakes a waiting thread when the process ends.
const PAUSE: Duration = Duration::from_millis(50);

#[inline]
pub(crate) fn is_enabled() -> bool {
    ENABLED.load(Ordering::Relaxed)
}

pub(super) fn enable(on: bool) {
    HOLD.store(on, Ordering::SeqCst);
    ENABLED.store(on, Ordering::SeqCst);
}

#[inline]
pub(super) fn is_holding() -> bool {
    HOLD.load(Ordering::SeqCst)
}

pub(super) fn lock() -> MutexGuard<'static, World> {
    WORLD.lock()
}

/// Waits for a change, for a while.
pub(super) fn wait(world: MutexGuard<'static, World>) -> MutexGuard<'static, World> {
    CHANGED.wait_timeout(world, PAUSE)
}

pub(super) fn notify() {
    CHANGED.notify_all();
}

/// Lets the debugger's thread look.
fn ring() {
    let one = 1_u64;
    // SAFETY: writes eight bytes of our own to our own descriptor.
    unsafe { libc::write(BELL.load(Ordering::Relaxed), (&raw const one).cast(), 8) };
}

impl World {
    /// What is known of a thread, which need not have been seen before.
    pub(super) fn stand(&mut self, thread: &Thread) -> &mut Stand {
        let go = self.newcomers_go;
        self.threads.entry(thread.tid).or_insert_with(|| Stand {
            id: thread.id,
            at: At::Running,
            go,
            step: false,
            signal: None,
            resumed: false,
            registers: None,
            changed: false,
        })
    }

    /// Whether a thread may go.
    pub(super) fn may_go(&mut self, thread: &Thread) -> bool {
        !self.stopped && self.stand(thread).go
    }

    /// Stops the program.
    pub(super) fn halt(&mut self) {
        self.stopped = true;
        self.newcomers_go = false;
        HOLD.store(true, Ordering::SeqCst);
        for stand in self.threads.values_mut() {
            stand.go = false;
        }
    }

    /// Stops the program, and has the debugger told why.
    pub(super) fn stop_for(&mut self, thread: Tid, reason: Reason) {
        self.halt();
        self.stop = Some(Stop { thread, reason });
        ring();
    }

    /// Lets threads go, as each of them says.
    pub(super) fn release(&mut self) {
        self.stopped = false;
        let all = self.newcomers_go && self.threads.values().all(|stand| stand.go);
        HOLD.store(!all, Ordering::SeqCst);
        notify();
    }
}

/// Waits until all threads of the program stand, for a bounded time.
pub(super) fn wait_until_quiet(process: &Process) {
    const PATIENCE: Duration = Duration::from_secs(5);
    const ROUND: Duration = Duration::from_millis(2);
    let deadline = Instant::now() + PATIENCE;
    while Instant::now() < deadline {
        let inside = ask_out(process);
        let world = lock();
        let quiet = |world: &World| world.threads.values().all(|stand| stand.at != At::Running);
        if quiet(&world) && !inside {
            return;
        }
        if !quiet(&world) {
            CHANGED.wait_timeout(world, ROUND);
        }
    }
}

/// Asks all threads that are inside the cache to come out. Returns whether there are any.
fn ask_out(process: &Process) -> bool {
    let own = Pid::own();
    let threads = process.threads.lock();
    let inside = threads
        .iter()
        .filter(|handle| handle.process == own && unspool_engine::threads::is_inside(handle));
    inside.map(|handle| requests::request_stop(*handle)).count() != 0
}
