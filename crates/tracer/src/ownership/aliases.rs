//! Memory that the program can reach at several addresses.
//!
//! Ownership follows the memory, not the address. The lines of such a mapping have no owners of
//! their own: their words are [`ALIASED`], which no check in the code cache passes, and lead to
//! the lines that stand for the memory itself, their *home*. With one owner word for each line,
//! homes are addresses that are kept free for each chunk of a memory object; a word has the number
//! of the distance from its line to there. Where lines share words, all of them are marked once
//! there is memory of this kind, and a line's home follows from its place in its page, which is
//! the same at each address.
//!
//! When mappings become aliases, all threads are outside the code cache, and each one's time goes
//! on behind all accesses before: nobody owns a home yet. What the kernel unmaps loses its marks;
//! a mapping that is an alias no more keeps them.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use unspool_kernel::layout;
use unspool_kernel::lock::Mutex;
use unspool_kernel::regions::{Object, Regions, View};

use super::{ACCESSIBLE, LineLayout, Ownership, SHARED, TRANSIT};
use crate::ceilings::{MOST_DISTANCES, Reached};
use unspool_engine::flush;
use unspool_engine::process::Process;

/// A word of this kind is none of a thread's: it has the number of a distance in its low bits.
const ALIASED: u32 = TRANSIT | 1 << 29;
/// Bytes of a memory object for which addresses are kept together.
const CHUNK: u64 = 1 << 30;
const PAGE: u64 = 4096;
/// The first home where lines share words: behind all words that can be shared.
const SHARED_HOMES: u64 = super::MOST_HASHED_WORDS;

/// Which lines have their owner elsewhere.
#[derive(Debug)]
pub(super) struct Aliases {
    /// Address of the distances, by number: from a line to its home, in lines.
    distances: u64,
    /// Lines share words, and all of these are marked.
    all: AtomicBool,
    /// Pieces of memory objects that can have homes.
    most_homes: u32,
    marks: Mutex<Marks>,
}

#[derive(Debug, Default)]
struct Marks {
    /// By start.
    by_start: BTreeMap<u64, Mark>,
    /// Where the homes of a chunk of an object begin.
    homes: BTreeMap<(Object, u64), u64>,
    numbers: Numbers,
}

/// A range whose words are marked, of one chunk of an object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Mark {
    end: u64,
    object: Object,
    offset: u64,
    number: u32,
}

#[derive(Debug, Default)]
struct Numbers {
    free: Vec<u32>,
    used: u32,
}

impl Numbers {
    fn take(&mut self) -> Option<u32> {
        self.free.pop().or_else(|| {
            let next = self.used;
            self.used = (next + 1).min(MOST_DISTANCES);
            (next < MOST_DISTANCES).then_some(next)
        })
    }
}

impl Aliases {
    pub(super) fn reserve(is_on: bool, most_homes: u32) -> std::io::Result<Aliases> {
        let distances = match is_on {
            true => layout::map_memory(u64::from(MOST_DISTANCES) * 8, ACCESSIBLE)?,
            false => 0,
        };
        Ok(Aliases {
            distances,
            all: AtomicBool::new(false),
            most_homes,
            marks: Mutex::default(),
        })
    }

    /// The home of a line whose word is marked.
    ///
    /// Bound by what [`super::acquire`] says.
    pub(super) fn home(&self, layout: LineLayout, line: u64, word: u32) -> Option<u64> {
        if word & (SHARED | ALIASED) != ALIASED {
            return None;
        }
        Some(match layout.mask {
            Some(_) => SHARED_HOMES + (line & (lines_of_a_page(layout) - 1)),
            None => line.wrapping_add(self.distance(word & !ALIASED).load(Ordering::SeqCst)),
        })
    }

    fn distance(&self, number: u32) -> &AtomicU64 {
        assert!(number < MOST_DISTANCES && self.distances != 0);
        // SAFETY: the array is mapped for the life of the process, and long enough.
        unsafe { &*(self.distances as *const AtomicU64).add(number as usize) }
    }

    /// All words have become 0.
    pub(super) fn mark_again(&self, ownership: &Ownership) {
        if self.all.load(Ordering::SeqCst) {
            mark_all(ownership);
        }
        for (&start, mark) in &self.marks.lock().by_start {
            set_words(ownership, start..mark.end, ALIASED | mark.number);
        }
    }

    /// Takes the marks from what is not mapped any more, or otherwise.
    fn drop_gone(&self, ownership: &Ownership, regions: &Regions) {
        let mut marks = self.marks.lock();
        if marks.by_start.is_empty() {
            return;
        }
        let before = std::mem::take(&mut marks.by_start);
        for (start, mark) in before {
            let mut end = start;
            let shown = regions.within(start..mark.end).filter(|(range, region)| {
                region.view.is_some_and(|view| {
                    view.object == mark.object && view.offset == mark.offset + (range.start - start)
                })
            });
            for (kept, _) in shown {
                set_words(ownership, end..kept.start, 0);
                end = kept.end;
                let offset = mark.offset + (kept.start - start);
                let kept_mark = Mark {
                    end: kept.end,
                    offset,
                    ..mark
                };
                marks.by_start.insert(kept.start, kept_mark);
            }
            set_words(ownership, end..mark.end, 0);
        }
        let mut used: Vec<u32> = marks.by_start.values().map(|mark| mark.number).collect();
        used.sort_unstable();
        let numbers = &mut marks.numbers;
        let is_free = |number: &u32| used.binary_search(number).is_err();
        numbers.free = (0..numbers.used).filter(is_free).collect();
    }

