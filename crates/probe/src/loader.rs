//! What the dynamic loader tells debuggers: which images there are, and when that changes.
//!
//! Source: System V ABI and glibc's `link.h`.

use std::ffi::{c_char, c_int, c_void};
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};

use unspool_preload::symbols;

/// One image in the loader's list.
#[derive(Debug)]
#[repr(C)]
pub(crate) struct LinkMap {
    pub(crate) bias: u64,
    pub(crate) name: *const c_char,
    dynamic: *const Dynamic,
    next: *mut LinkMap,
}

#[repr(C)]
struct Dynamic {
    tag: i64,
    value: u64,
}

#[derive(Debug)]
#[repr(C)]
struct Debug {
    version: c_int,
    maps: *mut LinkMap,
    stop: u64,
    state: c_int,
    base: u64,
    /// From version 2 on: the list of another namespace.
    next: *const Debug,
}

/// What tells one image from another as long as both are loaded.
pub(crate) type Identity = (u64, u64, u64);

impl LinkMap {
    pub(crate) fn identity(&self) -> Identity {
        (
            self.bias,
            self.dynamic.addr() as u64,
            std::ptr::from_ref(self).addr() as u64,
        )
    }

    /// Whether it is this library.
    pub(crate) fn is_own(&self) -> bool {
        self.bias == OWN_BIAS.load(Ordering::Relaxed)
    }

    /// Whether the loader changes code when it relocates the image.
    ///
    /// # Safety
    /// The image must be mapped.
    pub(crate) unsafe fn has_code_relocations(&self) -> bool {
        const NULL: i64 = 0;
        const TEXTREL: i64 = 22;
        const FLAGS: i64 = 30;
        const FLAG_TEXTREL: u64 = 4;
        let mut entry = self.dynamic;
        loop {
            // SAFETY: the image is mapped, and its dynamic section ends in a null entry.
            let (tag, value) = unsafe { ((*entry).tag, (*entry).value) };
            match tag {
                NULL => return false,
                TEXTREL => return true,
                FLAGS if value & FLAG_TEXTREL != 0 => return true,
                // SAFETY: this was not the last.
                _ => entry = unsafe { entry.add(1) },
            }
        }
    }
}

/// The loader's list.
fn debug() -> Option<&'static Debug> {
    let found = symbols::first(c"_r_debug")?;
    // SAFETY: that is what the loader calls it by, as long as the process lives.
    unsafe { found.cast::<Debug>().as_ref() }
}

/// The function that the loader calls when its list changes.
pub(crate) fn stop_function() -> Option<Range<u64>> {
    function_at(debug()?.stop as *const c_void)
}

/// The bounds of the function at an address, by the symbols that libraries export.
fn function_at(address: *const c_void) -> Option<Range<u64>> {
    unsafe extern "C" {
        fn dladdr1(
            address: *const c_void,
            information: *mut libc::Dl_info,
            extra: *mut *mut c_void,
            flags: c_int,
        ) -> c_int;
    }
    const SYMBOL: c_int = 1;
    // SAFETY: both are filled if there is a symbol, which is in the image's memory.
    let symbol = unsafe {
        let mut information: libc::Dl_info = std::mem::zeroed();
        let mut symbol = std::ptr::null_mut();
        let found = dladdr1(address, &raw mut information, &raw mut symbol, SYMBOL);
        if found == 0 || information.dli_saddr.cast_const() != address {
            return None;
        }
        symbol.cast::<libc::Elf64_Sym>().as_ref()?
    };
    let start = address.addr() as u64;
    (symbol.st_size > 0).then(|| start..start + symbol.st_size)
}

static OWN_BIAS: AtomicU64 = AtomicU64::new(u64::MAX);

/// Takes this library's name out of the loader's list. The address sanitizer ends programs in
/// which another library comes before its own; it passes over what has no name. Allocates
/// nothing, because that would make the sanitizer look.
///
/// # Safety
/// To be called at the process's start.
pub(crate) unsafe fn hide() {
    let Some(own) = symbols::image_of(hide as *const () as usize) else {
        return;
    };
    let bias = own.dli_fbase.addr() as u64;
    OWN_BIAS.store(bias, Ordering::Relaxed);
    // SAFETY: nobody else uses the list.
    unsafe {
        each_image(|map| {
            if (*map).bias == bias {
                (*map).name = c"".as_ptr();
            }
        });
    }
}

/// All images, in all namespaces.
///
/// # Safety
/// Nobody may be loading images: to be called at the process's start, or by the loader.
pub(crate) unsafe fn images() -> Vec<&'static LinkMap> {
    let mut all = Vec::new();
    // SAFETY: the caller's.
    unsafe { each_image(|map| all.push(&*map)) };
    all
}

/// # Safety
/// As [`images`].
unsafe fn each_image(mut visit: impl FnMut(*mut LinkMap)) {
    let mut space = debug();
    while let Some(debug) = space {
        // The list is consistent, the caller says.
        let mut map = debug.maps;
        while !map.is_null() {
            visit(map);
            // SAFETY: as above.
            map = unsafe { (*map).next };
        }
        space = match debug.version >= 2 {
            // SAFETY: the field is there from that version on.
            true => unsafe { debug.next.as_ref() },
            false => None,
        };
    }
}
