//! Images: the files (and other memory) that the program's code comes from.
//!
//! What is executable is an image's, whoever mapped it: the kernel's part at the start, the
//! dynamic loader, or the program itself. An image is announced when its first page becomes
//! executable, so before anything of it runs, and gone when its last one is unmapped. That code
//! is made writable for a while, as just-in-time compilers do, changes nothing.
//!
//! Files are read when something is asked of them, and not before.

use std::ffi::OsStr;
use std::ops::Range;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use unspool_binary::{
    FileOffset, Function, FunctionNames, LoadBias, Module, RuntimeAddress, Section, SourceLine,
    SourceLines,
};
use unspool_kernel::file_identity::FileIdentity;
use unspool_kernel::lock::{Mutex, OnceLock};
use unspool_kernel::regions::{Object, Region, Regions, Version};
use unspool_kernel::{guarded, maps};
use unspool_loader::LoadedProgram;

use super::frames::Frames;
use unspool_engine::call::{Call, succeeded};
use unspool_engine::process::Process;
use unspool_engine::syscalls::whole_pages;

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
    kind: ImageKind,
    path: PathBuf,
    /// Where its first executable page is, and where that is in the file.
    first: (u64, u64),
    /// The content of the file when it was mapped.
    version: Option<Version>,
    object: Option<Object>,
    code: Mutex<Vec<CodeRange>>,
    contents: OnceLock<Option<Contents>>,
    lines: OnceLock<Mutex<SourceLines>>,
    frames: OnceLock<Frames>,
}

