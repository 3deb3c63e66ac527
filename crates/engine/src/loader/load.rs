//! Loads a program: headers, segments, stack, in this order.

use std::ffi::CString;
use std::io;
use std::ops::Range;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use super::auxv::{self, ProgramFacts};
use super::check::{self, PreparedProgram, ScriptChain};
use super::elf::PROGRAM_HEADER_SIZE;
use super::error::LoadError;
use super::executable::Privileges;
use super::image::{Image, MappedSegment};
use super::layout::{ADDRESSES_END, page_end, page_start};
use super::memory::Reservation;
use super::stack::{StackContents, TooLong};

/// The stack's size where the limit is unlimited.
const UNLIMITED_STACK: u64 = 1 << 30;
/// A mapping of the limit's size that is refused is not tried below this size.
const SMALLEST_STACK: u64 = 8 << 20;
/// What the program can use at least, beyond what the stack starts with.
const STACK_ROOM: u64 = 128 << 10;
/// Pages below the stack that stay inaccessible, as many as the kernel keeps free.
const STACK_GUARD: u64 = 1 << 20;
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
    /// The stack, without the guard below it.
    pub stack: Range<u64>,
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

/// Loads a program into this process. On failure nothing stays mapped.
///
/// # Errors
/// Every reason for which `execve` fails, with its errno, and those in which this loader
/// differs (see [the module](super)).
pub fn load(request: &LoadRequest) -> Result<LoadedProgram, LoadError> {
    let path = &request.path;
    let chain = check::follow_scripts(path)?;
    let argv = script_arguments(&request.argv, &chain, path)?;
    let executed_name = string(path.as_os_str().as_bytes(), path)?;
    let prepared = check::prepare(chain.program)?;

    let own_auxv = auxv::own_auxv().map_err(|source| system_error(path, "read its own auxiliary vector", source))?;
    let platform = auxv::own_platform(&own_auxv);
    let mut contents = StackContents {
        arguments: &argv,
        environment: &request.env,
        executed_name: &executed_name,
        platform: platform.as_deref(),
        random: random_bytes().map_err(|source| system_error(path, "get random bytes", source))?,
        auxv: &[],
    };
    let limit = stack_limit().map_err(|source| system_error(path, "read the stack limit", source))?;
    let strings_size = contents
        .check_size(limit)
        .map_err(|TooLong { size, limit }| LoadError::TooLong { path: path.clone(), size, limit })?;

    let program = Image::map(&prepared.executable, &prepared.layout, request.pie_base)?;
    let interpreter = match &prepared.interpreter {
        Some((executable, layout)) => {
            Some((Image::map(executable, layout, request.interp_base)?, layout.entry))
        }
        None => None,
    };
    let (stack, stack_reservation) =
        map_stack(path, limit, strings_size, prepared.layout.executable_stack)?;

    let program_entry = program.bias.wrapping_add(prepared.layout.entry);
    let facts = ProgramFacts {
        program_headers: program
            .bias
            .wrapping_add(prepared.layout.program_headers.unwrap_or(0)),
        program_header_size: PROGRAM_HEADER_SIZE as u64,
        program_header_count: u64::from(prepared.program_header_count),
        interpreter_base: interpreter.as_ref().map_or(0, |(image, _)| image.bias),
        entry: program_entry,
        vdso: vdso_address(request.vdso, &own_auxv),
    };
    let entries = auxv::program_auxv(&own_auxv, &facts);
    contents.auxv = &entries;
    let initial = contents.build(stack.end);
    stack_reservation
        .write(initial.pointer, &initial.bytes)
        .map_err(|source| system_error(path, "fill the stack", source))?;

    let loaded = LoadedProgram {
        entry: interpreter
            .as_ref()
            .map_or(program_entry, |(image, entry)| image.bias.wrapping_add(*entry)),
        program_entry,
        stack_pointer: initial.pointer,
        stack,
        brk_start: page_end(program.bias.wrapping_add(prepared.layout.memory_end)),
        executable: program.path.clone(),
        interpreter: interpreter.as_ref().map(|(image, _)| image.path.clone()),
        program_base: program.bias,
        interp_base: interpreter.as_ref().map(|(image, _)| image.bias),
        segments: Vec::new(),
        executable_stack: prepared.layout.executable_stack,
        auxv: initial.auxv,
        argument_strings: initial.argument_strings,
        environment_strings: initial.environment_strings,
        command_name: command_name(path),
        privileges: prepared.executable.privileges,
        argv: argv.clone(),
    };
    keep_all(loaded, &prepared, program, interpreter.map(|(image, _)| image), stack_reservation)
}

