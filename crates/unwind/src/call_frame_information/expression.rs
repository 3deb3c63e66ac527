//! DWARF expressions, as far as call-frame information may have them (DWARF 5, sections 2.5 and
//! 6.4.2).

use std::ops::Range;

use super::reader::Reader;
use crate::registers::Registers;
use crate::section::Section;
use crate::step::Failure;

/// How many values an expression may have at a time.
const DEPTH: usize = 32;
/// How many operations are executed before an expression counts as one that does not end.
const MOST_OPERATIONS: usize = 1000;

/// The value of the expression at `range` of the section, which begins with `initial`, if anything.
pub(crate) fn evaluate(
    section: Section<'_>,
    range: Range<usize>,
    registers: &Registers,
    initial: Option<u64>,
    read: &mut dyn FnMut(u64) -> Option<u64>,
) -> Result<u64, Failure> {
    let length = range.len() as u64;
    let reader = Reader::new(section, range.start).take(length);
    let mut machine = Machine {
        reader: reader.ok_or(Failure::Damaged)?,
        start: range.start,
        stack: [0; DEPTH],
        count: 0,
        registers,
        read,
    };
    if let Some(initial) = initial {
        machine.push(initial)?;
    }
    machine.run()
}

struct Machine<'a> {
    reader: Reader<'a>,
    start: usize,
    stack: [u64; DEPTH],
    count: usize,
    registers: &'a Registers,
    read: &'a mut dyn FnMut(u64) -> Option<u64>,
}

impl<'a> Machine<'a> {
    fn run(&mut self) -> Result<u64, Failure> {
        for _ in 0..MOST_OPERATIONS {
            if self.reader.is_empty() {
                return self.pop();
            }
            let operation = self.operand(Reader::u8)?;
            self.execute(operation)?;
        }
        Err(Failure::Damaged)
    }

    fn push(&mut self, value: u64) -> Result<(), Failure> {
        let place = self.stack.get_mut(self.count).ok_or(Failure::Damaged)?;
        *place = value;
        self.count += 1;
        Ok(())
    }

    fn pop(&mut self) -> Result<u64, Failure> {
        self.count = self.count.checked_sub(1).ok_or(Failure::Damaged)?;
        Ok(self.stack[self.count])
    }

    /// The value `depth` below the top.
    fn pick(&mut self, depth: usize) -> Result<u64, Failure> {
        let index = self.count.checked_sub(depth + 1).ok_or(Failure::Damaged)?;
        Ok(self.stack[index])
    }

