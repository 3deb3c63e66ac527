//! The extent of masked vector operands: gathers, scatters, masked loads and stores,
//! broadcasts, expansion and compression.
//!
//! Whether a load under an AVX-512 mask leaves masked elements alone, or reads its operand
//! whole, is a property of each instruction (its exception class in the Intel SDM, volume 2,
//! section 2.8). The list here is checked against the processor by an integration test.

use iced_x86::{Instruction, Mnemonic, OpKind, Register, UsedMemory};
use unspool_events::AccessKind;

use super::{ElementMask, MemoryOperand, Shape};

/// The number of the operand that ModRM places in memory.
pub(super) fn memory_operand_index(instruction: &Instruction) -> Option<u32> {
    (0..instruction.op_count()).find(|&index| instruction.op_kind(index) == OpKind::Memory)
}

/// Completes an operand of an instruction that has an AVX-512 mask, or indexes by vector.
pub(super) fn refine_masked(
    instruction: &Instruction,
    memory: &UsedMemory,
    operand: &mut MemoryOperand,
) {
    if memory.vsib_size() != 0 {
        refine_indexed(instruction, memory, operand);
        return;
    }
    let register = instruction.op_mask();
    let mask = ElementMask::Bits(register);
    let mnemonic = instruction.mnemonic();
    if moves_compressed(mnemonic) {
        let element = memory.memory_size().element_size() as u32;
        let count = (operand.size / element) as u8;
        operand.size = element;
        operand.shape = Shape::Compressed {
            count,
            mask: register,
        };
        return;
    }
    if operand.kind == AccessKind::Read {
        if reads_whole(instruction) {
            return;
        }
        if let Some(count) = broadcast_count(instruction, memory) {
            operand.shape = Shape::AnyOf { count, mask };
            return;
        }
    }
    let element = mask_element_size(instruction, memory);
    let count = (operand.size / element) as u8;
    operand.size = element;
    operand.shape = Shape::Masked { count, mask };
}

/// A gather or scatter.
fn refine_indexed(instruction: &Instruction, memory: &UsedMemory, operand: &mut MemoryOperand) {
    let index = memory.index();
    let index_size = memory.vsib_size() as u8;
    let data = match operand.kind {
        AccessKind::Read => instruction.op0_register(),
        AccessKind::Write => instruction.op1_register(),
    };
    // The data or the indexes may fill only a part of their register.
    let count = (index.size() / usize::from(index_size)).min(data.size() / operand.size as usize);
    let mask = if instruction.has_op_mask() {
        ElementMask::Bits(instruction.op_mask())
    } else {
        ElementMask::Vector {
            register: instruction.op2_register(),
            size: operand.size as u8,
        }
    };
    operand.index = Register::None;
    operand.shape = Shape::Indexed {
        index,
        index_size,
        count: count as u8,
        mask,
    };
}

/// Masked moves whose mask is a vector (or MMX) register.
pub(super) fn refine_vector_masked(instruction: &Instruction, operand: &mut MemoryOperand) {
    let (element, register) = match instruction.mnemonic() {
        // `maskmovdqu`: the destination is implicit and the mask the last operand.
        Mnemonic::Maskmovq | Mnemonic::Maskmovdqu | Mnemonic::Vmaskmovdqu => {
            (1, instruction.op2_register())
        }
        Mnemonic::Vmaskmovps | Mnemonic::Vpmaskmovd => (4, instruction.op1_register()),
        _ => (8, instruction.op1_register()),
    };
    let count = (operand.size / element) as u8;
    operand.size = element;
    operand.shape = Shape::Masked {
        count,
        mask: ElementMask::Vector {
            register,
            size: element as u8,
        },
    };
}

/// Expansion and compression.
fn moves_compressed(mnemonic: Mnemonic) -> bool {
    matches!(
        mnemonic,
        Mnemonic::Vexpandps
            | Mnemonic::Vexpandpd
            | Mnemonic::Vpexpandb
            | Mnemonic::Vpexpandw
            | Mnemonic::Vpexpandd
            | Mnemonic::Vpexpandq
            | Mnemonic::Vcompressps
            | Mnemonic::Vcompresspd
            | Mnemonic::Vpcompressb
            | Mnemonic::Vpcompressw
            | Mnemonic::Vpcompressd
            | Mnemonic::Vpcompressq
    )
}

