//! What a trace can tell apart, and where that comes to an end.
//!
//! Most of it is given out anew: the ids of paths when the code cache has been emptied, epochs of
//! read-shared lines at a moment that all threads have in common, the owners' indexes of threads
//! that have ended. What cannot be is so large that a recording hardly gets there; it ends then,
//! and the program goes on without.
//!
//! Tests lower the ceilings by the variable [`VARIABLE`].

use std::fmt;
use std::sync::atomic::{AtomicU32, Ordering};

use unspool_events::raw::PATH_IDS;

/// Lowers ceilings, for tests: `NAME=NUMBER`, several with commas between them.
const VARIABLE: &str = "UNSPOOL_TEST_CEILINGS";

/// The most threads at one time.
pub(crate) const MOST_THREADS: u32 = 1 << 20;
/// The most transitions to read-shared.
pub(crate) const MOST_EPOCHS: u32 = (1 << 31) - 2;
/// The most gibibytes of memory objects that are mapped more than once: more than the kernel has
/// mappings for, unless it was told otherwise.
pub(crate) const MOST_DISTANCES: u32 = 1 << 22;

/// How far the numbers of a trace go.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Ceilings {
    /// `path-ids`: ids of paths before they are given out anew.
    pub(crate) path_ids: u32,
    /// `epochs`: transitions to read-shared before epochs are counted anew.
    pub(crate) epochs: u32,
    /// `threads`: threads at one time, in line-atomic order.
    pub(crate) threads: u32,
    /// `thread-numbers`: threads one after the other.
    pub(crate) thread_numbers: u32,
    /// `homes`: gibibytes of memory objects that are mapped more than once, in line-atomic order.
    pub(crate) homes: u32,
}

impl Default for Ceilings {
    fn default() -> Ceilings {
        Ceilings {
            path_ids: PATH_IDS,
            epochs: MOST_EPOCHS,
            threads: MOST_THREADS,
            thread_numbers: u32::MAX,
            homes: MOST_DISTANCES,
        }
    }
}

impl Ceilings {
    /// As the tests want them, or as they are.
    ///
    /// # Errors
    /// What is wrong with the variable.
    pub(crate) fn from_environment() -> std::io::Result<Ceilings> {
        let text = std::env::var(VARIABLE).unwrap_or_default();
        Ceilings::lowered(&text)
            .ok_or_else(|| std::io::Error::other(format!("{VARIABLE} is malformed: {text}")))
    }

    fn lowered(text: &str) -> Option<Ceilings> {
        let mut ceilings = Ceilings::default();
        for part in text.split(',').filter(|part| !part.is_empty()) {
            let (name, number) = part.split_once('=')?;
            let number: u32 = number.parse().ok()?;
            let ceiling = match name {
                "path-ids" => &mut ceilings.path_ids,
                "epochs" => &mut ceilings.epochs,
                "threads" => &mut ceilings.threads,
                "thread-numbers" => &mut ceilings.thread_numbers,
                "homes" => &mut ceilings.homes,
                _ => return None,
            };
            *ceiling = number.min(*ceiling);
        }
        Some(ceilings)
    }
}

/// Why a recording ends before its program does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Reached {
    /// There are as many threads as can be told apart at one time.
    Threads,
    /// There were as many threads as have numbers.
    ThreadNumbers,
    /// There is no memory for what a further thread records.
    BufferMemory,
    /// There is no address space for the order of memory that is mapped more than once.
    Homes,
}

/// What has brought a recording to its end.
#[derive(Debug, Default)]
pub(crate) struct RecordingEnd(AtomicU32);

impl RecordingEnd {
    /// What the trace says of its end: that this was reached, or (`None`) nothing of the kind.
    pub(crate) fn note(&self, reached: Option<Reached>) {
        let noted = match reached {
            None => 0,
            Some(Reached::Threads) => 1,
            Some(Reached::ThreadNumbers) => 2,
            Some(Reached::BufferMemory) => 3,
            Some(Reached::Homes) => 4,
        };
        self.0.store(noted, Ordering::Relaxed);
    }

    /// The name and the number of what was reached, where a thread's buffer has so many words.
    pub(crate) fn measurement(
        &self,
        ceilings: &Ceilings,
        buffer_words: u64,
    ) -> Option<(&'static str, u64)> {
        let Ceilings {
            threads,
            thread_numbers,
            homes,
            ..
        } = *ceilings;
        match self.0.load(Ordering::Relaxed) {
            1 => Some(("ended_at_threads", u64::from(threads))),
            2 => Some(("ended_at_thread_numbers", u64::from(thread_numbers))),
            3 => Some(("ended_for_want_of_memory", buffer_words)),
            4 => Some(("ended_at_homes", u64::from(homes))),
            _ => None,
        }
    }
}

impl fmt::Display for Reached {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Reached::Threads => write!(
                to,
                "the program has more threads at one time than a trace in line-atomic order can tell apart"
            ),
            Reached::ThreadNumbers => write!(
                to,
                "the program has started more threads than a trace can tell apart"
            ),
            Reached::BufferMemory => write!(
                to,
                "there is no memory for the trace buffer of a further thread (--buffer asks for a smaller one)"
            ),
            Reached::Homes => write!(
                to,
                "there is no address space for the line-atomic order of memory that is mapped more than once (--order ticket needs none)"
            ),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ceilings_can_only_be_lowered() {
        let usual = Ceilings::default();
        let cases = [
            ("", Some(usual)),
            (
                "path-ids=5000,epochs=7",
                Some(Ceilings {
                    path_ids: 5000,
                    epochs: 7,
                    ..usual
                }),
            ),
            (
                "threads=3",
                Some(Ceilings {
                    threads: 3,
                    ..usual
                }),
            ),
            ("epochs=4294967295", Some(usual)),
            ("path-ids", None),
            ("epochs=many", None),
            ("pathids=5", None),
        ];
        for (text, expected) in cases {
            assert_eq!(Ceilings::lowered(text), expected, "{text}");
        }
    }
}
