//! New threads and processes.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::threads::set_program_fs;
use super::{Call, beside};
use crate::emit::gpr;
use crate::instrument::Instrumenter;
use crate::process::{Process, ThreadHandle};
use crate::signals::{actions, set_kernel_mask};
use crate::slots::{Slots, slots};
use crate::thread::{Place, Thread};
use crate::{dispatch, guarded, start, trace};

const FAULT: i64 = -(libc::EFAULT as i64);
const INVALID: i64 = -(libc::EINVAL as i64);

/// What `clone` was asked for, whatever form it was asked in.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Request {
    pub(super) flags: u64,
    /// Stack pointer of the child; 0 for the parent's.
    stack: u64,
    pub(super) parent_tid: u64,
    pub(super) child_tid: u64,
    pub(super) pid_file: u64,
    tls: u64,
    pub(super) exit_signal: u64,
}

impl Request {
    pub(super) fn has(&self, flag: i32) -> bool {
        self.flags & flag as u32 as u64 != 0
    }

    fn read(call: &Call) -> Result<Request, i64> {
        const SIGNAL_MASK: u64 = 0xff;
        const OLDEST_SIZE: u64 = 64;
        let [first, second, third, fourth, fifth, _] = call.arguments;
        match call.number as i64 {
            libc::SYS_fork => Ok(Request {
                exit_signal: libc::SIGCHLD as u64,
                ..Request::default()
            }),
            libc::SYS_vfork => Ok(Request {
                flags: (libc::CLONE_VM | libc::CLONE_VFORK) as u64,
                exit_signal: libc::SIGCHLD as u64,
                ..Request::default()
            }),
            libc::SYS_clone => Ok(Request {
                flags: first & !SIGNAL_MASK,
                stack: second,
                parent_tid: third,
                child_tid: fourth,
                pid_file: third,
                tls: fifth,
                exit_signal: first & SIGNAL_MASK,
            }),
            _ => {
                if second < OLDEST_SIZE {
                    return Err(INVALID);
                }
                let mut words = [0; 11];
                for (index, word) in words.iter_mut().enumerate() {
                    let at = index as u64 * 8;
                    if at < second {
                        *word = guarded::read_word(first + at).ok_or(FAULT)?;
                    }
                }
                let [
                    flags,
                    pid_file,
                    child_tid,
                    parent_tid,
                    exit_signal,
                    stack,
                    size,
                    tls,
                    _,
                    set_tid_size,
                    _,
                ] = words;
                if set_tid_size != 0 {
                    return Err(-i64::from(libc::EPERM));
                }
                let stack = if stack == 0 {
                    0
                } else {
                    stack.wrapping_add(size)
                };
                Ok(Request {
                    flags,
                    stack,
                    parent_tid,
                    child_tid,
                    pid_file,
                    tls,
                    exit_signal,
                })
            }
        }
    }
}

/// `clone`, `clone3`, `fork` and `vfork`.
#[inline(never)]
pub(super) fn clone(process: &'static Process, thread: &mut Thread, call: &Call) -> i64 {
    let request = match Request::read(call) {
        Ok(request) => request,
        Err(error) => return error,
    };
    match (
        request.has(libc::CLONE_VM),
        request.has(libc::CLONE_THREAD),
        request.has(libc::CLONE_VFORK),
    ) {
        (true, true, _) if thread.place != Place::Process => {
            crate::finish::say(
                "unspool: a process that shares its parent's memory asks for a thread of its own; \
                 it gets none, because this is not supported under observation",
            );
            -i64::from(libc::ENOSYS)
        }
        (true, true, _) => new_thread(process, thread, &request),
        (true, false, true) => vfork(thread, &request),
        (false, false, _) => fork(process, thread, &request),
        (true, false, false) => beside::start(process, thread, &request),
        (false, true, _) => INVALID,
    }
}

