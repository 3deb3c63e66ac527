//! The words of a path record: what is stored into the trace buffer before and after each
//! accessing instruction.

use iced_x86::Register;
use unspool_code_cache::emit::{Address, Gpr};
use unspool_code_cache::slots::offset;
use unspool_events::Order;
use unspool_events::superblock::{
    AccessingInstruction, AddressSource, CacheControl as DescribedControl, Extent, Mask, Operand,
    Slot,
};
use unspool_instructions::decode::{Kind, Segment};
use unspool_instructions::operands::{CacheControl, ElementMask, MemoryOperand, Shape};

use super::elements;
use super::translation::{Translation, effective_address, with_flags};
use crate::clean_calls::TracerRequest;
use crate::fragments::{Repetition, StoredRegister};
use crate::inserted::addresses::{THREAD_POINTER, wide_register};
use crate::tickets::LOCK_SPILL;
use unspool_engine::translate::operand_address::{add_slot, scalar_index};
use unspool_engine::translate::superblock::Item;

/// A condition, as opcodes have it.
const EQUAL: u8 = 4;

/// What is stored after an instruction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum After {
    /// A general register.
    Register(StoredRegister),
    /// ZF.
    ZeroFlag,
}

/// Emits what is stored before the instruction, and describes its operands.
pub(crate) fn before(
    translation: &mut Translation,
    item: &Item,
    described: &mut AccessingInstruction,
) {
    for operand in item.operands() {
        if let Some(operand) = describe(translation, item, operand) {
            described.operands.push(operand);
        }
    }
    if item.facts().compare_exchange {
        let slot = translation.take_slot();
        let words = translation.words();
        words.store_constant(
            &mut translation.builder.code,
            Translation::place(slot),
            0,
            8,
        );
        described.cas_success = Some(slot);
    }
    if item.facts().atomic && translation.parts.recording.order() == Order::Ticket {
        described.ticket = Some(draw_ticket(translation, item));
    }
    if translation.parts.recording.records_values() {
        values_before(translation, item, described);
    }
}

/// Describes what an instruction asks of the caches, and emits the store of what its address
/// needs.
pub(crate) fn cache_control(
    translation: &mut Translation,
    control: CacheControl,
) -> DescribedControl {
    match control {
        CacheControl::Fence(fence) => DescribedControl::Fence(fence),
        CacheControl::Line(operation, operand) => DescribedControl::Line {
            operation,
            address: plain_address(translation, &operand),
        },
    }
}

/// What is stored after a repeated string instruction.
fn repetition_stores(item: &Item, described: &AccessingInstruction) -> Vec<(Slot, StoredRegister)> {
    let mut stores = Vec::new();
    for (operand, source) in described.operands.iter().zip(item.operands()) {
        if let (
            Extent::Repeat {
                after,
                pointer_after,
                ..
            },
            Shape::Repeat { count, pointer },
        ) = (operand.extent, source.shape)
        {
            // The pointer is compared with the address, which has the segment's base in it.
            let in_fs = source.segment == Some(Segment::Fs);
            let words = [(after, count, false), (pointer_after, pointer, in_fs)];
            for (slot, register, beyond_fs) in words {
                let stored = StoredRegister {
                    number: register.full_register().number() as Gpr,
                    half: !register.is_gpr64(),
                    beyond_fs,
                };
                if !stores.contains(&(slot, stored)) {
                    stores.push((slot, stored));
                }
            }
        }
    }
    stores
}

/// Right behind the instruction: notes where it is, if it is repeated.
pub(crate) fn note_repetition(translation: &mut Translation, item: &Item, in_chunks: bool) {
    let Some(described) = translation.superblock.instructions.last() else {
        return;
    };
    let stores = repetition_stores(item, described);
    if stores.is_empty() {
        return;
    }
    let repetition = Repetition {
        instruction: translation.instruction_number(),
        place: translation
            .builder
            .code
            .here()
            .minus(u32::from(item.layout.length)),
        progress: (
            translation.words as u8,
            translation.superblock.instructions.len() as u8,
        ),
        stores,
        values: translation.values_taken,
        in_chunks,
    };
    translation.repetitions.push(repetition);
}