/// How many elements of the mask decide over the one element that a broadcast loads; nothing
/// if this is no broadcast.
fn broadcast_count(instruction: &Instruction, memory: &UsedMemory) -> Option<u8> {
    if instruction.is_broadcast() {
        let mut whole = *instruction;
        whole.set_is_broadcast(false);
        let elements = whole.memory_size().size() / memory.memory_size().size();
        return Some(elements as u8);
    }
    let is_broadcast_instruction = matches!(
        instruction.mnemonic(),
        Mnemonic::Vbroadcastss
            | Mnemonic::Vbroadcastsd
            | Mnemonic::Vbroadcastf32x2
            | Mnemonic::Vbroadcastf32x4
            | Mnemonic::Vbroadcastf32x8
            | Mnemonic::Vbroadcastf64x2
            | Mnemonic::Vbroadcastf64x4
            | Mnemonic::Vbroadcasti32x2
            | Mnemonic::Vbroadcasti32x4
            | Mnemonic::Vbroadcasti32x8
            | Mnemonic::Vbroadcasti64x2
            | Mnemonic::Vbroadcasti64x4
            | Mnemonic::Vpbroadcastb
            | Mnemonic::Vpbroadcastw
            | Mnemonic::Vpbroadcastd
            | Mnemonic::Vpbroadcastq
    );
    is_broadcast_instruction.then(|| {
        let element = memory.memory_size().element_size();
        (instruction.op0_register().size() / element) as u8
    })
}

/// Bytes of memory for which one bit of the mask stands.
fn mask_element_size(instruction: &Instruction, memory: &UsedMemory) -> u32 {
    // Where elements can be broadcast, those are the elements that the mask counts, even if
    // the instruction works on parts of them (dot products, complex numbers).
    if !instruction.is_broadcast() {
        let mut broadcast = *instruction;
        broadcast.set_is_broadcast(true);
        let element = broadcast.memory_size().size() as u32;
        if element != 0 {
            return element;
        }
    }
    match instruction.mnemonic() {
        Mnemonic::Vfmaddcsh | Mnemonic::Vfcmaddcsh | Mnemonic::Vfmulcsh | Mnemonic::Vfcmulcsh => 4,
        _ => memory.memory_size().element_size() as u32,
    }
}

/// Loads that read their operand whole, whatever the mask.
fn reads_whole(instruction: &Instruction) -> bool {
    use Mnemonic as M;
    match instruction.mnemonic() {
        M::Vpsllw
        | M::Vpslld
        | M::Vpsllq
        | M::Vpsraw
        | M::Vpsrad
        | M::Vpsraq
        | M::Vpsrlw
        | M::Vpsrld
        | M::Vpsrlq => {
            // With the count in memory, always; else it is the data that is there.
            memory_operand_index(instruction) == Some(2)
        }
        // They move elements across the operand or combine several.
        M::V4fmaddps
        | M::V4fmaddss
        | M::V4fnmaddps
        | M::V4fnmaddss
        | M::Valignd
        | M::Valignq
        | M::Vcvtne2ps2bf16
        | M::Vdbpsadbw
        | M::Vgf2p8affineinvqb
        | M::Vgf2p8affineqb
        | M::Vinsertf32x4
        | M::Vinsertf32x8
        | M::Vinsertf64x2
        | M::Vinsertf64x4
        | M::Vinserti32x4
        | M::Vinserti32x8
        | M::Vinserti64x2
        | M::Vinserti64x4
        | M::Vmovddup
        | M::Vmovshdup
        | M::Vmovsldup
        | M::Vp4dpwssd
        | M::Vp4dpwssds
        | M::Vpackssdw
        | M::Vpacksswb
        | M::Vpackusdw
        | M::Vpackuswb
        | M::Vpalignr
        | M::Vpconflictd
        | M::Vpconflictq
        | M::Vpermb
        | M::Vpermd
        | M::Vpermi2b
        | M::Vpermi2d
        | M::Vpermi2pd
        | M::Vpermi2ps
        | M::Vpermi2q
        | M::Vpermi2w
        | M::Vpermilpd
        | M::Vpermilps
        | M::Vpermpd
        | M::Vpermps
        | M::Vpermq
        | M::Vpermt2b
        | M::Vpermt2d
        | M::Vpermt2pd
        | M::Vpermt2ps
        | M::Vpermt2q
        | M::Vpermt2w
        | M::Vpermw
        | M::Vpmaddubsw
        | M::Vpmaddwd
        | M::Vpmultishiftqb
        | M::Vpshufb
        | M::Vpshufd
        | M::Vpshufhw
        | M::Vpshuflw
        | M::Vpunpckhbw
        | M::Vpunpckhdq
        | M::Vpunpckhqdq
        | M::Vpunpckhwd
        | M::Vpunpcklbw
        | M::Vpunpckldq
        | M::Vpunpcklqdq
        | M::Vpunpcklwd
        | M::Vshuff32x4
        | M::Vshuff64x2
        | M::Vshufi32x4
        | M::Vshufi64x2
        | M::Vshufpd
        | M::Vshufps
        | M::Vunpckhpd
        | M::Vunpckhps
        | M::Vunpcklpd
        | M::Vunpcklps => true,
        _ => false,
    }
}
