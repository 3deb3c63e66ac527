//! Functions that are short enough to be copied to where they are called.

mod effects;
mod renaming;

use std::collections::BTreeMap;
use std::sync::Arc;

use iced_x86::{Code, FlowControl, Instruction, OpKind, Register};
use rustc_hash::FxHashMap;
use unspool_kernel::lock::Mutex;

pub(crate) use self::renaming::{BodyRegisters, Renaming};
use super::own_code::OwnCode;

/// The most instructions of such a function.
const MOST_INSTRUCTIONS: usize = 32;

/// The code of a function without its returns: where they were, it ends.
#[derive(Debug)]
pub(crate) struct Body {
    /// In the order in which they are to be emitted. Branches lead forwards only.
    pub(crate) steps: Vec<BodyInstruction>,
    /// Whether it uses the stack.
    pub(crate) uses_stack: bool,
    /// Whether it changes status flags.
    pub(crate) changes_flags: bool,
    /// Its general registers.
    pub(crate) registers: BodyRegisters,
    /// Its machine code with other registers, as far as that was asked for.
    renamed: Mutex<FxHashMap<Renaming, Arc<[u8]>>>,
}

/// An instruction of a function.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum BodyInstruction {
    /// Copied as it is, or with other registers.
    Plain(Vec<u8>, Instruction),
    /// A constant for a general register.
    Load(u8, u64),
    /// A branch to another step; to the number of steps if to the end. Without a condition, as
    /// in opcodes, always.
    Branch(Option<u8>, usize),
    /// A call that never returns.
    Fail(u64),
}

impl Body {
    pub(super) fn new(steps: Vec<BodyInstruction>, uses_stack: bool) -> Body {
        Body {
            changes_flags: effects::change_flags(&steps),
            registers: BodyRegisters::of(&steps),
            steps,
            uses_stack,
            renamed: Mutex::default(),
        }
    }

    /// The same without what only its result is made by.
    pub(super) fn without_result(&self) -> Body {
        Body::new(effects::needed(&self.steps), self.uses_stack)
    }

    /// Its machine code with other registers. `assemble` makes it, once.
    pub(crate) fn renamed(
        &self,
        renaming: &Renaming,
        assemble: impl FnOnce() -> Arc<[u8]>,
    ) -> Arc<[u8]> {
        let mut renamed = self.renamed.lock();
        Arc::clone(renamed.entry(*renaming).or_insert_with(assemble))
    }

    /// How many bytes it takes at most.
    pub(crate) fn size(&self) -> usize {
        /// Another register may need a prefix or a displacement.
        const RENAMED: usize = 2;
        const LONGEST: usize = 24;
        /// All registers are pushed and popped before what never returns is called.
        const FAILURE: usize = LONGEST + 2 * 2 * 16;
        let size = |step: &BodyInstruction| match step {
            BodyInstruction::Plain(bytes, _) => bytes.len() + RENAMED,
            BodyInstruction::Fail(_) => FAILURE,
            _ => LONGEST,
        };
        self.steps.iter().map(size).sum()
    }

