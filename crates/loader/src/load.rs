//! Loads a program: headers, segments, stack, in this order.

use std::ffi::CString;
use std::io;
use std::ops::Range;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use unspool_kernel::limits;

use super::auxv::{self, ProgramFacts};
use super::check::{self, PreparedProgram};
use super::elf::PROGRAM_HEADER_SIZE;
use super::error::LoadError;
use super::executable::Privileges;
use super::image::{MappedFile, MappedSegment};
use super::layout::page_end;
use super::sanitizer::{self, Sanitizers};
use super::script::ScriptLine;
use super::stack::{StackContents, TooLong};
use super::stack_region::ProgramStack;

/// The longest name of a thread, without its terminator.
const COMMAND_NAME_SIZE: usize = 15;

/// Where the program finds the vdso, the kernel's code for cheap system calls.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Vdso {
    /// The one that the kernel gave to this process.
    #[default]
    Ours,
    /// A replacement at this address.
    At(u64),
    /// Nowhere: the program makes real system calls instead.
    None,
}

/// What to load, and where.
#[derive(Debug, Clone)]
pub struct LoadRequest {
    /// The file, as it would be given to `execve`.
    pub path: PathBuf,
    /// The arguments; the first may differ from the path.
    pub argv: Vec<CString>,
    /// The environment, as `NAME=value`.
    pub env: Vec<CString>,
    /// Where to look for a place for a position-independent program, upwards in steps of
    /// 16 MiB. If there is none below 2 GiB it goes where the system likes.
    pub pie_base: u64,
    /// The same for its dynamic loader.
    pub interp_base: u64,
    /// What to show as vdso.
    pub vdso: Vdso,
}

impl LoadRequest {
    /// A request with the usual addresses and the vdso of this process.
    #[must_use]
    pub fn new(path: PathBuf, argv: Vec<CString>, env: Vec<CString>) -> LoadRequest {
        LoadRequest {
            path,
            argv,
            env,
            pie_base: 0x1000_0000,
            interp_base: 0x2000_0000,
            vdso: Vdso::Ours,
        }
    }
}

/// A program in memory, ready to be started.
#[derive(Debug, Clone)]
pub struct LoadedProgram {
    /// Where execution begins: in the dynamic loader, if there is one. All registers but
    /// the stack pointer are to be zero.
    pub entry: u64,
    /// The program's own entry (`AT_ENTRY`).
    pub program_entry: u64,
    /// Where the stack pointer begins; divisible by 16.
    pub stack_pointer: u64,
    /// What the stack may become as it grows.
    pub stack: Range<u64>,
    /// Sanitizers that it was built or is started with, whose runtimes have fixed addresses.
    pub sanitizers: Sanitizers,
    /// Where the heap begins (`brk`); page-aligned. The pages there are not reserved.
    pub brk_start: u64,
    /// The program as `/proc/self/exe` shows it: for a script, its interpreter.
    pub executable: PathBuf,
    /// The dynamic loader, if there is one.
    pub interpreter: Option<PathBuf>,
    /// What was added to the addresses in the program's file; 0 for fixed addresses.
    pub program_base: u64,
    /// What was added to the addresses in the dynamic loader's file (`AT_BASE`).
    pub interp_base: Option<u64>,
    /// Everything mapped but the stack, by address.
    pub segments: Vec<MappedSegment>,
    /// Whether the stack is executable (`PT_GNU_STACK`).
    pub executable_stack: bool,
    /// The arguments as the program sees them: changed for scripts.
    pub argv: Vec<CString>,
    /// The auxiliary vector, with its end: what `/proc/self/auxv` shows.
    pub auxv: Vec<(u64, u64)>,
    /// The arguments' strings: what `/proc/self/cmdline` shows.
    pub argument_strings: Range<u64>,
    /// The environment's strings: what `/proc/self/environ` shows.
    pub environment_strings: Range<u64>,
    /// The name that the kernel gives the first thread (`/proc/self/comm`).
    pub command_name: CString,
    /// What the kernel would have allowed the program and is not allowed here.
    pub privileges: Privileges,
}

