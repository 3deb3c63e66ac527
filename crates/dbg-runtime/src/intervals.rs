//! Intervals, told to the collector where it is loaded too.

use std::ffi::{CStr, c_void};
use std::sync::OnceLock;

use unspool_preload::symbols;

/// A function of the collector, if it is there.
fn find(name: &CStr) -> Option<usize> {
    symbols::first(name).map(|address| address as usize)
}

/// The calling thread enters an interval.
pub(crate) fn enter(number: u64, name: &str) {
    static ENTER: OnceLock<Option<usize>> = OnceLock::new();
    type Enter = unsafe extern "C" fn(u64, *const u8, usize);
    if let Some(address) = ENTER.get_or_init(|| find(c"unspool_openmp_enter_interval")) {
        let address = *address as *mut c_void;
        // SAFETY: the collector's function takes a number and a name by its place and length.
        unsafe {
            std::mem::transmute::<*mut c_void, Enter>(address)(number, name.as_ptr(), name.len())
        };
    }
}

/// The calling thread leaves its innermost interval.
pub(crate) fn leave() {
    static LEAVE: OnceLock<Option<usize>> = OnceLock::new();
    type Leave = unsafe extern "C" fn();
    if let Some(address) = LEAVE.get_or_init(|| find(c"unspool_openmp_leave_interval")) {
        let address = *address as *mut c_void;
        // SAFETY: the collector's function takes nothing.
        unsafe { std::mem::transmute::<*mut c_void, Leave>(address)() };
    }
}
