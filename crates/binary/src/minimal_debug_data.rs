//! Compressed symbols that a stripped file carries in itself.
//!
//! Source: "MiniDebugInfo" of the GDB manual: the section `.gnu_debugdata` is an ELF file with a
//! symbol table, compressed by xz.

use std::io::Read;

use object::LittleEndian;
use object::read::elf::{SectionHeader, SectionTable};

use crate::elf_file::{Data, Header};
use crate::error::{Problem, noted};

/// The section.
pub(crate) const SECTION: &str = ".gnu_debugdata";
/// Symbol tables shrink to a fifth or so: what becomes so many times larger is none.
const MOST_GROWTH: u64 = 64;
/// What the unpacker may use: the strongest setting of xz needs half of it.
const MOST_MEMORY_KIB: u32 = 128 << 10;

/// Its bytes, compressed.
pub(crate) fn find<'data>(
    data: Data<'data>,
    sections: &SectionTable<'data, Header, Data<'data>>,
    problems: &mut Vec<Problem>,
) -> Option<Vec<u8>> {
    let (_, section) = sections.section_by_name(LittleEndian, SECTION.as_bytes())?;
    let bytes = noted(section.data(LittleEndian, data), SECTION, problems)?;
    Some(bytes.to_vec())
}

/// The ELF file in it.
pub(crate) fn unpack(compressed: &[u8]) -> Result<Vec<u8>, String> {
    let limit = MOST_GROWTH * compressed.len() as u64;
    let reader = lzma_rust2::XzReader::new_mem_limit(compressed, false, MOST_MEMORY_KIB);
    let mut bytes = Vec::new();
    reader
        .take(limit + 1)
        .read_to_end(&mut bytes)
        .map_err(|error| error.to_string())?;
    if bytes.len() as u64 > limit {
        return Err(format!("it unpacks to more than {limit} bytes"));
    }
    Ok(bytes)
}
