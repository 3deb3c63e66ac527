//! Entries of a tool's buffers.
//!
//! Where a tool has buffers, two registers that a superblock does not touch are spilled for its
//! whole length, as in a traced program (see [`RegisterBinding`]): the position in the first buffer,
//! and scratch. All that a path appends is stored relative to the position that it found, so
//! the position moves once, where the path ends.

use iced_x86::Register;
use unspool_code_cache::binding::RegisterBinding;
use unspool_code_cache::emit::{Gpr, gpr};
use unspool_code_cache::gates::CallSlots;
use unspool_code_cache::slots::offset;
use unspool_instructions::decode::Kind;
use unspool_instructions::operands::MemoryOperand;

use super::Translation;
use super::scratch::Scratch;
use crate::buffers;
use crate::slots::offset as tool_offset;
use crate::{Action, Argument, BufferId, Field, MOST_BUFFERS};
use unspool_engine::translate::operand_address::load_address;
use unspool_engine::translate::superblock::Item;

/// Bytes that a path has stored behind each buffer's position.
pub(super) type Pending = [u32; MOST_BUFFERS];

/// Bytes of the largest store.
const WORD: usize = 8;

/// Emits an entry.
pub(super) fn emit(
    translation: &mut Translation,
    item: &Item,
    buffer: BufferId,
    size: u16,
    fields: &[Field],
) {
    let binding = translation
        .walk
        .binding
        .expect("where there are buffers, registers are spilled");
    let at = &mut translation.pending[buffer.index()];
    let start = *at as i32;
    *at += u32::from(size);
    assert!(
        *at as usize <= buffer.bytes(),
        "a buffer of {} bytes is too small for what is appended at {:#x} and before; give it room for more entries",
        buffer.bytes(),
        item.pc
    );
    let code = &mut translation.walk.builder.code;
    let mut entry = AppendedEntry {
        item,
        binding,
        base: binding.buffer(),
        start,
        spare: binding.scratch(),
    };
    if position_is_bound(buffer.index()) {
        return entry.store_all(code, size, fields);
    }
    entry.base = binding.scratch();
    code.load_slot(entry.base, position_slot(buffer.index()));
    let touched = fields.iter().fold(entry.lent(), |mask, field| {
        mask | super::calls::registers(&field.value)
    });
    let is_apart = fields.iter().any(|field| entry.is_apart(field));
    let Some(scratch) = Scratch::outside(touched).filter(|_| !is_apart) else {
        return fields
            .iter()
            .for_each(|field| entry.store_apart(code, field));
    };
    entry.spare = scratch.registers[0];
    scratch.spill(code, 1);
    entry.store_all(code, size, fields);
    scratch.restore(code, 1);
}

/// An entry in the making.
struct AppendedEntry<'a> {
    item: &'a Item,
    binding: RegisterBinding,
    /// The register of the position.
    base: Gpr,
    /// How far behind the position the entry lies.
    start: i32,
    /// A register that may be used.
    spare: Gpr,
}

