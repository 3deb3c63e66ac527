//! Teams, and the tasks that they execute: who waits for whom.

use std::collections::BTreeMap;

use rustc_hash::FxHashMap;
use unspool_events::{Dependence, ThreadId};

use super::super::known::Known;
use super::operation::OfTeam;
use crate::call_paths::ContextId;

/// The number of a team.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct TeamId(pub(super) u64);

/// The threads that execute a region. Regions with the same function and data that are active at once
/// count as one: that orders more than the program does.
#[derive(Debug, Default)]
pub(super) struct Team {
    /// What has begun the region, and the calls that led there.
    pub(super) maker: Option<(ThreadId, ContextId)>,
    /// What came before the region.
    pub(super) fork: Known,
    /// What its members have done.
    pub(super) join: Known,
    /// What came before each barrier, by how many came before that.
    barriers: BTreeMap<u64, Known>,
    own: BTreeMap<OfTeam, Known>,
    /// How many wait for its end.
    pub(super) waiting: u32,
}

impl Team {
    /// What comes before the barrier with this number.
    pub(super) fn barrier(&mut self, number: u64) -> Known {
        self.barriers.entry(number).or_default().clone()
    }

    /// Somebody has left the barrier with this number: all have reached it, so all have left those
    /// before.
    pub(super) fn has_left(&mut self, number: u64) {
        while let Some(first) = self.barriers.first_entry()
            && *first.key() < number
        {
            first.remove();
        }
    }

    pub(super) fn own(&mut self, what: OfTeam) -> Known {
        self.own.entry(what).or_default().clone()
    }
}

/// A task that has not ended: explicit, or what a thread of a team executes, or the program outside
/// of all regions.
#[derive(Debug, Default)]
pub(super) struct Task {
    pub(super) team: Option<TeamId>,
    /// How many barriers it has passed, or whoever has made it.
    pub(super) barriers_passed: u64,
    /// What the tasks have done that it has made and that have ended.
    pub(super) children: Known,
    /// The groups in which it makes tasks, the innermost last. The first may be that in which it is.
    pub(super) groups: Vec<Known>,
    pub(super) dependences: FxHashMap<u64, Siblings>,
    /// What it begins behind.
    pub(super) after: Vec<Known>,
    /// Where it is known what it has done when it has ended.
    pub(super) into: Vec<Known>,
    /// Whether tasks that it makes are executed at once.
    pub(super) is_final: bool,
    /// What the sections have done that its thread has executed, and what came before them.
    pub(super) sections: Option<Sections>,
    /// A region that it has begun and whose function it calls itself.
    pub(super) open_region: Option<TeamId>,
}

/// Sections of one construct that one thread executes.
#[derive(Debug, Clone, Default)]
pub(super) struct Sections {
    pub(super) before: Known,
    pub(super) done: Known,
}

/// The last tasks that name an address: those that may run beside one another, and what comes before
/// all of them.
#[derive(Debug)]
pub(super) struct Siblings {
    dependence: Dependence,
    done: Known,
    before: Known,
}

impl Task {
    /// What a task must come behind that depends so on an address and comes next, and where it is noted
    /// what it has done.
    pub(super) fn depend(&mut self, dependence: Dependence, address: u64) -> (Vec<Known>, Known) {
        let siblings = self.dependences.entry(address).or_insert_with(|| Siblings {
            dependence,
            done: Known::default(),
            before: Known::default(),
        });
        if dependence == Dependence::Out || dependence != siblings.dependence {
            *siblings = Siblings {
                dependence,
                before: std::mem::take(&mut siblings.done),
                done: Known::default(),
            };
        }
        let mut before = vec![siblings.before.clone()];
        if dependence == Dependence::MutexInOutSet {
            // Nobody runs beside another: each comes behind those that have run.
            before.push(siblings.done.clone());
        }
        (before, siblings.done.clone())
    }

    /// What comes behind a task that names an address, and waits for that.
    pub(super) fn waited_for(&self, dependence: Dependence, address: u64) -> Vec<Known> {
        let Some(siblings) = self.dependences.get(&address) else {
            return Vec::new();
        };
        let runs_beside = dependence != Dependence::Out && dependence == siblings.dependence;
        let before = siblings.before.clone();
        match runs_beside {
            true => vec![before],
            false => vec![before, siblings.done.clone()],
        }
    }
}

/// A task that was made and has not begun.
#[derive(Debug)]
pub(super) struct Made {
    pub(super) task: Task,
    /// What has made it, and the calls that led there.
    pub(super) maker: (ThreadId, ContextId),
    /// Its data, as the program gave it, and how much that is.
    pub(super) data: (u64, u64),
    /// Blocks of memory that its making has allocated.
    pub(super) blocks: Vec<u64>,
}

/// A loop whose iterations are tasks, which the runtime makes.
#[derive(Debug)]
pub(super) struct TaskLoop {
    pub(super) task: Task,
    /// What came before it was made.
    pub(super) before: Known,
    /// What has made it, and the calls that led there.
    pub(super) maker: (ThreadId, ContextId),
    /// How many bytes stand for each task.
    pub(super) task_bytes: u64,
}

impl Task {
    /// A task of the same kind.
    pub(super) fn like(&self) -> Task {
        Task {
            team: self.team,
            barriers_passed: self.barriers_passed,
            groups: self.groups.clone(),
            after: self.after.clone(),
            into: self.into.clone(),
            is_final: self.is_final,
            ..Task::default()
        }
    }
}