/// What a new thread starts with.
pub(super) struct Seed {
    registers: [u64; 16],
    flags: u64,
    pc: u64,
    vectors: crate::signals::frame::FullState,
    pub(super) fs: u64,
    mask: u64,
    number: u32,
    pub(super) request: Request,
    pub(super) actions: Arc<actions::Actions>,
    pub(super) parent: u32,
}

// SAFETY: plain data.
unsafe impl Send for Seed {}

impl Seed {
    /// The state of a thread that is like `thread`, as far as the request wants it so.
    pub(super) fn new(process: &Process, thread: &Thread, request: &Request, number: u32) -> Seed {
        // SAFETY: the slots belong to this thread, which is out of the cache.
        let own: &Slots = unsafe { &*thread.slots };
        let mut registers = own.registers;
        registers[usize::from(gpr::RAX)] = 0;
        if request.stack != 0 {
            registers[usize::from(gpr::RSP)] = request.stack;
        }
        Seed {
            registers,
            flags: own.flags,
            pc: own.pc,
            vectors: crate::signals::frame::FullState::capture(thread.slots, process.vectors),
            fs: if request.has(libc::CLONE_SETTLS) {
                request.tls
            } else {
                own.program_fs
            },
            mask: thread.mask,
            number,
            request: *request,
            actions: Arc::clone(&thread.actions),
            parent: thread.number,
        }
    }

    /// Gives the state to the thread that runs here.
    pub(super) fn plant(&mut self, process: &Process) -> Thread {
        let mut thread = Thread::new(self.number, self.mask, Arc::clone(&self.actions));
        crate::gates::initialise_vectors(thread.slots, process.vectors);
        // SAFETY: the slots belong to this thread.
        unsafe {
            (*thread.slots).registers = self.registers;
            (*thread.slots).flags = self.flags;
            (*thread.slots).pc = self.pc;
        }
        if self.request.has(libc::CLONE_CHILD_CLEARTID) {
            thread.clear_tid = self.request.child_tid;
        }
        self.vectors.install(thread.slots, process.vectors);
        thread
    }
}

fn new_thread(process: &'static Process, thread: &mut Thread, request: &Request) -> i64 {
    let number = process.next_thread.fetch_add(1, Ordering::Relaxed) as u32;
    let seed = Seed::new(process, thread, request, number);
    trace::thread_created(thread, number);
    process.thread_count.fetch_add(1, Ordering::AcqRel);
    let (announce, announced) = std::sync::mpsc::sync_channel(1);
    // The new thread must not take signals before it is ready for them.
    crate::signals::block_all();
    let spawned = std::thread::Builder::new()
        .stack_size(crate::instrument::thread_stack())
        .spawn(move || run_thread(process, seed, &announce));
    let result = match spawned {
        Ok(_detached) => announced.recv().map_or(-i64::from(libc::EAGAIN), i64::from),
        Err(error) => {
            process.thread_count.fetch_sub(1, Ordering::AcqRel);
            trace::thread_not_started(number);
            -i64::from(error.raw_os_error().unwrap_or(libc::EAGAIN))
        }
    };
    set_kernel_mask(thread.mask);
    result
}

fn run_thread(
    process: &'static Process,
    mut seed: Seed,
    announce: &std::sync::mpsc::SyncSender<i32>,
) {
    let _stack = start::SignalStack::install();
    let mut thread = seed.plant(process);
    let request = seed.request;
    Thread::set_current(&raw mut thread);
    list(process, &mut thread);
    trace::thread_starts(&mut thread, Some(seed.parent));
    crate::instrument::thread_starts(&thread);
    crate::debug::thread_starts(&thread);
    for (flag, place) in [
        (libc::CLONE_PARENT_SETTID, request.parent_tid),
        (libc::CLONE_CHILD_SETTID, request.child_tid),
    ] {
        if request.has(flag) {
            trace::memory_written(&mut thread, place, 4);
            let _ = guarded::write(place, &thread.tid.to_le_bytes());
        }
    }
    set_program_fs(process, &mut thread, seed.fs);
    // The parent may be gone by now; nobody waits then.
    let _ = announce.send(thread.tid);
    set_kernel_mask(thread.mask);
    let status = dispatch::run(&mut thread);
    start::end_thread(process, &mut thread, status);
}

