//! `seccomp` and `prctl(PR_SET_SECCOMP)`: the program puts itself under a filter.
//!
//! Errors are the kernel's, in its order (`seccomp_set_mode_filter`).

use std::sync::Arc;

use unspool_kernel::guarded;
use unspool_kernel::ids::{Pid, Tid};

use crate::call::Call;
use crate::process::Process;
use crate::seccomp::chain::{Filter, InKernel, Rule};
use crate::seccomp::kernel_copy::{kernel_copy, strict};
use crate::seccomp::program::{Instruction, MOST_INSTRUCTIONS, Program};
use crate::thread::Thread;

const INVALID: i64 = -(libc::EINVAL as i64);
const FAULT: i64 = -(libc::EFAULT as i64);
const NO_MEMORY: i64 = -(libc::ENOMEM as i64);
const NO_PERMISSION: i64 = -(libc::EACCES as i64);
const NO_SUCH_THREAD: i64 = -(libc::ESRCH as i64);

const TSYNC: u32 = 1;
const NEW_LISTENER: u32 = 1 << 3;
const TSYNC_ESRCH: u32 = 1 << 4;
/// Up to `WAIT_KILLABLE_RECV`.
const KNOWN_FLAGS: u32 = (1 << 6) - 1;

/// `struct sock_fprog`.
#[repr(C)]
#[derive(Debug)]
pub(super) struct FilterList {
    length: u16,
    first: *const Instruction,
}

/// `seccomp`.
pub(crate) fn seccomp(process: &Process, thread: &mut Thread, call: &Call) -> i64 {
    const SET_MODE_STRICT: u32 = 0;
    const SET_MODE_FILTER: u32 = 1;
    let [operation, flags, at, ..] = call.arguments;
    match (operation as u32, flags as u32) {
        (SET_MODE_STRICT, 0) if at == 0 => set_strict(process, thread),
        (SET_MODE_STRICT, _) => INVALID,
        (SET_MODE_FILTER, flags) => set_filter(process, thread, flags, at),
        _ => pass(process, call),
    }
}

/// `prctl(PR_SET_SECCOMP)`.
pub(crate) fn prctl(process: &Process, thread: &mut Thread, call: &Call) -> i64 {
    const MODE_STRICT: u64 = 1;
    const MODE_FILTER: u64 = 2;
    let [_, mode, at, ..] = call.arguments;
    match mode {
        MODE_STRICT => set_strict(process, thread),
        MODE_FILTER => set_filter(process, thread, 0, at),
        _ => INVALID,
    }
}

/// `SECCOMP_MODE_STRICT`. The kernel's own would stop the engine, and needs no permission: where
/// its stand-in does, the engine alone sees to it.
fn set_strict(process: &Process, thread: &mut Thread) -> i64 {
    if thread.filters.newest().is_some() {
        return INVALID;
    }
    process.code().persistence = None;
    let copy = kernel_copy(&strict(), false).is_some_and(|copy| ask_kernel(0, &copy) == 0);
    let in_kernel = InKernel {
        copy,
        listener: false,
    };
    let filter = Filter::new(Rule::Strict, in_kernel, None);
    thread.filters.set(Some(Arc::new(filter)));
    0
}

fn set_filter(process: &Process, thread: &mut Thread, flags: u32, at: u64) -> i64 {
    let (instructions, program) = match read(flags, at) {
        Ok(filter) => filter,
        Err(error) => return error,
    };
    let earlier = thread.filters.newest();
    let blind = program.looks_at_instruction_pointer();
    let copy = kernel_copy(&instructions, blind);
    let listener = flags & NEW_LISTENER != 0;
    if listener && (blind || copy.is_none()) {
        unspool_kernel::diagnostics::say(
            "unspool: a seccomp filter with a supervisor looks at the instruction pointer, or is \
             too long for what observation adds to it: this is not supported under observation",
        );
        return INVALID;
    }
    process.code().persistence = None;
    let in_kernel = InKernel {
        copy: !blind && copy.is_some(),
        listener,
    };
    let rule = Rule::Program(instructions, program);
    let filter = Arc::new(Filter::new(rule, in_kernel, earlier));
    let mut given = Given::default();
    if flags & TSYNC != 0
        && let Err(tid) = given.give(process, thread, &filter)
    {
        return match flags & TSYNC_ESRCH {
            0 => i64::from(tid.get()),
            _ => NO_SUCH_THREAD,
        };
    }
    let result = copy.map_or(0, |copy| hand_over(flags, &copy));
    match result {
        0.. => thread.filters.set(Some(filter)),
        _ => given.take_back(process),
    }
    result
}

