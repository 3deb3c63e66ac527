//! Memory: the kernel does the work, the engine keeps track, steers code below 2 GiB and
//! forgets translations of what is gone.

use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use unspool_kernel::file_identity::FileIdentity;
use unspool_kernel::layout::{self, LIBRARY_BASE};
use unspool_kernel::regions::{Object, View};
use unspool_kernel::{limits, reserved};

use super::pages::{PAGE, whole_pages};
use super::{contents, queues};
use crate::call::{Call, succeeded};
use crate::code_pages;
use crate::collisions;
use crate::plan::Plan;
use crate::process::{Process, Translations};

/// The largest mapping that is steered below 2 GiB.
const LARGEST_CODE: u64 = 400 << 20;
/// The largest reservation that is steered there though no dynamic loader makes it.
const LARGEST_RESERVATION: u64 = 64 << 20;
/// What must stay free there for libraries to come, in one piece, where more is reserved.
const ROOM_FOR_LIBRARIES: u64 = 256 << 20;
/// What the GNU C library reserves for an arena of its heap, to give most of it back.
const ARENA: u64 = 128 << 20;
const MAP_DENYWRITE: u64 = 0x800;

/// Whether a range meets what the engine has reserved, or the program's vDSO.
pub(super) fn meets_engine(range: &Range<u64>) -> bool {
    range.start < layout::cache() && layout::vdso() < range.end || reserved::meets(range)
}

pub(super) fn kernel(process: &Process, number: i64, arguments: [u64; 6]) -> i64 {
    // SAFETY: the ranges were checked not to meet the engine's.
    unsafe { process.gates.call_kernel(number as u64, &arguments) }
}

/// The same for what the program has not asked for.
fn own(number: i64, arguments: [u64; 6]) -> i64 {
    // SAFETY: as in `kernel`.
    unsafe { crate::call::own_call(number, arguments) }
}

/// `mmap`, called from `pc`.
pub(super) fn map(process: &Process, call: &Call, pc: u64) -> i64 {
    let [address, size, protection, flags, file, offset] = call.arguments;
    let fixed = flags & (libc::MAP_FIXED | libc::MAP_FIXED_NOREPLACE) as u64 != 0;
    let anonymous = flags & libc::MAP_ANONYMOUS as u64 != 0;
    let executable = protection & libc::PROT_EXEC as u64 != 0;
    let file = Some(file as i32).filter(|_| !anonymous);
    // A thread of the program's may have to answer these questions: nothing is locked yet.
    let identity = file.and_then(FileIdentity::open);
    let reliable = file.filter(|_| executable).and_then(FileIdentity::reliable);
    let whole_size = mapped_size(size, flags, file);
    if let (Some(file), Some(identity), true) = (file, identity, executable) {
        contents::mapped_as_code(file, identity.object);
    }
    let mut code = process.code();
    let wanted = whole_pages(address, size);
    if fixed && meets_engine(&wanted) {
        let clients = process.clients.iter();
        let help: String = clients
            .filter_map(|client| client.way_out_of_reserved_memory())
            .map(|way_out| format!("\nhelp: {way_out}"))
            .collect();
        unspool_kernel::diagnostics::say(&format!(
            "unspool: the program asks for memory at {address:#x}, which observation needs for itself; it gets none{help}"
        ));
        return -i64::from(libc::ENOMEM);
    }
    if flags & libc::MAP_FIXED as u64 != 0 {
        code_pages::forget(&mut code, wanted.clone());
    }
    let low = LIBRARY_BASE..layout::nowhere();
    let by_loader = process.dynamic_loader.contains(&pc);
    let belongs_there = address == 0
        && match wishes_low(size, protection, flags, by_loader) {
            Low::Always => true,
            Low::WithRoomToSpare => {
                let room = size.saturating_add(ROOM_FOR_LIBRARIES);
                code.regions.find_gap(room, low.clone()).is_some()
            }
            Low::Never => false,
        };
    let steered = !fixed && (belongs_there || low.contains(&address));
    let place = match steered {
        true => code.regions.place_near(wanted.clone(), low),
        false => None,
    };
    let hint = place.unwrap_or(address);
    let wish = !fixed && address != 0 && wanted.start < layout::cache() + layout::cache_room();
    if wish && meets_engine(&wanted) && !was_told(process) {
        // Some programs cannot do without what they wish for.
        TOLD.store(true, Ordering::Relaxed);
        unspool_kernel::diagnostics::say(&format!(
            "unspool: the program wishes for memory at {address:#x}, which observation needs for itself; it gets some elsewhere"
        ));
    }
    let result = kernel(
        process,
        libc::SYS_mmap,
        [hint, size, protection, flags, call.arguments[4], offset],
    );
    let result = match result == -i64::from(libc::ENOMEM) && !fixed {
        true => map_low(process, &code, call).unwrap_or(result),
        false => result,
    };
    if succeeded(result) {
        let range = whole_pages(result as u64, whole_size);
        unmapped(&mut code, range.clone());
        let private = flags & libc::MAP_PRIVATE as u64 != 0;
        let view = match identity {
            Some(file) => Some(file_view(&mut code, &file, offset, !private)),
            None => (anonymous && !private).then(|| new_shared_memory(&mut code)),
        };
        code.regions.insert(range.clone(), protection as i32, view);
        if flags & libc::MAP_GROWSDOWN as u64 != 0 {
            code.regions.set_growing(range.start);
        }
        if let (Some(file), false) = (file, private)
            && queues::may_be_ring(&code, offset)
        {
            queues::mapped(&mut code, file, offset, range.start);
        }
        if let (Some(file), true) = (reliable, private)
            && code.persistence.is_some()
        {
            code.regions.set_version(range.start, file.version);
            code.activate_kept();
        }
        changed(&mut code, range);
    }
    result
}

