//! What the runtime calls.

use std::ffi::{c_int, c_uint, c_void};

use unspool_openmp_record::ConstructKind;
use unspool_openmp_record::layout::{self, process_block, schedule};
use unspool_preload::clock;

use super::runtime;
use super::types::{Data, DependenceData, INITIAL_TASK, LEAGUE, dependence, endpoint, status};
use crate::task_chains::{CreatedTask, Dependence};
use crate::team::{RegionCode, Team};
use crate::{arena, process, thread};

/// A team that was not made: everything is skipped.
fn team_of(region: *mut Data) -> *mut Team {
    // SAFETY: the runtime gives null or the data that `parallel_begin` filled.
    match unsafe { region.as_ref() } {
        // SAFETY: as above; without `parallel_begin` it is null.
        Some(region) => unsafe { region.pointer }.cast(),
        None => std::ptr::null_mut(),
    }
}

pub(super) extern "C" fn parallel_begin(
    _task: *mut Data,
    _frame: *const c_void,
    region: *mut Data,
    wanted: c_uint,
    flags: c_int,
    address: *const c_void,
) {
    let Some(thread) = thread::current() else {
        return;
    };
    process::note_runtime(layout::runtime::OMPT);
    if thread.is_outside() && flags & LEAGUE == 0 && runtime::may_hold(address) {
        // The runtime's own threads, which are there to execute tasks that no thread of the
        // program need wait for (LLVM's "hidden helpers"): no region of the program's.
        return;
    }
    let code = RegionCode {
        address: address as u64,
        body: 0,
    };
    let team = thread.fork(code, wanted as usize, clock::now());
    // SAFETY: the runtime gives data of this region, for the tool to fill.
    unsafe { (*region).pointer = team.cast() };
}

pub(super) extern "C" fn parallel_end(
    region: *mut Data,
    _task: *mut Data,
    _flags: c_int,
    _address: *const c_void,
) {
    let now = clock::now();
    let team = team_of(region);
    if let Some(thread) = thread::current()
        && !team.is_null()
    {
        // SAFETY: the team is of this thread's fork, and the region has ended.
        unsafe { thread.join(team, now) };
    }
}

pub(super) extern "C" fn implicit_task(
    point: c_int,
    region: *mut Data,
    _task: *mut Data,
    size: c_uint,
    index: c_uint,
    flags: c_int,
) {
    let team = team_of(region);
    // Of initial tasks, those of teams belong to a region: that of the league.
    if flags & INITIAL_TASK != 0 && team.is_null() && point == endpoint::BEGIN {
        return;
    }
    let Some(thread) = thread::current() else {
        return;
    };
    if point == endpoint::BEGIN {
        if !team.is_null() {
            // SAFETY: the region lasts until this thread has arrived at its join.
            unsafe { thread.begin_region(team, index as usize, size as usize, clock::now()) };
        }
    } else if point == endpoint::END && thread.is_at_work_as(index as usize) {
        // Threads usually arrive at the barrier before; a team of one has none.
        thread.end_region(clock::now());
    }
}

pub(super) extern "C" fn work(
    what: c_int,
    point: c_int,
    _region: *mut Data,
    _task: *mut Data,
    count: u64,
    address: *const c_void,
) {
    let kind = match what {
        1 | 10..=13 => ConstructKind::Loop,
        2 => ConstructKind::Sections,
        3 => ConstructKind::Single,
        5 => ConstructKind::Workshare,
        6 => ConstructKind::Distribute,
        7 => ConstructKind::TaskLoop,
        // A single construct in a thread that does not execute it, and scopes.
        _ => return,
    };
    enter_or_leave(kind, point, address);
    if kind == ConstructKind::Loop
        && point == endpoint::BEGIN
        && let Some(thread) = thread::current()
    {
        let schedule = match what {
            // Earlier runtimes tell all loops alike, and of others than static ones it is known
            // from what the program calls.
            1 | 10 => schedule::STATIC,
            11 => schedule::DYNAMIC,
            12 => schedule::GUIDED,
            _ => schedule::UNKNOWN,
        };
        thread.describe_loop(count, schedule);
    }
}

/// What is told of constructs that are entered and left: some arguments, the point, others,
/// and the address.
macro_rules! entered_and_left {
    ($($name:ident ($($before:ty),*) ($($after:ty),*) $kind:expr;)*) => {$(
        pub(super) extern "C" fn $name(
            $(_: $before,)*
            point: c_int,
            $(_: $after,)*
            address: *const c_void,
        ) {
            enter_or_leave($kind, point, address);
        }
    )*};
}

entered_and_left! {
    masked () (*mut Data, *mut Data) ConstructKind::Master;
    target (c_int) (c_int, *mut Data, u64) ConstructKind::Target;
    reduction (c_int) (*mut Data, *mut Data) ConstructKind::Reduction;
}

