//! Places in the code from which memory is accessed, as numbers that fit into a record.

use rustc_hash::FxHashMap;

/// Who accesses memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Origin {
    /// The instruction at an address.
    Instruction(u64),
    /// The kernel, in the system call with this number.
    SystemCall(u32),
}

/// A place in the code.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Site {
    /// Who accesses memory there.
    pub origin: Origin,
    /// How many bytes, as far as 65,535.
    pub size: u16,
}

/// The number of a site.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub(super) struct SiteId(pub(super) u32);

impl SiteId {
    /// The greatest number: more there are not, so that one fits into a record beside the bytes.
    pub(super) const LAST: u32 = (1 << 23) - 1;
}

/// All sites that have been met.
#[derive(Debug)]
pub(super) struct Sites {
    all: Vec<Site>,
    /// How many more stores of each begin an epoch.
    stores_left: Vec<u8>,
    numbers: FxHashMap<Site, SiteId>,
    /// The sites that were met last, by their addresses' lowest bits.
    recent: Box<[(Site, SiteId)]>,
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
        };
        Sites {
            all: vec![nowhere],
            stores_left: vec![0],
            numbers: FxHashMap::default(),
            recent: vec![(nowhere, SiteId(0)); RECENT].into(),
        }
    }
}

impl Sites {
    /// The number of a site. Those that no number is left for share 0.
    pub(super) fn number(&mut self, origin: Origin, size: u64) -> SiteId {
        let site = Site {
            origin,
            size: u16::try_from(size).unwrap_or(u16::MAX),
        };
        let place = match origin {
            Origin::Instruction(pc) => pc as usize ^ (pc as usize >> 12),
            Origin::SystemCall(number) => number as usize,
        } % RECENT;
        let (known, number) = self.recent[place];
        if known == site {
            return number;
        }
        let next = SiteId(self.all.len() as u32);
        let number = match self.numbers.get(&site) {
            Some(&number) => number,
            None if next.0 > SiteId::LAST => SiteId(0),
            None => {
                self.all.push(site);
                self.stores_left.push(STORES_APART);
                self.numbers.insert(site, next);
                next
            }
        };
        self.recent[place] = (site, number);
        number
    }

    /// Whether what the thread does after a store of this site is told apart from what came before
    /// it. The store may turn out to have published that, long after it was made.
    #[inline]
    pub(super) fn stands_apart(&mut self, number: SiteId) -> bool {
        let left = &mut self.stores_left[number.0 as usize];
        let fewer = left.checked_sub(1);
        *left = fewer.unwrap_or(0);
        fewer.is_some()
    }

    /// Whether the next store of this site does.
    #[inline]
    pub(super) fn will_stand_apart(&self, number: SiteId) -> bool {
        self.stores_left[number.0 as usize] != 0
    }

    pub(super) fn site(&self, number: SiteId) -> Site {
        self.all[number.0 as usize]
    }
}
