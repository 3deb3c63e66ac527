//! What a trace must say of the first instruction of a case, whose registers are the case's,
//! by what iced-x86 knows of the instruction.
//!
//! Address, size and kind of every access are compared, and that there are no others. Left
//! out, because they follow from more than the general registers:
//!
//! - gathers and scatters, vector operands under a mask, `maskmov` and its kind;
//! - `enter`, tiles, and what has no fixed size: the xsave family;
//! - repeated comparisons of strings (how far they go), of which the start and the greatest
//!   length are compared all the same;
//! - `clflush` and its kind, which iced-x86 takes for reads: they bring no data;
//! - instructions that a fault or trap ended, and those that iced-x86 does not know.

use iced_x86::{
    Code, Instruction, InstructionInfoFactory, InstructionInfoOptions, Mnemonic, OpAccess, OpKind,
    Register,
};
use unspool_events::AccessKind;

use crate::place::decode;
use crate::record::{CaseRecord, Outcome, SIGNALLED};

/// One recorded access.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Recorded {
    /// Its first byte.
    pub address: u64,
    /// Its bytes.
    pub size: u64,
    /// Whether it writes.
    pub write: bool,
}

impl Recorded {
    /// From what the trace has.
    #[must_use]
    pub fn new(access: &unspool_events::Access) -> Recorded {
        Recorded {
            address: access.address,
            size: u64::from(access.size),
            write: access.kind == AccessKind::Write,
        }
    }
}

/// An access that must, or may, be recorded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Expected {
    /// The access. For `up_to`, the longest one.
    pub access: Recorded,
    /// Whether it may be missing.
    pub optional: bool,
    /// The bytes of an element, if it may end, towards its end in the string's direction, after
    /// any of them.
    pub element: Option<u64>,
    /// Whether the string goes down.
    pub down: bool,
}

impl Expected {
    fn allows(&self, recorded: &Recorded) -> bool {
        let Some(element) = self.element else {
            return *recorded == self.access;
        };
        let end = |access: &Recorded| access.address.wrapping_add(access.size);
        let same_start = if self.down {
            end(recorded) == end(&self.access)
        } else {
            recorded.address == self.access.address
        };
        same_start
            && recorded.write == self.access.write
            && recorded.size.is_multiple_of(element)
            && (element..=self.access.size).contains(&recorded.size)
    }
}

/// What the first instruction of a case accesses; `None` where that is left out.
#[must_use]
pub fn expected(
    factory: &mut InstructionInfoFactory,
    record: &CaseRecord,
    outcome: &Outcome,
) -> Option<Vec<Expected>> {
    let code = &record.code[..record.length as usize];
    let (instruction, _) = decode(code, record.address);
    if outcome.status == SIGNALLED && outcome.pc == record.address || is_left_out(&instruction) {
        return None;
    }
    if instruction.is_string_instruction()
        && (instruction.has_rep_prefix() || instruction.has_repne_prefix())
    {
        return repeated(factory, &instruction, record);
    }
    if instruction.mnemonic() == Mnemonic::Clzero {
        return cleared_line(&instruction, record).map(|line| vec![line]);
    }
    let mut all = Vec::new();
    let options = InstructionInfoOptions::NO_REGISTER_USAGE;
    for used in factory.info_options(&instruction, options).used_memory() {
        let size = used.memory_size().size() as u64;
        let (read, write, optional) = kinds(used.access());
        if !read && !write {
            continue;
        }
        if size == 0 {
            return None;
        }
        let address = used.virtual_address(0, |register, _, _| value(record, register))?;
        let address = address.wrapping_add(bit_offset(&instruction, record)?);
        for (wanted, write) in [(read, false), (write, true)] {
            let access = Recorded {
                address,
                size,
                write,
            };
            let optional = optional && (write || used.access() == OpAccess::CondRead);
            if wanted {
                all.push(Expected {
                    access,
                    optional,
                    element: None,
                    down: false,
                });
            }
        }
    }
    Some(all)
}

/// What `clzero` writes, which iced does not list: the cache line in which rax points.
fn cleared_line(instruction: &Instruction, record: &CaseRecord) -> Option<Expected> {
    const LINE: u64 = 64;
    let register = match instruction.code() {
        Code::Clzerod => Register::EAX,
        _ => Register::RAX,
    };
    if instruction.segment_prefix() != Register::None {
        return None;
    }
    let address = value(record, register)? & !(LINE - 1);
    let access = Recorded {
        address,
        size: LINE,
        write: true,
    };
    Some(Expected {
        access,
        optional: false,
        element: None,
        down: false,
    })
}

