//! System calls that change what is in memory without a write to it: memory is discarded, or the
//! file behind it is written, punched or cut. Code that was translated there is stale.
//!
//! To ask of each write whether its file is one that code comes from takes a system call. So that
//! is done only once such a file has been open for writing here. What other processes write to
//! files is looked for in shared mappings only: see [`crate::code_pages`].

use std::ffi::OsString;
use std::ops::Range;
use std::os::unix::ffi::OsStringExt;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

use unspool_kernel::file_identity::FileIdentity;
use unspool_kernel::guarded;
use unspool_kernel::queued_writes::vectors;
use unspool_kernel::regions::Object;

use super::pages::whole_pages;
use super::pass;
use crate::call::Call;
use crate::code_pages;
use crate::process::{Process, Translations};

/// Whether some file has been opened for writing, or a descriptor has come from elsewhere.
static OPENED: AtomicBool = AtomicBool::new(false);
/// Whether code may come from a file that can be written here.
static WRITABLE_CODE: AtomicBool = AtomicBool::new(false);

/// `madvise`.
pub(super) fn advise(process: &Process, call: &Call) -> i64 {
    let [address, size, advice, ..] = call.arguments;
    let result = pass(process, call);
    if changes_content(advice) {
        // Where it fails, it may have done a part.
        discarded(&mut process.code(), whole_pages(address, size));
    }
    result
}

/// `process_madvise`, whose process may be this one.
pub(super) fn advise_many(process: &Process, call: &Call) -> i64 {
    let [_, array, count, advice, ..] = call.arguments;
    let result = pass(process, call);
    if changes_content(advice) {
        for range in vectors(array, count) {
            let range = whole_pages(range.start, range.end - range.start);
            discarded(&mut process.code(), range);
        }
    }
    result
}

/// Whether advice is more than that. Memory that may be freed keeps its content until it is: then
/// nobody can rely on it.
fn changes_content(advice: u64) -> bool {
    const DONTNEED_LOCKED: i32 = 24;
    const GUARD_INSTALL: i32 = 102;
    const GUARD_REMOVE: i32 = 103;
    let advice = advice as i32;
    matches!(
        advice,
        libc::MADV_DONTNEED
            | libc::MADV_FREE
            | libc::MADV_REMOVE
            | libc::MADV_HWPOISON
            | libc::MADV_SOFT_OFFLINE
            | DONTNEED_LOCKED
            | GUARD_INSTALL
            | GUARD_REMOVE
    )
}

fn discarded(code: &mut Translations, range: Range<u64>) {
    if code_pages::may_be_code(code, &range) {
        code_pages::contents_changed(code, range);
    }
}

/// A file is about to be mapped as code: finds out whether it may be written.
pub(super) fn mapped_as_code(file: i32, object: Object) {
    if is_writable(file) || is_open_for_writing(object) {
        WRITABLE_CODE.store(true, Ordering::Relaxed);
    }
}

/// Mappings of files became executable.
pub(super) fn became_code(objects: &[Object]) {
    if objects.iter().any(|&object| is_open_for_writing(object)) {
        WRITABLE_CODE.store(true, Ordering::Relaxed);
    }
}

fn is_writable(file: i32) -> bool {
    // SAFETY: asks for the flags of a descriptor.
    let flags = unsafe { libc::fcntl(file, libc::F_GETFL) };
    flags >= 0 && flags & libc::O_ACCMODE != libc::O_RDONLY
}

/// Whether the process has a descriptor by which a file can be written.
fn is_open_for_writing(object: Object) -> bool {
    if !OPENED.load(Ordering::Relaxed) {
        return false;
    }
    let Ok(files) = std::fs::read_dir("/proc/self/fd") else {
        // It cannot be told.
        return true;
    };
    let names = files.filter_map(|file| file.ok()?.file_name().into_string().ok());
    let mut numbers = names.filter_map(|name| name.parse().ok());
    numbers.any(|file| {
        let is_it = |known: FileIdentity| known.object == object;
        is_writable(file) && FileIdentity::open(file).is_some_and(is_it)
    })
}

/// A descriptor has come from elsewhere, or is that of new memory.
pub(super) fn descriptor_came() {
    OPENED.store(true, Ordering::Relaxed);
}

/// A file was opened, if that has succeeded: for writing, and perhaps emptied.
pub(super) fn opened(process: &Process, call: &Call, result: i64) {
    let flags = match call.number as i64 {
        libc::SYS_creat => libc::O_WRONLY,
        libc::SYS_open => call.arguments[1] as i32,
        libc::SYS_openat => call.arguments[2] as i32,
        libc::SYS_openat2 => guarded::read_word(call.arguments[2]).unwrap_or(0) as i32,
        _ => return,
    };
    if result < 0 || flags & (libc::O_ACCMODE | libc::O_TRUNC) == libc::O_RDONLY {
        return;
    }
    OPENED.store(true, Ordering::Relaxed);
    let file = FileIdentity::open(result as i32);
    let mut code = process.code();
    if let Some(file) = file
        && code.regions.is_code_of(file.object)
    {
        WRITABLE_CODE.store(true, Ordering::Relaxed);
        file_changed(&mut code, file.object);
    }
}

/// A call that may have written to a file is over.
pub(super) fn file_written(process: &Process, call: &Call, result: i64) {
    if result < 0 || !WRITABLE_CODE.load(Ordering::Relaxed) {
        return;
    }
    let [first, _, third, ..] = call.arguments;
    let written = match call.number as i64 {
        libc::SYS_truncate => file_at(first),
        libc::SYS_copy_file_range | libc::SYS_splice => FileIdentity::open(third as i32),
        _ => FileIdentity::open(first as i32),
    };
    if let Some(file) = written {
        file_changed(&mut process.code(), file.object);
    }
}

fn file_at(path: u64) -> Option<FileIdentity> {
    const LONGEST: usize = 4096;
    let path = OsString::from_vec(guarded::read_string(path, LONGEST)?);
    FileIdentity::at(Path::new(&path))
}

fn file_changed(code: &mut Translations, object: Object) {
    for range in code.regions.code_of(object) {
        code_pages::contents_changed(code, range);
    }
}
