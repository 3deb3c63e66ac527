//! Which functions an address is in, and on which line of the source.

use std::cell::{OnceCell, RefCell};
use std::fs::File;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use rustc_hash::FxHashMap;
use unspool_binary::{FileAddress, FrameInformation, LoadedBytes, Module, SourceLine, SourceLines};
use unspool_profile_record::{Frame, Image, Recording};
use unspool_unwind::{Entries, Section, undescribed_functions};

use crate::structure::{FunctionLoops, Graph, Kept, Leave, Shape};

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
    files: FxHashMap<u32, Option<Symbols>>,
    /// Where the structure of files is kept between runs, if it is.
    kept_in: Option<PathBuf>,
    /// What could not be read.
    pub(crate) problems: Vec<String>,
}

#[derive(Debug)]
struct Symbols {
    path: PathBuf,
    file: Option<File>,
    module: Module,
    lines: SourceLines,
    /// Functions as call-frame information tells them apart, by address, or else their instructions: all
    /// that is left of them where names were stripped. Looked for where there are addresses without names.
    bounds: OnceCell<Vec<Range<u64>>>,
    /// Which functions may come back to who called them, of those that are known.
    returning: RefCell<FxHashMap<u64, bool>>,
    /// Loops that were found before.
    kept: RefCell<Kept>,
}

impl Symbols {
    /// Where the function begins that an address is in.
    fn start_of(&self, address: u64) -> Option<u64> {
        self.bounds_of(address).map(|code| code.start)
    }

    fn bounds_of(&self, address: u64) -> Option<Range<u64>> {
        let bounds = self.bounds.get_or_init(|| bounds(&self.path, &self.module));
        let behind = bounds.partition_point(|code| code.start <= address);
        let code = &bounds[behind.checked_sub(1)?];
        code.contains(&address).then(|| code.clone())
    }

    /// The code of the function that an address is in.
    fn code_of(&self, address: u64) -> Option<Range<u64>> {
        let named = self.module.function_at(FileAddress(address));
        let named = named.map(|(function, _)| function.address().0..function.end().0);
        named
            .filter(|code| code.contains(&address))
            .or_else(|| self.bounds_of(address))
    }

    fn bytes_of(&self, code: &Range<u64>) -> Option<Vec<u8>> {
        let size = code.end.checked_sub(code.start)?;
        let size = usize::try_from(size)
            .ok()
            .filter(|&size| size <= MOST_CODE)?;
        let offset = self.module.offset_of(FileAddress(code.start))?;
        let mut bytes = vec![0; size];
        let file = self.file.as_ref()?;
        file.read_exact_at(&mut bytes, offset.0).ok()?;
        Some(bytes)
    }

    /// The loops of the code in a range.
    fn loops_of(&self, code: &Range<u64>) -> Option<FunctionLoops> {
        if let Some(shape) = self.kept.borrow().shape(code) {
            return Some(FunctionLoops::new(shape, &self.lines));
        }
        let bytes = self.bytes_of(code)?;
        let comes_back = |function| self.comes_back(function, 0);
        let shape = Shape::of((&bytes[..], code.start), &comes_back);
        self.kept.borrow_mut().add(code, &shape);
        Some(FunctionLoops::new(&shape, &self.lines))
    }

    /// Whether the function at an address may come back to who called it, as far as code of this file
    /// tells.
    fn comes_back(&self, function: u64, depth: usize) -> bool {
        if depth == MOST_CALLS {
            return true;
        }
        if let Some(&known) = self.returning.borrow().get(&function) {
            return known;
        }
        let code = self.code_of(function).filter(|code| code.start == function);
        let Some(bytes) = code.and_then(|code| self.bytes_of(&code)) else {
            return true;
        };
        // What calls it in turn may rely on it until more is known.
        self.returning.borrow_mut().insert(function, true);
        let inner = |callee| self.comes_back(callee, depth + 1);
        let ways = Graph::of(&bytes, function, &inner).ways_out();
        let comes_back = ways.into_iter().any(|way| match way {
            Leave::Unknown => true,
            Leave::To(other) => inner(other),
        });
        self.returning.borrow_mut().insert(function, comes_back);
        comes_back
    }
}

/// How deep calls are followed to see whether they come back.
const MOST_CALLS: usize = 8;
/// The most bytes of a function in which loops are looked for.
const MOST_CODE: usize = 16 << 20;

impl<'a> Names<'a> {
    pub(crate) fn new(recording: &'a Recording, kept_in: Option<&Path>) -> Names<'a> {
        Names {
            recording,
            kept_in: kept_in.map(Path::to_owned),
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
        let (problems, kept_in) = (&mut self.problems, self.kept_in.as_deref());
        let file = self.files.entry(image.number);
        let symbols = file.or_insert_with(|| open(image, kept_in, problems));
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

/// What is known of the files of frames that were named.
impl Names<'_> {
    fn symbols(&self, image: u32) -> Option<&Symbols> {
        self.files.get(&image)?.as_ref()
    }

    /// The code of the function that a frame is in.
    pub(crate) fn code_of(&self, frame: &Frame) -> Option<Range<u64>> {
        self.symbols(frame.image?)?.code_of(frame.address)
    }

    /// The loops of the code in a range of an image.
    pub(crate) fn loops_of(&self, image: u32, code: &Range<u64>) -> Option<FunctionLoops> {
        self.symbols(image)?.loops_of(code)
    }

    /// Keeps what was found, for the next run.
    pub(crate) fn keep(&self) {
        for symbols in self.files.values().flatten() {
            symbols.kept.borrow_mut().keep();
        }
    }

    /// The bytes of some code of an image, and what finds their lines.
    pub(crate) fn instructions_of(
        &self,
        image: u32,
        code: &Range<u64>,
    ) -> Option<(Vec<u8>, impl Fn(u64) -> Option<SourceLine>)> {
        let symbols = self.symbols(image)?;
        let line = |address| symbols.lines.find(FileAddress(address));
        Some((symbols.bytes_of(code)?, line))
    }
}

fn section(loaded: &LoadedBytes) -> Section<'_> {
    Section {
        address: loaded.address.0,
        bytes: &loaded.bytes,
    }
}

/// Opens the file of an image, if it is the one that was sampled.
fn open(image: &Image, kept_in: Option<&Path>, problems: &mut Vec<String>) -> Option<Symbols> {
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
    Some(Symbols {
        path: path.to_owned(),
        file: File::open(path).ok(),
        module,
        lines: SourceLines::open(path),
        bounds: OnceCell::new(),
        returning: RefCell::default(),
        kept: RefCell::new(Kept::open(kept_in, &image.build_id, path)),
    })
}

/// The functions of a file, with names and without.
fn bounds(path: &Path, module: &Module) -> Vec<Range<u64>> {
    let information = FrameInformation::open(path).unwrap_or_default();
    let entries = Entries::new(section(&information.frames));
    let mut bounds: Vec<Range<u64>> = entries.map(|entry| entry.code).collect();
    let code: Vec<Section<'_>> = information.code.iter().map(section).collect();
    let named = module.functions();
    let named: Vec<_> = named.map(|it| it.address().0..it.end().0).collect();
    let entry = module.entry().0;
    bounds.extend(undescribed_functions(&code, &bounds, &named, entry));
    bounds.sort_unstable_by_key(|code| code.start);
    bounds
}