    fn operand<T>(
        &mut self,
        read: impl FnOnce(&mut Reader<'a>) -> Option<T>,
    ) -> Result<T, Failure> {
        read(&mut self.reader).ok_or(Failure::Damaged)
    }

    fn execute(&mut self, operation: u8) -> Result<(), Failure> {
        match operation {
            // DW_OP_addr and the constants.
            0x03 | 0x08..=0x11 | 0x30..=0x4f => {
                let value = self.constant(operation)?;
                self.push(value)
            }
            // DW_OP_breg0 to 31, DW_OP_bregx.
            0x70..=0x8f => self.push_register(u64::from(operation - 0x70)),
            0x92 => {
                let number = self.operand(Reader::unsigned)?;
                self.push_register(number)
            }
            0x06 | 0x94 => self.load(operation),
            0x12..=0x17 => self.arrange(operation),
            0x19 | 0x1f | 0x20 | 0x23 => self.unary(operation),
            0x1a..=0x1e | 0x21 | 0x22 | 0x24..=0x27 | 0x29..=0x2e => self.binary(operation),
            0x28 | 0x2f => self.branch(operation),
            // DW_OP_nop.
            0x96 => Ok(()),
            _ => Err(Failure::Damaged),
        }
    }

    fn constant(&mut self, operation: u8) -> Result<u64, Failure> {
        let value = match operation {
            0x08 => self.operand(Reader::u8)?.into(),
            0x09 => self.operand(Reader::u8)? as i8 as u64,
            0x0a => self.operand(Reader::u16)?.into(),
            0x0b => self.operand(Reader::u16)? as i16 as u64,
            0x0c => self.operand(Reader::u32)?.into(),
            0x0d => self.operand(Reader::u32)? as i32 as u64,
            0x03 | 0x0e | 0x0f => self.operand(Reader::u64)?,
            0x10 => self.operand(Reader::unsigned)?,
            0x11 => self.operand(Reader::signed)? as u64,
            _ => u64::from(operation - 0x30),
        };
        Ok(value)
    }

    fn push_register(&mut self, number: u64) -> Result<(), Failure> {
        let offset = self.operand(Reader::signed)?;
        let number = u8::try_from(number).map_err(|_| Failure::Damaged)?;
        // The return address's column stands for the program counter.
        let value = match number {
            crate::registers::RETURN_ADDRESS => self.registers.pc,
            _ => {
                let value = self.registers.get(number);
                value.ok_or(Failure::RegisterUnknown(number))?
            }
        };
        self.push(value.wrapping_add_signed(offset))
    }

    /// DW_OP_deref, DW_OP_deref_size.
    fn load(&mut self, operation: u8) -> Result<(), Failure> {
        let size = match operation {
            0x06 => 8,
            _ => self.operand(Reader::u8)?,
        };
        let address = self.pop()?;
        let word = (self.read)(address).ok_or(Failure::Unreadable(address))?;
        let value = match size {
            1 | 2 | 4 => word & ((1 << (8 * size)) - 1),
            8 => word,
            _ => return Err(Failure::Damaged),
        };
        self.push(value)
    }

    /// DW_OP_dup, _drop, _over, _pick, _swap, _rot.
    fn arrange(&mut self, operation: u8) -> Result<(), Failure> {
        let depth = match operation {
            0x12 => 0,
            0x14 => 1,
            0x15 => usize::from(self.operand(Reader::u8)?),
            0x13 => return self.pop().map(|_| ()),
            _ => {
                let count = if operation == 0x16 { 2 } else { 3 };
                let from = self.count.checked_sub(count).ok_or(Failure::Damaged)?;
                self.stack[from..self.count].rotate_right(1);
                return Ok(());
            }
        };
        let value = self.pick(depth)?;
        self.push(value)
    }

    /// DW_OP_abs, _neg, _not, _plus_uconst.
    fn unary(&mut self, operation: u8) -> Result<(), Failure> {
        let value = self.pop()?;
        let result = match operation {
            0x19 => (value as i64).unsigned_abs(),
            0x1f => value.wrapping_neg(),
            0x20 => !value,
            _ => value.wrapping_add(self.operand(Reader::unsigned)?),
        };
        self.push(result)
    }

    fn binary(&mut self, operation: u8) -> Result<(), Failure> {
        let right = self.pop()?;
        let left = self.pop()?;
        let (signed_left, signed_right) = (left as i64, right as i64);
        let result = match operation {
            0x1a => left & right,
            0x1b if signed_right == 0 => return Err(Failure::Damaged),
            0x1b => signed_left.wrapping_div(signed_right) as u64,
            0x1c => left.wrapping_sub(right),
            0x1d => left.checked_rem(right).ok_or(Failure::Damaged)?,
            0x1e => left.wrapping_mul(right),
            0x21 => left | right,
            0x22 => left.wrapping_add(right),
            0x24 => shifted(right, |by| left.checked_shl(by)),
            0x25 => shifted(right, |by| left.checked_shr(by)),
            0x26 => signed_left.wrapping_shr(right.min(63) as u32) as u64,
            0x27 => left ^ right,
            0x29 => u64::from(left == right),
            0x2a => u64::from(signed_left >= signed_right),
            0x2b => u64::from(signed_left > signed_right),
            0x2c => u64::from(signed_left <= signed_right),
            0x2d => u64::from(signed_left < signed_right),
            _ => u64::from(left != right),
        };
        self.push(result)
    }

    /// DW_OP_bra, DW_OP_skip.
    fn branch(&mut self, operation: u8) -> Result<(), Failure> {
        let distance = self.operand(Reader::u16)? as i16;
        if operation == 0x2f || self.pop()? != 0 {
            self.reader.skip(distance.into()).ok_or(Failure::Damaged)?;
            if self.reader.position() < self.start {
                return Err(Failure::Damaged);
            }
        }
        Ok(())
    }
}

fn shifted(by: u64, shift: impl FnOnce(u32) -> Option<u64>) -> u64 {
    u32::try_from(by).ok().and_then(shift).unwrap_or(0)
}