    /// The code of a function, if it is short, has no loop and calls nothing but what never
    /// returns.
    pub(super) fn copy(
        own: &OwnCode,
        entry: u64,
        never_returns: impl Fn(u64) -> bool,
    ) -> Option<Body> {
        let instructions = collect(own, entry, &never_returns)?;
        let uses_stack = instructions.values().any(|(it, _)| touches_stack(it));
        let places: Vec<u64> = instructions.keys().copied().collect();
        let mut steps = Vec::new();
        // The step of each instruction, and the branches whose targets are still addresses.
        let mut step_of = BTreeMap::new();
        let mut branches = Vec::new();
        for (number, (&at, (instruction, bytes))) in instructions.iter().enumerate() {
            step_of.insert(at, steps.len());
            let mut jump = |steps: &mut Vec<BodyInstruction>, condition, target| {
                branches.push((steps.len(), condition, target));
                steps.push(BodyInstruction::Branch(condition, 0));
            };
            let falls_through = match instruction.flow_control() {
                FlowControl::Next => {
                    steps.push(plain(own, instruction, bytes)?);
                    true
                }
                FlowControl::ConditionalBranch => {
                    let condition = condition(instruction)?;
                    jump(
                        &mut steps,
                        Some(condition),
                        instruction.near_branch_target(),
                    );
                    true
                }
                FlowControl::UnconditionalBranch | FlowControl::IndirectBranch => {
                    let target = own.target(instruction)?;
                    if never_returns(target) {
                        steps.push(BodyInstruction::Fail(target));
                    } else if places.get(number + 1) != Some(&target) {
                        jump(&mut steps, None, target);
                    }
                    false
                }
                FlowControl::Call | FlowControl::IndirectCall => {
                    steps.push(BodyInstruction::Fail(own.target(instruction)?));
                    false
                }
                FlowControl::Return => {
                    if number + 1 < places.len() {
                        jump(&mut steps, None, 0);
                    }
                    false
                }
                FlowControl::Exception | FlowControl::Interrupt => {
                    steps.push(BodyInstruction::Plain(bytes.clone(), *instruction));
                    false
                }
                FlowControl::XbeginXabortXend => return None,
            };
            // What comes next in the function comes next here, or was met before.
            let next = instruction.next_ip();
            if falls_through && places.get(number + 1) != Some(&next) {
                return None;
            }
        }
        for (step, condition, target) in branches {
            let to = if target == 0 {
                steps.len()
            } else {
                *step_of.get(&target)?
            };
            if to <= step {
                return None;
            }
            steps[step] = BodyInstruction::Branch(condition, to);
        }
        Some(Body::new(steps, uses_stack))
    }
}

/// All instructions of a function that can be reached, with their bytes.
fn collect(
    own: &OwnCode,
    entry: u64,
    never_returns: &impl Fn(u64) -> bool,
) -> Option<BTreeMap<u64, (Instruction, Vec<u8>)>> {
    let mut found = BTreeMap::new();
    let mut open = vec![entry];
    while let Some(at) = open.pop() {
        if found.contains_key(&at) {
            continue;
        }
        let instruction = own.decode(at)?;
        let mut bytes = own.bytes(at)?;
        bytes.truncate(instruction.len());
        match instruction.flow_control() {
            FlowControl::Next => open.push(instruction.next_ip()),
            FlowControl::ConditionalBranch => {
                open.push(instruction.near_branch_target());
                open.push(instruction.next_ip());
            }
            FlowControl::UnconditionalBranch | FlowControl::IndirectBranch => {
                let target = own.target(&instruction)?;
                if !never_returns(target) {
                    open.push(target);
                }
            }
            FlowControl::Call | FlowControl::IndirectCall
                if !never_returns(own.target(&instruction)?) =>
            {
                return None;
            }
            _ => {}
        }
        found.insert(at, (instruction, bytes));
        if found.len() > MOST_INSTRUCTIONS {
            return None;
        }
    }
    // It is emitted from its lowest address on.
    (found.keys().next() == Some(&entry)).then_some(found)
}

/// An instruction that leads to the next one; without operands relative to its place.
fn plain(own: &OwnCode, instruction: &Instruction, bytes: &[u8]) -> Option<BodyInstruction> {
    if !instruction.is_ip_rel_memory_operand() {
        return Some(BodyInstruction::Plain(bytes.to_vec(), *instruction));
    }
    let address = instruction.ip_rel_memory_address();
    let to = instruction.op0_register();
    let value = match instruction.code() {
        Code::Lea_r64_m => address,
        Code::Mov_r64_rm64 if instruction.segment_prefix() == Register::None => {
            own.constant(address)?
        }
        _ => return None,
    };
    Some(BodyInstruction::Load(to.number() as u8, value))
}

/// The condition of a jump, as opcodes have it.
fn condition(instruction: &Instruction) -> Option<u8> {
    let is_jump =
        instruction.is_jcc_short_or_near() && instruction.op0_kind() == OpKind::NearBranch64;
    // iced counts them from overflow, in the order of the opcodes, from 1.
    is_jump.then(|| instruction.condition_code() as u8 - 1)
}

fn touches_stack(instruction: &Instruction) -> bool {
    if matches!(instruction.flow_control(), FlowControl::Return) {
        return false;
    }
    let named = (0..instruction.op_count())
        .filter(|&number| instruction.op_kind(number) == OpKind::Register)
        .any(|number| instruction.op_register(number).full_register() == Register::RSP);
    named
        || instruction.is_stack_instruction()
        || instruction.memory_base() == Register::RSP
        || instruction.memory_index() == Register::RSP
}
