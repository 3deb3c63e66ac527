//! Operands of several elements: gathers, scatters, masked and compressed vectors, tiles. Their
//! indexes and masks are put where single elements can be read: into the record, or into
//! slots for a check of owners.

use iced_x86::{Code, Encoder, Instruction as Decoded, MemoryOperand as EncodedMemory, Register};
use unspool_code_cache::emit::{Address, Gpr, Vector};
use unspool_events::superblock::{Extent, Mask, Slot};
use unspool_instructions::operands::{ElementMask, MemoryOperand};

use super::translation::Translation;
use crate::slots::offset as trace_offset;
use crate::slots::{TILE_FIRST_ROW, TILE_ROW_BYTES, TILE_ROWS};

/// Stores the indexes of a gather or scatter in the record. Returns the first word.
pub(crate) fn record_indexes(translation: &mut Translation, register: Register) -> Slot {
    let slot = translation.words as Slot;
    translation.words += register.size() / 8;
    let memory = word_of_record(translation, slot);
    store_vector(translation, register, memory);
    slot
}

/// Stores a mask in the record.
pub(crate) fn record_mask(translation: &mut Translation, mask: ElementMask) -> Mask {
    match mask {
        ElementMask::All => Mask::All,
        ElementMask::Bits(register) => {
            let slot = translation.take_slot();
            let memory = word_of_record(translation, slot);
            encode(translation, Code::VEX_Kmovq_m64_kr, memory, register);
            Mask::Bits(slot)
        }
        ElementMask::Vector { register, size } => {
            let slot = translation.take_slot();
            take_signs(translation, register, size);
            let scratch = translation.binding.scratch();
            translation.store_word(slot, scratch);
            Mask::Bits(slot)
        }
    }
}

/// Stores the stride and the form of a tile in the record.
pub(crate) fn record_tile(
    translation: &mut Translation,
    operand: &MemoryOperand,
    tile: Register,
    stride: Register,
) -> Extent {
    let [stride_slot, form] = [translation.take_slot(), translation.take_slot()];
    keep_tile_configuration(translation);
    let (words, scratch) = (translation.words(), translation.binding.scratch());
    let code = &mut translation.builder.code;
    let at = Translation::place(stride_slot);
    if stride == Register::None {
        words.store_constant(code, at, 0, 8);
    } else {
        let scaled = Address {
            base: None,
            index: Some((stride.full_register().number() as Gpr, operand.scale)),
            displacement: 0,
        };
        code.lea_address(scratch, scaled, false);
        words.store(code, at, scratch, 8);
    }
    let at = Translation::place(form);
    let number = tile.number();
    let part = |part: usize| trace_offset::ELEMENTS + part as i32;
    code.load_slot_half(scratch, part(TILE_ROW_BYTES + 2 * number));
    words.store(code, at, scratch, 8);
    code.load_slot_byte(scratch, part(TILE_ROWS + number));
    words.store(code, at + 2, scratch, 1);
    code.load_slot_byte(scratch, part(TILE_FIRST_ROW));
    words.store(code, at + 3, scratch, 1);
    Extent::Rows {
        stride: stride_slot,
        form,
    }
}

/// `sttilecfg fs:[elements]`
pub(crate) fn keep_tile_configuration(translation: &mut Translation) {
    let code = &mut translation.builder.code;
    code.bytes(&[0x64, 0xc4, 0xe2, 0x79, 0x49, 0x04, 0x25]);
    let displacement = code.slot_displacement(trace_offset::ELEMENTS);
    code.imm32(displacement);
}

/// Puts the indexes and the mask of a gather or scatter into their slots.
pub(crate) fn keep_elements(translation: &mut Translation, index: Register, mask: ElementMask) {
    let memory = slot_in_memory(translation, trace_offset::ELEMENTS);
    store_vector(translation, index, memory);
    match mask {
        ElementMask::All => {
            for half in [0, 4] {
                let slot = trace_offset::ELEMENT_MASK + half;
                translation.builder.code.store_slot_imm32(slot, u32::MAX);
            }
        }
        ElementMask::Bits(register) => {
            let memory = slot_in_memory(translation, trace_offset::ELEMENT_MASK);
            encode(translation, Code::VEX_Kmovq_m64_kr, memory, register);
        }
        ElementMask::Vector { register, size } => {
            take_signs(translation, register, size);
            let scratch = translation.binding.scratch();
            let code = &mut translation.builder.code;
            code.store_slot(trace_offset::ELEMENT_MASK, scratch);
        }
    }
}

/// The top bits of a vector register's elements, into the scratch register.
fn take_signs(translation: &mut Translation, register: Register, size: u8) {
    let scratch = translation.binding.scratch();
    let vector = Vector {
        number: register.number() as u8,
        bytes: register.size() as u8,
    };
    translation.builder.code.load_signs(scratch, vector, size);
}

fn store_vector(translation: &mut Translation, register: Register, memory: EncodedMemory) {
    let high = register.number() >= 16;
    let code = match register.size() {
        16 if high => Code::EVEX_Vmovdqu64_xmmm128_k1z_xmm,
        32 if high => Code::EVEX_Vmovdqu64_ymmm256_k1z_ymm,
        16 => Code::VEX_Vmovdqu_xmmm128_xmm,
        32 => Code::VEX_Vmovdqu_ymmm256_ymm,
        _ => Code::EVEX_Vmovdqu64_zmmm512_k1z_zmm,
    };
    encode(translation, code, memory, register);
}

fn word_of_record(translation: &Translation, slot: Slot) -> EncodedMemory {
    let (base, displacement) = translation.words().place(Translation::place(slot));
    EncodedMemory::with_base_displ(NAMES[usize::from(base)], i64::from(displacement))
}

fn slot_in_memory(translation: &Translation, slot: i32) -> EncodedMemory {
    let displacement = i64::from(translation.builder.code.slot_displacement(slot));
    let (none, fs) = (Register::None, Register::FS);
    EncodedMemory::new(none, none, 1, displacement, 8, false, fs)
}

fn encode(translation: &mut Translation, code: Code, memory: EncodedMemory, register: Register) {
    let store =
        Decoded::with2(code, memory, register).expect("the code takes a memory and a register");
    emit(translation, &store);
}

fn emit(translation: &mut Translation, instruction: &Decoded) {
    let mut encoder = Encoder::new(64);
    encoder
        .encode(instruction, 0)
        .expect("it has no operand relative to its place");
    translation.builder.code.bytes(&encoder.take_buffer());
}

const NAMES: [Register; 16] = [
    Register::RAX,
    Register::RCX,
    Register::RDX,
    Register::RBX,
    Register::RSP,
    Register::RBP,
    Register::RSI,
    Register::RDI,
    Register::R8,
    Register::R9,
    Register::R10,
    Register::R11,
    Register::R12,
    Register::R13,
    Register::R14,
    Register::R15,
];
