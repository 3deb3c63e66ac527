//! Code that changes.
//!
//! Translated pages that the program may write, there or through another mapping of the
//! same memory, are write-protected, and a write makes their translations stale before it
//! happens. Where other processes may write, that is of no use: such code is looked at each
//! time before it runs, and its fragments are never linked, so that they cannot be entered
//! without. So it is with pages that the kernel does not protect, as sealed and huge ones, and with
//! those that the kernel may write at any time (`queued_writes`).

use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use unspool_code_cache::address::CacheAddress;
use unspool_code_cache::exit::Version;
use unspool_instructions::decode::MAX_LENGTH;
use unspool_kernel::regions::Region;
use unspool_kernel::{diagnostics, layout, race_windows};

use crate::process::{Process, Translations};

const PAGE: u64 = 4096;
/// How far a fragment can reach from its start: the most instructions times their length.
const FRAGMENT_REACH: u64 = 256 * MAX_LENGTH as u64;

/// Prepares the code at `pc` for being translated: from now on writes to the pages that its first
/// instruction may reach are noticed. Returns how far a fragment may go: to the first page behind
/// these that can be written. Beside code on such a page lies what programs write often, more
/// code or data of a just-in-time compiler's, so a page is not watched before code on it runs.
pub(crate) fn watch(code: &mut Translations, pc: u64) -> u64 {
    let first_end = pc.saturating_add(MAX_LENGTH as u64);
    let mut page = pc & !(PAGE - 1);
    while page < pc.saturating_add(FRAGMENT_REACH) {
        let Some((_, region)) = code.regions.find(page) else {
            break;
        };
        if region.protection & libc::PROT_EXEC == 0 {
            break;
        }
        let from_outside =
            code.regions.changes_from_outside(&region) || is_being_written(code, page);
        if page >= first_end {
            if from_outside || is_writable(code, page, &region) {
                return page;
            }
        } else if from_outside || !protect_views(code, page, &region) {
            code.cache.keep_unlinked(pc & !(PAGE - 1));
            code.cache.keep_unlinked(page);
        }
        page += PAGE;
    }
    u64::MAX
}

/// Whether the program may write a page, there or through another mapping.
fn is_writable(code: &Translations, page: u64, region: &Region) -> bool {
    let writable = |region: &Region| region.protection & libc::PROT_WRITE != 0;
    let shows = |other: &Region| other.view.is_some_and(|view| view.shared) && writable(other);
    let mut others = code.regions.other_views(page..page + PAGE).into_iter();
    writable(region) || others.any(|(_, other)| shows(&other))
}

/// Write-protects a page, and the other mappings of the same memory, where the program may write
/// them. False: one of them is sealed, or part of a huge page.
fn protect_views(code: &mut Translations, page: u64, region: &Region) -> bool {
    let mut done = protect(code, page, region.protection);
    for (range, other) in code.regions.other_views(page..page + PAGE) {
        if other.view.is_some_and(|view| view.shared) {
            done &= protect(code, range.start, other.protection);
        }
    }
    done
}

/// Write-protects a page that the program may write. False: the kernel does not do that.
fn protect(code: &mut Translations, page: u64, protection: i32) -> bool {
    if protection & libc::PROT_WRITE == 0 || code.watched_pages.contains(&page) {
        return true;
    }
    // SAFETY: the page is the program's; a write to it is caught by `handle_write`.
    match unsafe { layout::protect(page, PAGE, protection & !libc::PROT_WRITE) } {
        Ok(()) => {
            code.watched_pages.insert(page);
            WATCHED.store(true, Ordering::Relaxed);
            true
        }
        // Sealed; a part of a huge page; more mappings than the kernel allows, or another refusal.
        Err(_) => false,
    }
}

/// Whether the kernel may be writing a page, there or through another mapping.
fn is_being_written(code: &Translations, page: u64) -> bool {
    let meets = |place: &Range<u64>| {
        let mut all = code.being_written.iter();
        all.any(|range| range.start < place.end && place.start < range.end)
            || code.queues.may_write(place)
    };
    !(code.being_written.is_empty() && code.queues.is_idle()) && {
        let place = page..page + PAGE;
        let others = code.regions.other_views(place.clone());
        meets(&place) || others.iter().any(|(other, _)| meets(other))
    }
}

