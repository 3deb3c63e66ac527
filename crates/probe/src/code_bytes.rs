//! Code as bytes at an address.

use iced_x86::{Decoder, DecoderOptions, Instruction, OpKind};

/// The bytes of `jmp rel32`.
pub(crate) const JUMP: usize = 5;

/// Code in memory.
#[derive(Debug, Clone, Copy)]
pub(crate) struct CodeBytes<'a> {
    pub(crate) start: u64,
    pub(crate) bytes: &'a [u8],
}

impl<'a> CodeBytes<'a> {
    /// The bytes from an address on; empty if there are none.
    pub(crate) fn from(self, address: u64) -> &'a [u8] {
        let at = address.wrapping_sub(self.start);
        usize::try_from(at)
            .ok()
            .and_then(|at| self.bytes.get(at..))
            .unwrap_or_default()
    }

    pub(crate) fn contains(self, address: u64) -> bool {
        !self.from(address).is_empty()
    }

    /// The instructions from an address on, until something is none.
    pub(crate) fn decode(self, address: u64) -> impl Iterator<Item = Instruction> + use<'a> {
        let bytes = self.from(address);
        Decoder::with_ip(64, bytes, address, DecoderOptions::NONE).into_iter()
    }
}

/// The target of a direct near branch or call.
pub(crate) fn target(instruction: &Instruction) -> Option<u64> {
    let near = matches!(instruction.op0_kind(), OpKind::NearBranch64);
    near.then(|| instruction.near_branch_target())
}
