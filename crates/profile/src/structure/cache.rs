//! What was found of files before, kept between runs by their build identifiers: code of the same identifier
//! is the same. A file without one is the same as long as it has not been changed. Names and lines are those of
//! the debugging information that was there: where another one is found since, they are looked up again.
//!
//! A file is JSON, and nothing in it is believed without being looked at: anything may have written there.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::ops::Range;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use rustc_hash::FxHashMap;
use serde::{Deserialize, Serialize};
use unspool_binary::{DebugInformation, SourceFrame, SourceLine};

use super::place::Place;
use super::{LoopShape, Shape};

/// Files of other versions are written anew.
const VERSION: u32 = 2;
/// A larger file is no one of ours.
const LARGEST_FILE: u64 = 64 << 20;
/// Where there are more files than this, the oldest go.
const MOST_FILES: usize = 1000;

/// What was found of a file, and where that is kept.
#[derive(Debug, Default)]
pub(crate) struct Cache {
    /// None where nothing is kept.
    path: Option<PathBuf>,
    /// What names and lines are from.
    names_from: NamesFrom,
    places: FxHashMap<u64, Place>,
    bounds: Option<Vec<Range<u64>>>,
    shapes: BTreeMap<u64, (u64, Shape)>,
    is_changed: bool,
}

/// The files that names and lines are looked up in.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
struct NamesFrom {
    /// Which they are, and when they were changed.
    files: Vec<String>,
    /// Whether there is debugging information.
    has_lines: bool,
}

#[derive(Serialize, Deserialize)]
struct File {
    version: u32,
    names_from: NamesFrom,
    /// Names of functions and of source files, each once.
    words: Vec<String>,
    places: Vec<KnownPlace>,
    bounds: Option<Vec<Range<u64>>>,
    functions: Vec<Function>,
}

/// A line of a file, whose name is a word.
type KnownLine = (usize, u32);

/// A place, whose names are numbers of words.
#[derive(Serialize, Deserialize)]
struct KnownPlace {
    address: u64,
    frames: Vec<(Option<usize>, Option<KnownLine>)>,
    line: Option<KnownLine>,
    symbol: Option<(usize, Range<u64>)>,
}

#[derive(Serialize, Deserialize)]
struct Function {
    code: Range<u64>,
    loops: Vec<LoopShape>,
    innermost: Vec<(Range<u64>, usize)>,
}

impl NamesFrom {
    /// Those of the file at a path, with this debugging information.
    fn of(path: &Path, information: Option<&DebugInformation>) -> NamesFrom {
        let mut files = vec![path.to_owned()];
        if let Some(information) = information {
            files.push(information.path.clone());
            files.extend(information.common.clone());
            files.push(information.package());
        }
        let facts = files.iter().filter_map(|file| {
            let facts = facts(file)?;
            Some(format!("{} {facts}", file.display()))
        });
        NamesFrom {
            files: facts.collect(),
            has_lines: information.is_some(),
        }
    }
}

impl KnownPlace {
    fn of(address: u64, place: &Place, words: &mut Words) -> KnownPlace {
        let frames = place.frames.iter().map(|frame| {
            let function = frame.function.as_ref().map(|name| words.number(name));
            (function, frame.line.as_ref().map(|line| words.line(line)))
        });
        KnownPlace {
            address,
            frames: frames.collect(),
            line: place.line.as_ref().map(|line| words.line(line)),
            symbol: place
                .symbol
                .as_ref()
                .map(|(name, code)| (words.number(name), code.clone())),
        }
    }

