//! From addresses to lines of the source, by the debugging information (DWARF) of a file or of
//! the separate file that it was split off to.

use std::cell::OnceCell;
use std::fmt;
use std::path::Path;

use addr2line::Loader;

use crate::address::FileAddress;
use crate::debug_file::DebugInformation;
use crate::demangle::demangle;

/// The debugging information of a module. It is read when it is asked for, unit by unit.
pub struct SourceLines {
    loader: Option<Loader>,
    /// What of it could not be read, first.
    problem: OnceCell<String>,
}

/// A line of the source.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct SourceLine {
    /// The source file, as the compiler was told it.
    pub file: String,
    /// The line, from 1 on; 0 if the compiler knows none.
    pub line: u32,
}

/// A function that an instruction is in, and where in it.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct SourceFrame {
    /// The function, as the source has its name.
    pub function: Option<String>,
    /// The instruction's line; of a function into which another was inlined, that of the call.
    pub line: Option<SourceLine>,
}

impl fmt::Display for SourceLine {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}:{}", self.file, self.line)
    }
}

impl fmt::Debug for SourceLines {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let has_some = self.loader.is_some();
        out.debug_struct("SourceLines")
            .field("has_some", &has_some)
            .finish()
    }
}

impl SourceLines {
    /// Of the module at a path, also where they were split off and are installed, or lie beside it. Where
    /// there is no debugging information, or it cannot be read, no address has a line.
    #[must_use]
    pub fn open(path: &Path) -> SourceLines {
        SourceLines::of(DebugInformation::of(path).as_ref())
    }

    /// Those that debugging information has.
    #[must_use]
    pub fn of(information: Option<&DebugInformation>) -> SourceLines {
        let problem = OnceCell::new();
        let loader = information.and_then(|DebugInformation { path, common }| {
            let loader = Loader::new_with_sup(path, common.as_ref());
            read_well(&problem, loader)
        });
        SourceLines { loader, problem }
    }

    /// Why lines may be missing, if something that was asked for was damaged.
    #[must_use]
    pub fn problem(&self) -> Option<&str> {
        self.problem.get().map(String::as_str)
    }

    /// The line that the instruction at an address comes from; of an inlined function, the line
    /// in that function.
    #[must_use]
    pub fn find(&self, address: FileAddress) -> Option<SourceLine> {
        let location = self.loader.as_ref()?.find_location(address.0);
        source_line(read_well(&self.problem, location)??)
    }

    /// The functions that the instruction at an address is in, as the source has their names, with
    /// lines: those that were inlined first, innermost first.
    #[must_use]
    pub fn frames(&self, address: FileAddress) -> Vec<SourceFrame> {
        let mut all = Vec::new();
        let Some(loader) = &self.loader else {
            return all;
        };
        let frames = read_well(&self.problem, loader.find_frames(address.0));
        if let Some(mut frames) = frames {
            while let Some(Some(frame)) = read_well(&self.problem, frames.next()) {
                let name = frame
                    .function
                    .as_ref()
                    .and_then(|name| name.raw_name().ok());
                all.push(SourceFrame {
                    function: name.map(|name| demangle(name.as_bytes())),
                    line: frame.location.and_then(source_line),
                });
            }
        }
        all
    }
}

/// What was read, if it could be; else why not is noted.
fn read_well<T, E: fmt::Display>(problem: &OnceCell<String>, read: Result<T, E>) -> Option<T> {
    read.inspect_err(|error| _ = problem.set(error.to_string()))
        .ok()
}

fn source_line(location: addr2line::Location<'_>) -> Option<SourceLine> {
    Some(SourceLine {
        file: location.file?.to_owned(),
        line: location.line.unwrap_or(0),
    })
}
