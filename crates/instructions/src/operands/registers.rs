//! Which general registers and flags an instruction uses: what liveness needs.

use iced_x86::{
    Instruction, InstructionInfoFactory, InstructionInfoOptions, Mnemonic, OpAccess, OpKind,
    Register,
};

use super::simple::{SimpleUse, simple_use};
use super::vector::memory_operand_index;

/// The general registers and flags that an instruction uses.
///
/// Registers are bits by their hardware numbers (rax is bit 0, rcx 1, rdx 2, rbx 3, rsp 4, …
/// r15 15); flags stand where RFLAGS has them (`CARRY` and so on). Implicit
/// uses are included; what the kernel does in a system call is not.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct RegisterUse {
    /// Registers of which any part may be read.
    pub read: u16,
    /// Registers of which any part may be written.
    pub written: u16,
    /// Registers that are written whole in any case: their old value is dead before the
    /// instruction unless it reads them too.
    pub overwritten: u16,
    /// Flags that may be read.
    pub flags_read: u16,
    /// Flags that may change, be it to an undefined value.
    pub flags_written: u16,
    /// Flags that change in any case: their old value is dead before the instruction unless
    /// it reads them too. A flag left undefined counts where processors do set it.
    pub flags_overwritten: u16,
}

impl RegisterUse {
    /// CF.
    pub(crate) const CARRY: u16 = 1 << 0;
    /// PF.
    pub(crate) const PARITY: u16 = 1 << 2;
    /// AF.
    pub(crate) const AUXILIARY: u16 = 1 << 4;
    /// ZF.
    pub(crate) const ZERO: u16 = 1 << 6;
    /// SF.
    pub(crate) const SIGN: u16 = 1 << 7;
    /// DF.
    pub(crate) const DIRECTION: u16 = 1 << 10;
    /// OF.
    pub(crate) const OVERFLOW: u16 = 1 << 11;
    /// The six flags that arithmetic sets.
    pub const STATUS: u16 = RegisterUse::CARRY
        | RegisterUse::PARITY
        | RegisterUse::AUXILIARY
        | RegisterUse::ZERO
        | RegisterUse::SIGN
        | RegisterUse::OVERFLOW;
}

/// What `instruction` does to registers and flags.
pub fn register_use(instruction: &Instruction, info: &mut InstructionInfoFactory) -> RegisterUse {
    let mut result = RegisterUse::default();
    match simple_use(instruction) {
        Some(simple) => add_simple(instruction, simple, &mut result),
        None => add_looked_up(instruction, info, &mut result),
    }
    let flags = flags_only(instruction);
    result.flags_read = flags.flags_read;
    result.flags_written = flags.flags_written;
    result.flags_overwritten = flags.flags_overwritten;
    result
}

/// What `instruction` does to flags; registers are not looked at.
pub(super) fn flags_only(instruction: &Instruction) -> RegisterUse {
    let mut result = RegisterUse::default();
    add_flags(instruction, &mut result);
    if instruction.is_invalid() {
        // Unknown to iced: it may depend on any flag, and if it faults, a handler sees all.
        result.flags_read = RegisterUse::STATUS | RegisterUse::DIRECTION;
    }
    result
}

/// Fills in the registers of a simple instruction.
fn add_simple(instruction: &Instruction, simple: SimpleUse, result: &mut RegisterUse) {
    for (index, access) in simple.operands.into_iter().enumerate() {
        if instruction.op_kind(index as u32) == OpKind::Register {
            result.add(instruction.op_register(index as u32), access);
        }
        if index + 1 == instruction.op_count() as usize {
            break;
        }
    }
    if simple.stack.is_some() {
        result.add(Register::RSP, OpAccess::ReadWrite);
    }
    if memory_operand_index(instruction).is_some() {
        result.add(instruction.memory_base(), OpAccess::Read);
        result.add(instruction.memory_index(), OpAccess::Read);
    }
}

/// Fills in the registers that iced's tables give.
fn add_looked_up(
    instruction: &Instruction,
    info: &mut InstructionInfoFactory,
    result: &mut RegisterUse,
) {
    let only_registers = InstructionInfoOptions::NO_MEMORY_USAGE;
    for used in info
        .info_options(instruction, only_registers)
        .used_registers()
    {
        result.add(used.register(), used.access());
    }
}

impl RegisterUse {
    /// Adds one use of a register, if it is (part of) a general one.
    fn add(&mut self, register: Register, access: OpAccess) {
        let Some(bit) = general_register_bit(register) else {
            return;
        };
        match access {
            OpAccess::None | OpAccess::NoMemAccess => {}
            OpAccess::Read | OpAccess::CondRead => self.read |= bit,
            OpAccess::CondWrite => self.written |= bit,
            OpAccess::ReadCondWrite => {
                self.read |= bit;
                self.written |= bit;
            }
            OpAccess::Write | OpAccess::ReadWrite => {
                if access == OpAccess::ReadWrite {
                    self.read |= bit;
                }
                self.written |= bit;
                // Writing 32 bits clears the upper half; writing fewer keeps the rest.
                if register.size() >= 4 {
                    self.overwritten |= bit;
                }
            }
        }
    }
}

