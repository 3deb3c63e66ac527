//! Line-atomic order at run time: who owns which line, and how ownership moves.
//!
//! The protocol is that of biased ownership with safe points (Bond et al., *Octet*, OOPSLA
//! 2013). Each line has a 32-bit owner word:
//!
//! | word | state |
//! |---|---|
//! | 0 | nobody has touched the line |
//! | t + 1 | exclusive to the thread with index t |
//! | 2³⁰ + t + 1 | in transit to thread t |
//! | 2³² − 1 − e | read-shared since epoch e |
//!
//! A thread that wants another's line marks it *in transit*, then makes sure that the owner
//! has passed a safe point since: it asks (the owner's `poll` slot) and waits until the
//! owner's epoch moves, or finds the owner *safe*, which means out of translated code. The
//! owner publishes a bound of its time at every safe point (see [`clock`]), and the new
//! owner's time is stamped past it.
//! A thread that waits is itself safe, so there is no deadlock; if lines were taken from it
//! meanwhile, it leaves its superblock and checks everything anew.
//!
//! Memory that is mapped more than once has one owner for each line all the same: see [`aliases`].
//!
//! Nothing of this runs out: see [`indexes`] for threads and [`barrier`] for epochs.

mod acquire;
mod aliases;
mod barrier;
mod brief;
mod clock;
mod extents;
mod history;
mod indexes;
mod serve;
mod threads;
mod words;

pub(crate) use self::words::owner_fault;

use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};

pub(super) use self::acquire::Run;
use self::aliases::Aliases;
pub(super) use self::aliases::MOST_DISTANCES;
use self::barrier::Barrier;
pub(crate) use self::brief::acquire_lines;
pub(crate) use self::clock::TIME_PER_BYTE;
use self::history::{Histories, History};
use self::indexes::Indexes;
pub(super) use self::serve::{own, serve};
pub(super) use self::threads::ask_to_show;
use super::ceilings::Ceilings;
use super::plan::TracePlan;
use crate::inserted::ownership::CheckSite;
use crate::tracer::Tracer;
use unspool_kernel::layout;

/// Marks clean calls of this module among clean calls.
pub(super) const CLEAN_CALL_BIT: u32 = 1 << 31;
/// The clean call that shows others how far the thread is.
const POLL: u32 = CLEAN_CALL_BIT | 0x7fff_ffff;

const TRANSIT: u32 = 1 << 30;
const SHARED: u32 = 1 << 31;
/// The most threads at one time that a trace can tell apart.
pub(super) const MOST_THREADS: u64 = 1 << 20;
/// The most transitions to read-shared that can be told apart.
pub(super) const MOST_EPOCHS: u32 = SHARED - 2;
/// More places where owners are checked than the code cache has room for.
const MOST_SITES: u64 = layout::CACHE_SIZE / 2 / 64;
const ADDRESS_BITS: u32 = 47;
/// The most owner words where lines share them.
const MOST_HASHED_WORDS: u64 = 1 << 24;
const SAFE: u64 = 1;
pub(crate) const EPOCH: u64 = 2;
/// The bit of the poll slot that asks for more than an answer.
pub(crate) const ASKED_TO_SHOW: u64 = 2;
const EPOCH_BITS: u64 = 0xffff_fffe;
const TAKEN: u64 = 1 << 32;

/// How an address leads to its owner word: shifted, then perhaps masked.
#[derive(Debug, Clone, Copy)]
pub(crate) struct LineLayout {
    /// log₂ of the bytes of a line.
    pub shift: u8,
    /// The number of owner words minus one, if lines share them.
    pub mask: Option<u32>,
}

/// What a thread shows to the others.
#[repr(C, align(64))]
pub(crate) struct Public {
    /// Bit 0: safe. Bits 1 to 31 count the safe points passed, bits 32 to 63 how often lines
    /// were taken while the thread was safe.
    pub(crate) state: AtomicU64,
    /// A bound of the thread's time at its last safe point.
    pub(crate) clock: AtomicU64,
    /// Address of the thread's poll slot; 0 once it has ended.
    poll: AtomicU64,
    /// Threads that may be using that address.
    asking: AtomicU64,
}

