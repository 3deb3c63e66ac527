//! A stretch of one thread's stream, expanded, and its way to a sink.

use std::ops::Range;
use std::sync::Arc;

use crate::access::Access;
use unspool_container::stream::StreamNumber;

use crate::event::{Event, SyncOperation, Synchronisation};
use crate::executions::KeptExecutions;
use crate::id::ThreadId;
use crate::paths::AccessingCode;
use crate::sink::Sink;

/// Accesses of one thread, and what happened between them. Executions, for a sink that takes them,
/// stand between accesses as what happens there does.
#[derive(Debug, Default)]
pub(crate) struct Batch {
    /// The accesses.
    pub(crate) accesses: Vec<Access>,
    marks: Vec<Mark>,
    /// The values of all marks.
    value_bytes: Vec<u8>,
    /// For each access with a place in a values mark: which of `value_bytes` are its.
    value_ranges: Vec<Range<usize>>,
    /// Accesses that may depend on what another thread did behind the one before them: the first
    /// of a stamped instruction or of a chunk. In order.
    dependent: Vec<usize>,
    /// The executions of all marks.
    executions: KeptExecutions,
    next_access: usize,
    next_mark: usize,
    next_dependent: usize,
}

/// Something that is no access.
#[derive(Debug)]
struct Mark {
    /// How many accesses come before it.
    after: usize,
    time: u64,
    what: What,
}

#[derive(Debug)]
enum What {
    Event(Event),
    /// A record of a stream that is not understood.
    PassedOver(StreamNumber),
    /// The values of the accesses from this one on, up to the mark, and which of
    /// `value_ranges` are theirs.
    Values {
        first_access: usize,
        ranges: Range<usize>,
    },
    /// Which of the executions, and whether they may depend on what another thread did behind what
    /// comes before them.
    Executions {
        range: Range<usize>,
        is_dependent: bool,
    },
}

/// A place in the merged order: items before it may be given.
pub(crate) type Limit = (u64, ThreadId);

impl Batch {
    /// Empties it, but keeps its memory, and that the access that is appended next may depend on
    /// another thread.
    pub(crate) fn clear(&mut self) {
        let next_is_dependent = self.dependent.last() == Some(&self.accesses.len());
        self.accesses.clear();
        self.marks.clear();
        self.value_bytes.clear();
        self.value_ranges.clear();
        self.dependent.clear();
        self.dependent.extend(next_is_dependent.then_some(0));
        self.executions.clear();
        self.next_access = 0;
        self.next_mark = 0;
        self.next_dependent = 0;
    }

    /// How many items it holds, given or not.
    pub(crate) fn items(&self) -> usize {
        self.accesses.len() + self.marks.len() + self.executions.len()
    }

    /// Appends an execution, whose time begins behind this one.
    #[inline]
    pub(crate) fn push_execution(
        &mut self,
        code: &Arc<AccessingCode>,
        instructions: usize,
        time: u64,
        words: &[u64],
    ) {
        let number = self.executions.len();
        self.executions.push(code, instructions, time, words);
        let after = self.accesses.len();
        let is_dependent = self.dependent.pop_if(|next| *next == after).is_some();
        if !is_dependent
            && let Some(mark) = self.marks.last_mut()
            && mark.after == after
            && let What::Executions { range, .. } = &mut mark.what
        {
            range.end = number + 1;
            return;
        }
        let range = number..number + 1;
        let what = What::Executions {
            range,
            is_dependent,
        };
        // Each of its instructions accesses memory, the first one at this time.
        let time = time.saturating_add(1);
        self.marks.push(Mark { after, time, what });
    }

    /// The access that is appended next may depend on what another thread did behind the last one.
    pub(crate) fn note_dependence(&mut self) {
        let next = self.accesses.len();
        if self.dependent.last() != Some(&next) {
            self.dependent.push(next);
        }
    }

    /// Appends an event.
    pub(crate) fn push_event(&mut self, time: u64, event: Event) {
        self.marks.push(Mark {
            after: self.accesses.len(),
            time,
            what: What::Event(event),
        });
    }

    /// Appends a record of a stream that is not understood.
    pub(crate) fn push_passed_over(&mut self, time: u64, stream: StreamNumber) {
        self.marks.push(Mark {
            after: self.accesses.len(),
            time,
            what: What::PassedOver(stream),
        });
    }

