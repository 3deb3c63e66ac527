//! Vector registers around a call of a tool's function.
//!
//! The processor says which parts of them the program uses (`xgetbv` with 1). Parts that it
//! does not use are in their initial state, and are put back there; the others are saved.
//! Single moves do that in a quarter of the time of the XSAVE family.

use iced_x86::{Code, Encoder, Instruction, MemoryOperand, Register};
use unspool_instructions::operands::state_component::{AVX, HI16_ZMM, OPMASK, ZMM_HI256};

use super::call_slots::CallSlots;
use crate::address::CacheAddress;
use crate::emit::{Emitter, gpr};

/// State components, as in XCR0.
const UPPER_HALVES: u32 = 1 << AVX;
const MASKS: u32 = 1 << OPMASK;
const UPPERMOST_HALVES: u32 = 1 << ZMM_HI256;
const MORE_REGISTERS: u32 = 1 << HI16_ZMM;

/// Bytes for each register.
const SIZE: i64 = 64;
/// Where mask registers are saved, behind 32 vector registers.
const MASKS_AT: i64 = 32 * SIZE;

/// Moves between a register and its place behind rax.
#[derive(Clone, Copy)]
enum Direction {
    Save,
    Restore,
}

/// Emits the saving of vector registers. `wide`: the components that the system lets programs
/// use, beside the low halves. Changes rax, rcx, rdx and the flags.
pub(super) fn save(code: &mut Emitter, wide: u32) {
    if wide != 0 {
        code.load_immediate(gpr::RCX, 1);
        code.bytes(&[0x0f, 0x01, 0xd0]); // xgetbv
        code.bytes(&[0x89, 0xc1]); // mov ecx, eax
        code.on_slot(&[0x89], gpr::RCX, CallSlots::VECTORS_USED); // mov fs:[used], ecx
    }
    load_place(code);
    let uppers = wide & (UPPER_HALVES | UPPERMOST_HALVES);
    either(
        code,
        uppers,
        |code| {
            move_whole(code, wide, 0..16, Direction::Save);
            code.bytes(&[0xc5, 0xf8, 0x77]); // vzeroupper
        },
        |code| move_low_halves(code, Direction::Save),
    );
    either(
        code,
        wide & MORE_REGISTERS,
        |code| move_whole(code, wide, 16..32, Direction::Save),
        |_| (),
    );
    either(
        code,
        wide & MASKS,
        |code| move_masks(code, Direction::Save),
        |_| (),
    );
}

/// Emits their restoring. `initial`: an XSAVE area in which all components are in their initial
/// state.
pub(super) fn restore(code: &mut Emitter, wide: u32, initial: CacheAddress) {
    load_place(code);
    if wide != 0 {
        code.on_slot(&[0x8b], gpr::RCX, CallSlots::VECTORS_USED); // mov ecx, fs:[used]
    }
    let uppers = wide & (UPPER_HALVES | UPPERMOST_HALVES);
    either(
        code,
        uppers,
        |code| move_whole(code, wide, 0..16, Direction::Restore),
        |code| {
            if uppers != 0 {
                code.bytes(&[0xc5, 0xf8, 0x77]); // vzeroupper
            }
            move_low_halves(code, Direction::Restore);
        },
    );
    either(
        code,
        wide & MORE_REGISTERS,
        |code| move_whole(code, wide, 16..32, Direction::Restore),
        |_| (),
    );
    either(
        code,
        wide & MASKS,
        |code| move_masks(code, Direction::Restore),
        |_| (),
    );
    if wide != 0 {
        initialise_unused(code, wide, initial);
    }
}

