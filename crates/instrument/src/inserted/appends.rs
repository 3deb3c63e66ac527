//! Entries of a tool's buffers.
//!
//! Where a tool has buffers, two registers that a superblock does not touch are spilled for its
//! whole length, as in a traced program (see [`RegisterBinding`]): the position in the first buffer,
//! and scratch. All that a path appends is stored relative to the position that it found, so
//! the position moves once, where the path ends.

use std::mem::offset_of;

use iced_x86::Register;
use unspool_code_cache::binding::RegisterBinding;
use unspool_code_cache::emit::{Gpr, gpr};
use unspool_code_cache::gates::CallSlots;
use unspool_code_cache::slots::offset;
use unspool_instructions::decode::Kind;

use super::at_call::{AtCall, Pending, part};
use super::wide_vectors::{self, Wide};
use super::{Translation, calls, observed};
use crate::buffers::{self, PendingBytes};
use crate::slots::{Part, offset as tool_offset};
use crate::{Action, Argument, BufferId, Field};
use unspool_engine::translate::insertion::append::{BufferEntry, BufferPosition};
use unspool_engine::translate::superblock::Item;
use unspool_engine::translate::walk::Walk;

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
    let start = translation.own.take_room(item, buffer, size);
    emit_at(translation, item, (buffer, start), (size, fields));
}

/// Emits an entry that starts so far behind the position.
pub(super) fn emit_at(
    translation: &mut Translation,
    item: &Item,
    (buffer, start): (BufferId, i32),
    (size, fields): (u16, &[Field]),
) {
    if fields
        .iter()
        .any(|field| field.value == Argument::TimeStamp)
    {
        read_time(translation);
    }
    let position = position(buffer.index());
    let walk = &mut *translation.walk;
    let registers = put_in_place(walk, item, fields);
    let is_apart = |field: &Field| is_apart(walk.bound(), field);
    let fits = position == BufferPosition::Bound || !fields.iter().any(is_apart);
    let entry = fits
        .then(|| walk.begin_entry(position, start, registers))
        .flatten();
    match entry {
        Some(entry) => store_all(walk, item, entry, (size, fields)),
        None => fields
            .iter()
            .for_each(|field| store_apart(walk, item, (position, start), field)),
    }
}

/// Emits what puts the time into its slot. No register is changed, and no flag.
fn read_time(translation: &mut Translation) {
    let [time, rax, rdx] = [0, 8, 16].map(|word| tool_offset::TIME_STAMP + word);
    let code = &mut translation.walk.builder.code;
    code.store_slot(rax, gpr::RAX);
    code.store_slot(rdx, gpr::RDX);
    // Where the program has forbidden this, it is the tool's code that faults.
    let start = code.here();
    code.bytes(&[0x0f, 0x31]); // rdtsc
    let end = code.here();
    code.on_slot(&[0x89], gpr::RAX, time); // mov dword fs:[time], eax
    code.on_slot(&[0x89], gpr::RDX, time + 4);
    code.load_slot(gpr::RAX, rax);
    code.load_slot(gpr::RDX, rdx);
    translation.tool_code.push(start..end);
}

/// Emits what puts in place what fields read of what is borrowed. Returns the registers.
fn put_in_place(walk: &mut Walk, item: &Item, fields: &[Field]) -> u16 {
    let registers = fields
        .iter()
        .fold(0, |mask, field| mask | read(item, field));
    if fields.iter().any(|field| is_condition(&field.value)) {
        walk.borrowed.give_back_flags(&mut walk.builder);
    }
    walk.give_back(registers);
    registers
}

fn is_condition(value: &Argument) -> bool {
    matches!(value, Argument::Taken | Argument::Condition(_))
}

/// Which registers are read for a field.
fn read(item: &Item, field: &Field) -> u16 {
    let counts = matches!(item.layout.kind, Kind::JrcxzOrLoop { .. });
    let count = match is_condition(&field.value) && counts {
        true => 1 << gpr::RCX,
        false => 0,
    };
    calls::registers(&field.value) | count
}