/// The last step, after which nothing is undone.
fn keep_all(
    mut loaded: LoadedProgram,
    prepared: &PreparedProgram,
    program: Image,
    interpreter: Option<Image>,
    stack: Reservation,
) -> Result<LoadedProgram, LoadError> {
    let failed =
        |source| system_error(&prepared.executable.path, "give unused pages back", source);
    loaded.segments = program.keep().map_err(failed)?;
    if let Some(interpreter) = interpreter {
        loaded.segments.extend(interpreter.keep().map_err(failed)?);
    }
    loaded.segments.sort_by_key(|segment| segment.address);
    stack.keep();
    Ok(loaded)
}

/// The arguments, rewritten for each script on the way: its interpreter, the interpreter's
/// argument and the script's path take the place of the first.
fn script_arguments(
    argv: &[CString],
    chain: &ScriptChain,
    path: &Path,
) -> Result<Vec<CString>, LoadError> {
    let mut arguments = argv.to_vec();
    if arguments.is_empty() {
        // Since Linux 5.18 no program starts without a first argument.
        arguments.push(CString::default());
    }
    for (script, line) in &chain.scripts {
        let mut head = vec![string(&line.interpreter, path)?];
        if let Some(argument) = &line.argument {
            head.push(string(argument, path)?);
        }
        head.push(string(script.as_os_str().as_bytes(), path)?);
        arguments.splice(..1, head);
    }
    Ok(arguments)
}

fn string(bytes: &[u8], path: &Path) -> Result<CString, LoadError> {
    CString::new(bytes).map_err(|_| LoadError::NotFound { path: path.to_owned() })
}

fn command_name(path: &Path) -> CString {
    let name = path.as_os_str().as_bytes().rsplit(|&byte| byte == b'/').next().unwrap_or_default();
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

/// Maps a stack that the program can use, and the guard below it.
fn map_stack(
    path: &Path,
    limit: u64,
    strings_size: u64,
    executable: bool,
) -> Result<(Range<u64>, Reservation), LoadError> {
    let smallest = page_end(strings_size + STACK_ROOM);
    let wanted = if limit == libc::RLIM_INFINITY { UNLIMITED_STACK } else { limit };
    let mut size = page_start(wanted.min(ADDRESSES_END)).max(smallest);
    let reservation = loop {
        match Reservation::anywhere(size + STACK_GUARD, libc::MAP_STACK) {
            Ok(reservation) => break reservation,
            Err(_) if size / 2 >= smallest.max(SMALLEST_STACK) => size = page_start(size / 2),
            Err(source) => return Err(stack_error(path, size, source)),
        }
    };
    let stack = reservation.start() + STACK_GUARD..reservation.end();
    let mut protection = libc::PROT_READ | libc::PROT_WRITE;
    if executable {
        protection |= libc::PROT_EXEC;
    }
    reservation
        .protect(stack.start, size, protection)
        .map_err(|source| stack_error(path, size, source))?;
    Ok((stack, reservation))
}

fn stack_error(path: &Path, size: u64, source: io::Error) -> LoadError {
    let operation = "map its stack";
    LoadError::Map { path: path.to_owned(), operation, address: 0, size, source }
}

fn system_error(path: &Path, operation: &'static str, source: io::Error) -> LoadError {
    LoadError::System { path: path.to_owned(), operation, source }
}

fn stack_limit() -> io::Result<u64> {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: the kernel writes one structure, and that is what it gets.
    let result = unsafe { libc::getrlimit(libc::RLIMIT_STACK, &raw mut limit) };
    if result == 0 { Ok(limit.rlim_cur) } else { Err(io::Error::last_os_error()) }
}

fn random_bytes() -> io::Result<[u8; 16]> {
    let mut bytes = [0; 16];
    // SAFETY: the kernel writes at most as many bytes as the array has. Requests of up to
    // 256 bytes are answered whole.
    let count = unsafe { libc::getrandom(bytes.as_mut_ptr().cast(), bytes.len(), 0) };
    if count == 16 { Ok(bytes) } else { Err(io::Error::last_os_error()) }
}
