//! The folders of a partitioned data set, which get their names when they are whole.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use crate::ExportError;
use crate::pending_file::{partial_beside, partial_ending};

/// The tables of one process, in the order in which they get their names where the data set is
/// there already. The last one tells that all are there.
const TABLES: [&str; 4] = ["modules", "values", "events", ACCESSES];
const ACCESSES: &str = "accesses";

/// One process of a data set, `TABLE/process=N` for each table, that is written in another
/// folder. Where it does not become whole it is removed, or, when the writer is killed, left in
/// that folder: what stands in the data set is whole.
#[derive(Debug)]
pub(crate) struct PendingDataSet {
    partial: PathBuf,
    own: PathBuf,
    process: u32,
}

impl PendingDataSet {
    /// Makes a folder to write to. The data set itself may be there, without this process.
    pub(crate) fn create(path: &Path, process: u32) -> Result<PendingDataSet, ExportError> {
        // A link is written through, to where it leads; a slash at the end means nothing.
        let own = path
            .canonicalize()
            .unwrap_or_else(|_| path.components().collect());
        let partial = match fs::read_dir(&own) {
            // Readers of data sets pass names by that start with a dot.
            Ok(mut entries) => match own.join(ACCESSES).is_dir() || entries.next().is_none() {
                true => own.join(partial_ending(std::process::id())),
                false => return Err(ExportError::NotADataSet { path: own }),
            },
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                partial_beside(&own, std::process::id())
            }
            Err(source) => return Err(ExportError::Create { path: own, source }),
        };
        let pending = PendingDataSet {
            partial,
            own,
            process,
        };
        pending.refuse_if_there()?;
        // What is there under this name was left by a process that had the same number.
        let _ = fs::remove_dir_all(&pending.partial);
        fs::create_dir(&pending.partial).map_err(|source| pending.not_created(source))?;
        Ok(pending)
    }

    /// Where the files of a table of this process go, for now.
    pub(crate) fn folder_of(&self, table: &str) -> PathBuf {
        self.partial.join(self.in_set(table))
    }

    /// Gives everything its own name.
    pub(crate) fn complete(self) -> Result<(), ExportError> {
        // This takes the place of nothing, or of an empty folder.
        if !self.partial.starts_with(&self.own) && fs::rename(&self.partial, &self.own).is_ok() {
            return Ok(());
        }
        self.refuse_if_there()?;
        self.join_tables()
            .map_err(|source| self.not_created(source))
    }

    fn join_tables(&self) -> io::Result<()> {
        for table in TABLES {
            let from = self.folder_of(table);
            if !from.is_dir() {
                continue;
            }
            fs::create_dir_all(self.own.join(table))?;
            let to = self.own.join(self.in_set(table));
            // Without its accesses, what is there was left by an export that was killed here.
            match fs::remove_dir_all(&to) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
                _ => fs::rename(from, to)?,
            }
        }
        Ok(())
    }

    fn refuse_if_there(&self) -> Result<(), ExportError> {
        match self.own.join(self.in_set(ACCESSES)).exists() {
            true => Err(ExportError::ProcessExists {
                path: self.own.clone(),
                process: self.process,
            }),
            false => Ok(()),
        }
    }

    fn in_set(&self, table: &str) -> PathBuf {
        Path::new(table).join(format!("process={}", self.process))
    }

    fn not_created(&self, source: io::Error) -> ExportError {
        ExportError::Create {
            path: self.own.clone(),
            source,
        }
    }
}

impl Drop for PendingDataSet {
    fn drop(&mut self) {
        // Nothing else can be done about a folder that cannot be removed.
        let _ = fs::remove_dir_all(&self.partial);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn write(pending: &PendingDataSet, text: &str) {
        for table in ["events", ACCESSES] {
            let folder = pending.folder_of(table);
            fs::create_dir_all(&folder).unwrap();
            fs::write(folder.join("part"), text).unwrap();
        }
    }

    fn names(folder: &Path) -> Vec<String> {
        let entries = fs::read_dir(folder).unwrap();
        let mut names: Vec<_> = entries
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        names
    }

    #[test]
    fn a_data_set_has_its_name_only_when_it_is_complete() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("set");
        let pending = PendingDataSet::create(&path.join(""), 7).unwrap();
        write(&pending, "new");
        assert!(!path.exists() && names(folder.path()).len() == 1);
        drop(pending);
        assert!(names(folder.path()).is_empty());

        let pending = PendingDataSet::create(&path, 7).unwrap();
        write(&pending, "new");
        pending.complete().unwrap();
        assert_eq!(names(folder.path()), ["set"]);
        assert_eq!(
            fs::read(path.join("events/process=7/part")).unwrap(),
            b"new"
        );
    }

    #[test]
    fn processes_join_a_data_set_once() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("set");
        let first = PendingDataSet::create(&path, 7).unwrap();
        write(&first, "one");
        // Another process comes first.
        fs::create_dir_all(path.join("accesses/process=8")).unwrap();
        first.complete().unwrap();
        let third = PendingDataSet::create(&path, 9).unwrap();
        write(&third, "three");
        third.complete().unwrap();
        assert_eq!(names(&path), ["accesses", "events"]);
        assert_eq!(
            names(&path.join(ACCESSES)),
            ["process=7", "process=8", "process=9"]
        );
        let again = PendingDataSet::create(&path, 9).unwrap_err();
        assert!(
            again.to_string().contains("already has a process 9"),
            "{again}"
        );
    }

    #[test]
    fn what_was_left_by_a_killed_export_is_replaced() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("set");
        let left = path.join("events/process=8");
        fs::create_dir_all(path.join(ACCESSES)).unwrap();
        fs::create_dir_all(&left).unwrap();
        fs::write(left.join("part"), "old").unwrap();
        let pending = PendingDataSet::create(&path, 8).unwrap();
        write(&pending, "new");
        pending.complete().unwrap();
        assert_eq!(fs::read(left.join("part")).unwrap(), b"new");
    }

    #[test]
    fn other_folders_and_files_are_refused() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("mine");
        fs::write(&path, "").unwrap();
        let refused = |path: &Path| PendingDataSet::create(path, 1).unwrap_err().to_string();
        assert!(
            refused(&path).contains("cannot create"),
            "{}",
            refused(&path)
        );
        assert!(refused(folder.path()).contains("no data set"));
        assert_eq!(names(folder.path()), ["mine"]);
    }
}
