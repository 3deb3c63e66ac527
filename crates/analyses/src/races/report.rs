//! What a race check says.

use serde::Serialize;

use super::predicted::Unpredicted;
use super::program_parts::PartKind;
use super::sites::{Origin, Site};
use crate::call_paths::ContextId;
use crate::heap::HeapBlock;
use crate::locks::LockUse;

/// Everything that was found.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
pub struct RaceReport {
    /// Races that nothing explains, those of most occurrences first.
    pub races: Vec<Race>,
    /// Those that are none if plain moves are atomic of which nothing is known.
    pub possible: Vec<Race>,
    /// Races that missing records may explain.
    pub uncertain: Vec<Race>,
    /// Races that this run has not shown, but another order of the same events does. None are looked
    /// for where it was not asked for, or where records are missing.
    pub predicted: Vec<Race>,
    /// What was not looked at for these, if they were asked for.
    pub unpredicted: Option<Unpredicted>,
    /// Occurrences of pairs of places beyond those that are kept.
    pub beyond: u64,
    /// Accesses that were compared with those of other threads.
    pub accesses_checked: u64,
    /// How often calls are missing from the paths that are told, for want of memory.
    pub calls_missing: u64,
    /// How often what had been seen was forgotten, for want of memory: races may have been missed.
    pub forgotten: u64,
    /// The same, because more threads were there, or tasks that nothing had waited for, than are told
    /// apart.
    pub begun_anew: u64,
    /// Whether the calls of functions that allocate were among the events.
    pub saw_heap: bool,
    /// How often all blocks of the heap were forgotten, for want of memory.
    pub blocks_forgotten: u64,
    /// The threads, by number.
    pub threads: Vec<RacingThread>,
}

/// Two places in the code whose accesses nothing orders.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Race {
    /// The access that came first, in the order of the trace.
    pub first: RacingAccess,
    /// The other one.
    pub second: RacingAccess,
    /// The first byte that both accessed.
    pub address: u64,
    /// How many bytes both accessed from there on, as far as the end of an aligned eight bytes.
    pub bytes: u32,
    /// How often.
    pub occurrences: u64,
    /// When it was first seen, in the order of the trace.
    pub time: u64,
    /// What of the program each access belongs to, where that is less than a thread.
    pub parts: [Option<RacingPart>; 2],
    /// The block of the heap that has the first byte, as it was then, if one is known.
    #[serde(skip)]
    pub block: Option<HeapBlock>,
    /// The locks that the thread of each access held, if that is known.
    #[serde(skip)]
    pub locks: [Option<Vec<LockUse>>; 2],
}

/// One side of a race.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
pub struct RacingAccess {
    /// The thread.
    pub thread: u32,
    /// Whether it writes.
    pub writes: bool,
    /// How many bytes.
    pub size: u16,
    /// The instruction; none where the kernel accesses memory in a system call.
    pub pc: Option<u64>,
    /// The number of the system call.
    pub system_call: Option<u32>,
    /// The calls that led there: see [`super::RaceCheck::calls`].
    #[serde(skip)]
    pub context: ContextId,
}

/// A part of the program that runs by itself, though a thread executes others, too.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
pub struct RacingPart {
    /// What it is.
    pub kind: PartKind,
    /// The thread that has made it.
    pub made_by: u32,
    /// The calls that led to its making: see [`super::RaceCheck::calls`].
    #[serde(skip)]
    pub made_at: ContextId,
}

/// A thread.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct RacingThread {
    /// Its number in the trace.
    pub thread: u32,
    /// The thread that created it.
    pub parent: Option<u32>,
    /// The kernel's number for it.
    pub os_thread: u32,
    /// The name that the program gave it with `unspool_register_thread`.
    pub name: Option<String>,
    /// The calls that led to its creation: see [`super::RaceCheck::calls`].
    #[serde(skip)]
    pub created: ContextId,
}

impl RacingAccess {
    pub(super) fn new(thread: u32, writes: bool, site: Site) -> RacingAccess {
        let (pc, system_call) = match site.origin {
            Origin::Instruction(pc) => (Some(pc), None),
            Origin::SystemCall(number) => (None, Some(number)),
        };
        RacingAccess {
            thread,
            writes,
            size: site.size,
            pc,
            system_call,
            context: site.context,
        }
    }
}