/// Emits what is stored after the instruction.
pub(crate) fn after(translation: &mut Translation, item: &Item) {
    if item.operands().is_empty() {
        return;
    }
    let Some(described) = translation.superblock.instructions.last().cloned() else {
        return;
    };
    let mut stores: Vec<(Slot, After)> = repetition_stores(item, &described)
        .into_iter()
        .map(|(slot, stored)| (slot, After::Register(stored)))
        .collect();
    if let Some(slot) = described.cas_success {
        stores.push((slot, After::ZeroFlag));
    }
    let words = translation.words();
    for (slot, what) in stores {
        let code = &mut translation.builder.code;
        let at = Translation::place(slot);
        match what {
            After::Register(register) if register.beyond_fs => {
                let scratch = words.spare();
                match register.half {
                    true => code.zero_extend(scratch, register.number),
                    false => code.copy(scratch, register.number),
                }
                add_slot(code, scratch, offset::PROGRAM_FS);
                words.store(code, at, scratch, 8);
            }
            After::Register(register) if register.half => {
                words.store_half(code, at, register.number);
            }
            After::Register(register) => words.store(code, at, register.number, 8),
            After::ZeroFlag => words.store_condition(code, at, EQUAL, 1),
        }
    }
    if described.ticket.is_some() {
        release_ticket_lock(translation);
    }
    if translation.parts.recording.records_values() {
        let site = translation.parts.value_calls.add(
            translation.superblock.instructions.len() - 1,
            &described,
            true,
            None,
            false,
        );
        translation.clean_call(TracerRequest::Values(site), item.pc);
    }
}

/// In verify mode: the values that are read are taken before the instruction, and with them,
/// for instructions after which control is elsewhere, those that are written.
fn values_before(translation: &mut Translation, item: &Item, described: &AccessingInstruction) {
    let next_pc = item.pc + u64::from(item.layout.length);
    let pushed = match item.layout.kind {
        Kind::CallDirect | Kind::CallIndirect => Some(next_pc),
        Kind::Return { .. } | Kind::JumpIndirect => Some(0),
        _ => None,
    };
    let ordinal = translation.superblock.instructions.len();
    let in_chunks = translation.parts.has_chunks(item);
    let calls = translation.parts.value_calls;
    let site = calls.add(ordinal, described, false, pushed, in_chunks);
    translation.values_taken = Some(site);
    translation.clean_call(TracerRequest::Values(site), item.pc);
}

/// Describes one operand, and emits the stores of what its address needs.
fn describe(
    translation: &mut Translation,
    item: &Item,
    operand: &MemoryOperand,
) -> Option<Operand> {
    let is_tile = matches!(operand.shape, Shape::Tile { .. });
    if operand.size == 0 && !is_tile {
        return None;
    }
    let address = match operand.shape {
        Shape::BitString { number } => bit_string_address(translation, item, operand, number),
        Shape::AlignedDown => aligned_address(translation, item, operand),
        _ => plain_address(translation, operand),
    };
    let extent = match operand.shape {
        Shape::Plain | Shape::BitString { .. } | Shape::AlignedDown => Extent::Plain,
        Shape::Repeat { count, .. } => {
            let before = store_register(translation, count);
            Extent::Repeat {
                before,
                after: translation.take_slot(),
                pointer_after: translation.take_slot(),
            }
        }
        Shape::Indexed {
            index,
            index_size,
            count,
            mask,
        } => {
            let index = elements::record_indexes(translation, index);
            Extent::Indexed {
                index,
                index_size,
                scale: operand.scale,
                count,
                mask: elements::record_mask(translation, mask),
            }
        }
        Shape::Masked { count, mask } => Extent::Masked {
            count,
            mask: elements::record_mask(translation, mask),
        },
        Shape::AnyOf { count, mask } => match elements::record_mask(translation, mask) {
            Mask::All => Extent::Plain,
            Mask::Bits(mask) => Extent::AnyOf { count, mask },
        },
        Shape::Compressed { count, mask } => {
            match elements::record_mask(translation, ElementMask::Bits(mask)) {
                Mask::All => Extent::Masked {
                    count,
                    mask: Mask::All,
                },
                Mask::Bits(mask) => Extent::Compressed { count, mask },
            }
        }
        Shape::Tile { tile, stride } => elements::record_tile(translation, operand, tile, stride),
    };
    Some(Operand {
        kind: operand.kind,
        size: operand.size,
        address,
        extent,
    })
}

