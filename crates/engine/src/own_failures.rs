//! The engine's own failures: they are never passed off as the program's, and end the process
//! with a status of their own ([`ENGINE_FAILURE`]).

mod overdue;
mod shortage;

use std::alloc::{GlobalAlloc, Layout, System};
use std::fmt::Write;
use std::sync::atomic::Ordering;

use unspool_code_cache::address::CacheAddress;
use unspool_code_cache::gates::CallSlots;
use unspool_code_cache::slots::{SlotsPart, slots};
use unspool_kernel::diagnostics::{ENGINE_FAILURE, say};
use unspool_kernel::lock::Change;

pub(crate) use self::overdue::{does_not_return, end_behind_allocation, keeps_from_program};
use self::shortage::Shortage;
pub(crate) use self::shortage::thread_ends;
use crate::process::Process;
use crate::thread::Thread;

const HELP: &str =
    "help: this is a defect of unspool, not of the program; please report it with the lines above";

/// What to say where code of a tool has failed.
pub const TOOL_HELP: &str =
    "help: this is a defect of the tool that observes the program, not of the program";

const MEMORY_HELP: &str = "help: raise the limit that the program or its starter has set (ulimit -v, RLIMIT_AS, a control group's)\n";

/// Whether what fails is code of a tool, called by the engine or by inserted code, or in a thread
/// that the tool started. `stack`: the stack pointer at the failure.
pub(crate) fn is_tools(pc: u64, stack: u64) -> bool {
    /// More than any stack of the engine's has.
    const DEEPEST: u64 = 64 << 20;
    let Some(process) = Process::try_get() else {
        return false;
    };
    let mut all = process.clients.iter();
    if !all.clone().any(|client| client.has_functions()) {
        return false;
    }
    if let Some(at) = CacheAddress::of(pc) {
        return all.any(|client| client.is_function(at));
    }
    if Thread::current().is_null() {
        return true;
    }
    let (called, top) = (
        CallSlots::of(slots()).in_tool.load(Ordering::Relaxed) != 0,
        slots().host_stack.get(),
    );
    // Inserted code switches to the engine's stack as it was when the cache was entered.
    called || top != 0 && (top.saturating_sub(DEEPEST)..top).contains(&stack)
}

/// A fault inside the engine itself.
pub(crate) fn fault(signal: i32, pc: u64, stack: u64, address: u64) {
    let base = engine_base();
    let place = if CacheAddress::of(pc).is_some() {
        "in translated code".to_owned()
    } else {
        format!("engine + {:#x}", pc.wrapping_sub(base))
    };
    if is_tools(pc, stack) {
        end(&format!(
            "error: the tool failed: signal {signal} at {pc:#x} ({place}), address {address:#x}{}\n{TOOL_HELP}",
            circumstances(pc)
        ));
    }
    end(&format!(
        "error: the engine itself failed: signal {signal} at {pc:#x} ({place}), address {address:#x}{}\n{HELP}",
        circumstances(pc)
    ));
}

/// From now on a panic, in whichever thread, ends the process.
pub(crate) fn end_at_panics() {
    std::panic::set_hook(Box::new(|panic| {
        let message = panic.payload_as_str().unwrap_or("a panic");
        let place = panic.location().map(ToString::to_string);
        let mut place = place.unwrap_or_default();
        let here = 0_u8;
        let (who, help) = if is_tools(0, (&raw const here) as u64) {
            ("the tool", TOOL_HELP)
        } else {
            ("the engine itself", HELP)
        };
        if help == TOOL_HELP && is_ours(&place) {
            // The tool has asked for what cannot be: where it has is of interest.
            place += &place_in_tool(&std::backtrace::Backtrace::force_capture());
        }
        end(&format!(
            "error: {who} failed: {message}, at {place}{}\n{help}",
            circumstances(0)
        ));
    }));
}

/// What places in libraries, and in crates of ours that tools call, have in their paths.
const OTHERS: [&str; 6] = [
    "/rustc/",
    "/rust/deps/",
    "crates/engine/src/",
    "crates/kernel/src/",
    "crates/instrument/src/",
    "crates/tool/src/",
];

fn is_ours(place: &str) -> bool {
    OTHERS.iter().any(|other| place.contains(other))
}

