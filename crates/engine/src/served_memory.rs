//! Program memory that threads of the program may have to serve (`userfaultfd`).

use std::sync::atomic::{AtomicBool, Ordering};

use unspool_kernel::regions::Regions;

const PAGE: u64 = 4096;

/// Whether threads of the program may have to serve accesses to its memory.
static SERVED: AtomicBool = AtomicBool::new(false);

/// From now on threads of the program may serve accesses to its memory (`userfaultfd`): a thread
/// that holds the lock of the cache must not wait for one.
pub(crate) fn serve_later() {
    SERVED.store(true, Ordering::Relaxed);
}

/// Whether program memory can be read at once, without a thread of the program's.
#[must_use]
pub(crate) fn is_there(regions: &Regions, at: u64, length: u64) -> bool {
    if !SERVED.load(Ordering::Relaxed) {
        return true;
    }
    let mut page = at & !(PAGE - 1);
    while page < at + length {
        if regions.may_be_served(page) && !is_resident(page) {
            return false;
        }
        page += PAGE;
    }
    true
}

/// Whether a page is in memory. One that is not mapped counts, too: nobody is waited for there.
fn is_resident(page: u64) -> bool {
    let mut resident = 0_u8;
    // SAFETY: asks about one page, and there is room for one answer.
    let known = unsafe { libc::mincore(page as *mut libc::c_void, 1, &raw mut resident) } == 0;
    !known || resident & 1 != 0
}
