//! Which of the process's OpenMP runtimes a piece of code uses.
//!
//! Most processes have one, where the dynamic loader's search order finds it. A plugin's may be
//! known to that plugin alone: Python's packages carry copies of libgomp under names of their own,
//! each with its own threads. What code of such a plugin calls must go to its copy.

use std::ffi::{CStr, c_void};
use std::sync::atomic::{AtomicPtr, AtomicU64, AtomicUsize, Ordering};

use unspool_preload::symbols::{self, Library};

use crate::thread;

/// More runtimes than a process has.
pub(crate) const MOST: usize = 16;
/// More images than use OpenMP in a process; those that find no room here are looked up anew at
/// each call.
const MOST_CALLERS: usize = 64;

/// Libraries that may have been loaded where the search order does not see them.
const USUAL: [&CStr; 4] = [
    c"libgomp.so.1",
    c"libomp.so.5",
    c"libomp.so",
    c"libiomp5.so",
];

/// A runtime, by its number in this process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Runtime(usize);

/// Where a runtime was loaded; [`SEARCHED`] stands for what the search order finds.
static BASES: [AtomicPtr<c_void>; MOST] = [const { AtomicPtr::new(std::ptr::null_mut()) }; MOST];
/// The runtime that the search order finds, if any.
const SEARCHED: Runtime = Runtime(0);

/// An image, and the runtime that its code uses. It is valid once the end is there.
struct Caller {
    start: AtomicU64,
    end: AtomicU64,
    runtime: AtomicUsize,
}

static CALLERS: [Caller; MOST_CALLERS] = [const {
    Caller {
        start: AtomicU64::new(0),
        end: AtomicU64::new(0),
        runtime: AtomicUsize::new(0),
    }
}; MOST_CALLERS];
static TAKEN: AtomicUsize = AtomicUsize::new(0);

/// The runtime that code at an address uses, which calls a function of this name.
#[inline]
pub(crate) fn of_caller(address: u64, function: &CStr) -> Runtime {
    for caller in &CALLERS {
        let end = caller.end.load(Ordering::Acquire);
        if end == 0 {
            break;
        }
        if address < end && address >= caller.start.load(Ordering::Relaxed) {
            return Runtime(caller.runtime.load(Ordering::Relaxed));
        }
    }
    look_up(address, function)
}

#[cold]
fn look_up(address: u64, function: &CStr) -> Runtime {
    let mut image = Library::at(address);
    if image.as_ref().is_some_and(Library::is_own) {
        // At a function's very end the program jumps to the runtime, and the address is that of
        // this library's call of the function.
        image = Library::at(thread::current().map_or(0, |thread| thread.region_code()));
    }
    let searched = symbols::next(function);
    let found = searched
        .or_else(|| of_image(image.as_ref()?, function))
        .or_else(|| {
            USUAL
                .iter()
                .find_map(|name| symbols::in_library(name, function))
        });
    let Some(found) = found else {
        // Another function may be there, or this one later.
        return SEARCHED;
    };
    let runtime = match searched {
        Some(_) => SEARCHED,
        None => with_function(found),
    };
    // An image that is unloaded, and whose place another one takes, would be mistaken for it: one
    // that has a runtime of its own stays, because it was opened here.
    if let Some(image) = image {
        remember(&image.code(), runtime);
    }
    runtime
}

/// What an image, or a library that it needs, has under a name. The program's own search order
/// begins with this library, which only stands in.
fn of_image(image: &Library, name: &CStr) -> Option<*mut c_void> {
    let found = image.find(name)?;
    let is_own = Library::at(found as u64).is_some_and(|library| library.is_own());
    (!is_own).then_some(found)
}

/// The runtime whose function this is.
fn with_function(function: *mut c_void) -> Runtime {
    let Some(image) = symbols::image_of(function as usize) else {
        return SEARCHED;
    };
    for (index, base) in BASES.iter().enumerate().skip(1) {
        let null = std::ptr::null_mut();
        let taken =
            base.compare_exchange(null, image.dli_fbase, Ordering::Relaxed, Ordering::Relaxed);
        if taken.is_ok() || taken == Err(image.dli_fbase) {
            return Runtime(index);
        }
    }
    eprintln!("unspool: the process has more than {MOST} OpenMP runtimes");
    std::process::abort();
}

/// Whether a function is of GNU's runtime: LLVM's has the same names, but is made for another
/// compiler.
pub(crate) fn is_gomp(function: *mut c_void) -> bool {
    let Some(library) = Library::at(function as u64) else {
        return false;
    };
    library.has(c"GOMP_parallel") && !library.has(c"__kmpc_fork_call")
}

fn remember(code: &std::ops::Range<u64>, runtime: Runtime) {
    let Some(caller) = CALLERS.get(TAKEN.fetch_add(1, Ordering::Relaxed)) else {
        TAKEN.store(MOST_CALLERS, Ordering::Relaxed);
        return;
    };
    caller.start.store(code.start, Ordering::Relaxed);
    caller.runtime.store(runtime.0, Ordering::Relaxed);
    caller.end.store(code.end, Ordering::Release);
}

impl Runtime {
    /// Its number.
    #[inline]
    pub(crate) fn index(self) -> usize {
        self.0
    }

    /// Its bit in a set of runtimes.
    #[inline]
    pub(crate) fn bit(self) -> u32 {
        1 << self.0
    }

    /// Its function of this name.
    pub(crate) fn function(self, name: &CStr) -> Option<*mut c_void> {
        if self == SEARCHED {
            let found = symbols::next(name);
            let usual = || {
                USUAL
                    .iter()
                    .find_map(|library| symbols::in_library(library, name))
            };
            return found.or_else(usual);
        }
        let base = BASES[self.0].load(Ordering::Relaxed);
        of_image(&Library::at(base as u64)?, name)
    }
}
