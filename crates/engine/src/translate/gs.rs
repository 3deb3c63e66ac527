//! The program's GS segment.
//!
//! The machine's GS base is the program's FS base, and the program's GS base a slot. An operand
//! in GS becomes the sum of that slot and its address, in a spilled register.

use iced_x86::{Decoder, DecoderOptions, Instruction as Decoded, Register};
use unspool_code_cache::cache::SpillInterval;
use unspool_code_cache::emit::Gpr;
use unspool_code_cache::slots::offset;
use unspool_events::AccessKind;
use unspool_instructions::decode::{Encoding, Instruction, Segment};
use unspool_instructions::operands::{MemoryOperand, Shape};

use super::copy::{BASE_SPILL, Builder, Uncopyable};
use super::operand_address::load_address;

impl Builder {
    /// Emits an instruction that names memory through GS.
    ///
    /// # Errors
    /// If the address is not all in ModRM and what follows it (string instructions), has a
    /// vector in it, or depends on what the instruction does.
    pub(super) fn copy_in_gs(
        &mut self,
        instruction: &Instruction,
        bytes: &[u8],
        pc: u64,
    ) -> Result<(), Uncopyable> {
        const POP: u8 = 0x8f;
        let pops = instruction.encoding == Encoding::Legacy
            && instruction.map == 0
            && instruction.opcode == POP;
        if !instruction.has_memory_modrm() || pops {
            return Err(Uncopyable);
        }
        let decoded = decode(bytes, pc);
        let operand = operand_in_gs(instruction, &decoded)?;
        self.with_base(&decoded, |builder, base| {
            load_address(&mut builder.code, base, &operand);
            let (with_base, length) = bytes_with_base(instruction, bytes, base);
            builder.code.bytes(&with_base[..length]);
        })
    }

    /// Emits the load of an indirect branch's target through GS into a register.
    ///
    /// # Errors
    /// As [`Builder::copy_in_gs`], or if the address depends on that register.
    pub(super) fn load_from_gs(
        &mut self,
        instruction: &Instruction,
        bytes: &[u8],
        pc: u64,
        to: Gpr,
    ) -> Result<(), Uncopyable> {
        let operand = operand_in_gs(instruction, &decode(bytes, pc))?;
        let uses = |register: Register| {
            register != Register::None && register.full_register().number() == usize::from(to)
        };
        // The sum of a narrow address would wait where that register's value does.
        if uses(operand.base) || uses(operand.index) || operand.address_size_32 {
            return Err(Uncopyable);
        }
        load_address(&mut self.code, to, &operand);
        self.code.load(to, to, 0);
        Ok(())
    }

    /// Emits `rdgsbase`.
    pub(super) fn read_gs_base(&mut self, instruction: &Instruction, register: Gpr) {
        self.code.load_slot(register, offset::PROGRAM_GS);
        if !instruction.wide() {
            self.code.zero_extend(register, register);
        }
    }

    /// Emits `wrgsbase`. The processor judges the new base, and gets its own back.
    pub(super) fn write_gs_base(&mut self, instruction: &Instruction, bytes: &[u8], register: Gpr) {
        let spilled: Gpr = if register == 0 { 1 } else { 0 };
        self.code.store_slot(offset::spill(BASE_SPILL), spilled);
        let start = self.offset();
        if instruction.wide() {
            self.code.copy(spilled, register);
        } else {
            self.code.zero_extend(spilled, register);
        }
        self.copy_as_it_is(instruction, bytes);
        self.code.store_slot(offset::PROGRAM_GS, spilled);
        self.code.load_slot(spilled, offset::PROGRAM_FS);
        // wrgsbase
        self.code.bytes(&[0xf3, 0x48, 0x0f, 0xae, 0xd8 | spilled]);
        self.new_fragment.spills.push(SpillInterval {
            start,
            end: self.offset(),
            register: spilled,
            slot: BASE_SPILL,
        });
        self.code.load_slot(spilled, offset::spill(BASE_SPILL));
    }
}

fn decode(bytes: &[u8], pc: u64) -> Decoded {
    Decoder::with_ip(64, bytes, pc, DecoderOptions::NONE).decode()
}

/// The operand that ModRM and what follows it name.
fn operand_in_gs(
    instruction: &Instruction,
    decoded: &Decoded,
) -> Result<MemoryOperand, Uncopyable> {
    let relative = decoded.is_ip_rel_memory_operand();
    let displacement = decoded.memory_displacement64() as i64;
    let base = match decoded.memory_base() {
        Register::RIP | Register::EIP => Register::None,
        base => base,
    };
    let index = decoded.memory_index();
    if index.is_vector_register() || relative && i32::try_from(displacement).is_err() {
        return Err(Uncopyable);
    }
    Ok(MemoryOperand {
        kind: AccessKind::Read,
        size: 0,
        base,
        index,
        scale: decoded.memory_index_scale() as u8,
        displacement,
        segment: Some(Segment::Gs),
        address_size_32: instruction.address_size_prefix && !relative,
        shape: Shape::Plain,
    })
}

/// The instruction with `[base]` as its operand, and its length.
pub(super) fn bytes_with_base(
    instruction: &Instruction,
    bytes: &[u8],
    base: Gpr,
) -> ([u8; 16], usize) {
    const SEGMENTS: [u8; 2] = [0x64, 0x65];
    const ADDRESS_SIZE: u8 = 0x67;
    const REX: std::ops::RangeInclusive<u8> = 0x40..=0x4f;
    let [prefix, modrm] = [instruction.prefix_offset, instruction.modrm_offset].map(usize::from);
    // A REX among the prefixes meant nothing there, and must not begin to.
    let is_kept =
        |byte: &u8| !SEGMENTS.contains(byte) && *byte != ADDRESS_SIZE && !REX.contains(byte);
    let kept = bytes[..prefix].iter().copied().filter(is_kept);
    let mut opcode: Vec<u8> = bytes[prefix..modrm].to_vec();
    match instruction.encoding {
        // Neither an index nor a base beyond the first eight.
        Encoding::Legacy if instruction.rex != 0 => opcode[0] &= !3,
        Encoding::Legacy => {}
        Encoding::Vex if opcode[0] == 0xc5 => {}
        Encoding::Vex | Encoding::Evex | Encoding::Xop => opcode[1] |= 0x60,
    }
    let has_sib = instruction.sib_offset != 0;
    let behind = modrm + 1 + usize::from(has_sib) + usize::from(instruction.displacement_size);
    let rest = bytes[behind..usize::from(instruction.length)]
        .iter()
        .copied();
    let all = kept
        .chain(opcode)
        .chain([instruction.modrm & 0x38 | base])
        .chain(rest);
    let (mut made, mut length) = ([0; 16], 0);
    for byte in all {
        made[length] = byte;
        length += 1;
    }
    (made, length)
}