    /// The place, if all its words are there.
    fn place(self, words: &[String]) -> Option<(u64, Place)> {
        let word = |number: usize| words.get(number).cloned();
        let line = |(file, line)| {
            let file = word(file)?;
            Some(SourceLine { file, line })
        };
        let mut frames = Vec::with_capacity(self.frames.len());
        for (function, at) in self.frames {
            frames.push(SourceFrame {
                function: function.map(|it| word(it).ok_or(())).transpose().ok()?,
                line: at.map(|it| line(it).ok_or(())).transpose().ok()?,
            });
        }
        let place = Place {
            frames,
            line: self.line.map(|it| line(it).ok_or(())).transpose().ok()?,
            symbol: match self.symbol {
                Some((name, code)) if code.start <= code.end => Some((word(name)?, code)),
                Some(_) => return None,
                None => None,
            },
        };
        Some((self.address, place))
    }
}

/// Words, each with its number.
#[derive(Default)]
struct Words {
    numbers: FxHashMap<String, usize>,
}

impl Words {
    fn number(&mut self, word: &str) -> usize {
        let next = self.numbers.len();
        match self.numbers.get(word) {
            Some(&number) => number,
            None => *self.numbers.entry(word.to_owned()).or_insert(next),
        }
    }

    fn line(&mut self, line: &SourceLine) -> KnownLine {
        (self.number(&line.file), line.line)
    }

    fn list(self) -> Vec<String> {
        let mut words: Vec<(usize, String)> =
            self.numbers.into_iter().map(|it| (it.1, it.0)).collect();
        words.sort_unstable();
        words.into_iter().map(|(_, word)| word).collect()
    }
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

impl Cache {
    /// What is kept in a directory of a file with this identifier, or without one, and with this debugging
    /// information.
    pub(crate) fn open(
        directory: Option<&Path>,
        build_id: &[u8],
        file: &Path,
        information: Option<&DebugInformation>,
    ) -> Cache {
        let Some((directory, name)) = directory.zip(name(build_id, file)) else {
            return Cache::default();
        };
        let path = directory.join(name);
        let names_from = NamesFrom::of(file, information);
        let mut cache = Cache {
            path: Some(path),
            names_from,
            ..Cache::default()
        };
        cache.add_kept();
        cache
    }

    /// Adds what is kept and not known yet.
    fn add_kept(&mut self) {
        let Some(file) = self.path.as_deref().and_then(read) else {
            return;
        };
        let is_sorted = |bounds: &Vec<Range<u64>>| bounds.is_sorted_by_key(|code| code.start);
        let kept = file.bounds.filter(is_sorted);
        self.bounds = self.bounds.take().or(kept);
        if file.names_from == self.names_from {
            let places = file.places.into_iter();
            for (address, place) in places.filter_map(|it| it.place(&file.words)) {
                self.places.entry(address).or_insert(place);
            }
        }
        for (start, shape) in file.functions.into_iter().filter_map(Function::shape) {
            self.shapes.entry(start).or_insert(shape);
        }
    }

    /// What is known of an address.
    pub(crate) fn place(&self, address: u64) -> Option<&Place> {
        self.places.get(&address)
    }

    pub(crate) fn add_place(&mut self, address: u64, place: &Place) {
        self.is_changed |= self.places.insert(address, place.clone()).is_none();
    }

    /// Where functions are that have no names.
    pub(crate) fn bounds(&mut self, find: impl FnOnce() -> Vec<Range<u64>>) -> &[Range<u64>] {
        self.is_changed |= self.bounds.is_none();
        self.bounds.get_or_insert_with(find)
    }

    /// The loops of the code in a range.
    pub(crate) fn shape(&self, code: &Range<u64>) -> Option<&Shape> {
        let (end, shape) = self.shapes.get(&code.start)?;
        (*end == code.end).then_some(shape)
    }

    pub(crate) fn add_shape(&mut self, code: &Range<u64>, shape: &Shape) {
        self.shapes.insert(code.start, (code.end, shape.clone()));
        self.is_changed = true;
    }

    /// Writes what is new, with what others have kept meanwhile. Where that cannot be done, it is found again
    /// the next time.
    pub(crate) fn keep(&mut self) {
        if !std::mem::replace(&mut self.is_changed, false) {
            return;
        }
        self.add_kept();
        if let Some(path) = &self.path {
            let _ = write(path, &self.file());
        }
    }

