//! Places in the code from which memory is accessed, as numbers that fit into a record.

use rustc_hash::FxHashMap;

use crate::call_paths::ContextId;

/// Who accesses memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Origin {
    /// The instruction at an address.
    Instruction(u64),
    /// The kernel, in the system call with this number.
    SystemCall(u32),
}

/// A place in the code, and the calls that led there.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Site {
    /// Who accesses memory there.
    pub origin: Origin,
    /// How many bytes, as far as 65,535.
    pub size: u16,
    /// The calls.
    pub context: ContextId,
}

/// The number of a site.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub(super) struct SiteId(pub(super) u32);

impl SiteId {
    /// The greatest number: more there are not, so that one fits into a record beside the bytes.
    pub(super) const LAST: u32 = (1 << 23) - 1;
    /// The greatest of a site with calls: what is left is for those without.
    const LAST_WITH_CALLS: u32 = SiteId::LAST / 4 * 3;
}

/// All sites that have been met.
#[derive(Debug)]
pub(super) struct Sites {
    all: Vec<Site>,
    /// The same places whatever calls led there.
    without_calls: Vec<SiteId>,
    /// How many more stores of each place begin an epoch, whatever calls led there. For a site with
    /// calls 0 says that there are none left, and anything else nothing.
    stores_left: Vec<u8>,
    numbers: FxHashMap<Site, SiteId>,
    /// The sites that were met last, by their addresses' lowest bits.
    recent: Box<[(Site, SiteId)]>,
    /// How often a site was taken for the same without its calls, for want of numbers.
    pub(super) calls_left_out: u64,
}

const RECENT: usize = 1 << 12;

/// Stores of one site that begin an epoch. What publishes something is rarely stored more often, or
/// is stored the same way each time.
const STORES_APART: u8 = 64;

impl Default for Sites {
    fn default() -> Sites {
        let nowhere = Site {
            origin: Origin::SystemCall(u32::MAX),
            size: 0,
            context: ContextId::NONE,
        };
        Sites {
            all: vec![nowhere],
            without_calls: vec![SiteId(0)],
            stores_left: vec![0],
            numbers: FxHashMap::default(),
            recent: vec![(nowhere, SiteId(0)); RECENT].into(),
            calls_left_out: 0,
        }
    }
}

impl Sites {
    /// The number of a site. Those that no number is left for share 0.
    pub(super) fn number(&mut self, origin: Origin, size: u64, context: ContextId) -> SiteId {
        let site = Site {
            origin,
            size: u16::try_from(size).unwrap_or(u16::MAX),
            context,
        };
        let place = match origin {
            Origin::Instruction(pc) => pc as usize ^ (pc as usize >> 12),
            Origin::SystemCall(number) => number as usize,
        };
        let place = (place ^ (context.number() as usize).wrapping_mul(0x9e5)) % RECENT;
        let (known, number) = self.recent[place];
        if known == site {
            return number;
        }
        let number = self.look_up(site);
        self.recent[place] = (site, number);
        number
    }

    fn look_up(&mut self, site: Site) -> SiteId {
        if let Some(&number) = self.numbers.get(&site) {
            return number;
        }
        let has_calls = site.context != ContextId::NONE;
        let without_calls = has_calls.then(|| {
            self.look_up(Site {
                context: ContextId::NONE,
                ..site
            })
        });
        let next = SiteId(self.all.len() as u32);
        match without_calls {
            None if next.0 > SiteId::LAST => return SiteId(0),
            Some(same) if next.0 > SiteId::LAST_WITH_CALLS => {
                self.calls_left_out += 1;
                return same;
            }
            _ => {}
        }
        self.all.push(site);
        self.without_calls.push(without_calls.unwrap_or(next));
        self.stores_left.push(STORES_APART);
        self.numbers.insert(site, next);
        next
    }

    /// The same place, whatever calls led there.
    pub(super) fn without_calls(&self, number: SiteId) -> SiteId {
        self.without_calls[number.0 as usize]
    }

    /// Whether what the thread does after a store of this site is told apart from what came before
    /// it. The store may turn out to have published that, long after it was made.
    #[inline]
    pub(super) fn stands_apart(&mut self, number: SiteId) -> bool {
        let will = self.will_stand_apart(number);
        if will {
            let place = self.without_calls(number);
            self.stores_left[place.0 as usize] -= 1;
        }
        will
    }

    /// Whether the next store of this site does.
    #[inline]
    pub(super) fn will_stand_apart(&mut self, number: SiteId) -> bool {
        if self.stores_left[number.0 as usize] == 0 {
            return false;
        }
        let left = self.stores_left[self.without_calls(number).0 as usize];
        if left == 0 {
            self.stores_left[number.0 as usize] = 0;
        }
        left != 0
    }

    pub(super) fn site(&self, number: SiteId) -> Site {
        self.all[number.0 as usize]
    }
}