fn plain_address(translation: &mut Translation, operand: &MemoryOperand) -> AddressSource {
    let nothing = operand.base == Register::None && scalar_index(operand).is_none();
    if nothing && operand.segment.is_none() {
        let address = operand.displacement as u64;
        return AddressSource::Absolute(if operand.address_size_32 {
            address & 0xffff_ffff
        } else {
            address
        });
    }
    if nothing && operand.segment == Some(Segment::Fs) {
        return thread_pointer_address(translation, operand.displacement);
    }
    let base = wide_register(operand.base);
    let index =
        scalar_index(operand).and_then(|(index, scale)| Some((wide_register(index)?, scale)));
    let regular = operand.segment.is_none()
        && !operand.address_size_32
        && base.is_some() == (operand.base != Register::None)
        && index.is_some() == scalar_index(operand).is_some();
    let symbolic = if regular {
        translation.values.address(base, index)
    } else {
        None
    };
    if let Some((slot, add)) = symbolic.and_then(|symbolic| translation.values.recorded(symbolic)) {
        return AddressSource::Word {
            slot,
            add: add.wrapping_add(operand.displacement),
        };
    }
    let slot = translation.take_slot();
    let (words, at) = (translation.words(), Translation::place(slot));
    let code = &mut translation.builder.code;
    let Some(symbolic) = symbolic else {
        words.store_address(code, at, operand, 8);
        return AddressSource::Word { slot, add: 0 };
    };
    // The displacement stays out of the word, so that neighbours can use it.
    let bare = MemoryOperand {
        displacement: 0,
        ..*operand
    };
    words.store_address(code, at, &bare, 8);
    translation.values.record(symbolic, slot);
    AddressSource::Word {
        slot,
        add: operand.displacement,
    }
}

fn thread_pointer_address(translation: &mut Translation, displacement: i64) -> AddressSource {
    let symbolic = translation
        .values
        .address(Some(THREAD_POINTER), None)
        .expect("it has a base");
    if let Some((slot, add)) = translation.values.recorded(symbolic) {
        return AddressSource::Word {
            slot,
            add: add.wrapping_add(displacement),
        };
    }
    let slot = translation.take_slot();
    let (words, at) = (translation.words(), Translation::place(slot));
    words.store_slot(&mut translation.builder.code, at, offset::PROGRAM_FS, 8);
    translation.values.record(symbolic, slot);
    AddressSource::Word {
        slot,
        add: displacement,
    }
}

fn store_register(translation: &mut Translation, register: Register) -> Slot {
    let slot = translation.take_slot();
    let (words, at) = (translation.words(), Translation::place(slot));
    let number = register.full_register().number() as Gpr;
    let code = &mut translation.builder.code;
    match register.is_gpr64() {
        true => words.store(code, at, number, 8),
        false => words.store_half(code, at, number),
    }
    slot
}

