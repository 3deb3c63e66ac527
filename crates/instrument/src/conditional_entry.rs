//! An entry that is appended where a test says so, with its parts in the order in which inserted code
//! and the function that is called otherwise need them.

use smallvec::SmallVec;

use super::action::Content;
use super::buffers::{Appender, PendingBytes};
use super::{AnalysisCall, Argument, ConditionalEntry, Field, argument_word, thread_number};

impl ConditionalEntry {
    /// Its fields, with the words that are found out at the place.
    pub(crate) fn fields(&self, words: &[Argument]) -> SmallVec<[Field; 8]> {
        let mut words = words.iter();
        let fields = self.fields.iter().map(|&(offset, size, content)| {
            let value = match content {
                Content::Word => *words.next().expect("each such field has its word"),
                Content::Constant(value) => Argument::Constant(value),
                Content::ThreadNumber => Argument::ThreadNumber,
                Content::TimeStamp => Argument::TimeStamp,
            };
            Field {
                value,
                offset,
                size,
            }
        });
        fields.collect()
    }

    /// The call that appends it. The path has stored so much in the buffer.
    pub(crate) fn call(&'static self, pending: PendingBytes, words: &[Argument]) -> AnalysisCall {
        let this = std::ptr::from_ref(self) as u64;
        let own = [this, pending.to_word()].map(Argument::Constant);
        AnalysisCall {
            function: append,
            arguments: own.into_iter().chain(words.iter().copied()).collect(),
        }
    }

    fn append(&self, state: *mut (), pending: PendingBytes, mut word: impl FnMut() -> u64) {
        let mut appender = Appender::new(self.buffer(), pending, state);
        let entry = appender.push_empty();
        for &(offset, size, content) in &self.fields {
            let value = match content {
                Content::Word => word(),
                Content::Constant(value) => value,
                Content::ThreadNumber => thread_number().into(),
                Content::TimeStamp => time_stamp(),
            };
            let (offset, size) = (usize::from(offset), usize::from(size));
            entry[offset..offset + size].copy_from_slice(&value.to_le_bytes()[..size]);
        }
    }
}

/// The processor's time-stamp counter.
pub(crate) fn time_stamp() -> u64 {
    // SAFETY: every such processor has the instruction.
    unsafe { std::arch::x86_64::_rdtsc() }
}

extern "C" fn append(
    _: *const (),
    state: *mut (),
    entry: u64,
    pending: u64,
    first: u64,
    second: u64,
) -> u64 {
    // SAFETY: inserted code passes what is kept for good.
    let entry = unsafe { &*(entry as *const ConditionalEntry) };
    let mut number = 2;
    entry.append(state, PendingBytes::from_word(pending), || {
        number += 1;
        match number - 1 {
            2 => first,
            3 => second,
            // SAFETY: the words are this thread's, and inserted code has written as many.
            number => unsafe { argument_word(number).read() },
        }
    });
    0
}
