//! Where a function's frame is, found from its instructions alone.
//!
//! The function is followed in the order of its addresses, with what each general register is worth
//! at each instruction: what it was at the function's entry, or a distance from the canonical frame
//! address, or from a stack pointer that was aligned. At a branch the state is kept for its target,
//! where ways meet what they agree on stays. The walk is repeated until nothing changes.
//!
//! Code to which no branch leads that can be seen (behind a jump through a table, or where an
//! exception lands) begins with a guess: the state at the last jump through a register or memory,
//! else the frame that the prologue has built. A guess under which a `ret` would not find the return
//! address is mended: the stack pointer at its beginning is moved by what is missing.
//!
//! Sources: N. R. Tallent, J. Mellor-Crummey, M. W. Fagan, "Binary analysis for measurement and
//! attribution of program performance", PLDI 2009, sections 3.1 and 3.2 (recipes, the canonical
//! frame, and its use at returns); the state at each address and the meeting of ways are those of
//! any data-flow analysis.

mod effect;
mod state;
#[cfg(test)]
mod tests;

use std::ops::Range;

use unspool_instructions::decode::{Encoding, Instruction, Kind};

use crate::module::ImageCode;
use crate::recipe::Recipe;
use effect::effect;
use state::State;

/// How often a function is followed at most. Nearly all are the same after the second time.
const MOST_PASSES: usize = 4;
/// Branch targets of one function of which the state is kept, unless said otherwise.
const LABELS: usize = 2048;

/// A function: its code from its entry to its end.
#[derive(Debug, Clone)]
pub struct FunctionCode<'a> {
    /// Code that holds it.
    pub code: &'a ImageCode<'a>,
    /// Its addresses.
    pub range: Range<u64>,
}

/// What is known where a branch leads to.
#[derive(Clone, Copy)]
struct Label {
    address: u64,
    state: State,
    /// Whether it follows from a guess.
    is_guess: bool,
}

/// The room in which functions are analysed. Once made, it allocates nothing.
pub struct Analysis {
    labels: Vec<Label>,
    changed: bool,
}

impl Default for Analysis {
    fn default() -> Analysis {
        Analysis::with_labels(LABELS)
    }
}

/// The state of the walk over a function.
struct Walk {
    /// What is known before the next instruction, unless control does not come there from the one
    /// before.
    state: Option<State>,
    /// The guess from which the state follows, and where it was made.
    guess: Option<(u64, State)>,
    /// Whether the instruction before is a call, which perhaps never returns.
    is_behind_call: bool,
    /// The frame that the prologue has built.
    canonical: State,
    /// The state at the last indirect jump.
    jump: Option<State>,
}

impl Analysis {
    /// With room for so many branch targets in one function; what is known at others is forgotten.
    #[must_use]
    pub fn with_labels(count: usize) -> Analysis {
        Analysis {
            labels: Vec::with_capacity(count),
            changed: false,
        }
    }

    /// The recipe for the instruction at `address`, or around it, if there is one.
    pub fn recipe(&mut self, function: &FunctionCode<'_>, address: u64) -> Option<Recipe> {
        self.settle(function);
        let mut found = None;
        self.pass(function, &mut |instruction, length, state| {
            if address < instruction + length {
                found = state.recipe();
                return false;
            }
            true
        });
        found
    }

    /// Follows the function until nothing changes.
    fn settle(&mut self, function: &FunctionCode<'_>) {
        self.labels.clear();
        for _ in 0..MOST_PASSES {
            self.changed = false;
            self.pass(function, &mut |_, _, _| true);
            if !self.changed {
                break;
            }
        }
    }

    /// Follows the function once. `visit` gets address and length of each instruction and what is
    /// known before it, and says whether to go on.
    fn pass(
        &mut self,
        function: &FunctionCode<'_>,
        visit: &mut dyn FnMut(u64, u64, &State) -> bool,
    ) {
        let mut walk = Walk {
            state: Some(State::at_entry()),
            guess: None,
            is_behind_call: false,
            canonical: State::at_entry(),
            jump: None,
        };
        let mut address = function.range.start;
        while address < function.range.end {
            let before = self.arrive(&mut walk, address);
            let Some((instruction, bytes)) = function.code.instruction(address) else {
                return;
            };
            let length = u64::from(instruction.length).max(1);
            if !visit(address, length, &before) {
                return;
            }
            let mut after = before;
            after.apply(effect(&instruction, &bytes, address));
            self.leave(&mut walk, &function.range, &instruction, after);
            address += length;
        }
    }

