//! The functions in whose place this library's stand.

use std::ffi::{CStr, c_void};
use std::sync::atomic::{AtomicPtr, AtomicU8, Ordering};

use unspool_preload::symbols;

/// A function of a runtime, found when it is first called.
#[derive(Debug)]
pub(crate) struct RuntimeFunction {
    name: &'static CStr,
    address: AtomicPtr<c_void>,
    home: AtomicU8,
}

const UNKNOWN: u8 = 0;
const LIBGOMP: u8 = 1;
const ELSEWHERE: u8 = 2;

/// Libraries that may have been loaded where the search order does not see them.
const RUNTIMES: [&CStr; 4] = [
    c"libgomp.so.1",
    c"libomp.so.5",
    c"libomp.so",
    c"libiomp5.so",
];

impl RuntimeFunction {
    pub(crate) const fn new(name: &'static CStr) -> RuntimeFunction {
        RuntimeFunction {
            name,
            address: AtomicPtr::new(std::ptr::null_mut()),
            home: AtomicU8::new(UNKNOWN),
        }
    }

    /// Whether any library has it. A program that asks for it weakly works without, and
    /// cannot see that this library only stands in for it.
    pub(crate) fn is_there(&self) -> bool {
        !self.address.load(Ordering::Relaxed).is_null() || self.look_up().is_some()
    }

    /// Its address.
    #[inline]
    pub(crate) fn address(&self) -> *mut c_void {
        let address = self.address.load(Ordering::Relaxed);
        match address.is_null() {
            true => self.find(),
            false => address,
        }
    }

    /// Whether it is GNU's: other runtimes with functions of the same name tell by OMPT what
    /// they do, and must not be counted twice.
    #[inline]
    pub(crate) fn is_gomp(&self) -> bool {
        if self.home.load(Ordering::Relaxed) == UNKNOWN {
            self.find();
        }
        self.home.load(Ordering::Relaxed) == LIBGOMP
    }

    fn look_up(&self) -> Option<*mut c_void> {
        let in_runtime = |library| symbols::in_library(library, self.name);
        symbols::next(self.name).or_else(|| RUNTIMES.into_iter().find_map(in_runtime))
    }

    #[cold]
    fn find(&self) -> *mut c_void {
        let Some(address) = self.look_up() else {
            eprintln!("unspool: no OpenMP or MPI library has {:?}", self.name);
            std::process::abort();
        };
        let home = match is_in_libgomp(address) {
            true => LIBGOMP,
            false => ELSEWHERE,
        };
        self.home.store(home, Ordering::Relaxed);
        self.address.store(address, Ordering::Relaxed);
        address
    }
}

/// Whether an address is in GNU's runtime.
fn is_in_libgomp(address: *const c_void) -> bool {
    let Some(image) =
        symbols::image_of(address as usize).filter(|image| !image.dli_fname.is_null())
    else {
        return false;
    };
    // SAFETY: a name ends in a zero byte, and stays as long as its image.
    let path = unsafe { CStr::from_ptr(image.dli_fname) };
    path.to_bytes().windows(7).any(|part| part == b"libgomp")
}

/// Where the image is loaded that an address belongs to; null if it belongs to none.
pub(crate) fn image_base(address: *const c_void) -> *mut c_void {
    symbols::image_of(address as usize).map_or(std::ptr::null_mut(), |image| image.dli_fbase)
}

/// Calls the function of this name in whose place we stand, with words as arguments.
macro_rules! call_real {
    ($real:expr $(, $argument:expr)* ; $($type:ty),*) => {{
        type Function = unsafe extern "C-unwind" fn($($type),*) -> usize;
        let address = $real.address();
        // SAFETY: the runtime's function takes these words in the same places as the caller
        // gave them to ours, and is called as the program called it.
        unsafe { std::mem::transmute::<*mut std::ffi::c_void, Function>(address)($($argument),*) }
    }};
}
pub(crate) use call_real;
