//! Checks of shadow words as clients make them, executed: bytes against a constant, and the cells of a
//! race detector against a thread's epoch.

use unspool_code_cache::emit::{Address, Gpr, gpr};
use unspool_code_cache::gates::CallSlots;
use unspool_code_cache::slots::{Slots, SlotsPart, slots};

use super::super::borrowed::Borrowed;
use super::super::detour::{Detour, Jumps};
use super::super::executed::{FreeSlots, State, execute, execute_with, untouched, value};
use super::ShadowLayout;
use crate::translate::copy::Builder;

const NOT_EQUAL: u8 = 5;
/// The slot of the thread's epoch: 24 bits, and the thread's number in the highest byte.
const EPOCH: i32 = FreeSlots::FIRST;
/// Where a slow part says that it was there.
const SLOW: i32 = FreeSlots::SECOND;
/// The bits of an epoch that tell the thread.
const THREAD: u32 = 0xff00_0000;
const CELLS: usize = 64;
/// The register that is borrowed first.
const CHANGED: Gpr = 8;
/// Where the halves of a cell are.
const WRITE: i32 = 0;
const READ: i32 = 4;

/// Cells of eight bytes, each for eight bytes of the program's memory: the epoch of the last write,
/// and that of the last read.
#[repr(C, align(8))]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
struct Cell {
    write: u32,
    read: u32,
}

fn layout(cells: &[Cell; CELLS]) -> ShadowLayout {
    ShadowLayout {
        base: cells.as_ptr() as u64,
        shift: 3,
        bits: Some(CELLS.trailing_zeros() as u8),
        word: 8,
    }
}

/// Emits a slow part. It counts, and leaves the program's state alone.
fn emit_slow(builder: &mut Builder, detour: &Detour) {
    let code = &mut builder.code;
    detour.begin(code);
    code.store_slot(CallSlots::kept(gpr::RAX), gpr::RAX);
    code.load_slot(gpr::RAX, SLOW);
    code.lea(gpr::RAX, gpr::RAX, 1);
    code.store_slot(SLOW, gpr::RAX);
    code.load_slot(gpr::RAX, CallSlots::kept(gpr::RAX));
    detour.end(code, 0);
}

/// Finds the cell of the address in rbx. Returns two registers: what is there, and one to use.
fn find(builder: &mut Builder, borrowed: &mut Borrowed, layout: ShadowLayout) -> [Gpr; 2] {
    let [cell, other] = borrowed.take(builder, None, 1 << gpr::RBX);
    borrowed.take_flags(builder, true);
    let code = &mut builder.code;
    code.copy(cell, gpr::RBX);
    layout.load_base(code, other);
    let word = layout.find(code, cell, Some(other));
    code.lea_address(cell, word.at(0), false);
    [cell, other]
}

/// A write's check: if this thread was the last to write and to read the cell, it is now the last to
/// write it in this epoch; else the slow part is asked.
fn check_write(builder: &mut Builder, borrowed: &mut Borrowed, layout: ShadowLayout) -> Detour {
    let [cell, other] = find(builder, borrowed, layout);
    let code = &mut builder.code;
    let mut jumps = Jumps::new();
    for half in [WRITE, READ] {
        code.load_at(other, Address::at(cell, half), 4);
        code.xor_slot(other, EPOCH);
        code.test(other, THREAD);
        jumps.push(code.jump_forward_if(NOT_EQUAL));
    }
    code.load_slot(other, EPOCH);
    code.store_at(Address::at(cell, WRITE), other, 4);
    Detour::new(builder, *borrowed, jumps)
}

/// A read's check: whether this thread has read the cell in this epoch.
fn check_read(builder: &mut Builder, borrowed: &mut Borrowed, layout: ShadowLayout) -> Detour {
    let [cell, other] = find(builder, borrowed, layout);
    let code = &mut builder.code;
    code.load_slot(other, EPOCH);
    code.compare_at(Address::at(cell, READ), other, 4);
    let jumps = Jumps::from_slice(&[code.jump_forward_if(NOT_EQUAL)]);
    Detour::new(builder, *borrowed, jumps)
}

type Check = fn(&mut Builder, &mut Borrowed, ShadowLayout) -> Detour;

/// Makes checks one after the other at an address, in an epoch. Returns how many slow parts were
/// executed, and what the program's state is behind them.
fn make(cells: &mut [Cell; CELLS], address: u64, epoch: u32, checks: &[Check]) -> (u64, State) {
    let layout = layout(cells);
    let prepare = |slots: &Slots| {
        slots.registers[usize::from(gpr::RBX)].set(address);
        FreeSlots::of(slots).first.set(u64::from(epoch));
        FreeSlots::of(slots).second.set(0);
    };
    let state = execute_with(prepare, |builder| {
        let mut borrowed = Borrowed::default();
        let detours: Vec<_> = checks
            .iter()
            .map(|check| check(builder, &mut borrowed, layout))
            .collect();
        borrowed.give_back_all(builder);
        let over = builder.code.jump_forward();
        for detour in &detours {
            emit_slow(builder, detour);
        }
        builder.code.land(over);
    });
    (FreeSlots::of(slots()).second.get(), state)
}

/// The program's state, but for the address in rbx, is untouched.
fn expect_untouched(state: &State, address: u64) {
    let mut wanted = untouched();
    wanted.registers[usize::from(gpr::RBX)] = address;
    assert_eq!(*state, wanted);
}

