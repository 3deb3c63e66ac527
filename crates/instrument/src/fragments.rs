//! What is known of fragments, and of the code that they are made of.

use std::collections::BTreeMap;
use std::ops::Range;

use smallvec::SmallVec;
use unspool_code_cache::address::CacheAddress;
use unspool_code_cache::binding::RegisterBinding;
use unspool_code_cache::cache::{FragmentId, Position};
use unspool_kernel::lock::Mutex;

use super::{Amounts, BufferId, Counter, Inserted};
use unspool_engine::client::PerFragment;
use unspool_engine::translate::forced_splits::ForcedSplits;
use unspool_engine::translate::superblock::CallSites;

/// Instructions that follow each other and count the same: most do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Due {
    /// The number of the first.
    pub(crate) first: u32,
    /// How many they are.
    pub(crate) length: u32,
    pub(crate) counter: Counter,
    /// What each of them adds.
    pub(crate) amount: u32,
}

impl Due {
    /// What those of them count that are before an instruction.
    pub(crate) fn before(self, number: u32) -> (Counter, i64) {
        let times = number.saturating_sub(self.first).min(self.length);
        (self.counter, i64::from(self.amount) * i64::from(times))
    }
}

/// What a fragment counts, and where: so that it comes out right where the fragment is left
/// in the middle.
#[derive(Debug, Default)]
pub(crate) struct FragmentCounts {
    /// What instructions count when they have been executed, in their order.
    pub(crate) due: SmallVec<[Due; 1]>,
    /// Before which instruction something has been added to counters, and what.
    pub(crate) added: (u32, Amounts),
    /// What instructions append to buffers when they have been executed: their numbers, in
    /// order, and bytes.
    pub(crate) appended: Box<[(u32, BufferId, u16)]>,
    /// Where repeated string instructions are in the cache.
    pub(crate) repetitions: Box<[CacheAddress]>,
    /// The registers spilled, if any are.
    pub(crate) binding: Option<RegisterBinding>,
}

/// What is known of fragments.
#[derive(Default)]
pub(crate) struct Fragments {
    /// What each counts.
    pub(crate) counts: PerFragment<FragmentCounts>,
    /// Where superblocks are to end.
    pub(crate) forced_splits: ForcedSplits,
    /// From where calls are made.
    pub(crate) call_sites: CallSites,
    /// Where in the cache code of the tool is: the end of each stretch, by its start.
    tool_code: Mutex<BTreeMap<CacheAddress, CacheAddress>>,
    /// Where code looks at memory that may be gone: where each such instruction begins, and where it
    /// goes on if that is so.
    looks: Mutex<BTreeMap<CacheAddress, CacheAddress>>,
    /// Room for the next superblock's instructions, and for what is inserted there.
    room: Mutex<Inserted>,
}

impl Fragments {
    /// The registers that a fragment has spilled, if any.
    pub(crate) fn binding(&self, fragment: FragmentId) -> Option<RegisterBinding> {
        self.counts.with(fragment, |kept| kept.binding).flatten()
    }

    /// Whether a place in the cache is that of a repeated string instruction: between two of its
    /// rounds the state is the program's, as at a fault in its middle.
    pub(crate) fn is_between_rounds(&self, at: CacheAddress, position: &Position) -> bool {
        let is_there = self.counts.with(position.fragment, |fragment| {
            let mut places = fragment.repetitions.iter();
            places.any(|&place| place == at)
        });
        is_there.unwrap_or(false)
    }

    /// Code of the tool is in these places of the cache.
    pub(crate) fn add_tool_code(&self, code: &[Range<CacheAddress>]) {
        if code.is_empty() {
            return;
        }
        self.tool_code
            .lock()
            .extend(code.iter().map(|range| (range.start, range.end)));
    }

    /// Whether code of the tool is at a place of the cache.
    pub(crate) fn is_tool_code(&self, at: CacheAddress) -> bool {
        let code = self.tool_code.lock();
        code.range(..=at)
            .next_back()
            .is_some_and(|(_, end)| at < *end)
    }

    /// Instructions that look at memory which may be gone: where they begin, and where code goes on.
    pub(crate) fn add_looks(&self, looks: &[Range<CacheAddress>]) {
        if !looks.is_empty() {
            let looks = looks.iter().map(|range| (range.start, range.end));
            self.looks.lock().extend(looks);
        }
    }

    /// Where code goes on if such an instruction is at a place of the cache and has faulted.
    pub(crate) fn behind_look(&self, at: CacheAddress) -> Option<CacheAddress> {
        self.looks.lock().get(&at).copied()
    }

    /// Room for what is inserted into a superblock, empty.
    pub(crate) fn room(&self) -> Inserted {
        std::mem::take(&mut *self.room.lock())
    }

    /// Takes it back.
    pub(crate) fn keep_room(&self, mut inserted: Inserted) {
        inserted.clear();
        *self.room.lock() = inserted;
    }

    /// No fragment is left.
    pub(crate) fn forget(&self) {
        self.tool_code.lock().clear();
        self.looks.lock().clear();
        self.counts.clear();
        self.call_sites.forget();
    }
}