/// Emits what brings components that the program does not use back into their initial state,
/// where they have left it. `initial`: an XSAVE area in which all are.
fn initialise_unused(code: &mut Emitter, wide: u32, initial: CacheAddress) {
    code.load_immediate(gpr::RCX, 1);
    code.bytes(&[0x0f, 0x01, 0xd0]); // xgetbv
    code.on_slot(&[0x8b], gpr::RCX, CallSlots::VECTORS_USED); // mov ecx, fs:[used]
    code.bytes(&[0xf7, 0xd1]); // not ecx
    code.bytes(&[0x21, 0xc8]); // and eax, ecx
    code.bytes(&[0x25]); // and eax, imm32
    code.imm32(wide as i32);
    code.bytes(&[0x0f, 0x84]); // je
    let to_end = code.here();
    code.imm32(0);
    code.load_immediate(gpr::RDX, 0);
    code.bytes(&[0x48, 0x0f, 0xae, 0x2c, 0x25]); // xrstor64 [absolute]
    code.imm32(initial.get() as i32);
    code.land(to_end);
}

/// Emits what is to be done where one of the components in ecx is in use, and where none is.
fn either(
    code: &mut Emitter,
    components: u32,
    used: impl FnOnce(&mut Emitter),
    unused: impl FnOnce(&mut Emitter),
) {
    if components == 0 {
        unused(code);
        return;
    }
    code.bytes(&[0xf7, 0xc1]); // test ecx, imm32
    code.imm32(components as i32);
    code.bytes(&[0x0f, 0x84]); // je
    let to_unused = code.here();
    code.imm32(0);
    used(code);
    let to_end = code.jump_forward();
    code.land(to_unused);
    unused(code);
    code.land(to_end);
}

/// `rax`: where registers are saved.
fn load_place(code: &mut Emitter) {
    code.bytes(&[0x64, 0x48, 0x8b, 0x04, 0x25, 0, 0, 0, 0]); // mov rax, fs:0
    let place = code.slot_displacement(CallSlots::KEPT_VECTORS);
    code.lea(gpr::RAX, gpr::RAX, place);
}

fn emit(code: &mut Emitter, instruction: &Instruction) {
    let mut encoder = Encoder::new(64);
    encoder
        .encode(instruction, code.here().get())
        .expect("the instruction is a valid one");
    code.bytes(&encoder.take_buffer());
}

/// A move between a register and memory behind rax.
fn move_one(
    code: &mut Emitter,
    (load, store): (Code, Code),
    register: Register,
    at: i64,
    direction: Direction,
) {
    let memory = MemoryOperand::with_base_displ(Register::RAX, at);
    let made = match direction {
        Direction::Save => Instruction::with2(store, memory, register),
        Direction::Restore => Instruction::with2(load, register, memory),
    };
    emit(code, &made.expect("the operands are of the right kind"));
}

fn move_low_halves(code: &mut Emitter, direction: Direction) {
    let codes = (Code::Movups_xmm_xmmm128, Code::Movups_xmmm128_xmm);
    for number in 0..16 {
        let register = Register::XMM0 + number;
        move_one(code, codes, register, SIZE * i64::from(number), direction);
    }
}

fn move_whole(code: &mut Emitter, wide: u32, numbers: std::ops::Range<u32>, direction: Direction) {
    let (codes, first) = if wide & UPPERMOST_HALVES != 0 {
        let codes = (
            Code::EVEX_Vmovups_zmm_k1z_zmmm512,
            Code::EVEX_Vmovups_zmmm512_k1z_zmm,
        );
        (codes, Register::ZMM0)
    } else {
        let codes = (Code::VEX_Vmovups_ymm_ymmm256, Code::VEX_Vmovups_ymmm256_ymm);
        (codes, Register::YMM0)
    };
    for number in numbers {
        move_one(
            code,
            codes,
            first + number,
            SIZE * i64::from(number),
            direction,
        );
    }
}

/// The size of mask registers is 64 bits where instructions for bytes exist, else 16.
fn are_masks_long() -> bool {
    std::arch::is_x86_feature_detected!("avx512bw")
}

fn move_masks(code: &mut Emitter, direction: Direction) {
    let codes = if are_masks_long() {
        (Code::VEX_Kmovq_kr_km64, Code::VEX_Kmovq_m64_kr)
    } else {
        (Code::VEX_Kmovw_kr_km16, Code::VEX_Kmovw_m16_kr)
    };
    for number in 0..8 {
        let at = MASKS_AT + 8 * i64::from(number);
        move_one(code, codes, Register::K0 + number, at, direction);
    }
}
