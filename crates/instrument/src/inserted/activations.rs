//! Calls of hooked functions, noted without the engine.
//!
//! Where a hooked function is entered by a call, its activation is added to the thread's list;
//! where it returns, that is taken away (see [`list`]). Anything unusual is left to the
//! engine: entries by jumps, another stack, activations that have ended unnoticed, a return
//! address that has not been hooked.

use unspool_code_cache::address::CacheAddress;
use unspool_code_cache::emit::{Emitter, gpr};
use unspool_code_cache::gates::CallSlots;
use unspool_code_cache::slots::offset;

use super::Translation;
use crate::functions::{ArgumentRegister, Hooks, PUSHED, list, returns};
use crate::slots::offset as tool_offset;
use unspool_engine::translate::insertion::borrowed::REGISTER_SPILLS;

/// Nothing is borrowed here.
const FIRST_SPILL: u8 = REGISTER_SPILLS[0];
const SECOND_SPILL: u8 = REGISTER_SPILLS[1];

/// Conditions, as opcodes have them.
const BELOW: u8 = 2;
const NOT_BELOW: u8 = 3;
const EQUAL: u8 = 4;
const NOT_EQUAL: u8 = 5;

/// Of the youngest activation, from the end of the list.
const YOUNGEST: i32 = -list::offset::SIZE;

/// Jumps to where it is decided what is done.
pub(super) type Jumps = Vec<CacheAddress>;

/// Where the code goes on that has looked at the list.
pub(super) enum Found {
    /// The engine has to be asked.
    Unusual,
    /// Nothing ends here.
    Nothing,
    /// A function was entered, or this one has returned.
    Call(&'static Hooks),
}

/// Emits the addition of an activation. Returns the jumps to where the engine has to be asked:
/// registers are to be given back there by [`restore`]. `kept`: the registers of arguments that
/// are kept.
pub(super) fn enter(
    code: &mut Emitter,
    hooks: &Hooks,
    kept: &[ArgumentRegister],
    flags_live: bool,
) -> Jumps {
    let mut unusual = Vec::new();
    spill(code, flags_live);
    if hooks.wrapper.is_some() {
        code.compare_slot_zero(tool_offset::KEPT_WRAPPERS);
        unusual.push(code.jump_forward_if(EQUAL));
    }
    code.lea(gpr::RDX, gpr::RSP, 8);
    compare_slot(code, gpr::RDX, tool_offset::CALLED);
    unusual.push(code.jump_forward_if(NOT_EQUAL));
    compare_slot(code, gpr::RSP, tool_offset::USUAL_STACK);
    unusual.push(code.jump_forward_if(BELOW));
    code.load_slot(gpr::RCX, tool_offset::ACTIVATIONS);
    compare_slot(code, gpr::RCX, tool_offset::ACTIVATIONS_LIMIT);
    unusual.push(code.jump_forward_if(NOT_BELOW));
    let above = YOUNGEST + list::offset::STACK_POINTER;
    code.on_memory(&[0x3b], gpr::RSP, gpr::RCX, above);
    unusual.push(code.jump_forward_if(NOT_BELOW));
    // A call has just put it there.
    code.load(gpr::RDX, gpr::RSP, 0);
    code.store(gpr::RCX, list::offset::RETURN_ADDRESS, gpr::RDX);
    code.bytes(&[0x81, 0xe2]); // and edx, imm32
    code.imm32(returns::PLACE_BITS);
    code.load_immediate(gpr::RCX, returns::table());
    code.bytes(&[0x48, 0x8d, 0x0c, 0xd1]); // lea rcx, [rcx + 8 * rdx]
    code.load(gpr::RDX, gpr::RSP, 0);
    code.on_memory(&[0x3b], gpr::RDX, gpr::RCX, 0);
    unusual.push(code.jump_forward_if(NOT_EQUAL));
    code.load_slot(gpr::RCX, tool_offset::ACTIVATIONS);
    code.store(gpr::RCX, list::offset::STACK_POINTER, gpr::RSP);
    code.load_immediate(gpr::RDX, std::ptr::from_ref(hooks) as u64);
    code.store(gpr::RCX, list::offset::HOOKS, gpr::RDX);
    code.store_immediate(gpr::RCX, list::offset::WRAPPER, 0);
    for (number, &register) in kept.iter().enumerate() {
        let place = list::offset::kept(number);
        let spilled = match register {
            ArgumentRegister::General(gpr::RCX) => FIRST_SPILL,
            ArgumentRegister::General(gpr::RDX) => SECOND_SPILL,
            ArgumentRegister::General(register) => {
                code.store(gpr::RCX, place, register);
                continue;
            }
            ArgumentRegister::Vector(register) => {
                code.on_memory(&[0x0f, 0x13], register, gpr::RCX, place); // movlps
                continue;
            }
        };
        code.load_slot(gpr::RDX, offset::spill(spilled));
        code.store(gpr::RCX, place, gpr::RDX);
    }
    code.lea(gpr::RCX, gpr::RCX, list::offset::SIZE);
    code.store_slot(tool_offset::ACTIVATIONS, gpr::RCX);
    code.on_slot(&[0x48, 0xc7], 0, tool_offset::CALLED); // mov qword fs:[called], 0
    code.imm32(0);
    restore(code, flags_live);
    unusual
}

/// Emits the removal of the activation of one of some functions that return to `pc`. `goes_on`
/// emits what follows, in each of the cases.
pub(super) fn leave(
    translation: &mut Translation,
    pc: u64,
    functions: &'static [&'static Hooks],
    flags_live: bool,
    mut goes_on: impl FnMut(&mut Translation, Found),
) {
    let code = &mut translation.walk.builder.code;
    let mut unusual = Vec::new();
    spill(code, flags_live);
    compare_slot(code, gpr::RSP, tool_offset::USUAL_STACK);
    unusual.push(code.jump_forward_if(BELOW));
    code.load_slot(gpr::RCX, tool_offset::ACTIVATIONS);
    code.lea(gpr::RDX, gpr::RSP, -8);
    let place = list::offset::STACK_POINTER;
    code.on_memory(&[0x3b], gpr::RDX, gpr::RCX, YOUNGEST + place);
    let nothing = code.jump_forward_if(BELOW);
    unusual.push(code.jump_forward_if(NOT_EQUAL));
    code.on_memory(&[0x3b], gpr::RDX, gpr::RCX, 2 * YOUNGEST + place);
    unusual.push(code.jump_forward_if(EQUAL));
    code.load_immediate(gpr::RDX, pc);
    let address = YOUNGEST + list::offset::RETURN_ADDRESS;
    code.on_memory(&[0x3b], gpr::RDX, gpr::RCX, address);
    unusual.push(code.jump_forward_if(NOT_EQUAL));
    let mut over = Vec::new();
    for &hooks in functions {
        let code = &mut translation.walk.builder.code;
        code.load_immediate(gpr::RDX, std::ptr::from_ref(hooks) as u64);
        code.on_memory(&[0x3b], gpr::RDX, gpr::RCX, YOUNGEST + list::offset::HOOKS);
        let other = code.jump_forward_if(NOT_EQUAL);
        code.lea(gpr::RCX, gpr::RCX, YOUNGEST);
        code.store_slot(tool_offset::ACTIVATIONS, gpr::RCX);
        restore(code, flags_live);
        goes_on(translation, Found::Call(hooks));
        over.push(translation.walk.builder.code.jump_forward());
        translation.walk.builder.code.land(other);
    }
    let code = &mut translation.walk.builder.code;
    land_all(code, unusual);
    restore(code, flags_live);
    goes_on(translation, Found::Unusual);
    let code = &mut translation.walk.builder.code;
    over.push(code.jump_forward());
    code.land(nothing);
    restore(code, flags_live);
    goes_on(translation, Found::Nothing);
    land_all(&mut translation.walk.builder.code, over);
}

