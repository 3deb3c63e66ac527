//! The units of a file's debugging information (DWARF), one after the other.

use std::borrow::Cow;
use std::convert::Infallible;
use std::path::Path;

use addr2line::gimli::{self, EndianSlice, LittleEndian};
use object::{Object, ObjectSection};

use crate::elf_file::open_file;

type Slice<'data> = EndianSlice<'data, LittleEndian>;
pub(crate) type Dwarf<'data> = gimli::Dwarf<Slice<'data>>;
pub(crate) type Unit<'data> = gimli::Unit<Slice<'data>>;

/// Files with more debugging information than this are not read: it is held in memory.
const MOST_BYTES: u64 = 1 << 28;

/// Gives each unit of a file to a function, or why it cannot be read. Nothing where the file cannot be
/// read.
pub(crate) fn for_each(
    path: &Path,
    mut visit: impl for<'data> FnMut(&Dwarf<'data>, Result<&Unit<'data>, gimli::Error>),
) {
    let Some(bytes) = whole(path) else {
        return;
    };
    let Ok(file) = object::File::parse(&*bytes) else {
        return;
    };
    let load = |id: gimli::SectionId| -> Result<Cow<'_, [u8]>, Infallible> {
        let section = file.section_by_name(id.name());
        let data = section.and_then(|section| section.uncompressed_data().ok());
        Ok(data.unwrap_or_default())
    };
    let Ok(sections) = gimli::DwarfSections::load(load);
    let dwarf = sections.borrow(|section| EndianSlice::new(section, LittleEndian));
    let mut units = dwarf.units();
    loop {
        let unit = match units.next() {
            Ok(None) => return,
            Ok(Some(header)) => dwarf.unit(header),
            // Where the next one begins is not known.
            Err(error) => return visit(&dwarf, Err(error)),
        };
        visit(&dwarf, unit.as_ref().map_err(|&error| error));
    }
}

fn whole(path: &Path) -> Option<Vec<u8>> {
    use std::io::Read;
    let file = open_file(path).ok()?;
    let size = file.metadata().ok().filter(|it| it.is_file())?.len();
    let mut bytes = Vec::new();
    file.take(MOST_BYTES).read_to_end(&mut bytes).ok()?;
    (size <= MOST_BYTES).then_some(bytes)
}
