//! How the accesses of a piece of code go on where it is executed again and again with addresses that advance
//! evenly: as lanes, each a cell or an element in all executions, which are looked at one after the other.

use smallvec::SmallVec;
use unspool_events::{AccessKind, PlainAccess};

use super::cell::Bytes;
use super::shadow::{FEW, PAGE, parts};
use super::sites::SiteId;

/// Lanes of one piece of code; more are not worth comparing with each other.
const MOST_LANES: usize = 64;

/// How an access goes on from execution to execution.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Advance {
    /// By so many bytes, which are whole cells, forwards or backwards. By none where it stays.
    Cells(i64),
    /// By elements of so many bytes, which follow each other and are less than a cell.
    Elements(i64),
}

/// One cell of an access, or its only element, in all executions.
#[derive(Debug, Clone, Copy)]
pub(super) struct Lane {
    /// The first cell; the first element where it advances by elements.
    pub(super) start: u64,
    /// Which bytes of each cell, where it advances by cells.
    pub(super) bytes: Bytes,
    pub(super) advance: Advance,
    pub(super) is_write: bool,
    pub(super) site: SiteId,
}

/// A lane, and in how many executions, the first ones, it is to be looked at.
type ToLookAt = (Lane, usize);

/// The lanes of a run, in the order in which they are to be looked at; none if it cannot be looked at so.
/// The next run of the same code is mostly like it, only elsewhere: a loop within a loop.
#[derive(Debug, Default)]
pub(super) struct Lanes {
    all: Option<SmallVec<[ToLookAt; 16]>>,
    /// Executions, and accesses of each.
    size: (usize, usize),
    /// The recorded words of the first execution, and by how much each advances.
    words: SmallVec<[u64; 8]>,
    advances: SmallVec<[u64; 8]>,
    /// Whether all addresses move with the words.
    moves: bool,
}

impl Lanes {
    /// Those of `count` executions whose accesses are these, and of which the first two have these words.
    /// None if they cannot be looked at so.
    pub(super) fn of_run(
        &mut self,
        (accesses, sites): (&[PlainAccess], &[SiteId]),
        [before, after]: [&[u64]; 2],
        count: usize,
    ) -> Option<&[ToLookAt]> {
        let size = (count, accesses.len());
        match self.is_like(before, after, size) {
            Some(0) => {}
            Some(way) => {
                for word in &mut self.words {
                    *word = word.wrapping_add(way);
                }
                for (lane, _) in self.all.iter_mut().flatten() {
                    lane.start = lane.start.wrapping_add(way);
                }
            }
            None => {
                let advances = before.iter().zip(after);
                *self = Lanes {
                    all: looked_at((accesses, sites), [before, after], count),
                    size,
                    words: before.into(),
                    advances: advances
                        .map(|(before, after)| after.wrapping_sub(*before))
                        .collect(),
                    moves: accesses.iter().all(|access| access.word().is_some()),
                };
            }
        }
        let all = self.all.as_deref()?;
        all.iter()
            .all(|(lane, _)| lane.ends_in_memory(count))
            .then_some(all)
    }

    /// If a run is like these in all but where it is: how far away.
    fn is_like(&self, before: &[u64], after: &[u64], size: (usize, usize)) -> Option<u64> {
        let way = before.first()?.wrapping_sub(*self.words.first()?);
        let is_like = self.size == size
            && way.is_multiple_of(8)
            && (self.moves || way == 0)
            && self.words.len() == before.len()
            && self
                .words
                .iter()
                .zip(before)
                .all(|(own, before)| before.wrapping_sub(*own) == way)
            && self
                .advances
                .iter()
                .zip(before.iter().zip(after))
                .all(|(advance, (before, after))| after.wrapping_sub(*before) == *advance);
        is_like.then_some(way)
    }
}

/// The lanes of a run, as [`Lanes`] has them.
fn looked_at(
    (accesses, sites): (&[PlainAccess], &[SiteId]),
    [before, after]: [&[u64]; 2],
    count: usize,
) -> Option<SmallVec<[ToLookAt; 16]>> {
    let mut lanes = SmallVec::<[Lane; 16]>::new();
    for (access, site) in accesses.iter().zip(sites) {
        let address = access.address(before);
        let advance = access.address(after).wrapping_sub(address) as i64;
        let is_known = Lane::of(address, access.size, advance, |lane| {
            lanes.push(Lane {
                is_write: access.kind == AccessKind::Write,
                site: *site,
                ..lane
            });
        });
        if !is_known || lanes.len() > MOST_LANES {
            return None;
        }
    }
    lanes.sort_by_key(Lane::order);
    if !lanes.iter().all(|lane| lane.ends_in_memory(count)) || meet_unevenly(&lanes, count) {
        return None;
    }
    let whole = lanes.iter().all(|lane| lane.bytes == Bytes::MAX);
    let with_new = lanes.iter().enumerate().map(|(number, lane)| {
        let ahead = if whole { &lanes[..number] } else { &[] };
        let new = ahead.iter().map(|it| lane.new_to(it, count)).min();
        (*lane, new.unwrap_or(count))
    });
    Some(with_new.collect())
}

