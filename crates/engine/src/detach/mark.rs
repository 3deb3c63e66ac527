//! How others can tell that a process is under observation, and can be asked to be let go: an
//! empty page of its memory has a name.

use std::sync::atomic::{AtomicU64, Ordering};

use unspool_kernel::ids::Pid;

const SIZE: usize = 4096;
const NAME: &std::ffi::CStr = c"unspool-observes";
/// As `/proc/PID/maps` shows the page.
const IN_MAPS: &str = "/memfd:unspool-observes (deleted)";

/// Where the page is; 0 for nowhere.
static MARK: AtomicU64 = AtomicU64::new(0);

/// Shows that this process is observed. Where the kernel does not let it, the process can be let
/// go by itself only.
pub(crate) fn show() {
    // SAFETY: a new descriptor and a new mapping, neither of which anybody else uses.
    unsafe {
        let file = libc::memfd_create(NAME.as_ptr(), libc::MFD_CLOEXEC);
        if file < 0 {
            return;
        }
        let page = libc::mmap(
            std::ptr::null_mut(),
            SIZE,
            libc::PROT_NONE,
            libc::MAP_PRIVATE,
            file,
            0,
        );
        libc::close(file);
        if page != libc::MAP_FAILED {
            MARK.store(page as u64, Ordering::Release);
        }
    }
}

/// The process is about to be let go: nobody is to ask for it any more.
pub(super) fn hide() {
    let page = MARK.swap(0, Ordering::AcqRel);
    if page != 0 {
        // SAFETY: the page is the engine's, and holds nothing.
        unsafe { libc::munmap(page as *mut libc::c_void, SIZE) };
    }
}

/// Whether a process shows that it is observed.
///
/// # Errors
/// Its memory map cannot be read.
pub(super) fn is_shown(process: Pid) -> std::io::Result<bool> {
    let maps = std::fs::read(format!("/proc/{process}/maps"))?;
    let mut lines = maps.split(|&byte| byte == b'\n');
    Ok(lines.any(|line| line.ends_with(IN_MAPS.as_bytes())))
}