/// Emits a look at whether activations lie below the stack pointer, or where what unwinds the
/// stack has just pushed something. Returns the jump to where none does, behind which registers
/// are to be given back.
pub(super) fn skip_if_none_lost(code: &mut Emitter) -> CacheAddress {
    spill(code, true);
    compare_slot(code, gpr::RSP, tool_offset::USUAL_STACK);
    let unusual = code.jump_forward_if(BELOW);
    code.load_slot(gpr::RCX, tool_offset::ACTIVATIONS);
    code.lea(gpr::RDX, gpr::RSP, PUSHED as i32);
    let place = YOUNGEST + list::offset::STACK_POINTER;
    code.on_memory(&[0x3b], gpr::RDX, gpr::RCX, place);
    let none = code.jump_forward_if(BELOW);
    code.land(unusual);
    restore(code, true);
    none
}

/// Emits the saving of what the code here uses.
fn spill(code: &mut Emitter, flags_live: bool) {
    code.store_slot(offset::spill(FIRST_SPILL), gpr::RCX);
    code.store_slot(offset::spill(SECOND_SPILL), gpr::RDX);
    if flags_live {
        code.store_slot(CallSlots::kept(gpr::RAX), gpr::RAX);
        code.take_flags();
        code.store_slot(CallSlots::KEPT_FLAGS, gpr::RAX);
        code.load_slot(gpr::RAX, CallSlots::kept(gpr::RAX));
    }
}

/// Emits its restoring.
pub(super) fn restore(code: &mut Emitter, flags_live: bool) {
    if flags_live {
        code.load_slot(gpr::RAX, CallSlots::KEPT_FLAGS);
        code.bring_back_flags();
        code.load_slot(gpr::RAX, CallSlots::kept(gpr::RAX));
    }
    code.load_slot(gpr::RCX, offset::spill(FIRST_SPILL));
    code.load_slot(gpr::RDX, offset::spill(SECOND_SPILL));
}

/// `cmp register, fs:[slot]`
fn compare_slot(code: &mut Emitter, register: u8, slot: i32) {
    code.on_slot(&[0x48, 0x3b], register, slot);
}

pub(super) fn land_all(code: &mut Emitter, fields: Jumps) {
    for field in fields {
        code.land(field);
    }
}
