//! Functions and variables of the process, by their names; and where an address belongs.

use std::ffi::{CStr, CString, c_int, c_void};
use std::ops::Range;

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

/// A library, or the program, as the dynamic loader has it.
#[derive(Debug)]
pub struct Library {
    name: CString,
    code: Range<u64>,
}

impl Library {
    /// The one that an address belongs to.
    #[must_use]
    pub fn at(address: u64) -> Option<Library> {
        let mut search = Search {
            address,
            found: None,
        };
        // SAFETY: the function takes what is passed on to it, which outlives the call.
        unsafe { libc::dl_iterate_phdr(Some(Search::look), (&raw mut search).cast()) };
        search.found
    }

    /// The addresses from its first segment to the end of its last.
    #[must_use]
    pub fn code(&self) -> Range<u64> {
        self.code.clone()
    }

    /// What it, or a library that it needs, has under a name: what its own code would get if
    /// nothing else had that name.
    #[must_use]
    pub fn find(&self, name: &CStr) -> Option<*mut c_void> {
        in_library(&self.name, name)
    }

    /// Whether it is the one that this crate is part of.
    #[must_use]
    pub fn is_own(&self) -> bool {
        self.code.contains(&(first as *const () as u64))
    }

    /// Whether it has something under a name itself.
    #[must_use]
    pub fn has(&self, name: &CStr) -> bool {
        let found = self.find(name).map(|found| found as u64);
        found.is_some_and(|found| self.code.contains(&found))
    }
}

/// A search of all libraries for an address.
struct Search {
    address: u64,
    found: Option<Library>,
}

impl Search {
    unsafe extern "C" fn look(
        image: *mut libc::dl_phdr_info,
        _size: usize,
        search: *mut c_void,
    ) -> c_int {
        // SAFETY: the loader gives an image, and passes on what `Library::at` gave it.
        let (image, search) = unsafe { (&*image, &mut *search.cast::<Search>()) };
        // SAFETY: an image has so many headers there; a name ends in a zero byte.
        let (headers, name) = unsafe {
            (
                std::slice::from_raw_parts(image.dlpi_phdr, usize::from(image.dlpi_phnum)),
                CStr::from_ptr(image.dlpi_name),
            )
        };
        let loaded = headers.iter().filter(|one| one.p_type == libc::PT_LOAD);
        let ranges = loaded.map(|one| {
            let start = image.dlpi_addr.wrapping_add(one.p_vaddr);
            start..start.saturating_add(one.p_memsz)
        });
        let code = ranges.clone().map(|range| range.start).min().unwrap_or(0)
            ..ranges.clone().map(|range| range.end).max().unwrap_or(0);
        if !ranges
            .into_iter()
            .any(|range| range.contains(&search.address))
        {
            return 0;
        }
        search.found = Some(Library {
            name: name.to_owned(),
            code,
        });
        1
    }
}
