//! What `execve` would make of a file, found out without mapping anything.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use super::elf::{self, FileHeader, Format, PT_INTERP};
use super::error::{Defect, LoadError};
use super::executable::{Executable, Privileges};
use super::layout::{Layout, plan_layout};
use super::sanitizer::Sanitizers;
use super::script::ScriptLine;

/// How many scripts the kernel follows from one to the next.
const MAX_SCRIPTS: usize = 5;
/// The longest path of a dynamic loader, with its terminator (`PATH_MAX`).
const MAX_INTERPRETER_PATH: u64 = 4096;

/// A file that `execve` accepts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ExecutableKind {
    /// An x86-64 program, which [`super::load()`] accepts too.
    Elf64 {
        /// What it would be allowed beyond what its user is.
        privileges: Privileges,
        /// The dynamic loader that it names; none if it is static.
        interpreter: Option<PathBuf>,
    },
    /// A 32-bit program (i386 or x32): not for translation. It may run natively, if the
    /// kernel supports it.
    Elf32 {
        /// Its architecture.
        architecture: &'static str,
    },
    /// A script.
    Script {
        /// What its first line names.
        interpreter: PathBuf,
        /// What that is in turn.
        runs: Box<ExecutableKind>,
    },
}

/// Whether `execve` would find and open the file, whatever is in it.
///
/// # Errors
/// Why not.
pub fn can_open(path: &Path) -> Result<(), LoadError> {
    Executable::open(path).map(|_| ())
}

/// Whether `execve` would accept the file.
///
/// # Errors
/// What [`super::load()`] would fail with, except for 32-bit programs, which are told as
/// such, and for failures to map.
pub fn check(path: &Path) -> Result<ExecutableKind, LoadError> {
    let chain = follow_scripts(path, path)?;
    let kind = match prepare(chain.program) {
        Ok(prepared) => ExecutableKind::Elf64 {
            privileges: prepared.executable.privileges,
            interpreter: prepared.interpreter.map(|(loader, _)| loader.path),
        },
        Err(LoadError::Elf32 { architecture, .. }) => ExecutableKind::Elf32 { architecture },
        Err(error) => return Err(error),
    };
    Ok(chain
        .scripts
        .iter()
        .rev()
        .fold(kind, |runs, (_, line)| ExecutableKind::Script {
            interpreter: path_of(&line.interpreter),
            runs: Box::new(runs),
        }))
}

/// A file with the scripts that led to it.
#[derive(Debug)]
pub(crate) struct ScriptChain {
    /// Each script's path and first line, in the order in which they are met.
    pub(crate) scripts: Vec<(PathBuf, ScriptLine)>,
    /// Not a script.
    pub(crate) program: Executable,
}

/// Opens a file, found where its path or another one leads, and, as long as it is a script, its
/// interpreter.
pub(crate) fn follow_scripts(path: &Path, found_at: &Path) -> Result<ScriptChain, LoadError> {
    let mut scripts = Vec::new();
    let mut program = Executable::open(found_at)?;
    path.clone_into(&mut program.path);
    while let Format::Script(line) = elf::recognise(program.head(), program.head_length()) {
        if scripts.len() == MAX_SCRIPTS {
            return Err(LoadError::ScriptLoop {
                path: path.to_owned(),
            });
        }
        let interpreter = path_of(&line.interpreter);
        let script = program.path;
        program = open_interpreter(&script, &interpreter)?;
        scripts.push((script, line));
    }
    Ok(ScriptChain { scripts, program })
}

/// A program whose headers have been found good, with its dynamic loader, ready to map.
#[derive(Debug)]
pub(crate) struct PreparedProgram {
    pub(crate) executable: Executable,
    pub(crate) program_header_count: u16,
    pub(crate) layout: Layout,
    pub(crate) interpreter: Option<(Executable, Layout)>,
    pub(crate) sanitizers: Sanitizers,
}

