//! What is known of registers and saved registers before an instruction.

use super::effect::{Effect, LEAVE};
use crate::recipe::{Cfa, Recipe, Rule};
use crate::registers::{CALLEE_SAVED, RBP, RSP};

/// What a register is worth.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Value {
    /// What the register with this number was at the function's entry.
    Entry(u8),
    /// So many bytes from the canonical frame address.
    Cfa(i32),
    /// So many bytes from the stack pointer where it was aligned.
    Aligned(i32),
    /// Zero, in the frame pointer, whose value at the function's entry is nowhere.
    EndOfStack,
    /// Something else.
    Other,
}

/// Where a register has been saved.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Saved {
    /// The address.
    pub(super) at: Value,
    /// Whether it has been loaded from there since.
    pub(super) is_restored: bool,
}

/// A word from which the canonical frame address follows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Address {
    /// Where the word is.
    pub(super) at: Value,
    /// How far the canonical frame address is behind what the word says.
    pub(super) plus: i32,
}

/// What is known before an instruction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct State {
    /// By DWARF's numbers.
    registers: [Value; 16],
    /// For each of [`CALLEE_SAVED`].
    saved: [Option<Saved>; CALLEE_SAVED.len()],
    /// A word that has the canonical frame address.
    cfa_at: Option<Address>,
    /// Registers that were compared last.
    compared: Option<(u8, u8)>,
    /// Whether the last branch is taken where they were equal.
    equal_if_taken: Option<bool>,
}

impl Value {
    fn plus(self, bytes: i32) -> Value {
        match self {
            Value::Cfa(offset) => offset.checked_add(bytes).map_or(Value::Other, Value::Cfa),
            Value::Aligned(offset) => {
                let sum = offset.checked_add(bytes);
                sum.map_or(Value::Other, Value::Aligned)
            }
            _ if bytes == 0 => self,
            _ => Value::Other,
        }
    }

    fn is_address(self) -> bool {
        matches!(self, Value::Cfa(_) | Value::Aligned(_))
    }
}

fn column(register: u8) -> Option<usize> {
    CALLEE_SAVED.iter().position(|saved| *saved == register)
}

impl State {
    pub(super) fn at_entry() -> State {
        let mut registers: [Value; 16] = std::array::from_fn(|number| Value::Entry(number as u8));
        registers[usize::from(RSP)] = Value::Cfa(-8);
        State {
            registers,
            saved: [None; CALLEE_SAVED.len()],
            cfa_at: None,
            compared: None,
            equal_if_taken: None,
        }
    }

    pub(super) fn get(&self, register: u8) -> Value {
        self.registers[usize::from(register)]
    }

    #[cfg(test)]
    pub(super) fn saved(&self, register: u8) -> Option<Saved> {
        column(register).and_then(|column| self.saved[column])
    }

    #[cfg(test)]
    pub(super) fn cfa_at(&self) -> Option<Address> {
        self.cfa_at
    }

    fn set(&mut self, register: u8, value: Value) {
        self.registers[usize::from(register)] = value;
        if let Some((left, right)) = self.compared
            && (left == register || right == register)
        {
            self.compared = None;
        }
        if register == RSP {
            self.forget_below(value);
        }
    }

    /// What lies below the stack pointer is nobody's, but for the red zone of functions that call
    /// nothing: nothing is saved there that still counts.
    fn forget_below(&mut self, stack: Value) {
        for saved in &mut self.saved {
            let Some(Saved { at, is_restored }) = *saved else {
                continue;
            };
            let is_below = match (at, stack) {
                (Value::Cfa(at), Value::Cfa(stack)) => at < stack,
                (Value::Aligned(at), Value::Aligned(stack)) => at < stack,
                _ => false,
            };
            if is_below && !is_restored {
                *saved = None;
            }
        }
    }

