//! The gate through which inserted code calls a tool's function.
//!
//! The function is compiled code that follows the C calling convention and may use all that
//! the processor has, except x87 and MMX registers and tiles. So the gate keeps the registers
//! that such a function may change. Of the vector registers these are, where the program
//! uses nothing wider, the low halves of sixteen: what the function has put into wider
//! ones is cleared then, as it was. Otherwise all of them are saved.

use super::call_slots::CallSlots;
use super::{Gates, VectorState, reset_flags, wide};
use crate::address::CacheAddress;
use crate::emit::{Emitter, Gpr, gpr};
use crate::exit::Reason;
use crate::slots::offset;

/// The general registers that a function may change, and the stack pointer.
const VOLATILE: [Gpr; 10] = [
    gpr::RAX,
    gpr::RCX,
    gpr::RDX,
    gpr::RSP,
    gpr::RSI,
    gpr::RDI,
    8,
    9,
    10,
    gpr::R11,
];
/// The others, which are to be in the slots when the cache is left.
const KEPT: [Gpr; 6] = [gpr::RBX, gpr::RBP, 12, 13, 14, 15];
/// The direction flag and the alignment check, which compiled code wants clear.
const ODD_FLAGS: i32 = 0x4_0400;
/// The part of MXCSR that says how to compute, and its usual value.
const CONTROLS: i32 = 0xffc0;
const USUAL_CONTROLS: i32 = 0x1f80;
/// State components of the registers' low halves, and of x87.
const NARROW: u32 = 0b11;

impl Gates {
    pub(super) fn emit_call(
        &mut self,
        code: &mut Emitter,
        vectors: VectorState,
        control_word: CacheAddress,
    ) {
        let wide = vectors.mask & !NARROW;
        // An XSAVE area in which all components are in their initial state.
        code.nops((64 - code.here().line_offset()) as usize % 64);
        let initial = code.here();
        code.bytes(&[0; 512 + 64]);
        if vectors.compact {
            let compaction = 1_u64 << 63 | u64::from(vectors.mask);
            code.patch32(initial.plus(520), compaction as u32 as i32);
            code.patch32(initial.plus(524), (compaction >> 32) as u32 as i32);
        }

        self.call = code.here();
        for register in VOLATILE {
            code.store_slot(offset::register(register), register);
        }
        code.load_slot(gpr::RSP, offset::HOST_STACK);
        code.bytes(&[0x9c]); // pushfq
        code.on_slot(&[0x8f], 0, offset::FLAGS); // pop
        test_odd_flags(code);
        let usual = jump_if_equal(code);
        reset_flags(code);
        code.land(usual);
        code.on_slot(&[0x0f, 0xae], 3, CallSlots::CONTROL_WORDS); // stmxcsr
        load_word(code, CallSlots::CONTROL_WORDS);
        code.bytes(&[0x25]); // and eax, imm32
        code.imm32(CONTROLS);
        code.bytes(&[0x3d]); // cmp eax, imm32
        code.imm32(USUAL_CONTROLS);
        let usual = jump_if_equal(code);
        code.bytes(&[0x0f, 0xae, 0x14, 0x25]); // ldmxcsr [absolute]
        code.imm32(control_word.get() as i32);
        code.land(usual);

        if wide != 0 && !vectors.tells_use {
            call_with_all_saved(code, vectors);
        } else {
            wide::save(code, wide);
            call_function(code);
            wide::restore(code, wide, initial);
        }

        // From here on everything can be done again.
        self.call_return = code.here();
        code.load_slot(gpr::RSP, offset::HOST_STACK);
        code.on_slot(&[0x0f, 0xae], 3, CallSlots::CONTROL_WORDS + 4); // stmxcsr
        load_word(code, CallSlots::CONTROL_WORDS + 4);
        code.compare_with_slot(gpr::RAX, CallSlots::CONTROL_WORDS, 4);
        let same = jump_if_equal(code);
        code.on_slot(&[0x0f, 0xae], 2, CallSlots::CONTROL_WORDS); // ldmxcsr
        code.land(same);
        code.compare_slot_zero(offset::PENDING);
        code.bytes(&[0x0f, 0x85]); // jne
        let pending = code.here();
        code.imm32(0);
        test_odd_flags(code);
        let usual = jump_if_equal(code);
        code.on_slot(&[0xff], 6, offset::FLAGS); // push
        code.bytes(&[0x9d]); // popfq
        let odd = code.jump_forward();
        code.land(usual);
        load_word(code, offset::FLAGS);
        code.bytes(&[0x89, 0xc1]); // mov ecx, eax
        code.bytes(&[0xc1, 0xe9, 11]); // shr ecx, 11: the overflow flag
        code.bytes(&[0x83, 0xe1, 1]); // and ecx, 1
        code.bytes(&[0x88, 0xc4]); // mov ah, al: the others
        code.bytes(&[0x88, 0xc8]); // mov al, cl
        code.bring_back_flags();
        code.land(odd);
        for register in VOLATILE
            .into_iter()
            .filter(|&register| register != gpr::RSP)
        {
            code.load_slot(register, offset::register(register));
        }
        code.load_slot(gpr::RSP, offset::register(gpr::RSP));
        code.on_slot(&[0xff], 4, offset::TARGET); // jmp
        self.call_end = code.here();

        code.land(pending);
        for register in KEPT {
            code.store_slot(offset::register(register), register);
        }
        code.give_reason(Reason::CALL_INTERRUPTED);
        code.jump(self.exit_saved);
    }
}

