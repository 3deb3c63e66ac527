//! Pointers of the program's that lead to what the engine keeps for itself.
//!
//! Natively there is nothing at such addresses. So the kernel gets, in place of each such pointer,
//! one to a page that nobody can access, and says what it says to a bad pointer: in most calls
//! EFAULT, but nothing where nothing is accessed, and a short count where something was moved
//! before.

use unspool_kernel::effects::{Completeness, planned_effects};
use unspool_kernel::layout::nowhere;
use unspool_kernel::{guarded, reserved};

use crate::call::Call;

/// The most iovecs that the kernel takes.
const MOST_VECTORS: u64 = 1024;

/// Missing in the C library's headers.
const SYS_IO_PGETEVENTS: i64 = 333;

/// A call as the kernel is to get it.
pub(super) enum Shielded {
    /// As the program makes it.
    Same,
    /// With other pointers; to lists of others, perhaps, which are kept here.
    Changed(Call, Vec<Vec<[u64; 2]>>),
    /// It has failed already.
    Failed(i64),
}

/// Looks through the pointers that a call's arguments are, and those that they lead to.
pub(super) fn shield(call: &Call) -> Shielded {
    let number = call.number as i64;
    let direct = call.arguments.iter().any(|&it| reserved::holds(it));
    if works_on_pages(number) {
        return pages(call);
    }
    if !direct && !leads_further(number) {
        return Shielded::Same;
    }
    let mut effects = Vec::with_capacity(16);
    let completeness = planned_effects(call.number, call.arguments, &read, &mut effects);
    let (mut changed, mut lists) = (*call, Vec::new());
    for effect in effects.iter().filter(|it| reserved::holds(it.address)) {
        let mut places = (0..6).filter(|&place| call.arguments[place] == effect.address);
        if let Some(place) = places.next() {
            changed.arguments[place] = nowhere();
            places.for_each(|place| changed.arguments[place] = nowhere());
        } else if let Some(of) = vectors(number) {
            if lists.is_empty() {
                lists = of
                    .iter()
                    .filter_map(|&place| other_vectors(&mut changed, place))
                    .collect();
            }
        } else if leads_further(number) {
            return Shielded::Failed(-i64::from(libc::EFAULT));
        }
    }
    if completeness == Completeness::Unknown {
        for &place in pointers(number) {
            if reserved::holds(changed.arguments[place]) {
                changed.arguments[place] = nowhere();
            }
        }
    }
    Shielded::Changed(changed, lists)
}

/// Reads the program's memory; where the engine's is, there are zeros, so that strings end.
fn read(address: u64, out: &mut [u8]) -> bool {
    if reserved::holds(address) {
        out.fill(0);
        return true;
    }
    guarded::read(address, out)
}

/// Whether what the arguments point to has pointers in it that the kernel follows at once.
fn leads_further(number: i64) -> bool {
    vectors(number).is_some()
        || matches!(
            number,
            libc::SYS_sendmsg
                | libc::SYS_recvmsg
                | libc::SYS_sendmmsg
                | libc::SYS_recvmmsg
                | libc::SYS_pselect6
        )
}

/// Which arguments point to arrays of iovecs; the next one is the number of these.
fn vectors(number: i64) -> Option<&'static [usize]> {
    match number {
        libc::SYS_readv
        | libc::SYS_writev
        | libc::SYS_preadv
        | libc::SYS_pwritev
        | libc::SYS_preadv2
        | libc::SYS_pwritev2
        | libc::SYS_vmsplice => Some(&[1]),
        // Where the other process is another one, its addresses are not looked at.
        libc::SYS_process_vm_readv | libc::SYS_process_vm_writev => Some(&[1, 3]),
        _ => None,
    }
}

/// Which arguments are pointers of a call of which nothing else is known. The others may be
/// numbers.
fn pointers(number: i64) -> &'static [usize] {
    match number {
        libc::SYS_bpf
        | libc::SYS_io_setup
        | libc::SYS_io_uring_setup
        | libc::SYS_modify_ldt
        | libc::SYS_open_by_handle_at
        | libc::SYS_set_mempolicy
        | libc::SYS_syslog => &[1],
        libc::SYS_ioctl | libc::SYS_io_submit | libc::SYS_io_uring_register => &[2],
        libc::SYS_get_mempolicy => &[0, 1],
        libc::SYS_quotactl => &[1, 3],
        libc::SYS_io_getevents => &[3, 4],
        SYS_IO_PGETEVENTS => &[3, 4, 5],
        libc::SYS_add_key | libc::SYS_request_key => &[0, 1, 2],
        libc::SYS_name_to_handle_at => &[1, 2, 3],
        libc::SYS_move_pages => &[2, 3, 4],
        _ => &[],
    }
}

/// Gives a call a copy of an array of iovecs in which bad ones take the place of those that lead
/// to the engine.
fn other_vectors(call: &mut Call, place: usize) -> Option<Vec<[u64; 2]>> {
    let (array, count) = (call.arguments[place], call.arguments[place + 1]);
    if count > MOST_VECTORS || place == 3 && call.arguments[0] != u64::from(std::process::id()) {
        return None;
    }
    let mut list = Vec::with_capacity(count as usize);
    for index in 0..count {
        let at = array.wrapping_add(index * 16);
        let base = guarded::read_word(at)?;
        let size = guarded::read_word(at.wrapping_add(8))?;
        let base = if reserved::holds(base) {
            nowhere()
        } else {
            base
        };
        list.push([base, size]);
    }
    call.arguments[place] = list.as_ptr() as u64;
    Some(list)
}

/// The calls that are about pages and what becomes of them. Those that map and unmap know
/// themselves what is the engine's.
fn works_on_pages(number: i64) -> bool {
    matches!(
        number,
        libc::SYS_madvise
            | libc::SYS_mlock
            | libc::SYS_mlock2
            | libc::SYS_munlock
            | libc::SYS_msync
            | libc::SYS_mincore
            | libc::SYS_mbind
            | libc::SYS_remap_file_pages
            | super::SYS_MSEAL
    )
}

/// To such a call there is nothing at the engine's pages.
fn pages(call: &Call) -> Shielded {
    let [address, size, ..] = call.arguments;
    if reserved::meets(&(address..address.saturating_add(size))) {
        return Shielded::Failed(-i64::from(libc::ENOMEM));
    }
    if call.number as i64 == libc::SYS_mincore && reserved::holds(call.arguments[2]) {
        return Shielded::Failed(-i64::from(libc::EFAULT));
    }
    Shielded::Same
}
