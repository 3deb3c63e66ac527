//! Accesses as executions of code: where most accesses are looked at. What is not simple is left to
//! the functions that take accesses one by one, which say what each means; here is the same for
//! those that touch one page, no word that threads synchronise by, conflict with nothing and begin
//! no epoch.

use unspool_events::{AccessFlags, AccessKind, Execution, Executions, PlainAccess, ThreadId};

use super::{Detector, runs};
use crate::call_paths::{CallPaths, Follower};
use crate::races::cell::{Bytes, Record};
use crate::races::clock::{Epoch, VectorClock};
use crate::races::plans::{Plan, Plans, Stretch};
use crate::races::shadow::{Page, Shadow, parts};
use crate::races::sites::{Origin, SiteId, Sites};

/// How far executions have been looked at.
#[derive(Debug, Default)]
struct Place {
    /// The execution.
    number: usize,
    /// The first access of its stretch.
    first: usize,
    /// The next access.
    next: usize,
    /// Executions before this one are known to be no run.
    no_run_before: usize,
}

/// Why executions are not looked at any further.
enum Stop {
    /// There are no more.
    End,
    /// So many that follow may be a run.
    Run(usize),
    /// The next access is not simple.
    NotSimple,
}

impl Detector {
    /// Executions of one thread that follow each other, or of a part that it executes.
    pub(in crate::races) fn executions(
        &mut self,
        (thread, id): (ThreadId, ThreadId),
        executions: &Executions<'_>,
        paths: &mut CallPaths,
    ) {
        let mut path = paths.thread(thread);
        let mut place = Place::default();
        while place.number < executions.len() {
            if self.is_alone() {
                place.pass(executions, &mut path);
                continue;
            }
            match self.simple(id, executions, &mut place, &mut path) {
                Stop::End => break,
                Stop::Run(count) => {
                    let run = (place.number, count);
                    match self.run(id, executions, run, path.context()) {
                        true => place.number += count,
                        false => place.no_run_before = place.number + count,
                    }
                }
                Stop::NotSimple => {
                    let execution = executions.get(place.number);
                    let Some(access) = execution.accesses().get(place.next) else {
                        place.go_on();
                        continue;
                    };
                    self.follow(id, &[execution.access(access)], &mut path, &mut ());
                    place.next += 1;
                    if is_call(access) {
                        place.first = place.next;
                    }
                }
            }
        }
        let last = executions.get(executions.len() - 1);
        if let Some(last) = last.accesses().last() {
            path.is_at(last.pc);
        }
        self.stay_in_bounds();
    }

    /// Looks at what comes next, as long as it is simple and may be no run.
    fn simple(
        &mut self,
        id: ThreadId,
        executions: &Executions<'_>,
        place: &mut Place,
        path: &mut Follower<'_>,
    ) -> Stop {
        let Some(thread) = self.threads.get(id).filter(|thread| !thread.is_told) else {
            return Stop::NotSimple;
        };
        let mut simply = Simply {
            epoch: thread.epoch(),
            clock: &thread.clock,
            plans: &mut self.plans,
            sites: &mut self.sites,
            shadow: &mut self.shadow,
            noted: 0,
        };
        let stop = simply.look(executions, place, path);
        self.moment.number += simply.noted;
        self.checked += simply.noted;
        stop
    }
}

impl Place {
    /// The rest of the execution meets nobody.
    fn pass(&mut self, executions: &Executions<'_>, path: &mut Follower<'_>) {
        let execution = executions.get(self.number);
        path.executes(&execution, &execution.accesses()[self.next..]);
        self.go_on();
    }

    /// To the next execution.
    fn go_on(&mut self) {
        self.number += 1;
        (self.first, self.next) = (0, 0);
    }
}

/// A thread in one epoch, and what simple accesses of it change.
struct Simply<'a> {
    epoch: Epoch,
    clock: &'a VectorClock,
    plans: &'a mut Plans,
    sites: &'a mut Sites,
    shadow: &'a mut Shadow,
    /// Accesses that were taken note of.
    noted: u64,
}

