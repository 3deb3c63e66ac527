//! A file whose code was sampled. What is asked of it is looked up once, and kept for the next run.

use std::collections::BTreeSet;
use std::fs::File;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

use rustc_hash::FxHashMap;
use unspool_binary::{
    DebugInformation, FileAddress, FrameInformation, Function, LoadedBytes, Module, Problem,
    SourceLine, SourceLines, build_id_of,
};
use unspool_profile_record::Image;
use unspool_unwind::{Entries, Section, undescribed_functions};

use super::cache::Cache;
use super::control_flow::may_return;
use super::place::Place;
use super::{FunctionLoops, Shape};

/// How deep calls are followed to see whether they come back.
const MOST_CALLS: u8 = 8;
/// The most bytes of a function in which loops are looked for.
const MOST_CODE: usize = 16 << 20;

/// A file with code. Several threads may ask.
#[derive(Debug)]
pub(crate) struct CodeFile {
    path: PathBuf,
    /// Read where something is asked that was not kept.
    module: OnceLock<Option<Module>>,
    lines: LinesOfThreads,
    cache: Mutex<Cache>,
    /// Which functions may come back to who called them, of those that were asked for.
    returning: Mutex<FxHashMap<u64, Depths>>,
    file: OnceLock<Option<File>>,
    /// What is wrong with the files that should have its debugging information.
    problems: Vec<Problem>,
}

/// How deep calls are followed where a function comes back, and where it does not.
#[derive(Debug, Clone, Copy, Default)]
struct Depths {
    does: u8,
    does_not: Option<u8>,
}

impl CodeFile {
    /// The file of an image, if it is the one that was sampled; none for what is no file.
    ///
    /// # Errors
    /// Says why the file is not read.
    pub(crate) fn open(image: &Image, kept_in: Option<&Path>) -> Result<Option<CodeFile>, String> {
        if !image.path.starts_with('/') || image.path.starts_with("//") {
            return Ok(None);
        }
        let path = PathBuf::from(&image.path);
        let build_id =
            build_id_of(&path).map_err(|error| format!("{error}: its functions have no names"))?;
        if build_id.unwrap_or_default() != image.build_id {
            return Err(format!(
                "{} is not the file that was sampled: its functions have no names",
                path.display()
            ));
        }
        let mut problems = Vec::new();
        let information = DebugInformation::find(&path, &mut problems);
        let cache = Cache::open(kept_in, &image.build_id, &path, information.as_ref());
        Ok(Some(CodeFile {
            cache: Mutex::new(cache),
            lines: LinesOfThreads::of(information),
            problems,
            module: OnceLock::new(),
            returning: Mutex::default(),
            file: OnceLock::new(),
            path,
        }))
    }

