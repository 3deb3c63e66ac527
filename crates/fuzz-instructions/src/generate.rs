//! Random cases.

mod bytes;
mod exclusions;

use fastrand::Rng;
use iced_x86::{
    Code, FlowControl, Instruction, InstructionInfoFactory, OpAccess, OpKind, Register,
};

use crate::case::Case;
use crate::layout::{CODE_LIMIT, CODE_STRIDE, DATA_SIZE, Place, THREAD_POINTER};
use crate::place::{add_to_field, decode};
use crate::state::{IMAGES, VECTOR_STATES};

const RSP: usize = 4;
/// Carry, parity, auxiliary, zero, sign, direction and overflow.
const FLAGS: u64 = 0xcd5;
const ALIGNMENT_CHECK: u64 = 1 << 18;

/// Makes cases, all different, that follow from the seed.
pub struct Generator {
    random: Rng,
    info: InstructionInfoFactory,
    /// For each code of instruction: how often it was executed, and how often the processor
    /// did not know it.
    known: Vec<(u32, u32)>,
}

/// A case in the making.
struct Draft {
    case: Case,
    /// Registers that hold a pointer into the data, which instructions leave alone if they can.
    pointers: u16,
    /// Registers that were written by an instruction, or given a value that must stay.
    settled: u16,
    /// Start of each instruction so far, and of the next one.
    starts: Vec<u64>,
}

impl Generator {
    /// A generator whose cases follow from the seed.
    #[must_use]
    pub fn new(seed: u64) -> Generator {
        Generator {
            random: Rng::with_seed(seed),
            info: InstructionInfoFactory::new(),
            known: vec![(0, 0); Code::values().len()],
        }
    }

    /// Learns that an instruction was, or was not, known to the processor.
    pub fn learn(&mut self, code: Code, undefined: bool) {
        let entry = &mut self.known[code as usize];
        entry.0 += 1;
        entry.1 += u32::from(undefined);
    }

    /// Number of codes of instructions that the processor executed.
    #[must_use]
    pub fn executed_codes(&self) -> usize {
        self.known
            .iter()
            .filter(|(all, undefined)| all > undefined)
            .count()
    }

    /// The next case.
    pub fn next_case(&mut self) -> Case {
        let count = match self.random.u8(..20) {
            0..8 => 1,
            8..15 => self.random.usize(2..5),
            _ => self.random.usize(5..13),
        };
        let mut draft = self.start();
        while draft.case.instructions.len() < count {
            let Some((bytes, instruction)) = self.instruction(&draft) else {
                break;
            };
            self.add(&mut draft, bytes, &instruction);
        }
        self.aim_branches(&mut draft);
        self.name_code(&mut draft);
        draft.case
    }

    fn start(&mut self) -> Draft {
        let random = &mut self.random;
        let place = if random.u8(..4) == 0 {
            Place::Far
        } else {
            Place::Near
        };
        let mut registers = [0; 16];
        let mut pointers = 0;
        for (number, register) in registers.iter_mut().enumerate() {
            *register = match random.u8(..20) {
                0..11 => {
                    pointers |= 1 << number;
                    pointer(random, place)
                }
                11..15 => random.u64(..80),
                15 => (random.i64(-80..0)) as u64,
                16 => random.u64(..) & 0xffff_ffff,
                17 => odd_address(random),
                _ => random.u64(..),
            };
        }
        if random.u8(..16) != 0 {
            // A stack.
            registers[RSP] = place.data() + 1024 + 8 * random.u64(..(DATA_SIZE - 2048) / 8);
            pointers |= 1 << RSP;
        }
        if random.u8(..4) != 0 {
            // Counts are small.
            registers[1] = random.u64(..24);
        }
        let mut flags = 0x202 | random.u64(..) & FLAGS;
        if random.u8(..40) == 0 {
            flags |= ALIGNMENT_CHECK;
        }
        Draft {
            case: Case {
                place,
                instructions: Vec::new(),
                registers,
                flags,
                vectors: random.u64(..VECTOR_STATES),
                image: random.u64(..IMAGES),
                patches: Vec::new(),
            },
            pointers,
            settled: 0,
            starts: vec![place.home()],
        }
    }

    /// One more instruction that fits behind the others.
    fn instruction(&mut self, draft: &Draft) -> Option<(Vec<u8>, Instruction)> {
        let pc = draft.next();
        let room = CODE_LIMIT - draft.case.length();
        for _ in 0..1000 {
            let mut bytes = bytes::instruction(&mut self.random);
            let (instruction, _) = decode(&bytes, pc);
            if instruction.is_invalid() {
                if self.random.u16(..2000) == 0 {
                    let length = self.random.usize(1..=15);
                    bytes.truncate(length);
                    let harmless = !exclusions::is_excluded(&instruction, &bytes);
                    if harmless && bytes.len() <= room {
                        return Some((bytes, instruction));
                    }
                }
                continue;
            }
            bytes.truncate(instruction.len());
            if bytes.len() <= room
                && !exclusions::is_excluded(&instruction, &bytes)
                && self.is_worthwhile(&instruction, draft)
            {
                return Some((bytes, instruction));
            }
        }
        None
    }

