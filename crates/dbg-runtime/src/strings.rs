//! Context strings as programs register them.

use std::ffi::c_char;
use std::fs::File;
use std::io::Write;
use std::sync::{Mutex, MutexGuard, PoisonError};

use unspool_openmp_record::original::{ContextString, run_and_thread};

/// What the names of a run's traces begin with.
pub(crate) const RUN: &str = "trace";

/// What an event's calls mean beyond their names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Meaning {
    /// Nothing more.
    Event,
    /// Work that threads share: tasks that are executed meanwhile are events of their own.
    Shared,
    /// Calls around an interval, with its name.
    Interval(String),
    /// Taking this lock.
    SetLock(String),
    /// Giving this lock back.
    UnsetLock(String),
}

/// All strings so far.
#[derive(Debug, Default)]
pub(crate) struct Registered {
    meanings: Vec<Meaning>,
    file: Option<File>,
}

static REGISTERED: Mutex<Registered> = Mutex::new(Registered {
    meanings: Vec::new(),
    file: None,
});

/// All strings so far.
pub(crate) fn registered() -> MutexGuard<'static, Registered> {
    REGISTERED.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Registers a string; returns its number, from 1.
///
/// # Safety
/// The string must end in two stars or in a zero byte: Fortran's ends in stars alone.
pub(crate) unsafe fn register(string: *const c_char) -> u32 {
    // SAFETY: as the caller promises.
    let text = unsafe { text(string) };
    let mut registered = registered();
    if registered.file.is_none() {
        forget_earlier_traces();
        registered.file = File::create("cstrings.csf")
            .inspect_err(|error| eprintln!("unspool: cannot write cstrings.csf: {error}"))
            .ok();
    }
    if let Some(file) = &mut registered.file
        && let Err(error) = writeln!(file, "{text}")
    {
        eprintln!("unspool: cannot write cstrings.csf: {error}");
    }
    registered.meanings.push(meaning(&text));
    registered.meanings.len() as u32
}

/// What the string of this number means, if there is one. Takes a lock: a recorder keeps what it has
/// been told.
pub(crate) fn meaning_of(number: u32) -> Option<Meaning> {
    let index = (number as usize).checked_sub(1)?;
    registered().meanings.get(index).cloned()
}

/// Removes the traces of an earlier run from the current folder: what their numbers stand for is
/// about to be written over, and one with more threads would leave some beside this run's.
fn forget_earlier_traces() {
    let is_trace = |name: &str| run_and_thread(name).is_some_and(|(run, _)| run == RUN);
    for entry in std::fs::read_dir(".").into_iter().flatten().flatten() {
        let name = entry.file_name();
        if name.to_str().is_some_and(is_trace)
            && let Err(error) = std::fs::remove_file(&name)
        {
            eprintln!(
                "unspool: cannot remove {}, the trace of an earlier run: {error}",
                name.display()
            );
        }
    }
}

unsafe fn text(string: *const c_char) -> String {
    let mut bytes = Vec::new();
    let mut at = string.cast::<u8>();
    loop {
        // SAFETY: the caller's string has not ended yet.
        let byte = unsafe { at.read() };
        if byte == 0 || byte == b'\n' {
            break;
        }
        bytes.push(byte);
        if bytes.ends_with(b"**") {
            break;
        }
        // SAFETY: as above.
        at = unsafe { at.add(1) };
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

fn meaning(text: &str) -> Meaning {
    // What breaks the grammar says nothing; whoever reads the file is told of it.
    let string = ContextString::parse(text).unwrap_or_default();
    let name = string.get("name1").unwrap_or_default();
    let lock = |marks: [&str; 2]| {
        let found = marks.iter().find_map(|mark| name.strip_prefix(mark));
        found.map(|rest| {
            rest.trim_start_matches("_lock")
                .trim_start_matches('_')
                .to_owned()
        })
    };
    if let Some(lock) = lock(["@set_lock", "@set_nested"]) {
        return Meaning::SetLock(lock);
    }
    if let Some(lock) = lock(["@unset_lock", "@unset_nested"]) {
        return Meaning::UnsetLock(lock);
    }
    match string.kind() {
        "user_interval" | "interval" => Meaning::Interval(name.to_owned()),
        "omploop" | "sections" | "single" | "workshare" => Meaning::Shared,
        _ => Meaning::Event,
    }
}
