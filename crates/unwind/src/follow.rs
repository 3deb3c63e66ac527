//! Follows a recipe from the registers of a frame to those of its caller.

use crate::call_frame_information::evaluate;
use crate::recipe::{Cfa, Recipe, Rule};
use crate::registers::{CALLEE_SAVED, RETURN_ADDRESS, RSP, Registers};
use crate::section::Section;
use crate::step::{Failure, Step};

/// The caller's registers. `expressions` is the section in which expressions stand, `bias` what
/// is added to addresses in them.
///
/// # Errors
/// If a register that is needed is not known, or a word cannot be read.
pub fn follow(
    recipe: &Recipe,
    registers: &Registers,
    expressions: Section<'_>,
    read: &mut dyn FnMut(u64) -> Option<u64>,
) -> Result<Step<Registers>, Failure> {
    let mut frame = Frame {
        registers,
        expressions,
        read,
    };
    let cfa = frame.cfa(recipe.cfa)?;
    let Some(pc) = frame.value(
        recipe.rules[usize::from(RETURN_ADDRESS)],
        RETURN_ADDRESS,
        cfa,
    )?
    else {
        return Ok(Step::Outermost);
    };
    let mut caller = Registers::returning_to(pc);
    caller.is_interrupted = recipe.is_signal_frame;
    caller.set(RSP, cfa);
    for number in 0..RETURN_ADDRESS {
        let rule = recipe.rules[usize::from(number)];
        let is_kept = recipe.is_signal_frame || CALLEE_SAVED.contains(&number);
        if rule == Rule::Same && !is_kept {
            continue;
        }
        let value = match frame.value(rule, number, cfa) {
            Err(failure) => Some(restored(registers, number, failure)?),
            Ok(value) => value,
        };
        if let Some(value) = value {
            caller.set(number, value);
        }
    }
    Ok(Step::Caller(caller))
}

/// The value of a register that a function saved where nothing can be read. Below the stack pointer
/// that is no loss: the function is about to return and has given the register back, and compilers
/// do not take back what they said of where it was saved.
///
/// # Errors
/// If it is lost.
#[cold]
pub(crate) fn restored(
    registers: &Registers,
    number: u8,
    failure: Failure,
) -> Result<u64, Failure> {
    match (failure, registers.sp()) {
        (Failure::Unreadable(address), Some(sp)) if address < sp => {
            registers.get(number).ok_or(failure)
        }
        _ => Err(failure),
    }
}

/// A frame whose recipe is applied.
struct Frame<'a> {
    registers: &'a Registers,
    expressions: Section<'a>,
    read: &'a mut dyn FnMut(u64) -> Option<u64>,
}

impl Frame<'_> {
    fn register(&self, number: u8) -> Result<u64, Failure> {
        let value = self.registers.get(number);
        value.ok_or(Failure::RegisterUnknown(number))
    }

    fn word(&mut self, address: u64) -> Result<u64, Failure> {
        (self.read)(address).ok_or(Failure::Unreadable(address))
    }

    fn expression(&mut self, at: u32, length: u16, initial: Option<u64>) -> Result<u64, Failure> {
        let start = at as usize;
        let end = start + usize::from(length);
        evaluate(
            self.expressions,
            start..end,
            self.registers,
            initial,
            self.read,
        )
    }

    fn cfa(&mut self, cfa: Cfa) -> Result<u64, Failure> {
        match cfa {
            Cfa::Register { number, offset } => {
                let value = self.register(number)?;
                Ok(value.wrapping_add_signed(i64::from(offset)))
            }
            Cfa::AtRegister {
                number,
                offset,
                plus,
            } => {
                let value = self.register(number)?;
                let word = self.word(value.wrapping_add_signed(i64::from(offset)))?;
                Ok(word.wrapping_add_signed(i64::from(plus)))
            }
            Cfa::Expression { at, length } => self.expression(at, length, None),
        }
    }

    /// The value of a register in the caller, if there is one and it is known.
    fn value(&mut self, rule: Rule, number: u8, cfa: u64) -> Result<Option<u64>, Failure> {
        let value = match rule {
            Rule::Same => return Ok(self.registers.get(number)),
            Rule::Undefined => return Ok(None),
            Rule::AtCfa(offset) => self.word(cfa.wrapping_add_signed(i64::from(offset)))?,
            Rule::AtRegister { number, offset } => {
                let base = self.register(number)?;
                self.word(base.wrapping_add_signed(i64::from(offset)))?
            }
            Rule::CfaPlus(offset) => cfa.wrapping_add_signed(i64::from(offset)),
            Rule::Register(number) => return Ok(self.registers.get(number)),
            Rule::AtExpression { at, length } => {
                let address = self.expression(at, length, Some(cfa))?;
                self.word(address)?
            }
            Rule::Expression { at, length } => self.expression(at, length, Some(cfa))?,
        };
        Ok(Some(value))
    }
}
