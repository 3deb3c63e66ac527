//! ELF files made to order.

use crate::elf::{PF_R, PF_W, PF_X, PROGRAM_HEADER_SIZE, PT_LOAD, ProgramHeader};

/// What to write into an ELF file.
#[derive(Debug, Clone)]
pub(super) struct CraftedElf {
    pub(super) class: u8,
    pub(super) kind: u16,
    pub(super) machine: u16,
    pub(super) entry: u64,
    pub(super) entry_size: u16,
    pub(super) program_headers: Vec<ProgramHeader>,
    /// The file is filled up to this size; byte i is i modulo 251, plus 1.
    pub(super) size: usize,
}

impl CraftedElf {
    /// A relocatable program of two segments: code, and data with zeros behind them.
    pub(super) fn two_segments() -> CraftedElf {
        CraftedElf {
            class: 2,
            kind: 3,
            machine: 62,
            entry: 0x200,
            entry_size: 56,
            program_headers: vec![
                segment(PF_R | PF_X, 0, 0, 0x1234, 0x1234),
                segment(PF_R | PF_W, 0x1234, 0x3234, 0x100, 0x5000),
            ],
            size: 0x4000,
        }
    }

    pub(super) fn bytes(&self) -> Vec<u8> {
        let mut bytes: Vec<u8> = (0..self.size)
            .map(|index| (index % 251) as u8 + 1)
            .collect();
        let mut head = b"\x7fELF".to_vec();
        head.extend([self.class, 1, 1, 0]);
        head.extend([0; 8]);
        head.extend(self.kind.to_le_bytes());
        head.extend(self.machine.to_le_bytes());
        head.extend(1_u32.to_le_bytes());
        head.extend(self.entry.to_le_bytes());
        head.extend(64_u64.to_le_bytes());
        head.extend(0_u64.to_le_bytes());
        head.extend(0_u32.to_le_bytes());
        head.extend(64_u16.to_le_bytes());
        head.extend(self.entry_size.to_le_bytes());
        head.extend((self.program_headers.len() as u16).to_le_bytes());
        head.extend([0; 6]);
        for header in &self.program_headers {
            let start = head.len();
            head.extend(header.kind.to_le_bytes());
            head.extend(header.flags.to_le_bytes());
            for field in [
                header.offset,
                header.address,
                header.address,
                header.file_size,
                header.memory_size,
                header.alignment,
            ] {
                head.extend(field.to_le_bytes());
            }
            assert_eq!(head.len() - start, PROGRAM_HEADER_SIZE);
        }
        let length = head.len().min(bytes.len());
        bytes[..length].copy_from_slice(&head[..length]);
        bytes
    }
}

/// A `PT_LOAD` header with the usual alignment.
pub(super) fn segment(
    flags: u32,
    offset: u64,
    address: u64,
    file_size: u64,
    memory_size: u64,
) -> ProgramHeader {
    ProgramHeader {
        kind: PT_LOAD,
        flags,
        offset,
        address,
        file_size,
        memory_size,
        alignment: 0x1000,
    }
}