    /// Whether there are aliases whose words are not marked.
    fn is_behind(&self, ownership: &Ownership, regions: &Regions) -> bool {
        let aliased = regions.aliased();
        match ownership.layout.mask {
            Some(mask) => {
                let shares_by_itself = u64::from(mask) < lines_of_a_page(ownership.layout);
                !(aliased.is_empty() || shares_by_itself || self.all.load(Ordering::SeqCst))
            }
            None => {
                let marks = self.marks.lock();
                let mut aliased = aliased.iter();
                aliased.any(|(range, _)| !marks.unmarked(range).is_empty())
            }
        }
    }

    /// Marks the words of all aliases. No thread is inside, and none takes lines. Fails where no
    /// addresses are left that could stand for the memory.
    fn mark(&self, ownership: &Ownership, regions: &Regions) -> Result<(), Reached> {
        if ownership.layout.mask.is_some() {
            self.all.store(true, Ordering::SeqCst);
            mark_all(ownership);
            return Ok(());
        }
        let mut marks = self.marks.lock();
        for (range, view) in regions.aliased() {
            for part in marks.unmarked(&range) {
                let offset = view.offset + (part.start - range.start);
                self.mark_part(ownership, &mut marks, part, View { offset, ..view })
                    .ok_or(Reached::Homes)?;
            }
        }
        Ok(())
    }

    fn mark_part(
        &self,
        ownership: &Ownership,
        marks: &mut Marks,
        part: Range<u64>,
        view: View,
    ) -> Option<()> {
        let mut start = part.start;
        while start < part.end {
            let offset = view.offset + (start - part.start);
            let end = part.end.min(start + (CHUNK - offset % CHUNK));
            let home = marks.home(view.object, offset, self.most_homes)?;
            let number = marks.numbers.take()?;
            let shift = ownership.layout.shift;
            let distance = (home >> shift).wrapping_sub(start >> shift);
            self.distance(number).store(distance, Ordering::SeqCst);
            set_words(ownership, start..end, ALIASED | number);
            let mark = Mark {
                end,
                object: view.object,
                offset,
                number,
            };
            marks.by_start.insert(start, mark);
            start = end;
        }
        Some(())
    }
}

impl Marks {
    /// The parts of a range that have no marks.
    fn unmarked(&self, range: &Range<u64>) -> Vec<Range<u64>> {
        let mut parts = Vec::new();
        let mut start = range.start;
        let before = self.by_start.range(..range.start).next_back();
        let marks = before.into_iter().chain(self.by_start.range(range.clone()));
        for (&mark_start, mark) in marks {
            if start < mark_start {
                parts.push(start..mark_start);
            }
            start = start.max(mark.end);
        }
        if start < range.end {
            parts.push(start..range.end);
        }
        parts
    }

    /// The address that stands for an offset in an object.
    fn home(&mut self, object: Object, offset: u64, most: u32) -> Option<u64> {
        let key = (object, offset / CHUNK);
        let first = match self.homes.get(&key) {
            Some(&first) => first,
            None if self.homes.len() >= most as usize => return None,
            None => {
                let first = layout::map_memory(CHUNK, libc::PROT_NONE).ok()?;
                self.homes.insert(key, first);
                first
            }
        };
        Some(first + offset % CHUNK)
    }
}

fn lines_of_a_page(layout: LineLayout) -> u64 {
    PAGE >> layout.shift
}

fn mark_all(ownership: &Ownership) {
    let words = ownership.layout.mask.map_or(0, |mask| u64::from(mask) + 1);
    for line in 0..words {
        ownership.word(line).store(ALIASED, Ordering::SeqCst);
    }
}

fn set_words(ownership: &Ownership, range: Range<u64>, word: u32) {
    let shift = ownership.layout.shift;
    for line in range.start >> shift..range.end >> shift {
        ownership.word(line).store(word, Ordering::SeqCst);
    }
}

impl Ownership {
    /// The program may have changed its mappings. The thread is outside the code cache, and others
    /// may take lines from it. Fails where the order cannot follow: nothing has gone through the
    /// new mappings yet.
    pub(crate) fn follow_mappings(&self, process: &Process) -> Result<(), Reached> {
        if !self.is_on() {
            return Ok(());
        }
        {
            let code = process.code();
            self.aliases.drop_gone(self, &code.regions);
            if !self.aliases.is_behind(self, &code.regions) {
                return Ok(());
            }
        }
        let mut marked = Ok(());
        let _stopped = flush::stop_others(Some(process));
        self.have_in_common(|| {
            let code = process.code();
            marked = self.aliases.mark(self, &code.regions);
            true
        });
        marked
    }
}
