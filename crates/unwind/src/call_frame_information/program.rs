//! The instructions of call-frame information: a program that makes, for each address of a piece
//! of code, a row of rules (DWARF 5, section 6.4.2).

use super::entry::FrameDescription;
use super::reader::Reader;
use crate::recipe::{COLUMNS, Cfa, Recipe, Rule};
use crate::registers::RETURN_ADDRESS;
use crate::section::Section;

/// How deep rows can be remembered. Compilers use one level.
const MOST_REMEMBERED: usize = 4;

/// A row that is not complete yet.
#[derive(Clone, Copy)]
struct Row {
    cfa: Option<Cfa>,
    rules: [Rule; COLUMNS],
}

struct Machine<'a> {
    entry: &'a FrameDescription,
    row: Row,
    /// What the common instructions have made: to which a register can be restored.
    initial: [Rule; COLUMNS],
    remembered: [Row; MOST_REMEMBERED],
    remembered_count: usize,
    location: u64,
}

impl FrameDescription {
    /// The recipe for the instruction at `address`, or around it, in the entry's code. Nothing if
    /// what `section` says there is damaged, or of a kind that x86-64 does not have.
    #[must_use]
    pub fn recipe(&self, section: Section<'_>, address: u64) -> Option<Recipe> {
        let row = Row {
            cfa: None,
            rules: [Rule::Same; COLUMNS],
        };
        let mut machine = Machine {
            entry: self,
            row,
            initial: row.rules,
            remembered: [row; MOST_REMEMBERED],
            remembered_count: 0,
            location: self.code.start,
        };
        let [common, own] = &self.instructions;
        let common = instructions(section, common)?;
        machine.run(common, address)?;
        machine.initial = machine.row.rules;
        machine.run(instructions(section, own)?, address)?;
        Some(Recipe {
            cfa: machine.row.cfa?,
            rules: machine.row.rules,
            is_signal_frame: self.is_signal_frame,
        })
    }
}

fn instructions<'a>(section: Section<'a>, range: &std::ops::Range<usize>) -> Option<Reader<'a>> {
    let length = range.end.checked_sub(range.start)?;
    Reader::new(section, range.start).take(length as u64)
}

