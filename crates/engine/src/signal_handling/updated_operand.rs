//! Instructions that read an operand in memory and write it.
//!
//! At such an operand the processor always faults as at a write. What a client has inserted may have
//! looked at it before the instruction did, and has only read.

use iced_x86::{Decoder, DecoderOptions, InstructionInfoFactory};
use unspool_events::AccessKind;
use unspool_instructions::decode::MAX_LENGTH;
use unspool_instructions::operands::{
    ExtendedStateSizes, MemoryOperand, MemoryOperands, memory_operands,
};
use unspool_kernel::guarded;

/// Whether such an instruction is at an address.
pub(super) fn is_at(pc: u64) -> bool {
    let mut bytes = [0; MAX_LENGTH];
    let length = guarded::read_short(pc, &mut bytes);
    is_updating(&bytes[..length], pc)
}

fn is_updating(bytes: &[u8], pc: u64) -> bool {
    let decoded = Decoder::with_ip(64, bytes, pc, DecoderOptions::NONE).decode();
    let mut operands = MemoryOperands::new();
    let factory = &mut InstructionInfoFactory::new();
    // Those whose sizes depend on the processor's state are not both.
    let sizes = ExtendedStateSizes::default();
    memory_operands(&decoded, factory, sizes, &mut operands);
    let of_kind = |kind| operands.iter().filter(move |it| it.kind == kind);
    let is_written = |read: &MemoryOperand| of_kind(AccessKind::Write).any(|it| it.is_at(read));
    of_kind(AccessKind::Read).any(is_written)
}

#[cfg(test)]
mod tests {
    use super::is_updating;

    #[test]
    fn only_what_is_read_and_written_at_one_place() {
        let cases: [(&[u8], bool); 7] = [
            (&[0x83, 0x00, 0x01], true),       // add dword [rax], 1
            (&[0x87, 0x08], true),             // xchg [rax], ecx
            (&[0xf0, 0x0f, 0xb1, 0x08], true), // lock cmpxchg [rax], ecx
            (&[0x8b, 0x08], false),            // mov ecx, [rax]
            (&[0x89, 0x08], false),            // mov [rax], ecx
            (&[0xff, 0x30], false),            // push [rax]
            (&[], false),
        ];
        for (bytes, updates) in cases {
            assert_eq!(is_updating(bytes, 0x1000), updates, "{bytes:x?}");
        }
    }
}
