//! New programs: `execve` and `execveat`.

use std::ffi::{CStr, CString, OsString};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;

use unspool_kernel::descriptors::copy_to_stay;
use unspool_kernel::raw_call::raw_system_call;
use unspool_loader::ExecutableKind;

use super::{execute_arguments, files};
use crate::call::Call;
use crate::client::Ending;
use crate::filters::succession;
use crate::process::Process;
use crate::signal_handling::{deliver, open, shared};
use crate::signals::{SYNCHRONOUS, actions, set_exact_mask};
use crate::thread::{AddressSpaceRole, Thread};
use crate::{detach, plan};

const FAULT: i64 = -(libc::EFAULT as i64);
const INVALID: i64 = -(libc::EINVAL as i64);
const NOT_FOUND: i64 = -(libc::ENOENT as i64);
/// Asks whether a file would be executed.
const AT_EXECVE_CHECK: u64 = 0x1_0000;

/// `execve` and `execveat`. Until the kernel has the new program, nothing is given up that a
/// failure would need: other threads run on or can go on, and dispositions stay.
#[inline(never)]
pub(super) fn execute(process: &Process, thread: &mut Thread, call: &Call) -> i64 {
    let Named { path, found_at } = match read_name(process, call) {
        Ok(named) => named,
        Err(error) => return error,
    };
    if is_question(call) {
        // SAFETY: the call changes nothing.
        return unsafe { process.gates.call_kernel(call.number, &call.arguments) };
    }
    if let Err(error) = unspool_loader::can_open(&found_at) {
        return -i64::from(error.errno());
    }
    let place = usize::from(by_directory(call));
    let [arguments, environment] = [1, 2].map(|behind| call.arguments[place + behind]);
    let length = path.as_os_str().len();
    let strings = match execute_arguments::read(length, arguments, environment) {
        Ok(strings) => strings,
        Err(error) => return error,
    };
    let kind = match unspool_loader::check(&found_at) {
        Ok(kind) => kind,
        Err(error) => return -i64::from(error.errno()),
    };
    let closes = closes_on_execute(&found_at);
    if closes && by_directory(call) && matches!(kind, ExecutableKind::Script { .. }) {
        // Its interpreter would not find it.
        return NOT_FOUND;
    }
    let is_child =
        thread.role != AddressSpaceRole::Process || process.forked.load(Ordering::Acquire) != 0;
    let native = runs_natively(&kind)
        || detach::is_to_be_traced(thread)
        || process.plan.leave_children && is_child && may_be_left(thread);
    let name = |path: &Path| CString::new(path.as_os_str().as_bytes());
    let (Ok(program), Ok(found)) = (name(&path), name(&found_at)) else {
        return INVALID;
    };
    let mut carried = None;
    let (file, arguments) = if native {
        (found, strings.arguments.clone())
    } else {
        if closes || path != found_at {
            carried = open_to_stay(&found);
        }
        let inherited = plan::InheritedSignals {
            mask: thread.delivery.mask(),
            ignored: thread.actions.ignored(),
        };
        let mut own = vec![c"unspool".to_owned()];
        own.extend(succession::encode(thread));
        let open = carried.as_ref().map(AsRawFd::as_raw_fd);
        own.extend(plan::continuation(open, inherited));
        // `is_child`: the user has started another process than this.
        let clients = process.clients.iter();
        let clients = clients.filter_map(|client| client.plan_for_next(is_child));
        let clients: Vec<_> = clients.collect();
        own.push(super::memory::plan_for_next(process).encode(&clients));
        own.push(program);
        own.extend(strings.arguments.iter().cloned());
        (c"/proc/self/exe".to_owned(), own)
    };
    let gives_up = thread.clients().iter().any(|client| client.concludes());
    if gives_up && let Some(error) = refusal(&file, [&arguments, &strings.environment]) {
        return error;
    }
    thread
        .clients()
        .each(|client| client.executes(thread, &path, &strings.arguments));
    crate::signals::block_all();
    let ending = match native {
        true => Ending::AnotherProgram,
        false => Ending::ObservedProgram,
    };
    let left = crate::finish::conclude(thread, ending);
    detach::become_traced(thread);
    let result = replace(
        process,
        thread,
        &file,
        [&arguments, &strings.environment],
        native,
    );
    drop(carried);
    detach::after_failed_execute(process, thread, -result as i32);
    crate::finish::take_back(process, thread, left);
    open(thread);
    result
}

