//! What a stretch of code accesses, by the recorded words from which the addresses follow. Much of it is
//! accessed again and again within an epoch, and what one word leads to mostly lies in one page. So all of
//! a stretch is compared with what is known of memory at once; only where some of it is new it is looked
//! at access by access.

use unspool_events::superblock::Slot;
use unspool_events::{AccessKind, PlainAccess};

use super::cell::{Bytes, Record};
use super::clock::Epoch;
use super::shadow::{PAGE, Page, Shadow};
use super::sites::SiteId;

/// The first accesses of a stretch; none at first.
#[derive(Debug, Default)]
pub(super) struct Reaches {
    all: Box<[Reach]>,
    /// How many accesses they are.
    count: usize,
    /// How often more of them were met.
    met: u8,
    /// How often they are not asked for before they are again: some of them were new last time.
    rest: u8,
    last_rest: u8,
}

/// What is accessed by one recorded word, or at addresses that are known.
#[derive(Debug)]
struct Reach {
    word: Option<Slot>,
    /// The first byte, without the word.
    first: u64,
    /// How far behind it the last one is.
    span: u64,
    parts: Box<[Part]>,
}

/// As much of an access as a cell holds that begins with it.
#[derive(Debug)]
struct Part {
    /// The first byte, without the word.
    offset: u64,
    /// A bit for each byte.
    bytes: u32,
    is_write: bool,
}

/// How far apart the first bytes of what is taken together may be. The farther, the more often it lies in
/// two pages.
const FAR: u64 = 256;
/// How often a stretch is executed before it is worth it.
const OFTEN: u8 = 8;
const LONGEST_REST: u8 = 15;

impl Reaches {
    /// If these, of so many accesses that the stretch has, teach nothing: how many they are, else 0.
    /// Whoever could meet one of them meets what the thread has done before in its epoch.
    #[inline]
    pub(super) fn stand(
        &mut self,
        most: usize,
        words: &[u64],
        epoch: Epoch,
        shadow: &Shadow,
    ) -> usize {
        if self.count == 0 || self.count > most {
            return 0;
        }
        if self.rest != 0 {
            self.rest -= 1;
            return 0;
        }
        if self
            .all
            .iter()
            .all(|reach| reach.stands(words, epoch, shadow))
        {
            self.last_rest = 0;
            return self.count;
        }
        self.last_rest = (2 * self.last_rest + 1).min(LONGEST_REST);
        self.rest = self.last_rest;
        0
    }

    /// These, the first ones of the stretch, were looked at, and none of them begins an epoch.
    #[inline]
    pub(super) fn meet(&mut self, accesses: &[PlainAccess]) {
        if accesses.len() > self.count {
            self.met += 1;
            if self.met == OFTEN {
                *self = Reaches::new(accesses);
            }
        }
    }

    #[cold]
    fn new(accesses: &[PlainAccess]) -> Reaches {
        let parts = accesses.iter().flat_map(|access| {
            (0..access.size).step_by(8).map(|done| Part {
                offset: access.offset().wrapping_add(done.into()),
                bytes: (1 << (access.size - done).min(8)) - 1,
                is_write: access.kind == AccessKind::Write,
            })
        });
        let words = accesses.iter().flat_map(|access| {
            let parts = access.size.div_ceil(8) as usize;
            std::iter::repeat_n(access.word(), parts)
        });
        let mut parts: Vec<(Option<Slot>, Part)> = words.zip(parts).collect();
        parts.sort_by_key(|(word, part)| {
            (*word, part.offset.cast_signed(), part.bytes, !part.is_write)
        });
        // Whoever could meet a read meets a write to the same bytes.
        parts.dedup_by_key(|(word, part)| (*word, part.offset, part.bytes));
        let mut all: Vec<(Option<Slot>, Vec<Part>)> = Vec::new();
        for (word, part) in parts {
            let is_near = |together: &[Part]| part.offset.wrapping_sub(together[0].offset) < FAR;
            match all.last_mut() {
                Some((last, together)) if *last == word && is_near(together) => together.push(part),
                _ => all.push((word, vec![part])),
            }
        }
        let all = all.into_iter().map(|(word, parts)| Reach::new(word, parts));
        Reaches {
            all: all.collect(),
            count: accesses.len(),
            ..Reaches::default()
        }
    }
}

impl Reach {
    fn new(word: Option<Slot>, parts: Vec<Part>) -> Reach {
        let first = parts[0].offset;
        let last = |part: &Part| {
            let bytes = part.bytes.trailing_ones();
            part.offset.wrapping_sub(first) + u64::from(bytes) - 1
        };
        Reach {
            word,
            first,
            span: parts.iter().map(last).max().unwrap_or(0),
            parts: parts.into(),
        }
    }

    #[inline]
    fn stands(&self, words: &[u64], epoch: Epoch, shadow: &Shadow) -> bool {
        let word = self.word.map_or(0, |word| words[usize::from(word)]);
        let first = word.wrapping_add(self.first);
        let Some(page) = shadow.near_page(first) else {
            return false;
        };
        let mut stand = first % PAGE + self.span < PAGE;
        // Not one by one: which of them do not cannot be foreseen.
        for part in &self.parts {
            let address = word.wrapping_add(part.offset);
            let bytes = part.bytes << (address % 8);
            let new = Record::new(epoch, bytes as Bytes, part.is_write, SiteId::default());
            let is_in_cell = bytes <= Bytes::MAX.into();
            stand &= is_in_cell & page.cells[Page::cell(address)].stands_for(new);
        }
        stand
    }
}
