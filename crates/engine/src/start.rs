//! From the command line to the program's first instruction, and from its last one to the end.

use std::convert::Infallible;
use std::ffi::CString;
use std::ops::Range;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicI32, AtomicU64, AtomicUsize, Ordering};

use unspool_code_cache::cache::Cache;
use unspool_code_cache::gates::{self, Gates, VectorState};
use unspool_code_cache::{emit::gpr, slots};
use unspool_kernel::descriptors::Headroom;
use unspool_kernel::lock::{Mutex, OnceLock};
use unspool_kernel::queued_writes::Queues;
use unspool_kernel::regions::{Regions, View};
use unspool_kernel::{diagnostics, layout, maps, own_stack, race_windows};
use unspool_loader::{LoadRequest, LoadedProgram, ProgramStack};

use crate::client::{self, Clients, NewClient};
use crate::filters::succession;
use crate::finish::end_thread;
use crate::lending::Lending;
use crate::persist::Persistence;
use crate::plan::{self, ClientPlan, InheritedSignals, Plan, Program};
use crate::process::{FIRST_THREAD, Process, Translations};
use crate::signal_handling::SignalStack;
use crate::signal_handling::handler;
use crate::signals::actions::Actions;
use crate::start_error::StartError;
use crate::syscalls::{list_thread, set_program_fs, whole_pages};
use crate::thread::Thread;
use crate::translate::Vdso;
use crate::{detach, dispatch, own_failures, x87_pointers};

/// Runs a program in this process, which ends as the program ends. The clients take part in the
/// run, in this order.
///
/// # Errors
/// If the program cannot be started, or a client cannot take part.
pub fn run(
    plan: Plan,
    program: &Program,
    clients: Vec<Box<dyn NewClient>>,
) -> Result<Infallible, StartError> {
    own_stack::call(|former| {
        // SAFETY: the engine stays on its own stack until the program has failed to start.
        let stack = unsafe { ProgramStack::below(former) };
        run_with_stack(plan, program, clients, &stack)
    })
    .map_err(StartError::OwnStack)?
}

fn run_with_stack(
    plan: Plan,
    program: &Program,
    mut clients: Vec<Box<dyn NewClient>>,
    stack: &ProgramStack,
) -> Result<Infallible, StartError> {
    diagnostics::duplicate_stderr();
    layout::keep_heap_together();
    settle_c_library();
    let vectors = VectorState::detect().ok_or(StartError::NoXsave)?;
    for client in &mut clients {
        client.before(program)?;
    }
    // Nothing that the engine opens takes a descriptor from the program.
    race_windows::settle();
    let headroom = Headroom::get();
    let open = OPEN.load(Ordering::Relaxed);
    let found_at = (open >= 0).then(|| PathBuf::from(format!("/proc/self/fd/{open}")));
    let prepared = unspool_loader::prepare(&program.path, found_at.as_deref());
    if open >= 0 {
        // SAFETY: it was opened for this process to load its program, and for nothing else.
        unsafe { libc::close(open) };
    }
    let prepared = prepared?;
    layout::make_room(&prepared.fixed_addresses());
    layout::reserve().map_err(StartError::Reserve)?;
    for client in &mut clients {
        client.reserve()?;
    }
    let vdso = copy_vdso();
    let mut request = LoadRequest::new(
        program.path.clone(),
        program.arguments.clone(),
        program.environment.clone(),
    );
    request.pie_base = layout::PROGRAM_BASE;
    request.interp_base = layout::LIBRARY_BASE;
    request.vdso = if vdso.size == 0 {
        unspool_loader::Vdso::Ours
    } else {
        unspool_loader::Vdso::At(vdso.start)
    };
    let loaded = unspool_loader::load(&request, prepared, stack)?;
    if has_branch_table(&loaded) {
        layout::reserve_branch_table().map_err(StartError::Reserve)?;
    }
    let clients = join(clients, program, &loaded)?;
    let process = install(plan, &loaded, vdso, vectors, clients);
    drop(headroom);
    own_failures::end_at_panics();
    name_thread(&loaded);
    describe_process(&loaded);

    let _stack = SignalStack::install();
    let mask = inherited().map_or_else(crate::signals::exact_mask, |it| it.mask);
    let mut thread = Thread::new(process, FIRST_THREAD, mask, Arc::clone(&process.actions));
    succession::start(&thread);
    gates::initialise_vectors(thread.slots(), vectors);
    thread.set_register(gpr::RSP, loaded.stack_pointer);
    thread.set_pc(loaded.entry);
    x87_pointers::ask_processor();
    Thread::set_current(&mut thread);
    list_thread(process, &mut thread);
    client::first_thread_starts(&mut thread);
    thread
        .clients()
        .each(|client| client.program_loaded(process, &loaded));
    set_program_fs(process, &mut thread, 0);
    detach::begin(process);
    crate::signal_handling::open(&thread);
    let status = dispatch::run(&mut thread);
    end_thread(process, &mut thread, status);
    // The first thread ends alone: the process goes on until the last one ends.
    // SAFETY: this thread has nothing left to do.
    unsafe {
        libc::syscall(libc::SYS_exit, status);
        libc::_exit(status)
    }
}

