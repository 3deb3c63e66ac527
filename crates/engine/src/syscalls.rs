//! System calls. Most are the kernel's business and pass through; here are those that
//! touch what engine and program share: memory, threads, signals, the executable's name.

mod clone_request;
mod code_writes;
mod contents;
mod execute;
mod execute_arguments;
mod files;
mod fork;
mod interrupted;
mod memory;
mod moving;
mod namespace;
mod pointers;
mod processes;
mod protection;
mod queues;
mod relative_waits;
mod sending;
mod shared_memory_child;
mod signals;
mod start_child;
mod stopping;
mod threads;
mod vfork;
mod vfork_copy;
mod vsyscall;
mod waiting;

use unspool_code_cache::emit::gpr;
use unspool_code_cache::gates::RESTART;

use self::interrupted::Attempt;
use self::pointers::Shielded;
use crate::process::Process;
use crate::thread::{RestartedCall, Thread};
use crate::{code_pages, seccomp};

pub use clone_request::KernelCall;
pub use code_writes::memory_written;
pub(crate) use interrupted::{Interrupted, handler_comes};
pub use memory::whole_pages;
pub(crate) use processes::list as list_thread;
pub(crate) use relative_waits::{RelativeWait, TimeLeft};
pub(crate) use shared_memory_child::leave as leave_beside;
pub use start_child::start_child;
pub(crate) use threads::{announce_end, set_program_fs};
pub(crate) use vfork_copy::vfork_locks;
pub(crate) use vsyscall::enter as enter_vsyscall;

/// Bytes of the `syscall` instruction.
pub const SYSCALL_LENGTH: u64 = 2;

/// What becomes of a system call.
pub(crate) enum Outcome {
    /// It returned this.
    Return(i64),
    /// It set the program's registers itself.
    RegistersSet,
}

/// One system call of the program.
#[derive(Debug, Clone, Copy)]
pub struct Call {
    /// Its number.
    pub number: u64,
    /// rdi, rsi, rdx, r10, r8, r9.
    pub arguments: [u64; 6],
}

/// The registers of its arguments.
pub(crate) const ARGUMENTS: [u8; 6] = [gpr::RDI, gpr::RSI, gpr::RDX, 10, 8, 9];

/// Whether what a system call returns is no error.
pub fn succeeded(result: i64) -> bool {
    !(-4095..0).contains(&result)
}

/// What the program asks for where it stands at a system call: number and arguments.
fn asked(thread: &Thread) -> (u64, [u64; 6]) {
    // The kernel takes no more of the number.
    let number = i64::from(thread.register(gpr::RAX) as i32) as u64;
    (number, ARGUMENTS.map(|number| thread.register(number)))
}

/// Executes the system call at the end of which the thread stands.
pub(crate) fn system_call(process: &'static Process, thread: &mut Thread) {
    if thread.is_pending() {
        // What came before the call comes before it to the program, too.
        thread.set_pc(thread.pc() - SYSCALL_LENGTH);
        return;
    }
    let asked = asked(thread);
    let mut call = Call {
        number: asked.0,
        arguments: asked.1,
    };
    // What the processor does on `syscall`.
    let flags = thread.slots().flags.get();
    thread.set_register(gpr::RCX, thread.pc());
    thread.set_register(11, flags);
    enter_tool(thread, &mut call);
    thread
        .clients()
        .each(|client| client.call_begins(thread, &call));
    let mut attempt = Attempt::begin(thread, asked, &call);
    let result = match dispatch(process, thread, &call, &mut attempt) {
        Outcome::Return(result) => Some(result),
        Outcome::RegistersSet => None,
    };
    let restart = result.is_some_and(|it| it == RESTART || interrupted_by_engine(thread, it));
    let result = match restart {
        true => result,
        false => result.map(|result| attempt.end(result)),
    };
    let mut in_place = false;
    for client in thread.clients().iter() {
        in_place |= client.call_over(thread, result, restart);
    }
    let Some(mut result) = result.filter(|_| !in_place) else {
        thread.clients().each(|client| client.call_left(thread));
        return;
    };
    if restart {
        // A signal came first: after its handler the call is made again.
        remember(thread, asked, &call);
        attempt.keep(thread, &call, result);
        thread.set_pc(thread.pc() - SYSCALL_LENGTH);
        thread
            .clients()
            .each(|client| client.call_ends(thread, &call, -i64::from(libc::EINTR)));
        return;
    }
    thread
        .clients()
        .each(|client| client.call_result(thread, &call, &mut result));
    thread.set_register(gpr::RAX, result as u64);
    for client in thread.clients().iter() {
        client.call_returned(thread, &call, result);
        client.call_ends(thread, &call, result);
    }
}