/// Whether the recorded accesses are the expected ones.
#[must_use]
pub fn agree(expected: &[Expected], recorded: &[Recorded]) -> bool {
    let mut left = expected.to_vec();
    for access in recorded {
        match left.iter().position(|expected| expected.allows(access)) {
            Some(index) => drop(left.swap_remove(index)),
            None => return false,
        }
    }
    left.iter().all(|expected| expected.optional)
}

fn is_left_out(instruction: &Instruction) -> bool {
    use Mnemonic as M;
    let masks = instruction.op_mask() != Register::None || instruction.is_vsib();
    instruction.is_invalid()
        || masks
        || matches!(
            instruction.mnemonic(),
            M::Enter
                | M::Clflush
                | M::Clflushopt
                | M::Clwb
                | M::Maskmovq
                | M::Maskmovdqu
                | M::Vmaskmovdqu
                | M::Vmaskmovps
                | M::Vmaskmovpd
                | M::Vpmaskmovd
                | M::Vpmaskmovq
                | M::Tileloadd
                | M::Tileloaddt1
                | M::Tilestored
        )
}

/// Reads, writes, and whether only under a condition.
fn kinds(access: OpAccess) -> (bool, bool, bool) {
    match access {
        OpAccess::Read => (true, false, false),
        OpAccess::CondRead => (true, false, true),
        OpAccess::Write => (false, true, false),
        OpAccess::CondWrite => (false, true, true),
        OpAccess::ReadWrite => (true, true, false),
        OpAccess::ReadCondWrite => (true, true, true),
        _ => (false, false, false),
    }
}

/// The value of a register when the case starts.
fn value(record: &CaseRecord, register: Register) -> Option<u64> {
    if register == Register::FS {
        return Some(record.thread_pointer);
    }
    if register.is_segment_register() {
        return Some(0);
    }
    if !register.is_gpr() {
        return None;
    }
    let full = record.registers[register.full_register().number()];
    Some(match register.size() {
        8 => full,
        4 => full & 0xffff_ffff,
        2 => full & 0xffff,
        _ if register.is_gpr8() && (Register::AH..=Register::BH).contains(&register) => {
            full >> 8 & 0xff
        }
        _ => full & 0xff,
    })
}

/// How far behind its operand an instruction with a bit number in a register finds the bit.
fn bit_offset(instruction: &Instruction, record: &CaseRecord) -> Option<u64> {
    use Mnemonic as M;
    let names_bit = matches!(instruction.mnemonic(), M::Bt | M::Bts | M::Btr | M::Btc)
        && instruction.op0_kind() == OpKind::Memory
        && instruction.op1_kind() == OpKind::Register;
    if !names_bit {
        return Some(0);
    }
    let bit = value(record, instruction.op1_register())?;
    let offset = match instruction.op1_register().size() {
        2 => i64::from(bit as i16 >> 4) * 2,
        4 => i64::from(bit as i32 >> 5) * 4,
        _ => (bit as i64 >> 6) * 8,
    };
    Some(offset as u64)
}

/// All rounds of a repeated string instruction, each operand as one access.
fn repeated(
    factory: &mut InstructionInfoFactory,
    instruction: &Instruction,
    record: &CaseRecord,
) -> Option<Vec<Expected>> {
    use Mnemonic as M;
    const DOWN: u64 = 0x400;
    let compares = matches!(
        instruction.mnemonic(),
        M::Cmpsb | M::Cmpsw | M::Cmpsd | M::Cmpsq | M::Scasb | M::Scasw | M::Scasd | M::Scasq
    );
    let down = record.flags & DOWN != 0;
    let mut all = Vec::new();
    for used in factory.info(instruction).used_memory() {
        // That of all rounds together is unknown.
        let size = instruction.memory_size().size() as u64;
        let narrow = used.base().size() == 4;
        let counter = if narrow { Register::ECX } else { Register::RCX };
        let count = value(record, counter)?;
        let bytes = size.checked_mul(count)?;
        if count == 0 {
            continue;
        }
        let first = used.virtual_address(0, |register, _, _| value(record, register))?;
        let address = if down {
            first.wrapping_sub(bytes - size)
        } else {
            first
        };
        let (read, write, _) = kinds(used.access());
        for (wanted, write) in [(read, false), (write, true)] {
            if wanted {
                all.push(Expected {
                    access: Recorded {
                        address,
                        size: bytes,
                        write,
                    },
                    optional: false,
                    element: compares.then_some(size),
                    down,
                });
            }
        }
    }
    Some(all)
}
