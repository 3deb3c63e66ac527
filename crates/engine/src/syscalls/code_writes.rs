//! The kernel's writes to code of the program's.
//!
//! Pages whose code was translated are write-protected where the program may write them, so the
//! kernel would find a bad pointer, or stop in the middle. They are released before the call, and
//! not watched as long as it lasts: code that is run there meanwhile is looked at each time. What
//! the kernel writes whatever the protection (`/proc/self/mem`) makes translations stale behind
//! the call.

use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering};

use unspool_kernel::effects::{Completeness, planned_effects};
use unspool_kernel::guarded;
use unspool_kernel::own_process::is_own;

use super::contents;
use crate::call::Call;
use crate::code_pages;
use crate::process::Process;
use crate::served_memory;

/// Whether a descriptor may be one of `/proc/PID/mem`.
static MEMORY_FILES: AtomicBool = AtomicBool::new(false);

/// What a call may write.
pub(super) enum Written {
    /// Nothing that matters here.
    Nothing,
    /// These ranges, in which there may be code. They are not watched.
    Code(Vec<Range<u64>>),
    /// That is not known.
    Unknown,
}

/// A call is about to be made: releases the pages that it may write. What is returned is for
/// [`end`].
pub(super) fn begin(process: &Process, call: &Call) -> Written {
    if !code_pages::are_watched() {
        return Written::Nothing;
    }
    let mut effects = Vec::new();
    let completeness = planned_effects(call.number, call.arguments, &guarded::read, &mut effects);
    let written = effects.iter().filter(|effect| effect.write);
    let mut ranges: Vec<Range<u64>> = written
        .map(|effect| effect.address..effect.address.saturating_add(effect.size))
        .collect();
    if call.number as i64 == libc::SYS_process_vm_writev && is_own(call.arguments[0]) {
        ranges.extend(remote_ranges(call, u64::MAX));
    }
    if is_futex(call) {
        let words = [call.arguments[0], call.arguments[4]];
        ranges.extend(words.map(|word| word..word.saturating_add(4)));
    }
    if !ranges.is_empty() {
        let mut code = process.code();
        ranges.retain(|range| code_pages::may_be_code(&code, range));
        for range in &ranges {
            code_pages::begin_write(&mut code, range.clone());
        }
    }
    match completeness {
        _ if !ranges.is_empty() => Written::Code(ranges),
        Completeness::Complete if !is_futex(call) => Written::Nothing,
        Completeness::Complete => Written::Unknown,
        Completeness::Unknown => Written::Unknown,
    }
}

/// Whether a call is about a futex: the kernel wants to be able to write to the page of one, also
/// where it only reads it.
fn is_futex(call: &Call) -> bool {
    /// `futex_waitv`, and `futex_wake` to `futex_requeue`.
    const NEWER: [i64; 4] = [449, 454, 455, 456];
    let number = call.number as i64;
    number == libc::SYS_futex || NEWER.contains(&number)
}

/// The call is over. Whether it is to be made again: of a call that is not known, it turns out
/// only now that it writes to a page which only the engine has protected.
pub(super) fn end(process: &Process, written: &Written, result: i64) -> bool {
    match written {
        Written::Nothing => false,
        Written::Code(ranges) => {
            let mut code = process.code();
            for range in ranges {
                code_pages::end_write(&mut code, range);
            }
            false
        }
        Written::Unknown => {
            result == -i64::from(libc::EFAULT)
                && code_pages::release(&mut process.code(), 0..u64::MAX)
        }
    }
}

/// A file is about to be opened, or a descriptor comes from elsewhere.
pub(super) fn note_descriptor(call: &Call) {
    let number = call.number as i64;
    let path = match number {
        libc::SYS_open | libc::SYS_creat => call.arguments[0],
        libc::SYS_openat | libc::SYS_openat2 => call.arguments[1],
        _ => 0,
    };
    let from_elsewhere = matches!(
        number,
        libc::SYS_pidfd_getfd | libc::SYS_recvmsg | libc::SYS_recvmmsg | libc::SYS_io_uring_setup
    );
    if from_elsewhere {
        contents::descriptor_came();
        // It may be that of a file system which this process serves.
        served_memory::serve_later();
    }
    let path = if path == 0 {
        None
    } else {
        guarded::read_string(path, LONGEST_PATH)
    };
    if from_elsewhere || path.as_deref().is_some_and(may_be_memory) {
        MEMORY_FILES.store(true, Ordering::Relaxed);
    }
    if path.as_deref().is_some_and(is_file_server) {
        served_memory::serve_later();
    }
}

