//! Libraries of ours that programs load (`LD_PRELOAD`). They lie in the user's cache directory: a
//! program starts others that load them, too, whatever has become of this command.

use std::ffi::{CString, OsString};
use std::hash::{DefaultHasher, Hasher};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use anyhow::Context;

use crate::failure::Failure;
use crate::users_cache;

const HELP: &str = "set XDG_CACHE_HOME or TMPDIR to a directory of yours without a colon or a space \
                    in its path, in a file system without noexec";

/// The variable's value that has a program load a library, before those that the user has it load.
pub(crate) fn variable(library: &Path) -> OsString {
    let mut value = library.as_os_str().to_owned();
    if let Some(others) = std::env::var_os("LD_PRELOAD") {
        value.push(":");
        value.push(others);
    }
    value
}

/// A library of this name and content, as a file of the user's own.
pub(crate) fn kept(name: &str, content: &[u8]) -> Result<PathBuf, Failure> {
    let mut hasher = DefaultHasher::new();
    hasher.write(content);
    let file = format!("lib{name}-{:016x}.so", hasher.finish());
    // SAFETY: only returns a number.
    let user = unsafe { libc::geteuid() };
    let temporary = std::env::temp_dir().join(format!("unspool-{user}"));
    let folders = users_cache::directory().into_iter().chain([temporary]);
    let mut refused = None;
    for folder in folders.filter(|folder| folder.is_absolute()) {
        match kept_in(&folder, &file, content) {
            Ok(path) => return Ok(path),
            Err(failure) => refused = Some(failure),
        }
    }
    let failure = refused.unwrap_or_else(|| Failure::new("there is no directory for a library"));
    Err(failure.with_help(HELP))
}

fn kept_in(folder: &Path, file: &str, content: &[u8]) -> Result<PathBuf, Failure> {
    // As the kernel names the file where it is mapped.
    let own = own_folder(folder).and_then(|()| folder.canonicalize());
    let folder = own.with_context(|| format!("cannot keep a library in {}", folder.display()))?;
    let path = folder.join(file);
    check_path(&path)?;
    let is_there = |kept: std::fs::Metadata| kept.len() == content.len() as u64;
    if !std::fs::metadata(&path).is_ok_and(is_there) {
        // Other processes may do the same.
        let new = folder.join(format!("{file}.{}", std::process::id()));
        std::fs::write(&new, content)
            .and_then(|()| std::fs::set_permissions(&new, PermissionsExt::from_mode(0o700)))
            .and_then(|()| std::fs::rename(&new, &path))
            .with_context(|| format!("cannot write {}", new.display()))?;
    }
    check_code(&path)?;
    Ok(path)
}

/// A directory that nobody else writes to.
fn own_folder(folder: &Path) -> io::Result<()> {
    let mut builder = std::fs::DirBuilder::new();
    builder.recursive(true).mode(0o700).create(folder)?;
    let status = std::fs::symlink_metadata(folder)?;
    // SAFETY: only returns a number.
    let user = unsafe { libc::geteuid() };
    let is_own = status.is_dir() && status.uid() == user && status.mode() & 0o022 == 0;
    match is_own && can_write(folder) {
        true => Ok(()),
        false => Err(io::ErrorKind::PermissionDenied.into()),
    }
}

fn can_write(folder: &Path) -> bool {
    // SAFETY: the path ends in a zero byte.
    CString::new(folder.as_os_str().as_bytes())
        .is_ok_and(|path| unsafe { libc::access(path.as_ptr(), libc::W_OK) } == 0)
}

/// What separates paths in the variable is in none of them.
pub(crate) fn check_path(path: &Path) -> Result<(), Failure> {
    let separates = |byte: &u8| b": \t\n".contains(byte);
    match path.as_os_str().as_bytes().iter().any(separates) {
        false => Ok(()),
        true => Err(Failure::new(format!(
            "{}: LD_PRELOAD takes no path with a colon or a space",
            path.display()
        ))),
    }
}

/// The loader only warns where it cannot load a library.
pub(crate) fn check_code(path: &Path) -> Result<(), Failure> {
    let file =
        std::fs::File::open(path).with_context(|| format!("cannot open {}", path.display()))?;
    // SAFETY: maps a page of a file, and nobody uses it.
    let refused = unsafe {
        use std::os::fd::AsRawFd;
        let (protection, page) = (libc::PROT_READ | libc::PROT_EXEC, 4096);
        let mapped = libc::mmap(
            std::ptr::null_mut(),
            page,
            protection,
            libc::MAP_PRIVATE,
            file.as_raw_fd(),
            0,
        );
        match mapped == libc::MAP_FAILED {
            true => Some(io::Error::last_os_error()),
            false => {
                libc::munmap(mapped, page);
                None
            }
        }
    };
    match refused {
        None => Ok(()),
        Some(error) => Err(Failure::new(format!(
            "code in {} cannot be executed: {error}",
            path.display()
        ))),
    }
}
