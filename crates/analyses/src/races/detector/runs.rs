//! Executions of one piece of code whose addresses advance evenly, as in a loop over arrays: looked at
//! access by access, each over all executions, rather than execution by execution.
//!
//! What comes of it is the same. What becomes of a cell depends on the order of its own accesses alone,
//! as long as nothing conflicts and no epoch begins, and of two accesses that advance alike and come to
//! the same cell the one that is ahead comes there first. Where the order could not be kept so (the
//! two advance differently, and meet), or where something is not simple, all executions are looked at
//! one by one. That an access has been taken note of ahead of its time changes nothing then: it is
//! taken note of again by the same thread, which knows no more than before, since what comes to a word
//! that threads synchronise by is not looked at so, and nobody else comes between. It finds itself in
//! the cell, since no two accesses that are looked at so share some of their bytes and not all.

use unspool_events::{AccessFlags, Executions, ThreadId};

use super::Detector;
use crate::call_paths::ContextId;
use crate::races::cell::{Bytes, Cell, Record, Splits};
use crate::races::clock::{Epoch, VectorClock};
use crate::races::lanes::{Advance, Lane, STAYS};
use crate::races::plans::Stretch;
use crate::races::shadow::{PAGE, Page, Shadow};

/// Executions that are worth it.
pub(super) const LEAST: usize = 4;

impl Detector {
    /// Looks at `count` executions from number `first` on, whose addresses advance evenly. Returns
    /// false if they are still to be looked at, one by one.
    pub(super) fn run(
        &mut self,
        id: ThreadId,
        executions: &Executions<'_>,
        (first, count): (usize, usize),
        context: ContextId,
    ) -> bool {
        let execution = executions.get(first);
        let accesses = execution.accesses();
        let is_call = |flags: AccessFlags| flags.contains(AccessFlags::RETURN_ADDRESS);
        if accesses.iter().any(|access| is_call(access.flags)) {
            return false;
        }
        if self.is_alone() {
            return true;
        }
        let Some(thread) = self.threads.get(id).filter(|thread| !thread.is_told) else {
            return false;
        };
        let plan = self.plans.of(Stretch {
            code: execution.code(),
            first: 0,
            context,
        });
        if plan.quiet < accesses.len() {
            return false;
        }
        let words = [execution.words(), executions.get(first + 1).words()];
        let lanes = plan.lanes.get_or_insert_default();
        let Some(lanes) = lanes.of_run((accesses, &plan.sites), words, count) else {
            return false;
        };
        // Behind a word the thread may know more: what it does then hides more.
        if lanes
            .iter()
            .any(|(lane, new)| *new != 0 && lane.comes_to_words(*new, &mut self.shadow))
        {
            return false;
        }
        let epoch = thread.epoch();
        for (lane, new) in lanes {
            if !lane.look(*new, epoch, &thread.clock, &mut self.shadow) {
                return false;
            }
        }
        let looked_at = (accesses.len() * count) as u64;
        self.moment.number += looked_at;
        self.checked += looked_at;
        true
    }
}

impl Lane {
    /// Whether threads synchronise by one of the cells that it comes to, or by one between them.
    fn comes_to_words(&self, count: usize, shadow: &mut Shadow) -> bool {
        let (first, last) = self.ends(count);
        let (first, last) = (first & !7, last & !7);
        let apart = match self.advance {
            Advance::Cells(advance) if advance != 0 => advance.unsigned_abs(),
            _ => 8,
        };
        by_page(first, apart, (last - first) / apart + 1).any(|(at, here)| {
            let (page, _) = shadow.page(at);
            page.has_synchronising(at, apart * (here - 1) + 8)
        })
    }

