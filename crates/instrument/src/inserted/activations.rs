//! Calls of hooked functions, noted without the engine.
//!
//! Where a hooked function is entered by a call, its activation is added to the thread's list;
//! where it returns, that is taken away (see [`list`]). Anything unusual is left to the
//! engine: entries by jumps, another stack, activations that have ended unnoticed, a return
//! address that has not been hooked.

use unspool_code_cache::address::CacheAddress;
use unspool_code_cache::emit::{Address, Gpr, gpr};

use super::Translation;
use crate::functions::{ArgumentRegister, Hooks, PUSHED, list, returns};
use crate::slots::offset as tool_offset;
use unspool_engine::translate::insertion::borrowed::Borrowed;
use unspool_engine::translate::walk::Walk;

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

/// Emits the addition of an activation, with registers that are borrowed beside those of a mask, as
/// the flags are. Returns the jumps to where the engine has to be asked: what is borrowed then is so
/// there, too. `kept`: the registers of arguments that are kept.
pub(super) fn enter(
    walk: &mut Walk,
    hooks: &Hooks,
    kept: &[ArgumentRegister],
    avoided: u16,
    flags_live: bool,
) -> Jumps {
    let mut unusual = Vec::new();
    let general = kept.iter().filter_map(|register| match register {
        ArgumentRegister::General(register) => Some(1 << register),
        ArgumentRegister::Vector(_) => None,
    });
    let avoided = general.fold(avoided, |all, mask| all | mask);
    let [place, value] = take(walk, avoided, flags_live);
    let code = &mut walk.builder.code;
    if hooks.wrapper.is_some() {
        code.compare_slot_zero(tool_offset::KEPT_WRAPPERS);
        unusual.push(code.jump_forward_if(EQUAL));
    }
    code.lea(value, gpr::RSP, 8);
    code.compare_with_slot(value, tool_offset::CALLED, 8);
    unusual.push(code.jump_forward_if(NOT_EQUAL));
    code.compare_with_slot(gpr::RSP, tool_offset::USUAL_STACK, 8);
    unusual.push(code.jump_forward_if(BELOW));
    code.load_slot(place, tool_offset::ACTIVATIONS);
    code.compare_with_slot(place, tool_offset::ACTIVATIONS_LIMIT, 8);
    unusual.push(code.jump_forward_if(NOT_BELOW));
    let above = YOUNGEST + list::offset::STACK_POINTER;
    code.on_memory(&[0x3b], gpr::RSP, place, above);
    unusual.push(code.jump_forward_if(NOT_BELOW));
    // A call has just put it there.
    code.load(value, gpr::RSP, 0);
    code.store(place, list::offset::RETURN_ADDRESS, value);
    code.bytes(&[0x40 | value >> 3, 0x81, 0xe0 | value & 7]); // and value, imm32
    code.imm32(returns::PLACE_BITS);
    code.load_immediate(place, returns::table());
    let known = Address {
        base: Some(place),
        index: Some((value, 8)),
        displacement: 0,
    };
    code.load_at(value, known, 8);
    code.on_memory(&[0x3b], value, gpr::RSP, 0);
    unusual.push(code.jump_forward_if(NOT_EQUAL));
    code.load_slot(place, tool_offset::ACTIVATIONS);
    code.store(place, list::offset::STACK_POINTER, gpr::RSP);
    code.load_immediate(value, std::ptr::from_ref(hooks) as u64);
    code.store(place, list::offset::HOOKS, value);
    code.store_immediate(place, list::offset::WRAPPER, 0);
    for (number, &register) in kept.iter().enumerate() {
        let at = list::offset::kept(number);
        match register {
            ArgumentRegister::General(register) => code.store(place, at, register),
            ArgumentRegister::Vector(register) => {
                code.on_memory(&[0x0f, 0x13], register, place, at); // movlps
            }
        }
    }
    code.lea(place, place, list::offset::SIZE);
    code.store_slot(tool_offset::ACTIVATIONS, place);
    code.store_slot_signed(tool_offset::CALLED, 0);
    unusual
}

