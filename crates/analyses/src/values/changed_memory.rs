//! What becomes of what is known of memory by other means than accesses: the kernel writes it, maps
//! and unmaps it, or writes to it are missing.

use unspool_events::ThreadId;

use super::mappings::Place;
use super::system_calls::{Effect, MappedObject};
use super::{ValueCheck, overlap};

impl ValueCheck {
    /// The kernel wrote here at some time since the thread's system call began: what others
    /// saw there meanwhile proves nothing.
    pub(super) fn kernel_wrote(&mut self, thread: ThreadId, address: u64, size: u64) {
        let Some(call) = self.calls.get(&thread) else {
            return self.forget(address, size);
        };
        let recent = call.mismatches_before.min(self.report.mismatches.len());
        match call.is_about_mappings() {
            true => self.forget_plain(address, size),
            false => self.forget(address, size),
        }
        let before = self.report.mismatches.len();
        let mut later = self.report.mismatches.split_off(recent);
        later.retain(|mismatch| {
            !overlap(mismatch.address, mismatch.seen.len() as u64, address, size)
        });
        self.report.mismatches.append(&mut later);
        let explained = (before - self.report.mismatches.len()) as u64;
        self.report.mismatch_count -= explained;
        self.report.explained_by_system_calls += explained;
    }

    pub(super) fn apply(&mut self, effect: Effect) {
        match effect {
            Effect::Forget { address, size } => self.forget_plain(address, size),
            Effect::Private { address, size } => {
                self.mappings.remove(address, size);
                self.forget(address, size);
            }
            Effect::Shared { address, size } => {
                self.forget_plain(address, size);
                self.mappings.add_foreign(address, size);
            }
            Effect::Moved {
                from,
                from_size,
                to,
                to_size,
            } => {
                let shared = !self.mappings.is_plain(from, from_size.max(1));
                self.apply(Effect::Private {
                    address: from,
                    size: from_size,
                });
                self.apply(match shared {
                    true => Effect::Shared {
                        address: to,
                        size: to_size,
                    },
                    false => Effect::Private {
                        address: to,
                        size: to_size,
                    },
                });
            }
        }
    }

    /// A range shows an object now.
    pub(super) fn map_object(&mut self, mapped: MappedObject) {
        let MappedObject {
            address,
            size,
            identity,
            offset,
            own,
        } = mapped;
        self.forget_plain(address, size);
        let range = (address, size);
        if let Some((address, size)) = self.mappings.add_object(range, identity, offset, own) {
            self.memory.forget(address, size);
        }
    }

    pub(super) fn forget(&mut self, address: u64, size: u64) {
        for (place, bytes) in self.mappings.places(address, size) {
            if let Place::Own(kept) | Place::Open(kept) = place {
                self.memory.forget(kept, bytes);
            }
        }
        self.report.bytes_forgotten = self.report.bytes_forgotten.saturating_add(size);
    }

    /// The same, but what objects hold stays known: only where they are shown changes.
    fn forget_plain(&mut self, address: u64, size: u64) {
        let mut at = address;
        for (place, bytes) in self.mappings.places(address, size) {
            if place == self.mappings.plain(at) {
                self.memory.forget(at, bytes);
            }
            at = at.wrapping_add(bytes);
        }
        self.report.bytes_forgotten = self.report.bytes_forgotten.saturating_add(size);
    }

    /// Writes may be missing after this time: what was found there says nothing.
    pub(super) fn lose_after(&mut self, time: u64) {
        self.complete_until = self.complete_until.min(time);
        let mismatches = &mut self.report.mismatches;
        let kept = mismatches.len() as u64;
        mismatches.retain(|mismatch| mismatch.time <= time);
        if (mismatches.len() as u64) < kept {
            // Those that are not kept came later still.
            let certain = mismatches.len() as u64;
            self.report.unexplained_after_loss += self.report.mismatch_count - certain;
            self.report.mismatch_count = certain;
        }
    }

    /// Records of a thread are missing before this time.
    pub(super) fn lost(&mut self, thread: ThreadId, time: u64) {
        let before = self.reached.get(&thread).copied().unwrap_or(0);
        self.lose_after(before.min(time));
    }

    /// A thread has created another one, with this number.
    pub(super) fn thread_created(&mut self, number: u64, time: u64) {
        self.has_threads = true;
        // If nothing of the new thread is there, its writes are missing.
        let created = u32::try_from(number).map(ThreadId);
        if !self.threads.is_empty() && created.is_ok_and(|it| !self.threads.contains(&it)) {
            self.lose_after(time);
        }
    }

    pub(super) fn system_call_returns(&mut self, thread: ThreadId, number: u32, result: i64) {
        let Some(call) = self.calls.remove(&thread) else {
            return;
        };
        if call.number != number {
            return;
        }
        if let Some(effect) = call.effect_at_exit(result, &mut self.call_history) {
            self.apply(effect);
        }
        if let Some(mapped) = call.mapped {
            self.map_object(mapped);
        }
    }
}