/// A program whose files are open and whose headers have been found good.
#[derive(Debug)]
pub struct Prepared {
    scripts: Vec<(PathBuf, ScriptLine)>,
    program: PreparedProgram,
}

impl Prepared {
    /// The addresses that it is linked at; none if it can be anywhere.
    #[must_use]
    pub fn fixed_addresses(&self) -> Vec<Range<u64>> {
        let layout = &self.program.layout;
        if layout.relocatable {
            return Vec::new();
        }
        let ranges = layout.ranges().into_iter();
        ranges.map(|(start, end)| start..end).collect()
    }
}

/// Opens a program and what it needs, and checks everything that can be checked before it is
/// mapped. The file may be found elsewhere than at its path.
///
/// # Errors
/// As [`load()`].
pub fn prepare(path: &Path, found_at: Option<&Path>) -> Result<Prepared, LoadError> {
    let chain = check::follow_scripts(path, found_at.unwrap_or(path))?;
    Ok(Prepared {
        scripts: chain.scripts,
        program: check::prepare(chain.program)?,
    })
}

/// Loads a program into this process, with a stack that nobody uses yet. On failure nothing
/// stays mapped.
///
/// # Errors
/// Every reason for which `execve` fails, with its errno, and those in which this loader
/// differs (see [the module](super)).
pub fn load(
    request: &LoadRequest,
    prepared: Prepared,
    stack: &ProgramStack,
) -> Result<LoadedProgram, LoadError> {
    let path = &request.path;
    let argv = script_arguments(&request.argv, &prepared.scripts, path)?;
    let executed_name = string(path.as_os_str().as_bytes(), path)?;
    let prepared = prepared.program;

    let own_auxv = auxv::own_auxv()
        .map_err(|source| system_error(path, "read its own auxiliary vector", source))?;
    let platform = auxv::own_platform(&own_auxv);
    let mut contents = StackContents {
        arguments: &argv,
        environment: &request.env,
        executed_name: &executed_name,
        platform: platform.as_deref(),
        random: random_bytes().map_err(|source| system_error(path, "get random bytes", source))?,
        auxv: &[],
    };
    let limit = limits::get(libc::RLIMIT_STACK)
        .map_err(|source| system_error(path, "read the stack limit", source))?
        .rlim_cur;
    contents
        .check_size(limit)
        .map_err(|TooLong { size, limit }| LoadError::TooLong {
            path: path.clone(),
            size,
            limit,
        })?;

    let program = MappedFile::map(&prepared.executable, &prepared.layout, request.pie_base)?;
    let interpreter = match &prepared.interpreter {
        Some((executable, layout)) => Some((
            MappedFile::map(executable, layout, request.interp_base)?,
            layout.entry,
        )),
        None => None,
    };

    let interpreter_base = interpreter.as_ref().map(|(image, _)| image.bias);
    let vdso = vdso_address(request.vdso, &own_auxv);
    let facts = program_facts(&prepared, program.bias, interpreter_base, vdso);
    let entries = auxv::program_auxv(&own_auxv, &facts);
    contents.auxv = &entries;
    let initial = contents.build(stack.top());
    stack.fill(path, &initial, limit, prepared.layout.executable_stack)?;

    let loaded = LoadedProgram {
        entry: interpreter.as_ref().map_or(facts.entry, |(image, entry)| {
            image.bias.wrapping_add(*entry)
        }),
        program_entry: facts.entry,
        stack_pointer: initial.pointer,
        stack: stack.reach(limit),
        brk_start: page_end(program.bias.wrapping_add(prepared.layout.memory_end)),
        executable: program.path.clone(),
        interpreter: interpreter.as_ref().map(|(image, _)| image.path.clone()),
        program_base: program.bias,
        sanitizers: Sanitizers {
            address: prepared.sanitizers.address || request.env.iter().any(preloads_sanitizer),
            ..prepared.sanitizers
        },
        interp_base: interpreter_base,
        segments: Vec::new(),
        executable_stack: prepared.layout.executable_stack,
        auxv: initial.auxv,
        argument_strings: initial.argument_strings,
        environment_strings: initial.environment_strings,
        command_name: command_name(path),
        privileges: prepared.executable.privileges,
        argv: argv.clone(),
    };
    keep_all(
        loaded,
        &prepared,
        program,
        interpreter.map(|(image, _)| image),
    )
}