fn enter_or_leave(kind: ConstructKind, point: c_int, address: *const c_void) {
    let Some(thread) = thread::current() else {
        return;
    };
    if thread.is_outside() && runtime::may_hold(address) {
        return;
    }
    let now = clock::now();
    let opens = kind.is_worksharing();
    if point == endpoint::BEGIN {
        if opens {
            thread.end_open_work(now);
        }
        let caller = thread.caller_or(address as u64);
        thread.enter(kind, caller, 0, now);
    } else if point == endpoint::END {
        let kind = match kind {
            // The end of a loop within a distribute construct is told as one of the latter;
            // and the end of that comes when its region has been left.
            ConstructKind::Distribute if !thread.is_within(ConstructKind::Distribute) => {
                if !thread.is_within(ConstructKind::Loop) {
                    return;
                }
                ConstructKind::Loop
            }
            kind => kind,
        };
        thread.leave_through(kind, now);
        if opens {
            let caller = thread.caller_or(address as u64);
            thread.resume_open_work(caller, now);
        }
    }
}

pub(super) extern "C" fn sync_region(
    what: c_int,
    point: c_int,
    _region: *mut Data,
    _task: *mut Data,
    address: *const c_void,
) {
    /// A barrier that neither the program nor a construct's end asks for: to broadcast.
    const OF_RUNTIME: c_int = 4;
    let kind = match what {
        5 => ConstructKind::TaskWait,
        1 | 3 => ConstructKind::Barrier,
        2 | OF_RUNTIME | 8..=10 => ConstructKind::ImplicitBarrier,
        _ => return,
    };
    let Some(thread) = thread::current() else {
        return;
    };
    let now = clock::now();
    let is_barrier = matches!(
        kind,
        ConstructKind::Barrier | ConstructKind::ImplicitBarrier
    );
    if point == endpoint::BEGIN {
        // A worker's barrier at a region's end is left when the next region starts: what
        // counts is the arrival, and the join that the thread that forked it sees.
        if kind == ConstructKind::ImplicitBarrier
            && what != OF_RUNTIME
            && thread.joins_at(address as u64)
        {
            thread.end_region(now);
            return;
        }
        if is_barrier && thread.is_outside() {
            return;
        }
        if is_barrier {
            thread.end_open_work(now);
        }
        thread.enter(kind, address as u64, 0, now);
        if is_barrier {
            thread.arrive_at_barrier(now);
        }
    } else if point == endpoint::END && thread.is_within(kind) {
        thread.leave_through(kind, now);
        if is_barrier {
            thread.resume_open_work(address as u64, now);
        }
    }
}

/// Of the calls that tell of waiting alone, only those of taskgroups say more than
/// [`sync_region`] does: that one has them from their beginning.
pub(super) extern "C" fn sync_region_wait(
    what: c_int,
    point: c_int,
    _region: *mut Data,
    _task: *mut Data,
    address: *const c_void,
) {
    const TASKGROUP: c_int = 6;
    let Some(thread) = thread::current().filter(|_| what == TASKGROUP) else {
        return;
    };
    let now = clock::now();
    if point == endpoint::BEGIN {
        thread.enter(ConstructKind::TaskGroup, address as u64, 0, now);
    } else if point == endpoint::END && thread.is_within(ConstructKind::TaskGroup) {
        thread.leave_through(ConstructKind::TaskGroup, now);
    }
}

pub(super) extern "C" fn mutex_acquire(
    what: c_int,
    _hint: c_uint,
    _implementation: c_uint,
    which: u64,
    address: *const c_void,
) {
    let Some(thread) = thread::current() else {
        return;
    };
    let now = clock::now();
    let node = match mutex(what) {
        Some(ConstructKind::Lock) => {
            // The runtime only knows who called it, which is this library.
            let caller = thread.caller_or(address as u64);
            thread.find(ConstructKind::Lock, caller, which, now)
        }
        Some(ConstructKind::Critical) => {
            thread.find(ConstructKind::Critical, address as u64, which, now)
        }
        Some(kind) => thread.find(kind, address as u64, 0, now),
        None => return,
    };
    thread.asking = (now, node);
}

pub(super) extern "C" fn mutex_acquired(what: c_int, _which: u64, _address: *const c_void) {
    let Some(thread) = thread::current() else {
        return;
    };
    let now = clock::now();
    let (before, node) = thread.asking;
    match mutex(what) {
        Some(ConstructKind::Lock) => thread.only_wait(node, before, now),
        Some(_) => {
            thread.enter_found(node, before);
            thread.wait(before, now);
        }
        None => {}
    }
}