fn store_all(walk: &mut Walk, item: &Item, entry: BufferEntry, (size, fields): (u16, &[Field])) {
    for first in (0..usize::from(size)).step_by(WORD) {
        let bytes = WORD.min(usize::from(size) - first);
        let within = |field: &&Field| (first..first + bytes).contains(&usize::from(field.offset));
        let here = fields.iter().filter(within);
        // What is wider than a word lies in those behind it, too.
        let reaches_here = |field: &Field| {
            let start = usize::from(field.offset);
            start < first && first < start + usize::from(field.size)
        };
        let is_own = !fields.iter().any(reaches_here);
        match constant(first, here.clone()) {
            Some(value) if bytes == WORD && is_own => {
                entry.store_constant(&mut walk.builder.code, first as i32, value, bytes as u8);
            }
            _ => here.for_each(|field| store(walk, item, entry, field)),
        }
    }
}

/// Emits the store of a field.
pub(super) fn store(walk: &mut Walk, item: &Item, entry: BufferEntry, field: &Field) {
    // Another field may have borrowed what this one reads.
    walk.give_back(read(item, field));
    if is_apart(walk.bound(), field) {
        return store_address_apart(walk, entry, field);
    }
    let bound = program_slot(walk.binding, &field.value);
    let code = &mut walk.builder.code;
    let (at, size) = (i32::from(field.offset), field.size);
    match &field.value {
        Argument::Constant(value) => entry.store_constant(code, at, *value, size),
        Argument::Condition(condition) => entry.store_condition(code, at, *condition, size),
        Argument::Taken => match item.layout.kind {
            Kind::Jcc { condition } => entry.store_condition(code, at, condition, size),
            Kind::JrcxzOrLoop { .. } => store_counted(walk, item, entry, field),
            _ => panic!("only a conditional jump before which an entry is made may be taken"),
        },
        Argument::Register(register) => match bound {
            Some(slot) => entry.store_slot(code, at, slot, size),
            None => entry.store(code, at, *register, size),
        },
        Argument::Address(operand) => entry.store_address(code, at, operand, size),
        Argument::ThreadNumber => entry.store_slot(code, at, tool_offset::THREAD_NUMBER, size),
        Argument::MemoryValue(_)
        | Argument::Flags
        | Argument::StackTop
        | Argument::Mask(_)
        | Argument::VectorControl
        | Argument::FsBase => {
            let slot = observed::slot(&field.value).expect("it is in a slot");
            entry.store_slot(code, at, slot, size);
        }
        Argument::TimeStamp => entry.store_slot(code, at, tool_offset::TIME_STAMP, size),
        Argument::WideVector { register, bytes } => {
            let (register, bytes) = (*register, *bytes);
            wide_vectors::store_at(code, entry.place(at), Wide { register, bytes });
        }
        Argument::Changeable(_)
        | Argument::Vector(_)
        | Argument::Target
        | Argument::Activation(_)
        | Argument::LowHalf(_)
        | Argument::ElementAddress
        | Argument::ElementSize
        | Argument::Context(_) => panic!("{:?} cannot be a field", field.value),
    }
}

/// The slot of the program's value of a register that is bound.
fn bound_slot(binding: Option<RegisterBinding>, register: Gpr) -> Option<i32> {
    let mut bound = binding?.all();
    let (_, slot) = bound.find(|&(bound, _)| bound == register)?;
    Some(offset::spill(slot))
}

/// The same for what is stored, if it is a register.
fn program_slot(binding: Option<RegisterBinding>, value: &Argument) -> Option<i32> {
    match value {
        Argument::Register(register) => bound_slot(binding, *register),
        _ => None,
    }
}

/// Whether a field is an address that is made of what is bound, as those of the superblock's own
/// operands are not.
fn is_apart(bound: u16, field: &Field) -> bool {
    matches!(field.value, Argument::Address(_)) && calls::registers(&field.value) & bound != 0
}

/// Stores a field with a register that is borrowed for it alone: where the fields together leave
/// none free, or one is made of what is bound.
fn store_apart(
    walk: &mut Walk,
    item: &Item,
    (position, start): (BufferPosition, i32),
    field: &Field,
) {
    let entry = walk.begin_entry(position, start, read(item, field));
    let entry = entry.expect("a field reads two registers at most");
    store(walk, item, entry, field);
}

