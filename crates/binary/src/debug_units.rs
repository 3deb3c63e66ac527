//! The units of a file's debugging information (DWARF), one after the other, also those that were compiled
//! apart (`-gsplit-dwarf`): each in a file of its own (`.dwo`), or all in a package (`.dwp`).

use std::borrow::Cow;
use std::convert::Infallible;
use std::ffi::OsStr;
use std::io::Read;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use addr2line::gimli::{
    self, DwarfPackage, DwarfPackageSections, DwarfSections, EndianSlice, LittleEndian,
};
use object::{Object, ObjectSection};

use crate::elf_file::open_file;

type Slice<'data> = EndianSlice<'data, LittleEndian>;
pub(crate) type Dwarf<'data> = gimli::Dwarf<Slice<'data>>;
pub(crate) type Unit<'data> = gimli::Unit<Slice<'data>>;

/// Files with more debugging information than this are not read: it is held in memory.
const MOST_BYTES: u64 = 1 << 28;

/// Gives each unit of a file, and of the package beside it, to a function, or why it cannot be read. Nothing
/// where the file cannot be read.
pub(crate) fn for_each(
    path: &Path,
    package: &Path,
    mut visit: impl for<'data> FnMut(&Dwarf<'data>, Result<&Unit<'data>, String>),
) {
    let Some(bytes) = whole(path) else {
        return;
    };
    let Ok(file) = object::File::parse(&*bytes) else {
        return;
    };
    let package = whole(package);
    let package = package.as_deref().map(object::File::parse);
    let package = package.and_then(Result::ok).and_then(|file| {
        let load = |id: gimli::SectionId| Ok::<_, gimli::Error>(section(&file, id.dwo_name()));
        DwarfPackageSections::load(load).ok()
    });
    let empty = EndianSlice::new(&[], LittleEndian);
    let package = package.as_ref();
    let package = package.and_then(|sections| {
        sections
            .borrow(|bytes| EndianSlice::new(bytes, LittleEndian), empty)
            .ok()
    });
    let load = |id: gimli::SectionId| Ok::<_, Infallible>(section(&file, Some(id.name())));
    let Ok(sections) = DwarfSections::load(load);
    let dwarf = sections.borrow(|bytes| EndianSlice::new(bytes, LittleEndian));
    let mut units = dwarf.units();
    loop {
        let unit = match units.next() {
            Ok(None) => return,
            Ok(Some(header)) => dwarf.unit(header),
            // Where the next one begins is not known.
            Err(error) => return visit(&dwarf, Err(error.to_string())),
        };
        let problem = match &unit {
            Ok(unit) if unit.dwo_id.is_some() => {
                visit_apart(&dwarf, unit, package.as_ref(), &mut visit).err()
            }
            Ok(unit) => {
                visit(&dwarf, Ok(unit));
                None
            }
            Err(error) => Some(error.to_string()),
        };
        if let Some(problem) = problem {
            visit(&dwarf, Err(problem));
        }
    }
}

/// Gives the unit that was compiled apart, for which this one stands.
fn visit_apart<'data>(
    dwarf: &Dwarf<'data>,
    skeleton: &Unit<'data>,
    package: Option<&DwarfPackage<Slice<'data>>>,
    visit: &mut impl for<'any> FnMut(&Dwarf<'any>, Result<&Unit<'any>, String>),
) -> Result<(), String> {
    let text = |error: gimli::Error| error.to_string();
    if let (Some(package), Some(id)) = (package, skeleton.dwo_id)
        && let Some(apart) = package.find_cu(id, dwarf).map_err(text)?
    {
        return visit_split(&apart, skeleton, visit);
    }
    let path = own_file(dwarf, skeleton).map_err(text)?;
    let of_file = |problem: &str| format!("{}: {problem}", path.display());
    let bytes = whole(&path).ok_or_else(|| of_file("cannot be read"))?;
    let file = object::File::parse(&*bytes).map_err(|error| of_file(&error.to_string()))?;
    let load = |id: gimli::SectionId| Ok::<_, Infallible>(section(&file, id.dwo_name()));
    let Ok(sections) = DwarfSections::load(load);
    let mut apart = sections.borrow(|bytes| EndianSlice::new(bytes, LittleEndian));
    apart.make_dwo(dwarf);
    visit_split(&apart, skeleton, visit).map_err(|problem| of_file(&problem))
}

/// Gives the unit for which another stands, of those that are there.
fn visit_split<'data>(
    apart: &Dwarf<'data>,
    skeleton: &Unit<'data>,
    visit: &mut impl for<'any> FnMut(&Dwarf<'any>, Result<&Unit<'any>, String>),
) -> Result<(), String> {
    let text = |error: gimli::Error| error.to_string();
    let mut units = apart.units();
    while let Some(header) = units.next().map_err(text)? {
        let mut unit = apart.unit(header).map_err(text)?;
        if unit.dwo_id == skeleton.dwo_id {
            unit.copy_relocated_attributes(skeleton);
            visit(apart, Ok(&unit));
            return Ok(());
        }
    }
    Err("is of another build".to_owned())
}

/// The file of a unit that was compiled apart.
fn own_file(dwarf: &Dwarf<'_>, skeleton: &Unit<'_>) -> Result<PathBuf, gimli::Error> {
    let name = skeleton.dwo_name()?.ok_or(gimli::Error::MissingUnitDie)?;
    let name = dwarf.attr_string(skeleton, name)?;
    let folder = skeleton.comp_dir.as_ref();
    let folder = folder.map_or(&[][..], |folder| folder.slice());
    // An absolute name stands for itself.
    Ok(Path::new(OsStr::from_bytes(folder)).join(OsStr::from_bytes(name.slice())))
}

fn section<'data>(file: &object::File<'data>, name: Option<&str>) -> Cow<'data, [u8]> {
    let section = name.and_then(|name| file.section_by_name(name));
    let data = section.and_then(|section| section.uncompressed_data().ok());
    data.unwrap_or_default()
}

fn whole(path: &Path) -> Option<Vec<u8>> {
    let file = open_file(path).ok()?;
    let size = file.metadata().ok().filter(|it| it.is_file())?.len();
    let mut bytes = Vec::new();
    file.take(MOST_BYTES).read_to_end(&mut bytes).ok()?;
    (size <= MOST_BYTES).then_some(bytes)
}
