//! Code that changes.
//!
//! Translated pages that the program may write, there or through another mapping of the
//! same memory, are write-protected, and a write makes their translations stale before it
//! happens. Where other processes may write, that is of no use: such code is looked at each
//! time before it runs, and its fragments are never linked, so that they cannot be entered
//! without.

use std::ops::Range;

use crate::process::{Code, Process};
use crate::{finish, layout, lending};

const PAGE: u64 = 4096;
/// How far a fragment can reach from its start: the most instructions times their length.
const FRAGMENT_REACH: u64 = 256 * 15;

/// Prepares the pages at `pc` for being translated: from now on writes to them are noticed.
pub fn watch(code: &mut Code, pc: u64) {
    let mut page = pc & !(PAGE - 1);
    while page < pc + FRAGMENT_REACH {
        let Some((_, region)) = code.regions.find(page) else {
            return;
        };
        if region.protection & libc::PROT_EXEC == 0 {
            return;
        }
        if code.regions.changes_from_outside(&region) {
            code.cache.keep_unlinked(pc & !(PAGE - 1));
            code.cache.keep_unlinked(page);
        } else {
            protect(code, page, region.protection);
            for (range, other) in code.regions.other_views(page..page + PAGE) {
                if other.view.is_some_and(|view| view.shared) {
                    protect(code, range.start, other.protection);
                }
            }
        }
        page += PAGE;
    }
}

/// Write-protects a page that the program may write.
fn protect(code: &mut Code, page: u64, protection: i32) {
    if protection & libc::PROT_WRITE != 0 && code.watched_pages.insert(page) {
        // SAFETY: the page is the program's; a write to it is caught by `handle_write`.
        let result = unsafe { layout::protect(page, PAGE, protection & !libc::PROT_WRITE) };
        expect_done(result);
    }
}

/// Whoever cannot watch code must not run it.
fn expect_done(result: std::io::Result<()>) {
    if let Err(error) = result {
        finish::fatal(&format!("cannot protect translated code: {error}"));
    }
}

/// Keeps the bytes from which the fragment at `pc` was just made, if others may change them.
pub fn remember(code: &mut Code, pc: u64) {
    if !code.cache.is_unlinked(pc) {
        return;
    }
    let Some(entry) = code.cache.entry(pc) else {
        return;
    };
    if let Some(index) = code.cache.fragment_at(u64::from(entry.cache)) {
        let fragment = code.cache.fragment(index);
        let mut bytes = vec![0; fragment.length as usize];
        if crate::guarded::read(fragment.pc, &mut bytes) {
            code.checked.insert(index, bytes);
        }
    }
}

/// Makes the translation of `pc` stale if its code is not what it was made from any more.
pub fn check(code: &mut Code, pc: u64) {
    if !code.cache.is_unlinked(pc) {
        return;
    }
    lending::take_back(code);
    let Some(entry) = code.cache.entry(pc) else {
        return;
    };
    let Some(index) = code.cache.fragment_at(u64::from(entry.cache)) else {
        return;
    };
    let fragment = *code.cache.fragment(index);
    let mut bytes = vec![0; fragment.length as usize];
    let same = crate::guarded::read(fragment.pc, &mut bytes)
        && code.checked.get(&index).is_some_and(|kept| *kept == bytes);
    if !same {
        code.checked.remove(&index);
        let end = fragment.pc + u64::from(fragment.length.max(1));
        code.cache.invalidate(fragment.pc..end);
    }
}

/// If a fault at `address` is a write to a watched page: makes the page writable again and
/// its translations stale. The faulting instruction is to be repeated.
pub fn handle_write(process: &Process, address: u64, registers: &[i64; 23]) -> bool {
    const PRESENT: i64 = 1;
    const WRITE: i64 = 2;
    const PROTECTION_KEY: i64 = 32;
    let error = registers[libc::REG_ERR as usize];
    if error & WRITE == 0 {
        return false;
    }
    let in_engine = !crate::gates::in_cache(registers[libc::REG_RIP as usize] as u64);
    if in_engine && crate::guarded::recover(registers[libc::REG_RIP as usize] as u64).is_none() {
        return false;
    }
    let mut code = process.code();
    // The last page of the address space ends at its last byte: no program has it anyway.
    let page = address & !(PAGE - 1);
    if release(&mut code, page..page.saturating_add(PAGE)) {
        return true;
    }
    // Another thread may have written to the page at the same time, and released it.
    let region = code.regions.find(address);
    let is_writable = region.is_some_and(|(_, region)| region.protection & libc::PROT_WRITE != 0);
    is_writable && error & (PRESENT | PROTECTION_KEY) == PRESENT
}

/// Makes the watched pages of a range writable again and their translations stale, those
/// of other mappings of the same memory included.
pub fn release(code: &mut Code, range: Range<u64>) -> bool {
    let pages: Vec<u64> = code
        .watched_pages
        .range(range.start & !(PAGE - 1)..range.end)
        .copied()
        .collect();
    for &page in &pages {
        code.watched_pages.remove(&page);
        code.cache.invalidate(page..page + PAGE);
        for (range, _) in code.regions.other_views(page..page + PAGE) {
            code.cache.invalidate(range);
        }
        if let Some((_, region)) = code.regions.find(page) {
            // SAFETY: the page is the program's and gets the protection that the program asked for.
            expect_done(unsafe { layout::protect(page, PAGE, region.protection) });
        }
    }
    !pages.is_empty()
}

/// A range of the program's memory was unmapped, replaced or protected anew.
pub fn forget(code: &mut Code, range: Range<u64>) {
    let pages: Vec<u64> = code
        .watched_pages
        .range(range.start & !(PAGE - 1)..range.end)
        .copied()
        .collect();
    for page in pages {
        code.watched_pages.remove(&page);
    }
    code.cache.allow_links(&range);
    code.cache.invalidate(range);
}

/// A range was mapped or protected anew, so that it may be writable now: code that the same
/// memory shows elsewhere is to be watched there as well, when it is translated again.
pub fn writers_changed(code: &mut Code, range: Range<u64>) {
    let mut at = range.start;
    while at < range.end {
        let Some((_, region)) = code.regions.find(at) else {
            return;
        };
        let end = region.end.min(range.end);
        if region.protection & libc::PROT_WRITE != 0 {
            for (range, _) in code.regions.other_views(at..end) {
                code.cache.invalidate(range);
            }
        }
        at = end;
    }
}
