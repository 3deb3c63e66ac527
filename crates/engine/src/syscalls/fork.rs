//! A child with a copy of the memory.

use std::cell::Cell;
use std::sync::atomic::Ordering;

use unspool_code_cache::emit::gpr;
use unspool_kernel::ids::{Pid, Tid};
use unspool_kernel::raw_call::raw_system_call;
use unspool_kernel::{guarded, lock, race_windows};

use super::new_thread::{errno, list};
use super::threads::{set_fs_base, thread_pointer};
use crate::call::clone_request::{CloneRequest, KernelCall, Places};
use crate::process::{PidNamespace, Process, Translations};
use crate::signal_handling::open;
use crate::thread::{AddressSpaceRole, Thread};
use crate::vfork_copy::{self, Wait};

/// Makes the child.
pub(super) fn fork(process: &'static Process, thread: &mut Thread, request: &CloneRequest) -> i64 {
    crate::signals::block_all();
    race_windows::widen();
    let waits = vfork_copy::is_wanted(request);
    let wait = waits.then(Wait::new).flatten();
    if waits && wait.is_none() {
        open(thread);
        return -i64::from(libc::EAGAIN);
    }
    thread.clients().each(|client| client.before_fork(thread));
    let child = copy_quiet_process(process, request);
    if child == 0 {
        vfork_copy::begin_child(wait, request);
        begin_child(process, thread, request);
    } else if child > 0 && request.has(libc::CLONE_PARENT_SETTID) {
        let _ = guarded::write(request.parent_tid, &(child as i32).to_le_bytes());
    }
    race_windows::widen();
    thread
        .clients()
        .each(|client| client.after_fork(thread, child));
    match wait {
        Some(wait) if child > 0 => wait.wait(thread.process),
        Some(wait) if child < 0 => wait.cancel(),
        _ => {}
    }
    open(thread);
    child
}

/// Copies the process while no other thread holds a lock of the engine's, so that the child finds
/// all of them free, and what they protect whole.
fn copy_quiet_process(process: &Process, request: &CloneRequest) -> i64 {
    let others_excluded = lock::exclude_others();
    process.code().lend();
    let child = copy_process(request);
    {
        let Translations {
            lending, regions, ..
        } = &mut *process.code();
        match child {
            0 => lending.begin_child(regions),
            1.. => lending.lent_to(Pid::of(child as i32)),
            _ => {}
        }
    }
    if child == 0 {
        others_excluded.end_in_child();
    }
    child
}

/// The thread is the child's only one.
fn begin_child(process: &'static Process, thread: &mut Thread, request: &CloneRequest) {
    process.thread_count.store(1, Ordering::Release);
    process.forked.store(1, Ordering::Release);
    // A thread that was ending the parent is not here to end this process.
    process.ending.store(0, Ordering::Release);
    thread.tid = Tid::own();
    thread.role = AddressSpaceRole::Process;
    thread.namespace = PidNamespace::OF_PROCESS;
    process.threads.lock().clear();
    crate::flush::forget_others();
    crate::detach::forget_others(thread);
    thread.clients().each(|client| client.copy_begins(process));
    list(process, thread);
    // Signals that wait for the parent are the parent's.
    thread.collect_signals();
    thread.delivery.forget();
    crate::signal_handling::shared::forget();
    crate::signals::directed::forget();
    if request.clears_handlers() {
        thread.actions.forget_handlers();
    }
    thread.robust_list = 0;
    thread.clear_tid = if request.has(libc::CLONE_CHILD_CLEARTID) {
        request.child_tid
    } else {
        0
    };
    if request.has(libc::CLONE_CHILD_SETTID) {
        let _ = guarded::write(request.child_tid, &thread.tid.get().to_le_bytes());
    }
    if request.stack != 0 {
        thread.set_register(gpr::RSP, request.stack);
    }
    if request.has(libc::CLONE_SETTLS) {
        // The trace is still the parent's; the child's begins with it.
        set_fs_base(process, thread, request.tls);
    }
}

/// The engine's memory is shared with nobody else, so the kernel makes a copy of it, and the
/// child goes on where its parent is. The C library's own `fork` leads there: it keeps the
/// engine's allocator usable in the child, and takes the stacks of the threads that are not
/// there for free ones.
fn copy_process(request: &CloneRequest) -> i64 {
    const NOWHERE: Places = Places {
        stack: (0, 0),
        parent_tid: 0,
        child_tid: 0,
        thread_pointer: 0,
    };
    let without = match vfork_copy::is_wanted(request) {
        true => libc::CLONE_VFORK,
        false => 0,
    };
    let mut call = request.kernel_call(0, without, NOWHERE);
    CALL.set(&raw mut call);
    // SAFETY: no other thread holds a lock of the engine's, the C library takes its own.
    let child = unsafe { libc::fork() };
    assert!(
        CALL.replace(std::ptr::null_mut()).is_null(),
        "the C library forks by `_Fork`"
    );
    if child < 0 {
        -i64::from(errno())
    } else {
        i64::from(child)
    }
}

thread_local! {
    /// How this thread is about to fork, if not in the usual way.
    static CALL: Cell<*mut KernelCall> = const { Cell::new(std::ptr::null_mut()) };
}

/// What the C library's `fork` calls between its own preparations and their end. It is the
/// only part that knows flags, and this one knows those that the program has given.
///
/// The allocator is locked meanwhile, so that nothing may be allocated here.
///
/// glibc keeps the thread's id in its control block. That it is there is looked at, because
/// only a convention says so.
///
/// # Safety
/// To be called by `fork` alone.
#[unsafe(no_mangle)]
unsafe extern "C" fn _Fork() -> libc::pid_t {
    let mut plain = KernelCall::plain_fork();
    // SAFETY: `copy_process` has set it to a call that lives until `fork` returns.
    let call = unsafe { CALL.replace(std::ptr::null_mut()).as_mut() }.unwrap_or(&mut plain);
    if let Some(word) = own_id_word() {
        call.keep_id_in(word);
    }
    // SAFETY: the child has a copy of the memory, and goes on here.
    let child = unsafe { raw_system_call(call.number, call.arguments()) };
    if child < 0 {
        // SAFETY: errno is this thread's.
        unsafe { *libc::__errno_location() = -child as i32 };
        return -1;
    }
    child as libc::pid_t
}

/// Where glibc keeps the id of the calling thread.
fn own_id_word() -> Option<u64> {
    const PLACE_OF_ID: u64 = 0x2d0;
    let word = thread_pointer() + PLACE_OF_ID;
    // SAFETY: the control block is larger on all versions of glibc.
    let id = unsafe { *(word as *const i32) };
    // A child that shares the memory runs with the block of one of its parent's threads.
    (id > 0).then_some(word)
}
