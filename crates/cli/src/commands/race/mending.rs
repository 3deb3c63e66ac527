//! Which lock would order the accesses of a race: one that is held at one of them already.

use serde_json::{Value, json};
use unspool_analyses::races::RacingAccess;

use super::described_race::DescribedRace;
use super::locks::DescribedUse;
use super::stacks::Stack;

/// A lock that would order both accesses if it were held at one of them as it is at the other.
#[derive(Debug)]
pub(super) struct Mending<'a> {
    lock: &'a DescribedUse,
    /// Whether it is the second access that lacks it.
    at_second: bool,
    /// Whether it is held there already, to read only.
    to_write: bool,
    access: &'a RacingAccess,
    stack: &'a Stack,
}

impl DescribedRace {
    /// The locks that would, of those that are known: such as exclude others and are held at one access
    /// only; and such as both hold to read, of which the one that writes should hold it to write.
    pub(super) fn mended_by(&self) -> Vec<Mending<'_>> {
        let [Some(at_first), Some(at_second)] = &self.locks else {
            return Vec::new();
        };
        let mut all = Vec::new();
        for (held, other, at_second) in [(at_first, at_second, true), (at_second, at_first, false)]
        {
            let (access, stack) = self.sides()[usize::from(at_second)];
            for lock in held {
                let same = other.iter().find(|one| one.is_of(lock));
                let would_order = match same {
                    None => !lock.is_shared,
                    Some(same) => lock.is_shared && same.is_shared && access.writes,
                };
                if would_order {
                    all.push(Mending {
                        lock,
                        at_second,
                        to_write: same.is_some(),
                        access,
                        stack,
                    });
                }
            }
        }
        all
    }
}

impl Mending<'_> {
    /// As a sentence.
    pub(super) fn text(&self) -> String {
        let lock = self.lock.name();
        let thread = self.access.thread;
        let place = self.stack.headline();
        let place = place.map_or_else(String::new, |frame| format!(" in {}", frame.text()));
        match self.to_write {
            true => format!(
                "{lock}, held to write by thread {thread}{place}, would order the two: it is held to read"
            ),
            false => format!("{lock}, held by thread {thread}{place} too, would order the two"),
        }
    }

    pub(super) fn as_json(&self) -> Value {
        let mut lock = self.lock.as_json();
        if let Value::Object(fields) = &mut lock {
            fields.remove("stack");
            fields.remove("is_shared");
        }
        lock["at"] = json!(if self.at_second { "second" } else { "first" });
        lock["to_write"] = json!(self.to_write);
        lock
    }
}
