//! What unwinding needs of a file: its call-frame information and its code.
//!
//! Source: Linux Standard Base, "Exception Frames": where `.eh_frame_hdr` is and what it says.

use std::fs::File;
use std::path::Path;

use object::LittleEndian;
use object::elf::{PF_X, PT_GNU_EH_FRAME, PT_LOAD, ProgramHeader64};
use object::read::elf::{FileHeader, ProgramHeader, SectionHeader};
use object::read::{ReadCache, ReadRef};

use crate::address::FileAddress;
use crate::elf_file::{Data, Source, open_file, parse_header};
use crate::error::ModuleError;

/// How pointers of `.eh_frame_hdr` are written that say how far away something is in four bytes.
const RELATIVE_FOUR_BYTES: u8 = 0x1b;

/// Bytes that are loaded from a file, and where.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LoadedBytes {
    /// The address of the first.
    pub address: FileAddress,
    /// The bytes.
    pub bytes: Vec<u8>,
}

/// What unwinding needs of a file. Whatever cannot be read is empty.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct FrameInformation {
    /// `.eh_frame_hdr`.
    pub header: Option<LoadedBytes>,
    /// `.eh_frame`, and what follows it in its segment.
    pub frames: LoadedBytes,
    /// The executable segments.
    pub code: Vec<LoadedBytes>,
}

impl FrameInformation {
    /// Reads a file.
    ///
    /// # Errors
    /// If it cannot be opened or is not ELF for x86-64.
    pub fn open(path: &Path) -> Result<FrameInformation, ModuleError> {
        FrameInformation::from_file(path, open_file(path)?)
    }

    /// Reads a file that is open. The path only names it.
    ///
    /// # Errors
    /// If it is not ELF for x86-64.
    pub fn from_file(path: &Path, file: File) -> Result<FrameInformation, ModuleError> {
        FrameInformation::read(path, Source::File(file))
    }

    /// Reads an image from memory, such as the vdso. The path only names it.
    ///
    /// # Errors
    /// If it is not ELF for x86-64.
    pub fn from_bytes(path: &Path, bytes: Vec<u8>) -> Result<FrameInformation, ModuleError> {
        FrameInformation::read(path, Source::Bytes(std::io::Cursor::new(bytes)))
    }

    fn read(path: &Path, source: Source) -> Result<FrameInformation, ModuleError> {
        let cache = ReadCache::new(source);
        let data: Data<'_> = &cache;
        let file_header = parse_header(path, data)?;
        let headers = file_header.program_headers(LittleEndian, data);
        let headers = headers.unwrap_or_default();
        // Segments that overlap could otherwise say to read the file any number of times.
        let mut readable = data.len().unwrap_or(0);
        let mut read = |header: &ProgramHeader64<LittleEndian>| {
            readable = readable.checked_sub(header.p_filesz(LittleEndian))?;
            loaded(data, header, header.p_vaddr(LittleEndian))
        };
        let of_kind = |kind: u32| {
            let is_kind =
                move |header: &&ProgramHeader64<LittleEndian>| header.p_type(LittleEndian) == kind;
            headers.iter().filter(is_kind)
        };
        let code = of_kind(PT_LOAD)
            .filter(|header| header.p_flags(LittleEndian) & PF_X != 0)
            .filter_map(&mut read)
            .collect();
        let header = of_kind(PT_GNU_EH_FRAME).find_map(&mut read);
        let frames_start = header.as_ref().and_then(frames_address);
        let frames = frames_start
            .and_then(|start| of_kind(PT_LOAD).find_map(|header| loaded(data, header, start)));
        // Programs that are linked statically have no header.
        let frames = frames.or_else(|| {
            let sections = file_header.sections(LittleEndian, data).ok()?;
            let (_, section) = sections.section_by_name(LittleEndian, b".eh_frame")?;
            Some(LoadedBytes {
                address: FileAddress(section.sh_addr(LittleEndian)),
                bytes: section.data(LittleEndian, data).ok()?.to_vec(),
            })
        });
        Ok(FrameInformation {
            header,
            frames: frames.unwrap_or_default(),
            code,
        })
    }
}

/// What a segment loads from an address on.
fn loaded(
    data: Data<'_>,
    header: &ProgramHeader64<LittleEndian>,
    start: u64,
) -> Option<LoadedBytes> {
    let into = start.checked_sub(header.p_vaddr(LittleEndian))?;
    let size = header.p_filesz(LittleEndian).checked_sub(into)?;
    let offset = header.p_offset(LittleEndian).checked_add(into)?;
    let bytes = data.read_bytes_at(offset, size).ok()?;
    (size > 0).then(|| LoadedBytes {
        address: FileAddress(start),
        bytes: bytes.to_vec(),
    })
}

/// Where `.eh_frame_hdr` says that `.eh_frame` begins.
fn frames_address(header: &LoadedBytes) -> Option<u64> {
    let (&[version, encoding, ..], distance) = header.bytes.split_first_chunk::<4>()?;
    let distance = i32::from_le_bytes(*distance.first_chunk()?);
    let here = header.address.0.wrapping_add(4);
    (version == 1 && encoding == RELATIVE_FOUR_BYTES)
        .then(|| here.wrapping_add_signed(i64::from(distance)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Module;

    #[test]
    fn code_and_frames_of_a_program_are_where_its_sections_say() {
        let path = Path::new("/proc/self/exe");
        let information = FrameInformation::open(path).unwrap();
        let module = Module::open(path).unwrap();
        let section = |name: &str| {
            let mut sections = module.sections().iter();
            sections.find(|section| section.name == name).unwrap()
        };
        assert_eq!(information.frames.address, section(".eh_frame").address);
        let header = information.header.unwrap();
        assert_eq!(header.address, section(".eh_frame_hdr").address);
        let text = section(".text").address.0;
        let holds = |code: &LoadedBytes| {
            (code.address.0..code.address.0 + code.bytes.len() as u64).contains(&text)
        };
        assert!(information.code.iter().any(holds));
    }

    #[test]
    fn what_is_no_program_is_refused_and_what_is_cut_off_is_empty() {
        let path = Path::new("bytes");
        assert!(FrameInformation::from_bytes(path, b"#!/bin/sh".to_vec()).is_err());
        let mut whole = std::fs::read("/proc/self/exe").unwrap();
        whole.truncate(64);
        let cut = FrameInformation::from_bytes(path, whole).unwrap();
        assert_eq!(cut, FrameInformation::default());
    }
}
