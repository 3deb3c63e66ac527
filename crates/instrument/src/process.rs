//! The process that a tool observes: what it may ask for anywhere, and at any time.

use unspool_engine::process::Process;
use unspool_kernel::lock::OnceLock;

static PROCESS: OnceLock<&'static Process> = OnceLock::new();

/// There is a process, which the tool observes.
pub(crate) fn begin(process: &'static Process) {
    let _ = PROCESS.set(process);
}

/// The process, once there is one.
pub(crate) fn process() -> Option<&'static Process> {
    PROCESS.get().copied()
}
