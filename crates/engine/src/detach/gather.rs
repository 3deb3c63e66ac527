//! All threads of the process stand still, conclude, and leave: one thread leads, the others
//! follow, from phase to phase.

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use unspool_kernel::descriptors::Headroom;
use unspool_kernel::ids::{Pid, Tid};

use super::departure::Departure;
use super::process_state;
use crate::client;
use crate::client::Refusal;
use crate::filters::native;
use crate::flush;
use crate::process::{Process, ThreadHandle};
use crate::requests;
use crate::signal_handling;
use crate::signal_handling::{deliver, shared};
use crate::signals;
use crate::thread::{AddressSpaceRole, Thread};
use crate::threads;

/// Nobody leads.
const IDLE: u32 = 0;
/// Threads come to safe points and stand still.
const STANDING: u32 = 1;
/// They conclude what they recorded.
const CONCLUDING: u32 = 2;
/// They leave.
const LEAVING: u32 = 3;

static PHASE: AtomicU32 = AtomicU32::new(IDLE);
/// The number of this gathering: one that was given up may be followed by another.
static GATHERING: AtomicU32 = AtomicU32::new(0);
/// Threads that stand still, or have concluded.
static FOLLOWERS: AtomicU32 = AtomicU32::new(0);
static CONCLUDED: AtomicU32 = AtomicU32::new(0);
/// Threads that have left.
static GONE: AtomicU32 = AtomicU32::new(0);

const PAUSE: Duration = Duration::from_micros(50);
/// How long threads may take to come out; more than any that is not held up needs.
const PATIENCE: Duration = Duration::from_secs(10);
/// A request is repeated, because it comes in vain while a thread just goes inside.
const ROUNDS_BETWEEN_REQUESTS: u32 = 40;

/// Whether threads are to stand still.
#[inline]
pub(super) fn is_under_way() -> bool {
    PHASE.load(Ordering::Acquire) != IDLE
}

/// In a forked child, where nobody leads.
pub(super) fn forget() {
    PHASE.store(IDLE, Ordering::Release);
    FOLLOWERS.store(0, Ordering::Release);
    CONCLUDED.store(0, Ordering::Release);
    GONE.store(0, Ordering::Release);
}

/// Gives the program all signals that were taken for it, and takes no more: also none that the
/// kernel would raise, for the engine's handler is about to go.
fn settle_signals(thread: &mut Thread) {
    loop {
        signals::set_exact_mask(!0);
        if !thread.has_signal() {
            break;
        }
        deliver::deliver(thread);
    }
    // What the program blocks waits in the kernel from now on.
    shared::take(thread, !0);
    deliver::give_back(thread, !0);
    thread.set_pending(false);
}

/// The thread is at a safe point while another one leads: it stands still. Returns if the
/// process is not let go after all.
pub(super) fn join(thread: &mut Thread) {
    if thread.role != AddressSpaceRole::Process || thread.exit_status.is_some() {
        return;
    }
    flush::leave(thread);
    settle_signals(thread);
    client::begin_wait(thread);
    let keeps_filters = !native::will_be_taken(thread);
    let kept = &thread.detach.keeps_filters;
    kept.store(keeps_filters, Ordering::Release);
    while PHASE.load(Ordering::Acquire) == STANDING {
        let gathering = GATHERING.load(Ordering::Acquire);
        thread.detach.standing.store(gathering, Ordering::Release);
        std::thread::sleep(PAUSE);
    }
    client::end_wait(thread);
    if PHASE.load(Ordering::Acquire) == IDLE {
        thread.detach.standing.store(0, Ordering::Release);
        signal_handling::open(thread);
        return;
    }
    client::thread_parks(thread);
    threads::leave_list(thread.process, thread);
    let departure = Departure::of(thread);
    CONCLUDED.fetch_add(1, Ordering::AcqRel);
    while PHASE.load(Ordering::Acquire) != LEAVING {
        std::thread::sleep(PAUSE);
    }
    departure.leave_behind(|| _ = GONE.fetch_add(1, Ordering::AcqRel))
}

