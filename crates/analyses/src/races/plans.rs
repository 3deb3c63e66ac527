//! What is known of code that has been executed, so that it need not be looked up for each access: the
//! accesses of a piece of code up to the next call or return have the same context.

use rustc_hash::FxHashMap;

use super::lanes::Lanes;
use super::reaches::Reaches;
use super::sites::SiteId;
use crate::call_paths::ContextId;

/// A stretch of code between two calls or returns, and the calls that led there.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct Stretch {
    /// The number of the code.
    pub(super) code: u64,
    /// Its first access.
    pub(super) first: u32,
    pub(super) context: ContextId,
}

/// What is known of a stretch.
#[derive(Debug, Default)]
pub(super) struct Plan {
    /// The sites of its first accesses, as far as these were executed.
    pub(super) sites: Vec<SiteId>,
    /// So many of them begin no epoch, and never will.
    pub(super) quiet: usize,
    /// How they went on in the last run, if there was one.
    pub(super) lanes: Option<Box<Lanes>>,
    /// All accesses together, once none of them begins an epoch.
    pub(super) together: Reaches,
}

/// All plans that are kept. They are forgotten when they are too many: what is needed is made again.
#[derive(Debug)]
pub(super) struct Plans {
    all: Vec<Plan>,
    numbers: FxHashMap<Stretch, u32>,
    /// Those that were asked for last.
    recent: Box<[(Stretch, u32)]>,
}

const RECENT: usize = 1 << 11;
/// Plans that are kept: about 60 MiB, if all are executed often.
const MOST: usize = 1 << 17;

/// What no code is.
const NOWHERE: Stretch = Stretch {
    code: u64::MAX,
    first: 0,
    context: ContextId::NONE,
};

impl Default for Plans {
    fn default() -> Plans {
        Plans {
            all: Vec::new(),
            numbers: FxHashMap::default(),
            recent: vec![(NOWHERE, 0); RECENT].into(),
        }
    }
}

impl Plans {
    /// The plan of a stretch, which knows nothing if there was none.
    #[inline]
    pub(super) fn of(&mut self, stretch: Stretch) -> &mut Plan {
        let mixed = stretch.code ^ u64::from(stretch.context.number()).wrapping_mul(0x9e5);
        let place = (mixed as usize ^ (stretch.first as usize) << 6) % RECENT;
        let (known, number) = self.recent[place];
        let number = match known == stretch {
            true => number,
            false => self.look_up(stretch, place),
        };
        &mut self.all[number as usize]
    }

    #[cold]
    fn look_up(&mut self, stretch: Stretch, place: usize) -> u32 {
        if self.all.len() >= MOST {
            *self = Plans::default();
        }
        let next = self.all.len() as u32;
        let number = *self.numbers.entry(stretch).or_insert(next);
        if number == next {
            self.all.push(Plan::default());
        }
        self.recent[place] = (stretch, number);
        number
    }
}