    fn cache(&self) -> MutexGuard<'_, Cache> {
        locked(&self.cache)
    }

    fn module(&self) -> Option<&Module> {
        let module = self.module.get_or_init(|| Module::open(&self.path).ok());
        module.as_ref()
    }

    /// What is known of an address.
    pub(crate) fn place(&self, address: u64) -> Place {
        if let Some(known) = self.cache().place(address) {
            return known.clone();
        }
        let (frames, line) = self.lines.use_one(|lines| {
            let frames = lines.frames(FileAddress(address));
            let is_named = frames.iter().any(|frame| frame.function.is_some());
            let line = (!is_named).then(|| lines.find(FileAddress(address)));
            (frames, line.flatten())
        });
        if frames.iter().all(|frame| frame.function.is_none()) {
            self.lines.look_for_damage();
        }
        let symbol = self.symbol_at(address);
        let place = Place {
            frames,
            line,
            symbol: symbol.map(|it| (it.name(), it.address().0..it.end().0)),
        };
        self.cache().add_place(address, &place);
        place
    }

    fn symbol_at(&self, address: u64) -> Option<Function<'_>> {
        let (symbol, _) = self.module()?.function_at(FileAddress(address))?;
        Some(symbol)
    }

    /// The code of the function that an address is in.
    pub(crate) fn code_of(&self, address: u64) -> Option<Range<u64>> {
        let known = self.cache().place(address).map(|place| {
            let code = place.symbol.as_ref().map(|(_, code)| code);
            code.cloned()
        });
        let named = known.unwrap_or_else(|| {
            let symbol = self.symbol_at(address)?;
            Some(symbol.address().0..symbol.end().0)
        });
        named
            .filter(|code| code.contains(&address))
            .or_else(|| self.bounds_of(address))
    }

    /// The code of the function that an address is in, as call-frame information tells functions apart, or
    /// else their instructions: all that is left of them where names were stripped.
    pub(crate) fn bounds_of(&self, address: u64) -> Option<Range<u64>> {
        let mut cache = self.cache();
        let bounds = cache.bounds(|| {
            let module = self.module();
            module.map_or_else(Vec::new, |module| bounds(&self.path, module))
        });
        let behind = bounds.partition_point(|code| code.start <= address);
        let code = &bounds[behind.checked_sub(1)?];
        code.contains(&address).then(|| code.clone())
    }

    /// The instructions in a range.
    pub(crate) fn bytes_of(&self, code: &Range<u64>) -> Option<Vec<u8>> {
        let size = code.end.checked_sub(code.start)?;
        let size = usize::try_from(size)
            .ok()
            .filter(|&size| size <= MOST_CODE)?;
        let offset = self.module()?.offset_of(FileAddress(code.start))?;
        let mut bytes = vec![0; size];
        let file = self.file.get_or_init(|| File::open(&self.path).ok());
        let file = file.as_ref()?;
        file.read_exact_at(&mut bytes, offset.0).ok()?;
        Some(bytes)
    }

    /// The loops of the code in a range.
    pub(crate) fn loops_of(&self, code: &Range<u64>) -> Option<FunctionLoops> {
        let frames = |address| self.place(address).frames;
        let known = self.cache().shape(code).cloned();
        if let Some(shape) = known {
            return Some(FunctionLoops::new(&shape, &frames));
        }
        let bytes = self.bytes_of(code)?;
        let comes_back = |function| self.comes_back(function, MOST_CALLS);
        let shape = Shape::of((&bytes[..], code.start), &comes_back);
        self.cache().add_shape(code, &shape);
        Some(FunctionLoops::new(&shape, &frames))
    }

    /// Whether the function at an address may come back to who called it, as far as code of this file
    /// tells, and calls that are so deep. Whatever was asked before, the answer is the same: the deeper calls
    /// are followed, the fewer functions come back.
    fn comes_back(&self, function: u64, depth: u8) -> bool {
        let known = locked(&self.returning).get(&function).copied();
        let Depths { does, does_not } = known.unwrap_or_default();
        if depth <= does {
            return true;
        }
        if does_not.is_some_and(|least| least <= depth) {
            return false;
        }
        let code = self.code_of(function).filter(|code| code.start == function);
        let bytes = code.and_then(|code| self.bytes_of(&code));
        let comes_back = bytes.is_none_or(|bytes| {
            may_return(&bytes, function, &|callee| {
                self.comes_back(callee, depth - 1)
            })
        });
        let mut returning = locked(&self.returning);
        let known = returning.entry(function).or_default();
        match comes_back {
            true => known.does = known.does.max(depth),
            false => known.does_not = Some(known.does_not.map_or(depth, |least| least.min(depth))),
        }
        comes_back
    }

    /// The line of an instruction.
    pub(crate) fn line(&self, address: u64) -> Option<SourceLine> {
        self.lines.use_one(|lines| lines.find(FileAddress(address)))
    }

    /// What could not be read of it, of what was asked for, and of the files with its names and lines.
    pub(crate) fn problems(&self) -> Vec<String> {
        let of_module = self.module.get().and_then(Option::as_ref);
        let of_module = of_module.map_or(&[][..], Module::problems);
        let of_files = self.problems.iter().chain(of_module);
        let of_lines = self.lines.problem();
        let of_lines = of_lines.map(|problem| format!("debugging information: {problem}"));
        // The module has looked for the same files.
        let all: BTreeSet<String> = of_files.map(Problem::to_string).chain(of_lines).collect();
        let path = self.path.display();
        let told = |problem| format!("{path}: {problem}: names or lines may be missing");
        all.into_iter().map(told).collect()
    }

    /// Keeps what was found, for the next run. Where something was wrong it is looked up again, and told
    /// again.
    pub(crate) fn keep(&self) {
        if self.problems().is_empty() {
            self.cache().keep();
        }
    }
}

/// What a thread that panicked has left is whole: it is written at once.
fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The lines of a file. One thread at a time can use what reads them, so that there may be several.
#[derive(Debug)]
struct LinesOfThreads {
    information: Option<DebugInformation>,
    idle: Mutex<Vec<SourceLines>>,
    /// What could not be read, first.
    problem: OnceLock<String>,
    /// Why some units cannot be read, once that was asked.
    damage: OnceLock<Option<String>>,
}

impl LinesOfThreads {
    fn of(information: Option<DebugInformation>) -> LinesOfThreads {
        LinesOfThreads {
            information,
            idle: Mutex::default(),
            problem: OnceLock::new(),
            damage: OnceLock::new(),
        }
    }

    /// Where nothing is found, that may be because units were passed over that cannot be read.
    fn look_for_damage(&self) {
        self.damage
            .get_or_init(|| self.information.as_ref().and_then(DebugInformation::damage));
    }

    /// What could not be read.
    fn problem(&self) -> Option<&str> {
        let damage = self.damage.get().and_then(Option::as_ref);
        self.problem.get().or(damage).map(String::as_str)
    }

    fn use_one<T>(&self, asks: impl FnOnce(&SourceLines) -> T) -> T {
        let idle = locked(&self.idle).pop();
        let lines = idle.unwrap_or_else(|| SourceLines::of(self.information.as_ref()));
        let answer = asks(&lines);
        if let Some(problem) = lines.problem() {
            self.problem.get_or_init(|| problem.to_owned());
        }
        locked(&self.idle).push(lines);
        answer
    }
}

fn section(loaded: &LoadedBytes) -> Section<'_> {
    Section {
        address: loaded.address.0,
        bytes: &loaded.bytes,
    }
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
