//! Executing another program: it gets the probe too, although the environment does not name it,
//! and what was counted until then is told.
//!
//! A child of `vfork` or `posix_spawn` executes in its parent's memory, while other threads of
//! the parent may hold any lock: nothing is allocated here, and no lock taken.

use std::ffi::{CStr, c_char, c_int};
use std::sync::OnceLock;

use crate::environment::{Given, PRELOAD, find};
use crate::errno;
use crate::passage::{EntryPoint, Hook, ResultPlace};
use crate::{installed, readable};

static GIVEN: OnceLock<&'static Given> = OnceLock::new();

type Strings = *const *const c_char;

/// The functions of the C library by which programs are executed, and what is in their place.
pub(crate) fn entries() -> [(&'static str, EntryPoint); 3] {
    let entry = |function, integers| EntryPoint {
        function,
        integers,
        result: ResultPlace::Integer,
    };
    [
        ("execve", entry(on_execve as *const (), 3)),
        ("fexecve", entry(on_fexecve as *const (), 3)),
        ("execveat", entry(on_execveat as *const (), 5)),
    ]
}

/// Says what children are to be given.
pub(crate) fn follow(given: &'static Given) {
    let _ = GIVEN.set(given);
}

unsafe extern "C-unwind" fn on_execve(
    path: *const c_char,
    arguments: Strings,
    environment: Strings,
    hook: &'static Hook,
) -> c_int {
    type Execve = unsafe extern "C-unwind" fn(*const c_char, Strings, Strings) -> c_int;
    // SAFETY: the hook is that of `execve`, and these are its arguments.
    unsafe {
        let execve: Execve = std::mem::transmute(hook.original);
        execute(libc::AT_FDCWD, path, environment, |environment| {
            execve(path, arguments, environment)
        })
    }
}

unsafe extern "C-unwind" fn on_fexecve(
    file: c_int,
    arguments: Strings,
    environment: Strings,
    hook: &'static Hook,
) -> c_int {
    type Fexecve = unsafe extern "C-unwind" fn(c_int, Strings, Strings) -> c_int;
    // SAFETY: as above.
    unsafe {
        let fexecve: Fexecve = std::mem::transmute(hook.original);
        execute(file, c"".as_ptr(), environment, |environment| {
            fexecve(file, arguments, environment)
        })
    }
}

unsafe extern "C-unwind" fn on_execveat(
    directory: c_int,
    path: *const c_char,
    arguments: Strings,
    environment: Strings,
    flags: c_int,
    hook: &'static Hook,
) -> c_int {
    type Execveat =
        unsafe extern "C-unwind" fn(c_int, *const c_char, Strings, Strings, c_int) -> c_int;
    // SAFETY: as above.
    unsafe {
        let execveat: Execveat = std::mem::transmute(hook.original);
        execute(directory, path, environment, |environment| {
            execveat(directory, path, arguments, environment, flags)
        })
    }
}

/// Executes a file by one of these functions, as another program with the probe in it if the file
/// can be executed at all.
///
/// # Safety
/// Path and environment must be what `execve` takes.
unsafe fn execute(
    directory: c_int,
    path: *const c_char,
    environment: Strings,
    by: impl FnOnce(Strings) -> c_int,
) -> c_int {
    // SAFETY: the caller's.
    unsafe {
        let errno = errno::errno();
        if !readable::is_list(environment) || !can_execute(directory, path) {
            errno::set_errno(errno);
            return by(environment);
        }
        installed::end_for_another_program();
        with_probe(environment, by)
    }
}

/// Whether a file can be executed, as far as can be told: shells and `execvp` try one after the
/// other.
///
/// # Safety
/// The path must be what `execve` takes: a string, or what the system finds to be none.
unsafe fn can_execute(directory: c_int, path: *const c_char) -> bool {
    // SAFETY: the caller's; the kernel fills the buffer.
    unsafe {
        let errno = errno::errno();
        let is_found = libc::faccessat(directory, path, libc::X_OK, 0) == 0;
        // Unless the system says so, the path may be no string at all.
        let is_missing = !is_found && errno::errno() == libc::ENOENT;
        let is_descriptor = is_missing && *path == 0;
        if !is_found && !is_descriptor {
            errno::set_errno(errno);
            return false;
        }
        let file = match *path {
            0 => libc::dup(directory),
            _ => libc::openat(
                directory,
                path,
                libc::O_RDONLY | libc::O_CLOEXEC | libc::O_NONBLOCK,
            ),
        };
        // What may only be executed cannot be looked at.
        let mut can = true;
        if file >= 0 {
            let mut head = [0u8; 4];
            let read = libc::pread(file, head.as_mut_ptr().cast(), head.len(), 0);
            can = read < 0 || head == *b"\x7fELF" || head.starts_with(b"#!");
            libc::close(file);
        }
        errno::set_errno(errno);
        can
    }
}

/// Executes with an environment that names the probe.
///
/// # Safety
/// The environment must be what `execve` takes.
unsafe fn with_probe(environment: Strings, execute: impl FnOnce(Strings) -> c_int) -> c_int {
    let Some(given) = GIVEN.get() else {
        return execute(environment);
    };
    // SAFETY: the caller's; strings and arrays of pointers are written only where there is room.
    unsafe {
        let preload = find(environment.cast_mut().cast(), PRELOAD);
        let theirs = preload.map(|place| CStr::from_ptr(*place).to_bytes_with_nul());
        let count = count(environment);
        let text_bytes = theirs.map_or(0, |text| text.len() + given.preload.as_bytes().len());
        let Some(room) = Room::new((count + 3) * size_of::<*const c_char>() + text_bytes) else {
            // Without memory the system would refuse to execute as well.
            errno::set_errno(libc::ENOMEM);
            return -1;
        };
        let array = room.start.cast::<*const c_char>();
        let text = array.add(count + 3).cast::<c_char>();
        let mut filled = 0;
        for index in 0..count {
            let place = environment.add(index);
            if preload.is_none_or(|preload| preload.cast_const().cast() != place) {
                *array.add(filled) = *place;
                filled += 1;
            }
        }
        let own = given.preload.as_bytes();
        *array.add(filled) = given.preload.as_ptr();
        if let Some(theirs) = theirs {
            std::ptr::copy_nonoverlapping(own.as_ptr().cast(), text, own.len());
            *text.add(own.len()) = b':' as c_char;
            let rest = &theirs[PRELOAD.len()..];
            let to = text.add(own.len() + 1);
            std::ptr::copy_nonoverlapping(rest.as_ptr().cast(), to, rest.len());
            *array.add(filled) = text;
        }
        *array.add(filled + 1) = given.settings.as_ptr();
        *array.add(filled + 2) = std::ptr::null();
        let result = execute(array);
        let errno = errno::errno();
        drop(room);
        errno::set_errno(errno);
        result
    }
}

/// # Safety
/// A null must end the array, if there is one.
unsafe fn count(strings: Strings) -> usize {
    let mut count = 0;
    // SAFETY: the caller's.
    while !strings.is_null() && unsafe { !(*strings.add(count)).is_null() } {
        count += 1;
    }
    count
}

/// Memory of its own. In a child that shares its parent's, and executes, it stays there.
struct Room {
    start: *mut u8,
    size: usize,
}

impl Room {
    fn new(size: usize) -> Option<Room> {
        // SAFETY: new memory.
        let start = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                size,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_PRIVATE | libc::MAP_ANONYMOUS,
                -1,
                0,
            )
        };
        (start != libc::MAP_FAILED).then(|| Room {
            start: start.cast(),
            size,
        })
    }
}

impl Drop for Room {
    fn drop(&mut self) {
        // SAFETY: the memory is this one's, and its use is over.
        unsafe { libc::munmap(self.start.cast(), self.size) };
    }
}