    pub(super) fn apply(&mut self, effect: Effect) {
        let stack = self.get(RSP);
        match effect {
            Effect::Nothing => {}
            Effect::Push(register) => {
                let at = stack.plus(-8);
                self.set(RSP, at);
                if let Some(register) = register {
                    self.store(register, at);
                }
            }
            Effect::PushNextAddress => self.set(RSP, stack.plus(-8)),
            Effect::Pop(register) => {
                if let Some(register) = register {
                    self.load(register, stack);
                }
                if register != Some(RSP) {
                    self.set(RSP, stack.plus(8));
                }
            }
            Effect::Set {
                register,
                from,
                plus,
            } => self.set(register, self.get(from).plus(plus)),
            Effect::Store {
                register,
                base,
                offset,
            } => self.store(register, self.get(base).plus(offset)),
            Effect::Load {
                register,
                base,
                offset,
            } => self.load(register, self.get(base).plus(offset)),
            Effect::Align(RSP) | Effect::Change(RSP) => self.move_stack(),
            Effect::Align(register) | Effect::Change(register) => self.set(register, Value::Other),
            Effect::ZeroFramePointer => {
                let is_lost = self.get(RBP) == Value::Entry(RBP)
                    && column(RBP).is_some_and(|column| self.saved[column].is_none());
                let value = match is_lost {
                    true => Value::EndOfStack,
                    false => Value::Other,
                };
                self.set(RBP, value);
            }
            Effect::ChangeTwo(one, other) => {
                self.set(one, Value::Other);
                self.set(other, Value::Other);
            }
            Effect::Compare(left, right) => self.compared = Some((left, right)),
            Effect::Leave => {
                self.apply(LEAVE.0);
                self.apply(LEAVE.1);
            }
            Effect::Call => self.call(),
            Effect::Branch { if_equal } => self.equal_if_taken = Some(if_equal),
        }
    }

    /// The stack pointer goes down by what cannot be told. From there others are counted, unless
    /// something is counted from such a place already.
    fn move_stack(&mut self) {
        let is_counted = |value: Value| matches!(value, Value::Aligned(_));
        let mut saved = self.saved.iter().flatten();
        let is_used = saved.any(|saved| is_counted(saved.at))
            || self.cfa_at.is_some()
            || is_counted(self.get(RBP));
        if is_used {
            self.set(RSP, Value::Other);
            return;
        }
        for value in &mut self.registers {
            if is_counted(*value) {
                *value = Value::Other;
            }
        }
        self.set(RSP, Value::Aligned(0));
    }

    /// A function was called: it gives back only some registers.
    fn call(&mut self) {
        for register in 0..16 {
            if register != RSP && !CALLEE_SAVED.contains(&register) {
                self.set(register, Value::Other);
            }
        }
        self.compared = None;
    }

    /// A register is stored where `at` is.
    fn store(&mut self, register: u8, at: Value) {
        if !at.is_address() {
            return;
        }
        self.overwrite(at);
        match (self.get(register), at) {
            (Value::Cfa(offset), Value::Aligned(_)) => {
                self.cfa_at = Some(Address {
                    at,
                    plus: offset.wrapping_neg(),
                });
            }
            (Value::Entry(number), _) => {
                if let Some(column) = column(number)
                    && self.saved[column].is_none_or(|saved| saved.is_restored)
                {
                    self.saved[column] = Some(Saved {
                        at,
                        is_restored: false,
                    });
                }
            }
            _ => {}
        }
    }

    /// Something is stored where `at` is.
    fn overwrite(&mut self, at: Value) {
        for saved in &mut self.saved {
            if saved.is_some_and(|saved| saved.at == at) {
                *saved = None;
            }
        }
        if self.cfa_at.is_some_and(|known| known.at == at) {
            self.cfa_at = None;
        }
    }

    /// A register is loaded from where `at` is.
    fn load(&mut self, register: u8, at: Value) {
        let mut value = Value::Other;
        if let Some(known) = self.cfa_at
            && known.at == at
        {
            value = Value::Cfa(known.plus.wrapping_neg());
        }
        for (number, saved) in CALLEE_SAVED.iter().zip(&mut self.saved) {
            if let Some(saved) = saved
                && saved.at == at
            {
                saved.is_restored |= *number == register;
                value = Value::Entry(*number);
            }
        }
        self.set(register, value);
    }

    /// What is known where a conditional branch leads to.
    pub(super) fn if_taken(mut self) -> State {
        self.equate(true);
        self
    }

    /// What is known behind it.
    pub(super) fn if_not_taken(mut self) -> State {
        self.equate(false);
        self
    }

    /// Of two registers that are equal, what is known of one is known of the other.
    fn equate(&mut self, is_taken: bool) {
        if let (Some((left, right)), Some(if_taken)) = (self.compared, self.equal_if_taken)
            && if_taken == is_taken
        {
            match (self.get(left), self.get(right)) {
                (Value::Cfa(offset), Value::Other) => self.set(right, Value::Cfa(offset)),
                (Value::Other, Value::Cfa(offset)) => self.set(left, Value::Cfa(offset)),
                // A loop that goes down to what the other register says was followed once.
                (Value::Cfa(_), Value::Cfa(end)) if left == RSP => self.set(RSP, Value::Cfa(end)),
                (Value::Cfa(end), Value::Cfa(_)) if right == RSP => self.set(RSP, Value::Cfa(end)),
                _ => {}
            }
        }
        self.equal_if_taken = None;
    }

