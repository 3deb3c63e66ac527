//! Finds a program by name.

use std::ffi::OsStr;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

use super::error::LoadError;
use super::executable;

/// Where `execvp` looks when `PATH` is not set (`confstr(_CS_PATH)` of the C library).
const DEFAULT_PATH: &[u8] = b"/bin:/usr/bin";

/// The file that `execvp` would execute for `program`: itself if it has a slash, otherwise
/// the first executable of that name in the directories of `path_env`.
///
/// An empty directory means the current one.
///
/// # Errors
/// [`LoadError::NotInPath`], or [`LoadError::NotExecutable`] if all that was found may not
/// be executed. A name with a slash is returned unchecked: see [`super::check()`].
pub fn resolve(program: &OsStr, path_env: Option<&OsStr>) -> Result<PathBuf, LoadError> {
    let name = program.as_bytes();
    if name.is_empty() {
        return Err(LoadError::NotFound {
            path: PathBuf::new(),
        });
    }
    if name.contains(&b'/') {
        return Ok(PathBuf::from(program));
    }
    let directories = path_env.map_or(DEFAULT_PATH, OsStr::as_bytes);
    let mut refused = None;
    for directory in directories.split(|&byte| byte == b':') {
        let mut candidate = directory.to_vec();
        if !directory.is_empty() {
            candidate.push(b'/');
        }
        candidate.extend_from_slice(name);
        let candidate = PathBuf::from(std::ffi::OsString::from_vec(candidate));
        match executable::check_permission(&candidate) {
            Ok(()) => return Ok(candidate),
            Err(error) if error.errno() == libc::EACCES => {
                refused.get_or_insert(error);
            }
            Err(_) => {}
        }
    }
    Err(refused.unwrap_or_else(|| LoadError::NotInPath {
        program: PathBuf::from(program),
        directories: Path::new(OsStr::from_bytes(directories)).to_owned(),
    }))
}