/// A bit string's word: the bit number divided by the operand's bits, rounded down.
fn bit_string_address(
    translation: &mut Translation,
    item: &Item,
    operand: &MemoryOperand,
    number: Register,
) -> AddressSource {
    let slot = translation.take_slot();
    with_flags(translation, item.flags_live, |translation| {
        let scratch = translation.binding.scratch();
        let from = number.full_register().number() as Gpr;
        // The word of the address itself holds the first part meanwhile.
        effective_address(translation, operand);
        translation.store_word(slot, scratch);
        let words = translation.words();
        let code = &mut translation.builder.code;
        let rex = 0x48 | (scratch >> 3) << 2 | from >> 3;
        let modrm = 0xc0 | (scratch & 7) << 3 | from & 7;
        match operand.size {
            2 => code.bytes(&[rex, 0x0f, 0xbf, modrm]), // movsx r64, r16
            4 => code.bytes(&[rex, 0x63, modrm]),       // movsxd r64, r32
            _ => code.bytes(&[rex, 0x8b, modrm]),
        }
        let bits = (operand.size * 8).trailing_zeros() as u8;
        let bytes = operand.size.trailing_zeros() as u8;
        let rex = 0x48 | scratch >> 3;
        code.bytes(&[rex, 0xc1, 0xf8 | scratch & 7, bits]); // sar
        code.bytes(&[rex, 0xc1, 0xe0 | scratch & 7, bytes]); // shl
        let (buffer, at) = words.place(Translation::place(slot));
        code.on_memory(&[0x01], scratch, buffer, at); // add [word], scratch
    });
    AddressSource::Word { slot, add: 0 }
}

fn aligned_address(
    translation: &mut Translation,
    item: &Item,
    operand: &MemoryOperand,
) -> AddressSource {
    let slot = translation.take_slot();
    with_flags(translation, item.flags_live, |translation| {
        let scratch = translation.binding.scratch();
        effective_address(translation, operand);
        let code = &mut translation.builder.code;
        code.bytes(&[0x48 | scratch >> 3, 0x81, 0xe0 | scratch & 7]); // and scratch, -size
        code.imm32(-(operand.size as i32));
        translation.store_word(slot, scratch);
    });
    AddressSource::Word { slot, add: 0 }
}

/// Order `ticket`: takes the lock of the operand's line and draws a ticket under it, so that
/// the tickets of atomic instructions on one line stand in the order of their effects.
fn draw_ticket(translation: &mut Translation, item: &Item) -> Slot {
    let slot = translation.take_slot();
    let operand = item.operands()[0];
    let tickets = translation.parts.recording.tickets;
    let scratch = translation.binding.scratch();
    with_flags(translation, item.flags_live, |translation| {
        effective_address(translation, &operand);
        let code = &mut translation.builder.code;
        let rex = 0x48 | scratch >> 3;
        code.bytes(&[rex, 0xc1, 0xe8 | scratch & 7, 6]); // shr scratch, 6
        code.bytes(&[rex, 0x81, 0xe0 | scratch & 7]); // and scratch, locks - 1
        code.imm32(tickets.lock_count as i32 - 1);
        let locks = Address {
            base: None,
            index: Some((scratch, 8)),
            displacement: tickets.locks as i32,
        };
        code.lea_address(scratch, locks, false);
        code.store_slot(offset::spill(LOCK_SPILL), scratch);
        let retry = code.here();
        // lock bts qword [scratch], 0
        code.bytes(&[0xf0]);
        code.on_memory(&[0x0f, 0xba], 5, scratch, 0);
        code.bytes(&[0]);
        code.jump_if(2, retry); // jc
        code.load_immediate(scratch, 1);
        // lock xadd [counter], scratch
        code.bytes(&[
            0xf0,
            0x48 | (scratch >> 3) << 2,
            0x0f,
            0xc1,
            0x04 | (scratch & 7) << 3,
            0x25,
        ]);
        code.imm32(tickets.counter as i32);
        code.lea(scratch, scratch, 1);
        translation.store_word(slot, scratch);
    });
    slot
}

fn release_ticket_lock(translation: &mut Translation) {
    let scratch = translation.binding.scratch();
    let code = &mut translation.builder.code;
    code.load_slot(scratch, offset::spill(LOCK_SPILL));
    code.store_immediate(scratch, 0, 0);
    code.store_slot_constant(offset::spill(LOCK_SPILL), 0);
}
