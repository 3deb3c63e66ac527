//! A child that shares its parent's memory for good and runs beside it: a process (`CLONE_VM`
//! without `CLONE_THREAD` and `CLONE_VFORK`), or a thread that differs from those that the
//! engine's C library can start, for instance because it has a folder or a namespace of its own.
//!
//! It needs an engine thread's state that nobody else uses. So a thread of the engine's is
//! started for it, which lends it a stack and its thread-local memory, and waits until the child
//! exits or executes a program. The child itself is made by the program's own thread, from which
//! it inherits all that the kernel keeps for each thread, and which is its parent. In the trace
//! it is a thread of its parent's.
//!
//! The lender does not wait as `vfork` does, which no debugger can stop: sanitizers look for
//! leaks in such a child, and stop all threads of their program before.

use crate::finish::announcement::clear_tid;
use crate::signal_handling::SignalStack;
use crate::threads;
use std::sync::Arc;
use std::sync::atomic::{AtomicI32, AtomicPtr, AtomicU32, Ordering};
use std::sync::mpsc::{SyncSender, sync_channel};
use unspool_events::ThreadId;

use unspool_kernel::lock::Mutex;
use unspool_kernel::raw_call::raw_system_call;

use super::Run;
use super::namespace::Relation;
use super::new_thread::{NewThread, list_as, tell_ids};
use super::threads::{set_program_fs, thread_pointer};
use crate::call::clone_request::{CloneRequest, Places};
use crate::call::start_child;
use crate::client::{self, Inherited};
use crate::filters::install::catch_up;
use crate::process::Process;
use crate::signal_handling::open;
use crate::thread::{AddressSpaceRole, Thread};
use crate::{detach, finish};

/// What parent, child and lender share.
struct SharedMemoryChild {
    process: &'static Process,
    /// What the child starts with, which it takes.
    new_thread: Mutex<Option<NewThread>>,
    relation: Relation,
    is_thread: bool,
    /// Whether the parent waits until the child has left the memory.
    parent_waits: bool,
    /// Tells the parent that it may go on. That it may be gone by then does no harm.
    announce: SyncSender<()>,
    /// [`HERE`] until the child has left the memory.
    word: AtomicU32,
    /// The id of the child, once it is known.
    child: AtomicI32,
    /// The child's thread, from when it is on the list to when it has come to its end in order.
    listed: AtomicPtr<Thread>,
}

/// What the lender lends.
struct LentContext {
    thread_pointer: u64,
    stack: (u64, u64),
}

/// Starts the child. Returns its id, or minus an errno.
pub(super) fn start(
    process: &'static Process,
    thread: &mut Thread,
    request: CloneRequest,
    run: Run,
) -> i64 {
    let ordinal = process.next_ordinal();
    let is_thread = request.has(libc::CLONE_THREAD);
    let inherited = match Inherited::from(thread, ordinal) {
        Ok(inherited) => inherited,
        Err(exhausted) => return detach::end_recording(thread, &exhausted),
    };
    if is_thread {
        process.thread_count.fetch_add(1, Ordering::AcqRel);
    }
    crate::signals::block_all();
    let made = make(
        process,
        thread,
        request,
        (ordinal.id(), Arc::clone(&inherited)),
        run,
    );
    let result = made.as_ref().map_or_else(NoLender::error, |&child| child);
    if result < 0 {
        if is_thread {
            process.thread_count.fetch_sub(1, Ordering::AcqRel);
        }
        inherited.not_needed(&process.clients, ordinal.id());
    }
    open(thread);
    let gets_no_threads = matches!(&made, Err(refused) if refused.is_for_good());
    if gets_no_threads && !is_thread && thread.role == AddressSpaceRole::Process {
        return detach::make_child_natively(thread);
    }
    result
}

/// There is no thread that could lend the child what it needs.
struct NoLender(i32);

impl NoLender {
    fn error(&self) -> i64 {
        -i64::from(self.0)
    }

    /// Whether the kernel gives the process no thread at all: its children are to belong to another
    /// PID namespace, and its threads would be children.
    fn is_for_good(&self) -> bool {
        self.0 == libc::EINVAL
    }
}

/// Returns the child's id, or minus an errno.
fn make(
    process: &'static Process,
    thread: &Thread,
    request: CloneRequest,
    (id, inherited): (ThreadId, Arc<Inherited>),
    run_thread: Run,
) -> Result<i64, NoLender> {
    let (announce, announced) = sync_channel(1);
    let beside = Arc::new(SharedMemoryChild {
        process,
        new_thread: Mutex::new(Some(NewThread::new(
            thread,
            request.clone(),
            id,
            inherited,
            run_thread,
        ))),
        relation: Relation::new(thread, &request),
        is_thread: request.has(libc::CLONE_THREAD),
        parent_waits: request.has(libc::CLONE_VFORK),
        announce,
        word: AtomicU32::new(HERE),
        child: AtomicI32::new(0),
        listed: AtomicPtr::default(),
    });
    let (lend, lent) = sync_channel(1);
    let shared = Arc::clone(&beside);
    let spawned = std::thread::Builder::new()
        .stack_size(process.clients.stack_size())
        .spawn(move || run_lender(&shared, &lend));
    if let Err(error) = spawned {
        return Err(NoLender(error.raw_os_error().unwrap_or(libc::EAGAIN)));
    }
    let loan = lent.recv().map_err(|_| NoLender(libc::EAGAIN))?;
    let places = Places {
        stack: loan.stack,
        parent_tid: beside.relation.word(),
        child_tid: beside.word.as_ptr() as u64,
        thread_pointer: loan.thread_pointer,
    };
    let call = request.kernel_call(libc::CLONE_CHILD_CLEARTID, libc::CLONE_VFORK, places);
    let argument = Arc::as_ptr(&beside).cast_mut().cast();
    // SAFETY: the lender keeps the stack, its thread-local memory and what is shared until the
    // child has left the memory, and does nothing but wait.
    let child = unsafe { start_child(&call, run, argument) };
    if child < 0 {
        beside.word.store(0, Ordering::Release);
        wake(&beside.word);
        return Ok(child);
    }
    beside.child.store(child as i32, Ordering::Release);
    // The lender drops the last other one, should the child be killed before it speaks.
    drop(beside);
    let _ = announced.recv();
    Ok(child)
}