    fn file(&self) -> File {
        let mut words = Words::default();
        // Debugging information that is missing now may be there later.
        let is_whole = |place: &Place| {
            let is_named = |frame: &SourceFrame| frame.function.is_some();
            !self.names_from.has_lines || place.frames.iter().any(is_named)
        };
        let mut places: Vec<(&u64, &Place)> = self.places.iter().collect();
        places.retain(|(_, place)| is_whole(place));
        places.sort_unstable_by_key(|(address, _)| **address);
        let places = places.into_iter();
        let places = places.map(|(address, place)| KnownPlace::of(*address, place, &mut words));
        let places = places.collect();
        let functions = self.shapes.iter();
        let functions = functions.map(|(start, (end, shape))| Function {
            code: *start..*end,
            loops: shape.loops.clone(),
            innermost: shape.code.clone(),
        });
        File {
            version: VERSION,
            names_from: self.names_from.clone(),
            words: words.list(),
            places,
            bounds: self.bounds.clone(),
            functions: functions.collect(),
        }
    }
}

/// What stands for a file: its build identifier, or which file it is and when it was changed.
fn name(build_id: &[u8], file: &Path) -> Option<String> {
    if build_id.len() >= 8 {
        return Some(build_id.iter().map(|byte| format!("{byte:02x}")).collect());
    }
    facts(file)
}

/// Which file it is, and when it was changed.
fn facts(file: &Path) -> Option<String> {
    let facts = fs::metadata(file).ok()?;
    let (device, number, size) = (facts.dev(), facts.ino(), facts.size());
    let (seconds, nanoseconds) = (facts.ctime(), facts.ctime_nsec());
    Some(format!(
        "{device:x}-{number:x}-{size:x}-{seconds:x}-{nanoseconds:x}"
    ))
}

fn read(path: &Path) -> Option<File> {
    let facts = fs::symlink_metadata(path).ok()?;
    if !facts.is_file() || facts.len() > LARGEST_FILE {
        return None;
    }
    let file: File = serde_json::from_slice(&fs::read(path).ok()?).ok()?;
    (file.version == VERSION).then_some(file)
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

    fn opened(directory: Option<&Path>, build_id: &[u8], file: &Path) -> Cache {
        let information = DebugInformation::of(file);
        Cache::open(directory, build_id, file, information.as_ref())
    }

    #[test]
    fn what_was_found_is_there_the_next_time() {
        let directory = tempfile::tempdir().unwrap();
        let inner = directory.path().join("structure");
        let mut cache = opened(Some(&inner), &BUILD_ID, Path::new("/nowhere"));
        assert_eq!(cache.shape(&CODE), None);
        cache.add_shape(&CODE, &shape());
        cache.keep();
        let cache = opened(Some(&inner), &BUILD_ID, Path::new("/nowhere"));
        assert_eq!(cache.shape(&CODE), Some(&shape()));
        // Of another function, of another file, or of none.
        assert_eq!(cache.shape(&(0x10..0x1f)), None);
        assert_eq!(
            opened(Some(&inner), &[8; 8], Path::new("/nowhere")).shape(&CODE),
            None
        );
    }

    /// Without an identifier, what was found is of the file as it was.
    #[test]
    fn a_file_without_an_identifier_is_known_until_it_changes() {
        let directory = tempfile::tempdir().unwrap();
        let (inner, file) = (
            directory.path().join("inner"),
            directory.path().join("file"),
        );
        let open = || opened(Some(&inner), &[], &file);
        open().add_shape(&CODE, &shape());
        assert!(!inner.exists(), "there is no such file");
        fs::write(&file, b"one").unwrap();
        let mut cache = open();
        cache.add_shape(&CODE, &shape());
        cache.keep();
        assert_eq!(open().shape(&CODE), Some(&shape()));
        fs::write(&file, b"other").unwrap();
        assert_eq!(open().shape(&CODE), None);
    }

    fn place() -> Place {
        let line = |line| {
            let file = "a.c".to_owned();
            Some(SourceLine { file, line })
        };
        let frame = |name: &str, at| SourceFrame {
            function: Some(name.to_owned()),
            line: line(at),
        };
        Place {
            frames: vec![frame("inlined", 3), frame("outer", 9)],
            line: line(3),
            symbol: Some(("outer".to_owned(), CODE)),
        }
    }

    /// Names are those of the files that they were looked up in; what may be known later is not kept.
    #[test]
    fn names_are_known_until_other_files_have_them() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("file");
        let open = || opened(Some(&directory.path().join("inner")), &BUILD_ID, &file);
        fs::write(&file, b"one").unwrap();
        let mut cache = open();
        cache.add_place(0x12, &place());
        cache.bounds(|| vec![CODE]);
        cache.keep();
        let mut known = open();
        assert_eq!(known.place(0x12), Some(&place()));
        assert_eq!(known.place(0x13), None);
        assert_eq!(known.bounds(|| unreachable!()), [CODE]);
        // Stripped, it has the same identifier.
        fs::write(&file, b"other").unwrap();
        let mut known = open();
        assert_eq!(known.place(0x12), None);
        assert_eq!(known.bounds(|| unreachable!()), [CODE]);
        let mut partly = open();
        partly.names_from.has_lines = true;
        partly.add_place(0x12, &place());
        partly.add_place(0x14, &Place::default());
        let kept = partly.file().places;
        assert_eq!(kept.iter().map(|it| it.address).collect::<Vec<_>>(), [0x12]);
    }

