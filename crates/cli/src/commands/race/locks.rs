//! Deadlocks and misuse of locks, with names.

use serde_json::{Value, json};
use unspool_analyses::LockReport;
use unspool_analyses::locks::{
    Certainty, Deadlock, LockKind, LockUse, Misuse, MisuseKind, Party, Step, Wanted,
};
use unspool_report::DataPlace;

use super::stacks::{Stack, Stacks};

/// What was found about locks, with names.
#[derive(Debug, Default)]
pub(super) struct DescribedLocks {
    deadlocks: Vec<DescribedDeadlock>,
    misuse: Vec<DescribedMisuse>,
    report: LockReport,
}

#[derive(Debug)]
struct DescribedDeadlock {
    certainty: Certainty,
    time: u64,
    parties: Vec<DescribedParty>,
}

#[derive(Debug)]
struct DescribedParty {
    thread: u32,
    holds: Option<DescribedUse>,
    /// A lock, or the end of a thread, and where it is waited for.
    wants: Result<DescribedUse, (u32, Stack)>,
}

/// A lock, and where it is or was to be taken.
#[derive(Debug, Clone)]
pub(super) struct DescribedUse {
    lock: String,
    address: u64,
    kind: LockKind,
    pub(super) is_shared: bool,
    pub(super) stack: Stack,
}

#[derive(Debug)]
struct DescribedMisuse {
    misuse: Misuse,
    lock: String,
    place: Stack,
    before: Option<(u32, Stack)>,
}

impl DescribedLocks {
    pub(super) fn new(report: LockReport, stacks: &mut Stacks<'_>) -> DescribedLocks {
        let deadlocks = report.deadlocks.iter();
        let deadlocks = deadlocks.map(|deadlock| DescribedDeadlock::new(deadlock, stacks));
        let deadlocks = deadlocks.collect();
        let misuse = report.misuse.iter().map(|misuse| {
            let mut stack = |step: &Step| stacks.stack(None, step.context);
            let place = stack(&misuse.place);
            let before = misuse.before.map(|step| (step.thread, stack(&step)));
            DescribedMisuse {
                misuse: misuse.clone(),
                lock: name(misuse.lock, stacks),
                place,
                before,
            }
        });
        DescribedLocks {
            misuse: misuse.collect(),
            deadlocks,
            report,
        }
    }

    /// Whether anything was found that the status is to tell.
    pub(super) fn has_findings(&self) -> bool {
        !self.deadlocks.is_empty() || !self.misuse.is_empty()
    }

    /// For people; nothing where functions that lock were not looked at.
    pub(super) fn text(&self) -> String {
        if !self.report.saw_functions {
            return String::new();
        }
        let mut text = match (self.deadlocks.len(), self.misuse.len()) {
            (0, 0) => "\nno deadlocks, and no misuse of locks\n".to_owned(),
            (deadlocks, misuse) => {
                format!("\ndeadlocks: {deadlocks}, misuse of locks: {misuse}\n")
            }
        };
        for deadlock in &self.deadlocks {
            text += &deadlock.text();
        }
        for misuse in &self.misuse {
            text += &misuse.text();
        }
        if self.report.beyond > 0 {
            text += &format!("and {} findings that were not kept\n", self.report.beyond);
        }
        if self.report.is_cut_short {
            text += "the search for possible deadlocks was ended before it had gone everywhere\n";
        }
        text
    }

    pub(super) fn deadlocks_as_json(&self) -> Vec<Value> {
        let one = |deadlock: &DescribedDeadlock| {
            let parties = deadlock.parties.iter().map(DescribedParty::as_json);
            json!({
                "is_actual": deadlock.certainty == Certainty::Happened,
                "is_predicted": deadlock.certainty == Certainty::Predicted,
                "time": deadlock.time,
                "threads": parties.collect::<Vec<_>>(),
            })
        };
        self.deadlocks.iter().map(one).collect()
    }

    pub(super) fn misuse_as_json(&self) -> Vec<Value> {
        let one = |described: &DescribedMisuse| {
            let misuse = &described.misuse;
            let before = described.before.as_ref();
            json!({
                "kind": label(misuse.kind),
                "object": described.lock,
                "address": misuse.lock.0,
                "lock": misuse.lock.1.name(),
                "thread": misuse.place.thread,
                "stack": described.place.as_json(),
                "before": before.map(|(thread, stack)| {
                    json!({"thread": thread, "stack": stack.as_json()})
                }),
                "occurrences": misuse.occurrences,
                "time": misuse.time,
            })
        };
        self.misuse.iter().map(one).collect()
    }

    /// Whether functions that lock were looked at.
    pub(super) fn were_looked_at(&self) -> bool {
        self.report.saw_functions
    }
}

impl DescribedDeadlock {
    fn new(deadlock: &Deadlock, stacks: &mut Stacks<'_>) -> DescribedDeadlock {
        let parties = deadlock.parties.iter();
        let parties = parties.map(|party| DescribedParty::new(party, stacks));
        DescribedDeadlock {
            certainty: deadlock.certainty,
            time: deadlock.time,
            parties: parties.collect(),
        }
    }

