//! Where translations are kept from one run to the next.

use std::ffi::{OsStr, OsString};
use std::fs::{DirBuilder, Metadata};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};

use rustix::process::{getegid, geteuid, getgid, getuid};
use unspool_engine::plan::Keeping;

use crate::failure::Failure;
use crate::users_cache;

/// The variable that names a directory, or says `off`.
const VARIABLE: &str = "UNSPOOL_PERSISTENT_CACHE";

/// Where translations are kept, if they are: `typed` is the option's directory, empty where the
/// option has none. Where nobody has asked, nothing is kept that needs anything out of the
/// ordinary.
pub(crate) fn keeping(typed: Option<OsString>, none: bool) -> Result<Option<Keeping>, Failure> {
    if none {
        return Ok(None);
    }
    if let Some(typed) = typed {
        return asked_for("--persistent-cache", &typed).map(Some);
    }
    match std::env::var_os(VARIABLE) {
        Some(value) if is_off(&value) => Ok(None),
        Some(value) => asked_for(VARIABLE, &value).map(Some),
        None => Ok(by_default()),
    }
}

/// Directories that are made at most: the user's for caches, in a home that is there, and two in it.
const MOST_NEW: usize = 3;

fn is_off(value: &OsStr) -> bool {
    ["", "off", "0", "no"].iter().any(|word| value == *word)
}

fn users_directory() -> Option<PathBuf> {
    Some(users_cache::directory()?.join("translations"))
}

/// The directory that was named, or the user's; made if it is not there.
fn asked_for(by: &str, named: &OsStr) -> Result<Keeping, Failure> {
    let directory = if named.is_empty() {
        users_directory().ok_or_else(|| {
            Failure::new(format!(
                "{by} needs a directory: there is no home directory"
            ))
        })?
    } else {
        PathBuf::from(named)
    };
    let directory = make(&directory)
        .map_err(|error| Failure::new(format!("{by} {}: {error}", directory.display())))?;
    Ok(Keeping {
        directory,
        asked: true,
    })
}

/// The user's directory, made if it is not there and what it would lie in is the user's.
fn by_default() -> Option<Keeping> {
    // Whoever acts with the rights of another leaves nothing at the place that one of them names.
    if getuid() != geteuid() || getgid() != getegid() {
        return None;
    }
    let wanted = users_directory()?;
    let mut nearest = wanted.ancestors().take(MOST_NEW + 1);
    let existing = nearest.find_map(|path| path.metadata().ok())?;
    if !is_users(&existing) {
        return None;
    }
    Some(Keeping {
        directory: make(&wanted).ok()?,
        asked: false,
    })
}

fn is_users(directory: &Metadata) -> bool {
    directory.uid() == geteuid().as_raw() && directory.mode() & 0o022 == 0
}

fn make(directory: &Path) -> io::Result<PathBuf> {
    DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(directory)?;
    directory.canonicalize()
}