/// The first place of a backtrace that is neither the engine's nor a library's, as words that
/// follow others; empty if none is known.
pub fn place_in_tool(backtrace: &std::backtrace::Backtrace) -> String {
    let text = backtrace.to_string();
    let lines: Vec<&str> = text.lines().map(str::trim).collect();
    let frames = lines.windows(2).filter_map(|pair| {
        let (number, name) = pair[0].split_once(": ")?;
        let place = pair[1].strip_prefix("at ")?;
        number
            .bytes()
            .all(|byte| byte.is_ascii_digit())
            .then_some((name, place))
    });
    let mut own = frames.filter(|(_, place)| !is_ours(place));
    let found = own.next();
    found.map_or_else(String::new, |(name, place)| {
        format!(" in {name}, at {place}")
    })
}

fn end(message: &str) -> ! {
    say(message);
    // SAFETY: ends the process.
    unsafe { libc::_exit(ENGINE_FAILURE) }
}

/// Where the program was: its program counter, and the block that was translated from there
/// or that holds the place in the cache.
fn circumstances(place: u64) -> String {
    let mut text = format!("\nprocess {}", std::process::id());
    let thread = Thread::current();
    // SAFETY: a thread's own pointer is null or outlives its program code.
    let Some(thread) = (unsafe { thread.as_ref() }) else {
        return text;
    };
    let pc = thread.pc();
    // Writing to a string does not fail.
    let _ = write!(text, ", thread {}, program counter {pc:#x}", thread.id.0);
    // This thread may hold the lock.
    let Some(code) = thread.process.try_code() else {
        return text + ", while the code cache was in use";
    };
    let entry = || code.cache.entry(pc).map(|entry| entry.cache);
    let place = CacheAddress::of(place).or_else(entry);
    let block = place.and_then(|at| Some((at, code.cache.fragment_at(at)?)));
    let _ = match block.map(|(at, id)| (at, code.cache.fragment(id))) {
        None => write!(text, ", in no translated block"),
        Some((at, block)) => write!(
            text,
            ", translated block {:#x} + {:#x} of the code at {:#x}",
            block.start,
            at.distance_from(block.start),
            block.pc
        ),
    };
    text
}

/// The system's allocator. Where a program is observed, it ends the process when there is no
/// memory left for the engine, as a program's limit may have it: whoever asked for it would
/// abort, and that would look like an abort of the program's. Where a tool observes it, it does so
/// before that is the case of the machine ([`shortage`]). A child that shares the memory may be killed
/// in the middle of it, which is told by the change that has not ended then.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Allocator;

#[global_allocator]
static ALLOCATOR: Allocator = Allocator;

/// Blocks of zeros of this size and above take no memory before they are written.
const LARGE: usize = 128 << 10;

// SAFETY: all of it is the system's.
unsafe impl GlobalAlloc for Allocator {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let size = layout.size();
        // SAFETY: the caller keeps the allocator's rules.
        let memory = changing(|| unsafe { System.alloc(layout) });
        had(memory, size, 0, size)
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        let size = layout.size();
        // Of a large block nobody knows how much of it will be written.
        let unwritten = if size < LARGE { size } else { 0 };
        // SAFETY: as above.
        let memory = changing(|| unsafe { System.alloc_zeroed(layout) });
        had(memory, size, 0, unwritten)
    }

    unsafe fn realloc(&self, memory: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        let old = layout.size();
        // SAFETY: as above.
        let new = changing(|| unsafe { System.realloc(memory, layout, size) });
        had(new, size, old, size.saturating_sub(old))
    }

    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        // SAFETY: as above.
        changing(|| unsafe { System.dealloc(memory, layout) });
        // What is freed is never too much.
        let _ = shortage::counts(-(layout.size() as i64), 0);
        overdue::look();
    }
}

fn changing<R>(work: impl FnOnce() -> R) -> R {
    let _change = Change::begin();
    work()
}

/// There is memory of that size now, or there is none, in place of what had another size. So much of it
/// will be written, as far as one knows.
fn had(memory: *mut u8, size: usize, instead_of: usize, unwritten: usize) -> *mut u8 {
    if memory.is_null() {
        if let Some(process) = Process::try_get() {
            end_without_memory(process, size, None);
        }
        return memory;
    }
    let more = size as i64 - instead_of as i64;
    if let Some(shortage) = shortage::counts(more, unwritten)
        && let Some(process) = Process::try_get()
    {
        end_without_memory(process, size, Some(shortage));
    }
    overdue::look();
    memory
}

/// Address space that is given back when there is no more, so that it can be said for whom
/// there was none.
static RESERVE: std::sync::atomic::AtomicPtr<libc::c_void> =
    std::sync::atomic::AtomicPtr::new(std::ptr::null_mut());
