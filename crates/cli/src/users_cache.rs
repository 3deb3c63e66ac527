//! Where files lie that the command keeps for its user, and can make anew.

use std::path::PathBuf;

/// The command's own directory among the user's caches (XDG Base Directory Specification), there or
/// not; none if there is no home directory.
pub(crate) fn directory() -> Option<PathBuf> {
    let base = std::env::var_os("XDG_CACHE_HOME")
        .map(PathBuf::from)
        .filter(|path| path.is_absolute())
        .or_else(|| Some(std::env::home_dir()?.join(".cache")))?;
    Some(base.join("unspool"))
}
