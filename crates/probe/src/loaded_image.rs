//! An image in memory, and what is being changed in it.
//!
//! What its file says of functions is read when it is asked for: that takes longer than all the
//! rest.

use std::cell::{OnceCell, RefCell};
use std::ffi::{CStr, OsStr};
use std::fs::File;
use std::ops::Range;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use object::LittleEndian;
use object::elf::{FileHeader64, PF_X, PT_LOAD};
use object::read::elf::{FileHeader, ProgramHeader};
use unspool_binary::{
    FileAddress, Function, FunctionKind, FunctionNames, LoadBias, Module, RuntimeAddress,
    SymbolTables,
};

use crate::code_bytes::CodeBytes;
use crate::loader::LinkMap;
use crate::passage::EntryPoint;
use crate::patch::{Done, Patch};
use crate::refusal::Refusal;
use crate::voice;

/// What is read of a file to know its segments.
const HEAD: usize = 4096;

/// An image.
#[derive(Debug)]
pub(crate) struct LoadedImage {
    path: PathBuf,
    bias: LoadBias,
    range: Range<u64>,
    /// Whether its addresses are final: not in a library that was just mapped.
    is_relocated: bool,
    has_code_relocations: bool,
    symbols: OnceCell<Option<SymbolTables>>,
    module: OnceCell<Option<Module>>,
    patch: RefCell<Patch<'static>>,
    /// The functions that are being changed.
    changed: RefCell<Vec<(u64, String)>>,
}

