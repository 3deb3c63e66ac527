//! Which functions an address is in, and on which line of the source.

use std::ops::Range;
use std::path::Path;

use rayon::prelude::*;
use rustc_hash::{FxHashMap, FxHashSet};
use unspool_binary::SourceLine;
use unspool_profile_record::{Frame, Image, Recording};

use crate::structure::{CodeFile, FunctionLoops, Place};

/// What is known of a frame.
#[derive(Debug, Clone, Default)]
pub(crate) struct Named {
    /// The functions that it is in, those that were inlined last.
    pub(crate) functions: Vec<String>,
    /// The path of the image.
    pub(crate) image: String,
    /// The line of each function: of the innermost one that of the instruction, of the others where
    /// the next was called.
    pub(crate) lines: Vec<Option<SourceLine>>,
}

impl Named {
    fn of(name: String, image: String) -> Named {
        Named {
            functions: vec![name],
            image,
            lines: vec![None],
        }
    }

    /// The line of the innermost function.
    pub(crate) fn line(&self) -> Option<&SourceLine> {
        let line = self.lines.last()?.as_ref();
        line.filter(|line| line.line > 0)
    }
}

/// The files of a recording.
#[derive(Debug)]
pub(crate) struct Names<'a> {
    recording: &'a Recording,
    files: FxHashMap<u32, CodeFile>,
    /// Why files were not opened.
    unopened: Vec<String>,
}

impl<'a> Names<'a> {
    /// Opens the files. Where the structure of files is kept between runs, if it is: a directory.
    pub(crate) fn new(recording: &'a Recording, kept_in: Option<&Path>) -> Names<'a> {
        let mut images: Vec<_> = recording.images.values().collect();
        images.sort_by_key(|image| image.number);
        let used: FxHashSet<u32> = recording
            .frames
            .values()
            .filter_map(|it| it.image)
            .collect();
        images.retain(|image| used.contains(&image.number));
        let open = |image: &&Image| (image.number, CodeFile::open(image, kept_in));
        let opened: Vec<_> = images.par_iter().map(open).collect();
        let (mut files, mut unopened) = (FxHashMap::default(), Vec::new());
        for (number, file) in opened {
            match file {
                Ok(file) => files.extend(file.map(|file| (number, file))),
                Err(problem) => unopened.push(problem),
            }
        }
        Names {
            recording,
            files,
            unopened,
        }
    }

    /// What could not be read until now.
    pub(crate) fn problems(&self) -> Vec<String> {
        let of_files = self.files.values().flat_map(CodeFile::problems);
        let mut all: Vec<String> = self.unopened.iter().cloned().chain(of_files).collect();
        all.sort_unstable();
        all.dedup();
        all
    }

    /// The names of all frames, by their numbers.
    pub(crate) fn of_frames(&self) -> FxHashMap<u32, Named> {
        let mut frames: Vec<&Frame> = self.recording.frames.values().collect();
        // What is near to one another is looked up by one thread: it is of the same units.
        frames.sort_by_key(|frame| (frame.image, frame.address));
        let named = |frame: &&Frame| (frame.number, self.of(frame));
        let all: Vec<_> = frames.par_iter().map(named).collect();
        all.into_iter().collect()
    }

    fn of(&self, frame: &Frame) -> Named {
        let image = frame
            .image
            .and_then(|number| self.recording.images.get(&number));
        let Some(image) = image else {
            let name = format!("[unknown {:#x}]", frame.address);
            return Named::of(name, String::new());
        };
        let path = image.path.clone();
        if path.starts_with('[') && frame.address == 0 {
            return Named::of(path.clone(), path);
        }
        if let Some(symbol) = self.recording.symbol_at(image.number, frame.address) {
            return Named::of(symbol.name.clone(), path);
        }
        let file = self.files.get(&image.number);
        let place = file.map_or_else(Place::default, |file| file.place(frame.address));
        let (mut functions, mut lines) = (Vec::new(), Vec::new());
        for frame in place.frames.into_iter().rev() {
            if let Some(function) = frame.function {
                functions.push(function);
                lines.push(frame.line);
            }
        }
        if let Some((name, _)) = place.symbol {
            let name = whole_function(name);
            // The table of symbols has the name that the linker knows.
            match functions.first_mut() {
                Some(outermost) => *outermost = name,
                None => functions.push(name),
            }
        }
        if functions.is_empty() {
            let name = path.rsplit('/').next().unwrap_or(&path);
            let code = file.and_then(|file| file.bounds_of(frame.address));
            let start = code.map_or(frame.address, |code| code.start);
            functions.push(format!("{name}+{start:#x}"));
        }
        if lines.is_empty() {
            lines.push(place.line);
        }
        Named {
            functions,
            image: path,
            lines,
        }
    }

    fn file(&self, image: u32) -> Option<&CodeFile> {
        self.files.get(&image)
    }

    /// The code of the function that a frame is in.
    pub(crate) fn code_of(&self, frame: &Frame) -> Option<Range<u64>> {
        self.file(frame.image?)?.code_of(frame.address)
    }

    /// The loops of the code in a range of an image.
    pub(crate) fn loops_of(&self, image: u32, code: &Range<u64>) -> Option<FunctionLoops> {
        self.file(image)?.loops_of(code)
    }

    /// The bytes of some code of an image, and what finds their lines.
    pub(crate) fn instructions_of(
        &self,
        image: u32,
        code: &Range<u64>,
    ) -> Option<(Vec<u8>, impl Fn(u64) -> Option<SourceLine>)> {
        let file = self.file(image)?;
        Some((file.bytes_of(code)?, |address| file.line(address)))
    }
}

/// The function that a part of one is of, which compilers lay apart because it is seldom executed.
fn whole_function(mut name: String) -> String {
    let marks = [" [clone .cold", ".cold"];
    let is_mark = |rest: &str| {
        rest.trim_end_matches(']')
            .bytes()
            .all(|it| b".0123456789".contains(&it))
    };
    let part = marks.iter().find_map(|mark| {
        let place = name.rfind(mark)?;
        is_mark(&name[place + mark.len()..]).then_some(place)
    });
    if let Some(place) = part {
        name.truncate(place);
    }
    name
}

/// What was asked for is kept for the next run, when nothing more is asked.
impl Drop for Names<'_> {
    fn drop(&mut self) {
        self.files.values().for_each(CodeFile::keep);
    }
}

#[cfg(test)]
mod tests {
    use super::whole_function;

    #[test]
    fn parts_of_functions_have_the_functions_name() {
        let whole = |name: &str| whole_function(name.to_owned());
        for part in ["f", "f.cold", "f.cold.3"] {
            assert_eq!(whole(part), "f");
        }
        for part in ["a::f(int) [clone .cold]", "a::f(int) [clone .cold.12]"] {
            assert_eq!(whole(part), "a::f(int)");
        }
        for other in ["f.colder", "cold", "f [clone .part.0]", "f._omp_fn.0"] {
            assert_eq!(whole(other), other);
        }
    }
}
