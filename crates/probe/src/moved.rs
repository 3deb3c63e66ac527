//! Which instructions a jump at a function's entry displaces, whether they may be, and what they
//! are elsewhere.
//!
//! Nothing here touches a process: code is bytes at an address.

use iced_x86::{
    BlockEncoder, BlockEncoderOptions, Code, Decoder, DecoderOptions, FlowControl, Instruction,
    InstructionBlock, Mnemonic, Register,
};

use crate::branches;
use crate::code_bytes::{CodeBytes, JUMP};
use crate::far_branches::FarBranches;
use crate::refusal::Refusal;

/// The entry of a function: what a jump displaces.
#[derive(Debug, Clone)]
pub(crate) struct DisplacedEntry {
    /// Where the jump goes: behind an `endbr64`, which stays what it is.
    pub(crate) at: u64,
    /// The displaced instructions.
    pub(crate) moved: Vec<Instruction>,
    /// Their bytes.
    bytes: Vec<u8>,
    /// How many bytes are displaced: at least a jump's, up to the end of an instruction, or into
    /// the padding behind a short function.
    pub(crate) length: usize,
}

/// Looks at the function from `start` to `end`.
///
/// # Errors
/// If a jump at its entry could change what the program does.
pub(crate) fn survey(
    code: CodeBytes<'_>,
    far: &FarBranches<'_>,
    start: u64,
    end: u64,
) -> Result<DisplacedEntry, Refusal> {
    if !code.contains(start) || end <= start {
        return Err(Refusal::Outside);
    }
    let first = code.decode(start).next();
    let at = match first {
        Some(first) if first.code() == Code::Endbr64 => first.next_ip(),
        _ => start,
    };
    let (moved, length) = displaced(code, at, end)?;
    let moved_end = moved.last().map_or(at, Instruction::next_ip);
    let bytes = code.from(at);
    let bytes = bytes[..bytes.len().min((moved_end - at) as usize)].to_vec();
    let entry = DisplacedEntry {
        at,
        moved,
        bytes,
        length,
    };
    let boundaries = entry.boundaries();
    branches::none_back(code, start, end, at..at + length as u64)?;
    branches::none_nearby(code, start, end, &boundaries)?;
    match far.find(&boundaries) {
        Some(from) => Err(Refusal::BranchInto(from)),
        None => Ok(entry),
    }
}

/// The instructions that the jump displaces, and their bytes.
fn displaced(code: CodeBytes<'_>, at: u64, end: u64) -> Result<(Vec<Instruction>, usize), Refusal> {
    let mut moved: Vec<Instruction> = Vec::new();
    let mut length = 0;
    for instruction in code.decode(at) {
        if instruction.is_invalid() {
            return Err(Refusal::Undecodable(instruction.ip()));
        }
        if instruction.next_ip() > end {
            break;
        }
        length += instruction.len();
        let is_last = length >= JUMP;
        match instruction.flow_control() {
            FlowControl::Call if instruction.mnemonic() == Mnemonic::Syscall => {}
            FlowControl::Call if !is_last || instruction.code() != Code::Call_rel32_64 => {
                return Err(Refusal::Call(instruction.ip()));
            }
            FlowControl::IndirectCall => return Err(Refusal::Call(instruction.ip())),
            FlowControl::XbeginXabortXend => {
                return Err(Refusal::Bound("a transaction begins there".to_owned()));
            }
            _ => {}
        }
        let ends = matches!(
            instruction.flow_control(),
            FlowControl::Return
                | FlowControl::UnconditionalBranch
                | FlowControl::IndirectBranch
                | FlowControl::Exception
        );
        moved.push(instruction);
        if is_last {
            return Ok((moved, length));
        }
        if ends && at + (length as u64) == end {
            return match length + padding(code, end) >= JUMP {
                true => Ok((moved, JUMP)),
                false => Err(Refusal::Short(end - at)),
            };
        }
    }
    match at + (length as u64) < end {
        true => Err(Refusal::Undecodable(at + length as u64)),
        false => Err(Refusal::Short(end - at)),
    }
}

/// How many bytes from here to the next function do nothing. Functions begin at multiples of 16
/// where there is padding between them.
fn padding(code: CodeBytes<'_>, from: u64) -> usize {
    let wanted = (from.next_multiple_of(16) - from) as usize;
    let mut found = 0;
    for instruction in code.decode(from) {
        let idle = matches!(instruction.mnemonic(), Mnemonic::Nop | Mnemonic::Int3);
        if !idle || found >= wanted {
            break;
        }
        found += instruction.len();
    }
    if found >= wanted { wanted } else { 0 }
}

