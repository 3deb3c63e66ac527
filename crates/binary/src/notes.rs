//! The build-id, from the notes of a file.
//!
//! Source: the ELF note format of the System V ABI; `NT_GNU_BUILD_ID` of the GNU toolchain.

use object::LittleEndian;
use object::elf::{NT_GNU_BUILD_ID, PT_NOTE, ProgramHeader64, SHT_NOTE};
use object::read::elf::{NoteIterator, ProgramHeader, SectionHeader, SectionTable};

use crate::elf_file::{Data, Header};
use crate::error::{Problem, noted};

type Notes<'data> = NoteIterator<'data, Header>;

/// The build-id, if the file has one: from its segments or, in files that are not loaded
/// (separate debug files), from its sections.
pub(crate) fn build_id<'data>(
    data: Data<'data>,
    program_headers: &[ProgramHeader64<LittleEndian>],
    sections: &SectionTable<'data, Header, Data<'data>>,
    problems: &mut Vec<Problem>,
) -> Option<Vec<u8>> {
    const PART: &str = "notes";
    for header in program_headers {
        if header.p_type(LittleEndian) == PT_NOTE
            && let Some(Some(notes)) = noted(header.notes(LittleEndian, data), PART, problems)
            && let Some(found) = build_id_among(notes)
        {
            return Some(found);
        }
    }
    sections
        .iter()
        .filter(|section| section.sh_type(LittleEndian) == SHT_NOTE)
        .find_map(|section| {
            let notes = noted(section.notes(LittleEndian, data), PART, problems)??;
            build_id_among(notes)
        })
}

fn build_id_among(mut notes: Notes<'_>) -> Option<Vec<u8>> {
    while let Ok(Some(note)) = notes.next() {
        if note.name() == b"GNU" && note.n_type(LittleEndian) == NT_GNU_BUILD_ID {
            return Some(note.desc().to_vec());
        }
    }
    None
}
