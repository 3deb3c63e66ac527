//! The call paths of a recording, with names and lines, and what its threads are called.

use std::collections::BTreeMap;
use std::path::Path;

use rustc_hash::FxHashMap;
use unspool_binary::SourceLine;
use unspool_profile_record::{Recording, Sample};

use crate::names::{Named, Names};

/// One function on a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Step<'a> {
    pub(crate) name: &'a str,
    /// The file that the code is in; empty where none is known.
    pub(crate) image: &'a str,
    pub(crate) line: Option<&'a SourceLine>,
}

/// A recording, and all its frames with their names: what everything that is told of it needs.
#[derive(Debug)]
pub struct NamedPaths<'a> {
    pub(crate) recording: &'a Recording,
    /// The files that it names.
    pub(crate) names: Names<'a>,
    frames: FxHashMap<u32, Named>,
}

impl<'a> NamedPaths<'a> {
    /// Looks the names of a recording up, in the files that it names.
    #[must_use]
    pub fn new(recording: &'a Recording) -> NamedPaths<'a> {
        NamedPaths::keeping(recording, None)
    }

    /// The same. What takes long to be found in machine code is kept in this directory, which is the
    /// user's own, by the build identifiers of files, and taken from there the next time.
    #[must_use]
    pub fn keeping(recording: &'a Recording, directory: Option<&Path>) -> NamedPaths<'a> {
        let names = Names::new(recording, directory);
        NamedPaths {
            recording,
            frames: names.of_frames(),
            names,
        }
    }

    /// What is known of a frame of the recording.
    pub(crate) fn frame(&self, number: u32) -> &Named {
        &self.frames[&number]
    }

    /// The numbers of the frames on a sample's path, innermost first; none where nothing is known.
    pub(crate) fn frames(&self, sample: &Sample) -> Vec<u32> {
        let mut frames = Vec::new();
        let mut next = sample.node;
        while let Some(node) = next.and_then(|number| self.recording.nodes.get(&number)) {
            frames.push(node.frame);
            next = node.parent;
        }
        frames
    }

    /// The functions of a frame, the innermost first.
    pub(crate) fn steps(&self, frame: u32) -> impl Iterator<Item = Step<'_>> {
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

    /// The program and its arguments.
    pub(crate) fn command(&self) -> Vec<String> {
        let words = self.recording.header.arguments.iter();
        words
            .map(|word| String::from_utf8_lossy(word).into_owned())
            .collect()
    }

    /// The samples of each thread, by process and number, in the order of time.
    pub(crate) fn by_thread(&self) -> Vec<((u32, u32), Vec<&'a Sample>)> {
        let mut threads: BTreeMap<(u32, u32), Vec<&Sample>> = BTreeMap::new();
        for sample in &self.recording.samples {
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
    pub(crate) fn thread_name(&self, (pid, tid): (u32, u32)) -> &'a str {
        let thread = self.recording.threads.get(&(pid, tid));
        let process = self.recording.processes.get(&pid);
        thread
            .map(|thread| &thread.name)
            .or(process.map(|process| &process.name))
            .map_or("", String::as_str)
    }

    /// What a process is called, or its first thread.
    pub(crate) fn process_name(&self, pid: u32) -> &'a str {
        match self.recording.processes.get(&pid) {
            Some(process) => &process.name,
            None => self.thread_name((pid, pid)),
        }
    }

    /// The rank of a process, if it is one of an MPI job.
    pub(crate) fn rank(&self, pid: u32) -> Option<u32> {
        self.recording.ranks.get(&pid).copied()
    }

    /// A process by its rank, if it has one, and number.
    pub(crate) fn process(&self, pid: u32) -> String {
        match self.rank(pid) {
            Some(rank) => format!("rank {rank}, process {pid}"),
            None => format!("process {pid}"),
        }
    }
}