const LONGEST_PATH: usize = 4096;

/// Whether a path is that of the device by which a process serves a file system (FUSE).
fn is_file_server(path: &[u8]) -> bool {
    path.starts_with(b"/dev/") && (path.ends_with(b"fuse") || path.ends_with(b"cuse"))
}

/// Whether a path can lead to `/proc/PID/mem`: by its name, or by a link in `/proc/self/fd`.
fn may_be_memory(path: &[u8]) -> bool {
    path.ends_with(b"mem") || path.windows(4).any(|part| part == b"/fd/")
}

/// A call that writes to a file is over. Where the file is this process's memory, translations
/// of what it holds are stale.
pub(super) fn file_written(process: &Process, call: &Call, result: i64) {
    contents::file_written(process, call, result);
    if let Some(range) = memory_written(call, result) {
        forget(process, range);
    }
}

/// What a call that is over has written of this process's memory, if it has written to the file
/// that this is.
pub fn memory_written(call: &Call, result: i64) -> Option<Range<u64>> {
    if result <= 0 || !MEMORY_FILES.load(Ordering::Relaxed) {
        return None;
    }
    let [file, _, _, offset, ..] = call.arguments;
    let at_offset = match call.number as i64 {
        libc::SYS_pwrite64 | libc::SYS_pwritev => true,
        libc::SYS_pwritev2 => offset as i64 != -1,
        libc::SYS_write | libc::SYS_writev => false,
        _ => return None,
    };
    if !is_own_memory(file as i32) {
        return None;
    }
    let start = if at_offset {
        offset
    } else {
        // SAFETY: asks for the position of a descriptor.
        let position = unsafe { libc::lseek64(file as i32, 0, libc::SEEK_CUR) };
        (position as u64).wrapping_sub(result as u64)
    };
    Some(start..start.saturating_add(result as u64))
}

/// `process_vm_writev` is over.
pub(super) fn memory_copied(process: &Process, call: &Call, result: i64) {
    if result > 0 && is_own(call.arguments[0]) {
        for range in remote_ranges(call, result as u64) {
            forget(process, range);
        }
    }
}

/// The kernel has written code whatever its protection.
fn forget(process: &Process, range: Range<u64>) {
    code_pages::contents_changed(&mut process.code(), range);
}

/// What the first `limit` bytes are that `process_vm_writev` writes.
fn remote_ranges(call: &Call, mut limit: u64) -> Vec<Range<u64>> {
    const MOST: u64 = 1024;
    let [_, _, _, array, count, _] = call.arguments;
    let mut ranges = Vec::new();
    for index in 0..count.min(MOST) {
        let at = array.wrapping_add(index * 16);
        let (Some(base), Some(size)) = (guarded::read_word(at), guarded::read_word(at + 8)) else {
            break;
        };
        let size = size.min(limit);
        ranges.push(base..base.saturating_add(size));
        limit -= size;
    }
    ranges
}

/// Whether a descriptor is one of this process's memory. A parent's, which a forked child has
/// inherited, shows another path.
fn is_own_memory(file: i32) -> bool {
    const PROC_SUPER_MAGIC: i64 = 0x9fa0;
    // SAFETY: all fields are integers.
    let mut facts: libc::statfs = unsafe { std::mem::zeroed() };
    // SAFETY: the kernel writes one structure, and that is what it gets.
    let known = unsafe { libc::fstatfs(file, &raw mut facts) } == 0;
    if !known || facts.f_type != PROC_SUPER_MAGIC {
        return false;
    }
    let target = std::fs::read_link(format!("/proc/self/fd/{file}")).unwrap_or_default();
    let target = target.to_string_lossy().into_owned();
    let own = format!("/{}/", std::process::id());
    target.ends_with("/mem") && target.contains(&own)
}
