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
//! owner's epoch moves, or finds the owner *safe*, which means out of translated code, or at a
//! safe point where it hands over what it has recorded. The
//! owner publishes a bound of its time at every safe point (see [`crate::trace_buffer`]), and the new
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
mod history;
mod indexes;
mod owner;
mod threads;
mod words;

pub(crate) use self::words::{are_reserved, is_word, open};

use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};

pub(crate) use self::acquire::Acquisition;
use self::aliases::Aliases;
use self::barrier::Barrier;
use self::history::{Histories, History};
use self::indexes::Indexes;
pub(crate) use self::owner::Owner;
use crate::ceilings::{Ceilings, MOST_EPOCHS, MOST_THREADS};
use crate::plan::TracePlan;
use unspool_code_cache::binding::LookupConvention;
use unspool_engine::process::Process;
use unspool_kernel::layout;

const TRANSIT: u32 = 1 << 30;
const SHARED: u32 = 1 << 31;
const _: () = assert!(MOST_THREADS < 1 << 29 && MOST_EPOCHS <= SHARED - 2);
const ADDRESS_BITS: u32 = 47;
/// The most owner words where lines share them.
const MOST_HASHED_WORDS: u64 = 1 << 24;
const SAFE: u64 = 1;
pub(crate) const EPOCH: u64 = 2;
const EPOCH_BITS: u64 = 0xffff_fffe;
const TAKEN: u64 = 1 << 32;

/// How an address leads to its owner word: shifted, then perhaps masked.
#[derive(Debug, Clone, Copy)]
pub(crate) struct LineLayout {
    /// log₂ of the bytes of a line.
    pub(crate) shift: u8,
    /// The number of owner words minus one, if lines share them.
    pub(crate) mask: Option<u32>,
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
pub(crate) struct Ownership {
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
}

impl Ownership {
    pub(crate) fn reserve(plan: &TracePlan, ceilings: &Ceilings) -> std::io::Result<Ownership> {
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
        let (mut threads, mut most_threads) = (0, 0);
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
            threads = layout::map_memory(
                u64::from(MOST_THREADS) * size_of::<Public>() as u64,
                ACCESSIBLE,
            )?;
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
        })
    }

    /// Whether lines have owners in this run.
    pub(crate) fn is_on(&self) -> bool {
        self.threads != 0
    }

    /// What the thread with an index shows.
    pub(crate) fn public(&self, index: u32) -> &Public {
        assert!(index < MOST_THREADS && self.is_on());
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

impl Ownership {
    /// How addresses lead to owner words.
    pub(crate) fn layout(&self) -> LineLayout {
        self.layout
    }

    /// Whether code that is translated now checks owners.
    pub(crate) fn is_checking(&self) -> bool {
        self.checking.load(Ordering::Relaxed)
    }

    /// The registers that are spilled where an indirect branch arrives.
    #[must_use]
    pub(crate) fn convention(&self) -> LookupConvention {
        match self.is_checking() {
            true => LookupConvention::Checked,
            false => LookupConvention::Traced,
        }
    }

    /// The only thread is about to create the second one. Up to here its program order is
    /// the whole order, so nothing was checked and nobody owns a line; the second thread's
    /// time begins after all of it. From here on code checks, so it is translated anew.
    pub(crate) fn begin_sharing(&self, process: &Process) {
        if self.is_on() && !self.is_checking() {
            let mut code = process.code();
            self.checking.store(true, Ordering::Relaxed);
            process.clients.clear_translations(&mut code.cache);
        }
    }
}
