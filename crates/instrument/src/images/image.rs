//! One image: its code in memory, and what its file says of it.

use std::ops::Range;
use std::path::{Path, PathBuf};

use unspool_binary::{
    FileOffset, Function, FunctionNames, LoadBias, Module, RuntimeAddress, Section, SourceLine,
    SourceLines,
};
use unspool_kernel::file_identity::FileIdentity;
use unspool_kernel::guarded;
use unspool_kernel::lock::{Mutex, OnceLock};
use unspool_kernel::regions::{Object, Region, Version};

use crate::frames::Frames;

/// What an image is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ImageKind {
    /// The program's own file.
    Program,
    /// The dynamic loader, which the program's file names.
    Interpreter,
    /// Another file: a library, or what the program mapped itself.
    Library,
    /// The kernel's code for cheap system calls.
    Vdso,
    /// Memory without a file that has a name: what a just-in-time compiler made, for instance.
    Generated,
}

/// The code of one file in memory, or other code.
#[derive(Debug)]
pub struct Image {
    pub(super) kind: ImageKind,
    pub(super) path: PathBuf,
    /// Where its first executable page is, and where that is in the file.
    first: (u64, u64),
    /// The content of the file when it was mapped.
    version: Option<Version>,
    object: Option<Object>,
    pub(super) code: Mutex<Vec<CodeRange>>,
    contents: OnceLock<Option<Contents>>,
    lines: OnceLock<Mutex<SourceLines>>,
    frames: OnceLock<Frames>,
}

/// Pages of an image that have been executable.
#[derive(Debug, Clone)]
pub(super) struct CodeRange {
    pub(super) range: Range<u64>,
    /// What to add to an offset in the file to get the address.
    pub(super) distance: u64,
}

/// What the file says, and where it is.
#[derive(Debug)]
struct Contents {
    module: Module,
    bias: LoadBias,
}

/// A routine of an image: a piece of code with a name.
#[derive(Debug, Clone, Copy)]
pub struct Routine<'a> {
    image: &'a Image,
    function: Function<'a>,
    bias: LoadBias,
}

impl Image {
    pub(super) fn new(kind: ImageKind, path: PathBuf, piece: CodeRange) -> Image {
        let start = piece.range.start;
        Image {
            kind,
            path,
            first: (start, start.wrapping_sub(piece.distance)),
            version: None,
            object: None,
            code: Mutex::new(vec![piece]),
            contents: OnceLock::new(),
            lines: OnceLock::new(),
            frames: OnceLock::new(),
        }
    }

    /// The same, of a file of this content.
    pub(super) fn of_file(self, version: Option<Version>, object: Option<Object>) -> Image {
        Image {
            version,
            object,
            ..self
        }
    }

    /// What it is.
    #[must_use]
    pub fn kind(&self) -> ImageKind {
        self.kind
    }

    /// Its file; `[vdso]` for the kernel's code, and empty for code without a file.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// What to add to the addresses in its file; 0 where they are what they say, and `None`
    /// where there is no file, or one that cannot be read or has changed since.
    #[must_use]
    pub fn bias(&self) -> Option<u64> {
        Some(self.contents()?.bias.0)
    }

    /// The addresses from its first segment to the end of its last. Without a file, those of
    /// its code.
    #[must_use]
    pub fn range(&self) -> Range<u64> {
        let spanned = self.contents().and_then(|contents| {
            let (start, end) = contents.module.span()?;
            Some(start.in_program(contents.bias).0..end.in_program(contents.bias).0)
        });
        spanned.unwrap_or_else(|| {
            let code = self.code.lock();
            let start = code.iter().map(|piece| piece.range.start).min();
            let end = code.iter().map(|piece| piece.range.end).max();
            start.unwrap_or(0)..end.unwrap_or(0)
        })
    }

    /// The address of its first segment. Without a file, that of its code.
    #[must_use]
    pub fn base(&self) -> u64 {
        self.range().start
    }

    /// What of its memory has been executable.
    #[must_use]
    pub fn code(&self) -> Vec<Range<u64>> {
        let code = self.code.lock();
        code.iter().map(|piece| piece.range.clone()).collect()
    }

    /// The identifier that the linker gave it, if any.
    #[must_use]
    pub fn build_id(&self) -> Option<&[u8]> {
        self.contents()?.module.build_id()
    }

    /// What its file says. Its addresses are the file's: see [`Image::bias`].
    #[must_use]
    pub fn module(&self) -> Option<&Module> {
        Some(&self.contents()?.module)
    }

    /// The section that an address is in.
    #[must_use]
    pub fn section_at(&self, address: u64) -> Option<&Section> {
        let contents = self.contents()?;
        contents
            .module
            .section_at(RuntimeAddress(address).in_file(contents.bias))
    }