/// The program is loaded: those that take part in its run.
fn join(
    clients: Vec<Box<dyn NewClient>>,
    program: &Program,
    loaded: &LoadedProgram,
) -> Result<Clients, StartError> {
    let all = clients.into_iter();
    let joined = all.map(|client| client.join(program, loaded));
    joined.filter_map(Result::transpose).collect()
}

/// Whether nothing of the program's lies where the branch table is.
fn has_branch_table(loaded: &LoadedProgram) -> bool {
    !loaded.sanitizers.address && layout::has_tables()
}

fn install(
    plan: Plan,
    loaded: &LoadedProgram,
    vdso: Vdso,
    vectors: VectorState,
    clients: Clients,
) -> &'static Process {
    const HWCAP2_FSGSBASE: u64 = 2;
    let convention = clients.convention();
    let size = plan
        .code_cache
        .clamp(plan::SMALLEST_CODE_CACHE, layout::cache_room());
    let mut cache = Cache::new(
        slots::displacement(),
        has_branch_table(loaded),
        size,
        convention,
        |code| Gates::emit(code, vectors, clients.callees()),
    );
    let gates = cache.gates;
    let mut regions = Regions::default();
    for segment in &loaded.segments {
        let range = segment.address..segment.address + segment.size;
        let view = segment.identity.map(|file| View {
            object: file.object,
            offset: segment.offset,
            shared: false,
        });
        regions.insert(range.clone(), segment.protection, view);
        if let Some(version) = segment.version {
            regions.set_version(range.start, version);
        }
    }
    let stack_protection = libc::PROT_READ
        | libc::PROT_WRITE
        | if loaded.executable_stack {
            libc::PROT_EXEC
        } else {
            0
        };
    let lowest_page = whole_pages(loaded.stack_pointer, 1).start;
    regions.insert_stack(loaded.stack.clone(), stack_protection, lowest_page);
    if vdso.size != 0 {
        regions.insert(
            vdso.start..vdso.start + vdso.size,
            libc::PROT_READ | libc::PROT_EXEC,
            None,
        );
    }
    let persistence = plan
        .persistent_cache
        .as_ref()
        .filter(|_| clients.is_empty())
        .and_then(|directory| Persistence::start(directory, &loaded.executable, &mut cache));
    // Whatever ends the process comes to its clients first.
    let ignored = inherited().map_or(0, |it| it.ignored);
    let dispositions = Actions::inherit(handler::entry(), ignored, !clients.is_empty());
    // SAFETY: getauxval has no preconditions.
    let fsgsbase = unsafe { libc::getauxval(libc::AT_HWCAP2) } & HWCAP2_FSGSBASE != 0;
    let mut code = Translations {
        cache,
        regions,
        watched_pages: std::collections::BTreeSet::new(),
        being_written: Vec::new(),
        queues: Queues::default(),
        checked: rustc_hash::FxHashMap::default(),
        lending: Lending::default(),
        persistence,
    };
    code.activate_kept();
    Process::install(Process::new(
        code,
        gates,
        crate::process::Facts {
            vectors,
            plan,
            executable: loaded.executable.clone(),
            vdso,
            dynamic_loader: dynamic_loader(loaded),
            fsgsbase,
            program_break: Mutex::new((layout::BREAK_BASE, layout::BREAK_BASE)),
            actions: Arc::new(dispositions),
            threads: Mutex::new(Vec::new()),
            thread_count: AtomicUsize::new(1),
            next_thread: AtomicU64::new(1),
            ending: AtomicUsize::new(0),
            forked: AtomicUsize::new(0),
            first_status: AtomicU64::new(0),
            clients,
        },
    ))
}

/// From the first to the last segment of the dynamic loader.
fn dynamic_loader(loaded: &LoadedProgram) -> Range<u64> {
    let all = loaded.segments.iter();
    let mut own = all.filter(|segment| segment.file == loaded.interpreter);
    let (Some(first), Some(_)) = (own.next(), &loaded.interpreter) else {
        return 0..0;
    };
    let last = own.next_back().unwrap_or(first);
    first.address..last.address + last.size
}

/// Has the C library do what it does when it makes its first thread: it takes the signal by which
/// all threads change their identity for itself, which would take it from the program. Where no
/// thread can be made, the program will have none that could lose it.
fn settle_c_library() {
    const STACK: usize = 16 << 10;
    if let Ok(thread) = std::thread::Builder::new().stack_size(STACK).spawn(|| ()) {
        let _ = thread.join();
    }
}

/// Copies the kernel's vDSO below 2 GiB, where indirect branches reach it directly.
fn copy_vdso() -> Vdso {
    let Some((start, size)) = find_vdso() else {
        return Vdso::default();
    };
    let copy = layout::vdso();
    if size > layout::cache() - copy || layout::open(copy, size).is_err() {
        return Vdso::default();
    }
    // SAFETY: the kernel maps the vDSO readable; the copy was just mapped.
    unsafe {
        std::ptr::copy_nonoverlapping(start as *const u8, copy as *mut u8, size as usize);
        // Writable it does as well.
        let _ = layout::protect(copy, size, libc::PROT_READ | libc::PROT_EXEC);
    }
    Vdso {
        start: copy,
        size,
        bias: start.wrapping_sub(copy),
    }
}

