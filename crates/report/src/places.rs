//! What is at an address of a program: which function and line, or which variable.

use std::cell::OnceCell;
use std::path::{Path, PathBuf};

use serde::Serialize;
use unspool_binary::{
    AtomicVariables, FileAddress, FileOffset, LeftOpen, RuntimeAddress, SourceFrame, Variables,
};
use unspool_events::Module;

use crate::description::lossy;
use crate::listing::code_file::CodeFile;

const PAGE: u64 = 4096;

/// Where an instruction comes from, as far as that is known.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Default, Serialize)]
pub struct CodePlace {
    /// The file that it is in.
    pub module: Option<String>,
    /// The function.
    pub function: Option<String>,
    /// Source file and line, as `file:line`.
    pub line: Option<String>,
    /// Whether it belongs to a function of an atomic type, whatever the instruction is.
    pub is_atomic: bool,
}

/// What is at an address, as far as that is known.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
pub struct DataPlace {
    /// The file that it is in.
    pub module: Option<String>,
    /// The variable.
    pub variable: Option<String>,
    /// How far into the variable it is.
    pub offset: u64,
    /// The section, where no variable is known.
    pub section: Option<String>,
    /// Whether it is of an atomic type.
    pub is_atomic: bool,
}

/// The modules of a program, and their files, which are read when they are asked for.
#[derive(Debug)]
pub struct Places {
    modules: Vec<KnownModule>,
    started_ns: u64,
}

#[derive(Debug)]
struct KnownModule {
    module: Module,
    /// None until it was tried, and where it is not the file that ran.
    file: Option<Option<KnownFile>>,
}

#[derive(Debug)]
struct KnownFile {
    code: CodeFile,
    variables: Variables,
    path: PathBuf,
    /// Read when it is asked for: all debugging information is gone through for it.
    atomics: OnceCell<AtomicVariables>,
}

impl Places {
    /// Of a program that started at a time, in nanoseconds since 1970. Of modules that were at one
    /// address after each other the last one counts.
    pub fn new(modules: impl IntoIterator<Item = Module>, started_ns: u64) -> Places {
        let modules = modules
            .into_iter()
            .map(|module| KnownModule { module, file: None });
        Places {
            modules: modules.collect(),
            started_ns,
        }
    }

    /// Where an instruction comes from.
    pub fn code(&mut self, pc: u64) -> CodePlace {
        let Some(known) = known_at(&mut self.modules, pc) else {
            return CodePlace::default();
        };
        let module = Some(lossy(&known.module.path));
        let base = known.module.base;
        let Some(file) = known.file(self.started_ns) else {
            return CodePlace {
                module,
                ..CodePlace::default()
            };
        };
        let bias = file.code.bias(pc, base);
        let function = bias.and_then(|bias| file.code.function_name(pc, bias));
        let frames = bias.map(|bias| file.code.frames(pc, bias));
        CodePlace {
            is_atomic: match frames.iter().flatten().next() {
                Some(innermost) => is_of_atomic(innermost),
                None => function.as_deref().is_some_and(is_named_atomic),
            },
            module,
            function,
            line: bias.and_then(|bias| file.code.line(pc, bias)),
        }
    }

    /// What may be atomic of what an instruction accesses, without being told by the debugging information.
    pub fn left_open_by(&mut self, pc: u64) -> Option<LeftOpen> {
        let known = known_at(&mut self.modules, pc)?;
        let base = known.module.base;
        let file = known.file(self.started_ns)?;
        let bias = file.code.bias(pc, base)?;
        file.atomics()
            .left_open_by(RuntimeAddress(pc).in_file(bias))
    }

    /// The functions that an instruction is in, those that were inlined first, innermost first. Never
    /// empty.
    pub fn frames(&mut self, pc: u64) -> Vec<CodePlace> {
        let whole = self.code(pc);
        let Some(known) = known_at(&mut self.modules, pc) else {
            return vec![whole];
        };
        let base = known.module.base;
        let frames = known.file(self.started_ns).and_then(|file| {
            let bias = file.code.bias(pc, base)?;
            Some(file.code.frames(pc, bias))
        });
        let mut frames: Vec<CodePlace> = frames
            .into_iter()
            .flatten()
            .map(|frame| CodePlace {
                module: whole.module.clone(),
                function: frame.function,
                line: frame.line.map(|line| line.to_string()),
                is_atomic: whole.is_atomic,
            })
            .collect();
        match frames.last_mut() {
            // The name that the linker knows is the one that people find elsewhere, too.
            Some(last) => last.function = whole.function.or_else(|| last.function.take()),
            None => frames.push(whole),
        }
        frames
    }

    /// What is at an address. Modules are told with the part that has code; variables lie behind it.
    pub fn data(&mut self, address: u64) -> DataPlace {
        let started_ns = self.started_ns;
        let below = self.modules.iter_mut().rev();
        let nearest = below
            .filter(|known| known.module.base <= address)
            .max_by_key(|known| known.module.base);
        let Some(known) = nearest else {
            return DataPlace::default();
        };
        let (base, path) = (known.module.base, lossy(&known.module.path));
        let Some(file) = known.file(started_ns) else {
            return DataPlace::default();
        };
        let Some(in_file) = file.code.data_address(address, base) else {
            return DataPlace::default();
        };
        let mut place = DataPlace {
            module: Some(path),
            is_atomic: file.atomics().contain(in_file),
            ..DataPlace::default()
        };
        match file.variables.at(in_file) {
            Some((variable, offset)) => {
                place.variable = Some(variable.name.clone());
                place.offset = offset;
            }
            None => place.section = file.code.section(in_file),
        }
        place
    }
}