    /// Takes note of it in so many executions. Returns false where something is not simple.
    fn look(&self, count: usize, epoch: Epoch, clock: &VectorClock, shadow: &mut Shadow) -> bool {
        let record = |bytes| Record::new(epoch, bytes, self.is_write, self.site);
        match self.advance {
            STAYS => look_at_cells(self.start, 8, 1, record(self.bytes), clock, shadow),
            Advance::Cells(advance) => {
                let (first, _) = self.ends(count.max(1));
                let apart = advance.unsigned_abs();
                look_at_cells(first, apart, count, record(self.bytes), clock, shadow)
            }
            Advance::Elements(size) => {
                let (first, last) = self.ends(count);
                let size = size.unsigned_abs();
                let end = last + size;
                let (whole, rest) = (first.next_multiple_of(8).min(end), end & !7);
                let mut element = |at: u64| {
                    let bytes = ((1_u16 << size) - 1) << (at % 8);
                    look_at_cells(at & !7, 8, 1, record(bytes as Bytes), clock, shadow)
                };
                let by = size as usize;
                if !(first..whole).step_by(by).all(&mut element)
                    || !(rest.max(whole)..end).step_by(by).all(&mut element)
                {
                    return false;
                }
                let count = rest.saturating_sub(whole) / 8;
                let new = record(Bytes::MAX);
                look_at_elements(whole, count as usize, size, new, clock, shadow)
            }
        }
    }
}

/// Of so many addresses, which are so far apart, from the lowest one on: the first one in each page, and
/// how many there are in it.
fn by_page(first: u64, apart: u64, count: u64) -> impl Iterator<Item = (u64, u64)> {
    let (mut at, mut left) = (first, count);
    std::iter::from_fn(move || {
        let here = ((PAGE - 1 - at % PAGE) / apart + 1).min(left);
        let first = at;
        // Behind the last one there may be no address.
        at = at.wrapping_add(apart * here);
        left -= here;
        (here != 0).then_some((first, here))
    })
}

/// Whether something holds for so many cells, which are so far apart, from the lowest one on; those
/// behind the first for which it does not hold are not asked for.
fn all_cells(
    (first, apart, count): (u64, u64, usize),
    shadow: &mut Shadow,
    mut holds: impl FnMut(&mut Cell, &mut Splits) -> bool,
) -> bool {
    by_page(first, apart, count as u64).all(|(at, here)| {
        let (page, splits) = shadow.page(at);
        let cells = page.cells[Page::cell(at)..].iter_mut();
        let mut cells = cells.step_by((apart / 8) as usize).take(here as usize);
        cells.all(|cell| holds(cell, splits))
    })
}

/// Takes note of an access to so many cells, which are so far apart, from the lowest one on.
fn look_at_cells(
    first: u64,
    apart: u64,
    count: usize,
    new: Record,
    clock: &VectorClock,
    shadow: &mut Shadow,
) -> bool {
    let mut last = None;
    all_cells((first, apart, count), shadow, |cell, splits| {
        cell.becomes_like(last)
            || note(cell, &mut last, |cell| {
                cell.stands_for(new)
                    || cell.access_simply(new, clock)
                    || cell.access_in_order(new, clock, splits)
            })
    })
}

/// Takes note of an access to a cell by `access`. If that is simple, `last` is what it has become of which.
#[inline]
fn note(
    cell: &mut Cell,
    last: &mut Option<(Cell, Cell)>,
    access: impl FnOnce(&mut Cell) -> bool,
) -> bool {
    let before = *cell;
    let is_simple = access(cell);
    *last = (is_simple && !before.is_split() && !cell.is_split()).then_some((before, *cell));
    is_simple
}

/// Takes note of an access to elements of so many bytes that fill so many cells. `new` is a record of
/// a whole cell.
fn look_at_elements(
    first: u64,
    count: usize,
    size: u64,
    new: Record,
    clock: &VectorClock,
    shadow: &mut Shadow,
) -> bool {
    let mut last = None;
    all_cells((first, 8, count), shadow, |cell, splits| {
        cell.becomes_like(last)
            || note(cell, &mut last, |cell| {
                // All elements together are as one where nothing tells them apart.
                if cell.stands_for(new) || (cell.is_whole() && cell.access_simply(new, clock)) {
                    return true;
                }
                (0..8).step_by(size as usize).all(|element| {
                    let bytes = ((1_u16 << size) - 1) << element;
                    cell.access_in_order(new.of_bytes(bytes as Bytes), clock, splits)
                })
            })
    })
}