/// Whether a write to a range may be one to code: there, or through another mapping.
#[must_use]
pub(crate) fn may_be_code(code: &Translations, range: &Range<u64>) -> bool {
    let mut regions = code.regions.within(range.clone());
    regions.any(|(here, region)| {
        let executable = |region: &Region| region.protection & libc::PROT_EXEC != 0;
        let others = code.regions.other_views(here);
        executable(&region) || others.iter().any(|(_, other)| executable(other))
    })
}

/// The kernel is about to write a range: its pages are not watched until it has.
pub(crate) fn begin_write(code: &mut Translations, range: Range<u64>) {
    release(code, range.clone());
    code.being_written.push(range);
}

/// The kernel has written a range. Code that was run there meanwhile is translated again, to be
/// watched.
pub(crate) fn end_write(code: &mut Translations, range: &Range<u64>) {
    if let Some(index) = code.being_written.iter().position(|it| it == range) {
        code.being_written.swap_remove(index);
    }
    let pieces: Vec<_> = code.regions.within(range.clone()).collect();
    for (here, _) in pieces {
        for (other, _) in code.regions.other_views(here) {
            code.cache.allow_links(&other);
            code.cache.invalidate(other);
        }
    }
    code.cache.allow_links(range);
    code.cache.invalidate(range.clone());
}

/// Whether a page was ever watched.
static WATCHED: AtomicBool = AtomicBool::new(false);

/// Whether pages may be watched.
#[must_use]
pub(crate) fn are_watched() -> bool {
    WATCHED.load(Ordering::Relaxed)
}

/// Keeps the bytes from which the fragment at `pc`, which is entered at `entry`, was just made, if
/// others may change them.
pub(crate) fn remember(code: &mut Translations, pc: u64, entry: CacheAddress) {
    if !code.cache.is_unlinked(pc) {
        return;
    }
    if let Some(index) = code.cache.fragment_at(entry) {
        let fragment = code.cache.fragment(index);
        let mut bytes = vec![0; fragment.length as usize];
        if unspool_kernel::guarded::read(fragment.pc, &mut bytes) {
            code.checked.insert(index, bytes);
        }
    }
}

/// Makes the translation of `pc` stale if its code is not what it was made from any more.
pub(crate) fn check(code: &mut Translations, pc: u64) {
    if !code.cache.is_unlinked(pc) {
        return;
    }
    code.take_back_lent();
    if let Some(entry) = code.cache.entry(pc).map(|entry| entry.cache) {
        check_fragment(code, entry);
    }
}

/// The same for a version of the code there.
pub(crate) fn check_version(code: &mut Translations, pc: u64, version: Version) {
    if !code.cache.is_unlinked(pc) {
        return;
    }
    code.take_back_lent();
    let entry = code.cache.version(pc, version);
    if let Some(entry) = entry.map(|entry| entry.cache) {
        check_fragment(code, entry);
    }
}

fn check_fragment(code: &mut Translations, entry: CacheAddress) {
    let Some(index) = code.cache.fragment_at(entry) else {
        return;
    };
    let fragment = *code.cache.fragment(index);
    let mut bytes = vec![0; fragment.length as usize];
    let same = unspool_kernel::guarded::read(fragment.pc, &mut bytes)
        && code.checked.get(&index).is_some_and(|kept| *kept == bytes);
    if !same {
        code.checked.remove(&index);
        let end = fragment.pc + u64::from(fragment.length.max(1));
        code.cache.invalidate(fragment.pc..end);
    }
}

/// What a fault had to do with watched pages.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Write {
    /// Nothing.
    Other,
    /// It was a write to one. The page is writable again and its translations are stale; the
    /// faulting instruction is to be repeated.
    Elsewhere,
    /// The same, and the fragment that writes is among the stale ones: what follows the write in
    /// it may be what is written.
    Here,
}

/// Looks at a fault at `address`, and lets the program write if that is what it was.
pub(crate) fn handle_write(process: &Process, address: u64, registers: &[i64; 23]) -> Write {
    const PRESENT: i64 = 1;
    const WRITE: i64 = 2;
    const PROTECTION_KEY: i64 = 32;
    let error = registers[libc::REG_ERR as usize];
    if error & WRITE == 0 {
        return Write::Other;
    }
    let pc = registers[libc::REG_RIP as usize] as u64;
    if CacheAddress::of(pc).is_none() && unspool_kernel::guarded::recover(pc).is_none() {
        return Write::Other;
    }
    race_windows::widen();
    let mut code = process.code();
    // The last page of the address space ends at its last byte: no program has it anyway.
    let page = address & !(PAGE - 1);
    if !release(&mut code, page..page.saturating_add(PAGE)) {
        // Another thread may have written to the page at the same time, and released it: while the
        // cache is locked, nobody watches it anew.
        let region = code.regions.find(address);
        let is_writable =
            region.is_some_and(|(_, region)| region.protection & libc::PROT_WRITE != 0);
        let may_be_released = is_writable && error & (PRESENT | PROTECTION_KEY) == PRESENT;
        if !may_be_released || !kernel_can_write(address) {
            return Write::Other;
        }
    }
    let in_cache = CacheAddress::of(pc);
    match in_cache.is_some_and(|at| code.cache.is_current(at)) {
        true => Write::Elsewhere,
        false => Write::Here,
    }
}