    /// Keeps rare what tells little: instructions that this processor lacks, faults by
    /// privilege, pointers that are destroyed before they are used.
    fn is_worthwhile(&mut self, instruction: &Instruction, draft: &Draft) -> bool {
        let (all, undefined) = self.known[instruction.code() as usize];
        if all >= 2 && all == undefined || instruction.is_privileged() {
            return self.random.u16(..400) == 0;
        }
        if instruction.flow_control() != FlowControl::Next
            || instruction.has_lock_prefix()
            || instruction.mnemonic() == iced_x86::Mnemonic::Nop
        {
            return self.random.u8(..3) == 0;
        }
        let written = self.written(instruction);
        written & draft.pointers & !(1 << RSP) == 0 || self.random.u8(..4) == 0
    }

    fn written(&mut self, instruction: &Instruction) -> u16 {
        let mut written = 0;
        for used in self.info.info(instruction).used_registers() {
            let writes = matches!(
                used.access(),
                OpAccess::Write
                    | OpAccess::CondWrite
                    | OpAccess::ReadWrite
                    | OpAccess::ReadCondWrite
            );
            let full = used.register().full_register();
            if writes && full.is_gpr64() {
                written |= 1 << full.number();
            }
        }
        written
    }

    /// Appends an instruction, and makes its memory operand name the data if that is possible.
    fn add(&mut self, draft: &mut Draft, mut bytes: Vec<u8>, instruction: &Instruction) {
        let names_memory =
            (0..instruction.op_count()).any(|index| instruction.op_kind(index) == OpKind::Memory);
        if names_memory && self.random.u8(..24) != 0 {
            self.aim(draft, &mut bytes, instruction);
        }
        draft.settled |= self.written(instruction);
        let next = draft.next() + bytes.len() as u64;
        draft.starts.push(next);
        draft.case.instructions.push(bytes);
    }

    fn aim(&mut self, draft: &mut Draft, bytes: &mut [u8], instruction: &Instruction) {
        let place = draft.case.place;
        let size = instruction.memory_size().size().max(1) as u64;
        let mut target = pointer_for(&mut self.random, place, size);
        if instruction.segment_prefix() == Register::FS {
            target = target.wrapping_sub(place.data() + THREAD_POINTER);
        }
        let displacement = instruction.memory_displacement64();
        let (base, index) = (instruction.memory_base(), instruction.memory_index());
        let has_index = index != Register::None && !index.is_vector_register();
        let (_, offsets) = decode(bytes, draft.next());
        if base == Register::None && !has_index || instruction.is_ip_rel_memory_operand() {
            let size = offsets.displacement_size();
            if size >= 4 {
                let change = target.wrapping_sub(displacement) as i64;
                add_to_field(bytes, offsets.displacement_offset(), size, change);
            }
            return;
        }
        let number = |register: Register| register.full_register().number();
        let value = |register: Register| {
            let value = draft.case.registers[number(register)];
            if register.size() == 4 {
                value & 0xffff_ffff
            } else {
                value
            }
        };
        let scale = u64::from(instruction.memory_index_scale());
        if base == Register::None {
            let index = number(index);
            if draft.settled & 1 << index == 0 && index != RSP {
                draft.case.registers[index] = target.wrapping_sub(displacement) / scale;
                draft.settled |= 1 << index;
            }
            return;
        }
        let base_number = number(base);
        if draft.settled & 1 << base_number != 0 || has_index && number(index) == base_number {
            return;
        }
        let mut rest = displacement;
        if has_index {
            if draft.settled & 1 << number(index) == 0 && number(index) != RSP {
                draft.case.registers[number(index)] = self.random.u64(..64);
                draft.settled |= 1 << number(index);
            }
            let value = draft.case.registers[number(index)];
            let value = if index.size() == 4 {
                value & 0xffff_ffff
            } else {
                value
            };
            rest = rest.wrapping_add(value.wrapping_mul(scale));
        } else if base_number == RSP {
            rest = target.wrapping_sub(value(base));
        }
        draft.case.registers[base_number] = target.wrapping_sub(rest);
        draft.settled |= 1 << base_number;
    }

