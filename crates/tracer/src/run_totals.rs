//! What all processes of a run have recorded.
//!
//! Each process writes a file of its own, another one when it executes a program, and a process
//! may be killed before it could tell anybody. So nothing is counted while they run: at its end
//! the process that the user has started reads the totals of all files beside its own that belong
//! to the run. To a run belongs what was recorded since it began, by a process that the first one
//! has started, or that one of those has.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use unspool_events::{Outline, Summary};

/// The totals of all files.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct RunTotals {
    /// Files.
    pub(super) traces: u64,
    /// Processes that have written them.
    pub(super) processes: u64,
    /// Files without an end, of processes that are still there.
    pub(super) still_written: u64,
    /// Files without an end, of processes that are gone: they were killed, or had no room.
    pub(super) cut_off: u64,
    /// The sum of what is in them.
    pub(super) summary: Summary,
}

impl RunTotals {
    /// The totals of the files beside `output` that belong to the run of a process.
    pub(super) fn gather(output: &Path, first_process: u32, started_unix_ns: u64) -> RunTotals {
        let outlines = files_of(output).filter_map(|path| Outline::read(&path).ok());
        let recent = outlines.filter(|outline| outline.header.start_unix_ns >= started_unix_ns);
        RunTotals::of(&recent.collect::<Vec<_>>(), first_process, is_there)
    }

    fn of(outlines: &[Outline], first_process: u32, is_there: impl Fn(u32) -> bool) -> RunTotals {
        let processes = descendants(outlines, first_process);
        let mut totals = RunTotals::default();
        let mut seen = BTreeSet::new();
        for outline in outlines {
            let process = outline.header.process;
            if !processes.contains(&process) {
                continue;
            }
            totals.traces += 1;
            totals.processes += u64::from(seen.insert(process));
            if !outline.is_complete {
                match is_there(process) {
                    true => totals.still_written += 1,
                    false => totals.cut_off += 1,
                }
            }
            totals.summary = sum(&totals.summary, &outline.summary);
        }
        totals
    }
}

fn sum(first: &Summary, second: &Summary) -> Summary {
    Summary {
        threads: first.threads + second.threads,
        accesses: first.accesses + second.accesses,
        instructions: first.instructions + second.instructions,
        executed: first.executed + second.executed,
        events: first.events + second.events,
        raw_words: first.raw_words + second.raw_words,
        dropped_words: first.dropped_words + second.dropped_words,
        superblocks: first.superblocks + second.superblocks,
        file_bytes: first.file_bytes + second.file_bytes,
    }
}

/// The process and all that came from it.
fn descendants(outlines: &[Outline], first: u32) -> BTreeSet<u32> {
    let mut found = BTreeSet::from([first]);
    loop {
        let known = found.len();
        for outline in outlines {
            let parent = outline.header.parent_process;
            if parent.is_some_and(|parent| found.contains(&parent)) {
                found.insert(outline.header.process);
            }
        }
        if found.len() == known {
            return found;
        }
    }
}

/// Whether there is a process with this id.
fn is_there(process: u32) -> bool {
    // SAFETY: signal 0 only asks.
    let asked = unsafe { libc::kill(process as i32, 0) };
    asked == 0 || std::io::Error::last_os_error().raw_os_error() == Some(libc::EPERM)
}

/// The file, and those that are named after it as its children's are.
fn files_of(output: &Path) -> impl Iterator<Item = PathBuf> {
    let names = SiblingNames::of(output);
    let folder = output.parent().map(Path::to_owned).unwrap_or_default();
    let entries = std::fs::read_dir(&folder).into_iter().flatten().flatten();
    let siblings = entries.map(|entry| entry.file_name());
    let siblings = siblings.filter(move |name| name.to_str().is_some_and(|name| names.have(name)));
    std::iter::once(output.to_owned()).chain(siblings.map(move |name| folder.join(name)))
}

/// How the files of children are called: `stem.PID.ext`, `stem.PID.2.ext`, …
struct SiblingNames {
    before: String,
    behind: String,
}

impl SiblingNames {
    fn of(output: &Path) -> SiblingNames {
        let text =
            |part: Option<&std::ffi::OsStr>| part.map(|part| part.to_string_lossy().into_owned());
        let extension = text(output.extension());
        SiblingNames {
            before: format!("{}.", text(output.file_stem()).unwrap_or_default()),
            behind: extension.map_or_else(String::new, |extension| format!(".{extension}")),
        }
    }

    fn have(&self, name: &str) -> bool {
        let numbers = name
            .strip_prefix(&self.before)
            .and_then(|rest| rest.strip_suffix(&self.behind));
        let is_number = |text: &str| !text.is_empty() && text.bytes().all(|it| it.is_ascii_digit());
        numbers.is_some_and(|numbers| numbers.splitn(2, '.').all(is_number))
    }
}

#[cfg(test)]
mod tests {
    use unspool_events::{Order, TraceHeader};

    use super::*;

    fn outline(process: u32, parent: Option<u32>, accesses: u64, is_complete: bool) -> Outline {
        Outline {
            header: TraceHeader {
                order: Order::None,
                granule: 0,
                program: Vec::new(),
                arguments: Vec::new(),
                options: Vec::new(),
                process,
                parent_process: parent,
                start_unix_ns: 0,
                tool_version: String::new(),
            },
            summary: Summary {
                accesses,
                threads: 1,
                ..Summary::default()
            },
            is_complete,
        }
    }

    #[test]
    fn all_that_came_from_the_first_process_counts_and_nothing_else() {
        let all = [
            // A grandchild comes before its parent.
            outline(12, Some(11), 100, true),
            outline(10, None, 1, true),
            outline(11, Some(10), 10, true),
            // The same process, with another program.
            outline(11, Some(1), 1000, false),
            outline(13, Some(12), 10_000, false),
            // Another run's.
            outline(20, None, 7, true),
            outline(21, Some(20), 7, false),
        ];
        let totals = RunTotals::of(&all, 10, |process| process == 13);
        assert_eq!(
            totals,
            RunTotals {
                traces: 5,
                processes: 4,
                still_written: 1,
                cut_off: 1,
                summary: Summary {
                    accesses: 11_111,
                    threads: 5,
                    ..Summary::default()
                },
            }
        );
    }

    #[test]
    fn files_of_children_are_known_by_their_names() {
        for (output, name, expected) in [
            ("t.unspool", "t.12.unspool", true),
            ("t.unspool", "t.12.2.unspool", true),
            ("t.unspool", "t.unspool", false),
            ("t.unspool", "t..unspool", false),
            ("t.unspool", "t.12.2.3.unspool", false),
            ("t.unspool", "t.x.unspool", false),
            ("t.unspool", "u.12.unspool", false),
            ("t.unspool", "t.12", false),
            ("trace", "trace.7", true),
            ("trace", "trace.7.3", true),
            ("trace", "trace", false),
        ] {
            let names = SiblingNames::of(Path::new(output));
            assert_eq!(names.have(name), expected, "{output}: {name}");
        }
    }
}
