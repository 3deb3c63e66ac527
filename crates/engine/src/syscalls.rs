//! System calls. Most are the kernel's business and pass through; here are those that
//! touch what engine and program share: memory, threads, signals, the executable's name.

mod code_writes;
mod contents;
mod execute;
mod execute_arguments;
mod files;
mod fork;
mod judge;
mod limits;
mod memory;
mod moving;
mod namespace;
mod new_thread;
mod pages;
mod pointers;
mod processes;
mod protection;
mod queues;
mod sending;
mod shared_memory_child;
mod signals;
mod stopping;
mod threads;
mod vfork;
mod vsyscall;
mod waiting;

use unspool_code_cache::emit::gpr;
use unspool_code_cache::gates::RESTART;

use self::pointers::Shielded;
use crate::call::waits::{self, waits_with};
use crate::call::{Call, Outcome, SYSCALL_LENGTH};
use crate::process::Process;
use crate::restarting::{self, Attempt};
use crate::thread::{RestartedCall, Thread};
use crate::{filters, served_memory};

pub use code_writes::memory_written;
pub(crate) use new_thread::list as list_thread;
pub use pages::whole_pages;
pub use sending::give_signal;
pub(crate) use threads::set_program_fs;
pub(crate) use vsyscall::enter as enter_vsyscall;

/// How a thread of the program is run until it exits, with its status: what a call does in the
/// thread that it has started.
pub(crate) type Run = fn(&mut Thread) -> i32;

/// Executes the system call at the end of which the thread stands.
pub(crate) fn system_call(process: &'static Process, thread: &mut Thread, run: Run) {
    if thread.is_pending() {
        // What came before the call comes before it to the program, too.
        thread.set_pc(thread.pc() - SYSCALL_LENGTH);
        return;
    }
    let asked = restarting::asked(thread);
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
    let result = match dispatch(process, thread, (&call, &mut attempt), run) {
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
    (call, attempt): (&Call, &mut Attempt),
    run: Run,
) -> Outcome {
    if let Some(outcome) = judge::judge(process, thread, call) {
        return outcome;
    }
    match pointers::shield(call) {
        Shielded::Same => make(process, thread, &attempt.for_kernel(call), run),
        Shielded::Changed(changed, _lists) => {
            make(process, thread, &attempt.for_kernel(&changed), run)
        }
        Shielded::Failed(error) => Outcome::Return(error),
    }
}

fn make(process: &'static Process, thread: &mut Thread, call: &Call, run: Run) -> Outcome {
    use Outcome::Return;
    match call.number as i64 {
        libc::SYS_mmap => Return(memory::map(process, call, thread.pc())),
        libc::SYS_munmap => Return(memory::unmap(process, call)),
        libc::SYS_mprotect | libc::SYS_pkey_mprotect => Return(protection::protect(process, call)),
        libc::SYS_mremap => Return(moving::remap(process, call)),
        libc::SYS_setrlimit | libc::SYS_prlimit64 => Return(limits::set(process, call)),
        libc::SYS_brk => Return(memory::set_break(process, call)),
        SYS_MSEAL => Return(protection::seal(process, call)),
        libc::SYS_shmat => Return(memory::attach(process, call)),
        libc::SYS_shmdt => Return(memory::detach(process, call)),
        libc::SYS_exit => threads::exit(thread, call),
        libc::SYS_exit_group => crate::finish::end_process(thread, call.arguments[0] as i32),
        libc::SYS_clone | libc::SYS_clone3 | libc::SYS_fork | libc::SYS_vfork => {
            Return(processes::clone(process, thread, call, run))
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
        libc::SYS_seccomp => Return(filters::install::seccomp(process, thread, call)),
        libc::SYS_rt_sigaction => Return(signals::set_action(thread, call)),
        libc::SYS_rt_sigprocmask => Return(signals::set_mask(thread, call)),
        libc::SYS_sigaltstack => Return(signals::set_alternate_stack(thread, call)),
        libc::SYS_rt_sigreturn if crate::signal_handling::deliver::return_from_handler(thread) => {
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
        | waits::SYS_EPOLL_PWAIT2
        | waits::SYS_IO_PGETEVENTS => Return(match waits_with(call) {
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
            served_memory::serve_later();
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
