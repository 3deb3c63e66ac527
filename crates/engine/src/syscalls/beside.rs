//! A child process that shares its parent's memory for good (`CLONE_VM` without
//! `CLONE_THREAD` and `CLONE_VFORK`) and runs beside it.
//!
//! It needs an engine thread's state that nobody else uses. So a thread of the engine's is
//! started for it, which makes the child and waits: the child runs on that thread's stack and
//! thread-local memory until it exits or executes a program, while the program's own thread
//! goes on. In the trace it is a thread of its parent's.
//!
//! The thread does not wait as `vfork` does, which no debugger can stop: sanitizers look for
//! leaks in such a child, and stop all threads of their program before.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::mpsc::SyncSender;

use super::processes::{Request, Seed, errno, list};
use super::threads::set_program_fs;
use crate::process::Process;
use crate::signals::set_kernel_mask;
use crate::thread::{Place, Thread};
use crate::{dispatch, finish, guarded, start, trace};

/// What the child is given.
struct Beside {
    process: &'static Process,
    seed: Seed,
    announce: SyncSender<i64>,
}

/// Starts the child. Returns its process id, or minus an errno.
pub(super) fn start(process: &'static Process, thread: &mut Thread, request: &Request) -> i64 {
    let number = process.next_thread.fetch_add(1, Ordering::Relaxed) as u32;
    let mut seed = Seed::new(process, thread, request, number);
    if !request.has(libc::CLONE_SIGHAND) {
        seed.actions = std::sync::Arc::new(thread.actions.duplicate());
    }
    let request = *request;
    trace::thread_created(thread, number);
    let (announce, announced) = std::sync::mpsc::sync_channel(1);
    crate::signals::block_all();
    let spawned = std::thread::Builder::new()
        .stack_size(crate::instrument::thread_stack())
        .spawn(move || {
            let mut beside = Beside {
                process,
                seed,
                announce,
            };
            wait_for_child(&mut beside);
        });
    let result = match spawned {
        Ok(_detached) => announced.recv().unwrap_or(-i64::from(libc::EAGAIN)),
        Err(error) => -i64::from(error.raw_os_error().unwrap_or(libc::EAGAIN)),
    };
    if result < 0 {
        trace::thread_not_started(number);
    } else if request.has(libc::CLONE_PARENT_SETTID) {
        let _ = guarded::write(request.parent_tid, &(result as i32).to_le_bytes());
    }
    set_kernel_mask(thread.mask);
    result
}

/// What a child's word holds until the child has left the memory.
const HERE: u32 = 1;

/// Makes the child, and waits until it has left this thread's memory alone.
fn wait_for_child(beside: &mut Beside) {
    const STACK: usize = 512 << 10;
    let request = beside.seed.request;
    let mut stack: Vec<u128> = vec![0; STACK / 16];
    let handled = (libc::CLONE_CHILD_CLEARTID
        | libc::CLONE_CHILD_SETTID
        | libc::CLONE_PARENT_SETTID
        | libc::CLONE_SETTLS) as u64;
    let flags = request.flags & !handled | libc::CLONE_CHILD_CLEARTID as u64 | request.exit_signal;
    let word = AtomicU32::new(HERE);
    // SAFETY: the child runs on `stack`, which outlives its use of this memory, because this
    // thread waits until then.
    let child = unsafe {
        let top = stack.as_mut_ptr().add(stack.len());
        libc::clone(
            run,
            top.cast(),
            flags as u32 as i32,
            (&raw mut *beside).cast(),
            request.pid_file as *mut i32,
            std::ptr::null_mut::<libc::c_void>(),
            word.as_ptr(),
        )
    };
    if child > 0 {
        wait_until_left(&word, child);
        // It may have been killed.
        finish::leave_list(beside.process, child);
    } else {
        // The parent may be gone by now; nobody waits then.
        let _ = beside.announce.send(-i64::from(errno()));
    }
}

/// Waits until the kernel clears the word, as it does when the child exits or executes a
/// program. Some kernels leave it as it is where a core is dumped; then the child is gone
/// when its parent has heard of it.
fn wait_until_left(word: &AtomicU32, child: i32) {
    let a_second = libc::timespec {
        tv_sec: 1,
        tv_nsec: 0,
    };
    while word.load(Ordering::Acquire) == HERE {
        // SAFETY: the word lives as long as this call. The kernel wakes it as a shared one.
        let result = unsafe {
            libc::syscall(
                libc::SYS_futex,
                word.as_ptr(),
                libc::FUTEX_WAIT,
                HERE,
                &raw const a_second,
            )
        };
        // SAFETY: signal 0 only asks.
        if result != 0 && unsafe { libc::kill(child, 0) } != 0 && errno() == libc::ESRCH {
            return;
        }
    }
}

extern "C" fn run(argument: *mut libc::c_void) -> i32 {
    // SAFETY: `wait_for_child` passes this, and waits.
    let beside = unsafe { &mut *argument.cast::<Beside>() };
    let process = beside.process;
    let _stack = start::SignalStack::install();
    let mut thread = beside.seed.plant(process);
    thread.place = Place::Beside;
    Thread::set_current(&raw mut thread);
    list(process, &mut thread);
    trace::thread_starts(&mut thread, Some(beside.seed.parent));
    crate::instrument::thread_starts(&thread);
    let request = beside.seed.request;
    if request.has(libc::CLONE_CHILD_SETTID) {
        trace::memory_written(&mut thread, request.child_tid, 4);
        let _ = guarded::write(request.child_tid, &thread.tid.to_le_bytes());
    }
    set_program_fs(process, &mut thread, beside.seed.fs);
    // The parent may be gone by now; nobody waits then.
    let _ = beside.announce.send(i64::from(thread.tid));
    set_kernel_mask(thread.mask);
    let status = dispatch::run(&mut thread);
    if thread.place == Place::Process {
        // It has forked, and this is the new process.
        start::end_thread(process, &mut thread, status);
    } else {
        leave(process, &mut thread);
    }
    status
}

/// The child is about to exit or to execute a program.
pub(crate) fn leave(process: &Process, thread: &mut Thread) {
    crate::signals::block_all();
    super::announce_end(process, thread);
    trace::thread_ends(thread);
    crate::instrument::thread_ends(thread);
    finish::leave_list(process, thread.tid);
}