/// How many bytes the kernel maps: whole huge pages, where it maps these.
fn mapped_size(size: u64, flags: u64, file: Option<i32>) -> u64 {
    const HUGETLBFS_MAGIC: i64 = 0x9584_58f6;
    const SIZE_SHIFT: u32 = 26;
    const SIZE_MASK: u64 = 0x3f;
    const USUAL: u64 = 2 << 20;
    let Some(file) = file else {
        let chosen = flags >> SIZE_SHIFT & SIZE_MASK;
        let unit = if chosen == 0 { USUAL } else { 1 << chosen };
        let is_huge = flags & libc::MAP_HUGETLB as u64 != 0;
        return if is_huge {
            size.checked_next_multiple_of(unit).unwrap_or(size)
        } else {
            size
        };
    };
    // SAFETY: all fields are integers.
    let mut system: libc::statfs = unsafe { std::mem::zeroed() };
    // SAFETY: there is room for the answer.
    let known = unsafe { libc::fstatfs(file, &raw mut system) } == 0;
    match known && system.f_type == HUGETLBFS_MAGIC {
        true => size
            .checked_next_multiple_of(system.f_bsize as u64)
            .unwrap_or(size),
        false => size,
    }
}

/// A range is mapped or protected as it was not before.
pub(super) fn changed(code: &mut Translations, range: Range<u64>) {
    code_pages::writers_changed(code, range.clone());
    collisions::notice(code, range);
}

/// Below 2 GiB (`MAP_32BIT`) the kernel looks for room in the upper half only, most of which the
/// engine has. There is more in the lower half.
fn map_low(process: &Process, code: &Translations, call: &Call) -> Option<i64> {
    const LOWEST: u64 = 0x100_0000;
    let [_, size, protection, flags, file, offset] = call.arguments;
    if flags & libc::MAP_32BIT as u64 == 0 {
        return None;
    }
    let size = whole_pages(0, size).end;
    let flags = flags & !(libc::MAP_32BIT as u64) | libc::MAP_FIXED_NOREPLACE as u64;
    // Libraries that are loaded later keep their place as long as there is another.
    let areas = [LOWEST..LIBRARY_BASE, LIBRARY_BASE..layout::nowhere()];
    let mut places = areas
        .into_iter()
        .filter_map(|area| code.regions.find_gap(size, area));
    places.find_map(|place| {
        let arguments = [place, size, protection, flags, file, offset];
        Some(kernel(process, libc::SYS_mmap, arguments)).filter(|&result| result == place as i64)
    })
}

/// Whether the user has been told of a wish: once is enough, for a program and its children.
static TOLD: AtomicBool = AtomicBool::new(false);

fn was_told(process: &Process) -> bool {
    process.plan.told_of_wish || TOLD.load(Ordering::Relaxed)
}

/// The plan for a program that takes the place of this one.
pub(super) fn plan_for_next(process: &Process) -> Plan {
    Plan {
        told_of_wish: was_told(process),
        ..process.plan.clone()
    }
}