/// The bit of the general register of which `register` is a part.
fn general_register_bit(register: Register) -> Option<u16> {
    let full = register.full_register();
    (full.is_gpr64()).then(|| 1 << full.number())
}

/// Fills in the flags.
fn add_flags(instruction: &Instruction, result: &mut RegisterUse) {
    result.flags_read = as_in_rflags(instruction.rflags_read());
    result.flags_written = as_in_rflags(instruction.rflags_modified());
    if flags_may_stay(instruction) {
        return;
    }
    let defined =
        instruction.rflags_written() | instruction.rflags_cleared() | instruction.rflags_set();
    result.flags_overwritten = as_in_rflags(defined);
    let undefined = as_in_rflags(instruction.rflags_undefined());
    result.flags_overwritten |= if keeps_undefined_flags(instruction.mnemonic()) {
        // Nothing but pushf and lahf can see AF, and no program relies on an undefined one.
        undefined & RegisterUse::AUXILIARY
    } else {
        undefined
    };
}

/// Instructions that leave all flags as they were for some values of their operands.
fn flags_may_stay(instruction: &Instruction) -> bool {
    match instruction.mnemonic() {
        Mnemonic::Shl
        | Mnemonic::Sal
        | Mnemonic::Shr
        | Mnemonic::Sar
        | Mnemonic::Rol
        | Mnemonic::Ror
        | Mnemonic::Rcl
        | Mnemonic::Rcr => instruction.op1_kind() == OpKind::Register,
        Mnemonic::Shld | Mnemonic::Shrd => instruction.op2_kind() == OpKind::Register,
        Mnemonic::Cmpsb
        | Mnemonic::Cmpsw
        | Mnemonic::Cmpsd
        | Mnemonic::Cmpsq
        | Mnemonic::Scasb
        | Mnemonic::Scasw
        | Mnemonic::Scasd
        | Mnemonic::Scasq => instruction.has_rep_prefix() || instruction.has_repne_prefix(),
        _ => false,
    }
}

/// Instructions after which some processors leave undefined flags unchanged.
fn keeps_undefined_flags(mnemonic: Mnemonic) -> bool {
    matches!(
        mnemonic,
        Mnemonic::Bt
            | Mnemonic::Bts
            | Mnemonic::Btr
            | Mnemonic::Btc
            | Mnemonic::Bsf
            | Mnemonic::Bsr
            | Mnemonic::Lzcnt
            | Mnemonic::Tzcnt
            | Mnemonic::Div
            | Mnemonic::Idiv
            | Mnemonic::Imul
            | Mnemonic::Mul
            | Mnemonic::Rol
            | Mnemonic::Ror
            | Mnemonic::Rcl
            | Mnemonic::Rcr
            | Mnemonic::Shld
            | Mnemonic::Shrd
    )
}

/// iced's flag bits, moved to where RFLAGS has them.
fn as_in_rflags(bits: u32) -> u16 {
    RFLAGS_OF[bits as usize & 0x7f]
}

/// For each set of iced's seven lowest flag bits, the same set as in RFLAGS.
static RFLAGS_OF: [u16; 128] = {
    use iced_x86::RflagsBits;
    let pairs = [
        (RflagsBits::OF, RegisterUse::OVERFLOW),
        (RflagsBits::SF, RegisterUse::SIGN),
        (RflagsBits::ZF, RegisterUse::ZERO),
        (RflagsBits::AF, RegisterUse::AUXILIARY),
        (RflagsBits::CF, RegisterUse::CARRY),
        (RflagsBits::PF, RegisterUse::PARITY),
        (RflagsBits::DF, RegisterUse::DIRECTION),
    ];
    let mut table = [0; 128];
    let mut set = 0;
    while set < 128 {
        let mut index = 0;
        while index < pairs.len() {
            if set as u32 & pairs[index].0 != 0 {
                table[set] |= pairs[index].1;
            }
            index += 1;
        }
        set += 1;
    }
    table
};

/// The registers of a simple instruction, by the shortcut and by iced's tables.
#[cfg(test)]
pub(super) fn both_ways(
    instruction: &Instruction,
    info: &mut InstructionInfoFactory,
) -> (RegisterUse, RegisterUse) {
    let (mut quick, mut slow) = (RegisterUse::default(), RegisterUse::default());
    if let Some(simple) = simple_use(instruction) {
        add_simple(instruction, simple, &mut quick);
    }
    add_looked_up(instruction, info, &mut slow);
    (quick, slow)
}
