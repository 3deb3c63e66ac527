//! Emitted code is executed, with registers and flags as a test wants them.

use std::cell::Cell;
use std::mem::offset_of;

use unspool_code_cache::cache::NewFragment;
use unspool_code_cache::emit::{Emitter, gpr};
use unspool_code_cache::slots::{Room, Slots, SlotsPart, displacement, offset, slots};

use crate::translate::Vdso;
use crate::translate::copy::Builder;
use crate::translate::item::Item;
use crate::translate::reader::WINDOW;

/// The flags that a test begins with.
pub(crate) const FLAGS: u64 = 0x202 | CARRY | ZERO | OVERFLOW;
pub(crate) const CARRY: u64 = 1;
pub(crate) const ZERO: u64 = 1 << 6;
pub(crate) const OVERFLOW: u64 = 1 << 11;
const STATUS: u64 = 0x8d5;

const SIZE: usize = 1 << 16;
/// Callee-saved registers of the C ABI.
const SAVED: [u8; 6] = [gpr::RBX, gpr::RBP, 12, 13, 14, 15];

/// Registers and status flags behind emitted code.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct State {
    pub(crate) registers: [u64; 16],
    pub(crate) flags: u64,
}

/// Two slots that nothing else uses.
#[repr(C)]
pub(crate) struct FreeSlots {
    pub(crate) first: Cell<u64>,
    pub(crate) second: Cell<u64>,
}

// SAFETY: made of cells of words; nobody else has rooms in a test.
unsafe impl SlotsPart for FreeSlots {
    const ROOM: Room = Room::SecondClient;
}

impl FreeSlots {
    pub(crate) const FIRST: i32 = FreeSlots::START;
    pub(crate) const SECOND: i32 = FreeSlots::START + offset_of!(FreeSlots, second) as i32;
}

/// A distinct value for each register.
pub(crate) fn value(register: u8) -> u64 {
    0x1111_0000_0000 + u64::from(register) * 0x0101_0101
}

/// What code leaves alone.
pub(crate) fn untouched() -> State {
    let mut registers = std::array::from_fn(|register| value(register as u8));
    registers[usize::from(gpr::RSP)] = 0;
    State {
        registers,
        flags: FLAGS & STATUS,
    }
}

/// Executes what is emitted, each register with its [`value`], and the flags as [`FLAGS`]. (The stack
/// pointer is not looked at.)
pub(crate) fn execute(emit: impl FnOnce(&mut Builder)) -> State {
    execute_with(|_| {}, emit)
}

/// The same, with slots, registers among them, as they were prepared.
pub(crate) fn execute_with(prepare: impl FnOnce(&Slots), emit: impl FnOnce(&mut Builder)) -> State {
    // SAFETY: a new mapping, which nothing else knows; what is emitted there returns as the C ABI
    // wants it.
    unsafe {
        let memory = libc::mmap(
            std::ptr::null_mut(),
            SIZE,
            libc::PROT_READ | libc::PROT_WRITE | libc::PROT_EXEC,
            libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_32BIT,
            -1,
            0,
        );
        assert_ne!(memory, libc::MAP_FAILED, "memory for emitted code");
        let code = Emitter::new(memory.cast(), memory.cast::<u8>().add(SIZE), displacement());
        let mut builder = Builder::new((code, NewFragment::default()), 0x1000, Vdso::default());
        enter(&mut builder.code);
        emit(&mut builder);
        leave(&mut builder.code);
        let own = slots();
        own.set_registers(&untouched().registers);
        own.flags.set(FLAGS);
        prepare(own);
        let function: extern "C" fn() = std::mem::transmute(memory);
        function();
        libc::munmap(memory, SIZE);
        State {
            registers: own.registers(),
            flags: own.flags.get() & STATUS,
        }
    }
}

fn enter(code: &mut Emitter) {
    SAVED.into_iter().for_each(|register| code.push(register));
    code.on_slot(&[0xff], 6, offset::FLAGS); // push
    code.bytes(&[0x9d]); // popfq
    for register in (0..16).filter(|register| *register != gpr::RSP) {
        code.load_slot(register, offset::register(register));
    }
}

fn leave(code: &mut Emitter) {
    for register in (0..16).filter(|register| *register != gpr::RSP) {
        code.store_slot(offset::register(register), register);
    }
    code.bytes(&[0x9c]); // pushfq
    code.on_slot(&[0x8f], 0, offset::FLAGS); // pop
    SAVED
        .into_iter()
        .rev()
        .for_each(|register| code.pop(register));
    code.bytes(&[0xc3]);
}

/// An instruction of the program.
pub(crate) fn item(bytes: &[u8]) -> Item {
    let mut window = [0; WINDOW];
    window[..bytes.len()].copy_from_slice(bytes);
    let layout =
        unspool_instructions::decode::decode(bytes, 0x1000).expect("a test knows its instructions");
    Item::new(layout, window, 0x1000)
}

/// Emits the copy of an instruction, as the walk does.
pub(crate) fn copy(builder: &mut Builder, item: &Item) {
    let copied = builder.copy(&item.layout, &item.bytes, item.pc);
    assert!(copied.is_ok(), "it has no operand in GS");
}