/// Whether an access belongs to an atomic of C++ or Rust, by the innermost function that it is in:
/// what that was inlined into may do other things, too, such as the closure of a `fetch_update`.
/// Debugging information that has nothing but lines knows functions without what they belong to, and
/// which file they are in.
fn is_of_atomic(innermost: &SourceFrame) -> bool {
    let file = innermost.line.as_ref().map(|line| line.file.as_str());
    innermost.function.as_deref().is_some_and(is_named_atomic)
        || file.is_some_and(is_file_of_atomics)
}

fn is_named_atomic(function: &str) -> bool {
    const BEGINNINGS: [&str; 4] = [
        "std::atomic",
        "std::__atomic_",
        "core::sync::atomic::",
        "<core::sync::atomic::",
    ];
    BEGINNINGS
        .iter()
        .any(|beginning| function.starts_with(beginning))
}

/// Whether a file defines atomics and nothing else: one of Rust's core library, of libstdc++, or of
/// libc++.
fn is_file_of_atomics(file: &str) -> bool {
    let of_rust = "/core/src/sync/atomic.rs";
    let (folder, name) = file.rsplit_once('/').unwrap_or(("", file));
    let of_gnu = folder.contains("/c++/") && (name == "atomic" || name.starts_with("atomic_"));
    let of_llvm = folder.contains("/c++/v1/__atomic");
    file.ends_with(of_rust) || of_gnu || of_llvm
}

/// The module at an address that came last.
fn known_at(modules: &mut [KnownModule], address: u64) -> Option<&mut KnownModule> {
    let mut modules = modules.iter_mut().rev();
    modules.find(|known| address.wrapping_sub(known.module.base) < known.module.size)
}

impl KnownModule {
    fn file(&mut self, started_ns: u64) -> Option<&KnownFile> {
        let module = &self.module;
        let file = self.file.get_or_insert_with(|| {
            use std::os::unix::ffi::OsStrExt;
            let path = PathBuf::from(std::ffi::OsStr::from_bytes(&module.path));
            KnownFile::open(&path, &module.build_id, started_ns)
        });
        file.as_ref()
    }
}

impl KnownFile {
    fn open(path: &Path, build_id: &[u8], started_ns: u64) -> Option<KnownFile> {
        Some(KnownFile {
            code: CodeFile::open(path, build_id, started_ns).ok()?,
            variables: Variables::open(path),
            path: path.to_owned(),
            atomics: OnceCell::new(),
        })
    }

    fn atomics(&self) -> &AtomicVariables {
        self.atomics
            .get_or_init(|| AtomicVariables::open(&self.path))
    }
}

impl CodeFile {
    /// The address in the file of what is in the program at another; none where the file has nothing
    /// there. Byte 0 of the file would be at `base` if all were mapped as its code is.
    fn data_address(&self, address: u64, base: u64) -> Option<FileAddress> {
        let mut segments = self.module().segments().iter();
        let code = segments.find(|segment| segment.executable)?;
        let page = code.offset & !(PAGE - 1);
        let mapped = RuntimeAddress(base.wrapping_add(page));
        let bias = self
            .module()
            .bias_of_mapping(mapped, FileOffset(page), true)?;
        let in_file = RuntimeAddress(address).in_file(bias);
        let (start, end) = self.module().span()?;
        (start..end).contains(&in_file).then_some(in_file)
    }
}

#[cfg(test)]
mod tests {
    use unspool_binary::SourceLine;

    use super::*;

    #[track_caller]
    fn check(function: &str, file: &str, expected: bool) {
        let line = Some(SourceLine {
            file: file.to_owned(),
            line: 1,
        });
        let frame = SourceFrame {
            function: Some(function.to_owned()),
            line,
        };
        assert_eq!(is_of_atomic(&frame), expected, "{function} in {file}");
    }

    #[test]
    fn atomics_are_known_by_name_or_file() {
        check("std::atomic<int>::load", "a.cpp", true);
        check("core::sync::atomic::atomic_load", "a.rs", true);
        let rust = "/rustc/0/library/core/src/sync/";
        check("load", &format!("{rust}atomic.rs"), true);
        check("load", &format!("{rust}exclusive.rs"), false);
        check("load", "/home/me/src/sync/atomic.rs", false);
        check("load", "/usr/include/c++/12/bits/atomic_base.h", true);
        check("load", "/usr/include/c++/12/atomic", true);
        check("load", "/usr/include/c++/12/bits/shared_ptr_base.h", false);
        check(
            "load",
            "/usr/lib/llvm-19/include/c++/v1/__atomic/atomic.h",
            true,
        );
        check("atomic_looking", "/home/me/atomic_base.h", false);
    }
}