/// The owners of all lines.
#[derive(Debug)]
pub(super) struct Ownership {
    layout: LineLayout,
    /// Address of the array of [`Public`].
    threads: u64,
    indexes: Indexes,
    /// Whether translated code checks owners: not before there is a second thread.
    checking: AtomicBool,
    /// Read-shared epochs begun.
    epoch: AtomicU32,
    most_epochs: u32,
    barrier: Barrier,
    /// Not less than the time of any transition to read-shared.
    shared_clock: AtomicU64,
    histories: Histories,
    aliases: Aliases,
    /// Address of the array of [`CheckSite`]; 0 where there are none.
    sites: u64,
    /// How many there are. Changes under the lock of the cache.
    site_count: AtomicU32,
}

impl Ownership {
    pub(super) fn reserve(plan: &TracePlan, ceilings: &Ceilings) -> std::io::Result<Ownership> {
        const HASHED_WORDS: u64 = 1 << 20;
        const SMALLEST_DIRECT: u32 = 64;
        let shift = plan.granule.trailing_zeros() as u8;
        let hashed = plan.locks != 0 || plan.granule < SMALLEST_DIRECT;
        let words = if plan.locks == 0 {
            HASHED_WORDS
        } else {
            plan.locks.next_power_of_two()
        };
        let words = words.min(MOST_HASHED_WORDS);
        let low_end = layout::OWNER_WORDS + ((layout::LIBRARY_END >> 6) << 2);
        debug_assert_eq!(low_end, layout::BRANCH_TABLE);
        let (mut threads, mut sites, mut most_threads) = (0, 0, 0);
        if plan.order == unspool_events::Order::LineAtomic {
            let below = layout::OWNER_WORDS..low_end;
            let start = layout::BRANCH_TABLE + layout::BRANCH_TABLE_SIZE;
            let end = layout::OWNER_WORDS + ((1_u64 << ADDRESS_BITS >> shift) << 2) + 4096;
            words::reserve(if hashed {
                vec![below]
            } else {
                vec![below, start..end]
            })?;
            most_threads = ceilings.threads;
            threads = layout::map_memory(MOST_THREADS * size_of::<Public>() as u64, ACCESSIBLE)?;
        }
        if plan.order == unspool_events::Order::LineAtomic || plan.verify {
            sites = layout::map_memory(MOST_SITES * size_of::<CheckSite>() as u64, ACCESSIBLE)?;
        }
        Ok(Ownership {
            layout: LineLayout {
                shift,
                mask: hashed.then_some(words as u32 - 1),
            },
            threads,
            indexes: Indexes::new(most_threads),
            checking: AtomicBool::new(false),
            epoch: AtomicU32::new(0),
            most_epochs: ceilings.epochs,
            barrier: Barrier::default(),
            shared_clock: AtomicU64::new(0),
            histories: Histories::new(),
            aliases: Aliases::reserve(threads != 0, ceilings.homes)?,
            sites,
            site_count: AtomicU32::new(0),
        })
    }

    /// No translation is left that checks owners. Called under the lock of the cache.
    pub(super) fn forget_sites(&self) {
        self.site_count.store(0, Ordering::Relaxed);
    }

    fn is_on(&self) -> bool {
        self.threads != 0
    }

    fn is_checking(&self) -> bool {
        self.checking.load(Ordering::Relaxed)
    }

    /// What the thread with an index shows.
    fn public(&self, index: u32) -> &Public {
        assert!(u64::from(index) < MOST_THREADS && self.is_on());
        // SAFETY: the array is mapped for the life of the process and has MOST_THREADS
        // elements, all of atomics.
        unsafe { &*(self.threads as *const Public).add(index as usize) }
    }