    fn text(&self) -> String {
        let what = match self.certainty {
            Certainty::Happened => "deadlock: each of these threads waits for the next",
            Certainty::Predicted => {
                "predicted deadlock: another order of the same events has each of these threads wait for \
                 the next"
            }
            Certainty::Possible => {
                "possible deadlock: in another schedule each of these threads may wait for the next"
            }
        };
        let mut text = format!("\n- {what}\n");
        for party in &self.parties {
            let thread = party.thread;
            if let Some(held) = &party.holds {
                text += &format!(
                    "     thread {thread} has {}, taken{}\n",
                    held.text(),
                    at(&held.stack)
                );
                text += &held.stack.lines("         ");
            }
            let (wanted, stack) = match &party.wants {
                Ok(wanted) => (wanted.text(), &wanted.stack),
                Err((end, stack)) => (format!("the end of thread {end}"), stack),
            };
            text += &format!("     thread {thread} wants {wanted}{}\n", at(stack));
            text += &stack.lines("         ");
        }
        text
    }
}

impl DescribedParty {
    fn new(party: &Party, stacks: &mut Stacks<'_>) -> DescribedParty {
        let holds = party.holds.map(|held| DescribedUse::new(held, stacks));
        let wants = match party.wants {
            Wanted::Lock(wanted) => Ok(DescribedUse::new(wanted, stacks)),
            Wanted::End { thread, context } => Err((thread, stacks.stack(None, context))),
        };
        DescribedParty {
            thread: party.thread,
            holds,
            wants,
        }
    }

    fn as_json(&self) -> Value {
        let wants = match &self.wants {
            Ok(wanted) => wanted.as_json(),
            Err((thread, stack)) => json!({"end_of_thread": thread, "stack": stack.as_json()}),
        };
        json!({
            "thread": self.thread,
            "holds": self.holds.as_ref().map(DescribedUse::as_json),
            "wants": wants,
        })
    }
}

impl DescribedUse {
    pub(super) fn new(used: LockUse, stacks: &mut Stacks<'_>) -> DescribedUse {
        DescribedUse {
            lock: name((used.address, used.kind), stacks),
            address: used.address,
            kind: used.kind,
            is_shared: used.is_shared,
            stack: stacks.of_request(used.context),
        }
    }

    /// What it is called.
    pub(super) fn name(&self) -> &str {
        &self.lock
    }

    /// Whether another use is of the same lock.
    pub(super) fn is_of(&self, other: &DescribedUse) -> bool {
        (self.address, self.kind) == (other.address, other.kind)
    }

    pub(super) fn text(&self) -> String {
        let shared = if self.is_shared { " (to read)" } else { "" };
        format!("{}{shared}", self.lock)
    }

    pub(super) fn as_json(&self) -> Value {
        json!({
            "object": self.lock,
            "address": self.address,
            "lock": self.kind.name(),
            "is_shared": self.is_shared,
            "stack": self.stack.as_json(),
        })
    }
}

impl DescribedMisuse {
    fn text(&self) -> String {
        let Misuse {
            kind,
            place,
            occurrences,
            ..
        } = &self.misuse;
        let times = match occurrences {
            1 => String::new(),
            times => format!(", {times} times"),
        };
        let mut text = format!("\n- {}: {}{times}\n", sentence(*kind), self.lock);
        text += &format!("     thread {}{}\n", place.thread, at(&self.place));
        text += &self.place.lines("         ");
        if let Some((thread, stack)) = &self.before {
            text += &format!("     before that, thread {thread}{}\n", at(stack));
            text += &stack.lines("         ");
        }
        text
    }
}

/// A lock by its variable, or by its address.
fn name((address, kind): (u64, LockKind), stacks: &mut Stacks<'_>) -> String {
    let DataPlace {
        variable, offset, ..
    } = stacks.places().data(address);
    match variable {
        Some(variable) if offset == 0 => format!("{} {variable}", kind.name()),
        Some(variable) => format!("{} {variable}+{offset}", kind.name()),
        None => format!("{} at {address:#x}", kind.name()),
    }
}

fn at(stack: &Stack) -> String {
    let frame = stack.headline();
    frame.map_or_else(String::new, |frame| format!(" in {}", frame.text()))
}

fn label(kind: MisuseKind) -> &'static str {
    match kind {
        MisuseKind::UnlockOfOthers => "unlock-of-others",
        MisuseKind::UnlockOfFree => "unlock-of-free",
        MisuseKind::LockedTwice => "locked-twice",
        MisuseKind::DestroyedWhileHeld => "destroyed-while-held",
        MisuseKind::UsedAfterDestruction => "used-after-destruction",
        MisuseKind::WaitWithoutLock => "wait-without-lock",
        MisuseKind::HeldAtEnd => "held-at-end",
    }
}

fn sentence(kind: MisuseKind) -> &'static str {
    match kind {
        MisuseKind::UnlockOfOthers => "unlocked by a thread that does not hold it",
        MisuseKind::UnlockOfFree => "unlocked while nobody held it",
        MisuseKind::LockedTwice => "locked again by the thread that holds it",
        MisuseKind::DestroyedWhileHeld => "destroyed while a thread held it",
        MisuseKind::UsedAfterDestruction => "used after its destruction",
        MisuseKind::WaitWithoutLock => {
            "given to a wait for a condition by a thread that does not hold it"
        }
        MisuseKind::HeldAtEnd => "held by a thread that has ended",
    }
}
