//! Instructions that flush, prefetch or order, and those whose data bypasses the caches.

use iced_x86::{Instruction, Mnemonic};
use unspool_events::{Fence, LineOperation};

use super::{MemoryOperand, simple, vector};

/// What an instruction asks of the caches.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CacheControl {
    /// An operation on the line that holds the first byte of an operand.
    Line(LineOperation, MemoryOperand),
    /// A fence.
    Fence(Fence),
}

/// What `instruction` asks of the caches, if anything.
#[must_use]
pub fn cache_control(instruction: &Instruction) -> Option<CacheControl> {
    if let Some(fence) = fence(instruction.mnemonic()) {
        return Some(CacheControl::Fence(fence));
    }
    let operation = line_operation(instruction.mnemonic())?;
    vector::memory_operand_index(instruction)?;
    let operand = MemoryOperand {
        size: 1,
        ..simple::modrm_operand(instruction)
    };
    Some(CacheControl::Line(operation, operand))
}

fn fence(mnemonic: Mnemonic) -> Option<Fence> {
    Some(match mnemonic {
        Mnemonic::Mfence => Fence::Mfence,
        Mnemonic::Sfence => Fence::Sfence,
        Mnemonic::Lfence => Fence::Lfence,
        _ => return None,
    })
}

fn line_operation(mnemonic: Mnemonic) -> Option<LineOperation> {
    Some(match mnemonic {
        Mnemonic::Clflush => LineOperation::Clflush,
        Mnemonic::Clflushopt => LineOperation::Clflushopt,
        Mnemonic::Clwb => LineOperation::Clwb,
        Mnemonic::Cldemote => LineOperation::Cldemote,
        Mnemonic::Prefetch => LineOperation::Prefetch,
        Mnemonic::Prefetchw => LineOperation::Prefetchw,
        Mnemonic::Prefetchwt1 => LineOperation::Prefetchwt1,
        Mnemonic::Prefetcht0 => LineOperation::Prefetcht0,
        Mnemonic::Prefetcht1 => LineOperation::Prefetcht1,
        Mnemonic::Prefetcht2 => LineOperation::Prefetcht2,
        Mnemonic::Prefetchnta => LineOperation::Prefetchnta,
        Mnemonic::Prefetchit0 => LineOperation::Prefetchit0,
        Mnemonic::Prefetchit1 => LineOperation::Prefetchit1,
        _ => return None,
    })
}

/// Whether the data that `instruction` moves is to bypass the caches.
#[must_use]
pub fn is_non_temporal(instruction: &Instruction) -> bool {
    matches!(
        instruction.mnemonic(),
        Mnemonic::Movnti
            | Mnemonic::Movntq
            | Mnemonic::Movntdq
            | Mnemonic::Movntdqa
            | Mnemonic::Movntps
            | Mnemonic::Movntpd
            | Mnemonic::Movntss
            | Mnemonic::Movntsd
            | Mnemonic::Vmovntdq
            | Mnemonic::Vmovntdqa
            | Mnemonic::Vmovntps
            | Mnemonic::Vmovntpd
            | Mnemonic::Maskmovq
            | Mnemonic::Maskmovdqu
            | Mnemonic::Vmaskmovdqu
    )
}

#[cfg(test)]
mod tests {
    use iced_x86::{Decoder, DecoderOptions, Register};

    use super::*;

    fn decode(bytes: &[u8]) -> Instruction {
        Decoder::with_ip(64, bytes, 0x1000, DecoderOptions::NONE).decode()
    }

    #[test]
    fn operations_on_lines() {
        let check = |bytes: &[u8], expected: Option<(LineOperation, Register, i64)>| {
            let found = match cache_control(&decode(bytes)) {
                Some(CacheControl::Line(operation, operand)) => {
                    Some((operation, operand.base, operand.displacement))
                }
                _ => None,
            };
            assert_eq!(found, expected, "{bytes:02x?}");
        };
        let at = |operation, base| Some((operation, base, 0));
        check(
            &[0x0f, 0xae, 0x3b],
            at(LineOperation::Clflush, Register::RBX),
        );
        check(
            &[0x66, 0x0f, 0xae, 0x38],
            at(LineOperation::Clflushopt, Register::RAX),
        );
        check(
            &[0x66, 0x0f, 0xae, 0x30],
            at(LineOperation::Clwb, Register::RAX),
        );
        check(
            &[0x0f, 0x1c, 0x07],
            at(LineOperation::Cldemote, Register::RDI),
        );
        check(
            &[0x0f, 0x0d, 0x00],
            at(LineOperation::Prefetch, Register::RAX),
        );
        check(
            &[0x0f, 0x0d, 0x08],
            at(LineOperation::Prefetchw, Register::RAX),
        );
        check(
            &[0x0f, 0x0d, 0x10],
            at(LineOperation::Prefetchwt1, Register::RAX),
        );
        check(
            &[0x0f, 0x18, 0x00],
            at(LineOperation::Prefetchnta, Register::RAX),
        );
        check(
            &[0x0f, 0x18, 0x08],
            at(LineOperation::Prefetcht0, Register::RAX),
        );
        check(
            &[0x0f, 0x18, 0x10],
            at(LineOperation::Prefetcht1, Register::RAX),
        );
        check(
            &[0x0f, 0x18, 0x18],
            at(LineOperation::Prefetcht2, Register::RAX),
        );
        // Relative to the instruction's end.
        let relative = Some((LineOperation::Prefetcht0, Register::None, 0x1017));
        check(&[0x0f, 0x18, 0x0d, 0x10, 0, 0, 0], relative);
        // Reads and writes, other members of the same groups, no-operations.
        check(&[0x8b, 0x00], None);
        check(&[0x0f, 0xae, 0x00], None);
        check(&[0x0f, 0x1f, 0x00], None);
        check(&[0x0f, 0x18, 0x20], None);
    }

    #[test]
    fn fences() {
        let check = |bytes: &[u8], expected| {
            assert_eq!(cache_control(&decode(bytes)), expected, "{bytes:02x?}");
        };
        check(
            &[0x0f, 0xae, 0xf0],
            Some(CacheControl::Fence(Fence::Mfence)),
        );
        check(
            &[0x0f, 0xae, 0xf8],
            Some(CacheControl::Fence(Fence::Sfence)),
        );
        check(
            &[0x0f, 0xae, 0xe8],
            Some(CacheControl::Fence(Fence::Lfence)),
        );
        check(&[0xf3, 0x90], None);
    }

    #[test]
    fn data_that_bypasses_the_caches() {
        let check = |bytes: &[u8], expected| {
            assert_eq!(is_non_temporal(&decode(bytes)), expected, "{bytes:02x?}");
        };
        check(&[0x0f, 0xc3, 0x07], true);
        check(&[0x66, 0x0f, 0xe7, 0x07], true);
        check(&[0x66, 0x0f, 0x38, 0x2a, 0x07], true);
        check(&[0x66, 0x0f, 0xf7, 0xc1], true);
        check(&[0x0f, 0x2b, 0x07], true);
        check(&[0xc5, 0xfd, 0xe7, 0x07], true);
        check(&[0x66, 0x0f, 0x7f, 0x07], false);
        check(&[0x89, 0x07], false);
    }
}