/// With all that the processor has saved in the slots.
fn call_with_all_saved(code: &mut Emitter, vectors: VectorState) {
    code.load_immediate(gpr::RAX, u64::from(vectors.mask));
    code.load_immediate(gpr::RDX, 0);
    if vectors.compact {
        code.on_slot(&[0x48, 0x0f, 0xc7], 4, offset::VECTORS); // xsavec64
    } else {
        code.on_slot(&[0x48, 0x0f, 0xae], 4, offset::VECTORS); // xsave64
    }
    if vectors.avx {
        code.bytes(&[0xc5, 0xf8, 0x77]); // vzeroupper
    }
    call_function(code);
    code.load_immediate(gpr::RAX, u64::from(vectors.mask));
    code.load_immediate(gpr::RDX, 0);
    code.on_slot(&[0x48, 0x0f, 0xae], 5, offset::VECTORS); // xrstor64
}

/// `test dword fs:[flags], imm32`
fn test_odd_flags(code: &mut Emitter) {
    code.on_slot(&[0xf7], 0, offset::FLAGS);
    code.imm32(ODD_FLAGS);
}

/// `mov eax, fs:[slot]`
fn load_word(code: &mut Emitter, slot: i32) {
    code.on_slot(&[0x8b], gpr::RAX, slot);
}

/// `je` to where [`Emitter::land`] will be.
fn jump_if_equal(code: &mut Emitter) -> CacheAddress {
    code.bytes(&[0x0f, 0x84]);
    let field = code.here();
    code.imm32(0);
    field
}

/// Calls the function in its slot with the tool, what that keeps for the thread, and the first
/// arguments.
fn call_function(code: &mut Emitter) {
    code.store_slot_imm32(CallSlots::IN_TOOL, 1);
    code.load_slot(gpr::RDI, CallSlots::TOOL);
    code.load_slot(gpr::RSI, CallSlots::TOOL_STATE);
    for (register, slot) in [gpr::RDX, gpr::RCX, 8, 9].into_iter().zip(0..) {
        code.load_slot(register, CallSlots::ARGUMENTS + 8 * slot);
    }
    code.on_slot(&[0xff], 2, CallSlots::FUNCTION); // call
    code.store_slot(CallSlots::RESULT, gpr::RAX);
    code.store_slot_imm32(CallSlots::IN_TOOL, 0);
}
