//! The sources that tools and probes are built with, which the command carries: a crate of the
//! user's needs no checkout of this project.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use crate::failure::Failure;
use crate::users_cache;

/// Paths and contents.
const SOURCES: &[(&str, &[u8])] = include!(concat!(env!("OUT_DIR"), "/sources.rs"));

/// Where sources and builds lie.
pub(super) struct Unpacked {
    /// The workspace of the crates that others are written with.
    pub(super) workspace: PathBuf,
    /// What builds have in common.
    pub(super) build: PathBuf,
}

/// The versions of all dependencies with which these sources were tested.
pub(super) fn lock() -> &'static [u8] {
    let lock = SOURCES.iter().find(|(name, _)| *name == "Cargo.lock");
    lock.map_or(&[], |(_, text)| text)
}

/// Puts the sources of this command's version among the user's caches, as far as they are not there.
pub(super) fn unpack() -> Result<Unpacked, Failure> {
    let Some(cache) = users_cache::directory() else {
        return Err(Failure::new("there is no directory for caches").with_help(
            "set HOME, or XDG_CACHE_HOME to an absolute path; or name crates/tool or crates/probe of a \
             checkout by --library DIRECTORY",
        ));
    };
    let version = env!("CARGO_PKG_VERSION");
    let workspace = cache.join("sources").join(version);
    for (name, content) in SOURCES {
        let file = workspace.join(name);
        put(&file, content).map_err(|error| Failure::cannot_write(&file, error))?;
    }
    let build = cache.join("build");
    Ok(Unpacked { workspace, build })
}

/// Writes a file unless it is there: what is unchanged is not built again.
fn put(file: &Path, content: &[u8]) -> io::Result<()> {
    if fs::read(file).is_ok_and(|present| present == content) {
        return Ok(());
    }
    let folder = file.parent().unwrap_or(Path::new("/"));
    fs::create_dir_all(folder)?;
    // Whoever builds meanwhile sees the whole file or none of it.
    let mut new = tempfile::NamedTempFile::new_in(folder)?;
    io::Write::write_all(&mut new, content)?;
    new.persist(file)?;
    Ok(())
}
