//! The functions in whose place this library's stand.

use std::ffi::{CStr, c_void};
use std::sync::atomic::{AtomicPtr, AtomicU8, Ordering};

/// A function of a runtime, found when it is first called.
#[derive(Debug)]
pub(crate) struct Real {
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

impl Real {
    pub(crate) const fn new(name: &'static CStr) -> Real {
        Real {
            name,
            address: AtomicPtr::new(std::ptr::null_mut()),
            home: AtomicU8::new(UNKNOWN),
        }
    }

    /// Whether any library has it. A program that asks for it weakly works without, and
    /// cannot see that this library only stands in for it.
    pub(crate) fn is_there(&self) -> bool {
        !self.address.load(Ordering::Relaxed).is_null()
            || find_next(self.name)
                .or_else(|| find_in_runtimes(self.name))
                .is_some()
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

    #[cold]
    fn find(&self) -> *mut c_void {
        let Some(address) = find_next(self.name).or_else(|| find_in_runtimes(self.name)) else {
            eprintln!("unspool: no OpenMP or MPI library has {:?}", self.name);
            std::process::abort();
        };
        let home = match module_of(address) {
            Some(path) if path.to_bytes().windows(7).any(|part| part == b"libgomp") => LIBGOMP,
            _ => ELSEWHERE,
        };
        self.home.store(home, Ordering::Relaxed);
        self.address.store(address, Ordering::Relaxed);
        address
    }
}

/// The next function of this name after this library's own.
pub(crate) fn find_next(name: &CStr) -> Option<*mut c_void> {
    // SAFETY: the name ends in a zero byte.
    let address = unsafe { libc::dlsym(libc::RTLD_NEXT, name.as_ptr()) };
    (!address.is_null()).then_some(address)
}

fn find_in_runtimes(name: &CStr) -> Option<*mut c_void> {
    RUNTIMES.iter().find_map(|library| {
        // SAFETY: both names end in a zero byte; nothing is loaded that is not there.
        let address = unsafe {
            let handle = libc::dlopen(library.as_ptr(), libc::RTLD_LAZY | libc::RTLD_NOLOAD);
            if handle.is_null() {
                return None;
            }
            libc::dlsym(handle, name.as_ptr())
        };
        (!address.is_null()).then_some(address)
    })
}

fn module_of(address: *mut c_void) -> Option<&'static CStr> {
    let name = describe(address)?.dli_fname;
    // SAFETY: a name ends in a zero byte, and stays as long as its module.
    (!name.is_null()).then(|| unsafe { CStr::from_ptr(name) })
}

/// Where the module is loaded that an address belongs to; null if it belongs to none.
pub(crate) fn module_base(address: *const c_void) -> *mut c_void {
    describe(address).map_or(std::ptr::null_mut(), |found| found.dli_fbase)
}

fn describe(address: *const c_void) -> Option<libc::Dl_info> {
    let mut found = libc::Dl_info {
        dli_fname: std::ptr::null(),
        dli_fbase: std::ptr::null_mut(),
        dli_sname: std::ptr::null(),
        dli_saddr: std::ptr::null_mut(),
    };
    // SAFETY: the pointer is to a structure of this frame.
    (unsafe { libc::dladdr(address, &raw mut found) } != 0).then_some(found)
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