/// Emits the removal of the activation of one of some functions that return to `pc`. `goes_on`
/// emits what follows, in each of the cases: all program state is in place there, but where a
/// function has returned, the flags and registers may be borrowed.
pub(super) fn leave(
    translation: &mut Translation,
    pc: u64,
    functions: &'static [&'static Hooks],
    flags_live: bool,
    mut goes_on: impl FnMut(&mut Translation, Found),
) {
    let mut unusual = Vec::new();
    let walk = &mut *translation.walk;
    let [place, value] = take(walk, 0, flags_live);
    let code = &mut walk.builder.code;
    code.compare_with_slot(gpr::RSP, tool_offset::USUAL_STACK, 8);
    unusual.push(code.jump_forward_if(BELOW));
    code.load_slot(place, tool_offset::ACTIVATIONS);
    code.lea(value, gpr::RSP, -8);
    let stack_pointer = list::offset::STACK_POINTER;
    code.on_memory(&[0x3b], value, place, YOUNGEST + stack_pointer);
    let nothing = code.jump_forward_if(BELOW);
    unusual.push(code.jump_forward_if(NOT_EQUAL));
    code.on_memory(&[0x3b], value, place, 2 * YOUNGEST + stack_pointer);
    unusual.push(code.jump_forward_if(EQUAL));
    code.load_immediate(value, pc);
    let address = YOUNGEST + list::offset::RETURN_ADDRESS;
    code.on_memory(&[0x3b], value, place, address);
    unusual.push(code.jump_forward_if(NOT_EQUAL));
    let borrowed = walk.borrowed;
    let mut over = Vec::new();
    for &hooks in functions {
        let code = &mut translation.walk.builder.code;
        code.load_immediate(value, std::ptr::from_ref(hooks) as u64);
        code.on_memory(&[0x3b], value, place, YOUNGEST + list::offset::HOOKS);
        let other = code.jump_forward_if(NOT_EQUAL);
        code.lea(place, place, YOUNGEST);
        code.store_slot(tool_offset::ACTIVATIONS, place);
        goes_on(translation, Found::Call(hooks));
        translation.walk.give_back_all();
        over.push(translation.walk.builder.code.jump_forward());
        land_all(translation.walk, vec![other], &borrowed);
    }
    land_all(translation.walk, unusual, &borrowed);
    translation.walk.give_back_all();
    goes_on(translation, Found::Unusual);
    over.push(translation.walk.builder.code.jump_forward());
    land_all(translation.walk, vec![nothing], &borrowed);
    translation.walk.give_back_all();
    goes_on(translation, Found::Nothing);
    let code = &mut translation.walk.builder.code;
    over.into_iter().for_each(|field| code.land(field));
}

/// Emits a look at whether activations lie below the stack pointer, or where what unwinds the
/// stack has just pushed something. Returns the jump to where none does, and what is borrowed there.
pub(super) fn skip_if_none_lost(walk: &mut Walk) -> (CacheAddress, Borrowed) {
    let [place, value] = take(walk, 0, true);
    let code = &mut walk.builder.code;
    code.compare_with_slot(gpr::RSP, tool_offset::USUAL_STACK, 8);
    let unusual = code.jump_forward_if(BELOW);
    code.load_slot(place, tool_offset::ACTIVATIONS);
    code.lea(value, gpr::RSP, PUSHED as i32);
    let stack_pointer = YOUNGEST + list::offset::STACK_POINTER;
    code.on_memory(&[0x3b], value, place, stack_pointer);
    let none = code.jump_forward_if(BELOW);
    code.land(unusual);
    let borrowed = walk.borrowed;
    walk.give_back_all();
    (none, borrowed)
}

/// Two registers beside those of a mask, and leave to change the flags.
fn take(walk: &mut Walk, avoided: u16, flags_live: bool) -> [Gpr; 2] {
    let avoided = avoided | walk.bound();
    walk.borrowed.take_flags(&mut walk.builder, flags_live);
    walk.borrowed.take(&mut walk.builder, None, avoided)
}

/// Jumps lead here, with what was borrowed where they are.
pub(super) fn land_all(walk: &mut Walk, fields: Jumps, borrowed: &Borrowed) {
    let code = &mut walk.builder.code;
    fields.into_iter().for_each(|field| code.land(field));
    walk.borrowed = borrowed.begun_here(&walk.builder);
}
