//! What the headers of an ELF file say of its parts.

use std::path::Path;

use object::LittleEndian;
use object::elf::ProgramHeader64;
use object::read::elf::{FileHeader, SectionHeader, SectionTable};

use crate::elf_file::{Data, Header, parse_header};
use crate::error::{ModuleError, Problem, noted};
use crate::notes;

/// What the headers of a file say.
pub(crate) struct Headers<'data> {
    /// Where execution starts; 0 if nowhere.
    pub(crate) entry: u64,
    pub(crate) program_headers: &'data [ProgramHeader64<LittleEndian>],
    pub(crate) sections: SectionTable<'data, Header, Data<'data>>,
}

impl<'data> Headers<'data> {
    /// Those of a file. What is damaged is not there, and a problem.
    pub(crate) fn read(
        path: &Path,
        data: Data<'data>,
        problems: &mut Vec<Problem>,
    ) -> Result<Headers<'data>, ModuleError> {
        let header = parse_header(path, data)?;
        let program_headers = header.program_headers(LittleEndian, data);
        let sections = header.sections(LittleEndian, data);
        Ok(Headers {
            entry: header.e_entry(LittleEndian),
            program_headers: noted(program_headers, "program headers", problems)
                .unwrap_or_default(),
            sections: noted(sections, "sections", problems).unwrap_or_default(),
        })
    }

    pub(crate) fn build_id(
        &self,
        data: Data<'data>,
        problems: &mut Vec<Problem>,
    ) -> Option<Vec<u8>> {
        notes::build_id(data, self.program_headers, &self.sections, problems)
    }

    /// The bytes of the section with a name, as they are in the file.
    pub(crate) fn section(&self, data: Data<'data>, name: &str) -> Option<&'data [u8]> {
        let (_, section) = self
            .sections
            .section_by_name(LittleEndian, name.as_bytes())?;
        section.data(LittleEndian, data).ok()
    }
}