fn find_vdso() -> Option<(u64, u64)> {
    let text = maps::read();
    let Range { start, end } = maps::lines(&text)
        .find(|line| line.name == b"[vdso]")?
        .range;
    Some((start, end - start))
}

fn name_thread(loaded: &LoadedProgram) {
    // SAFETY: the name is a C string.
    unsafe { libc::prctl(libc::PR_SET_NAME, loaded.command_name.as_ptr()) };
}

/// What `/proc/self/cmdline`, `environ`, `auxv` and `stat` (the start of the stack) show: the program's, where the kernel
/// lets a process say so (`PR_SET_MM_MAP`, which needs no privilege for these fields).
fn describe_process(loaded: &LoadedProgram) {
    const PR_SET_MM: i32 = 35;
    const PR_SET_MM_MAP: u64 = 14;
    let Some([start_code, end_code, start_data, end_data, start_brk]) = own_layout() else {
        return;
    };
    // SAFETY: asks for the current break only.
    let end_brk = unsafe { libc::sbrk(0) } as u64;
    let map: [u64; 13] = [
        start_code,
        end_code,
        start_data,
        end_data,
        start_brk,
        end_brk,
        loaded.stack_pointer,
        loaded.argument_strings.start,
        loaded.argument_strings.end,
        loaded.environment_strings.start,
        loaded.environment_strings.end,
        loaded.auxv.as_ptr() as u64,
        // The size of the vector, and no new executable.
        (size_of_val(&loaded.auxv[..]) as u32) as u64 | u64::from(u32::MAX) << 32,
    ];
    // SAFETY: `map` is a `struct prctl_mm_map`. Where the kernel refuses, only the look of
    // the process in /proc differs.
    unsafe { libc::prctl(PR_SET_MM, PR_SET_MM_MAP, map.as_ptr(), size_of_val(&map), 0) };
}

/// Code, data and break of this process as the kernel knows them, from `/proc/self/stat`.
fn own_layout() -> Option<[u64; 5]> {
    // Counted from behind the name, which may hold anything: the state is field 3.
    const FIELDS: [usize; 5] = [26, 27, 45, 46, 47];
    let stat = std::fs::read_to_string("/proc/self/stat").ok()?;
    let fields: Vec<&str> = stat.rsplit_once(')')?.1.split_whitespace().collect();
    let mut values = [0; 5];
    for (value, field) in values.iter_mut().zip(FIELDS) {
        *value = fields.get(field - 3)?.parse().ok()?;
    }
    Some(values)
}

/// The descriptor of the program's file, if the process was started with one; -1 if not.
static OPEN: AtomicI32 = AtomicI32::new(-1);

/// What of signals the process was told to have inherited, if it was.
static INHERITED: OnceLock<InheritedSignals> = OnceLock::new();

/// What an observed program's `execve` has told of signals.
#[must_use]
pub(crate) fn inherited() -> Option<InheritedSignals> {
    INHERITED.get().copied()
}

/// What a process is to go on with that an observed program's `execve` has started.
#[derive(Debug, Clone)]
pub struct Continuation {
    /// How to run it.
    pub plan: Plan,
    /// What to run.
    pub program: Program,
    /// What clients are told by those of the program before, in their order.
    pub clients: Vec<ClientPlan>,
}

/// If this process was started by an observed program's `execve`: what to run, and how.
/// `arguments` are all of this process's arguments.
#[must_use]
pub fn continuation(arguments: &[std::ffi::OsString]) -> Option<Continuation> {
    use std::os::unix::ffi::OsStrExt;
    let mut rest = arguments.get(1..)?;
    succession::take(&mut rest)?;
    let first = rest.split_off_first()?;
    if first == plan::CONTINUE_OPEN {
        let number = rest.split_off_first()?.to_str()?.parse().ok()?;
        OPEN.store(number, Ordering::Relaxed);
    } else if first != plan::CONTINUE {
        return None;
    }
    let inherited = InheritedSignals::decode(rest.split_off_first()?.to_str()?)?;
    let _ = INHERITED.set(inherited);
    let (plan, clients) = Plan::decode(rest.split_off_first()?.as_bytes())?;
    let path = PathBuf::from(rest.split_off_first()?);
    let arguments = rest
        .iter()
        .map(|text| CString::new(text.as_bytes()))
        .collect::<Result<_, _>>()
        .ok()?;
    Some(Continuation {
        plan,
        program: Program {
            path,
            arguments,
            environment: environment(),
        },
        clients,
    })
}

/// The environment of this process, as it is.
#[must_use]
pub fn environment() -> Vec<CString> {
    use std::os::unix::ffi::OsStrExt;
    std::env::vars_os()
        .filter_map(|(name, value)| {
            let mut text = name.as_bytes().to_vec();
            text.push(b'=');
            text.extend_from_slice(value.as_bytes());
            CString::new(text).ok()
        })
        .collect()
}