/// Puts a thread on the list of threads that run program code.
pub(crate) fn list(process: &Process, thread: &mut Thread) {
    let handle = ThreadHandle {
        tid: thread.tid,
        process: std::process::id() as i32,
        thread,
    };
    process
        .threads
        .lock()
        .unwrap_or_else(std::sync::PoisonError::into_inner)
        .push(handle);
}

/// A child with a copy of the memory. Locks are held meanwhile, so that the child finds what
/// they protect whole.
fn fork(process: &'static Process, thread: &mut Thread, request: &Request) -> i64 {
    crate::signals::block_all();
    trace::before_fork(thread);
    crate::instrument::before_fork(thread);
    let child = {
        let mut code = process.code();
        crate::lending::before_fork(&mut code);
        let _break = process.program_break.lock();
        let mut threads = process
            .threads
            .lock()
            .unwrap_or_else(std::sync::PoisonError::into_inner);
        let _actions = thread.actions.freeze();
        let _trace = trace::freeze();
        let _tool = Instrumenter::get().map(Instrumenter::freeze);
        let child = fork_raw(request);
        crate::lending::after_fork(&mut code, child as i32);
        if child == 0 {
            // SAFETY: gettid has no preconditions.
            thread.tid = unsafe { libc::gettid() };
            threads.clear();
        }
        child
    };
    if child == 0 {
        process.thread_count.store(1, Ordering::Release);
        process.forked.store(1, Ordering::Release);
        // A thread that was ending the parent is not here to end this process.
        process.ending.store(0, Ordering::Release);
        thread.place = Place::Process;
        crate::flush::forget_others();
        crate::detach::forget_others(thread);
        crate::debug::after_fork(process);
        list(process, thread);
        thread.robust_list = 0;
        thread.clear_tid = if request.has(libc::CLONE_CHILD_CLEARTID) {
            request.child_tid
        } else {
            0
        };
        if request.has(libc::CLONE_CHILD_SETTID) {
            let _ = guarded::write(request.child_tid, &thread.tid.to_le_bytes());
        }
        if request.stack != 0 {
            thread.set_register(gpr::RSP, request.stack);
        }
        if request.has(libc::CLONE_SETTLS) {
            set_program_fs(process, thread, request.tls);
        }
    } else if child > 0 && request.has(libc::CLONE_PARENT_SETTID) {
        let _ = guarded::write(request.parent_tid, &(child as i32).to_le_bytes());
    }
    trace::after_fork(thread, child);
    if child == 0 {
        crate::instrument::after_fork(thread);
    } else {
        crate::instrument::after_fork_in_parent(thread, child);
    }
    set_kernel_mask(thread.mask);
    child
}

fn fork_raw(request: &Request) -> i64 {
    let handled = (libc::CLONE_CHILD_CLEARTID
        | libc::CLONE_CHILD_SETTID
        | libc::CLONE_PARENT_SETTID
        | libc::CLONE_SETTLS) as u64;
    let other_flags = request.flags & !handled;
    if other_flags == 0 && request.exit_signal == libc::SIGCHLD as u64 {
        // The C library's fork also keeps the engine's allocator usable in the child.
        // SAFETY: the engine's locks are held, the C library takes its own.
        let child = unsafe { libc::fork() };
        return if child < 0 {
            -i64::from(errno())
        } else {
            i64::from(child)
        };
    }
    // SAFETY: a copy of the address space; the stack continues.
    let child = unsafe {
        libc::syscall(
            libc::SYS_clone,
            other_flags | request.exit_signal,
            0,
            request.pid_file,
            0,
            0,
        )
    };
    if child < 0 {
        -i64::from(errno())
    } else {
        child
    }
}

