//! Tests and stores of shadow words, inlined.
//!
//! An operand that is aligned to its size or to a granule, whichever is less, touches words that lie one
//! behind the other: one is found, and the others named by displacements from it. Where an operand
//! is not aligned, the function is called that is called where a test fails.

use smallvec::SmallVec;
use unspool_code_cache::emit::{Emitter, Gpr};
use unspool_engine::translate::insertion::borrowed::{Borrowed, Content};
use unspool_engine::translate::insertion::detour::Jumps;
use unspool_engine::translate::insertion::shadow::{ShadowLayout, ShadowWord};
use unspool_engine::translate::operand_address::load_address;
use unspool_engine::translate::superblock::Item;
use unspool_engine::translate::walk::Walk;
use unspool_instructions::operands::MemoryOperand;

use super::{Translation, calls, rare_call};
use crate::slots::offset as tool_offset;
use crate::{
    Action, Argument, ShadowCheck, ShadowStore, ShadowTest, ThreadWord, WordPart, WordValue,
};

/// The condition, as opcodes have it.
const NOT_EQUAL: u8 = 5;

/// The registers that the code of a check uses.
#[derive(Clone, Copy)]
struct Registers {
    /// The shadow's base.
    base: Gpr,
    /// The number of a granule.
    number: Gpr,
    /// A value. It is the number's if none is needed.
    value: Gpr,
}

/// Emits a check, and a call where it fails.
pub(super) fn emit(
    translation: &mut Translation,
    (item, flags_live): (&Item, bool),
    check: &ShadowCheck,
    otherwise: Option<&Action>,
) {
    let (layout, operand) = (check.shadow.layout(), &check.operand);
    let walk = &mut *translation.walk;
    let read = calls::registers(&Argument::Address(*operand));
    walk.give_back(read);
    let registers = borrow(walk, item, read, translation.own.touched, check);
    walk.borrowed.take_flags(&mut walk.builder, flags_live);
    let code = &mut walk.builder.code;
    load_address(code, registers.number, operand);
    let Some(otherwise) = otherwise else {
        store_wherever(code, check, layout, registers);
        return;
    };
    let mut jumps = Jumps::new();
    let alignment = check.extent().min(check.shadow.granule());
    // What is no power of two begins at a granule.
    let alignment = match alignment.is_power_of_two() {
        true => alignment,
        false => check.shadow.granule(),
    };
    if alignment > 1 {
        code.test(registers.number, alignment as u32 - 1);
        jumps.push(code.jump_forward_if(NOT_EQUAL));
    }
    let word = layout.find(code, registers.number, Some(registers.base));
    for test in &check.tests {
        test.emit(code, check, word, registers, &mut jumps);
    }
    store(code, check, word, registers);
    rare_call::put_off(
        translation,
        (item, flags_live),
        jumps,
        otherwise.clone(),
        None,
    );
}

/// Takes registers; those that the superblock's own instructions touch only if there are no others.
fn borrow(
    walk: &mut Walk,
    item: &Item,
    read: u16,
    touched_by_all: u16,
    check: &ShadowCheck,
) -> Registers {
    const MOST_TAKEN: usize = 3;
    let touched = read | item.uses().read | item.uses().written;
    let by_all = touched | walk.bound() | touched_by_all;
    let touched = match Borrowed::available(by_all) >= MOST_TAKEN {
        true => by_all,
        false => touched,
    };
    let base = with_base(walk, check.shadow.layout(), touched);
    let avoided = touched | 1 << base;
    if check.needs_value() {
        let [number, value] = walk.take_registers(avoided);
        return Registers {
            base,
            number,
            value,
        };
    }
    let [number] = walk.take_registers(avoided);
    Registers {
        base,
        number,
        value: number,
    }
}

/// A register with the base of shadow memory, which stays there for checks further on.
fn with_base(walk: &mut Walk, layout: ShadowLayout, touched: u16) -> Gpr {
    let content = Content::Constant(layout.base);
    if let Some(held) = walk.borrowed.with_content(content, touched) {
        return held;
    }
    let avoided = touched | walk.bound();
    let taken = walk.borrowed.take_one(&mut walk.builder, avoided);
    let base = taken.expect("an instruction touches six registers at most");
    content.load(&mut walk.builder.code, base);
    walk.borrowed.keep_content(base, content);
    base
}

impl ShadowCheck {
    /// Whether a register is needed for values, beside that of the word's number.
    fn needs_value(&self) -> bool {
        let tests = self.tests.iter();
        let tests = tests.map(|test| (test.mask.is_some(), test.value, test.part));
        let stores = self.stores.iter();
        let stores = stores.map(|store| (false, store.value, store.part));
        tests.chain(stores).any(|(has_mask, value, part)| {
            has_mask
                || self
                    .pieces(part, value)
                    .any(|piece| piece.constant.is_none())
        })
    }