impl Simply<'_> {
    fn look(
        &mut self,
        executions: &Executions<'_>,
        place: &mut Place,
        path: &mut Follower<'_>,
    ) -> Stop {
        while place.number < executions.len() {
            if place.next == 0 && place.number >= place.no_run_before {
                let run = executions.even_run(place.number);
                if run >= runs::LEAST {
                    return Stop::Run(run);
                }
                place.no_run_before = place.number + run;
            }
            let execution = executions.get(place.number);
            let accesses = execution.accesses();
            while place.next < accesses.len() {
                let stretch = Stretch {
                    code: execution.code(),
                    first: place.first as u32,
                    context: path.context(),
                };
                let before = place.next;
                let is_simple = self.stretch(&execution, stretch, &mut place.next);
                self.noted += (place.next - before) as u64;
                if !is_simple {
                    return Stop::NotSimple;
                }
                if let Some(call) = accesses.get(place.next.wrapping_sub(1))
                    && is_call(call)
                {
                    path.access(&execution.access(call));
                }
                place.first = place.next;
            }
            place.go_on();
        }
        Stop::End
    }

    /// Looks at accesses of a stretch from number `next` on, as long as they are simple. Returns
    /// whether all of them are.
    #[inline]
    fn stretch(&mut self, execution: &Execution<'_>, stretch: Stretch, next: &mut usize) -> bool {
        let words = execution.words();
        let first = stretch.first as usize;
        let of_stretch = &execution.accesses()[first..];
        let plan = self.plans.of(stretch);
        let mut number = *next - first;
        if number == 0 {
            number = plan
                .together
                .stand(of_stretch.len(), words, self.epoch, self.shadow);
            if number == of_stretch.len() || (number != 0 && is_call(&of_stretch[number - 1])) {
                *next = first + number;
                return true;
            }
        }
        let is_simple = loop {
            if number == of_stretch.len() {
                break true;
            }
            let access = &of_stretch[number];
            let Some(site) = plan.site(number, of_stretch, stretch, self.sites) else {
                break false;
            };
            let (address, by) = (access.address(words), (self.epoch, site));
            if !note_simply(access, address, by, self.clock, self.shadow) {
                break false;
            }
            number += 1;
            if is_call(access) {
                break true;
            }
        };
        if is_simple && number == plan.quiet {
            plan.together.meet(&of_stretch[..number]);
        }
        *next = first + number;
        is_simple
    }
}

fn is_call(access: &PlainAccess) -> bool {
    access.flags.contains(AccessFlags::RETURN_ADDRESS)
}

/// Which bytes of its cell a range has, if it lies in one.
#[inline]
fn few_bytes(address: u64, size: u64) -> Option<Bytes> {
    let low = address % 8;
    (low + size <= 8).then(|| (((1_u16 << size) - 1) << low) as Bytes)
}

impl Plan {
    /// The site of one of the stretch's accesses, if that begins no epoch.
    #[inline]
    fn site(
        &mut self,
        number: usize,
        accesses: &[PlainAccess],
        stretch: Stretch,
        sites: &mut Sites,
    ) -> Option<SiteId> {
        if number < self.quiet {
            return Some(self.sites[number]);
        }
        // Those before it were executed, too.
        while let known = self.sites.len()
            && known <= number
        {
            let access = &accesses[known];
            let origin = Origin::Instruction(access.pc);
            let site = sites.number(origin, u64::from(access.size), stretch.context);
            self.sites.push(site);
        }
        let site = self.sites[number];
        if accesses[number].kind == AccessKind::Write && sites.will_stand_apart(site) {
            return None;
        }
        if number == self.quiet {
            self.quiet += 1;
        }
        Some(site)
    }
}

/// Takes note of an access if that is simple, and returns whether it is. If it is not, it is still to be
/// taken note of, as if this had not been called.
#[inline]
fn note_simply(
    access: &PlainAccess,
    address: u64,
    (epoch, site): (Epoch, SiteId),
    clock: &VectorClock,
    shadow: &mut Shadow,
) -> bool {
    let size = u64::from(access.size);
    if !Page::holds(address, size) {
        return false;
    }
    let is_write = access.kind == AccessKind::Write;
    let (page, splits) = shadow.page(address);
    let mut note = |page: &mut Page, cell: u64, bytes| {
        let new = Record::new(epoch, bytes, is_write, site);
        let cell = &mut page.cells[Page::cell(cell)];
        cell.stands_for(new)
            || cell.access_simply(new, clock)
            || cell.access_in_order(new, clock, splits)
    };
    if let Some(bytes) = few_bytes(address, size) {
        return !page.is_synchronising(address) && note(page, address, bytes);
    }
    // Where one of the cells is not simple, those before it stand for the same access.
    !page.has_synchronising(address, size)
        && parts(address, size).all(|(cell, bytes)| note(page, cell, bytes))
}