/// Tells a tool of the call, unless it has seen it begin already.
fn enter_tool(thread: &mut Thread, call: &mut Call) {
    let place = (thread.pc(), thread.register(gpr::RSP));
    let asked = (call.number, call.arguments);
    let mut all = thread.restarted_calls.iter();
    match all.rposition(|cut| cut.place == place && cut.asked == asked) {
        Some(known) => {
            (call.number, call.arguments) = thread.restarted_calls[known].made;
            // Later ones were those of handlers that are over.
            thread.restarted_calls.truncate(known);
        }
        None => thread
            .clients()
            .each(|client| client.call_asked(thread, call)),
    }
}

/// The call is to be made again, which a client that it was asked of need not see.
fn remember(thread: &mut Thread, asked: (u64, [u64; 6]), call: &Call) {
    /// Handlers that are left by other ways than their ends leave calls behind.
    const MOST: usize = 16;
    if thread.clients().is_empty() {
        return;
    }
    if thread.restarted_calls.len() == MOST {
        thread.restarted_calls.remove(0);
    }
    thread.restarted_calls.push(RestartedCall {
        place: (thread.pc(), thread.register(gpr::RSP)),
        asked,
        made: (call.number, call.arguments),
    });
}

/// Whether a system call was cut short only because the engine wanted the thread to come out:
/// the program must not see that.
fn interrupted_by_engine(thread: &mut Thread, result: i64) -> bool {
    result == -i64::from(libc::EINTR) && thread.is_pending() && !thread.has_signal()
}

fn dispatch(
    process: &'static Process,
    thread: &mut Thread,
    call: &Call,
    attempt: &mut Attempt,
) -> Outcome {
    if let Some(outcome) = seccomp::enforce::judge(process, thread, call) {
        return outcome;
    }
    match pointers::shield(call) {
        Shielded::Same => make(process, thread, &attempt.for_kernel(call)),
        Shielded::Changed(changed, _lists) => make(process, thread, &attempt.for_kernel(&changed)),
        Shielded::Failed(error) => Outcome::Return(error),
    }
}