/// Reads a filter and checks it, and whether the kernel would take one from this thread.
fn read(flags: u32, at: u64) -> Result<(Box<[Instruction]>, Program), i64> {
    // A list that cannot be read, so that everything that comes before reading is looked at.
    let unreadable = FilterList {
        length: 1,
        first: std::ptr::without_provenance(1),
    };
    let permitted = match flags & !KNOWN_FLAGS {
        0 => seccomp_call(flags, &unreadable),
        _ => INVALID,
    };
    if ![NO_PERMISSION, FAULT].contains(&permitted) {
        return Err(permitted);
    }
    let mut list = [0; size_of::<FilterList>()];
    if !guarded::read(at, &mut list) {
        return Err(FAULT);
    }
    let length = usize::from(u16::from_le_bytes([list[0], list[1]]));
    let first = u64::from_le_bytes(list[8..].try_into().expect("eight bytes"));
    if length == 0 || length > MOST_INSTRUCTIONS {
        return Err(INVALID);
    }
    if permitted == NO_PERMISSION {
        return Err(NO_PERMISSION);
    }
    if first == 0 {
        return Err(INVALID);
    }
    let mut bytes = vec![0; length * size_of::<Instruction>()];
    if !guarded::read(first, &mut bytes) {
        return Err(FAULT);
    }
    let instructions = Instruction::list(&bytes);
    let program = Program::check(&instructions).ok_or(INVALID)?;
    Ok((instructions, program))
}

/// Gives the kernel its copy.
fn hand_over(flags: u32, copy: &[Instruction]) -> i64 {
    const PATIENCE: u32 = 100;
    const A_MOMENT: std::time::Duration = std::time::Duration::from_millis(1);
    let result = ask_kernel(flags, copy);
    if flags & TSYNC == 0 || flags & NEW_LISTENER != 0 || result == 0 || result == NO_MEMORY {
        return result;
    }
    // The program's threads agree. One that does not has ended, and is about to leave the kernel,
    // or is the engine's: then the kernel judges this thread alone, and the engine all.
    for _ in 0..PATIENCE {
        std::thread::sleep(A_MOMENT);
        let result = ask_kernel(flags, copy);
        if result == 0 || result == NO_MEMORY {
            return result;
        }
    }
    ask_kernel(flags & !(TSYNC | TSYNC_ESRCH), copy)
}

/// Puts this thread under a filter in the kernel.
pub(super) fn ask_kernel(flags: u32, filter: &[Instruction]) -> i64 {
    seccomp_call(flags, &list(filter))
}

/// What names a filter, for as long as that is where it is.
pub(super) fn list(filter: &[Instruction]) -> FilterList {
    FilterList {
        length: filter.len() as u16,
        first: filter.as_ptr(),
    }
}

/// Whether the kernel would take a filter from this thread.
pub(super) fn is_permitted() -> bool {
    let unreadable = FilterList {
        length: 1,
        first: std::ptr::without_provenance(1),
    };
    seccomp_call(0, &unreadable) == FAULT
}

fn seccomp_call(flags: u32, list: &FilterList) -> i64 {
    const SET_MODE_FILTER: u32 = 1;
    // SAFETY: the kernel reads the list and what it names. The engine's own calls pass.
    let result = unsafe {
        libc::syscall(
            libc::SYS_seccomp,
            SET_MODE_FILTER,
            flags,
            std::ptr::from_ref(list),
        )
    };
    match result {
        0.. => result,
        _ => {
            let error = std::io::Error::last_os_error().raw_os_error();
            -i64::from(error.unwrap_or(libc::EINVAL))
        }
    }
}

/// Threads that were put under another thread's filters, and what they were under before.
#[derive(Default)]
struct Given(Vec<(Tid, Option<Arc<Filter>>)>);

impl Given {
    /// Puts all other threads of the process under `filter`, a new one of `giver`'s, unless one
    /// has filters that the giver does not have: then returns that thread's id.
    fn give(&mut self, process: &Process, giver: &Thread, filter: &Arc<Filter>) -> Result<(), Tid> {
        let threads = process.threads.lock();
        let own = Pid::own();
        let others = || {
            threads
                .iter()
                .filter(|handle| handle.namespace == giver.namespace && handle.process == own)
                .filter(|handle| handle.tid != giver.tid)
                .map(|handle| {
                    // SAFETY: the thread lives while it is listed, and the list is locked. Its
                    // filters are made to be changed from here.
                    let filters = unsafe {
                        let filters = &raw const (*handle.thread).filters;
                        &*filters
                    };
                    (handle.tid, filters)
                })
        };
        for (tid, filters) in others() {
            let fits = filters
                .newest()
                .is_none_or(|theirs| filter.descends_from(&theirs));
            if !fits {
                return Err(tid);
            }
        }
        for (tid, filters) in others() {
            self.0.push((tid, filters.newest()));
            filters.set(Some(Arc::clone(filter)));
        }
        Ok(())
    }

    /// The kernel did not agree.
    fn take_back(self, process: &Process) {
        let threads = process.threads.lock();
        for (tid, former) in self.0 {
            if let Some(handle) = threads.iter().find(|handle| handle.tid == tid) {
                // SAFETY: as in `give`.
                unsafe { (*handle.thread).filters.set(former) };
            }
        }
    }
}

/// A new thread is listed: a filter that its parent was given meanwhile is its own, too. The
/// parent waits and installs none itself.
pub(crate) fn catch_up(process: &Process, thread: &Thread, parent: &crate::seccomp::ThreadFilters) {
    let _threads = process.threads.lock();
    thread.filters.set(parent.newest());
}

/// Lets the kernel do it.
fn pass(process: &Process, call: &Call) -> i64 {
    // SAFETY: the call is the program's own, and only asks about filters or is refused.
    unsafe { process.gates.call_kernel(call.number, &call.arguments) }
}