fn program_facts(
    prepared: &PreparedProgram,
    program_base: u64,
    interpreter_base: Option<u64>,
    vdso: Option<u64>,
) -> ProgramFacts {
    let layout = &prepared.layout;
    ProgramFacts {
        // Where no segment holds the headers, the kernel gives the base itself.
        program_headers: program_base.wrapping_add(layout.program_headers.unwrap_or(0)),
        program_header_size: PROGRAM_HEADER_SIZE as u64,
        program_header_count: u64::from(prepared.program_header_count),
        interpreter_base: interpreter_base.unwrap_or(0),
        entry: program_base.wrapping_add(layout.entry),
        vdso,
    }
}

/// The last step, after which nothing is undone.
fn keep_all(
    mut loaded: LoadedProgram,
    prepared: &PreparedProgram,
    program: MappedFile,
    interpreter: Option<MappedFile>,
) -> Result<LoadedProgram, LoadError> {
    let failed = |source| system_error(&prepared.executable.path, "give unused pages back", source);
    loaded.segments = program.keep().map_err(failed)?;
    if let Some(interpreter) = interpreter {
        loaded.segments.extend(interpreter.keep().map_err(failed)?);
    }
    loaded.segments.sort_by_key(|segment| segment.address);
    Ok(loaded)
}

/// The arguments, rewritten for each script on the way: its interpreter, the interpreter's
/// argument and the script's path take the place of the first.
fn script_arguments(
    argv: &[CString],
    scripts: &[(PathBuf, ScriptLine)],
    path: &Path,
) -> Result<Vec<CString>, LoadError> {
    let mut arguments = argv.to_vec();
    if arguments.is_empty() {
        // Since Linux 5.18 no program starts without a first argument.
        arguments.push(CString::default());
    }
    for (script, line) in scripts {
        let mut head = vec![string(&line.interpreter, path)?];
        if let Some(argument) = &line.argument {
            head.push(string(argument, path)?);
        }
        head.push(string(script.as_os_str().as_bytes(), path)?);
        arguments.splice(..1, head);
    }
    Ok(arguments)
}

/// Whether the runtime of the address sanitizer is loaded into a program built without it.
fn preloads_sanitizer(variable: &CString) -> bool {
    let value = variable.as_bytes().strip_prefix(b"LD_PRELOAD=");
    let names = |name: &[u8]| value.is_some_and(|value| sanitizer::contains(value, name));
    names(b"libasan.so") || names(b"libclang_rt.asan")
}

fn string(bytes: &[u8], path: &Path) -> Result<CString, LoadError> {
    CString::new(bytes).map_err(|_| LoadError::NotFound {
        path: path.to_owned(),
    })
}

fn command_name(path: &Path) -> CString {
    let name = path
        .as_os_str()
        .as_bytes()
        .rsplit(|&byte| byte == b'/')
        .next()
        .unwrap_or_default();
    CString::new(&name[..name.len().min(COMMAND_NAME_SIZE)]).unwrap_or_default()
}

fn vdso_address(vdso: Vdso, own_auxv: &[(u64, u64)]) -> Option<u64> {
    match vdso {
        Vdso::Ours => own_auxv
            .iter()
            .find(|&&(key, _)| key == auxv::AT_SYSINFO_EHDR)
            .map(|&(_, address)| address),
        Vdso::At(address) => Some(address),
        Vdso::None => None,
    }
}

fn system_error(path: &Path, operation: &'static str, source: io::Error) -> LoadError {
    LoadError::System {
        path: path.to_owned(),
        operation,
        source,
    }
}

fn random_bytes() -> io::Result<[u8; 16]> {
    let mut bytes = [0; 16];
    // SAFETY: the kernel writes at most as many bytes as the array has. Requests of up to
    // 256 bytes are answered whole.
    let count = unsafe { libc::getrandom(bytes.as_mut_ptr().cast(), bytes.len(), 0) };
    if count == 16 {
        Ok(bytes)
    } else {
        Err(io::Error::last_os_error())
    }
}