    /// A time behind which no thread had recorded anything when it last went out of the cache.
    fn latest_time(&self) -> u64 {
        let clock = |index| self.public(index).clock.load(Ordering::SeqCst);
        let live = self.indexes.taken().map(clock).max().unwrap_or(0);
        live.max(self.indexes.ended())
            .max(self.shared_clock.load(Ordering::SeqCst))
    }

    fn word(&self, line: u64) -> &AtomicU32 {
        // SAFETY: lines come from `line_of`, which checks that the word is mapped.
        unsafe { AtomicU32::from_ptr((layout::OWNER_WORDS + line * 4) as *mut u32) }
    }

    fn history(&self, line: u64) -> History<'_> {
        self.histories.of(line)
    }

    fn site(&self, number: u32) -> &CheckSite {
        assert!(number < self.site_count.load(Ordering::Relaxed));
        // SAFETY: elements below the count have been written and do not change.
        unsafe { &*(self.sites as *const CheckSite).add(number as usize) }
    }

    /// Whether an owner word has this number.
    fn has_word(&self, line: u64) -> bool {
        match self.layout.mask {
            Some(mask) => line <= u64::from(mask),
            None => {
                line <= u64::MAX >> self.layout.shift
                    && self.line_of(line << self.layout.shift).is_some()
            }
        }
    }

    /// The number of the owner word of an address; `None` for addresses that user memory
    /// cannot have (the access will fault).
    fn line_of(&self, address: u64) -> Option<u64> {
        let line = address >> self.layout.shift;
        if let Some(mask) = self.layout.mask {
            return Some(line & u64::from(mask));
        }
        let reserved = (layout::LIBRARY_END
            ..(layout::BRANCH_TABLE + layout::BRANCH_TABLE_SIZE - layout::OWNER_WORDS) << 4)
            .contains(&address)
            && self.layout.shift == 6;
        (address >> ADDRESS_BITS == 0 && !reserved).then_some(line)
    }
}

const ACCESSIBLE: i32 = libc::PROT_READ | libc::PROT_WRITE;

impl Tracer {
    /// How addresses lead to owner words.
    pub(crate) fn line_layout(&self) -> LineLayout {
        self.ownership.layout
    }

    /// The clean call of a thread that is asked for more than an answer.
    pub(crate) fn poll_detail(&self) -> u32 {
        POLL
    }

    /// Whether code that is translated now checks owners.
    pub(crate) fn checks_owners(&self) -> bool {
        self.ownership.is_checking()
    }

    /// The only thread is about to create the second one. Up to here its program order is
    /// the whole order, so nothing was checked and nobody owns a line; the second thread's
    /// time begins after all of it. From here on code checks, so it is translated anew.
    pub(super) fn begin_sharing(&self) {
        if self.ownership.is_on() && !self.ownership.is_checking() {
            let process = self.process();
            let mut code = process.code();
            self.ownership.checking.store(true, Ordering::Relaxed);
            process
                .clients
                .clear_translations(&mut code.cache, self.convention());
        }
    }

    /// The number that the next place where owners are checked will have.
    pub(crate) fn next_check_site(&self) -> u32 {
        self.ownership.site_count.load(Ordering::Relaxed)
    }

    /// The clean call that acquires the lines for it.
    pub(crate) fn next_check_call(&self) -> u32 {
        CLEAN_CALL_BIT | self.next_check_site()
    }

    /// Adds a place where owners are checked.
    /// Called under the lock of the cache, before its code can run.
    pub(crate) fn add_check_site(&self, site: CheckSite) {
        let number = self.ownership.site_count.fetch_add(1, Ordering::Relaxed);
        assert!(
            u64::from(number) < MOST_SITES,
            "a check takes more than 64 bytes of the cache"
        );
        // SAFETY: the array is mapped and long enough; nobody uses this element yet.
        unsafe {
            (self.ownership.sites as *mut CheckSite)
                .add(number as usize)
                .write(site)
        };
    }
}
