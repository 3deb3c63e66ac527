//! Whether a caller that was found has really called.
//!
//! Source: Tallent, Mellor-Crummey and Fagan, PLDI 2009, section 4.1.2 (confirmed, probable and
//! wrong unwinds).

use unspool_instructions::decode::{Instruction, Kind, MAX_LENGTH};

use crate::module::{Module, Modules};

/// How certain it is that a caller has called.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Certainty {
    /// Before the return address is no call.
    Wrong,
    /// A direct call of another function, which does not jump to this one directly either: others
    /// may be between them.
    ProbableTail,
    /// An indirect call.
    ProbableIndirect,
    /// A call of a function that jumps to this one, by the procedure linkage table or as its last
    /// act.
    ConfirmedTail,
    /// A direct call of this function.
    Confirmed,
}

/// The call before a return address, if there is one.
pub(crate) enum CallInstruction {
    /// Of this address.
    Direct(u64),
    /// Of whatever a register or memory says.
    Indirect,
}

/// The call that returns to `address`, which is in `module`.
pub(crate) fn call_before(module: &Module<'_>, address: u64) -> Option<CallInstruction> {
    let link = address.wrapping_sub(module.bias);
    let is_direct = |call: &Instruction| call.kind == Kind::CallDirect;
    if let Some(call) = instruction_before(module, link, 5).filter(is_direct) {
        return Some(CallInstruction::Direct(
            call.target.wrapping_add(module.bias),
        ));
    }
    let mut lengths = 2..=9;
    let is_call = |length| {
        let call = instruction_before(module, link, length);
        call.is_some_and(|call| call.kind == Kind::CallIndirect)
    };
    lengths.any(is_call).then_some(CallInstruction::Indirect)
}

/// The instruction of so many bytes that ends at an address of the file.
fn instruction_before(module: &Module<'_>, link: u64, length: u8) -> Option<Instruction> {
    let start = link.checked_sub(u64::from(length))?;
    let instruction = instruction_at(module, start)?;
    (instruction.length == length).then_some(instruction)
}

fn instruction_at(module: &Module<'_>, link: u64) -> Option<Instruction> {
    let (instruction, _) = module.code.instruction(link)?;
    Some(instruction)
}

/// How certain it is that the function which begins at `callee` was called from where `address`
/// is returned to. `read` reads words of the process.
pub(crate) fn certainty(
    modules: &(impl Modules + ?Sized),
    callee: u64,
    address: u64,
    read: &mut dyn FnMut(u64) -> Option<u64>,
) -> Certainty {
    let call = modules
        .module_at(address.wrapping_sub(1))
        .and_then(|module| call_before(&module, address));
    match call {
        None => Certainty::Wrong,
        Some(CallInstruction::Indirect) => Certainty::ProbableIndirect,
        Some(CallInstruction::Direct(target)) if target == callee => Certainty::Confirmed,
        Some(CallInstruction::Direct(target)) if jumps_to(modules, target, callee, read) => {
            Certainty::ConfirmedTail
        }
        Some(CallInstruction::Direct(_)) => Certainty::ProbableTail,
    }
}

/// Whether the function that begins at `from` jumps to the one that begins at `to`. A jump through
/// memory counts as it stands there now.
fn jumps_to(
    modules: &(impl Modules + ?Sized),
    from: u64,
    to: u64,
    read: &mut dyn FnMut(u64) -> Option<u64>,
) -> bool {
    let Some(module) = modules.module_at(from) else {
        return false;
    };
    let link = from.wrapping_sub(module.bias);
    let entry = module.entry(link).map(|entry| entry.code);
    // Without bounds, as in a procedure linkage table, the first few instructions are looked at.
    let end = entry
        .or_else(|| module.function(link))
        .map_or(link.saturating_add(4 * MAX_LENGTH as u64), |code| code.end);
    let mut at = link;
    while at < end {
        let Some(instruction) = instruction_at(&module, at) else {
            return false;
        };
        let target = match instruction.kind {
            Kind::JumpDirect | Kind::Jcc { .. } => {
                Some(instruction.target.wrapping_add(module.bias))
            }
            Kind::JumpIndirect if instruction.rip_relative => {
                memory_operand(&module, at, &instruction).and_then(&mut *read)
            }
            _ => None,
        };
        if target == Some(to) {
            return true;
        }
        at = at.saturating_add(u64::from(instruction.length).max(1));
    }
    false
}

/// The address in the process of an instruction's operand relative to the program counter.
fn memory_operand(module: &Module<'_>, at: u64, instruction: &Instruction) -> Option<u64> {
    let (bytes, _) = module.code.window(at);
    let from = usize::from(instruction.displacement_offset);
    let displacement = bytes.get(from..)?.first_chunk::<4>()?;
    let displacement = i64::from(i32::from_le_bytes(*displacement));
    let next = at.wrapping_add(u64::from(instruction.length));
    Some(
        next.wrapping_add_signed(displacement)
            .wrapping_add(module.bias),
    )
}