    /// The pieces in which a part of each word is looked at or stored. Whole words of which all are
    /// the same constant are one piece, as far as an instruction reaches.
    fn pieces(&self, part: WordPart, value: WordValue) -> impl Iterator<Item = Piece> + use<> {
        let word = self.shadow.word();
        let words = self.words() as i32;
        let is_whole = part.size == word;
        let mut pieces = SmallVec::<[Piece; 8]>::new();
        let end = words * i32::from(word);
        let mut at = 0;
        while at < end {
            let (mut size, mut step) = (part.size, i32::from(word));
            let mut known = match value {
                WordValue::Constant(value) => constant(value, size),
                WordValue::Thread(_) => None,
            };
            if let (WordValue::Constant(value), true) = (value, is_whole) {
                while size < 8 && at + 2 * i32::from(size) <= end {
                    let Some(wider) = constant(repeated(value, word), 2 * size) else {
                        break;
                    };
                    (known, size) = (Some(wider), 2 * size);
                }
                step = i32::from(size);
            }
            pieces.push(Piece {
                offset: at + i32::from(part.offset),
                size,
                constant: known,
            });
            at += step;
        }
        pieces.into_iter()
    }
}

/// A part of a word, or several words.
struct Piece {
    /// Where it lies behind the first word.
    offset: i32,
    size: u8,
    /// What it is compared with or becomes, if an instruction can name that.
    constant: Option<i32>,
}

/// The constant of an instruction with operands of `size` bytes; `None` if there is no such one.
fn constant(value: u64, size: u8) -> Option<i32> {
    match size {
        8 => i32::try_from(value as i64).ok(),
        _ => Some(value as u32 as i32),
    }
}

/// A value of `size` bytes, as often as it fits into eight.
fn repeated(value: u64, size: u8) -> u64 {
    let bits = 8 * u32::from(size);
    let one = value & (u64::MAX >> (64 - bits));
    (0..64)
        .step_by(bits as usize)
        .fold(0, |all, at| all | one << at)
}

impl ShadowTest {
    fn emit(
        &self,
        code: &mut Emitter,
        check: &ShadowCheck,
        word: ShadowWord,
        registers: Registers,
        jumps: &mut Jumps,
    ) {
        let value = registers.value;
        if let Some(mask) = self.mask {
            for at in check.offsets(self.part) {
                code.load_at(value, word.at(at), 4);
                match self.value {
                    WordValue::Constant(expected) => code.xor_constant(value, expected as u32),
                    WordValue::Thread(expected) => code.xor_slot(value, slot(expected)),
                }
                code.test(value, mask);
                jumps.push(code.jump_forward_if(NOT_EQUAL));
            }
            return;
        }
        let mut is_loaded = false;
        for piece in check.pieces(self.part, self.value) {
            match piece.constant {
                Some(constant) => {
                    code.compare_constant_at(word.at(piece.offset), constant, piece.size);
                }
                None => {
                    if !std::mem::replace(&mut is_loaded, true) {
                        self.value.load(code, value);
                    }
                    code.compare_at(word.at(piece.offset), value, piece.size);
                }
            }
            jumps.push(code.jump_forward_if(NOT_EQUAL));
        }
    }
}

impl ShadowCheck {
    /// Where a part of each word lies behind the first word.
    fn offsets(&self, part: WordPart) -> impl Iterator<Item = i32> + use<> {
        let word = i32::from(self.shadow.word());
        let offset = i32::from(part.offset);
        (0..self.words() as i32).map(move |number| number * word + offset)
    }
}

/// Emits what is stored in the words from one on.
fn store(code: &mut Emitter, check: &ShadowCheck, word: ShadowWord, registers: Registers) {
    for &ShadowStore { part, value } in &check.stores {
        let mut is_loaded = false;
        for piece in check.pieces(part, value) {
            match piece.constant {
                Some(constant) => {
                    code.store_constant_at(word.at(piece.offset), constant, piece.size);
                }
                None => {
                    if !std::mem::replace(&mut is_loaded, true) {
                        value.load(code, registers.value);
                    }
                    code.store_at(word.at(piece.offset), registers.value, piece.size);
                }
            }
        }
    }
}

/// The same where nobody else will store it: an operand that is not aligned touches one more word.
fn store_wherever(
    code: &mut Emitter,
    check: &ShadowCheck,
    layout: ShadowLayout,
    registers: Registers,
) {
    let word = layout.find(code, registers.number, Some(registers.base));
    store(code, check, word, registers);
    let last = check.extent() - 1;
    if last == 0 || check.shadow.granule() == 1 {
        return;
    }
    load_last(code, registers.number, &check.operand, last);
    let word = layout.find(code, registers.number, Some(registers.base));
    for &ShadowStore { part, value } in &check.stores {
        let at = word.at(i32::from(part.offset));
        let constant = match value {
            WordValue::Constant(value) => constant(value, part.size),
            WordValue::Thread(_) => None,
        };
        match constant {
            Some(constant) => code.store_constant_at(at, constant, part.size),
            None => {
                value.load(code, registers.value);
                code.store_at(at, registers.value, part.size);
            }
        }
    }
}

/// Emits the address of an operand's last byte.
fn load_last(code: &mut Emitter, to: Gpr, operand: &MemoryOperand, last: u64) {
    load_address(code, to, operand);
    code.lea(to, to, last as i32);
}

impl WordValue {
    fn load(self, code: &mut Emitter, to: Gpr) {
        match self {
            WordValue::Constant(value) => code.load_immediate(to, value),
            WordValue::Thread(word) => code.load_slot(to, slot(word)),
        }
    }
}

/// Where a thread's word is.
fn slot(word: ThreadWord) -> i32 {
    tool_offset::WORDS + 8 * word.index() as i32
}