/// Whether the kernel would let the program write at an address. There is no question that asks for
/// this, but a request that the kernel carries out by itself: to wake whoever waits at the address,
/// of whom there is nobody, after it has added 0 to what is there in one step.
fn kernel_can_write(address: u64) -> bool {
    const ADD_NOTHING_AND_COMPARE: u64 = 1 << 28;
    static WORD: AtomicU32 = AtomicU32::new(0);
    let operation = libc::FUTEX_WAKE_OP | libc::FUTEX_PRIVATE_FLAG;
    let arguments = [
        WORD.as_ptr() as u64,
        operation as u64,
        0,
        0,
        address & !3,
        ADD_NOTHING_AND_COMPARE,
    ];
    // SAFETY: nothing is changed; waking is something that whoever waits must reckon with.
    unsafe { crate::call::own_call(libc::SYS_futex, arguments) >= 0 }
}

/// Makes the watched pages of a range writable again and their translations stale, those
/// of other mappings of the same memory included.
pub fn release(code: &mut Translations, range: Range<u64>) -> bool {
    let pages = watched_in(code, &range);
    for &page in &pages {
        stop_watching(code, page);
        allow_writes(code, page);
    }
    !pages.is_empty()
}

/// The watched pages of which some lies in a range.
fn watched_in(code: &Translations, range: &Range<u64>) -> Vec<u64> {
    let pages = range.start & !(PAGE - 1)..range.end;
    code.watched_pages.range(pages).copied().collect()
}

/// A page is about to be writable: its translations are stale, also those of other mappings.
fn stop_watching(code: &mut Translations, page: u64) {
    code.watched_pages.remove(&page);
    race_windows::widen();
    code.cache.invalidate(page..page + PAGE);
    for (range, _) in code.regions.other_views(page..page + PAGE) {
        code.cache.invalidate(range);
    }
}

/// Gives a page the protection that the program asked for.
fn allow_writes(code: &mut Translations, page: u64) {
    let Some((start, region)) = code.regions.find(page) else {
        return;
    };
    // SAFETY: the page is the program's.
    if unsafe { layout::protect(page, PAGE, region.protection) }.is_ok() {
        return;
    }
    // The kernel allows no more mappings, and this would make one of three. To release all that is
    // watched around it makes one of many.
    for other in watched_in(code, &(start..region.end)) {
        stop_watching(code, other);
    }
    // SAFETY: as above.
    if let Err(error) = unsafe { layout::protect(start, region.end - start, region.protection) } {
        // Whoever cannot let the program write must not go on.
        diagnostics::fatal(&format!("cannot release translated code: {error}"));
    }
}

/// What a range of the program's memory holds has changed, whatever its protection.
pub(crate) fn contents_changed(code: &mut Translations, range: Range<u64>) {
    release(code, range.clone());
    let pieces: Vec<_> = code.regions.within(range.clone()).collect();
    for (here, region) in pieces {
        for (other, _) in code.regions.other_views(here) {
            code.cache.invalidate(other);
        }
        if let Some(view) = region.view.filter(|view| view.shared) {
            for other in code.regions.code_of(view.object) {
                code.cache.invalidate(other);
            }
        }
    }
    code.cache.invalidate(range.clone());
    code.regions.forget_version(range);
}

/// A range of the program's memory was unmapped, replaced or protected anew.
pub(crate) fn forget(code: &mut Translations, range: Range<u64>) {
    for page in watched_in(code, &range) {
        code.watched_pages.remove(&page);
    }
    code.cache.allow_links(&range);
    code.cache.invalidate(range);
}

/// A range was mapped or protected anew, so that it may be writable now: code that the same
/// memory shows elsewhere is to be watched there as well, when it is translated again.
pub(crate) fn writers_changed(code: &mut Translations, range: Range<u64>) {
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
