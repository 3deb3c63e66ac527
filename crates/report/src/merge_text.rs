//! Puts a text trace in order of time while it streams by.
//!
//! The lines of one thread come in order of time; the threads are interleaved as their
//! buffers were written. So a line may be written out as soon as every thread that is still
//! running has shown a line at least as late: nothing earlier can follow. Memory is bounded
//! by how far the threads' clocks are apart, which `thread_sync` lines keep small.
//!
//! Lines with the same time stay in the order of the input, so that the result is that of
//! `sort -s -k1,1n`.

mod line;
mod queue;

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::io::{ErrorKind, Read, Write};

use rustc_hash::FxHashMap;

use crate::ExportError;
use line::{Line, Role};
use queue::ThreadQueue;

/// How much is read before lines are written: about what a pipe holds.
const READ_BYTES: usize = 64 << 10;

/// A line longer than this is damage, not a line: function names have their limits.
const LONGEST_LINE: usize = 1 << 20;

/// What a merge did.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct TextMergeSummary {
    /// Lines read, of any kind.
    pub lines: u64,
    /// `thread_sync` lines, which are left out of the result.
    pub thread_syncs: u64,
    /// Lines that came after a later one had been written: they stand too late in the result.
    pub late_lines: u64,
    /// Lines that are none of this format, left out of the result.
    pub unreadable_lines: u64,
    /// The number of the first unreadable line, from 1.
    pub first_unreadable_line: Option<u64>,
    /// The most bytes of text that waited at once.
    pub most_bytes_held: usize,
}

/// Reads a text trace with times from `input` and writes it to `output` in order of time,
/// without its `thread_sync` lines, and without the times unless `keep_time`.
///
/// # Errors
/// When reading or writing fails. Lines that cannot be understood are counted, not errors.
pub fn merge_text(
    mut input: impl Read,
    output: impl Write,
    keep_time: bool,
) -> Result<TextMergeSummary, ExportError> {
    let mut merge = TextMerge::new(output, keep_time);
    let mut buffer = vec![0; READ_BYTES];
    let mut filled = 0;
    loop {
        if filled == buffer.len() {
            buffer.resize(buffer.len() * 2, 0);
        }
        let read = match input.read(&mut buffer[filled..]) {
            Ok(0) => break,
            Ok(read) => read,
            Err(error) if error.kind() == ErrorKind::Interrupted => continue,
            Err(error) => return Err(ExportError::Read(error)),
        };
        filled += read;
        let complete = merge.take_lines(&buffer[..filled]);
        buffer.copy_within(complete..filled, 0);
        filled -= complete;
        if filled > LONGEST_LINE {
            merge.unreadable();
            merge.skipping_line = true;
            filled = 0;
        }
        let limit = merge.limit();
        merge.write_until(limit)?;
    }
    if filled > 0 {
        // The last line lacks its newline: the writer was killed, or an editor removed it.
        merge.take_line(&buffer[..filled]);
    }
    merge.write_until(u64::MAX)?;
    merge.output.flush().map_err(ExportError::Write)?;
    Ok(merge.summary)
}

/// A line out of order: its time, its number in the input, its text.
type Stray = (u64, u64, Box<[u8]>);

/// A merge under way.
struct TextMerge<W> {
    output: W,
    keep_time: bool,
    threads: Vec<ThreadQueue>,
    thread_index: FxHashMap<i64, usize>,
    /// The thread of the previous line, which is mostly the thread of the next one.
    last_thread: Option<(i64, usize)>,
    /// Lines that do not continue their thread in order of time.
    strays: BinaryHeap<Reverse<Stray>>,
    written_until: u64,
    skipping_line: bool,
    bytes_held: usize,
    summary: TextMergeSummary,
}

impl<W: Write> TextMerge<W> {
    fn new(output: W, keep_time: bool) -> Self {
        TextMerge {
            output,
            keep_time,
            threads: Vec::new(),
            thread_index: FxHashMap::default(),
            last_thread: None,
            strays: BinaryHeap::new(),
            written_until: 0,
            skipping_line: false,
            bytes_held: 0,
            summary: TextMergeSummary::default(),
        }
    }

    /// Takes all complete lines; returns how many bytes that were.
    fn take_lines(&mut self, text: &[u8]) -> usize {
        let mut start = 0;
        for end in memchr::memchr_iter(b'\n', text) {
            if self.skipping_line {
                self.skipping_line = false;
            } else {
                self.take_line(&text[start..end]);
            }
            start = end + 1;
        }
        start
    }

