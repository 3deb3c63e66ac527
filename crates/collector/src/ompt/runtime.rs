//! The library of the runtime that has asked for a tool.

use std::ffi::c_void;
use std::sync::atomic::{AtomicPtr, Ordering};

use crate::runtime_function::image_base;

/// Where it is loaded; null as long as no runtime has asked for a tool.
static IMAGE: AtomicPtr<c_void> = AtomicPtr::new(std::ptr::null_mut());

/// Notes the runtime by one of its functions.
pub(super) fn found_by(function: *const c_void) {
    IMAGE.store(image_base(function), Ordering::Relaxed);
}

/// Whether the runtime's own code is at an address, or nobody knows what is.
pub(super) fn may_hold(address: *const c_void) -> bool {
    address.is_null() || image_base(address) == IMAGE.load(Ordering::Relaxed)
}
