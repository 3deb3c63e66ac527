//! Counters: each thread adds to its own, by one instruction (see [`area`]), and a total is their
//! sum.
//!
//! Where several counters are to be added to at once, a **group** counts instead, by one: it
//! stands for so much of each. So a path through a fragment costs one addition, however many
//! counters the tool has on it.
//!
//! An addition waits for the one before it to the same place, which takes longer than a short path
//! does: so what many places add to is divided into **shares** that they take in turn, and paths
//! that follow each other need not wait.

mod area;

use std::sync::atomic::{AtomicU64, Ordering};

use rustc_hash::{FxHashMap, FxHashSet};
use smallvec::SmallVec;

pub(crate) use self::area::thread_stack;
pub(super) use self::area::{free, prepare, settle};
use crate::process::process;
use crate::slots as tool_slots;
use unspool_code_cache::slots::{Slots, slots};
use unspool_kernel::lock::{Mutex, MutexGuard, OnceLock};

/// How many counters a tool can have. As many again are for groups and shares.
const MOST: usize = area::CAPACITY / 2;
/// How many shares there are of what many places add to, itself included: so many additions are on
/// their way at once where paths are shortest.
const SHARES: usize = 8;
/// How many places add to one before it is divided. A counter of one block's, of which a tool may have a
/// million, is not.
const UNDIVIDED: u32 = 16;

static REGISTRY: OnceLock<Mutex<Registry>> = OnceLock::new();
/// What threads counted that have ended, by place.
static ENDED: Mutex<Vec<u64>> = Mutex::new(Vec::new());

/// Amounts for counters; each occurs once.
pub(crate) type Amounts = SmallVec<[(Counter, i64); 1]>;

/// All counters, groups and shares included.
#[derive(Default)]
struct Registry {
    /// By counter: where it lies, once it has been added to.
    places: Vec<Option<CounterPlace>>,
    /// By counter: at how many places code adds to it or to shares of it.
    additions: Vec<u32>,
    /// How many of them are groups and shares.
    hidden: usize,
    /// What else is added to in place of a counter or group.
    shares: FxHashMap<Counter, Vec<Counter>>,
    /// How many places have been given.
    given: usize,
    /// Which group stands for certain amounts.
    groups: FxHashMap<Amounts, Counter>,
    /// The counters that are never part of a group, nor divided.
    apart: FxHashSet<Counter>,
    /// The groups and shares that stand for a counter, and for how much of it.
    parts: FxHashMap<Counter, Amounts>,
}

/// Where a counter lies.
#[derive(Debug, Clone, Copy)]
pub(crate) struct CounterPlace(u32);

/// A 64-bit counter that inserted code adds to, without a call and without contention: every
/// thread has its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Counter(u32);

impl Counter {
    /// A new counter, at zero.
    ///
    /// # Panics
    /// If there are more than two million.
    #[must_use]
    #[track_caller]
    #[expect(clippy::new_without_default, reason = "each one is another")]
    pub fn new() -> Counter {
        let mut registry = registry();
        let own = registry.places.len() - registry.hidden;
        assert!(own < MOST, "a tool can have {MOST} counters");
        registry.add()
    }

    /// The same, to which code adds at its own place each time, whatever it counts beside it: so that
    /// code can look there how much the thread has counted ([`Action::Reaches`](crate::Action::Reaches)).
    ///
    /// # Panics
    /// As for [`Counter::new`].
    #[must_use]
    #[track_caller]
    pub fn apart() -> Counter {
        let counter = Counter::new();
        registry().apart.insert(counter);
        counter
    }

    /// The sum over all threads, those that have ended included.
    ///
    /// It is exact as far as it goes: while other threads run, what they are counting just now
    /// may be in it or not.
    #[must_use]
    pub fn total(self) -> u64 {
        let Some(process) = process() else {
            return 0;
        };
        let parts = registry().parts_of(self);
        let threads = process.threads.lock();
        let mut all: Vec<&Slots> = threads
            .iter()
            // SAFETY: the thread lives while it is listed, and the list is locked.
            .map(|handle| unsafe { (*handle.thread).slots() })
            .collect();
        // A child in its parent's place has its parent's.
        all.sort_unstable_by_key(|&slots| std::ptr::from_ref(slots));
        all.dedup_by_key(|slots| std::ptr::from_ref(*slots));
        // Under the lock of the list, so that no thread is missed or seen twice as it ends.
        let ended = ended();
        let sum = |place: CounterPlace| {
            let ended = ended.get(place.index()).copied().unwrap_or(0);
            all.iter()
                .map(|&slots| place.load(slots))
                .fold(ended, u64::wrapping_add)
        };
        add_up(&parts, sum)
    }

    /// What the calling thread has counted.
    #[must_use]
    pub fn of_this_thread(self) -> u64 {
        let parts = registry().parts_of(self);
        add_up(&parts, |place| place.load(slots()))
    }

    /// Where it lies.
    pub(crate) fn place(self) -> CounterPlace {
        registry().place(self)
    }

    /// Adds to the calling thread's counter, or takes away.
    pub(crate) fn correct(self, amount: i64) {
        self.place().add(slots(), amount);
    }
}

/// What code is to add to for some amounts at once: shares of the counter, if it is one, else of a
/// group; of all counters, if there is no room for another group.
pub(crate) fn together(amounts: &[(Counter, i64)]) -> SmallVec<[(CounterPlace, i64); 1]> {
    let registry = &mut *registry();
    let together = registry.together(amounts);
    let place = |(counter, amount)| (registry.place(counter), amount);
    together.into_iter().map(place).collect()
}

