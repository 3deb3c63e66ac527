//! How a caller's registers follow from those of the function that it has called.

use crate::call_frame_information::evaluate;
use crate::module::Section;
use crate::registers::{CALLEE_SAVED, RETURN_ADDRESS, RSP, Registers};
use crate::unwinder::{Failure, Step};

/// Registers with a rule: the general ones and the return address.
pub(crate) const COLUMNS: usize = 17;

/// The canonical frame address: what the stack pointer was before the call that made the frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cfa {
    /// A register's value and so many bytes.
    Register {
        /// The register.
        number: u8,
        /// The bytes.
        offset: i32,
    },
    /// The word at a register's value and so many bytes, and some more.
    AtRegister {
        /// The register.
        number: u8,
        /// The bytes from its value to the word.
        offset: i32,
        /// The bytes from what the word says.
        plus: i32,
    },
    /// What a DWARF expression gives, which stands at an offset of the section of call-frame
    /// information.
    Expression {
        /// The offset.
        at: u32,
        /// Its bytes.
        length: u16,
    },
}

/// Where a register's value in the caller is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Rule {
    /// Still in the register.
    Same,
    /// Nowhere. For the return address: there is no caller.
    Undefined,
    /// In memory, so many bytes from the canonical frame address.
    AtCfa(i32),
    /// In memory, so many bytes from a register's value.
    AtRegister {
        /// The register.
        number: u8,
        /// The bytes.
        offset: i16,
    },
    /// The canonical frame address and so many bytes.
    CfaPlus(i32),
    /// In another register.
    Register(u8),
    /// In memory, where a DWARF expression says.
    AtExpression {
        /// Its offset in the section of call-frame information.
        at: u32,
        /// Its bytes.
        length: u16,
    },
    /// What a DWARF expression gives.
    Expression {
        /// Its offset in the section of call-frame information.
        at: u32,
        /// Its bytes.
        length: u16,
    },
}

/// How to go from a frame to its caller, for one instruction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Recipe {
    /// Where the frame is.
    pub cfa: Cfa,
    /// Where the caller's registers are, by DWARF's numbers; the last is the return address.
    pub rules: [Rule; COLUMNS],
    /// Whether the caller was interrupted by a signal where its program counter is, instead of
    /// having called.
    pub is_signal_frame: bool,
}

impl Recipe {
    /// The frame of a function that has just been called.
    #[must_use]
    pub fn at_entry() -> Recipe {
        Recipe::with_cfa(Cfa::Register {
            number: RSP,
            offset: 8,
        })
    }

    /// A frame whose return address is where a call puts it, and which has saved nothing.
    #[must_use]
    pub fn with_cfa(cfa: Cfa) -> Recipe {
        let mut rules = [Rule::Same; COLUMNS];
        rules[usize::from(RETURN_ADDRESS)] = Rule::AtCfa(-8);
        rules[usize::from(RSP)] = Rule::CfaPlus(0);
        Recipe {
            cfa,
            rules,
            is_signal_frame: false,
        }
    }

    /// The caller's registers. `expressions` is the section in which expressions stand, `bias` what
    /// is added to addresses in them.
    ///
    /// # Errors
    /// If a register that is needed is not known, or a word cannot be read.
    pub fn apply(
        &self,
        registers: &Registers,
        expressions: Section<'_>,
        read: &mut dyn FnMut(u64) -> Option<u64>,
    ) -> Result<Step<Registers>, Failure> {
        let mut frame = Frame {
            registers,
            expressions,
            read,
        };
        let cfa = frame.cfa(self.cfa)?;
        let Some(pc) = frame.value(self.rules[usize::from(RETURN_ADDRESS)], RETURN_ADDRESS, cfa)?
        else {
            return Ok(Step::Outermost);
        };
        let mut caller = Registers::returning_to(pc);
        caller.is_interrupted = self.is_signal_frame;
        caller.set(RSP, cfa);
        for number in 0..RETURN_ADDRESS {
            let rule = self.rules[usize::from(number)];
            let is_kept = self.is_signal_frame || CALLEE_SAVED.contains(&number);
            if rule == Rule::Same && !is_kept {
                continue;
            }
            if let Some(value) = frame.value(rule, number, cfa)? {
                caller.set(number, value);
            }
        }
        Ok(Step::Caller(caller))
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
