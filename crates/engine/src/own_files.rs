//! Files of the engine's that the program must not close.

use crate::process::Process;
use crate::vfork_copy::vfork_locks;

/// Files of the engine's that the program must not close.
#[must_use]
pub(crate) fn own_files(process: &Process) -> Vec<i32> {
    let clients = process.clients.iter();
    let mut files: Vec<i32> = clients.flat_map(|client| client.files()).collect();
    files.extend(unspool_kernel::diagnostics::own_diagnostics());
    files.extend(vfork_locks());
    files
}