impl AppendedEntry<'_> {
    fn store_all(&self, code: &mut unspool_code_cache::emit::Emitter, size: u16, fields: &[Field]) {
        let words = (0..usize::from(size)).step_by(WORD);
        for first in words {
            let bytes = WORD.min(usize::from(size) - first);
            let within =
                |field: &&Field| (first..first + bytes).contains(&usize::from(field.offset));
            let here = fields.iter().filter(within);
            match constant(first, here.clone()) {
                Some(value) if bytes == WORD => {
                    self.store_constant(code, first as i32, value, bytes as u8);
                }
                _ => here.for_each(|field| self.store(code, field)),
            }
        }
    }

    fn store(&self, code: &mut unspool_code_cache::emit::Emitter, field: &Field) {
        let at = i32::from(field.offset);
        let place = self.start + at;
        let stored = match &field.value {
            Argument::Constant(value) => return self.store_constant(code, at, *value, field.size),
            Argument::Taken | Argument::Condition(_) => {
                let condition = match (&field.value, self.item.layout.kind) {
                    (Argument::Condition(condition), _) => *condition,
                    (_, Kind::Jcc { condition }) => condition,
                    (_, Kind::JrcxzOrLoop { .. }) => return self.store_counted(code, field),
                    _ => {
                        panic!("only a conditional jump before which an entry is made may be taken")
                    }
                };
                if field.size != 1 {
                    self.store_constant(code, at, 0, field.size);
                }
                code.store_condition(condition, self.base, place);
                return;
            }
            Argument::Register(register) => self.program_register(code, *register),
            Argument::Address(operand) => match bare_base(operand) {
                _ if self.is_apart(field) => return self.store_apart(code, field),
                Some(base) => base,
                None => {
                    load_address(code, self.spare, operand);
                    self.spare
                }
            },
            Argument::Changeable(_)
            | Argument::Vector(_)
            | Argument::Target
            | Argument::Activation(_)
            | Argument::LowHalf(_)
            | Argument::Context(_) => panic!("{:?} cannot be a field", field.value),
        };
        code.store_part(self.base, place, stored, field.size);
    }

    /// The registers spilled, as a mask.
    fn lent(&self) -> u16 {
        self.binding.mask()
    }

    /// Whether a field is an address that is made of what is spilled, as those of the
    /// superblock's own operands are not.
    fn is_apart(&self, field: &Field) -> bool {
        let read = super::calls::registers(&field.value);
        matches!(field.value, Argument::Address(_)) && read & self.lent() != 0
    }

    /// The slot of the program's value of a register that is spilled.
    fn lent_slot(&self, register: Gpr) -> Option<i32> {
        let mut bound = self.binding.all();
        let (_, slot) = bound.find(|&(bound, _)| bound == register)?;
        Some(offset::spill(slot))
    }

    /// Stores a field with registers that are spilled for it alone: where the fields together
    /// leave none free, or an address is made of what is spilled.
    fn store_apart(&self, code: &mut unspool_code_cache::emit::Emitter, field: &Field) {
        let scratch = Scratch::without(super::calls::registers(&field.value) | self.lent());
        let [spare, other] = scratch.registers;
        scratch.spill(code, 1);
        // Addresses in a segment are computed with the second spill slot.
        code.store_slot(CallSlots::kept(other), other);
        let mut field = *field;
        if let Argument::Address(operand) = &mut field.value {
            // The sum may be made where its index is, but not where its base is.
            for (register, place) in [(&mut operand.base, other), (&mut operand.index, spare)] {
                let full = register.full_register();
                if !full.is_gpr64() {
                    continue;
                }
                if let Some(slot) = self.lent_slot(full.number() as Gpr) {
                    code.load_slot(place, slot);
                    let first = match register.is_gpr32() {
                        true => Register::EAX,
                        false => Register::RAX,
                    };
                    *register = first + u32::from(place);
                }
            }
        }
        AppendedEntry { spare, ..*self }.store(code, &field);
        code.load_slot(other, CallSlots::kept(other));
        scratch.restore(code, 1);
    }

    /// Whether a branch that depends on rcx will be taken: it is executed, but leads nowhere.
    fn store_counted(&self, code: &mut unspool_code_cache::emit::Emitter, field: &Field) {
        let at = i32::from(field.offset);
        let kept = usize::from(self.item.layout.length) - 1;
        code.store_slot(CallSlots::kept(gpr::RCX), gpr::RCX);
        self.store_constant(code, at, 1, field.size);
        code.bytes(&self.item.bytes[..kept]);
        let here = code.here();
        code.bytes(&[0]);
        self.store_constant(code, at, 0, field.size);
        let length = (code.here() - here - 1) as u8;
        code.patch8(here, length);
        code.load_slot(gpr::RCX, CallSlots::kept(gpr::RCX));
    }

    /// The register that holds the program's value of a register.
    fn program_register(&self, code: &mut unspool_code_cache::emit::Emitter, register: Gpr) -> Gpr {
        let Some(slot) = self.lent_slot(register) else {
            return register;
        };
        code.load_slot(self.spare, slot);
        self.spare
    }

    fn store_constant(
        &self,
        code: &mut unspool_code_cache::emit::Emitter,
        at: i32,
        value: u64,
        size: u8,
    ) {
        let place = self.start + at;
        if size != 8 || i32::try_from(value as i64).is_ok() {
            code.store_constant_part(self.base, place, value as i32, size);
        } else {
            code.load_immediate(self.spare, value);
            code.store(self.base, place, self.spare);
        }
    }
}

/// The word that fields make which are all constants.
fn constant<'a>(first: usize, mut fields: impl Iterator<Item = &'a Field>) -> Option<u64> {
    fields.try_fold(0, |word, field| {
        let Argument::Constant(value) = field.value else {
            return None;
        };
        let unused = 64 - 8 * u32::from(field.size);
        let value = value << unused >> unused;
        let shift = 8 * (usize::from(field.offset) - first);
        Some(word | value << shift)
    })
}

/// The register that an operand's address is in as it is.
fn bare_base(operand: &MemoryOperand) -> Option<Gpr> {
    let bare = operand.index == Register::None
        && operand.displacement == 0
        && operand.segment.is_none()
        && operand.base.is_gpr64();
    bare.then(|| operand.base.number() as Gpr)
}

/// Where the position of a buffer other than the first is.
fn position_slot(number: usize) -> i32 {
    tool_offset::BUFFERS + (number * size_of::<crate::buffers::Part>()) as i32
}

/// Whether the register of the position holds that of a buffer.
fn position_is_bound(number: usize) -> bool {
    number == 0 && buffers::first_is_bound()
}

impl Translation<'_, '_> {
    /// Emits what moves the positions behind what the path has stored. The scratch register
    /// loses its content if [`Translation::advance_needs_scratch`].
    pub(super) fn advance(&mut self, pending: Pending) {
        let Some(binding) = self.walk.binding else {
            return;
        };
        for (number, &bytes) in pending.iter().enumerate() {
            if bytes == 0 {
                continue;
            }
            let code = &mut self.walk.builder.code;
            if position_is_bound(number) {
                code.lea(binding.buffer(), binding.buffer(), bytes as i32);
                continue;
            }
            let (position, slot) = (binding.scratch(), position_slot(number));
            code.load_slot(position, slot);
            code.lea(position, position, bytes as i32);
            code.store_slot(slot, position);
        }
    }

    pub(super) fn advance_needs_scratch(&self) -> bool {
        let mut pending = self.pending.iter().enumerate();
        pending.any(|(number, &bytes)| bytes != 0 && !position_is_bound(number))
    }
}

/// The entries among some actions.
pub(super) fn sizes(actions: &[Action]) -> impl Iterator<Item = (BufferId, u16)> + '_ {
    actions.iter().filter_map(|action| match action {
        Action::Append { buffer, size, .. } => Some((*buffer, *size)),
        _ => None,
    })
}