    /// Gives direct branches a target: mostly forward inside the case, or the way out.
    fn aim_branches(&mut self, draft: &mut Draft) {
        let count = draft.case.instructions.len();
        for index in 0..count {
            let pc = draft.starts[index];
            let bytes = &mut draft.case.instructions[index];
            let (instruction, offsets) = decode(bytes, pc);
            let size = offsets.immediate_size();
            if instruction.near_branch_target() == 0 || instruction.is_invalid() {
                continue;
            }
            let is_loop = matches!(bytes[bytes.len() - 2], 0xe0..=0xe2);
            let target = match self.random.u8(..12) {
                0 if size == 4 => continue,
                1 if is_loop => draft.starts[self.random.usize(..=index)],
                2 => draft.starts[count] + self.random.u64(..6),
                3 => draft.starts[index] + self.random.u64(1..40),
                _ => draft.starts[self.random.usize(index + 1..=count)],
            };
            let change = target.wrapping_sub(instruction.near_branch_target()) as i64;
            add_to_field(bytes, offsets.immediate_offset(), size, change);
            // Noise may have become a system call.
            let (instruction, _) = decode(bytes, pc);
            if exclusions::is_excluded(&instruction, bytes) {
                add_to_field(bytes, offsets.immediate_offset(), size, -change);
            }
        }
    }

    /// Lets registers and memory, the top of the stack above all, hold addresses of code.
    fn name_code(&mut self, draft: &mut Draft) {
        let random = &mut self.random;
        let count = draft.case.instructions.len();
        let address = |random: &mut Rng| match random.u8(..8) {
            0 => draft.case.place.home() - random.u64(1..16),
            1 => draft.case.place.data() + random.u64(..DATA_SIZE),
            2 => odd_address(random),
            _ => draft.starts[random.usize(count.div_ceil(2)..=count)],
        };
        let transfers: Vec<Instruction> = (0..count)
            .map(|index| decode(&draft.case.instructions[index], draft.starts[index]).0)
            .filter(|instruction| {
                matches!(
                    instruction.flow_control(),
                    FlowControl::IndirectBranch | FlowControl::IndirectCall | FlowControl::Return
                )
            })
            .collect();
        let mut patches = Vec::new();
        for instruction in transfers {
            let code = address(random);
            if instruction.flow_control() == FlowControl::Return {
                let top = draft.case.registers[RSP].wrapping_sub(draft.case.place.data());
                if top < DATA_SIZE - 8 {
                    patches.push((top, code));
                }
            } else if instruction.op0_kind() == OpKind::Register {
                let number = instruction.op0_register().full_register().number();
                if number != RSP {
                    draft.case.registers[number] = code;
                }
            } else {
                let registers = draft.case.registers;
                let thread_pointer = draft.case.place.data() + THREAD_POINTER;
                let at = instruction.virtual_address(0, 0, |register, _, _| match register {
                    Register::FS => Some(thread_pointer),
                    register if register.is_segment_register() => Some(0),
                    register => {
                        let value = registers[register.full_register().number()];
                        Some(if register.size() == 4 {
                            value & 0xffff_ffff
                        } else {
                            value
                        })
                    }
                });
                let offset = at.unwrap_or(0).wrapping_sub(draft.case.place.data());
                if offset < DATA_SIZE - 8 {
                    patches.push((offset, code));
                }
            }
        }
        patches.truncate(crate::record::PATCH_LIMIT);
        draft.case.patches = patches;
        debug_assert!(draft.next() - draft.case.place.home() < CODE_STRIDE);
    }
}

impl Draft {
    fn next(&self) -> u64 {
        self.starts[self.starts.len() - 1]
    }
}

/// An address in the data, sometimes at its edges.
fn pointer(random: &mut Rng, place: Place) -> u64 {
    // The far view of the data has a near twin.
    let place = if random.u8(..8) == 0 {
        Place::Near
    } else {
        place
    };
    pointer_for(random, place, 8)
}

fn pointer_for(random: &mut Rng, place: Place, size: u64) -> u64 {
    let offset = random.u64(..DATA_SIZE - 512) + 256;
    let offset = match random.u8(..32) {
        0 => DATA_SIZE - random.u64(..size + 1),
        1 => 4096 - random.u64(..size + 1),
        2 => (offset & !63).wrapping_sub(random.u64(..size)),
        3..12 => offset & !63,
        12..22 => offset & !7,
        22..26 => offset & !15,
        _ => offset,
    };
    place.data().wrapping_add(offset)
}

/// An address at which nothing is.
fn odd_address(random: &mut Rng) -> u64 {
    match random.u8(..6) {
        0 => random.u64(..4096),
        1 => 1 << 63 | random.u64(..1 << 48),
        2 => 0x8000_0000_0000 + random.u64(..1 << 32),
        3 => 0x7fff_ffff_f000 - random.u64(..64) * 8,
        4 => random.u64(..64).wrapping_neg(),
        _ => Place::Near.data() + DATA_SIZE + random.u64(..4096),
    }
}
