//! Executions of code that makes the same accesses each time, at addresses that recorded words give:
//! what most records are. A sink that takes them as they are does not pay for taking each access
//! apart, and can look at what one piece of code does in many executions together.

use std::ops::Range;
use std::sync::Arc;

use crate::access::Access;
use crate::paths::AccessingCode;
use crate::plain_access::PlainAccess;

/// One execution of a piece of code, all of whose accesses are plain.
#[derive(Debug, Clone, Copy)]
pub struct Execution<'a> {
    code: &'a AccessingCode,
    accesses: &'a [PlainAccess],
    words: &'a [u64],
    /// The thread's time before it. Each of its instructions takes 1.
    time: u64,
}

/// Executions of one thread that follow each other, with nothing between them, and that depend on
/// nothing that other threads did behind the beginning of the first.
#[derive(Debug, Clone, Copy)]
pub struct Executions<'a> {
    kept: &'a KeptExecutions,
    list: &'a [Kept],
}

/// Executions that wait for their time.
#[derive(Debug, Default)]
pub(crate) struct KeptExecutions {
    list: Vec<Kept>,
    words: Vec<u64>,
    codes: Vec<Arc<AccessingCode>>,
    /// Where in `codes` a code may be, by its number, plus one.
    places: Box<[u32]>,
}

/// An execution, kept in few bytes.
#[derive(Debug, Clone, Copy)]
struct Kept {
    code: u32,
    instructions: u16,
    word_count: u16,
    first_word: usize,
    time: u64,
}

/// Codes that are found by their number.
const PLACES: usize = 256;
/// Codes that are kept, though none of their executions may be.
const CODES_KEPT: usize = 1024;

impl<'a> Execution<'a> {
    /// The number of its code, which no other code of this process has.
    #[inline]
    #[must_use]
    pub fn code(&self) -> u64 {
        self.code.number()
    }

    /// What it accesses, in program order.
    #[inline]
    #[must_use]
    pub fn accesses(&self) -> &'a [PlainAccess] {
        self.accesses
    }

    /// The recorded words, for [`PlainAccess::address`].
    #[inline]
    #[must_use]
    pub fn words(&self) -> &'a [u64] {
        self.words
    }

    /// One of its accesses as it is given to sinks that take accesses.
    #[must_use]
    pub fn access(&self, access: &PlainAccess) -> Access {
        Access {
            time: self.time.saturating_add(u64::from(access.instruction) + 1),
            pc: access.pc,
            address: access.address(self.words),
            size: access.size,
            kind: access.kind,
            flags: access.flags,
        }
    }
}

impl<'a> Executions<'a> {
    /// How many there are: at least one.
    #[expect(clippy::len_without_is_empty, reason = "they are never empty")]
    #[must_use]
    pub fn len(&self) -> usize {
        self.list.len()
    }

    /// One of them.
    #[inline]
    #[must_use]
    pub fn get(&self, number: usize) -> Execution<'a> {
        self.kept.execution(&self.list[number])
    }

    /// How many executions from number `first` on are of the same code, with addresses that advance
    /// by as much from each to the next: at least one.
    #[must_use]
    pub fn even_run(&self, first: usize) -> usize {
        let like = self.list[first];
        let is_like = |kept: &&Kept| {
            kept.code == like.code
                && kept.instructions == like.instructions
                && kept.word_count == like.word_count
        };
        let alike = self.list[first..].iter().take_while(is_like);
        // Their words follow each other.
        let count = usize::from(like.word_count);
        let words = |number: usize| &self.kept.words[like.first_word + number * count..][..count];
        let is_even = |number: &usize| {
            let Some(start) = number.checked_sub(2) else {
                return true;
            };
            let [first, second, third] = [start, start + 1, start + 2].map(words);
            let mut words = first.iter().zip(second).zip(third);
            words.all(|((first, second), third)| {
                second.wrapping_sub(*first) == third.wrapping_sub(*second)
            })
        };
        let numbers = alike.zip(0..).map(|(_, number)| number);
        numbers.take_while(is_even).count()
    }

    /// How many accesses they make.
    #[must_use]
    pub fn count_accesses(&self) -> u64 {
        let executions = self.list.iter().map(|kept| self.kept.execution(kept));
        executions.map(|it| it.accesses.len() as u64).sum()
    }

    /// Appends all accesses, in program order.
    pub fn expand(&self, accesses: &mut Vec<Access>) {
        for number in 0..self.len() {
            let execution = self.get(number);
            let plain = execution.accesses().iter();
            accesses.extend(plain.map(|access| execution.access(access)));
        }
    }
}

impl KeptExecutions {
    pub(crate) fn len(&self) -> usize {
        self.list.len()
    }

    pub(crate) fn clear(&mut self) {
        self.list.clear();
        self.words.clear();
        if self.codes.len() > CODES_KEPT {
            self.codes.clear();
            self.places.fill(0);
        }
    }

    /// Appends an execution of the first so many instructions of a code, all of whose accesses are
    /// plain, and whose words are all there.
    #[inline]
    pub(crate) fn push(
        &mut self,
        code: &Arc<AccessingCode>,
        instructions: usize,
        time: u64,
        words: &[u64],
    ) {
        let first_word = self.words.len();
        self.words.extend_from_slice(words);
        let code = self.place_of(code);
        self.list.push(Kept {
            code,
            instructions: instructions as u16,
            word_count: words.len() as u16,
            first_word,
            time,
        });
    }

    #[inline]
    fn place_of(&mut self, code: &Arc<AccessingCode>) -> u32 {
        let place = code.number() as usize % PLACES;
        if let Some(&known) = self.places.get(place)
            && known != 0
            && Arc::ptr_eq(&self.codes[known as usize - 1], code)
        {
            return known - 1;
        }
        if self.places.is_empty() {
            self.places = vec![0; PLACES].into();
        }
        self.codes.push(Arc::clone(code));
        self.places[place] = self.codes.len() as u32;
        self.codes.len() as u32 - 1
    }

    /// Some of them, as a sink is given them.
    pub(crate) fn range(&self, range: Range<usize>) -> Executions<'_> {
        Executions {
            kept: self,
            list: &self.list[range],
        }
    }

    #[inline]
    fn execution(&self, kept: &Kept) -> Execution<'_> {
        let code = &*self.codes[kept.code as usize];
        Execution {
            code,
            accesses: code.plain_accesses(usize::from(kept.instructions)),
            words: &self.words[kept.first_word..][..usize::from(kept.word_count)],
            time: kept.time,
        }
    }
}

#[cfg(test)]
mod tests;