/// Stores an address that is made of what is bound.
fn store_address_apart(walk: &mut Walk, entry: BufferEntry, field: &Field) {
    let Argument::Address(mut operand) = field.value else {
        unreachable!("only addresses are made of several registers");
    };
    let touched = calls::registers(&field.value) | walk.bound();
    let [spare, other] = walk.borrowed.take(&mut walk.builder, None, touched);
    let code = &mut walk.builder.code;
    // The sum may be made where its index is, but not where its base is.
    for (register, place) in [(&mut operand.base, other), (&mut operand.index, spare)] {
        let full = register.full_register();
        let is_general = full.is_gpr64();
        let slot = is_general.then(|| bound_slot(walk.binding, full.number() as Gpr));
        if let Some(slot) = slot.flatten() {
            code.load_slot(place, slot);
            let first = match register.is_gpr32() {
                true => Register::EAX,
                false => Register::RAX,
            };
            *register = first + u32::from(place);
        }
    }
    let at = i32::from(field.offset);
    entry
        .with_spare(spare)
        .store_address(code, at, &operand, field.size);
}

/// Whether a branch that depends on rcx will be taken: it is executed, but leads nowhere.
fn store_counted(walk: &mut Walk, item: &Item, entry: BufferEntry, field: &Field) {
    let at = i32::from(field.offset);
    let code = &mut walk.builder.code;
    let kept = usize::from(item.layout.length) - 1;
    code.store_slot(CallSlots::kept(gpr::RCX), gpr::RCX);
    entry.store_constant(code, at, 1, field.size);
    code.bytes(&item.bytes[..kept]);
    let here = code.here();
    code.bytes(&[0]);
    entry.store_constant(code, at, 0, field.size);
    code.land_short(here);
    code.load_slot(gpr::RCX, CallSlots::kept(gpr::RCX));
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

/// Where the position of a buffer is.
pub(super) fn position(number: usize) -> BufferPosition {
    if number == 0 && buffers::first_is_bound() {
        return BufferPosition::Bound;
    }
    BufferPosition::Slot(part(number) + offset_of!(Part, position) as i32)
}

impl super::Progress {
    /// What the path has appended where a call is being emitted.
    pub(super) fn at_call(&self) -> AtCall {
        self.deferred.unwrap_or_else(|| {
            let undecided = |number: usize| match self.completed || self.is_aside {
                true => 0,
                false => self.pending[number] - self.before[number],
            };
            AtCall(std::array::from_fn(|number| PendingBytes {
                all: self.pending[number],
                undecided: undecided(number),
            }))
        })
    }

    /// The path appends an entry. Returns how far behind the position it starts.
    fn take_room(&mut self, item: &Item, buffer: BufferId, size: u16) -> i32 {
        let start = self.find_room(item, buffer, size);
        self.pending[buffer.index()] += u32::from(size);
        start
    }

    /// How far behind the position an entry starts that comes next.
    pub(super) fn find_room(&self, item: &Item, buffer: BufferId, size: u16) -> i32 {
        let start = self.pending[buffer.index()];
        let kind = buffer.kind();
        let room = kind.part_size();
        assert!(
            (start + u32::from(size)) as usize <= room,
            "the buffer of {room} bytes that is made at {} is too small for what is appended at {:#x} and before; give it room for more entries",
            kind.made_at,
            item.pc
        );
        start as i32
    }
}

impl Translation<'_, '_> {
    /// Emits what moves the positions behind what the path has stored. The scratch register
    /// loses its content if [`Translation::advance_needs_scratch`].
    pub(super) fn advance(&mut self, pending: Pending) {
        for (number, &bytes) in pending.iter().enumerate() {
            if bytes != 0 {
                self.walk.advance(position(number), bytes);
            }
        }
    }

    pub(super) fn advance_needs_scratch(&self) -> bool {
        let mut pending = self.pending.iter().enumerate();
        pending.any(|(number, &bytes)| bytes != 0 && position(number) != BufferPosition::Bound)
    }
}

/// The entries among some actions.
pub(super) fn sizes(actions: &[Action]) -> impl Iterator<Item = (BufferId, u16)> + '_ {
    actions.iter().filter_map(|action| match action {
        Action::Append { buffer, size, .. } => Some((*buffer, *size)),
        _ => None,
    })
}