    /// What is known at an address, where the walk has come.
    fn arrive(&mut self, walk: &mut Walk, address: u64) -> State {
        let label = self.label(address).ok().map(|index| self.labels[index]);
        if let (Some(state), Some(label)) = (walk.state, label)
            && !label.is_guess
            && !walk.is_behind_call
        {
            self.mend(walk, state.missing_to(&label.state));
        }
        match (walk.state, label) {
            (Some(state), None) => state,
            (None, Some(label)) => {
                walk.guess = label.is_guess.then_some((address, label.state));
                label.state
            }
            // A call that never returns has left something else on the way from above.
            (Some(state), Some(label))
                if walk.is_behind_call && state.missing_to(&label.state) != Some(0) =>
            {
                walk.guess = label.is_guess.then_some((address, label.state));
                label.state
            }
            (Some(state), Some(label)) => match (walk.guess.is_some(), label.is_guess) {
                (true, false) => {
                    walk.guess = None;
                    label.state
                }
                (false, true) => state,
                _ => state.met_by(&label.state),
            },
            (None, None) => {
                let guess = walk.jump.unwrap_or(walk.canonical);
                walk.guess = Some((address, guess));
                guess
            }
        }
    }

    /// Where control goes from an instruction, and what is known there.
    fn leave(
        &mut self,
        walk: &mut Walk,
        function: &Range<u64>,
        instruction: &Instruction,
        after: State,
    ) {
        let is_inside = |target: u64| function.contains(&target);
        let is_call = matches!(instruction.kind, Kind::CallDirect | Kind::CallIndirect);
        walk.is_behind_call = is_call || walk.is_behind_call && is_padding(instruction);
        walk.state = Some(after);
        match instruction.kind {
            Kind::Jcc { .. } | Kind::JrcxzOrLoop { .. } => {
                if is_inside(instruction.target) {
                    self.branch(walk, instruction.target, after.if_taken());
                }
                walk.state = Some(after.if_not_taken());
            }
            Kind::JumpDirect => {
                if is_inside(instruction.target) {
                    self.branch(walk, instruction.target, after);
                }
                walk.state = None;
            }
            Kind::JumpIndirect => {
                // At the depth of the entry it is the last act of a function that has a frame.
                if after.missing_at_return() != Some(0)
                    || walk.canonical.missing_at_return() == Some(0)
                {
                    walk.jump = Some(after);
                }
                walk.state = None;
            }
            Kind::Return { .. } => {
                self.mend(walk, after.missing_at_return());
                walk.state = None;
            }
            Kind::FarTransfer | Kind::Ud | Kind::Hlt | Kind::Int3 | Kind::Invalid => {
                walk.state = None;
            }
            _ => walk.remember_frame(&after),
        }
    }

    /// A branch leads to an address in the function with this state.
    fn branch(&mut self, walk: &Walk, target: u64, state: State) {
        if let Ok(index) = self.label(target)
            && !self.labels[index].is_guess
        {
            self.mend(walk, state.missing_to(&self.labels[index].state));
        }
        self.keep(target, state, walk.guess.is_some());
    }

    /// The stack pointer is so many bytes below where it should be, if that is known. If not, the
    /// guess is mended from which that follows.
    fn mend(&mut self, walk: &Walk, missing: Option<i32>) {
        if let (Some((at, guess)), Some(missing)) = (walk.guess, missing)
            && missing != 0
        {
            self.keep(at, guess.with_stack_moved(missing), true);
        }
    }

    fn label(&self, address: u64) -> Result<usize, usize> {
        self.labels
            .binary_search_by_key(&address, |label| label.address)
    }

    /// Keeps what is known where a branch leads to.
    fn keep(&mut self, address: u64, state: State, is_guess: bool) {
        let label = Label {
            address,
            state,
            is_guess,
        };
        match self.label(address) {
            Ok(index) => {
                let known = self.labels[index];
                let new = match (known.is_guess, is_guess) {
                    (false, true) => known,
                    (true, _) => label,
                    (false, false) => Label {
                        state: known.state.met_by(&state),
                        ..known
                    },
                };
                self.changed |= new.state != known.state || new.is_guess != known.is_guess;
                self.labels[index] = new;
            }
            Err(index) if self.labels.len() < self.labels.capacity() => {
                self.labels.insert(index, label);
                self.changed = true;
            }
            Err(_) => {}
        }
    }
}

/// Whether an instruction does nothing, as those do that fill the space before a branch target.
pub(crate) fn is_padding(instruction: &Instruction) -> bool {
    let is_nop = instruction.encoding == Encoding::Legacy
        && matches!((instruction.map, instruction.opcode), (0, 0x90) | (1, 0x1f));
    is_nop || instruction.kind == Kind::Int3
}

impl Walk {
    /// Keeps the state as that of the prologue's end, if its frame is larger than what was before,
    /// or the first with a frame pointer.
    fn remember_frame(&mut self, state: &State) {
        if state.is_larger_than(&self.canonical) {
            self.canonical = *state;
        }
    }
}
