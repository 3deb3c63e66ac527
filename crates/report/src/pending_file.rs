//! Files that are there when they are whole.

use std::ffi::OsString;
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};

/// A file that is written under another name beside its own, and gets its own when it is complete.
/// Where that does not come to pass it is removed, or, when the process is killed, left under the
/// other name: what is there under its own name is whole.
///
/// What is no plain file (a pipe, a device) is written to at once.
#[derive(Debug)]
pub struct PendingFile {
    file: File,
    /// The name for the time being, and the file's own.
    names: Option<(PathBuf, PathBuf)>,
}

impl PendingFile {
    /// Creates the file, under `PATH.PID.partial`.
    ///
    /// # Errors
    /// If it cannot be created.
    pub fn create(path: &Path) -> io::Result<PendingFile> {
        // A link is written through, to where it leads.
        let own = path.canonicalize().unwrap_or_else(|_| path.to_owned());
        if own.metadata().is_ok_and(|facts| !facts.is_file()) {
            let file = File::options().write(true).open(&own)?;
            return Ok(PendingFile::written_at_once(file));
        }
        let partial = partial_beside(&own, std::process::id());
        let file = File::create(&partial)?;
        if let Ok(facts) = own.metadata() {
            file.set_permissions(facts.permissions())?;
        }
        Ok(PendingFile {
            file,
            names: Some((partial, own)),
        })
    }

    /// A file that is open and has no name of its own to be kept from.
    #[must_use]
    pub fn written_at_once(file: File) -> PendingFile {
        PendingFile { file, names: None }
    }

    /// The file, to write to.
    ///
    /// # Errors
    /// If there are no descriptors left.
    pub fn writer(&self) -> io::Result<File> {
        self.file.try_clone()
    }

    /// Gives the file its own name: everything was written.
    ///
    /// # Errors
    /// If it cannot be renamed.
    pub fn complete(mut self) -> io::Result<()> {
        match self.names.take() {
            Some((partial, own)) => std::fs::rename(partial, own),
            None => Ok(()),
        }
    }
}

/// What follows the name of something of a process that is not whole yet.
pub(crate) fn partial_ending(process: u32) -> String {
    format!(".{process}.partial")
}

/// The name for the time being of what a process is to give this name.
#[must_use]
pub fn partial_beside(own: &Path, process: u32) -> PathBuf {
    let mut partial = OsString::from(own);
    partial.push(partial_ending(process));
    partial.into()
}

impl Drop for PendingFile {
    fn drop(&mut self) {
        if let Some((partial, _)) = &self.names {
            // Nothing else can be done about a file that cannot be removed.
            let _ = std::fs::remove_file(partial);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    #[test]
    fn a_file_has_its_name_only_when_it_is_complete() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("table");
        let names = || std::fs::read_dir(folder.path()).unwrap().count();
        std::fs::write(&path, "old").unwrap();
        let pending = PendingFile::create(&path).unwrap();
        pending.writer().unwrap().write_all(b"new").unwrap();
        assert_eq!(std::fs::read(&path).unwrap(), b"old");
        assert_eq!(names(), 2);
        drop(pending);
        assert_eq!((names(), std::fs::read(&path).unwrap()), (1, b"old".into()));

        let pending = PendingFile::create(&path).unwrap();
        pending.writer().unwrap().write_all(b"new").unwrap();
        pending.complete().unwrap();
        assert_eq!((names(), std::fs::read(&path).unwrap()), (1, b"new".into()));
    }

    #[test]
    fn what_is_no_plain_file_is_written_at_once() {
        let pending = PendingFile::create("/dev/null".as_ref()).unwrap();
        pending.writer().unwrap().write_all(b"new").unwrap();
        pending.complete().unwrap();
        let folder = tempfile::tempdir().unwrap();
        let (target, link) = (folder.path().join("target"), folder.path().join("link"));
        std::fs::write(&target, "old").unwrap();
        std::os::unix::fs::symlink(&target, &link).unwrap();
        PendingFile::create(&link).unwrap().complete().unwrap();
        assert!(link.is_symlink() && std::fs::read(&target).unwrap().is_empty());
    }
}
