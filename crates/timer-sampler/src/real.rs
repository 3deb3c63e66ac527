//! The C library's own functions, behind those of this library that have their names.

use std::ffi::{CStr, c_void};
use std::ptr::null_mut;
use std::sync::atomic::{AtomicPtr, Ordering};

use unspool_preload::symbols;

/// Where functions are that have not always been in the C library, or are in one of their own: a
/// program may have opened it for a plugin alone, out of the search order.
const LIBRARIES: [&CStr; 4] = [
    c"libpthread.so.0",
    c"librt.so.1",
    c"libanl.so.1",
    c"libaio.so.1",
];

/// A function that is looked up when it is first needed.
pub(crate) struct Real {
    name: &'static CStr,
    found: AtomicPtr<c_void>,
}

impl Real {
    pub(crate) const fn new(name: &'static CStr) -> Real {
        Real {
            name,
            found: AtomicPtr::new(null_mut()),
        }
    }

    /// Its address, which a caller takes for a function of the type that the name has.
    pub(crate) fn address(&self) -> *mut c_void {
        let found = self.found.load(Ordering::Relaxed);
        if !found.is_null() {
            return found;
        }
        let beside = |library: &CStr| symbols::in_library(library, self.name);
        let found = symbols::next(self.name).or_else(|| LIBRARIES.iter().find_map(|it| beside(it)));
        let Some(found) = found else {
            // A program that calls what no library has would not have started.
            std::process::abort();
        };
        self.found.store(found, Ordering::Relaxed);
        found
    }
}

/// A function of the C library, by its name and type.
macro_rules! real {
    ($name:ident: $type:ty) => {{
        const NAME: &std::ffi::CStr = match std::ffi::CStr::from_bytes_with_nul(
            concat!(stringify!($name), "\0").as_bytes(),
        ) {
            Ok(name) => name,
            Err(_) => unreachable!(),
        };
        static REAL: crate::real::Real = crate::real::Real::new(NAME);
        // SAFETY: what has this name in the C library has this type.
        unsafe { std::mem::transmute::<*mut std::ffi::c_void, $type>(REAL.address()) }
    }};
}
pub(crate) use real;
