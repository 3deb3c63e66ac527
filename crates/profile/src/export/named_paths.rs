//! The call paths of a recording, with names and lines.

use rustc_hash::FxHashMap;
use unspool_binary::SourceLine;
use unspool_profile_record::{Frame, Recording, Sample};

use crate::names::{Named, Names};

/// One function on a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Step<'a> {
    pub(super) name: &'a str,
    /// The file that the code is in; empty where none is known.
    pub(super) image: &'a str,
    pub(super) line: Option<&'a SourceLine>,
}

/// All frames with their names.
pub(super) struct NamedPaths<'a> {
    recording: &'a Recording,
    frames: FxHashMap<u32, Named>,
}

impl<'a> NamedPaths<'a> {
    pub(super) fn new(recording: &'a Recording) -> NamedPaths<'a> {
        let mut names = Names::new(recording);
        let named = |(number, frame): (&u32, &Frame)| (*number, names.of(frame));
        NamedPaths {
            recording,
            frames: recording.frames.iter().map(named).collect(),
        }
    }

    /// The numbers of the frames on a sample's path, innermost first; none where nothing is known.
    pub(super) fn frames(&self, sample: &Sample) -> Vec<u32> {
        let mut frames = Vec::new();
        let mut next = sample.node;
        while let Some(node) = next.and_then(|number| self.recording.nodes.get(&number)) {
            frames.push(node.frame);
            next = node.parent;
        }
        frames
    }

    /// The functions of a frame, the innermost first.
    pub(super) fn steps(&self, frame: u32) -> impl Iterator<Item = Step<'_>> {
        let named = &self.frames[&frame];
        // Where only the line of the instruction is known, it is that of the innermost.
        let lines = named.lines.iter().rev().map(Option::as_ref);
        let lines = lines.chain(std::iter::repeat(None));
        let functions = named.functions.iter().rev().zip(lines);
        functions.map(|(name, line)| Step {
            name,
            image: &named.image,
            line: line.filter(|line| line.line > 0),
        })
    }
}

/// The samples of each thread, by process and number, in the order of time.
pub(super) fn by_thread(recording: &Recording) -> Vec<((u32, u32), Vec<&Sample>)> {
    let mut threads: std::collections::BTreeMap<(u32, u32), Vec<&Sample>> = Default::default();
    for sample in &recording.samples {
        threads
            .entry((sample.pid, sample.tid))
            .or_default()
            .push(sample);
    }
    for samples in threads.values_mut() {
        samples.sort_by_key(|sample| sample.time_ns);
    }
    threads.into_iter().collect()
}

/// What a thread is called, or the process that it is in.
pub(super) fn thread_name(recording: &Recording, (pid, tid): (u32, u32)) -> &str {
    let thread = recording.threads.get(&(pid, tid));
    let process = recording.processes.get(&pid).map(|process| &process.name);
    thread
        .map(|thread| &thread.name)
        .or(process)
        .map_or("", String::as_str)
}

/// What a process is called, or its first thread.
pub(super) fn process_name(recording: &Recording, pid: u32) -> &str {
    match recording.processes.get(&pid) {
        Some(process) => &process.name,
        None => thread_name(recording, (pid, pid)),
    }
}