    /// Appends the values of the accesses from `first_access` to the last. `sizes` has the
    /// bytes of each, 0 where no value was recorded; each value starts at a whole word.
    pub(crate) fn push_values(
        &mut self,
        time: u64,
        first_access: usize,
        sizes: &[usize],
        words: &[u64],
    ) {
        let mut start = self.value_bytes.len();
        self.value_bytes
            .extend(words.iter().flat_map(|word| word.to_le_bytes()));
        let end = self.value_bytes.len();
        let first_range = self.value_ranges.len();
        for &size in sizes {
            let next = (start + size.next_multiple_of(8)).min(end);
            self.value_ranges.push(start..(start + size).min(end));
            start = next;
        }
        let ranges = first_range..self.value_ranges.len();
        let what = What::Values {
            first_access,
            ranges,
        };
        self.marks.push(Mark {
            after: self.accesses.len(),
            time,
            what,
        });
    }

    /// The time of the next item to be given, if there is one.
    pub(crate) fn next_time(&self) -> Option<u64> {
        match self.marks.get(self.next_mark) {
            Some(mark) if mark.after == self.next_access => Some(mark.time),
            _ => self
                .accesses
                .get(self.next_access)
                .map(|access| access.time),
        }
    }

    /// Gives items to the sink, as long as they come before the limit, and with them accesses behind
    /// it that depend on nothing there, if these may run ahead. Stops early after the creation of a thread, and returns which: its items may have to come next.
    pub(crate) fn deliver(
        &mut self,
        thread: ThreadId,
        limit: Option<Limit>,
        may_run_ahead: bool,
        sink: &mut impl Sink,
    ) -> Option<ThreadId> {
        let in_time = |time: u64| limit.is_none_or(|limit| (time, thread) < limit);
        loop {
            let mark = self.marks.get(self.next_mark);
            let end = mark.map_or(self.accesses.len(), |mark| mark.after);
            if self.next_access < end {
                let given = match limit {
                    None => end - self.next_access,
                    Some(_) if may_run_ahead => self.independent(end, in_time),
                    Some(_) => self.accesses[self.next_access..end]
                        .iter()
                        .take_while(|access| in_time(access.time))
                        .count(),
                };
                if given == 0 {
                    return None;
                }
                sink.accesses(thread, &self.accesses[self.next_access..][..given]);
                self.next_access += given;
            } else {
                let is_independent = |what: &What| match what {
                    What::Executions { is_dependent, .. } => may_run_ahead && !is_dependent,
                    _ => false,
                };
                let mark = mark.filter(|mark| in_time(mark.time) || is_independent(&mark.what))?;
                self.deliver_mark(thread, mark, sink);
                self.next_mark += 1;
                if let What::Event(Event::Synchronisation(Synchronisation {
                    operation: SyncOperation::ThreadCreate,
                    object,
                })) = mark.what
                {
                    return Some(ThreadId(object as u32));
                }
            }
        }
    }

    /// How many of the next accesses, up to `end`, come in time or depend on nothing that does.
    fn independent(&mut self, end: usize, in_time: impl Fn(u64) -> bool) -> usize {
        while let Some(&dependent) = self.dependent.get(self.next_dependent)
            && dependent < end
        {
            let is_given = dependent < self.next_access;
            if !is_given && !in_time(self.accesses[dependent].time) {
                return dependent - self.next_access;
            }
            self.next_dependent += 1;
        }
        end - self.next_access
    }

    fn deliver_mark(&self, thread: ThreadId, mark: &Mark, sink: &mut impl Sink) {
        match &mark.what {
            What::Event(event) => sink.event(thread, mark.time, event),
            What::Executions { range, .. } => {
                let executions = self.executions.range(range.clone());
                sink.executions(thread, &executions);
            }
            What::PassedOver(stream) => sink.passed_over(thread, mark.time, *stream),
            What::Values {
                first_access,
                ranges,
            } => {
                let values: Vec<&[u8]> = self.value_ranges[ranges.clone()]
                    .iter()
                    .map(|range| &self.value_bytes[range.clone()])
                    .collect();
                sink.values(thread, &self.accesses[*first_access..mark.after], &values);
            }
        }
    }
}

#[cfg(test)]
mod tests;
