//! Where a thread's stack is, so that most of its samples need no system call.

use libc::pthread_attr_t;
use unspool_preload::symbols;

/// Between the lowest address that is taken for the thread's own stack and where that may end.
const MARGIN: u64 = 4 * PAGE;
const PAGE: u64 = 4096;
/// The smallest of what an unlimited stack may have grown to.
const UNLIMITED: u64 = 8 << 20;

/// Addresses between which all memory from a stack pointer up belongs to the stack.
#[derive(Clone, Copy, Default)]
pub(crate) struct Bounds {
    pub(crate) low: u64,
    pub(crate) high: u64,
}

impl Bounds {
    /// Of the thread with which the process began.
    pub(crate) fn of_first_thread() -> Bounds {
        let Some(end) = symbols::first(c"__libc_stack_end") else {
            return Bounds::default();
        };
        // SAFETY: a pointer of the dynamic loader's, set before any library began.
        let end = unsafe { end.cast::<u64>().read() };
        let mut limit = libc::rlimit {
            rlim_cur: UNLIMITED,
            rlim_max: UNLIMITED,
        };
        // SAFETY: the kernel writes one structure.
        unsafe { libc::getrlimit(libc::RLIMIT_STACK, &raw mut limit) };
        let most = match limit.rlim_cur {
            libc::RLIM_INFINITY => UNLIMITED,
            most => most,
        };
        // The kernel maps nothing else so near below a stack that may grow so far.
        let high = end.next_multiple_of(PAGE);
        Bounds {
            low: high.saturating_sub(most).saturating_add(MARGIN),
            high,
        }
    }

    /// Of the calling thread, whose stack is so large, with its guard. The C library keeps what it
    /// knows of a thread at the upper end of the thread's stack, also of one that it was given.
    pub(crate) fn of_this_thread(size: u64) -> Bounds {
        // SAFETY: returns a number, which is that address.
        let high = unsafe { libc::pthread_self() };
        match size {
            0 => Bounds::default(),
            size => Bounds {
                low: high.saturating_sub(size).saturating_add(MARGIN),
                high,
            },
        }
    }
}

/// How large a stack is that a thread gets, without its guard; zero where that is not known.
pub(crate) fn size(attributes: *const pthread_attr_t) -> u64 {
    let of = |attributes: *const pthread_attr_t| {
        let (mut size, mut guard) = (0, 0);
        // SAFETY: attributes that the caller has initialised.
        unsafe {
            libc::pthread_attr_getstacksize(attributes, &raw mut size);
            libc::pthread_attr_getguardsize(attributes, &raw mut guard);
        }
        (size as u64).saturating_sub(guard as u64)
    };
    if !attributes.is_null() {
        return of(attributes);
    }
    type Default = unsafe extern "C" fn(*mut pthread_attr_t) -> std::ffi::c_int;
    let Some(default) = symbols::first(c"pthread_getattr_default_np") else {
        return 0;
    };
    // SAFETY: what has this name has this type; it fills the attributes.
    unsafe {
        let default = std::mem::transmute::<*mut std::ffi::c_void, Default>(default);
        let mut attributes: pthread_attr_t = std::mem::zeroed();
        if default(&raw mut attributes) != 0 {
            return 0;
        }
        let size = of(&raw const attributes);
        libc::pthread_attr_destroy(&raw mut attributes);
        size
    }
}
