//! What the engine keeps for the whole process, and the kernel gets back: dispositions of
//! signals, the program break, the vDSO, and pages that are write-protected.

use std::ops::Range;
use std::path::Path;
use std::time::Duration;

use unspool_kernel::ids::Tid;
use unspool_kernel::{diagnostics, layout, maps};

use crate::client::Refusal;
use crate::code_pages;
use crate::own_files::own_files;
use crate::process::{Process, ThreadHandle};
use crate::signals::actions;
use crate::thread::Thread;
use crate::translate::Vdso;

const PR_SET_MM: libc::c_int = 35;
const PR_SET_MM_MAP: libc::c_ulong = 14;
const PR_SET_MM_MAP_SIZE: libc::c_ulong = 15;

/// Whether the kernel will take back what it has to. All threads stand still.
pub(super) fn check(process: &Process) -> Result<(), Refusal> {
    if !Path::new("/proc/self/stat").exists() {
        return Err(Refusal::NoProc);
    }
    let mut size = 0_u32;
    // SAFETY: the kernel writes four bytes.
    let known = unsafe { libc::prctl(PR_SET_MM, PR_SET_MM_MAP_SIZE, &raw mut size, 0, 0) } == 0;
    if !known {
        return Err(Refusal::Break);
    }
    // There and back again, before anything is final.
    let moved =
        move_vdso(process.vdso, Direction::ToCopy) && move_vdso(process.vdso, Direction::FromCopy);
    if moved { Ok(()) } else { Err(Refusal::Vdso) }
}

/// A thread of the process that runs and is none of these, or the calling one.
pub(super) fn foreign_thread(known: &[ThreadHandle]) -> Option<Tid> {
    let own = Tid::own();
    let is_known = |tid: Tid| tid == own || known.iter().any(|handle| handle.tid == tid);
    running_threads().find(|&tid| !is_known(tid))
}

/// Waits until no more threads run than these: one of the engine's watches how a tool ends.
pub(super) fn await_threads(count: usize) {
    const ROUNDS: u32 = 5000;
    const PAUSE: Duration = Duration::from_millis(2);
    for _ in 0..ROUNDS {
        if running_threads().count() <= count {
            return;
        }
        std::thread::sleep(PAUSE);
    }
    diagnostics::fatal("a thread that was started when the tool came to its end does not end");
}

fn running_threads() -> impl Iterator<Item = Tid> {
    let tasks = std::fs::read_dir("/proc/self/task").ok();
    let numbers = tasks.into_iter().flatten();
    numbers
        .filter_map(|task| task.ok()?.file_name().to_str()?.parse().ok())
        .map(Tid::of)
        .filter(|&tid| is_running(tid))
}

/// Whether a thread has not ended: the first one stays visible until all others have.
fn is_running(tid: Tid) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/self/task/{tid}/stat"));
    let stat = stat.unwrap_or_default();
    let state = stat
        .rsplit_once(") ")
        .and_then(|(_, rest)| rest.chars().next());
    state.is_some_and(|state| !matches!(state, 'Z' | 'X'))
}

/// Gives everything back. The engine needs nothing of it any more: all threads stand still with
/// all signals blocked, and the caller is about to leave.
pub(super) fn hand_back(process: &Process, thread: &Thread) {
    code_pages::release(&mut process.code(), 0..u64::MAX);
    let break_set = set_break(process);
    close_own_files(process);
    actions::hand_back(&thread.actions);
    // From here on the engine's C library cannot ask for the time.
    let moved = move_vdso(process.vdso, Direction::ToCopy);
    if !moved || !break_set {
        diagnostics::fatal("the kernel took back less of the process than it had said it would");
    }
}

/// The program's break becomes the kernel's, in whose place the engine's heap was. That does not
/// shrink any more, and grows elsewhere if it must.
fn set_break(process: &Process) -> bool {
    let (start, end) = *process.program_break.lock();
    // SAFETY: changes a setting.
    unsafe { libc::mallopt(libc::M_TRIM_THRESHOLD, libc::c_int::MAX) };
    let Some(map) = memory_map(start, end) else {
        return false;
    };
    // SAFETY: `map` is a `struct prctl_mm_map`.
    unsafe { libc::prctl(PR_SET_MM, PR_SET_MM_MAP, map.as_ptr(), size_of_val(&map), 0) == 0 }
}

/// What the kernel knows of the process's memory (`struct prctl_mm_map`), with this break.
fn memory_map(start_break: u64, end_break: u64) -> Option<[u64; 13]> {
    // Counted from behind the name, which may hold anything: the state is field 3. Code, then
    // the stack's start, then arguments and environment.
    const FIELDS: [usize; 7] = [26, 27, 28, 48, 49, 50, 51];
    let stat = std::fs::read_to_string("/proc/self/stat").ok()?;
    let fields: Vec<&str> = stat.rsplit_once(')')?.1.split_whitespace().collect();
    let mut values = [0; FIELDS.len()];
    for (value, field) in values.iter_mut().zip(FIELDS) {
        *value = fields.get(field - 3)?.parse().ok()?;
    }
    let [
        start_code,
        end_code,
        start_stack,
        arguments,
        arguments_end,
        environment,
        environment_end,
    ] = values;
    // The kernel wants data below the break, and counts it among what the limit of data bounds.
    let data = layout::PROGRAM_BASE;
    Some([
        start_code,
        end_code,
        data,
        data,
        start_break,
        end_break,
        start_stack,
        arguments,
        arguments_end,
        environment,
        environment_end,
        0,
        // No auxiliary vector, and no new executable.
        u64::from(u32::MAX) << 32,
    ])
}

/// Closes what the engine has open for itself in this process. For whom its parent waits, with
/// whom it may share descriptors, goes on doing so until it executes a program or ends.
fn close_own_files(process: &Process) {
    let mut files = own_files(process);
    let parents = crate::vfork_copy::vfork_locks();
    files.retain(|file| !parents.contains(file));
    for file in files {
        // SAFETY: the descriptor is the engine's, which has nothing more to say or to write.
        unsafe { libc::close(file) };
    }
}

#[derive(Debug, Clone, Copy)]
enum Direction {
    ToCopy,
    FromCopy,
}

/// Moves the kernel's vDSO, with the data pages that it reads, to where the program has found its
/// copy, or back again. The copy was only ever read by the engine, to be translated.
fn move_vdso(vdso: Vdso, direction: Direction) -> bool {
    if vdso.size == 0 {
        return true;
    }
    let Some(mappings) = kernel_mappings() else {
        return false;
    };
    let distance = match direction {
        Direction::ToCopy => vdso.bias.wrapping_neg(),
        Direction::FromCopy => vdso.bias,
    };
    mappings.iter().all(|range| {
        let size = range.end - range.start;
        // SAFETY: what lies at the target is the copy, or below it nothing that is still used.
        let moved = unsafe {
            libc::syscall(
                libc::SYS_mremap,
                range.start,
                size,
                size,
                libc::MREMAP_MAYMOVE | libc::MREMAP_FIXED,
                range.start.wrapping_add(distance),
            )
        };
        moved as u64 == range.start.wrapping_add(distance)
    })
}

/// The vDSO and its data pages, which lie together.
fn kernel_mappings() -> Option<Vec<Range<u64>>> {
    let text = maps::read();
    let is_kernels = |line: &maps::Line| line.name.starts_with(b"[vvar") || line.name == b"[vdso]";
    let all = maps::lines(&text).filter(is_kernels);
    (!text.is_empty()).then(|| all.map(|line| line.range).collect())
}