const OWN: u32 = 3 << 24 | 17;
const OTHERS: u32 = 4 << 24 | 17;

#[test]
fn an_epoch_is_compared_with_half_of_a_cell() {
    // The number of the granule is cut to as many bits as there are cells.
    let address = 0x7fff_0000_0000 | 5 << 3 | 7;
    for (write, read, slow) in [
        (OWN, OWN, 0),
        (OTHERS, OWN, 0),
        (OWN, OTHERS, 1),
        (OWN, OWN - 1, 1),
    ] {
        let mut cells = [Cell::default(); CELLS];
        cells[5] = Cell { write, read };
        let before = cells;
        let (count, state) = make(&mut cells, address, OWN, &[check_read]);
        assert_eq!(count, slow);
        assert_eq!(cells, before);
        expect_untouched(&state, address);
    }
}

#[test]
fn a_thread_that_is_alone_with_a_cell_stores_its_epoch() {
    let address = 9 << 3;
    for (write, read, is_alone) in [
        (OWN - 5, OWN - 2, true),
        (OTHERS, OWN, false),
        (OWN, OTHERS, false),
        (0, 0, false),
    ] {
        let mut cells = [Cell::default(); CELLS];
        cells[9] = Cell { write, read };
        let mut wanted = cells;
        if is_alone {
            wanted[9].write = OWN;
        }
        let (count, state) = make(&mut cells, address, OWN, &[check_write]);
        assert_eq!((count == 0, cells), (is_alone, wanted));
        expect_untouched(&state, address);
    }
}

#[test]
fn neighbouring_checks_share_what_they_borrow() {
    let address = 63 << 3;
    let mut cells = [Cell::default(); CELLS];
    cells[63] = Cell {
        write: OWN,
        read: OWN,
    };
    let (count, state) = make(&mut cells, address, OWN, &[check_read, check_write]);
    assert_eq!(count, 0);
    expect_untouched(&state, address);
    // And where each of them asks its slow part.
    cells[63].read = OTHERS;
    let (count, state) = make(&mut cells, address, OWN, &[check_read, check_write]);
    assert_eq!(count, 2);
    expect_untouched(&state, address);
}

#[test]
fn what_a_slow_part_changes_is_the_programs() {
    let changed = |told: u16| {
        let state = execute(|builder| {
            let mut borrowed = Borrowed::default();
            let [register] = borrowed.take(builder, None, 0);
            assert_eq!(register, CHANGED);
            let jumps = Jumps::from_slice(&[builder.code.jump_forward()]);
            let detour = Detour::new(builder, borrowed, jumps);
            borrowed.give_back_all(builder);
            let over = builder.code.jump_forward();
            detour.begin(&mut builder.code);
            builder.code.load_immediate(CHANGED, 5);
            detour.end(&mut builder.code, told);
            builder.code.land(over);
        });
        state.registers[usize::from(CHANGED)]
    };
    assert_eq!(changed(1 << CHANGED), 5);
    assert_eq!(changed(0), value(CHANGED));
}

/// Whether the byte of the granule at an address is as expected.
fn byte_equals(bytes: &[u8; CELLS], address: u64, expected: u8) -> bool {
    let layout = ShadowLayout {
        base: bytes.as_ptr() as u64,
        shift: 4,
        bits: Some(CELLS.trailing_zeros() as u8),
        word: 1,
    };
    let prepare = |slots: &Slots| slots.registers[usize::from(gpr::RBX)].set(address);
    let state = execute_with(prepare, |builder| {
        let code = &mut builder.code;
        // 1 in rax where it is as expected. What is used is not given back here.
        code.load_immediate(gpr::RAX, 0);
        code.copy(8, gpr::RBX);
        layout.load_base(code, 9);
        let word = layout.find(code, 8, Some(9));
        code.compare_constant_at(word.at(0), i32::from(expected), 1);
        let differs = code.jump_forward_if(NOT_EQUAL);
        code.load_immediate(gpr::RAX, 1);
        code.land(differs);
    });
    state.registers[0] == 1
}

#[test]
fn a_byte_is_compared_with_a_constant() {
    let mut bytes = [0; CELLS];
    bytes[20] = 200;
    // As in the highest half of all addresses, which no program has.
    for address in [20 << 4, 20 << 4 | 15, 0xffff_f000_0000_0000 | 20 << 4] {
        assert!(byte_equals(&bytes, address, 200));
        assert!(!byte_equals(&bytes, address, 0));
        assert!(!byte_equals(&bytes, address + 16, 200));
    }
}

#[test]
fn a_known_address_leads_to_the_same_word() {
    let near = ShadowLayout {
        base: 0x7000_0000,
        shift: 6,
        bits: None,
        word: 4,
    };
    let word = near.known(0x1000).expect("it lies near");
    assert_eq!(word.at(0).displacement, 0x7000_0000 + 0x40 * 4);
    assert!(near.known(1 << 40).is_none());
    let folded = ShadowLayout {
        bits: Some(4),
        ..near
    };
    let word = folded.known(1 << 40 | 3 << 6).expect("it is folded");
    assert_eq!(word.at(4).displacement, 0x7000_0000 + 3 * 4 + 4);
}