/// The construct of a mutex, by the runtime's number for it. Tests do not wait.
fn mutex(what: c_int) -> Option<ConstructKind> {
    Some(match what {
        1 | 3 => ConstructKind::Lock,
        5 => ConstructKind::Critical,
        6 => ConstructKind::Atomic,
        7 => ConstructKind::Ordered,
        _ => return None,
    })
}

pub(super) extern "C" fn mutex_released(what: c_int, _which: u64, _address: *const c_void) {
    let Some(kind) = mutex(what).filter(|kind| *kind != ConstructKind::Lock) else {
        return;
    };
    if let Some(thread) = thread::current() {
        thread.leave_through(kind, clock::now());
    }
}

pub(super) extern "C" fn flush(_thread: *mut Data, address: *const c_void) {
    let Some(thread) = thread::current() else {
        return;
    };
    if !thread.is_outside() {
        let now = clock::now();
        thread.enter(ConstructKind::Flush, address as u64, 0, now);
        thread.leave(now);
    }
}

pub(super) extern "C" fn cancel(_task: *mut Data, flags: c_int, _address: *const c_void) {
    const ACTIVATED: c_int = 0x10;
    if flags & ACTIVATED != 0
        && thread::current().is_some()
        && let Some(process) = arena::process_block()
    {
        process.add_shared(process_block::CANCELLED, 1);
    }
}

pub(super) extern "C" fn task_create(
    _task: *mut Data,
    _frame: *const c_void,
    created: *mut Data,
    _flags: c_int,
    _has_dependences: c_int,
    address: *const c_void,
) {
    let address = match thread::current() {
        Some(thread) => thread.caller_or(address as u64),
        None => address as u64,
    };
    // SAFETY: the runtime gives data of the new task, for the tool to fill. Implicit tasks
    // keep 0, so that they can be told apart.
    unsafe { (*created).value = address.max(1) };
}

/// A task, in its data: where it was created, or a [`DependentTask`] by its place, with this bit.
const DEPENDENT: u64 = 1 << 63;

/// A task that was created with dependences.
struct DependentTask {
    address: u64,
    /// Until it is executed.
    created: Option<CreatedTask>,
}

pub(super) extern "C" fn dependences(task: *mut Data, list: *const DependenceData, count: c_int) {
    // SAFETY: the runtime gives null or the data of a task.
    let Some(task) = (unsafe { task.as_mut() }) else {
        return;
    };
    // SAFETY: all fields of the union are one word.
    let address = unsafe { task.value };
    let length = usize::try_from(count).unwrap_or(0);
    // What waits for tasks may have dependences too, and is none.
    if address == 0 || address & DEPENDENT != 0 || list.is_null() {
        return;
    }
    // SAFETY: the runtime gives a list of that length.
    let list = unsafe { std::slice::from_raw_parts(list, length) };
    let named = list.iter().map(|one| {
        let kind = match one.kind {
            dependence::IN | dependence::IN_OUT_SET => Dependence::Reads,
            _ => Dependence::Writes,
        };
        // SAFETY: all fields of the union are one word.
        (unsafe { one.variable.value }, kind)
    });
    let Some(created) = thread::current().and_then(|thread| thread.create_dependent_task(named))
    else {
        return;
    };
    let dependent = Box::into_raw(Box::new(DependentTask {
        address,
        created: Some(created),
    }));
    task.value = dependent as u64 | DEPENDENT;
}

/// The task of some data, if it was created with dependences.
fn dependent<'a>(value: u64) -> Option<&'a mut DependentTask> {
    // SAFETY: with the bit it is from `dependences`, and it is freed when the task has ended. One
    // thread at a time executes a task.
    (value & DEPENDENT != 0).then(|| unsafe { &mut *((value & !DEPENDENT) as *mut DependentTask) })
}

pub(super) extern "C" fn task_schedule(prior: *mut Data, how: c_int, next: *mut Data) {
    let Some(thread) = thread::current() else {
        return;
    };
    let now = clock::now();
    // SAFETY: the runtime gives null or the data of tasks.
    let value = |task: *mut Data| unsafe { task.as_ref().map_or(0, |task| task.value) };
    let ended = value(prior);
    if matches!(how, status::COMPLETE | status::CANCEL) && ended != 0 {
        thread.end_task(prior.cast(), now);
        if let Some(task) = dependent(ended) {
            // SAFETY: it is from `Box::into_raw`, and the runtime tells of a task's end once. Where
            // it did so again, there would be an address.
            unsafe {
                (*prior).value = task.address;
                drop(Box::from_raw(std::ptr::from_mut(task)));
            }
        }
    }
    match value(next) {
        0 => {}
        begun => {
            let (address, created) = match dependent(begun) {
                Some(task) => (task.address, task.created.take()),
                None => (begun, None),
            };
            thread.begin_task(next.cast(), address, created, now);
        }
    }
}
