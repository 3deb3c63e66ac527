//! Loops that were found before, kept between runs by the build identifiers of files: code of the same
//! identifier is the same. A file without one is the same as long as it has not been changed. Lines are not
//! kept: debugging information may come later.
//!
//! A file is JSON, and nothing in it is believed without being looked at: anything may have written there.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::ops::Range;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use serde::{Deserialize, Serialize};

use super::{LoopShape, Shape};

/// Files of other versions are written anew.
const VERSION: u32 = 1;
/// A larger file is no one of ours.
const LARGEST_FILE: u64 = 64 << 20;
/// Where there are more files than this, the oldest go.
const MOST_FILES: usize = 1000;

/// What was found of a file, and where that is kept.
#[derive(Debug, Default)]
pub(crate) struct Kept {
    /// None where nothing is kept.
    path: Option<PathBuf>,
    functions: BTreeMap<u64, (u64, Shape)>,
    is_changed: bool,
}

#[derive(Serialize, Deserialize)]
struct File {
    version: u32,
    functions: Vec<Function>,
}

#[derive(Serialize, Deserialize)]
struct Function {
    code: Range<u64>,
    loops: Vec<LoopShape>,
    innermost: Vec<(Range<u64>, usize)>,
}

impl Function {
    /// Its shape, if it makes sense.
    fn shape(self) -> Option<(u64, (u64, Shape))> {
        let within = |part: &Range<u64>| {
            self.code.start <= part.start && part.start <= part.end && part.end <= self.code.end
        };
        let parents = self.loops.iter().enumerate();
        let nested = parents.map(|(place, one)| match one.parent {
            None => one.depth == 0,
            Some(parent) => {
                parent < place && self.loops[parent].depth.checked_add(1) == Some(one.depth)
            }
        });
        let (is_nested, code) = (nested.into_iter().all(|it| it), &self.innermost);
        let is_sorted = code.is_sorted_by_key(|(part, _)| part.start);
        let is_known = |(part, one): &(Range<u64>, usize)| within(part) && *one < self.loops.len();
        if !is_nested || !is_sorted || !code.iter().all(is_known) {
            return None;
        }
        let shape = Shape {
            loops: self.loops,
            code: self.innermost,
        };
        Some((self.code.start, (self.code.end, shape)))
    }
}

impl Kept {
    /// What is kept in a directory of a file with this identifier, or without one.
    pub(crate) fn open(directory: Option<&Path>, build_id: &[u8], file: &Path) -> Kept {
        let Some((directory, name)) = directory.zip(name(build_id, file)) else {
            return Kept::default();
        };
        let path = directory.join(name);
        let functions = read(&path).unwrap_or_default();
        Kept {
            path: Some(path),
            functions,
            is_changed: false,
        }
    }

    /// The loops of the code in a range.
    pub(crate) fn shape(&self, code: &Range<u64>) -> Option<&Shape> {
        let (end, shape) = self.functions.get(&code.start)?;
        (*end == code.end).then_some(shape)
    }

    pub(crate) fn add(&mut self, code: &Range<u64>, shape: &Shape) {
        if self.path.is_some() {
            self.functions.insert(code.start, (code.end, shape.clone()));
            self.is_changed = true;
        }
    }

    /// Writes what is new. Where that cannot be done, it is found again the next time.
    pub(crate) fn keep(&mut self) {
        if let (Some(path), true) = (&self.path, self.is_changed) {
            let functions = self.functions.iter();
            let functions = functions.map(|(start, (end, shape))| Function {
                code: *start..*end,
                loops: shape.loops.clone(),
                innermost: shape.code.clone(),
            });
            let file = File {
                version: VERSION,
                functions: functions.collect(),
            };
            let _ = write(path, &file);
            self.is_changed = false;
        }
    }
}

/// What stands for a file: its build identifier, or which file it is and when it was changed.
fn name(build_id: &[u8], file: &Path) -> Option<String> {
    if build_id.len() >= 8 {
        return Some(build_id.iter().map(|byte| format!("{byte:02x}")).collect());
    }
    let facts = fs::metadata(file).ok()?;
    let (device, number, size) = (facts.dev(), facts.ino(), facts.size());
    let (seconds, nanoseconds) = (facts.ctime(), facts.ctime_nsec());
    Some(format!(
        "{device:x}-{number:x}-{size:x}-{seconds:x}-{nanoseconds:x}"
    ))
}

fn read(path: &Path) -> Option<BTreeMap<u64, (u64, Shape)>> {
    let facts = fs::symlink_metadata(path).ok()?;
    if !facts.is_file() || facts.len() > LARGEST_FILE {
        return None;
    }
    let file: File = serde_json::from_slice(&fs::read(path).ok()?).ok()?;
    let known = file.functions.into_iter().filter_map(Function::shape);
    (file.version == VERSION).then(|| known.collect())
}

fn write(path: &Path, file: &File) -> io::Result<()> {
    let directory = path.parent().ok_or(io::ErrorKind::NotFound)?;
    let mut builder = fs::DirBuilder::new();
    builder.recursive(true).mode(0o700).create(directory)?;
    // What others may write to is not where things are kept.
    if fs::metadata(directory)?.mode() & 0o022 != 0 {
        return Err(io::ErrorKind::PermissionDenied.into());
    }
    let new = path.with_extension(format!("{}.new", std::process::id()));
    let written = fs::write(&new, serde_json::to_vec(file)?).and_then(|()| fs::rename(&new, path));
    if written.is_err() {
        let _ = fs::remove_file(&new);
    }
    written?;
    remove_oldest(directory)
}