/// The device of objects that are shared memory without a file.
const ANONYMOUS: u64 = u64::MAX;
/// The device of System V shared memory.
const SYSTEM_V: u64 = u64::MAX - 1;

/// What a new mapping shows of a file.
fn file_view(code: &mut Translations, file: &FileIdentity, offset: u64, shared: bool) -> View {
    if file.named || !code.lending.is_own(file.object) {
        code.regions.open_object(file.object);
    }
    View {
        object: file.object,
        offset,
        shared,
    }
}

/// What a new mapping shows that only the process and its children share.
fn new_shared_memory(code: &mut Translations) -> View {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    let object = Object {
        device: ANONYMOUS,
        inode: NEXT.fetch_add(1, Ordering::Relaxed),
    };
    code.lending.made(object);
    View {
        object,
        offset: 0,
        shared: true,
    }
}

/// Whether a mapping whose place is free belongs below 2 GiB.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Low {
    /// It will hold code: it is executable, or a dynamic loader maps it from a library or reserves
    /// it for one with large alignment.
    Always,
    /// It is a reservation of the size that just-in-time compilers make for their code: HotSpot
    /// 240 MiB, QEMU 128 MiB. It may be a heap as well, which would leave no room for code.
    WithRoomToSpare,
    /// It stays where the kernel puts it.
    Never,
}

fn wishes_low(size: u64, protection: u64, flags: u64, by_loader: bool) -> Low {
    let has = |flag: i32| flags & flag as u64 != 0;
    let anonymous = has(libc::MAP_ANONYMOUS);
    let private = has(libc::MAP_PRIVATE);
    let for_library = !anonymous && private && flags & MAP_DENYWRITE != 0;
    let executable = protection & libc::PROT_EXEC as u64 != 0;
    let reservation =
        anonymous && !has(libc::MAP_STACK) && private && protection == libc::PROT_NONE as u64;
    let unaccounted = has(libc::MAP_NORESERVE);
    if size == 0 || size > LARGEST_CODE {
        Low::Never
    } else if executable || for_library {
        Low::Always
    } else if !reservation {
        Low::Never
    } else if !unaccounted && (by_loader || size <= LARGEST_RESERVATION) {
        Low::Always
    } else if size > LARGEST_RESERVATION && !(unaccounted && size == ARENA) {
        Low::WithRoomToSpare
    } else {
        Low::Never
    }
}

/// `munmap`.
pub(super) fn unmap(process: &Process, call: &Call) -> i64 {
    let [address, size, ..] = call.arguments;
    let range = whole_pages(address, size);
    if meets_engine(&range) {
        return -i64::from(libc::EINVAL);
    }
    let mut code = process.code();
    let result = kernel(process, libc::SYS_munmap, call.arguments);
    if succeeded(result) {
        gone(&mut code, range);
    }
    result
}

/// Nothing is left of what was mapped in a range.
pub(super) fn unmapped(code: &mut Translations, range: Range<u64>) {
    code.queues.unmapped(&range);
    code_pages::forget(code, range);
}

pub(super) fn gone(code: &mut Translations, range: Range<u64>) {
    unmapped(code, range.clone());
    code.regions.remove(range);
}

/// `brk`. The kernel's own break belongs to the engine's heap.
pub(super) fn set_break(process: &Process, call: &Call) -> i64 {
    // In the order in which a fork takes these locks.
    let mut code = process.code();
    let mut program_break = process.program_break.lock();
    let (start, current) = *program_break;
    let wanted = call.arguments[0];
    if wanted < start {
        return current as i64;
    }
    let old_end = whole_pages(start, current - start).end;
    let new_end = whole_pages(start, wanted - start).end;
    if new_end > old_end {
        if exceeds_data_limit(wanted - start) {
            return current as i64;
        }
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_FIXED_NOREPLACE;
        let protection = libc::PROT_READ | libc::PROT_WRITE;
        let arguments = [
            old_end,
            new_end - old_end,
            protection as u64,
            flags as u64,
            u64::MAX,
            0,
        ];
        if own(libc::SYS_mmap, arguments) != old_end as i64 {
            return current as i64;
        }
        code.regions.insert(old_end..new_end, protection, None);
        changed(&mut code, old_end..new_end);
    } else if new_end < old_end {
        if !succeeded(own(
            libc::SYS_munmap,
            [new_end, old_end - new_end, 0, 0, 0, 0],
        )) {
            return current as i64;
        }
        gone(&mut code, new_end..old_end);
    }
    program_break.1 = wanted;
    wanted as i64
}

