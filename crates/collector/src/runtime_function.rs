//! The functions in whose place this library's stand.

use std::ffi::{CStr, c_void};
use std::sync::atomic::{AtomicPtr, AtomicU32, Ordering};

use unspool_preload::symbols;

use crate::runtimes::{self, Runtime};

/// A function that runtimes have, found in each when it is first called there.
#[derive(Debug)]
pub(crate) struct RuntimeFunction {
    name: &'static CStr,
    addresses: [AtomicPtr<c_void>; runtimes::MOST],
    /// Which of them are GNU's: a bit for each.
    are_gomp: AtomicU32,
}

/// The function of the runtime that a caller uses.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Real {
    address: *mut c_void,
    is_gomp: bool,
}

impl RuntimeFunction {
    pub(crate) const fn new(name: &'static CStr) -> RuntimeFunction {
        RuntimeFunction {
            name,
            addresses: [const { AtomicPtr::new(std::ptr::null_mut()) }; runtimes::MOST],
            are_gomp: AtomicU32::new(0),
        }
    }

    /// The function that code at an address would call if this library were not there, if any
    /// library has it. A program that asks for it weakly works without, and cannot see that this
    /// library only stands in for it.
    #[inline]
    pub(crate) fn known_to(&self, caller: u64) -> Option<Real> {
        let runtime = runtimes::of_caller(caller, self.name);
        let address = self.addresses[runtime.index()].load(Ordering::Acquire);
        match address.is_null() {
            true => self.find(runtime),
            false => Some(Real {
                address,
                is_gomp: self.are_gomp.load(Ordering::Relaxed) & runtime.bit() != 0,
            }),
        }
    }

    /// The same, where there must be one.
    #[inline]
    pub(crate) fn of(&self, caller: u64) -> Real {
        self.known_to(caller).unwrap_or_else(|| self.missing())
    }

    #[cold]
    fn find(&self, runtime: Runtime) -> Option<Real> {
        let address = runtime.function(self.name)?;
        let is_gomp = runtimes::is_gomp(address);
        if is_gomp {
            self.are_gomp.fetch_or(runtime.bit(), Ordering::Relaxed);
        }
        self.addresses[runtime.index()].store(address, Ordering::Release);
        Some(Real { address, is_gomp })
    }

    #[cold]
    fn missing(&self) -> ! {
        eprintln!("unspool: no OpenMP or MPI library has {:?}", self.name);
        std::process::abort();
    }
}

impl Real {
    /// Its address.
    #[inline]
    pub(crate) fn address(self) -> *mut c_void {
        self.address
    }

    /// Whether it is GNU's: other runtimes with functions of the same name tell by OMPT what
    /// they do, and must not be counted twice.
    #[inline]
    pub(crate) fn is_gomp(self) -> bool {
        self.is_gomp
    }
}

/// Where the image is loaded that an address belongs to; null if it belongs to none.
pub(crate) fn image_base(address: *const c_void) -> *mut c_void {
    symbols::image_of(address as usize).map_or(std::ptr::null_mut(), |image| image.dli_fbase)
}

/// Calls the function of this name in whose place we stand, with words as arguments, unless types are
/// given.
macro_rules! call_real {
    (@word $argument:ident) => { usize };
    ($real:expr $(, $argument:ident)*) => {
        call_real!($real $(, $argument)*; $(call_real!(@word $argument)),*)
    };
    ($real:expr $(, $argument:expr)* ; $($type:ty),*) => {{
        type Function = unsafe extern "C-unwind" fn($($type),*) -> usize;
        let address = $real.address();
        // SAFETY: the runtime's function takes these words in the same places as the caller
        // gave them to ours, and is called as the program called it.
        unsafe { std::mem::transmute::<*mut std::ffi::c_void, Function>(address)($($argument),*) }
    }};
}
pub(crate) use call_real;