pub(super) const STAYS: Advance = Advance::Cells(0);

impl Lane {
    /// The lanes of an access with this address, size and advance. Returns false if it has none.
    fn of(address: u64, size: u32, advance: i64, mut add: impl FnMut(Lane)) -> bool {
        let lane = |start, bytes, advance| Lane {
            start,
            bytes,
            advance,
            is_write: false,
            site: SiteId::default(),
        };
        if advance % 8 == 0 {
            if u64::from(size) > FEW {
                return false;
            }
            let cells = parts(address, u64::from(size));
            cells.for_each(|(cell, bytes)| add(lane(cell, bytes, Advance::Cells(advance))));
            return true;
        }
        let is_dense = matches!(size, 1 | 2 | 4) && advance.unsigned_abs() == u64::from(size);
        if is_dense && address.is_multiple_of(u64::from(size)) {
            add(lane(address, Bytes::default(), Advance::Elements(advance)));
            return true;
        }
        false
    }

    /// By how many bytes it advances.
    fn bytes_ahead(&self) -> i64 {
        match self.advance {
            Advance::Cells(bytes) | Advance::Elements(bytes) => bytes,
        }
    }

    /// Of two lanes that advance alike, that which is ahead has the lesser one.
    fn order(&self) -> u64 {
        match self.bytes_ahead() < 0 {
            true => self.start,
            false => !self.start,
        }
    }

    /// The first and the last address that it comes to.
    pub(super) fn ends(&self, count: usize) -> (u64, u64) {
        let way = self.bytes_ahead().wrapping_mul(count as i64 - 1);
        let last = self.start.wrapping_add_signed(way);
        (self.start.min(last), self.start.max(last))
    }

    /// Whether it comes nowhere by way of the end of the address space.
    fn ends_in_memory(&self, count: usize) -> bool {
        let way = self.bytes_ahead().checked_mul(count as i64);
        let end = way.and_then(|way| self.start.checked_add_signed(way));
        end.is_some_and(|end| end.max(self.start) < u64::MAX - PAGE)
    }

    /// Whether it comes to cells of a lane that advances alike, and to some of its bytes, but not the
    /// same ones.
    fn meets_partly(&self, other: &Lane) -> bool {
        let way = self.start.wrapping_sub(other.start) as i64;
        let meets = way == 0 || (self.bytes_ahead() != 0 && way % self.bytes_ahead() == 0);
        meets && self.bytes != other.bytes && self.bytes & other.bytes != 0
    }

    /// In how many executions, the first ones, it comes to cells to which another lane has not come,
    /// after which it need not be looked at. Both touch whole cells.
    fn new_to(&self, ahead: &Lane, count: usize) -> usize {
        let is_same = self.advance == ahead.advance && (ahead.is_write || !self.is_write);
        let bytes = self.bytes_ahead();
        let way = ahead.start.wrapping_sub(self.start) as i64;
        if !is_same || bytes == 0 || way % bytes != 0 {
            return count;
        }
        usize::try_from(way / bytes).map_or(count, |executions| executions.min(count))
    }
}

/// Whether two lanes may come to the same cell, and not alike: at different paces, so that it cannot
/// be told which is first, or to bytes of which some are the same and some are not, so that what one
/// leaves says nothing of whether it was there.
fn meet_unevenly(lanes: &[Lane], count: usize) -> bool {
    let cells = |lane: &Lane| {
        let (first, last) = lane.ends(count);
        (first & !7, last | 7)
    };
    lanes.iter().enumerate().any(|(number, lane)| {
        let (first, last) = cells(lane);
        lanes[..number].iter().any(|other| {
            let (other_first, other_last) = cells(other);
            let may_meet = first <= other_last && other_first <= last;
            may_meet && (lane.advance != other.advance || lane.meets_partly(other))
        })
    })
}
