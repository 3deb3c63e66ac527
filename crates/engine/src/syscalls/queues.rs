//! `io_uring` and `io_submit`: what the kernel may write for them into pages with code.

use std::ops::Range;

use unspool_kernel::guarded;
use unspool_kernel::queued_writes::{PARAMETERS_SIZE, REQUESTS_OFFSET, vectors, written_by_iocb};

use super::pages::whole_pages;
use super::pass;
use crate::call::Call;
use crate::code_pages;
use crate::process::{Process, Translations};

/// `io_uring_setup`.
pub(super) fn set_up(process: &Process, call: &Call) -> i64 {
    let result = pass(process, call);
    if result >= 0 {
        let mut parameters = [0; PARAMETERS_SIZE];
        let mut code = process.code();
        if guarded::read(call.arguments[1], &mut parameters) {
            code.queues.add(result as i32, &parameters);
        } else {
            code.queues.be_blind();
        }
        stop_watching_if_blind(&mut code);
    }
    result
}

/// A file's memory was mapped: it may be that of a ring.
pub(super) fn mapped(code: &mut Translations, file: i32, offset: u64, address: u64) {
    if code.queues.mapped(file, offset, address) && is_ring(file) {
        code.queues.be_blind();
        stop_watching_if_blind(code);
    }
}

/// Whether a mapping can be one of a ring.
pub(super) fn may_be_ring(code: &Translations, offset: u64) -> bool {
    offset == REQUESTS_OFFSET || code.queues.has_rings()
}

fn is_ring(file: i32) -> bool {
    let target = std::fs::read_link(format!("/proc/self/fd/{file}"));
    target.is_ok_and(|target| target.as_os_str() == "anon_inode:[io_uring]")
}

/// `io_uring_enter`.
pub(super) fn enter(process: &Process, call: &Call) -> i64 {
    let [_, to_submit, ..] = call.arguments;
    if to_submit as u32 != 0 {
        let mut code = process.code();
        let written = code.queues.about_to_be_written();
        note_code(&mut code, written);
    }
    pass(process, call)
}

/// `io_uring_register`.
pub(super) fn register(process: &Process, call: &Call) -> i64 {
    /// The ring is named by its number among registered ones.
    const BY_NUMBER: u64 = 1 << 31;
    let [_, operation, argument, count, ..] = call.arguments;
    let word = |at: u64| guarded::read_word(argument.wrapping_add(at)).unwrap_or(0);
    let buffers = match operation & 0xffff_ffff & !BY_NUMBER {
        // Buffers; the same with tags; some of them anew.
        0 => vectors(argument, count & 0xffff_ffff),
        15 => vectors(word(16), word(0) & 0xffff_ffff),
        16 => vectors(word(8), word(24) & 0xffff_ffff),
        // A ring of buffers, and another size of the queue.
        22 | 33 => {
            let mut code = process.code();
            code.queues.be_blind();
            stop_watching_if_blind(&mut code);
            Vec::new()
        }
        _ => Vec::new(),
    };
    if !buffers.is_empty() {
        // They may become code later.
        note(&mut process.code(), buffers);
    }
    pass(process, call)
}

/// `io_submit`.
pub(super) fn submit(process: &Process, call: &Call) -> i64 {
    let [_, count, array, ..] = call.arguments;
    let request = |index: u64| guarded::read_word(array.wrapping_add(index.wrapping_mul(8)));
    let requests = (0..count).map_while(request);
    let written = requests.flat_map(written_by_iocb).collect();
    note_code(&mut process.code(), written);
    pass(process, call)
}

/// The kernel may write these ranges: where there may be code in them, that is noted.
fn note_code(code: &mut Translations, mut ranges: Vec<Range<u64>>) {
    ranges.retain(|range| code_pages::may_be_code(code, range));
    note(code, ranges);
}

fn note(code: &mut Translations, ranges: Vec<Range<u64>>) {
    for range in ranges {
        let pages = whole_pages(range.start, range.end - range.start);
        code.queues.note(pages.clone());
        code_pages::contents_changed(code, pages);
    }
}

/// If what the kernel writes is not known, no page may be write-protected.
fn stop_watching_if_blind(code: &mut Translations) {
    if code.queues.is_blind() {
        code_pages::release(code, 0..u64::MAX);
    }
}
