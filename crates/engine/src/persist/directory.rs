//! The directory in which kept translations lie: who may use it, and what is removed from it.

use std::fs::{DirEntry, File, OpenOptions};
use std::io;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

/// Bytes that the files of a directory may take together; the oldest ones go.
const LIMIT: u64 = 1 << 30;
/// How old a file is that a process has begun to write and never will complete.
const ABANDONED: Duration = Duration::from_secs(3600);

/// Whether a directory is a user's alone: nobody else can put anything there, or have it lead
/// elsewhere.
pub(super) fn is_own(directory: &Path, user: u32) -> bool {
    std::fs::symlink_metadata(directory)
        .is_ok_and(|facts| facts.is_dir() && facts.uid() == user && facts.mode() & 0o022 == 0)
}

/// Puts a file in place of the one of this name, or of none: all of it, or nothing. It will take
/// this many bytes, and have a time of modification, in seconds.
pub(super) fn replace(
    path: &Path,
    bytes: u64,
    modified: i64,
    write: impl FnOnce(&mut File) -> io::Result<()>,
) -> io::Result<()> {
    make_room(path.parent().unwrap_or(Path::new("/")), bytes, LIMIT)?;
    let draft = path.with_extension(draft_extension());
    let written = write_new(&draft, modified, write).and_then(|()| std::fs::rename(&draft, path));
    let is_anothers = |error: &io::Error| error.kind() == io::ErrorKind::AlreadyExists;
    if written.as_ref().is_err_and(|error| !is_anothers(error)) {
        // It may not exist.
        let _ = std::fs::remove_file(&draft);
    }
    written
}

/// What no other process that writes at the same time has: ids are repeated in other PID
/// namespaces.
fn draft_extension() -> String {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    let moment = since.map_or(0, |since| since.as_nanos());
    format!("{}-{moment}", std::process::id())
}

fn write_new(
    path: &Path,
    modified: i64,
    write: impl FnOnce(&mut File) -> io::Result<()>,
) -> io::Result<()> {
    let mut file = OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(path)?;
    // It is not written through to the disk, which would take long: after a power failure the
    // checksum tells a file that has its name but not its content.
    write(&mut file)?;
    file.set_modified(SystemTime::UNIX_EPOCH + Duration::from_secs(modified as u64))
}

/// A file of this directory.
struct KeptFile {
    written: SystemTime,
    bytes: u64,
    path: PathBuf,
    is_draft: bool,
}

impl KeptFile {
    /// The file at an entry, if it is one of ours: other files of the user's may lie beside them.
    fn at(entry: &DirEntry) -> Option<KeptFile> {
        let path = entry.path();
        let stem = path.file_stem()?.to_str()?;
        let ours = stem.len() == 16 && stem.bytes().all(|byte| byte.is_ascii_hexdigit());
        let facts = entry
            .metadata()
            .ok()
            .filter(|facts| ours && facts.is_file())?;
        Some(KeptFile {
            written: facts.modified().ok()?,
            // Files have holes.
            bytes: facts.blocks() * 512,
            is_draft: path.extension().is_some(),
            path,
        })
    }

    fn is_abandoned(&self) -> bool {
        let age = self.written.elapsed();
        self.is_draft && age.is_ok_and(|age| age > ABANDONED)
    }
}

/// Removes the oldest files of a directory that would be too large, and what nobody completes.
fn make_room(directory: &Path, wanted: u64, limit: u64) -> io::Result<()> {
    let mut files: Vec<KeptFile> = std::fs::read_dir(directory)?
        .filter_map(|entry| KeptFile::at(&entry.ok()?))
        .collect();
    files.sort_by_key(|file| file.written);
    let mut total = wanted + files.iter().map(|file| file.bytes).sum::<u64>();
    for file in files {
        if total > limit || file.is_abandoned() {
            // Another process may have removed it.
            let _ = std::fs::remove_file(file.path);
            total -= file.bytes;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::fs::{self, Permissions};
    use std::io::Write;
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    fn names(directory: &Path) -> Vec<String> {
        let entries = fs::read_dir(directory).unwrap();
        let name = |entry: io::Result<DirEntry>| entry.unwrap().file_name().into_string().unwrap();
        let mut names: Vec<_> = entries.map(name).collect();
        names.sort();
        names
    }

    #[test]
    fn the_oldest_of_our_files_go() {
        const LIMIT: u64 = 4 << 20;
        let folder = tempfile::tempdir().unwrap();
        let make = |name: &str, bytes: u64, age: u64| {
            let path = folder.path().join(name);
            fs::write(&path, vec![1; bytes as usize]).unwrap();
            let written = SystemTime::now() - Duration::from_secs(age);
            let file = File::options().write(true).open(path).unwrap();
            file.set_modified(written).unwrap();
        };
        make("0000000000000001", LIMIT / 2, 300);
        make("0000000000000002", LIMIT / 4, 200);
        make("0000000000000003", LIMIT / 4, 100);
        make("0000000000000004.5-6", 10, 4000);
        make("0000000000000005.5-6", 10, 5);
        make("letters to grandmother", LIMIT, 9000);
        // Most of it is a hole.
        let hole = folder.path().join("0000000000000006");
        File::create(hole).unwrap().set_len(LIMIT).unwrap();
        make_room(folder.path(), 4096, LIMIT).unwrap();
        assert_eq!(
            names(folder.path()),
            [
                "0000000000000002",
                "0000000000000003",
                "0000000000000005.5-6",
                "0000000000000006",
                "letters to grandmother"
            ]
        );
    }

    #[test]
    fn a_file_has_its_content_and_time_when_it_has_its_name() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("0000000000000001");
        replace(&path, 3, 1_000_000, |file| file.write_all(b"new")).unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"new");
        let facts = fs::metadata(&path).unwrap();
        assert_eq!((facts.mtime(), facts.mtime_nsec()), (1_000_000, 0));
        assert_eq!(names(folder.path()), ["0000000000000001"]);
    }

    #[test]
    fn a_directory_that_others_can_write_is_not_ones_own() {
        let folder = tempfile::tempdir().unwrap();
        // SAFETY: has no preconditions.
        let user = unsafe { libc::geteuid() };
        let (directory, link) = (folder.path().join("a"), folder.path().join("b"));
        fs::create_dir(&directory).unwrap();
        std::os::unix::fs::symlink(&directory, &link).unwrap();
        for (mode, own) in [(0o700, true), (0o755, true), (0o775, false), (0o777, false)] {
            fs::set_permissions(&directory, Permissions::from_mode(mode)).unwrap();
            assert_eq!(is_own(&directory, user), own, "{mode:o}");
        }
        fs::set_permissions(&directory, Permissions::from_mode(0o700)).unwrap();
        assert!(!is_own(&link, user));
        assert!(!is_own(&directory, user + 1));
        assert!(!is_own(&folder.path().join("c"), user));
    }
}