    /// All its routines, by address; those with several names several times. What symbol
    /// tables say: of stripped files only what they export.
    pub fn routines(&self) -> impl Iterator<Item = Routine<'_>> {
        let contents = self.contents();
        contents.into_iter().flat_map(move |contents| {
            let functions = contents.module.functions();
            functions.map(move |function| self.routine(contents, function))
        })
    }

    /// The routines of a name, each address once: a symbol, or a name as the source has it,
    /// with or without the types of its arguments.
    #[must_use]
    pub fn routines_named(&self, name: &str) -> Vec<Routine<'_>> {
        let Some(contents) = self.contents() else {
            return Vec::new();
        };
        let names = FunctionNames::new([name]);
        let found = contents.module.functions_named(&names);
        let mut all: Vec<_> = found
            .iter()
            .map(|found| self.routine(contents, found.function))
            .collect();
        all.dedup_by_key(|routine| routine.address());
        all
    }

    /// The innermost routine that holds an address.
    #[must_use]
    pub fn routine_at(&self, address: u64) -> Option<Routine<'_>> {
        let contents = self.contents()?;
        let address = RuntimeAddress(address).in_file(contents.bias);
        let (function, _) = contents.module.function_at(address)?;
        Some(self.routine(contents, function))
    }

    /// The line of the source that the instruction at an address comes from, if there is
    /// debugging information.
    #[must_use]
    pub fn source_line(&self, address: u64) -> Option<SourceLine> {
        let contents = self.contents()?;
        let lines = self
            .lines
            .get_or_init(|| Mutex::new(SourceLines::open(&self.path)));
        lines
            .lock()
            .find(RuntimeAddress(address).in_file(contents.bias))
    }

    /// What it says of frames of functions. While it is being loaded that may not be there yet.
    pub(crate) fn frames(&self) -> Option<&Frames> {
        if self.frames.get().is_none() {
            let frames = Frames::read(self.module()?, self.bias()?)?;
            // Somebody else may have been quicker.
            let _ = self.frames.set(frames);
        }
        self.frames.get()
    }

    /// The piece of its code that holds an address.
    pub(crate) fn code_range_at(&self, address: u64) -> Option<Range<u64>> {
        let code = self.code.lock();
        let mut ranges = code.iter().map(|piece| &piece.range);
        ranges.find(|range| range.contains(&address)).cloned()
    }

    fn routine<'a>(&'a self, contents: &Contents, function: Function<'a>) -> Routine<'a> {
        Routine {
            image: self,
            function,
            bias: contents.bias,
        }
    }

    fn contents(&self) -> Option<&Contents> {
        let read = || match self.kind {
            ImageKind::Generated => None,
            ImageKind::Vdso => self.read_vdso(),
            _ => self.read_file(),
        };
        self.contents.get_or_init(read).as_ref()
    }

    fn read_file(&self) -> Option<Contents> {
        let now = FileIdentity::at(&self.path)?;
        if self.version.is_some_and(|version| version != now.version) {
            return None;
        }
        let module = Module::open(&self.path).ok()?;
        let (address, offset) = self.first;
        let bias = module.bias_of_mapping(RuntimeAddress(address), FileOffset(offset), true)?;
        Some(Contents { module, bias })
    }

    fn read_vdso(&self) -> Option<Contents> {
        let range = self.code.lock().first()?.range.clone();
        let mut bytes = vec![0; (range.end - range.start) as usize];
        if !guarded::read(range.start, &mut bytes) {
            return None;
        }
        let module = Module::from_bytes(&self.path, bytes).ok()?;
        let (start, _) = module.span()?;
        let bias = LoadBias(range.start.wrapping_sub(start.0));
        Some(Contents { module, bias })
    }

    /// What of a piece of its code is still its own: what lies outside a range, and what is
    /// still the same memory.
    pub(super) fn rest(
        &self,
        piece: &CodeRange,
        range: &Range<u64>,
        now: &[(Range<u64>, Region)],
    ) -> Vec<CodeRange> {
        let same = now.iter().filter(|(here, region)| {
            let object = region.view.map(|view| view.object);
            let offset = region.view.map(|view| view.offset);
            let in_place =
                offset.is_none_or(|offset| here.start.wrapping_sub(offset) == piece.distance);
            self.kind == ImageKind::Vdso || object == self.object && in_place
        });
        let outside = [
            piece.range.start..piece.range.end.min(range.start),
            piece.range.start.max(range.end)..piece.range.end,
        ];
        let same =
            same.map(|(here, _)| here.start.max(piece.range.start)..here.end.min(piece.range.end));
        let mut rest: Vec<Range<u64>> = outside.into_iter().chain(same).collect();
        rest.retain(|part| part.start < part.end);
        rest.sort_unstable_by_key(|part| part.start);
        rest.dedup_by(|next, part| {
            let adjacent = part.end == next.start;
            if adjacent {
                part.end = next.end;
            }
            adjacent
        });
        let with_distance = |range| CodeRange {
            range,
            distance: piece.distance,
        };
        rest.into_iter().map(with_distance).collect()
    }

    pub(super) fn covers(&self, range: &Range<u64>) -> bool {
        let code = self.code.lock();
        code.iter()
            .any(|piece| piece.range.start <= range.start && range.end <= piece.range.end)
    }

    pub(super) fn touches(&self, range: &Range<u64>) -> bool {
        let code = self.code.lock();
        code.iter()
            .any(|piece| piece.range.start <= range.end && range.start <= piece.range.end)
    }
}

impl<'a> Routine<'a> {
    /// The image that it is in.
    #[must_use]
    pub fn image(&self) -> &'a Image {
        self.image
    }

    /// The address of its first instruction.
    #[must_use]
    pub fn address(&self) -> u64 {
        self.function.address().in_program(self.bias).0
    }

    /// The address behind its last byte.
    #[must_use]
    pub fn end(&self) -> u64 {
        self.function.end().in_program(self.bias).0
    }

    /// Its name as the source has it: C++ with its arguments' types, Rust without its hash.
    #[must_use]
    pub fn name(&self) -> String {
        self.function.name()
    }

    /// Its name as the symbol table has it, without a version.
    #[must_use]
    pub fn symbol(&self) -> &'a [u8] {
        self.function.symbol()
    }

    /// Whether it only chooses, once, the code that does the named work (`STT_GNU_IFUNC`).
    #[must_use]
    pub fn is_resolver(&self) -> bool {
        self.function.kind() == unspool_binary::FunctionKind::Resolver
    }
}