/// Brings all other threads to a stand. If that cannot be, or the process cannot be let go, all
/// go on as before.
pub(super) fn stop_all(process: &Process, thread: &mut Thread) -> Result<(), Refusal> {
    let leads = PHASE.compare_exchange(IDLE, STANDING, Ordering::AcqRel, Ordering::Acquire);
    if leads.is_err() {
        join(thread);
        return Err(Refusal::Ending);
    }
    GATHERING.fetch_add(1, Ordering::AcqRel);
    let stopped = obstacle(process).map_or_else(|| stand_still(process, thread), Err);
    let ready = stopped.and_then(|()| {
        settle_signals(thread);
        if !native::will_be_taken(thread) || any_keeps_filters(process) {
            return Err(Refusal::Filter);
        }
        let _headroom = Headroom::get();
        process_state::check(process)
    });
    if ready.is_err() {
        PHASE.store(IDLE, Ordering::Release);
        signal_handling::open(thread);
    }
    ready
}

/// What keeps the process from being let go, whatever its threads do.
fn obstacle(process: &Process) -> Option<Refusal> {
    if process.is_ending() {
        return Some(Refusal::Ending);
    }
    let mut all = process.clients.iter();
    all.find_map(|client| client.refuses_to_let_go())
}

/// Whether the engine has to go on judging the calls of any other thread. All stand still.
fn any_keeps_filters(process: &Process) -> bool {
    let threads = process.threads.lock();
    let mut all = threads.iter();
    // SAFETY: a thread lives while it is listed, and the list is locked; the field is atomic.
    all.any(|handle| unsafe {
        (*handle.thread)
            .detach
            .keeps_filters
            .load(Ordering::Acquire)
    })
}

fn stand_still(process: &Process, thread: &mut Thread) -> Result<(), Refusal> {
    let deadline = Instant::now() + PATIENCE;
    // Others may want lines of this thread's before they get to a safe point.
    client::begin_wait(thread);
    let mut round = 0;
    let result = loop {
        let asks = round % ROUNDS_BETWEEN_REQUESTS == 0;
        match find_moving(process, thread.tid, asks) {
            Ok(None) => break Ok(()),
            Err(refusal) => break Err(refusal),
            Ok(Some(moving)) if Instant::now() > deadline || process.is_ending() => {
                break Err(moving);
            }
            Ok(Some(_)) => {}
        }
        round += 1;
        std::thread::sleep(PAUSE);
    };
    client::end_wait(thread);
    result
}

/// A thread that does not stand still yet, as what it would be if it never did.
fn find_moving(process: &Process, leader: Tid, asks: bool) -> Result<Option<Refusal>, Refusal> {
    let gathering = GATHERING.load(Ordering::Acquire);
    let own = Pid::own();
    let threads = process.threads.lock();
    let mut moving = None;
    let mut followers = 0;
    for handle in threads.iter().filter(|handle| handle.tid != leader) {
        // SAFETY: the thread lives while it is listed, and the list is locked; both fields are
        // only read, and the second is atomic.
        let (role, standing) = unsafe {
            let thread = handle.thread;
            (
                (*thread).role,
                (*thread).detach.standing.load(Ordering::Acquire),
            )
        };
        if role == AddressSpaceRole::SharedMemoryChild {
            return Err(Refusal::SharedMemory);
        }
        if handle.process != own {
            moving = Some(Refusal::Busy(handle.tid));
        } else if standing == gathering {
            followers += 1;
        } else {
            moving = Some(Refusal::Busy(handle.tid));
            if asks {
                requests::request_stop(*handle);
            }
        }
    }
    let known: Vec<ThreadHandle> = threads.clone();
    drop(threads);
    if moving.is_none() {
        FOLLOWERS.store(followers, Ordering::Release);
        moving = process_state::foreign_thread(&known).map(Refusal::ForeignThread);
    }
    Ok(moving)
}

/// All threads stand still: has them conclude, each what it recorded itself.
pub(super) fn have_all_conclude() {
    PHASE.store(CONCLUDING, Ordering::Release);
    while CONCLUDED.load(Ordering::Acquire) != FOLLOWERS.load(Ordering::Acquire) {
        std::thread::sleep(PAUSE);
    }
}

/// How many threads are there to leave, the leader included.
pub(super) fn size() -> usize {
    FOLLOWERS.load(Ordering::Acquire) as usize + 1
}

/// Everything of the process's is handed back: has all other threads leave. The leader is the
/// last, because whoever has asked is told when it leaves, and may look at all of them then.
pub(super) fn have_all_leave() {
    PHASE.store(LEAVING, Ordering::Release);
    while GONE.load(Ordering::Acquire) != FOLLOWERS.load(Ordering::Acquire) {
        std::thread::sleep(PAUSE);
    }
}