const RESERVE_SIZE: usize = 64 << 20;

/// Descriptors that belong to the reserve.
#[must_use]
pub fn reserve_files() -> Vec<i32> {
    shortage::files()
}

/// Keeps a reserve, for a process that is observed by a tool: of address space, and of memory.
pub fn keep_reserve() {
    shortage::watch();
    // SAFETY: a new mapping, which nobody uses.
    let reserve = unsafe {
        libc::mmap(
            std::ptr::null_mut(),
            RESERVE_SIZE,
            libc::PROT_NONE,
            libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE,
            -1,
            0,
        )
    };
    if reserve != libc::MAP_FAILED {
        RESERVE.store(reserve, Ordering::Release);
    }
}

/// There is no memory left for so many bytes; or there is hardly any, in the machine or in a control
/// group.
fn end_without_memory(process: &Process, size: usize, shortage: Option<Shortage>) -> ! {
    // Whatever is done from here on takes memory, too.
    shortage::look_no_more();
    let reserve = RESERVE.swap(std::ptr::null_mut(), Ordering::AcqRel);
    if reserve.is_null() {
        // There is no memory for a text either, or for the one that was begun.
        say_parts(&[
            "error: there is no memory left for observing the program\n",
            if size > 1 << 30 {
                "help: this is a defect of unspool\n"
            } else {
                MEMORY_HELP
            },
        ]);
        // SAFETY: ends the process.
        unsafe { libc::_exit(ENGINE_FAILURE) }
    }
    // SAFETY: the mapping is ours, and nobody uses it.
    unsafe { libc::munmap(reserve, RESERVE_SIZE) };
    let here = 0_u8;
    let is_tools = is_tools(0, (&raw const here) as u64);
    process.clients.each(|client| client.out_of_memory(size));
    let help = shortage.map_or(MEMORY_HELP, |it| it.help());
    let place = || place_in_tool(&std::backtrace::Backtrace::force_capture());
    match shortage {
        None if is_tools => {
            let place = place();
            say(&format!(
                "error: the tool failed: there is no memory left for {size} bytes that it wants{place}"
            ));
            say_parts(&[TOOL_HELP, "; or\n", help]);
        }
        None => {
            say("error: there is no memory left for observing the program");
            say_parts(&[help]);
        }
        Some(shortage) if is_tools && shortage.is_own() => {
            let place = place();
            say(&format!(
                "error: the tool failed: {shortage}, and it wants {size} bytes more{place}"
            ));
            say_parts(&[TOOL_HELP, "; or\n", help]);
        }
        Some(shortage) => {
            let (who, place) = match is_tools {
                true => ("the tool", place()),
                false => ("unspool", String::new()),
            };
            say(&format!(
                "error: there is no memory left for observing the program: {shortage}, and {who} wants {size} bytes more{place}"
            ));
            say_parts(&[help]);
        }
    }
    // SAFETY: ends the process.
    unsafe { libc::_exit(ENGINE_FAILURE) }
}

fn say_parts(parts: &[&str]) {
    for part in parts {
        // SAFETY: writes our own bytes to our own descriptor; nothing is to be done if it fails.
        unsafe {
            libc::write(
                unspool_kernel::diagnostics::diagnostics_fd(),
                part.as_ptr().cast(),
                part.len(),
            )
        };
    }
}

/// Where the engine is loaded, for reports of its own failures.
#[must_use]
pub fn engine_base() -> u64 {
    unsafe extern "C" {
        static __ehdr_start: u8;
    }
    (&raw const __ehdr_start) as u64
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    const ASKED: &str = "UNSPOOL_TEST_PANIC";

    #[test]
    fn a_panic_ends_the_process_from_any_thread() {
        if std::env::var_os(ASKED).is_some() {
            unspool_kernel::diagnostics::duplicate_stderr();
            super::end_at_panics();
            let _ = std::thread::spawn(|| panic!("an internal check failed")).join();
            return;
        }
        let own = std::env::current_exe().unwrap();
        let name = "own_failures::tests::a_panic_ends_the_process_from_any_thread";
        let ended = Command::new(own)
            .args(["--exact", name, "--nocapture"])
            .env(ASKED, "1")
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&ended.stderr);
        assert_eq!(ended.status.code(), Some(super::ENGINE_FAILURE), "{said}");
        assert!(said.contains("an internal check failed, at "), "{said}");
        assert!(
            said.contains("own_failures.rs") && said.contains("help: "),
            "{said}"
        );
    }
}