fn remove_oldest(directory: &Path) -> io::Result<()> {
    let mut files: Vec<(SystemTime, PathBuf)> = Vec::new();
    for entry in fs::read_dir(directory)? {
        let entry = entry?;
        files.push((entry.metadata()?.modified()?, entry.path()));
    }
    files.sort();
    let more = files.len().saturating_sub(MOST_FILES);
    files[..more]
        .iter()
        .try_for_each(|(_, path)| fs::remove_file(path))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shape() -> Shape {
        let one = |address, parent, depth| LoopShape {
            address,
            leads_back: vec![address + 4],
            parent,
            depth,
            is_irreducible: false,
        };
        Shape {
            loops: vec![one(0x10, None, 0), one(0x14, Some(0), 1)],
            code: vec![(0x10..0x14, 0), (0x14..0x18, 1)],
        }
    }

    const CODE: Range<u64> = 0x10..0x20;
    const BUILD_ID: [u8; 8] = [7; 8];

    #[test]
    fn what_was_found_is_there_the_next_time() {
        let directory = tempfile::tempdir().unwrap();
        let inner = directory.path().join("structure");
        let mut kept = Kept::open(Some(&inner), &BUILD_ID, Path::new("/nowhere"));
        assert_eq!(kept.shape(&CODE), None);
        kept.add(&CODE, &shape());
        kept.keep();
        let kept = Kept::open(Some(&inner), &BUILD_ID, Path::new("/nowhere"));
        assert_eq!(kept.shape(&CODE), Some(&shape()));
        // Of another function, of another file, or of none.
        assert_eq!(kept.shape(&(0x10..0x1f)), None);
        assert_eq!(
            Kept::open(Some(&inner), &[8; 8], Path::new("/nowhere")).shape(&CODE),
            None
        );
        let mut nowhere = Kept::open(None, &BUILD_ID, Path::new("/nowhere"));
        nowhere.add(&CODE, &shape());
        assert_eq!(nowhere.shape(&CODE), None);
    }

    /// Without an identifier, what was found is of the file as it was.
    #[test]
    fn a_file_without_an_identifier_is_known_until_it_changes() {
        let directory = tempfile::tempdir().unwrap();
        let (inner, file) = (directory.path().join("kept"), directory.path().join("file"));
        let open = || Kept::open(Some(&inner), &[], &file);
        open().add(&CODE, &shape());
        assert!(!inner.exists(), "there is no such file");
        fs::write(&file, b"one").unwrap();
        let mut kept = open();
        kept.add(&CODE, &shape());
        kept.keep();
        assert_eq!(open().shape(&CODE), Some(&shape()));
        fs::write(&file, b"other").unwrap();
        assert_eq!(open().shape(&CODE), None);
    }

    /// Whatever is in a file, what comes of it makes sense.
    #[test]
    fn what_makes_no_sense_is_not_believed() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("0707070707070707");
        let open = || Kept::open(Some(directory.path()), &BUILD_ID, Path::new("/nowhere"));
        let mut kept = open();
        kept.add(&CODE, &shape());
        kept.keep();
        let good: serde_json::Value = serde_json::from_slice(&fs::read(&path).unwrap()).unwrap();
        let changes: [fn(&mut serde_json::Value); 6] = [
            |file| file["version"] = 2.into(),
            |file| file["functions"][0]["loops"][1]["parent"] = 1.into(),
            |file| file["functions"][0]["loops"][1]["depth"] = 7.into(),
            |file| file["functions"][0]["innermost"][1][1] = 2.into(),
            |file| file["functions"][0]["innermost"][1][0]["end"] = 0x30.into(),
            |file| file["functions"][0]["innermost"][0][0]["start"] = 0x15.into(),
        ];
        for change in changes {
            let mut file = good.clone();
            change(&mut file);
            fs::write(&path, serde_json::to_vec(&file).unwrap()).unwrap();
            assert_eq!(open().shape(&CODE), None, "{file}");
        }
        fs::write(&path, b"{").unwrap();
        assert_eq!(open().shape(&CODE), None);
        fs::write(&path, serde_json::to_vec(&good).unwrap()).unwrap();
        assert_eq!(open().shape(&CODE), Some(&shape()));
    }

    #[test]
    fn the_oldest_files_go() {
        let directory = tempfile::tempdir().unwrap();
        let long_ago = SystemTime::UNIX_EPOCH + std::time::Duration::from_secs(1000);
        for number in 0..MOST_FILES + 3 {
            let file = fs::File::create(directory.path().join(format!("old{number}"))).unwrap();
            file.set_modified(long_ago + std::time::Duration::from_secs(number as u64))
                .unwrap();
        }
        let mut kept = Kept::open(Some(directory.path()), &BUILD_ID, Path::new("/nowhere"));
        kept.add(&CODE, &shape());
        kept.keep();
        assert_eq!(fs::read_dir(directory.path()).unwrap().count(), MOST_FILES);
        let is_there = |name: &str| directory.path().join(name).exists();
        assert!(!is_there("old3") && is_there("old4"));
        assert_eq!(
            Kept::open(Some(directory.path()), &BUILD_ID, Path::new("/nowhere")).shape(&CODE),
            Some(&shape())
        );
    }
}