/// What the kernel would say if it were to start the program, as far as it can be asked before
/// trace and tool are told of the end (since Linux 6.14): all but a lack of memory at the last
/// moment.
fn refusal(file: &CStr, lists: [&[CString]; 2]) -> Option<i64> {
    let [arguments, environment] = lists.map(pointers);
    let call = [
        libc::AT_FDCWD as u64,
        file.as_ptr() as u64,
        arguments.as_ptr() as u64,
        environment.as_ptr() as u64,
        AT_EXECVE_CHECK,
    ];
    // SAFETY: the lists end with null and their strings live until the call returns, which changes
    // nothing.
    let answer = unsafe { raw_system_call(libc::SYS_execveat, call) };
    // Without the question the kernel knows no such flag, or no such call.
    let is_answer = answer < 0 && ![INVALID, -i64::from(libc::ENOSYS)].contains(&answer);
    is_answer.then_some(answer)
}

/// A list as the kernel wants it.
fn pointers(strings: &[CString]) -> Vec<*const libc::c_char> {
    let strings = strings.iter().map(|string| string.as_ptr());
    strings.chain([std::ptr::null()]).collect()
}

/// Has the kernel start the program. Returns only if it does not.
///
/// Another engine is told of mask and dispositions, and is to get what is pending itself: signals
/// stay blocked. A program that runs without one inherits them from the kernel. A signal that is
/// pending then comes first, and the call is made again.
fn replace(
    process: &Process,
    thread: &mut Thread,
    file: &CStr,
    lists: [&[CString]; 2],
    native: bool,
) -> i64 {
    let [argv, envp] = lists.map(pointers);
    let number = libc::SYS_execve as u64;
    let call = [
        file.as_ptr() as u64,
        argv.as_ptr() as u64,
        envp.as_ptr() as u64,
    ];
    if !native {
        // What was taken for the program meanwhile waits in the kernel for the next image.
        thread.collect_signals();
        shared::take(thread, !0);
        let kept = thread.delivery.pending() & SYNCHRONOUS;
        set_exact_mask(!SYNCHRONOUS | kept);
        deliver::give_back(thread, !0);
        let [first, second, third] = call;
        // SAFETY: the lists end with null and their strings live until the call returns.
        let result = unsafe { raw_system_call(number as i64, [first, second, third, 0, 0]) };
        crate::signals::block_all();
        return result;
    }
    if let Err(error) = succession::leave_to_kernel(thread) {
        return -i64::from(error);
    }
    let hidden = actions::hidden_ignored(&thread.actions);
    // Translated code must not run where the faults that it needs are ignored. A child that shares
    // its parent's memory has dispositions of its own, and would leave its parent stopped.
    let shares_them = hidden != 0 && thread.role == AddressSpaceRole::Process;
    let stopped = shares_them.then(|| crate::flush::stop_others(Some(thread.process)));
    actions::ignore(hidden);
    set_exact_mask(thread.delivery.mask());
    shared::take(thread, thread.delivery.mask());
    deliver::give_back(thread, thread.delivery.mask());
    let [first, second, third] = call;
    // SAFETY: as above.
    let result = unsafe {
        process
            .gates
            .call_kernel(number, &[first, second, third, 0, 0, 0])
    };
    crate::signals::block_all();
    actions::reinstall(&thread.actions, hidden);
    drop(stopped);
    result
}

/// Whether a child may run natively: the kernel must be able to judge its calls.
fn may_be_left(thread: &Thread) -> bool {
    let possible = succession::can_be_left(thread);
    if !possible {
        unspool_kernel::diagnostics::say(
            "unspool: a child is observed all the same: it is under a seccomp filter that the \
             kernel does not take once more, or for which a supervisor answers",
        );
    }
    possible
}