/// What a child's word holds until the child has left the memory.
const HERE: u32 = 1;

/// Lends the child what it needs, and waits until it has left that alone.
fn run_lender(beside: &SharedMemoryChild, lend: &SyncSender<LentContext>) {
    const STACK: usize = 512 << 10;
    let mut stack: Vec<u128> = vec![0; STACK / 16];
    let loan = LentContext {
        thread_pointer: thread_pointer(),
        stack: (stack.as_mut_ptr() as u64, STACK as u64),
    };
    // From when the parent has this on, the child may use this thread's memory.
    if lend.send(loan).is_err() {
        return;
    }
    wait_until_left(beside);
    finish::end_if_amid_change();
    let left = beside.listed.load(Ordering::Acquire);
    // SAFETY: the child has been killed, or executes another program. What it kept on its stack
    // is still there, and nobody uses it any more.
    if let Some(thread) = unsafe { left.as_mut() } {
        threads::leave_list(beside.process, thread);
        clear_tid(thread);
        if thread.executing {
            client::thread_ends(thread);
        }
    }
    if beside.parent_waits {
        let _ = beside.announce.send(());
    }
}

/// Waits until the kernel clears the word, as it does when the child exits or executes a
/// program. Some kernels leave it as it is where a core is dumped; then the child is gone
/// when its parent has heard of it.
///
/// The child uses this thread's `errno`, so that nothing here may.
fn wait_until_left(beside: &SharedMemoryChild) {
    const NO_SUCH_PROCESS: i64 = -(libc::ESRCH as i64);
    let a_second = libc::timespec {
        tv_sec: 1,
        tv_nsec: 0,
    };
    let futex = [
        beside.word.as_ptr() as u64,
        libc::FUTEX_WAIT as u64,
        u64::from(HERE),
        &raw const a_second as u64,
        0,
    ];
    // SAFETY: no preconditions.
    let own = unsafe { raw_system_call(libc::SYS_getpid, [0; 5]) } as u64;
    while beside.word.load(Ordering::Acquire) == HERE {
        // SAFETY: the word lives as long as this call. The kernel wakes it as a shared one.
        let result = unsafe { raw_system_call(libc::SYS_futex, futex) };
        let child = beside.child.load(Ordering::Acquire) as u64;
        if result == 0 || child == 0 {
            continue;
        }
        // SAFETY: signal 0 only asks.
        let asked = unsafe {
            match beside.is_thread {
                true => raw_system_call(libc::SYS_tgkill, [own, child, 0, 0, 0]),
                false => raw_system_call(libc::SYS_kill, [child, 0, 0, 0, 0]),
            }
        };
        if asked == NO_SUCH_PROCESS {
            return;
        }
    }
}

fn wake(word: &AtomicU32) {
    let futex = [word.as_ptr() as u64, libc::FUTEX_WAKE as u64, 1, 0, 0];
    // SAFETY: waking has no effect on memory.
    unsafe { raw_system_call(libc::SYS_futex, futex) };
}

unsafe extern "C" fn run(argument: *mut libc::c_void) -> i32 {
    // SAFETY: `make` passes this, and the lender keeps it.
    let beside = unsafe { &*argument.cast::<SharedMemoryChild>() };
    let process = beside.process;
    let _stack = SignalStack::install();
    let new_thread = beside.new_thread.lock().take();
    let mut new_thread = new_thread.expect("there is one child to take it");
    let mut thread = new_thread.install(process);
    if !beside.is_thread {
        thread.role = AddressSpaceRole::SharedMemoryChild;
    }
    let ids = beside.relation.of_child(thread.tid);
    thread.namespace = ids.own;
    Thread::set_current(&mut thread);
    list_as(process, &mut thread, ids.ids, ids.namespace);
    catch_up(process, &thread, &new_thread.filters);
    beside.listed.store(&raw mut thread, Ordering::Release);
    if new_thread.request.clears_handlers() {
        thread.actions.forget_handlers();
    }
    // Clients find it there from the start.
    thread.slots().program_fs.set(new_thread.fs);
    new_thread.inherited.thread_starts(&mut thread);
    tell_ids(&mut thread, &new_thread.request, ids.ids.1);
    set_program_fs(process, &mut thread, new_thread.fs);
    if !beside.parent_waits {
        let _ = beside.announce.send(());
    }
    open(&thread);
    let status = (new_thread.run)(&mut thread);
    if thread.role == AddressSpaceRole::Process {
        // It is a thread of its parent's, or has forked, and this is the new process.
        finish::end_thread(process, &mut thread, status);
    } else {
        finish::leave_beside(process, &mut thread);
    }
    beside.listed.store(std::ptr::null_mut(), Ordering::Release);
    status
}
