//! Call paths, taken when a construct is first entered in a context.

use std::ffi::{c_int, c_void};
use std::sync::atomic::{AtomicU64, Ordering};

use unspool_openmp_record::layout::description;

use crate::{arena, modules};

/// Frames that are kept; deeper ones are the program's start.
const LIMIT: usize = 64;

#[link(name = "gcc_s")]
unsafe extern "C" {
    fn _Unwind_Backtrace(
        step: extern "C" fn(*mut c_void, *mut c_void) -> c_int,
        argument: *mut c_void,
    ) -> c_int;
    fn _Unwind_GetIP(context: *mut c_void) -> usize;
}

#[derive(Debug)]
struct Walk {
    addresses: [u64; LIMIT],
    count: usize,
}

/// Describes the path by which the program came here; returns its number, or 0 without one.
/// `innermost` is the address at which the program called this library.
pub(crate) fn describe(innermost: u64) -> u64 {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    let mut walk = Walk {
        addresses: [0; LIMIT],
        count: 0,
    };
    // SAFETY: the step has the signature that is asked for, and the walk outlives it.
    unsafe { _Unwind_Backtrace(step, (&raw mut walk).cast()) };
    let found = &walk.addresses[..walk.count];
    // What comes before the program's own frame are this library's and the runtime's.
    let Some(start) = found.iter().position(|address| *address == innermost) else {
        return 0;
    };
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    let mut words = vec![number];
    words.extend(&found[start..]);
    for address in &words[1..] {
        modules::describe_at(*address);
    }
    arena::describe(description::PATH, &words, &[]);
    number
}

extern "C" fn step(context: *mut c_void, walk: *mut c_void) -> c_int {
    // SAFETY: the unwinder passes on what it was given, and its own context.
    let (walk, address) = unsafe { (&mut *walk.cast::<Walk>(), _Unwind_GetIP(context)) };
    if walk.count == LIMIT {
        const END_OF_STACK: c_int = 5;
        return END_OF_STACK;
    }
    walk.addresses[walk.count] = address as u64;
    walk.count += 1;
    0
}