fn exceeds_data_limit(size: u64) -> bool {
    limits::get(libc::RLIMIT_DATA)
        .is_ok_and(|limit| limit.rlim_cur != libc::RLIM_INFINITY && size > limit.rlim_cur)
}

/// `shmat`.
pub(super) fn attach(process: &Process, call: &Call) -> i64 {
    const SHM_RDONLY: u64 = 0o10000;
    const SHM_EXEC: u64 = 0o100000;
    let mut code = process.code();
    let result = kernel(process, libc::SYS_shmat, call.arguments);
    if succeeded(result) {
        let mut facts: libc::shmid_ds = unsafe_zeroed();
        // SAFETY: `facts` is writable.
        let known =
            unsafe { libc::shmctl(call.arguments[0] as i32, libc::IPC_STAT, &raw mut facts) } == 0;
        let size = if known { facts.shm_segsz as u64 } else { PAGE };
        let write = if call.arguments[2] & SHM_RDONLY == 0 {
            libc::PROT_WRITE
        } else {
            0
        };
        let execute = if call.arguments[2] & SHM_EXEC != 0 {
            libc::PROT_EXEC
        } else {
            0
        };
        let range = whole_pages(result as u64, size);
        code_pages::forget(&mut code, range.clone());
        // Any process may attach it.
        let object = Object {
            device: SYSTEM_V,
            inode: call.arguments[0],
        };
        code.regions.open_object(object);
        let view = View {
            object,
            offset: 0,
            shared: true,
        };
        let protection = libc::PROT_READ | write | execute;
        code.regions.insert(range.clone(), protection, Some(view));
        changed(&mut code, range);
    }
    result
}

fn unsafe_zeroed() -> libc::shmid_ds {
    // SAFETY: all fields are integers.
    unsafe { std::mem::zeroed() }
}

/// `shmdt`.
pub(super) fn detach(process: &Process, call: &Call) -> i64 {
    let mut code = process.code();
    let result = kernel(process, libc::SYS_shmdt, call.arguments);
    if succeeded(result) {
        let found = code.regions.find(call.arguments[0]);
        if let Some((start, region)) = found {
            gone(&mut code, start..region.end);
        }
    }
    result
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_may_become_code_wishes_low() {
        const NONE: u64 = libc::PROT_NONE as u64;
        const READ: u64 = libc::PROT_READ as u64;
        const CODE: u64 = (libc::PROT_READ | libc::PROT_EXEC) as u64;
        const ANONYMOUS: u64 = (libc::MAP_PRIVATE | libc::MAP_ANONYMOUS) as u64;
        const UNACCOUNTED: u64 = ANONYMOUS | libc::MAP_NORESERVE as u64;
        const STACK: u64 = ANONYMOUS | libc::MAP_STACK as u64;
        const LIBRARY: u64 = libc::MAP_PRIVATE as u64 | MAP_DENYWRITE;
        let cases = [
            // A library of 132 MB with segments aligned to 2 MiB, and code or a heap of that size.
            (134 << 20, NONE, ANONYMOUS, true, Low::Always),
            (134 << 20, NONE, ANONYMOUS, false, Low::WithRoomToSpare),
            (500 << 20, NONE, ANONYMOUS, true, Low::Never),
            (500 << 20, NONE, ANONYMOUS, false, Low::Never),
            (32 << 20, NONE, ANONYMOUS, false, Low::Always),
            (32 << 20, NONE, UNACCOUNTED, false, Low::Never),
            // HotSpot's code, QEMU's, and an arena.
            (240 << 20, NONE, UNACCOUNTED, false, Low::WithRoomToSpare),
            (128 << 20, NONE, ANONYMOUS, false, Low::WithRoomToSpare),
            (128 << 20, NONE, UNACCOUNTED, false, Low::Never),
            (8 << 20, NONE, STACK, false, Low::Never),
            (134 << 20, CODE, ANONYMOUS, false, Low::Always),
            (134 << 20, READ, LIBRARY, true, Low::Always),
            (4096, READ, ANONYMOUS, true, Low::Never),
        ];
        for (size, protection, flags, by_loader, expected) in cases {
            let got = wishes_low(size, protection, flags, by_loader);
            assert_eq!(
                got, expected,
                "{size:#x} {protection} {flags:#x} {by_loader}"
            );
        }
    }
}