impl LoadedImage {
    /// Looks at an image. None if it has no file, or none that is what is mapped.
    pub(crate) fn open(map: &LinkMap, is_relocated: bool) -> Option<LoadedImage> {
        // SAFETY: the loader's list holds names that end in a zero byte.
        let name = unsafe { CStr::from_ptr(map.name) }.to_bytes();
        let path = match name {
            b"" => PathBuf::from("/proc/self/exe").read_link().ok()?,
            // The kernel's own has no file.
            name if !name.contains(&b'/') => return None,
            name => PathBuf::from(OsStr::from_bytes(name)),
        };
        let bias = LoadBias(map.bias);
        let (range, code) = match segments(&path, bias) {
            Ok(segments) => segments,
            Err(reason) => {
                say_unknown(&path, &reason);
                return None;
            }
        };
        Some(LoadedImage {
            path,
            bias,
            patch: RefCell::new(Patch::new(range.clone(), code)),
            range,
            is_relocated,
            // SAFETY: the loader has mapped the image.
            has_code_relocations: unsafe { map.has_code_relocations() },
            symbols: OnceCell::new(),
            module: OnceCell::new(),
            changed: RefCell::default(),
        })
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    pub(crate) fn range(&self) -> Range<u64> {
        self.range.clone()
    }

    /// What its file says of functions.
    pub(crate) fn module(&self) -> Option<&Module> {
        let read = || {
            let module = Module::open(&self.path);
            let unknown = |error: &_| say_unknown(&self.path, &format!("{error}"));
            module.inspect_err(unknown).ok()
        };
        self.module.get_or_init(read).as_ref()
    }

    /// Puts a function in the place of one that is not looked for. Tells whether that is possible.
    pub(crate) fn hook<P>(
        &self,
        name: &str,
        range: &Range<u64>,
        entry: &EntryPoint,
        probe: &'static P,
    ) -> bool {
        let probe = std::ptr::from_ref(probe).cast();
        let mut patch = self.patch.borrow_mut();
        let done = patch.hook(range.start, range.end, entry, probe);
        self.note(name, range.start, done)
    }

    /// Puts a function in the place of all of a name. Returns how many.
    pub(crate) fn hook_named<P>(&self, name: &str, entry: &EntryPoint, probe: &'static P) -> usize {
        let probe = std::ptr::from_ref(probe).cast();
        self.change_named(name, |patch, range| {
            patch.hook(range.start, range.end, entry, probe)
        })
    }

    /// Changes all functions of a name; says which cannot be. Returns how many.
    pub(crate) fn change_named(
        &self,
        name: &str,
        change: impl Fn(&mut Patch<'_>, &Range<u64>) -> Result<Done, Refusal>,
    ) -> usize {
        let mut places = Vec::new();
        let mut count = 0;
        for (start, place) in self.places(name) {
            if place.as_ref().is_ok_and(|place| places.contains(place)) {
                continue;
            }
            let done = place.and_then(|place| {
                let done = change(&mut self.patch.borrow_mut(), &place)?;
                places.push(place);
                Ok(done)
            });
            count += usize::from(self.note(name, start, done));
        }
        count
    }

    /// Where all functions of a name begin, and where what is to be changed is in memory.
    fn places(&self, name: &str) -> Vec<(u64, Result<Range<u64>, Refusal>)> {
        let names = FunctionNames::new([name]);
        let read = || SymbolTables::open(&self.path).ok();
        let symbols = self.symbols.get_or_init(read).as_ref();
        let in_program = |address: FileAddress| address.in_program(self.bias).0;
        if let Some(found) = symbols.and_then(|symbols| symbols.find(&names)) {
            let place = |found: Range<FileAddress>| {
                let place = in_program(found.start)..in_program(found.end);
                let relocated = self.relocated();
                (place.start, relocated.map(|()| place))
            };
            return found.into_iter().map(place).collect();
        }
        let Some(module) = self.module() else {
            return Vec::new();
        };
        let found = module.functions_named(&names).into_iter();
        let place =
            |function: Function<'_>| (in_program(function.address()), self.place(module, function));
        found.map(|found| place(found.function)).collect()
    }

    /// Whether the code is what it is going to be.
    fn relocated(&self) -> Result<(), Refusal> {
        match self.has_code_relocations && !self.is_relocated {
            true => Err(Refusal::Relocated),
            false => Ok(()),
        }
    }

    /// Says what was done to a function, or why nothing was. Tells whether anything was.
    fn note(&self, name: &str, start: u64, done: Result<Done, Refusal>) -> bool {
        let path = self.path.display();
        match done {
            Ok(done) => {
                if voice::is_verbose() {
                    let (length, kept) = (done.length, done.keeps_all);
                    let kept = if kept {
                        ", and keeps all registers"
                    } else {
                        ""
                    };
                    voice::say(&format!(
                        "{name} at {start:#x} in {path}: a jump displaces {length} bytes{kept}"
                    ));
                }
                self.changed.borrow_mut().push((start, name.to_owned()));
                true
            }
            Err(refusal) => {
                voice::say(&format!(
                    "warning: {name} in {path} is not probed: {refusal}"
                ));
                false
            }
        }
    }

    /// Where a function is in memory; of one that chooses another, the one that it chooses.
    fn place(&self, module: &Module, function: Function<'_>) -> Result<Range<u64>, Refusal> {
        let start = function.address().in_program(self.bias).0;
        let end = function.end().in_program(self.bias).0;
        self.relocated()?;
        if function.kind() != FunctionKind::Resolver {
            return Ok(start..end);
        }
        if !self.is_relocated {
            return Err(Refusal::Chosen);
        }
        // SAFETY: the loader calls it just so, and more than once if several images need it.
        let chosen = unsafe {
            let resolver: extern "C" fn() -> u64 = std::mem::transmute(start);
            resolver()
        };
        let address = RuntimeAddress(chosen).in_file(self.bias);
        match module.function_at(address) {
            Some((function, 0)) => Ok(chosen..function.end().in_program(self.bias).0),
            _ => Err(Refusal::Outside),
        }
    }

    /// Makes the changes.
    pub(crate) fn apply(self) {
        let changed = self.changed.into_inner();
        for (start, refusal) in self.patch.into_inner().apply() {
            let name = changed.iter().find(|(changed, _)| *changed == start);
            let name = name.map_or("a function", |(_, name)| name);
            let path = self.path.display();
            voice::say(&format!(
                "warning: {name} in {path} is not probed: {refusal}"
            ));
        }
    }
}

fn say_unknown(path: &Path, reason: &str) {
    if voice::is_verbose() {
        let path = path.display();
        voice::say(&format!("nothing in {path} is probed: {reason}"));
    }
}

/// Where an image is, and the code in it. What is mapped must begin as the file does: that may
/// have been replaced since, and a program that is started by the name of its loader is not where
/// it seems to be.
fn segments(path: &Path, bias: LoadBias) -> Result<(Range<u64>, Vec<CodeBytes<'static>>), String> {
    let text = |error: &dyn std::fmt::Display| error.to_string();
    let file = File::open(path).map_err(|error| text(&error))?;
    let mut head = vec![0; HEAD];
    let length = file.read_at(&mut head, 0).map_err(|error| text(&error))?;
    head.truncate(length);
    let header = FileHeader64::<LittleEndian>::parse(&head[..]).map_err(|error| text(&error))?;
    let all = header
        .program_headers(LittleEndian, &head[..])
        .map_err(|error| text(&error))?;
    let (mut first, mut last, mut is_mapped) = (u64::MAX, 0, false);
    let mut code = Vec::new();
    for segment in all
        .iter()
        .filter(|segment| segment.p_type(LittleEndian) == PT_LOAD)
    {
        let start = segment.p_vaddr(LittleEndian).wrapping_add(bias.0);
        let size = segment.p_filesz(LittleEndian) as usize;
        let end = start.wrapping_add(segment.p_memsz(LittleEndian));
        (first, last) = (first.min(start), last.max(end));
        if segment.p_offset(LittleEndian) == 0 {
            // By way of the kernel, because there may be no memory.
            let mut mapped = vec![0; size.min(head.len())];
            let memory = File::open("/proc/self/mem").map_err(|error| text(&error))?;
            let read = memory.read_exact_at(&mut mapped, start);
            is_mapped = read.is_ok() && mapped == head[..mapped.len()];
        }
        if !is_mapped {
            return Err("the file is not what is in memory".to_owned());
        }
        if segment.p_flags(LittleEndian) & PF_X != 0 {
            // SAFETY: the loader has mapped the segments of this file. What is being changed of
            // them is changed when nobody looks at these bytes any more, and the program does
            // not run meanwhile.
            let bytes = unsafe { std::slice::from_raw_parts(start as *const u8, size) };
            code.push(CodeBytes { start, bytes });
        }
    }
    Ok((first..last, code))
}