fn add_up(parts: &[(CounterPlace, i64)], value: impl Fn(CounterPlace) -> u64) -> u64 {
    parts
        .iter()
        .map(|&(place, amount)| value(place).wrapping_mul(amount as u64))
        .fold(0, u64::wrapping_add)
}

impl Registry {
    fn add(&mut self) -> Counter {
        self.places.push(None);
        self.additions.push(0);
        Counter(self.places.len() as u32 - 1)
    }

    /// One that stands for some amounts; none if there is no room.
    fn add_hidden(&mut self, amounts: &[(Counter, i64)]) -> Option<Counter> {
        if self.hidden == MOST {
            return None;
        }
        self.hidden += 1;
        let hidden = self.add();
        for &(counter, amount) in amounts {
            let parts = self.parts.entry(counter).or_default();
            parts.push((hidden, amount));
        }
        Some(hidden)
    }

    /// The group that stands for some amounts, in order; none if there is no room for another.
    fn group(&mut self, amounts: &Amounts) -> Option<Counter> {
        if let Some(&group) = self.groups.get(amounts) {
            return Some(group);
        }
        let group = self.add_hidden(amounts)?;
        self.groups.insert(amounts.clone(), group);
        Some(group)
    }

    /// What another place is to add to for a counter or group, which stands for such amounts.
    fn together(&mut self, amounts: &[(Counter, i64)]) -> Amounts {
        let is_apart = |&&(counter, _): &&(Counter, i64)| self.apart.contains(&counter);
        let mut together: Amounts = amounts.iter().filter(is_apart).copied().collect();
        let mut sorted: Amounts = amounts.iter().filter(|it| !is_apart(it)).copied().collect();
        if sorted.len() > 1 {
            sorted.sort_unstable();
            if let Some(group) = self.group(&sorted) {
                together.push((self.share(group, &sorted), 1));
                return together;
            }
        }
        for (counter, amount) in sorted {
            together.push((self.share(counter, &[(counter, 1)]), amount));
        }
        together
    }

    fn share(&mut self, whole: Counter, amounts: &[(Counter, i64)]) -> Counter {
        let additions = &mut self.additions[whole.0 as usize];
        *additions = additions.saturating_add(1);
        let number = *additions as usize % SHARES;
        if *additions <= UNDIVIDED || number == 0 {
            return whole;
        }
        let shares = self.shares.get(&whole);
        if let Some(&share) = shares.and_then(|shares| shares.get(number - 1)) {
            return share;
        }
        let Some(share) = self.add_hidden(amounts) else {
            return whole;
        };
        self.shares.entry(whole).or_default().push(share);
        share
    }

    fn place(&mut self, counter: Counter) -> CounterPlace {
        let place = &mut self.places[counter.0 as usize];
        *place.get_or_insert_with(|| {
            self.given += 1;
            CounterPlace(self.given as u32 - 1)
        })
    }

    /// Where what is counted for a counter lies, in groups and shares too, and how often it counts.
    fn parts_of(&self, counter: Counter) -> Vec<(CounterPlace, i64)> {
        let groups = self.parts.get(&counter).into_iter().flatten().copied();
        std::iter::once((counter, 1))
            .chain(groups)
            .filter_map(|(part, amount)| Some((self.places[part.0 as usize]?, amount)))
            .collect()
    }
}

impl CounterPlace {
    fn index(self) -> usize {
        self.0 as usize
    }

    /// Its slot.
    pub(crate) fn slot(self) -> i32 {
        area::first_slot() + 8 * self.index() as i32
    }

    fn load(self, slots: &Slots) -> u64 {
        self.cell(slots)
            .map_or(0, |cell| cell.load(Ordering::Relaxed))
    }

    /// The slots must be the calling thread's.
    fn add(self, slots: &Slots, amount: i64) {
        if let Some(cell) = self.cell(slots) {
            let value = cell.load(Ordering::Relaxed);
            cell.store(value.wrapping_add_signed(amount), Ordering::Relaxed);
        }
    }

    /// What has been counted there, which begins at zero again. Pages of counters that are zero are
    /// not written.
    fn take(self, slots: &Slots) -> u64 {
        let Some(cell) = self.cell(slots) else {
            return 0;
        };
        let value = cell.load(Ordering::Relaxed);
        if value != 0 {
            cell.store(0, Ordering::Relaxed);
        }
        value
    }

    fn cell(self, slots: &Slots) -> Option<&AtomicU64> {
        let first = tool_slots::of(slots).counters.load(Ordering::Relaxed) as *mut u64;
        // SAFETY: the counters are there as long as the slots say where, which only their thread
        // changes, with the list of threads locked; they are only used atomically, or by translated
        // code.
        (!first.is_null()).then(|| unsafe { AtomicU64::from_ptr(first.add(self.index())) })
    }
}

fn registry() -> MutexGuard<'static, Registry> {
    REGISTRY.get_or_init(Mutex::default).lock()
}

fn ended() -> MutexGuard<'static, Vec<u64>> {
    ENDED.lock()
}

/// Adds what the calling thread counted to what ended threads did. To be called while it is
/// still listed, with the list locked.
pub(super) fn keep() {
    let given = registry().given;
    let mut ended = ended();
    let room = ended.len().max(given);
    ended.resize(room, 0);
    for (place, total) in (0..).map(CounterPlace).zip(ended.iter_mut().take(given)) {
        *total = total.wrapping_add(place.take(slots()));
    }
}

/// Starts anew, in a forked child with a single thread.
pub(super) fn restart() {
    ended().clear();
    let given = registry().given;
    for place in (0..given as u32).map(CounterPlace) {
        place.take(slots());
    }
}

#[cfg(test)]
mod tests;