/// Checks everything that can be checked before mapping.
pub(crate) fn prepare(executable: Executable) -> Result<PreparedProgram, LoadError> {
    let path = executable.path.clone();
    let header = match elf::recognise(executable.head(), executable.head_length()) {
        Format::Elf64(header) => header,
        Format::Elf32 { architecture } => return Err(LoadError::Elf32 { path, architecture }),
        Format::Foreign { architecture } => {
            return Err(LoadError::ForeignMachine { path, architecture });
        }
        Format::Defective(defect) => return Err(defect.of_program(&path)),
        Format::Unknown { looks_like } => return Err(LoadError::NotElf { path, looks_like }),
        Format::Script(_) => return Err(LoadError::ScriptLoop { path }),
    };
    let program_headers =
        read_program_headers(&executable, &header)?.map_err(|defect| defect.of_program(&path))?;
    let interpreter = program_headers
        .iter()
        .find(|segment| segment.kind == PT_INTERP)
        .map(|segment| read_interpreter_path(&executable, segment.offset, segment.file_size))
        .transpose()?;
    let layout = plan_layout(&header, &program_headers, executable.size)
        .map_err(|defect| defect.of_program(&path))?;
    let interpreter = interpreter
        .map(|interpreter| prepare_interpreter(&path, &interpreter))
        .transpose()?;
    let sanitizers = Sanitizers::of(&executable, &program_headers);
    Ok(PreparedProgram {
        sanitizers,
        executable,
        program_header_count: header.program_header_count,
        layout,
        interpreter,
    })
}

type ProgramHeaders = Result<Vec<elf::ProgramHeader>, Defect>;

/// The outer error is the system's, the inner one the file's.
fn read_program_headers(
    executable: &Executable,
    header: &FileHeader,
) -> Result<ProgramHeaders, LoadError> {
    if i64::try_from(header.program_headers_offset).is_err() {
        return Ok(Err(Defect::Truncated(
            "the program headers lie beyond its end".to_owned(),
        )));
    }
    let table = executable.read(header.program_headers_offset, header.program_headers_size())?;
    Ok(elf::parse_program_headers(header, &table))
}

fn read_interpreter_path(
    executable: &Executable,
    offset: u64,
    size: u64,
) -> Result<PathBuf, LoadError> {
    let bad = |defect: Defect| defect.of_program(&executable.path);
    if !(2..=MAX_INTERPRETER_PATH).contains(&size) || i64::try_from(offset).is_err() {
        return Err(bad(Defect::Headers(format!(
            "its loader's path has {size} bytes"
        ))));
    }
    let bytes = executable.read(offset, size as usize)?;
    if bytes.len() as u64 != size {
        return Err(bad(Defect::Truncated(
            "its loader's path lies beyond its end".to_owned(),
        )));
    }
    if bytes.last() != Some(&0) {
        return Err(bad(Defect::Headers(
            "its loader's path has no end".to_owned(),
        )));
    }
    Ok(path_of(
        bytes.split(|&byte| byte == 0).next().unwrap_or_default(),
    ))
}

fn prepare_interpreter(
    program: &Path,
    interpreter: &Path,
) -> Result<(Executable, Layout), LoadError> {
    let executable = open_interpreter(program, interpreter)?;
    let bad = |reason: String| LoadError::BadInterpreter {
        path: program.to_owned(),
        interpreter: interpreter.to_owned(),
        reason,
    };
    let header = match elf::recognise(executable.head(), executable.head_length()) {
        Format::Elf64(header) => header,
        Format::Elf32 { architecture } => {
            return Err(bad(format!("a 32-bit ({architecture}) program")));
        }
        Format::Foreign { architecture } => return Err(bad(format!("for {architecture}"))),
        Format::Defective(defect) => return Err(bad(defect.reason())),
        Format::Unknown { looks_like } => return Err(bad(looks_like.to_owned())),
        Format::Script(_) => return Err(bad("a script".to_owned())),
    };
    let layout = read_program_headers(&executable, &header)?
        .and_then(|program_headers| plan_layout(&header, &program_headers, executable.size))
        .map_err(|defect| bad(defect.reason()))?;
    Ok((executable, layout))
}

fn open_interpreter(program: &Path, interpreter: &Path) -> Result<Executable, LoadError> {
    Executable::open(interpreter).map_err(|error| match error {
        LoadError::NotFound { path } => LoadError::MissingInterpreter {
            path: program.to_owned(),
            interpreter: path,
        },
        other => other,
    })
}

fn path_of(bytes: &[u8]) -> PathBuf {
    PathBuf::from(OsStr::from_bytes(bytes))
}