fn runs_natively(kind: &ExecutableKind) -> bool {
    match kind {
        ExecutableKind::Elf64 { .. } => false,
        ExecutableKind::Elf32 { .. } => true,
        ExecutableKind::Script { runs, .. } => runs_natively(runs),
    }
}

/// What is to be executed.
struct Named {
    /// The program's file, as the kernel calls it.
    path: PathBuf,
    /// Where it is, if not there.
    found_at: PathBuf,
}

fn by_directory(call: &Call) -> bool {
    call.number as i64 == libc::SYS_execveat
}

/// Whether the kernel is only asked whether it would execute something.
fn is_question(call: &Call) -> bool {
    by_directory(call) && call.arguments[4] & AT_EXECVE_CHECK != 0
}

fn read_name(process: &Process, call: &Call) -> Result<Named, i64> {
    const LONGEST_PATH: usize = 4096;
    let by_directory = by_directory(call);
    let place = usize::from(by_directory);
    let name_at = call.arguments[place];
    let name = execute_arguments::read_text(name_at, LONGEST_PATH).ok_or(FAULT)?;
    if name.len() == LONGEST_PATH {
        return Err(-i64::from(libc::ENAMETOOLONG));
    }
    let mut path = PathBuf::from(OsString::from_vec(name));
    let mut found_at = None;
    if files::names_own_executable(name_at) {
        path.clone_from(&process.executable);
    } else if by_directory {
        let flags = call.arguments[4] as i32;
        let empty = path.as_os_str().is_empty();
        if empty && flags & libc::AT_EMPTY_PATH == 0 {
            return Err(NOT_FOUND);
        }
        let directory = call.arguments[0] as i32;
        if !path.is_absolute() && directory != libc::AT_FDCWD {
            let below = |parent: &str| match empty {
                true => PathBuf::from(format!("{parent}/{directory}")),
                false => Path::new(&format!("{parent}/{directory}")).join(&path),
            };
            found_at = Some(below(DESCRIPTORS));
            path = below("/dev/fd");
        }
        let is_link = |path: &Path| {
            path.symlink_metadata()
                .is_ok_and(|facts| facts.is_symlink())
        };
        let refused = flags & libc::AT_SYMLINK_NOFOLLOW != 0 && !empty;
        if refused && is_link(found_at.as_deref().unwrap_or(&path)) {
            return Err(-i64::from(libc::ELOOP));
        }
    }
    if path.as_os_str().is_empty() {
        return Err(NOT_FOUND);
    }
    Ok(Named {
        found_at: found_at.unwrap_or_else(|| path.clone()),
        path,
    })
}

const DESCRIPTORS: &str = "/proc/self/fd";

/// Whether a path leads through a descriptor that is closed when another program begins.
fn closes_on_execute(path: &Path) -> bool {
    let mut rest = [DESCRIPTORS, "/dev/fd"]
        .into_iter()
        .find_map(|folder| path.strip_prefix(folder).ok())
        .into_iter()
        .flatten();
    let number = rest
        .next()
        .and_then(|number| number.to_str()?.parse::<i32>().ok());
    // SAFETY: asks for the flags of a descriptor.
    let flags = number.map(|number| unsafe { libc::fcntl(number, libc::F_GETFD) });
    flags.is_some_and(|flags| flags >= 0 && flags & libc::FD_CLOEXEC != 0)
}

/// A descriptor of a file that the next program in this process still has.
fn open_to_stay(path: &CString) -> Option<OwnedFd> {
    // SAFETY: opens a file; the descriptor is nobody else's.
    let opened = unsafe {
        let opened = libc::open(path.as_ptr(), libc::O_PATH | libc::O_CLOEXEC);
        (opened >= 0).then(|| OwnedFd::from_raw_fd(opened))
    }?;
    copy_to_stay(&opened)
}
