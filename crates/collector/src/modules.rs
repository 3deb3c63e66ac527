//! What is loaded into the process.

use std::ffi::{CStr, c_int, c_void};
use std::sync::{Mutex, MutexGuard, PoisonError};

use unspool_openmp_record::layout::description;

use crate::arena;

/// Address ranges that have been described.
pub(crate) type Known = Vec<(u64, u64)>;

static KNOWN: Mutex<Known> = Mutex::new(Vec::new());

/// Address ranges that have been described.
pub(crate) fn known() -> MutexGuard<'static, Known> {
    KNOWN.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Sees to it that the module at an address has been described.
pub(crate) fn describe_at(address: u64) {
    let is_known = known()
        .iter()
        .any(|(start, end)| (*start..*end).contains(&address));
    if !is_known {
        describe_new();
    }
}

/// Describes all modules that have not been.
pub(crate) fn describe_new() {
    let mut known = known();
    let known: *mut Known = &raw mut *known;
    // SAFETY: the callback has the signature that is asked for, and the vector outlives it.
    unsafe { libc::dl_iterate_phdr(Some(describe_one), known.cast()) };
}

/// Forgets what was described, in a child that starts a file of its own.
pub(crate) fn forget(known: &mut Known) {
    known.clear();
}

unsafe extern "C" fn describe_one(
    module: *mut libc::dl_phdr_info,
    _size: usize,
    known: *mut c_void,
) -> c_int {
    // SAFETY: the C library gives a valid description, and `known` is ours.
    let (module, known) = unsafe { (&*module, &mut *known.cast::<Known>()) };
    let bias = module.dlpi_addr;
    let headers = match module.dlpi_phnum {
        0 => &[][..],
        // SAFETY: so many headers are there.
        count => unsafe { std::slice::from_raw_parts(module.dlpi_phdr, usize::from(count)) },
    };
    let loaded = headers.iter().filter(|part| part.p_type == libc::PT_LOAD);
    let start = loaded.clone().map(|part| bias + part.p_vaddr).min();
    let end = loaded.map(|part| bias + part.p_vaddr + part.p_memsz).max();
    if let (Some(start), Some(end)) = (start, end)
        && !known.contains(&(start, end))
    {
        let name = match module.dlpi_name.is_null() {
            true => Vec::new(),
            // SAFETY: a name ends in a zero byte.
            false => unsafe { CStr::from_ptr(module.dlpi_name) }
                .to_bytes()
                .to_vec(),
        };
        let path = match name.is_empty() {
            // The first is the program itself; others without a file have nothing to look up.
            true if known.is_empty() => own_path(),
            true => b"[no file]".to_vec(),
            false => name,
        };
        known.push((start, end));
        arena::describe(description::MODULE, &[start, end, bias], &path);
    }
    0
}

/// The path of the program.
pub(crate) fn own_path() -> Vec<u8> {
    use std::os::unix::ffi::OsStringExt;
    let path = std::fs::read_link("/proc/self/exe").unwrap_or_default();
    path.into_os_string().into_vec()
}