/// Pages of an image that have been executable.
#[derive(Debug, Clone)]
struct CodeRange {
    range: Range<u64>,
    /// What to add to an offset in the file to get the address.
    distance: u64,
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
    fn new(kind: ImageKind, path: PathBuf, piece: CodeRange) -> Image {
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
    pub(super) fn frames(&self) -> Option<&Frames> {
        if self.frames.get().is_none() {
            let frames = Frames::read(self.module()?, self.bias()?)?;
            // Somebody else may have been quicker.
            let _ = self.frames.set(frames);
        }
        self.frames.get()
    }

    /// The piece of its code that holds an address.
    pub(super) fn code_range_at(&self, address: u64) -> Option<Range<u64>> {
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

/// All images of the process.
#[derive(Debug, Default)]
pub(crate) struct Images {
    all: Mutex<Arc<Vec<Arc<Image>>>>,
    /// How often they, or their code, have changed.
    changes: AtomicU64,
}

impl Images {
    /// Those that there are, and how often they have changed.
    pub(super) fn now(&self) -> (Arc<Vec<Arc<Image>>>, u64) {
        let all = self.all.lock();
        (Arc::clone(&all), self.changes.load(Ordering::Relaxed))
    }

    /// A program has been loaded. Returns the first images.
    pub(crate) fn begin(&self, process: &Process, loaded: &LoadedProgram) -> Vec<Arc<Image>> {
        let images = first_images(process, loaded);
        *self.all.lock() = Arc::new(images.clone());
        images
    }

    /// The one that holds the code at an address.
    pub(crate) fn find(&self, address: u64) -> Option<Arc<Image>> {
        let all = self.all.lock();
        let holds = |image: &&Arc<Image>| {
            let code = image.code.lock();
            code.iter().any(|piece| piece.range.contains(&address))
        };
        all.iter().find(holds).cloned()
    }

    /// Takes note of what is mapped in a range now. Returns the images that are gone, and those
    /// that are new.
    pub(crate) fn update(
        &self,
        regions: &Regions,
        range: &Range<u64>,
    ) -> (Vec<Arc<Image>>, Vec<Arc<Image>>) {
        let now: Vec<(Range<u64>, Region)> = regions.within(range.clone()).collect();
        let mut all = self.all.lock();
        let all = Arc::make_mut(&mut all);
        let mut is_changed = false;
        let mut gone = Vec::new();
        all.retain(|image| {
            let mut code = image.code.lock();
            if !code.iter().any(|piece| meet(&piece.range, range)) {
                return true;
            }
            is_changed = true;
            let rest = code.iter().flat_map(|piece| image.rest(piece, range, &now));
            *code = rest.collect();
            if code.is_empty() {
                gone.push(Arc::clone(image));
            }
            !code.is_empty()
        });
        let mut new = Vec::new();
        for (piece, region) in now {
            if region.protection & libc::PROT_EXEC != 0
                && !all.iter().any(|image| image.covers(&piece))
            {
                is_changed = true;
                new.extend(add(all, piece, &region));
            }
        }
        if is_changed {
            self.changes.fetch_add(1, Ordering::Relaxed);
        }
        (gone, new)
    }
}

/// Makes executable pages an image's. Returns it if it is a new one.
fn add(all: &mut Vec<Arc<Image>>, range: Range<u64>, region: &Region) -> Option<Arc<Image>> {
    let piece = CodeRange {
        distance: range
            .start
            .wrapping_sub(region.view.map_or(0, |view| view.offset)),
        range,
    };
    let path = region.view.and_then(|_| path_at(piece.range.start));
    let owner = match &path {
        // What is generated grows.
        None => all
            .iter()
            .find(|image| image.kind == ImageKind::Generated && image.touches(&piece.range)),
        // A file that is mapped a second time, by `dlmopen` for instance, is another image.
        Some(path) => all.iter().find(|image| {
            image.path == *path
                && image.code.lock().iter().all(|known| {
                    let offset = |piece: &CodeRange| piece.range.start.wrapping_sub(piece.distance);
                    known.distance == piece.distance || offset(known) != offset(&piece)
                })
        }),
    };
    if let Some(image) = owner {
        image.code.lock().push(piece);
        return None;
    }
    let kind = match &path {
        None => ImageKind::Generated,
        Some(_) => ImageKind::Library,
    };
    let image = Arc::new(Image {
        version: region.version,
        object: region.view.map(|view| view.object),
        ..Image::new(kind, path.unwrap_or_default(), piece)
    });
    all.push(Arc::clone(&image));
    Some(image)
}

impl Image {
    /// What of a piece of its code is still its own: what lies outside a range, and what is
    /// still the same memory.
    fn rest(
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

    fn covers(&self, range: &Range<u64>) -> bool {
        let code = self.code.lock();
        code.iter()
            .any(|piece| piece.range.start <= range.start && range.end <= piece.range.end)
    }

    fn touches(&self, range: &Range<u64>) -> bool {
        let code = self.code.lock();
        code.iter()
            .any(|piece| piece.range.start <= range.end && range.start <= piece.range.end)
    }
}

fn meet(one: &Range<u64>, other: &Range<u64>) -> bool {
    one.start < other.end && other.start < one.end
}

/// The file that is mapped at an address, as long as it has a name.
fn path_at(address: u64) -> Option<PathBuf> {
    let text = maps::read();
    let path = maps::lines(&text)
        .find(|line| line.range.contains(&address))?
        .name;
    let named =
        path.starts_with(b"/") && !path.ends_with(b" (deleted)") && !path.starts_with(b"/memfd:");
    named.then(|| PathBuf::from(OsStr::from_bytes(path)))
}

/// The images of a program that has been loaded: the first ones.
fn first_images(process: &Process, loaded: &LoadedProgram) -> Vec<Arc<Image>> {
    let mut images: Vec<Arc<Image>> = Vec::new();
    for segment in &loaded.segments {
        let Some(path) = &segment.file else { continue };
        if segment.protection & libc::PROT_EXEC == 0 {
            continue;
        }
        let piece = CodeRange {
            range: segment.address..segment.end(),
            distance: segment.address.wrapping_sub(segment.offset),
        };
        if let Some(image) = images.iter().find(|image| image.path == *path) {
            image.code.lock().push(piece);
            continue;
        }
        let kind = match loaded.interpreter.as_ref() == Some(path) {
            true => ImageKind::Interpreter,
            false => ImageKind::Program,
        };
        let identity = FileIdentity::at(path);
        images.push(Arc::new(Image {
            version: identity.map(|identity| identity.version),
            object: identity.map(|identity| identity.object),
            ..Image::new(kind, path.clone(), piece)
        }));
    }
    images.sort_by_key(|image| image.kind != ImageKind::Program);
    let vdso = process.vdso;
    if vdso.size != 0 {
        let piece = CodeRange {
            range: vdso.start..vdso.start + vdso.size,
            distance: vdso.start,
        };
        let image = Image::new(ImageKind::Vdso, "[vdso]".into(), piece);
        images.push(Arc::new(image));
    }
    images
}

/// Where a system call that is over may have changed what can be executed.
pub(crate) fn changed_by(call: &Call, result: i64) -> Vec<Range<u64>> {
    const EVERYTHING: Range<u64> = 0..u64::MAX;
    if !succeeded(result) {
        return Vec::new();
    }
    let [first, second, third, ..] = call.arguments;
    match call.number as i64 {
        libc::SYS_mmap => vec![whole_pages(result as u64, second)],
        libc::SYS_munmap | libc::SYS_mprotect | libc::SYS_pkey_mprotect => {
            vec![whole_pages(first, second)]
        }
        libc::SYS_mremap => vec![
            whole_pages(first, second),
            whole_pages(result as u64, third),
        ],
        libc::SYS_shmat | libc::SYS_shmdt => vec![EVERYTHING],
        _ => Vec::new(),
    }
}
