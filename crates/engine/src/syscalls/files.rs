//! Files: the program sees its own executable where the kernel would show the engine's,
//! and cannot close what the engine has open.

use std::ffi::CString;
use std::os::unix::ffi::OsStrExt;

use unspool_kernel::file_identity::FileIdentity;
use unspool_kernel::guarded;

use super::{contents, pass};
use crate::call::Call;
use crate::own_files::own_files;
use crate::process::{Process, Translations};

const BAD_FILE: i64 = -(libc::EBADF as i64);

/// `close`.
pub(super) fn close(process: &Process, call: &Call) -> i64 {
    if is_protected(process, call.arguments[0]) {
        BAD_FILE
    } else {
        pass(process, call)
    }
}

fn is_protected(process: &Process, file: u64) -> bool {
    i32::try_from(file).is_ok_and(|file| own_files(process).contains(&file))
}

/// `memfd_create`: memory that only this process has until it gives it away.
pub(super) fn make_memory(process: &Process, call: &Call) -> i64 {
    let result = pass(process, call);
    if let Some(file) = i32::try_from(result).ok().and_then(FileIdentity::open) {
        process.code().lending.made(file.object);
        contents::descriptor_came();
    }
    result
}

/// `sendmsg` and `sendmmsg`, which may give descriptors to another process.
pub(super) fn send(process: &Process, call: &Call) -> i64 {
    const MESSAGE: u64 = size_of::<libc::mmsghdr>() as u64;
    let several = call.number as i64 == libc::SYS_sendmmsg;
    let count = if several {
        call.arguments[2] & 0xffff_ffff
    } else {
        1
    };
    // The kernel takes no more at once.
    for number in 0..count.min(1024) {
        let given = descriptors_in(call.arguments[1] + number * MESSAGE);
        if !given.is_empty() {
            let Translations {
                lending,
                regions,
                cache,
                ..
            } = &mut *process.code();
            lending.give_away((regions, cache), &given);
        }
    }
    pass(process, call)
}

/// The descriptors in the control data of the message whose header is at an address.
fn descriptors_in(header: u64) -> Vec<i32> {
    const CONTROL: u64 = std::mem::offset_of!(libc::msghdr, msg_control) as u64;
    const LENGTH: u64 = std::mem::offset_of!(libc::msghdr, msg_controllen) as u64;
    /// The kernel refuses more.
    const LONGEST: u64 = 64 << 10;
    const HEADER: usize = 16;
    let word = |offset| guarded::read_word(header.wrapping_add(offset));
    let (Some(control @ 1..), Some(length @ 16..=LONGEST)) = (word(CONTROL), word(LENGTH)) else {
        return Vec::new();
    };
    let mut data = vec![0; length as usize];
    if !guarded::read(control, &mut data) {
        return Vec::new();
    }
    let number =
        |at: usize| i32::from_ne_bytes([data[at], data[at + 1], data[at + 2], data[at + 3]]);
    let (mut found, mut at) = (Vec::new(), 0);
    while at + HEADER <= data.len() {
        let (size, level, kind) = (number(at) as u32 as usize, number(at + 8), number(at + 12));
        let end = at.saturating_add(size).min(data.len());
        if (level, kind) == (libc::SOL_SOCKET, libc::SCM_RIGHTS) {
            let places = (at + HEADER..end)
                .step_by(4)
                .filter(|place| place + 4 <= end);
            found.extend(places.map(number));
        }
        at += size.max(HEADER).next_multiple_of(8);
    }
    found
}

/// `close_range`, in pieces around the engine's files.
pub(super) fn close_range(process: &Process, call: &Call) -> i64 {
    let [first, last, flags, ..] = call.arguments;
    let mut kept: Vec<u64> = own_files(process).iter().map(|&file| file as u64).collect();
    kept.sort_unstable();
    let mut from = first;
    for file in kept {
        if (from..=last).contains(&file) {
            if from < file {
                let result = pass(
                    process,
                    &Call {
                        arguments: [from, file - 1, flags, 0, 0, 0],
                        ..*call
                    },
                );
                if result < 0 {
                    return result;
                }
            }
            from = file + 1;
        }
    }
    if from > last && from > first {
        return 0;
    }
    pass(
        process,
        &Call {
            arguments: [from, last, flags, 0, 0, 0],
            ..*call
        },
    )
}

/// `dup2` and `dup3`: what is in the way of the program moves.
pub(super) fn duplicate(process: &Process, call: &Call) -> i64 {
    if is_protected(process, call.arguments[1]) {
        BAD_FILE
    } else {
        pass(process, call)
    }
}

/// Calls that take a path: `/proc/self/exe` means the program's executable.
pub(super) fn by_path(process: &Process, call: &Call) -> i64 {
    let by_directory = matches!(
        call.number as i64,
        libc::SYS_readlinkat
            | libc::SYS_openat
            | libc::SYS_newfstatat
            | libc::SYS_statx
            | libc::SYS_faccessat
    );
    let place = usize::from(by_directory);
    super::code_writes::note_descriptor(call);
    if !names_own_executable(call.arguments[place]) {
        let result = pass(process, call);
        contents::opened(process, call, result);
        return result;
    }
    let executable = process.executable.as_os_str().as_bytes();
    let link = matches!(
        call.number as i64,
        libc::SYS_readlink | libc::SYS_readlinkat
    );
    if link {
        let size = call.arguments[place + 2].min(executable.len() as u64) as usize;
        if (call.arguments[place + 2] as i32) <= 0 {
            return -i64::from(libc::EINVAL);
        }
        let written = guarded::write(call.arguments[place + 1], &executable[..size]);
        return if written {
            size as i64
        } else {
            -i64::from(libc::EFAULT)
        };
    }
    let Ok(path) = CString::new(executable) else {
        return pass(process, call);
    };
    let mut arguments = call.arguments;
    arguments[place] = path.as_ptr() as u64;
    pass(process, &Call { arguments, ..*call })
}

/// Whether a path in program memory is a name for `/proc/self/exe`.
pub(super) fn names_own_executable(path: u64) -> bool {
    const PREFIX: [u8; 6] = *b"/proc/";
    let mut start = [0; PREFIX.len()];
    if !guarded::read(path, &mut start) || start != PREFIX {
        return false;
    }
    let Some(text) = guarded::read_string(path, 64) else {
        return false;
    };
    let Some(owner) = text
        .strip_prefix(b"/proc/")
        .and_then(|rest| rest.strip_suffix(b"/exe"))
    else {
        return false;
    };
    owner == b"self"
        || owner == b"thread-self"
        || owner == std::process::id().to_string().as_bytes()
}
