//! Whether a program was built with a sanitizer whose runtime keeps shadow memory at addresses
//! that compilers write into the code, so that nothing else may be there.

use std::ops::Range;

use super::elf::{PT_DYNAMIC, PT_LOAD, ProgramHeader};
use super::executable::Executable;

const DT_STRTAB: u64 = 5;
const DT_STRSZ: u64 = 10;
/// More than any program's dynamic section, and than its names.
const LARGEST: u64 = 64 << 20;
/// Bytes of names that are read at a time: large programs have some megabytes.
const PIECE: u64 = 64 << 10;
/// Bytes that are in the next piece, too, so that a name may lie across the end of one.
const OVERLAP: u64 = 16;

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
        let names = names(executable, headers).unwrap_or(0..0);
        Sanitizers::among(names, |at, size| read(executable, at, size))
    }

    /// Looks among the names that `read` finds from an offset on.
    fn among(names: Range<u64>, read: impl Fn(u64, u64) -> Option<Vec<u8>>) -> Sanitizers {
        let mut found = Sanitizers::default();
        for at in names.clone().step_by(PIECE as usize) {
            let Some(piece) = read(at, (PIECE + OVERLAP).min(names.end - at)) else {
                break;
            };
            found.address |= contains(&piece, b"\0__asan_init\0");
            found.memory |= contains(&piece, b"\0__msan_init\0");
        }
        found
    }
}

/// Where in the file the strings of the dynamic symbols are.
fn names(executable: &Executable, headers: &[ProgramHeader]) -> Option<Range<u64>> {
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
    let size = Some(size).filter(|size| *size <= LARGEST)?;
    Some(offset..offset.checked_add(size)?)
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

#[cfg(test)]
mod tests {
    use super::{OVERLAP, PIECE, Sanitizers};

    fn found(text: &[u8]) -> Sanitizers {
        const OFFSET: u64 = 1000;
        Sanitizers::among(OFFSET..OFFSET + text.len() as u64, |at, size| {
            let start = (at - OFFSET) as usize;
            Some(text[start..start + size as usize].to_vec())
        })
    }

    #[test]
    fn names_are_found_wherever_they_lie() {
        let name = b"\0__msan_init\0";
        let size = 2 * PIECE as usize + 100;
        let around = |end: u64| end as usize - 20..end as usize + 20;
        let places = around(PIECE)
            .chain(around(PIECE + OVERLAP))
            .chain(around(2 * PIECE));
        for place in places.chain([0, size - name.len()]) {
            let mut text = vec![b'a'; size];
            text[place..place + name.len()].copy_from_slice(name);
            let expected = Sanitizers {
                address: false,
                memory: true,
            };
            assert_eq!(found(&text), expected, "{place}");
            text[place + 3] = b'n';
            assert_eq!(found(&text), Sanitizers::default(), "{place}");
        }
    }

    #[test]
    fn what_cannot_be_read_has_none() {
        assert_eq!(
            Sanitizers::among(0..100, |_, _| None),
            Sanitizers::default()
        );
        assert_eq!(found(b""), Sanitizers::default());
    }
}