fn make(process: &'static Process, thread: &mut Thread, call: &Call) -> Outcome {
    use Outcome::Return;
    match call.number as i64 {
        libc::SYS_mmap => Return(memory::map(process, call, thread.pc())),
        libc::SYS_munmap => Return(memory::unmap(process, call)),
        libc::SYS_mprotect | libc::SYS_pkey_mprotect => Return(protection::protect(process, call)),
        libc::SYS_mremap => Return(moving::remap(process, call)),
        libc::SYS_brk => Return(memory::set_break(process, call)),
        SYS_MSEAL => Return(protection::seal(process, call)),
        libc::SYS_shmat => Return(memory::attach(process, call)),
        libc::SYS_shmdt => Return(memory::detach(process, call)),
        libc::SYS_exit => threads::exit(thread, call),
        libc::SYS_exit_group => crate::finish::end_process(thread, call.arguments[0] as i32),
        libc::SYS_clone | libc::SYS_clone3 | libc::SYS_fork | libc::SYS_vfork => {
            Return(processes::clone(process, thread, call))
        }
        libc::SYS_execve | libc::SYS_execveat => Return(execute::execute(process, thread, call)),
        libc::SYS_arch_prctl => Return(threads::arch_prctl(process, thread, call)),
        libc::SYS_set_tid_address => Return(threads::set_tid_address(process, thread, call)),
        libc::SYS_set_robust_list => {
            thread.robust_list = call.arguments[0];
            Return(pass(process, call))
        }
        // glibc does without where the kernel lacks it; the engine's own threads use it.
        SYS_RSEQ => Return(-i64::from(libc::ENOSYS)),
        libc::SYS_prctl => Return(threads::prctl(process, thread, call)),
        libc::SYS_ptrace => Return(stopping::trace(process, thread, call)),
        libc::SYS_seccomp => Return(seccomp::install::seccomp(process, thread, call)),
        libc::SYS_rt_sigaction => Return(signals::set_action(thread, call)),
        libc::SYS_rt_sigprocmask => Return(signals::set_mask(thread, call)),
        libc::SYS_sigaltstack => Return(signals::set_alternate_stack(thread, call)),
        libc::SYS_rt_sigreturn if crate::signals::deliver::return_from_handler(thread) => {
            Outcome::RegistersSet
        }
        libc::SYS_memfd_create => Return(files::make_memory(process, call)),
        libc::SYS_sendmsg | libc::SYS_sendmmsg => Return(files::send(process, call)),
        libc::SYS_rt_sigreturn => Return(RESTART),
        libc::SYS_rt_sigpending => Return(waiting::pending(process, thread, call)),
        libc::SYS_rt_sigtimedwait => Return(waiting::wait_for(process, thread, call)),
        libc::SYS_signalfd | libc::SYS_signalfd4 => Return(waiting::watch(process, call)),
        libc::SYS_kill
        | libc::SYS_tkill
        | libc::SYS_tgkill
        | libc::SYS_rt_sigqueueinfo
        | libc::SYS_rt_tgsigqueueinfo => Return(sending::send(process, thread, call)),
        libc::SYS_timer_create => Return(sending::make_timer(process, call)),
        libc::SYS_rt_sigsuspend
        | libc::SYS_ppoll
        | libc::SYS_pselect6
        | libc::SYS_epoll_pwait
        | waiting::SYS_EPOLL_PWAIT2
        | waiting::SYS_IO_PGETEVENTS => Return(match waiting::waits_with(call) {
            Some(mask) => waiting::wait_with_mask(process, thread, call, mask),
            None => pass(process, call),
        }),
        _ if waiting::may_read_signals(thread, call) => {
            Return(waiting::with_exact_mask(process, thread, call, !0))
        }
        libc::SYS_close => Return(files::close(process, call)),
        libc::SYS_close_range => Return(files::close_range(process, call)),
        libc::SYS_dup2 | libc::SYS_dup3 => Return(files::duplicate(process, call)),
        libc::SYS_write
        | libc::SYS_pwrite64
        | libc::SYS_writev
        | libc::SYS_pwritev
        | libc::SYS_pwritev2 => {
            let result = pass(process, call);
            code_writes::file_written(process, call, result);
            Return(result)
        }
        libc::SYS_fallocate
        | libc::SYS_ftruncate
        | libc::SYS_truncate
        | libc::SYS_sendfile
        | libc::SYS_copy_file_range
        | libc::SYS_splice => {
            let result = pass(process, call);
            contents::file_written(process, call, result);
            Return(result)
        }
        libc::SYS_madvise => Return(contents::advise(process, call)),
        libc::SYS_process_madvise => Return(contents::advise_many(process, call)),
        libc::SYS_remap_file_pages => Return(moving::remap_file(process, call)),
        libc::SYS_io_uring_setup => Return(queues::set_up(process, call)),
        libc::SYS_io_uring_enter => Return(queues::enter(process, call)),
        libc::SYS_io_uring_register => Return(queues::register(process, call)),
        libc::SYS_io_submit => Return(queues::submit(process, call)),
        libc::SYS_process_vm_writev => {
            let result = pass(process, call);
            code_writes::memory_copied(process, call, result);
            Return(result)
        }
        libc::SYS_openat2
        | libc::SYS_creat
        | libc::SYS_pidfd_getfd
        | libc::SYS_recvmsg
        | libc::SYS_recvmmsg => {
            code_writes::note_descriptor(call);
            let result = pass(process, call);
            contents::opened(process, call, result);
            Return(result)
        }
        libc::SYS_userfaultfd => {
            code_pages::serve_later();
            Return(pass(process, call))
        }
        libc::SYS_readlink
        | libc::SYS_readlinkat
        | libc::SYS_open
        | libc::SYS_openat
        | libc::SYS_stat
        | libc::SYS_newfstatat
        | libc::SYS_statx
        | libc::SYS_access
        | libc::SYS_faccessat => Return(files::by_path(process, call)),
        _ => Return(pass(process, call)),
    }
}

const SYS_RSEQ: i64 = 334;

/// Missing in the C library's headers.
const SYS_MSEAL: i64 = 462;

/// Makes a call that the program has not asked for, and no filter of the program's judges.
///
/// # Safety
/// The call must be one that leaves engine memory alone, and returns in this thread.
pub(crate) unsafe fn own_call(number: i64, arguments: [u64; 6]) -> i64 {
    let [a, b, c, d, e, f] = arguments;
    // SAFETY: as the caller promises.
    let result = unsafe { libc::syscall(number, a, b, c, d, e, f) };
    match result {
        -1 => {
            let error = std::io::Error::last_os_error().raw_os_error();
            -i64::from(error.unwrap_or(libc::EINVAL))
        }
        _ => result,
    }
}

/// Lets the kernel do it.
pub(crate) fn pass(process: &Process, call: &Call) -> i64 {
    let _rest = process.clients.rest();
    let written = code_writes::begin(process, call);
    // SAFETY: the call is the program's own, on the program's memory; calls that could
    // touch the engine are handled before.
    let result = unsafe { process.gates.call_kernel(call.number, &call.arguments) };
    if code_writes::end(process, &written, result) {
        // SAFETY: as above.
        return unsafe { process.gates.call_kernel(call.number, &call.arguments) };
    }
    result
}
