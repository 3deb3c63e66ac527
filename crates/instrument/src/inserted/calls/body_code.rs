//! The machine code of a tool's short function, where it is called.

use std::sync::Arc;

use unspool_code_cache::emit::{Emitter, gpr};
use unspool_code_cache::slots::offset;

use super::values::numbers;
use crate::{Body, BodyInstruction, Renaming};

/// Emits the code of a function, with other registers than its own.
pub(super) fn put(code: &mut Emitter, body: &Body, renaming: &Renaming) {
    let displacement = code.slot_displacement(0);
    let bytes = body.renamed(renaming, || assemble(displacement, body, renaming));
    code.bytes(&bytes);
}

/// The code of a function. It may stand anywhere.
fn assemble(displacement: i32, body: &Body, renaming: &Renaming) -> Arc<[u8]> {
    let mut bytes = vec![0; body.size() + MOST_AROUND];
    let range = bytes.as_mut_ptr_range();
    // SAFETY: the range is that of a vector, which stays where it is until the code has been emitted.
    let mut code = unsafe { Emitter::new(range.start, range.end, displacement) };
    let start = code.here();
    emit(&mut code, body, renaming);
    let length = code.here().bytes_since(start) as usize;
    bytes.truncate(length);
    bytes.into()
}

/// Bytes beside those of the steps.
const MOST_AROUND: usize = 64;

fn emit(code: &mut Emitter, body: &Body, renaming: &Renaming) {
    if body.uses_stack {
        // As if a return address had been pushed.
        code.load_slot(gpr::RSP, offset::HOST_STACK);
        code.lea(gpr::RSP, gpr::RSP, -8);
    }
    let mut starts = Vec::new();
    let mut branches = Vec::new();
    for step in &body.steps {
        starts.push(code.here());
        match step {
            BodyInstruction::Plain(bytes, _) if renaming.is_none() => code.bytes(bytes),
            BodyInstruction::Plain(_, instruction) => {
                let bytes = renaming.apply(instruction);
                code.bytes(&bytes.expect("another register can stand for those that are renamed"));
            }
            BodyInstruction::Load(register, value) => {
                code.load_immediate(renaming.get(*register), *value)
            }
            BodyInstruction::Branch(condition, to) => {
                match condition {
                    Some(condition) => code.bytes(&[0x0f, 0x80 | condition]),
                    None => code.bytes(&[0xe9]),
                }
                branches.push((code.here(), *to));
                code.imm32(0);
            }
            BodyInstruction::Fail(function) => fail(code, body, renaming, *function),
        }
    }
    starts.push(code.here());
    for (field, to) in branches {
        code.patch32(field, starts[to].distance_from(field.plus(4)) as i32);
    }
}

/// Emits a call that never returns, with arguments where the function has them.
fn fail(code: &mut Emitter, body: &Body, renaming: &Renaming, function: u64) {
    if !body.uses_stack {
        code.load_slot(gpr::RSP, offset::HOST_STACK);
    }
    let renamed = numbers(body.registers.used).filter(|&it| renaming.get(it) != it);
    let renamed: Vec<_> = renamed.collect();
    renamed.iter().for_each(|&it| code.push(renaming.get(it)));
    renamed.iter().rev().for_each(|&it| code.pop(it));
    code.load_immediate(gpr::RAX, function);
    code.bytes(&[0xff, 0xd0]); // call rax
}