impl Machine<'_> {
    /// Executes instructions until the row holds for `address`.
    fn run(&mut self, mut reader: Reader<'_>, address: u64) -> Option<()> {
        while !reader.is_empty() {
            let opcode = reader.u8()?;
            if let Some(location) = self.advance(opcode, &mut reader)? {
                if location > address {
                    return Some(());
                }
                self.location = location;
            } else {
                self.execute(opcode, &mut reader)?;
            }
        }
        Some(())
    }

    /// Where the next row begins, if the instruction says that.
    fn advance(&self, opcode: u8, reader: &mut Reader<'_>) -> Option<Option<u64>> {
        let delta = match opcode {
            0x40..=0x7f => u64::from(opcode & 0x3f),
            // DW_CFA_set_loc.
            0x01 => {
                let location = reader.pointer(self.entry.pointer_encoding, 0)?;
                return Some(Some(location));
            }
            0x02 => u64::from(reader.u8()?),
            0x03 => u64::from(reader.u16()?),
            0x04 => u64::from(reader.u32()?),
            _ => return Some(None),
        };
        let bytes = delta.checked_mul(self.entry.code_alignment)?;
        Some(Some(self.location.checked_add(bytes)?))
    }

    fn execute(&mut self, opcode: u8, reader: &mut Reader<'_>) -> Option<()> {
        match opcode {
            // DW_CFA_offset, DW_CFA_restore.
            0x80..=0xbf => {
                let offset = reader.unsigned()?;
                self.set(
                    u64::from(opcode & 0x3f),
                    Rule::AtCfa(self.factored(offset)?),
                );
            }
            0xc0..=0xff => self.restore(u64::from(opcode & 0x3f)),
            // DW_CFA_nop.
            0x00 => {}
            0x05..=0x0b => return self.execute_rule(opcode, reader),
            0x0c..=0x0f | 0x12 | 0x13 => return self.define_cfa(opcode, reader),
            0x10..=0x16 | 0x2f => return self.execute_late_rule(opcode, reader),
            // DW_CFA_GNU_args_size: what arguments take, which is no business of the frame's.
            0x2e => {
                reader.unsigned()?;
            }
            _ => return None,
        }
        Some(())
    }

    fn execute_rule(&mut self, opcode: u8, reader: &mut Reader<'_>) -> Option<()> {
        match opcode {
            // DW_CFA_remember_state, DW_CFA_restore_state.
            0x0a => {
                *self.remembered.get_mut(self.remembered_count)? = self.row;
                self.remembered_count += 1;
                return Some(());
            }
            0x0b => {
                self.remembered_count = self.remembered_count.checked_sub(1)?;
                self.row = self.remembered[self.remembered_count];
                return Some(());
            }
            _ => {}
        }
        let register = reader.unsigned()?;
        match opcode {
            // DW_CFA_offset_extended, _restore_extended, _undefined, _same_value, _register.
            0x05 => {
                let offset = reader.unsigned()?;
                self.set(register, Rule::AtCfa(self.factored(offset)?));
            }
            0x06 => self.restore(register),
            0x07 => self.set(register, Rule::Undefined),
            0x08 => self.set(register, Rule::Same),
            _ => {
                let from = u8::try_from(reader.unsigned()?).ok()?;
                self.set(register, Rule::Register(from));
            }
        }
        Some(())
    }

    fn execute_late_rule(&mut self, opcode: u8, reader: &mut Reader<'_>) -> Option<()> {
        let register = reader.unsigned()?;
        let rule = match opcode {
            // DW_CFA_expression, DW_CFA_val_expression.
            0x10 | 0x16 => {
                let (at, length) = expression(reader)?;
                match opcode {
                    0x10 => Rule::AtExpression { at, length },
                    _ => Rule::Expression { at, length },
                }
            }
            // DW_CFA_offset_extended_sf, DW_CFA_val_offset, DW_CFA_val_offset_sf.
            0x11 => Rule::AtCfa(self.factored_signed(reader.signed()?)?),
            0x14 => Rule::CfaPlus(self.factored(reader.unsigned()?)?),
            0x15 => Rule::CfaPlus(self.factored_signed(reader.signed()?)?),
            // DW_CFA_GNU_negative_offset_extended.
            0x2f => Rule::AtCfa(self.factored(reader.unsigned()?)?.checked_neg()?),
            _ => return None,
        };
        self.set(register, rule);
        Some(())
    }

    fn define_cfa(&mut self, opcode: u8, reader: &mut Reader<'_>) -> Option<()> {
        if opcode == 0x0f {
            let (at, length) = expression(reader)?;
            self.row.cfa = Some(Cfa::Expression { at, length });
            return Some(());
        }
        let (mut number, mut offset) = match self.row.cfa {
            Some(Cfa::Register { number, offset }) => (number, offset),
            _ => (0, 0),
        };
        // DW_CFA_def_cfa, _def_cfa_register, _def_cfa_offset, _def_cfa_sf, _def_cfa_offset_sf.
        if matches!(opcode, 0x0c | 0x0d | 0x12) {
            number = u8::try_from(reader.unsigned()?).ok()?;
        }
        match opcode {
            0x0c | 0x0e => offset = i32::try_from(reader.unsigned()?).ok()?,
            0x12 | 0x13 => offset = self.factored_signed(reader.signed()?)?,
            _ => {}
        }
        self.row.cfa = Some(Cfa::Register { number, offset });
        Some(())
    }

    /// Columns of registers that are not general have no rule here.
    fn set(&mut self, column: u64, rule: Rule) {
        if let Some(place) = self.place(column) {
            self.row.rules[place] = rule;
        }
    }

    fn restore(&mut self, column: u64) {
        if let Some(place) = self.place(column) {
            self.row.rules[place] = self.initial[place];
        }
    }

    fn place(&self, column: u64) -> Option<usize> {
        if column == self.entry.return_address {
            return Some(usize::from(RETURN_ADDRESS));
        }
        usize::try_from(column)
            .ok()
            .filter(|column| *column < usize::from(RETURN_ADDRESS))
    }

    fn factored(&self, offset: u64) -> Option<i32> {
        self.factored_signed(i64::try_from(offset).ok()?)
    }

    fn factored_signed(&self, offset: i64) -> Option<i32> {
        let offset = offset.checked_mul(self.entry.data_alignment)?;
        i32::try_from(offset).ok()
    }
}

/// Where an expression stands, and its length.
fn expression(reader: &mut Reader<'_>) -> Option<(u32, u16)> {
    let length = reader.unsigned()?;
    let at = reader.position();
    reader.take(length)?;
    Some((u32::try_from(at).ok()?, u16::try_from(length).ok()?))
}
