//! An ELF file for x86-64, as its parts are read from it.

use std::fs::File;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use object::LittleEndian;
use object::elf::{EM_X86_64, FileHeader64};
use object::read::ReadCache;
use object::read::elf::FileHeader;

use crate::error::ModuleError;

/// How files are read: piece by piece, each piece checked against the file's size.
pub(crate) type Data<'data> = &'data ReadCache<Source>;
pub(crate) type Header = FileHeader64<LittleEndian>;

/// Where a module's bytes come from.
#[derive(Debug)]
pub(crate) enum Source {
    File(File),
    Bytes(std::io::Cursor<Vec<u8>>),
}

impl std::io::Read for Source {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        match self {
            Source::File(file) => file.read(buffer),
            Source::Bytes(bytes) => bytes.read(buffer),
        }
    }
}

impl std::io::Seek for Source {
    fn seek(&mut self, position: std::io::SeekFrom) -> std::io::Result<u64> {
        match self {
            Source::File(file) => file.seek(position),
            Source::Bytes(bytes) => bytes.seek(position),
        }
    }
}

/// Never waits: the name may be of a pipe, which cannot be read as a file and says so.
pub(crate) fn open_file(path: &Path) -> Result<File, ModuleError> {
    let mut options = File::options();
    options.read(true).custom_flags(libc::O_NONBLOCK);
    options.open(path).map_err(|source| ModuleError::Open {
        path: path.to_owned(),
        source,
    })
}

pub(crate) fn parse_header<'data>(
    path: &Path,
    data: Data<'data>,
) -> Result<&'data Header, ModuleError> {
    let header = Header::parse(data).map_err(|error| ModuleError::NotElf {
        path: path.to_owned(),
        reason: error.to_string(),
    })?;
    let readable = header.is_class_64()
        && header.is_little_endian()
        && header.e_machine(LittleEndian) == EM_X86_64;
    if readable {
        Ok(header)
    } else {
        Err(ModuleError::OtherMachine {
            path: path.to_owned(),
        })
    }
}
