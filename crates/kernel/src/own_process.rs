//! Which processes of the kernel's are this one.

/// Whether a number is that of this process or of one of its threads.
#[must_use]
pub fn is_own(process: u64) -> bool {
    process == u64::from(std::process::id()) || {
        let path = format!("/proc/self/task/{process}");
        std::path::Path::new(&path).exists()
    }
}
