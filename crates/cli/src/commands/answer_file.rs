//! The file with the answer about one process that runs.

use std::fmt;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use unspool_events::TraceHeader;
use unspool_report::{PendingFile, partial_beside};

/// Has its name once the process has ended. Until then what has been found is kept beside it, for
/// the case that the process is killed.
#[derive(Debug, Clone)]
pub(super) struct AnswerFile {
    path: PathBuf,
    process: u32,
}

impl AnswerFile {
    /// The one of this process: the name that was asked for, with the process's id for one that the
    /// program has started.
    pub(super) fn of(asked: &Path, header: &TraceHeader) -> AnswerFile {
        let mut path = asked.as_os_str().to_owned();
        if header.parent_process.is_some() {
            path.push(format!(".{}", header.process));
        }
        AnswerFile::exactly(Path::new(&path), header)
    }

    /// The one with the name that was asked for, whichever process it is about.
    pub(super) fn exactly(path: &Path, header: &TraceHeader) -> AnswerFile {
        AnswerFile {
            path: path.to_owned(),
            process: header.process,
        }
    }

    /// Writes the answer.
    pub(super) fn write(&self, text: &str) -> io::Result<()> {
        let pending = PendingFile::create(&self.path)?;
        pending.writer()?.write_all(text.as_bytes())?;
        pending.complete()
    }

    /// Writes what has been found until now, and returns where; nowhere if the answer goes to a pipe
    /// or a device.
    pub(super) fn write_so_far(&self, text: &str) -> io::Result<Option<PathBuf>> {
        let own = self.path.canonicalize();
        let own = own.as_deref().unwrap_or(&self.path);
        if own.metadata().is_ok_and(|facts| !facts.is_file()) {
            return Ok(None);
        }
        let partial = partial_beside(own, self.process);
        let newer = partial.with_added_extension("new");
        std::fs::write(&newer, text)?;
        std::fs::rename(&newer, &partial)?;
        Ok(Some(partial))
    }
}

impl fmt::Display for AnswerFile {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.path.display().fmt(out)
    }
}