impl DisplacedEntry {
    /// Where displaced instructions begin, other than at the entry.
    pub(crate) fn boundaries(&self) -> Vec<u64> {
        self.moved.iter().skip(1).map(Instruction::ip).collect()
    }

    /// Where the program goes on behind the displaced instructions.
    fn back(&self) -> u64 {
        self.moved.last().map_or(self.at, Instruction::next_ip)
    }

    /// The displaced instructions and a jump back, if nothing but displacements has to be mended.
    /// To begin to encode instructions takes longer than all the rest.
    fn copied(&self, to: u64, back: u64) -> Option<Vec<u8>> {
        let length = usize::try_from(back.checked_sub(self.at)?).ok()?;
        let mut code = self.bytes.get(..length)?.to_vec();
        let moved_by = to.wrapping_sub(self.at);
        let distance = |from: u64, target: u64| {
            let distance = target.wrapping_sub(from.wrapping_add(moved_by));
            i32::try_from(distance.cast_signed()).map(i32::to_le_bytes)
        };
        let mut decoder = Decoder::with_ip(64, &self.bytes, self.at, DecoderOptions::NONE);
        for one in &self.moved {
            let goes_on =
                one.flow_control() == FlowControl::Next || one.mnemonic() == Mnemonic::Syscall;
            if !goes_on || decoder.decode() != *one {
                return None;
            }
            if one.is_ip_rel_memory_operand() {
                let constants = decoder.get_constant_offsets(one);
                let at = (one.ip() - self.at) as usize + constants.displacement_offset();
                let is_usual = one.memory_base() == Register::RIP
                    && constants.displacement_size() == size_of::<i32>();
                let target = one.ip_rel_memory_address();
                let place = code.get_mut(at..at + size_of::<i32>());
                place
                    .filter(|_| is_usual)?
                    .copy_from_slice(&distance(one.next_ip(), target).ok()?);
            }
        }
        code.push(0xe9);
        code.extend(distance(back + JUMP as u64, back).ok()?);
        Some(code)
    }

    /// The displaced instructions, to be put at another address, and a jump back.
    pub(crate) fn relocated(&self, to: u64) -> Result<Vec<u8>, Refusal> {
        let bound = |error: iced_x86::IcedError| Refusal::Bound(error.to_string());
        let back = self.back();
        if let Some(code) = self.copied(to, back) {
            return Ok(code);
        }
        let mut all = self.moved.clone();
        match all.last().map(|last| (last.flow_control(), *last)) {
            Some((FlowControl::Call, call)) if call.mnemonic() != Mnemonic::Syscall => {
                // The return address is the one that it was, so that unwinders and the program
                // see nothing else.
                all.pop();
                all.extend(push(back)?);
                all.push(branch(Code::Jmp_rel32_64, call.near_branch_target())?);
            }
            Some((
                FlowControl::Return
                | FlowControl::UnconditionalBranch
                | FlowControl::IndirectBranch
                | FlowControl::Exception,
                _,
            )) => {}
            _ => all.push(branch(Code::Jmp_rel32_64, back)?),
        }
        let block = InstructionBlock::new(&all, to);
        let encoded = BlockEncoder::encode(64, block, BlockEncoderOptions::NONE).map_err(bound)?;
        Ok(encoded.code_buffer)
    }
}

/// Pushes a word without using a register or a flag.
fn push(word: u64) -> Result<[Instruction; 2], Refusal> {
    use iced_x86::MemoryOperand;
    let bound = |error: iced_x86::IcedError| Refusal::Bound(error.to_string());
    let low = Instruction::with1(Code::Pushq_imm32, word as u32 as i32).map_err(bound)?;
    let upper_half = MemoryOperand::with_base_displ(Register::RSP, 4);
    let high =
        Instruction::with2(Code::Mov_rm32_imm32, upper_half, (word >> 32) as u32).map_err(bound)?;
    Ok([low, high])
}

fn branch(code: Code, target: u64) -> Result<Instruction, Refusal> {
    Instruction::with_branch(code, target).map_err(|error| Refusal::Bound(error.to_string()))
}

#[cfg(test)]
#[path = "moved/tests.rs"]
mod tests;