pub(super) fn errno() -> i32 {
    std::io::Error::last_os_error()
        .raw_os_error()
        .unwrap_or(libc::EAGAIN)
}

/// What a child between `vfork` and `execve` is given.
struct VforkChild {
    thread: *const Thread,
    stack: u64,
}

/// A child that shares the memory while its parent's thread waits: a real one, so that
/// `posix_spawn` sees its child's errors. It runs on an engine stack of its own, with the
/// waiting thread's thread-local state.
// What it saves is large, and must not become part of every system call's frame.
#[inline(never)]
fn vfork(thread: &mut Thread, request: &Request) -> i64 {
    const STACK: usize = 256 << 10;
    let mut saved = Box::<Slots>::new_uninit();
    // SAFETY: the slots belong to this thread; they are plain data.
    let mut saved = unsafe {
        saved.as_mut_ptr().copy_from_nonoverlapping(thread.slots, 1);
        saved.assume_init()
    };
    let depth = crate::instrument::functions::depth();
    let mut stack: Vec<u128> = vec![0; STACK / 16];
    let mut child = VforkChild {
        thread,
        stack: request.stack,
    };
    let flags = libc::CLONE_VM | libc::CLONE_VFORK | request.exit_signal as i32;
    crate::signals::block_all();
    // SAFETY: the child runs on `stack`, which outlives it or its use of this memory, because
    // the kernel keeps this thread waiting until then.
    let pid = unsafe {
        let top = stack.as_mut_ptr().add(stack.len());
        libc::clone(run_vfork_child, top.cast(), flags, (&raw mut child).cast())
    };
    let result = if pid < 0 {
        -i64::from(errno())
    } else {
        i64::from(pid)
    };
    // SAFETY: as above; the child has left this memory. What it recorded stays.
    unsafe {
        saved.buffer = (*thread.slots).buffer;
        saved.clock = (*thread.slots).clock;
        saved.counters = (*thread.slots).counters;
        saved.buffers = (*thread.slots).buffers;
        saved.activations = (*thread.slots).activations;
        thread.slots.copy_from_nonoverlapping(&raw const *saved, 1);
    }
    crate::instrument::functions::forget_deeper(depth);
    Thread::set_current(thread);
    if result > 0 {
        // It may have been killed.
        crate::finish::leave_list(Process::get(), result as i32);
    }
    if result > 0 && request.has(libc::CLONE_PARENT_SETTID) {
        let _ = guarded::write(request.parent_tid, &(result as i32).to_le_bytes());
    }
    trace::forked(thread, result);
    set_kernel_mask(thread.mask);
    result
}

extern "C" fn run_vfork_child(argument: *mut libc::c_void) -> i32 {
    // SAFETY: `vfork` passes a `VforkChild` that lives while its thread waits.
    let (parent, stack) = unsafe {
        let child = &*argument.cast::<VforkChild>();
        (&*child.thread, child.stack)
    };
    let actions = Arc::new(parent.actions.duplicate());
    let mut thread = Thread::new(parent.number, parent.mask, actions);
    thread.place = Place::ParentsPlace;
    thread.trace = parent.trace;
    thread.alternate_stack = parent.alternate_stack;
    debug_assert_eq!(thread.slots, slots());
    Thread::set_current(&raw mut thread);
    thread.set_register(gpr::RAX, 0);
    if stack != 0 {
        thread.set_register(gpr::RSP, stack);
    }
    list(Process::get(), &mut thread);
    trace::vfork_child_starts(&mut thread);
    set_kernel_mask(thread.mask);
    let status = dispatch::run(&mut thread);
    if thread.place == Place::Process {
        // It has forked, and this is the new process.
        start::end_thread(Process::get(), &mut thread, status);
    } else {
        trace::vfork_child_leaves(&mut thread);
        crate::finish::leave_list(Process::get(), thread.tid);
    }
    status
}