    /// Takes one line, without its newline.
    fn take_line(&mut self, text: &[u8]) {
        self.summary.lines += 1;
        let Some(line) = Line::parse(text) else {
            self.unreadable();
            return;
        };
        let index = self.queue_index(line.thread);
        let queue = &mut self.threads[index];
        queue.live = line.role != Role::ThreadEnd;
        let in_order = !queue.started || line.time >= queue.newest;
        queue.started = true;
        queue.newest = queue.newest.max(line.time);
        if line.role == Role::ThreadSync {
            self.summary.thread_syncs += 1;
            return;
        }
        let kept = if self.keep_time {
            text
        } else {
            line.without_time
        };
        let sequence = self.summary.lines;
        self.bytes_held += kept.len();
        if in_order && line.thread >= 0 {
            queue.push(line.time, sequence, kept);
        } else {
            self.strays
                .push(Reverse((line.time, sequence, kept.into())));
        }
    }

    fn unreadable(&mut self) {
        self.summary.unreadable_lines += 1;
        self.summary
            .first_unreadable_line
            .get_or_insert(self.summary.lines);
    }

    /// The queue of a thread, made at its first line.
    fn queue_index(&mut self, thread: i64) -> usize {
        if let Some((last, index)) = self.last_thread
            && last == thread
        {
            return index;
        }
        let next = self.threads.len();
        let index = *self.thread_index.entry(thread).or_insert(next);
        if index == next {
            self.threads.push(ThreadQueue::default());
        }
        self.last_thread = Some((thread, index));
        index
    }

    /// Until when all threads are known. Thread −1 stands for all that never registered: it
    /// has no end, so it would hold everything back.
    fn limit(&self) -> u64 {
        let unregistered = self.thread_index.get(&-1);
        self.threads
            .iter()
            .enumerate()
            .filter(|(index, queue)| queue.live && Some(index) != unregistered)
            .map(|(_, queue)| queue.newest)
            .min()
            .unwrap_or(u64::MAX)
    }

    /// Writes all lines up to and including this time.
    fn write_until(&mut self, limit: u64) -> Result<(), ExportError> {
        self.summary.most_bytes_held = self.summary.most_bytes_held.max(self.bytes_held);
        let mut heads: BinaryHeap<Reverse<(u64, u64, usize)>> = self
            .threads
            .iter()
            .enumerate()
            .filter_map(|(index, queue)| Some((queue.head()?, index)))
            .map(|((time, sequence), index)| Reverse((time, sequence, index)))
            .collect();
        loop {
            let head = heads
                .peek()
                .map(|Reverse((time, sequence, _))| (*time, *sequence));
            let stray = self
                .strays
                .peek()
                .map(|Reverse((time, sequence, _))| (*time, *sequence));
            let (next, stray_is_next) = match (head, stray) {
                (None, None) => break,
                (Some(head), None) => (head, false),
                (None, Some(stray)) => (stray, true),
                (Some(head), Some(stray)) => (head.min(stray), stray < head),
            };
            if next.0 > limit {
                break;
            }
            if stray_is_next {
                if let Some(Reverse((time, _, text))) = self.strays.pop() {
                    self.write_line(time, &text)?;
                }
            } else if let Some(Reverse((_, _, index))) = heads.pop() {
                self.write_run(index, &mut heads, stray, limit)?;
            }
        }
        Ok(())
    }

    /// Writes lines of one thread for as long as they come before all others.
    fn write_run(
        &mut self,
        index: usize,
        heads: &mut BinaryHeap<Reverse<(u64, u64, usize)>>,
        stray: Option<(u64, u64)>,
        limit: u64,
    ) -> Result<(), ExportError> {
        let other = heads
            .peek()
            .map(|Reverse((time, sequence, _))| (*time, *sequence));
        let bound = [other, stray, Some((limit, u64::MAX))]
            .into_iter()
            .flatten()
            .min();
        let mut queue = std::mem::take(&mut self.threads[index]);
        while let Some(head) = queue.head().filter(|head| Some(*head) <= bound) {
            self.write_line(head.0, queue.head_text())?;
            queue.pop();
        }
        if let Some((time, sequence)) = queue.head() {
            heads.push(Reverse((time, sequence, index)));
        }
        self.threads[index] = queue;
        Ok(())
    }

    fn write_line(&mut self, time: u64, text: &[u8]) -> Result<(), ExportError> {
        if time < self.written_until {
            self.summary.late_lines += 1;
        }
        self.written_until = self.written_until.max(time);
        self.bytes_held -= text.len();
        self.output.write_all(text).map_err(ExportError::Write)?;
        self.output.write_all(b"\n").map_err(ExportError::Write)
    }
}

#[cfg(test)]
mod tests;
