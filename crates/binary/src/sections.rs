//! The sections of a file that are loaded.

use object::LittleEndian;
use object::elf::{SHF_ALLOC, SHF_EXECINSTR, SHF_TLS, SHF_WRITE};
use object::read::elf::{SectionHeader, SectionTable};

use crate::address::FileAddress;
use crate::elf_file::{Data, Header};
use crate::error::Problem;

/// A section that is part of the program in memory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Section {
    /// Its name, `.text` for instance.
    pub name: String,
    /// Where the linker put it.
    pub address: FileAddress,
    /// Bytes in memory.
    pub size: u64,
    /// Whether it holds code.
    pub executable: bool,
    /// Whether the program writes to it.
    pub writable: bool,
}

/// All that are loaded, by address. The templates of thread-local storage are none: what the
/// program uses is elsewhere.
pub(crate) fn read<'data>(
    table: &SectionTable<'data, Header, Data<'data>>,
    problems: &mut Vec<Problem>,
) -> Vec<Section> {
    let mut lost = 0;
    let mut all = Vec::new();
    for section in table.iter() {
        let flags = section.sh_flags(LittleEndian);
        let is = |flag: u32| flags & u64::from(flag) != 0;
        let zeros = section.sh_type(LittleEndian) == object::elf::SHT_NOBITS;
        if !is(SHF_ALLOC) || is(SHF_TLS) && zeros {
            continue;
        }
        let (address, size) = (section.sh_addr(LittleEndian), section.sh_size(LittleEndian));
        match table.section_name(LittleEndian, section) {
            Ok(name) if address.checked_add(size).is_some() => all.push(Section {
                name: String::from_utf8_lossy(name).into_owned(),
                address: FileAddress(address),
                size,
                executable: is(SHF_EXECINSTR),
                writable: is(SHF_WRITE),
            }),
            _ => lost += 1,
        }
    }
    if lost > 0 {
        problems.push(Problem {
            part: "sections",
            reason: format!("{lost} have unreadable names or impossible sizes"),
        });
    }
    all.sort_by_key(|section| section.address);
    all
}
