//! What a filter says of a call.

use super::program::{CELLS, Calculation, Condition, Operand, Operation, Program};

/// What a filter can see of a call: `struct seccomp_data`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct CallData {
    /// The call's number.
    pub number: i32,
    /// `AUDIT_ARCH_*`.
    pub(crate) architecture: u32,
    /// The address behind the instruction that makes the call.
    pub(crate) instruction_pointer: u64,
    /// Its arguments.
    pub arguments: [u64; 6],
}

impl CallData {
    /// The word at an offset below [`DATA_SIZE`](super::program::DATA_SIZE).
    #[must_use]
    pub(crate) fn word(&self, offset: u32) -> u32 {
        let half_of = |value: u64| (value >> (offset % 8 * 8)) as u32;
        match offset {
            0 => self.number as u32,
            4 => self.architecture,
            8 | 12 => half_of(self.instruction_pointer),
            _ => half_of(self.arguments[(offset as usize - 16) / 8]),
        }
    }
}

/// What a filter calculates with: words, or words of which not all are known.
pub(crate) trait Word: Copy {
    /// A word that is known.
    fn known(word: u32) -> Self;
    /// The word, if it is known.
    fn value(self) -> Option<u32>;
    /// A word from two others.
    fn combine(self, other: Self, how: impl Fn(u32, u32) -> u32) -> Self;
}

impl Word for u32 {
    #[inline]
    fn known(word: u32) -> u32 {
        word
    }

    #[inline]
    fn value(self) -> Option<u32> {
        Some(self)
    }

    #[inline]
    fn combine(self, other: u32, how: impl Fn(u32, u32) -> u32) -> u32 {
        how(self, other)
    }
}

impl Word for Option<u32> {
    fn known(word: u32) -> Option<u32> {
        Some(word)
    }

    fn value(self) -> Option<u32> {
        self
    }

    fn combine(self, other: Option<u32>, how: impl Fn(u32, u32) -> u32) -> Option<u32> {
        Some(how(self?, other?))
    }
}

/// Runs a filter over a call. Returns what the filter returns.
#[must_use]
pub(crate) fn run(program: &Program, data: &CallData) -> u32 {
    run_over(program, |offset| data.word(offset)).expect("all words are known")
}

/// Runs a filter over the words of a call. `None`: what is not known decides.
#[must_use]
#[inline]
pub(crate) fn run_over<W: Word>(program: &Program, word: impl Fn(u32) -> W) -> Option<u32> {
    let mut a = W::known(0);
    let mut x = W::known(0);
    let mut cells = [W::known(0); CELLS];
    let mut operations = program.operations().iter();
    loop {
        let operation = operations.next().expect("the last instruction returns");
        match *operation {
            Operation::LoadData(offset) => a = word(offset),
            Operation::Load(constant) => a = W::known(constant),
            Operation::LoadCell(cell) => a = cells[usize::from(cell)],
            Operation::LoadX(constant) => x = W::known(constant),
            Operation::LoadXCell(cell) => x = cells[usize::from(cell)],
            Operation::Store(cell) => cells[usize::from(cell)] = a,
            Operation::StoreX(cell) => cells[usize::from(cell)] = x,
            Operation::CopyToX => x = a,
            Operation::CopyToA => a = x,
            Operation::Negate => a = W::known(0).combine(a, u32::wrapping_sub),
            Operation::Calculate(calculation, operand) => {
                let operand = match operand {
                    Operand::Constant(constant) => W::known(constant),
                    Operand::X => x,
                };
                if calculation == Calculation::Divide && operand.value()? == 0 {
                    // A division by zero ends the filter.
                    return Some(0);
                }
                a = a.combine(operand, |a, operand| calculate(calculation, a, operand));
            }
            Operation::Jump(distance) => skip(&mut operations, distance as usize),
            Operation::Branch {
                condition,
                operand,
                yes,
                no,
            } => {
                let operand = match operand {
                    Operand::Constant(constant) => constant,
                    Operand::X => x.value()?,
                };
                let holds = holds(condition, a.value()?, operand);
                skip(&mut operations, usize::from(if holds { yes } else { no }));
            }
            Operation::Return(constant) => return Some(constant),
            Operation::ReturnA => return a.value(),
        }
    }
}

fn skip(operations: &mut std::slice::Iter<'_, Operation>, count: usize) {
    *operations = operations.as_slice()[count..].iter();
}

fn calculate(calculation: Calculation, a: u32, operand: u32) -> u32 {
    match calculation {
        Calculation::Add => a.wrapping_add(operand),
        Calculation::Subtract => a.wrapping_sub(operand),
        Calculation::Multiply => a.wrapping_mul(operand),
        Calculation::Divide => a / operand,
        Calculation::Or => a | operand,
        Calculation::And => a & operand,
        Calculation::Xor => a ^ operand,
        // The kernel takes a distance by its five lowest bits.
        Calculation::ShiftLeft => a.wrapping_shl(operand),
        Calculation::ShiftRight => a.wrapping_shr(operand),
    }
}

fn holds(condition: Condition, a: u32, operand: u32) -> bool {
    match condition {
        Condition::Equal => a == operand,
        Condition::Greater => a > operand,
        Condition::GreaterOrEqual => a >= operand,
        Condition::AnyBit => a & operand != 0,
    }
}
