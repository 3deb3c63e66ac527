//! Functions and variables of the process, by their names; and where an address belongs.

use std::ffi::{CStr, c_void};

/// What the search order finds first under a name.
#[must_use]
pub fn first(name: &CStr) -> Option<*mut c_void> {
    find(libc::RTLD_DEFAULT, name)
}

/// What the search order finds under a name behind the library that this crate is part of: what
/// the library's own function of that name stands in for.
#[must_use]
pub fn next(name: &CStr) -> Option<*mut c_void> {
    find(libc::RTLD_NEXT, name)
}

/// What a library has under a name, if it is loaded already.
#[must_use]
pub fn in_library(library: &CStr, name: &CStr) -> Option<*mut c_void> {
    // SAFETY: the name ends in a zero byte; nothing is loaded that is not there.
    let handle = unsafe { libc::dlopen(library.as_ptr(), libc::RTLD_LAZY | libc::RTLD_NOLOAD) };
    match handle.is_null() {
        true => None,
        false => find(handle, name),
    }
}

fn find(handle: *mut c_void, name: &CStr) -> Option<*mut c_void> {
    // SAFETY: the name ends in a zero byte, and the handle is a library's or the search order's.
    let address = unsafe { libc::dlsym(handle, name.as_ptr()) };
    (!address.is_null()).then_some(address)
}

/// What the dynamic loader says of the image that an address belongs to.
#[must_use]
pub fn image_of(address: usize) -> Option<libc::Dl_info> {
    let mut found = libc::Dl_info {
        dli_fname: std::ptr::null(),
        dli_fbase: std::ptr::null_mut(),
        dli_sname: std::ptr::null(),
        dli_saddr: std::ptr::null_mut(),
    };
    let address = std::ptr::with_exposed_provenance(address);
    // SAFETY: the address is only compared with those of images, and the pointer is to a
    // structure of this frame.
    (unsafe { libc::dladdr(address, &raw mut found) } != 0).then_some(found)
}
