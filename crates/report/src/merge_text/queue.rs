//! The lines of one thread that wait to be written.

use std::collections::VecDeque;

/// Lines in order, their text behind one another in one allocation.
#[derive(Debug, Default)]
pub(super) struct ThreadQueue {
    /// Whether the thread may still have lines to come.
    pub(super) live: bool,
    /// Whether a line of it has been seen.
    pub(super) started: bool,
    /// The latest time seen of it.
    pub(super) newest: u64,
    lines: VecDeque<WaitingLine>,
    text: Vec<u8>,
    /// Where in `text` the first waiting line starts.
    text_start: usize,
}

#[derive(Debug)]
struct WaitingLine {
    time: u64,
    sequence: u64,
    length: usize,
}

/// Text that has been written is given back once it is this much, and most of the text.
const COMPACT_BYTES: usize = 64 << 10;

impl ThreadQueue {
    /// Adds a line; its time is not before that of the previous one.
    pub(super) fn push(&mut self, time: u64, sequence: u64, text: &[u8]) {
        self.lines.push_back(WaitingLine {
            time,
            sequence,
            length: text.len(),
        });
        self.text.extend_from_slice(text);
    }

    /// Time and sequence of the first waiting line.
    pub(super) fn head(&self) -> Option<(u64, u64)> {
        self.lines.front().map(|line| (line.time, line.sequence))
    }

    /// The text of the first waiting line.
    pub(super) fn head_text(&self) -> &[u8] {
        let length = self.lines.front().map_or(0, |line| line.length);
        &self.text[self.text_start..self.text_start + length]
    }

    /// Removes the first waiting line.
    pub(super) fn pop(&mut self) {
        if let Some(line) = self.lines.pop_front() {
            self.text_start += line.length;
        }
        if self.lines.is_empty() {
            self.text.clear();
            self.text_start = 0;
        } else if self.text_start >= COMPACT_BYTES && self.text_start * 2 >= self.text.len() {
            self.text.drain(..self.text_start);
            self.text_start = 0;
        }
    }
}
