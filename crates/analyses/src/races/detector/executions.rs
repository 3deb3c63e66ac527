//! Accesses as executions of code: where most accesses are looked at. What is not simple is left to
//! the functions that take accesses one by one, which say what each means; here is the same for
//! those that touch one page, no word that threads synchronise by, conflict with nothing and begin
//! no epoch.

use unspool_events::{AccessFlags, AccessKind, Execution, Executions, PlainAccess, ThreadId};

use super::{Detector, runs};
use crate::call_paths::{CallPaths, Follower};
use crate::races::cell::Record;
use crate::races::clock::{Epoch, VectorClock};
use crate::races::plans::{Plan, Stretch};
use crate::races::shadow::{Page, Shadow, parts};
use crate::races::sites::{Origin, SiteId, Sites};

/// Where the simple accesses of a stretch ended.
enum End {
    /// With the execution.
    OfExecution,
    /// With a call or return, which is to be followed.
    Call,
    /// Before an access that is not simple.
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
        let mut next = 0;
        while next < executions.len() {
            let run = executions.even_run(next);
            if run >= runs::LEAST && self.run(id, executions, (next, run), path.context()) {
                next += run;
                continue;
            }
            for number in next..next + run {
                self.execution(id, &executions.get(number), &mut path);
            }
            next += run;
        }
        let last = executions.get(executions.len() - 1);
        if let Some(last) = last.accesses().last() {
            path.is_at(last.pc);
        }
        self.stay_in_bounds();
    }

    fn execution(&mut self, id: ThreadId, execution: &Execution<'_>, path: &mut Follower<'_>) {
        let accesses = execution.accesses();
        let (mut first, mut done) = (0, 0);
        while done < accesses.len() {
            if self.is_alone() {
                return path.executes(execution, &accesses[done..]);
            }
            let stretch = Stretch {
                code: execution.code(),
                first: first as u32,
                context: path.context(),
            };
            let before = done;
            let end = self.simple(id, execution, stretch, &mut done);
            self.moment.number += (done - before) as u64;
            self.checked += (done - before) as u64;
            match end {
                End::OfExecution => {}
                End::Call => {
                    path.access(&execution.access(&accesses[done - 1]));
                    first = done;
                }
                End::NotSimple => {
                    let access = &accesses[done];
                    self.follow(id, &[execution.access(access)], path, &mut ());
                    done += 1;
                    if access.flags.contains(AccessFlags::RETURN_ADDRESS) {
                        first = done;
                    }
                }
            }
        }
    }

    /// Looks at accesses of a stretch from number `done` on, as long as they are simple.
    #[inline]
    fn simple(
        &mut self,
        id: ThreadId,
        execution: &Execution<'_>,
        stretch: Stretch,
        done: &mut usize,
    ) -> End {
        let Some(thread) = self.threads.get(id).filter(|thread| !thread.is_told) else {
            return End::NotSimple;
        };
        let epoch = thread.epoch();
        let accesses = execution.accesses();
        let words = execution.words();
        let first = stretch.first as usize;
        let plan = self.plans.of(stretch);
        for access in &accesses[*done..] {
            let number = *done - first;
            let of_stretch = &accesses[first..];
            let Some(site) = plan.site(number, of_stretch, stretch, &mut self.sites) else {
                return End::NotSimple;
            };
            let address = access.address(words);
            if !note_simply(
                access,
                address,
                site,
                epoch,
                &thread.clock,
                &mut self.shadow,
            ) {
                return End::NotSimple;
            }
            *done += 1;
            if access.flags.contains(AccessFlags::RETURN_ADDRESS) {
                return End::Call;
            }
        }
        End::OfExecution
    }
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
    site: SiteId,
    epoch: Epoch,
    clock: &VectorClock,
    shadow: &mut Shadow,
) -> bool {
    let size = u64::from(access.size);
    if !Page::holds(address, size) {
        return false;
    }
    let is_write = access.kind == AccessKind::Write;
    let (page, _) = shadow.page(address);
    let low = address % 8;
    if low + size <= 8 {
        let bytes = ((1_u16 << size) - 1) << low;
        let new = Record::new(epoch, bytes as u8, is_write, site);
        let cell = &mut page.cells[Page::cell(address)];
        return cell.stands_for(new)
            || (!page.is_synchronising(address)
                && page.cells[Page::cell(address)].access_simply(new, clock));
    }
    if page.has_synchronising(address, size) {
        return false;
    }
    // Where one of the cells is not simple, those before it stand for the same access.
    parts(address, size).all(|(cell, bytes)| {
        let new = Record::new(epoch, bytes, is_write, site);
        let cell = &mut page.cells[Page::cell(cell)];
        cell.stands_for(new) || cell.access_simply(new, clock)
    })
}
