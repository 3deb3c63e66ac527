//! Single steps: whose trap flag is set in a thread, and what a trap means.
//!
//! Two ask for single steps: the engine, which brings a thread to the next boundary between two
//! of the program's instructions, and the program itself or its debugger, who want a trap behind
//! each instruction. The translation of one instruction may be many, so the processor's traps are
//! counted here, and [`Steps`] says which of them the program sees. The machine is pure;
//! `stepping/tests.rs` walks through its states.

#[cfg(test)]
mod tests;

use unspool_code_cache::address::CacheAddress;

/// For whom a trap is due behind an instruction. That is known when the instruction is over, and
/// not any more when the trap is given: the instruction may have cleared the program's flag, and
/// the debugger may have gone.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct TrapDue {
    /// The program's trap flag was set.
    pub program: bool,
    /// A debugger steps the thread.
    pub debugger: bool,
}

impl TrapDue {
    /// Whether it is due at all.
    #[must_use]
    #[inline]
    pub(crate) fn is_due(self) -> bool {
        self.program || self.debugger
    }
}

/// Where a trap has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Location {
    /// Between two instructions of translated code.
    Translated,
    /// On the way from the engine to translated code.
    Entering,
    /// On the way out.
    Leaving,
}

/// What is to be done about a trap.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Trap {
    /// See whether the thread can leave here: [`Steps::look`].
    Look,
    /// Go on with the trap flag.
    StepOn,
    /// Go on without: the thread leaves by itself, and sees that something is pending.
    Run,
}

/// A place in translated code where the thread could leave.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Boundary {
    /// Where the fragment's prologue ends, if the place is in it: the instruction has not begun
    /// before.
    pub(crate) prologue_end: Option<CacheAddress>,
}

/// What a look at a place says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Look {
    /// The thread leaves here, with a trap for the program or without.
    Leave {
        /// The program's trap flag is set, and it has executed an instruction.
        trap: bool,
    },
    /// It is stepped on.
    StepOn,
}

/// The single steps of one thread.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Steps {
    /// Whether the thread is being stepped to a boundary.
    is_stepping: bool,
    /// Whether the program has set its trap flag.
    pub program_flag: bool,
    /// Whether the step that is being made pushes the flags, and with them a trap flag that is
    /// not the program's.
    pushes_flags: bool,
    /// Where the one instruction begins that is stepped over for the program or its debugger, or
    /// nowhere once the thread has come there.
    from: CacheAddress,
    /// Who gets a trap behind the instruction that is over.
    pub due: TrapDue,
}

impl Steps {
    /// Something is pending in the middle of a fragment: steps to the next boundary.
    pub(crate) fn step_out(&mut self) {
        self.is_stepping = true;
    }

    /// The instruction whose translation is at `from` is stepped over.
    pub(crate) fn step_over(&mut self, from: CacheAddress) {
        self.is_stepping = true;
        self.from = from;
    }

    /// Whether a trap is expected.
    #[must_use]
    pub(crate) fn is_stepping(&self) -> bool {
        self.is_stepping
    }

    /// Whether the instruction just stepped has pushed a trap flag that is not the program's.
    pub(crate) fn has_pushed_flags(&mut self) -> bool {
        std::mem::take(&mut self.pushes_flags)
    }

    /// A trap has come, with the trap flag still set or not; `debugger` says whether a debugger
    /// steps the thread.
    pub(crate) fn trapped(&mut self, place: Location, is_set: bool, debugger: bool) -> Trap {
        if !self.is_stepping {
            // The program's own `popf` has set the flag, and is on its way out of the cache. A
            // trap in the gates has no such cause: whatever it is, nobody waits for it.
            self.program_flag |= place != Location::Entering;
            return Trap::Run;
        }
        if self.program_flag && !is_set {
            // The program's `popf` has taken its flag away, and this is the trap behind it.
            self.program_flag = false;
            self.due.program = true;
        }
        match place {
            Location::Translated => Trap::Look,
            Location::Entering => Trap::StepOn,
            Location::Leaving => {
                self.is_stepping = false;
                if !self.from.is_somewhere() {
                    self.due.program |= self.program_flag;
                    self.due.debugger |= debugger;
                }
                Trap::Run
            }
        }
    }

    /// The thread is at a place in translated code, where it can leave or not. `pushes_flags`:
    /// the instruction there is `pushf`.
    pub(crate) fn look(
        &mut self,
        at: CacheAddress,
        boundary: Option<Boundary>,
        debugger: bool,
        has_signal: bool,
        pushes_flags: impl FnOnce() -> bool,
    ) -> Look {
        let wanted = self.program_flag || debugger;
        let has_not_begun = wanted && self.from == at && !has_signal;
        match boundary {
            Some(_) if !has_not_begun => {
                self.is_stepping = false;
                return Look::Leave {
                    trap: self.program_flag && !has_signal,
                };
            }
            Some(boundary) => self.from = boundary.prologue_end.unwrap_or_default(),
            None => {}
        }
        self.is_stepping = true;
        self.pushes_flags = !self.program_flag && pushes_flags();
        Look::StepOn
    }

    /// The thread leaves the cache for another reason. Returns whether it was being stepped:
    /// then what the steps were to lead to is still to be done.
    pub(crate) fn left(&mut self) -> bool {
        self.pushes_flags = false;
        std::mem::take(&mut self.is_stepping)
    }

    /// The thread has left behind a `popf`.
    pub(crate) fn flags_popped(&mut self, debugger: bool) {
        // One that was taken away while it was in force still causes the trap behind it.
        if std::mem::take(&mut self.is_stepping) {
            self.due.program |= std::mem::take(&mut self.program_flag);
            self.due.debugger |= debugger;
        }
    }

    /// The thread goes on in the middle of an instruction, which is not over; only a `popf` that
    /// took the flag away is.
    pub(crate) fn goes_on_mid_fragment(&mut self) {
        self.due.program &= !self.program_flag;
        self.due.debugger = false;
    }
}