    /// What two ways agree on.
    pub(super) fn met_by(&self, other: &State) -> State {
        let mut met = *self;
        for (one, other) in met.registers.iter_mut().zip(&other.registers) {
            if one != other {
                *one = Value::Other;
            }
        }
        for (one, other) in met.saved.iter_mut().zip(&other.saved) {
            match (&mut *one, other) {
                (Some(saved), Some(other)) if saved.at == other.at => {
                    saved.is_restored &= other.is_restored;
                }
                _ => *one = None,
            }
        }
        if met.cfa_at != other.cfa_at {
            met.cfa_at = None;
        }
        met.compared = None;
        met.equal_if_taken = None;
        met
    }

    /// How many bytes the stack pointer is below where it should be at a `ret`, if that is known.
    pub(super) fn missing_at_return(&self) -> Option<i32> {
        match self.get(RSP) {
            Value::Cfa(offset) => offset.checked_neg()?.checked_sub(8),
            _ => None,
        }
    }

    /// How many bytes the stack pointer is below that of another state, if that is known.
    pub(super) fn missing_to(&self, other: &State) -> Option<i32> {
        match (self.get(RSP), other.get(RSP)) {
            (Value::Cfa(own), Value::Cfa(other)) => other.checked_sub(own),
            _ => None,
        }
    }

    /// The same with the stack pointer so many bytes higher.
    pub(super) fn with_stack_moved(mut self, bytes: i32) -> State {
        self.set(RSP, self.get(RSP).plus(bytes));
        self
    }

    /// Whether the frame is a better guess for code of which nothing is known: one with a frame
    /// pointer, else the larger one.
    pub(super) fn is_larger_than(&self, other: &State) -> bool {
        let has_pointer = |state: &State| matches!(state.get(RBP), Value::Cfa(_));
        match (has_pointer(self), has_pointer(other)) {
            (true, false) => return true,
            (false, true) => return false,
            _ => {}
        }
        match (self.get(RSP), other.get(RSP)) {
            (Value::Cfa(own), Value::Cfa(other)) => own < other,
            (Value::Aligned(own), Value::Aligned(other)) => own < other,
            (Value::Aligned(_), Value::Cfa(_)) => true,
            _ => false,
        }
    }

    /// Whether a thread begins here. Who begins one marks the outermost frame by a frame pointer of zero
    /// (System V ABI for x86-64, 3.4.1), and keeps nothing of what was there before; and the stack is not
    /// one on which the function was called.
    fn is_outermost(&self) -> bool {
        let was_called = matches!(self.get(RSP), Value::Cfa(offset) if offset < 0);
        self.get(RBP) == Value::EndOfStack && !was_called
    }

    /// How to go to the caller from here.
    pub(super) fn recipe(&self) -> Option<Recipe> {
        if self.is_outermost() {
            return Some(Recipe::OUTERMOST);
        }
        let mut recipe = Recipe::with_cfa(self.cfa()?);
        for (number, saved) in CALLEE_SAVED.iter().zip(&self.saved) {
            if let Some(rule) = saved.and_then(|saved| self.rule(saved)) {
                recipe.rules[usize::from(*number)] = rule;
            }
        }
        Some(recipe)
    }

    /// The canonical frame address, by the stack pointer if possible, else by the frame pointer,
    /// else by any register.
    fn cfa(&self) -> Option<Cfa> {
        let by_value = self.base(|value| match value {
            Value::Cfa(offset) => offset.checked_neg(),
            _ => None,
        });
        if let Some((number, offset)) = by_value {
            return Some(Cfa::Register { number, offset });
        }
        let known = self.cfa_at?;
        let (number, offset) = self.base(|value| match (known.at, value) {
            (Value::Aligned(at), Value::Aligned(offset)) => at.checked_sub(offset),
            _ => None,
        })?;
        Some(Cfa::AtRegister {
            number,
            offset,
            plus: known.plus,
        })
    }

    /// The first register of which `offset` can be told.
    fn base(&self, offset: impl Fn(Value) -> Option<i32>) -> Option<(u8, i32)> {
        let order = [RSP, RBP].into_iter().chain(0..16);
        order
            .map(|number| (number, offset(self.get(number))))
            .find_map(|(number, offset)| Some((number, offset?)))
    }

    fn rule(&self, saved: Saved) -> Option<Rule> {
        if saved.is_restored {
            return None;
        }
        match saved.at {
            Value::Cfa(offset) => Some(Rule::AtCfa(offset)),
            Value::Aligned(at) => {
                let (number, offset) = self.base(|value| match value {
                    Value::Aligned(offset) => at.checked_sub(offset),
                    _ => None,
                })?;
                let offset = i16::try_from(offset).ok()?;
                Some(Rule::AtRegister { number, offset })
            }
            _ => None,
        }
    }
}
