//! Which functions an address is in, and on which line of the source.

use std::ops::Range;
use std::path::Path;

use rustc_hash::FxHashMap;
use unspool_binary::{FileAddress, FrameInformation, Module, SourceLine, SourceLines};
use unspool_profile_record::{Frame, Image, Recording};
use unspool_unwind::{Entries, Section};

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
pub(crate) struct Names<'a> {
    recording: &'a Recording,
    files: FxHashMap<u32, Option<Symbols>>,
    /// What could not be read.
    pub(crate) problems: Vec<String>,
}

struct Symbols {
    module: Module,
    lines: SourceLines,
    /// Functions as call-frame information tells them apart, by address: all that is left of them
    /// where names were stripped.
    bounds: Vec<Range<u64>>,
}

impl Symbols {
    /// Where the function begins that an address is in.
    fn start_of(&self, address: u64) -> Option<u64> {
        let behind = self.bounds.partition_point(|code| code.start <= address);
        let code = &self.bounds[behind.checked_sub(1)?];
        code.contains(&address).then_some(code.start)
    }
}

impl<'a> Names<'a> {
    pub(crate) fn new(recording: &'a Recording) -> Names<'a> {
        Names {
            recording,
            files: FxHashMap::default(),
            problems: Vec::new(),
        }
    }

    /// The names of a frame.
    pub(crate) fn of(&mut self, frame: &Frame) -> Named {
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
        let problems = &mut self.problems;
        let file = self.files.entry(image.number);
        let symbols = file.or_insert_with(|| open(image, problems));
        let address = FileAddress(frame.address);
        let mut functions = Vec::new();
        let mut lines = Vec::new();
        if let Some(symbols) = symbols {
            for frame in symbols.lines.frames(address).into_iter().rev() {
                if let Some(function) = frame.function {
                    functions.push(function);
                    lines.push(frame.line);
                }
            }
            if let Some((function, _)) = symbols.module.function_at(address) {
                // The table of symbols has the name that the linker knows.
                match functions.first_mut() {
                    Some(outermost) => *outermost = function.name(),
                    None => functions.push(function.name()),
                }
            }
        }
        if functions.is_empty() {
            let name = path.rsplit('/').next().unwrap_or(&path);
            let start = symbols
                .as_ref()
                .and_then(|symbols| symbols.start_of(frame.address));
            functions.push(format!("{name}+{:#x}", start.unwrap_or(frame.address)));
        }
        if lines.is_empty() {
            let found = symbols.as_ref().map(|symbols| symbols.lines.find(address));
            lines.push(found.flatten());
        }
        Named {
            functions,
            image: path,
            lines,
        }
    }
}

/// Opens the file of an image, if it is the one that was sampled.
fn open(image: &Image, problems: &mut Vec<String>) -> Option<Symbols> {
    if !image.path.starts_with('/') || image.path.starts_with("//") {
        return None;
    }
    let path = Path::new(&image.path);
    let module = match Module::open(path) {
        Ok(module) => module,
        Err(error) => {
            problems.push(format!("{error}: its functions have no names"));
            return None;
        }
    };
    if module.build_id().unwrap_or_default() != image.build_id {
        let path = path.display();
        problems.push(format!(
            "{path} is not the file that was sampled: its functions have no names"
        ));
        return None;
    }
    let frames = FrameInformation::open(path).unwrap_or_default().frames;
    let entries = Entries::new(Section {
        address: frames.address.0,
        bytes: &frames.bytes,
    });
    let mut bounds: Vec<Range<u64>> = entries.map(|entry| entry.code).collect();
    bounds.sort_unstable_by_key(|code| code.start);
    Some(Symbols {
        module,
        lines: SourceLines::open(path),
        bounds,
    })
}
