//! Symbols that were split off into a file of their own.
//!
//! Source: "Debugging Information in Separate Files" of the GDB manual: distributions put
//! them below `/usr/lib/debug/.build-id`, named after the build-id.

use std::fmt::Write;
use std::path::{Path, PathBuf};

const DEBUG_DIRECTORY: &str = "/usr/lib/debug/.build-id";

/// Where the debug file of a module with this build-id would be.
pub(crate) fn debug_file_path(build_id: &[u8]) -> Option<PathBuf> {
    let (first, rest) = build_id.split_first()?;
    if rest.is_empty() || rest.len() > 64 {
        return None;
    }
    let mut name = String::new();
    for byte in rest {
        write!(name, "{byte:02x}").ok()?;
    }
    Some(
        Path::new(DEBUG_DIRECTORY)
            .join(format!("{first:02x}"))
            .join(name + ".debug"),
    )
}
