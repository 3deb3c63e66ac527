//! Whether a program was built with a sanitizer whose runtime keeps shadow memory at addresses
//! that compilers write into the code, so that nothing else may be there.

use super::elf::{PT_DYNAMIC, PT_LOAD, ProgramHeader};
use super::executable::Executable;

const DT_STRTAB: u64 = 5;
const DT_STRSZ: u64 = 10;
/// More than any program's dynamic section, and than its names.
const LARGEST: u64 = 64 << 20;

/// Which of them the program was built with.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Sanitizers {
    /// The address sanitizer.
    pub address: bool,
    /// The memory sanitizer.
    pub memory: bool,
}

impl Sanitizers {
    /// Looks for the runtimes' starts among the names by which the program is linked. A file
    /// that is damaged in its names has none.
    pub(crate) fn of(executable: &Executable, headers: &[ProgramHeader]) -> Sanitizers {
        let names = names(executable, headers).unwrap_or_default();
        Sanitizers {
            address: contains(&names, b"\0__asan_init\0"),
            memory: contains(&names, b"\0__msan_init\0"),
        }
    }
}

/// The strings of the dynamic symbols.
fn names(executable: &Executable, headers: &[ProgramHeader]) -> Option<Vec<u8>> {
    let dynamic = headers.iter().find(|header| header.kind == PT_DYNAMIC)?;
    let entries = read(executable, dynamic.offset, dynamic.file_size)?;
    let (entries, _) = entries.as_chunks::<16>();
    let value = |wanted: u64| {
        let found = entries
            .iter()
            .map(|entry| u128::from_le_bytes(*entry))
            .find(|entry| *entry as u64 == wanted)?;
        Some((found >> 64) as u64)
    };
    let (address, size) = (value(DT_STRTAB)?, value(DT_STRSZ)?);
    let segment = headers.iter().find(|header| {
        header.kind == PT_LOAD && (header.address..).contains(&address) && {
            address - header.address < header.file_size
        }
    })?;
    let offset = segment.offset.checked_add(address - segment.address)?;
    read(executable, offset, size)
}

fn read(executable: &Executable, offset: u64, size: u64) -> Option<Vec<u8>> {
    if i64::try_from(offset).is_err() || size > LARGEST {
        return None;
    }
    executable.read(offset, size as usize).ok()
}

/// Whether `text` has `part` in it.
pub(crate) fn contains(text: &[u8], part: &[u8]) -> bool {
    // SAFETY: both slices are readable for as long as they are.
    let found = unsafe {
        libc::memmem(
            text.as_ptr().cast(),
            text.len(),
            part.as_ptr().cast(),
            part.len(),
        )
    };
    !found.is_null()
}