    /// Whatever is in a file, what comes of it makes sense.
    #[test]
    fn what_makes_no_sense_is_not_believed() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("0707070707070707");
        let open = || opened(Some(directory.path()), &BUILD_ID, Path::new("/nowhere"));
        let mut cache = open();
        cache.add_shape(&CODE, &shape());
        cache.add_place(0x12, &place());
        cache.keep();
        let good: serde_json::Value = serde_json::from_slice(&fs::read(&path).unwrap()).unwrap();
        let no_names: [fn(&mut serde_json::Value); 4] = [
            |file| file["places"][0]["frames"][0][0] = 9.into(),
            |file| file["places"][0]["frames"][1][1][0] = 9.into(),
            |file| file["places"][0]["symbol"][1]["end"] = 0.into(),
            |file| file["words"] = serde_json::Value::Array(Vec::new()),
        ];
        for change in no_names {
            let mut file = good.clone();
            change(&mut file);
            fs::write(&path, serde_json::to_vec(&file).unwrap()).unwrap();
            assert_eq!(open().place(0x12), None, "{file}");
        }
        let mut file = good.clone();
        file["bounds"] = serde_json::json!([{ "start": 9, "end": 10 }, { "start": 1, "end": 2 }]);
        fs::write(&path, serde_json::to_vec(&file).unwrap()).unwrap();
        assert_eq!(open().bounds(Vec::new), [0_u64..0; 0]);
        let changes: [fn(&mut serde_json::Value); 6] = [
            |file| file["version"] = 1.into(),
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
        let mut cache = opened(Some(directory.path()), &BUILD_ID, Path::new("/nowhere"));
        cache.add_shape(&CODE, &shape());
        cache.keep();
        assert_eq!(fs::read_dir(directory.path()).unwrap().count(), MOST_FILES);
        let is_there = |name: &str| directory.path().join(name).exists();
        assert!(!is_there("old3") && is_there("old4"));
        assert_eq!(
            opened(Some(directory.path()), &BUILD_ID, Path::new("/nowhere")).shape(&CODE),
            Some(&shape())
        );
    }
}
