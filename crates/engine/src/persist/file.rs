//! A file of kept translations: what is in it, and where.
//!
//! It begins with a magic number and a checksum of all that follows: six numbers (instructions,
//! and the lengths of the parts), the modules, the key, and the tables. The code of both halves of
//! the cache stands at whole pages, so that it can be mapped.

use xxhash_rust::xxh3::xxh3_64;

use super::module::Module;

/// Begins each file; the last byte is the version of the format.
const MAGIC: [u8; 8] = *b"UNSPTRA\x02";
/// The bytes up to and including the checksum.
const SUMMED_FROM: usize = 16;
/// Code starts at multiples of this.
const PAGE: usize = 4096;

/// The parts of a file.
#[derive(Debug, PartialEq)]
pub(super) struct Parts<'a> {
    /// What must be the same for translations to be of use.
    pub(super) key: &'a [u8],
    /// How many instructions of programs were translated.
    pub(super) instructions: u64,
    /// What they were translated from.
    pub(super) modules: Vec<Module>,
    /// The tables of the cache.
    pub(super) tables: &'a [u8],
    /// Where the code of each half starts in the file, and its content.
    pub(super) code: [(u64, &'a [u8]); 2],
}

impl<'a> Parts<'a> {
    /// Takes a file apart. `None`: it is not one, or is damaged.
    pub(super) fn read(bytes: &'a [u8]) -> Option<Parts<'a>> {
        let (magic, rest) = bytes.split_first_chunk()?;
        let (checksum, mut rest) = rest.split_first_chunk()?;
        if *magic != MAGIC || xxh3_64(rest) != u64::from_le_bytes(*checksum) {
            return None;
        }
        let mut number = || -> Option<u64> {
            let (number, after) = rest.split_first_chunk()?;
            rest = after;
            Some(u64::from_le_bytes(*number))
        };
        let instructions = number()?;
        let mut length = || usize::try_from(number()?).ok();
        let [key, count, tables, hot, cold] =
            [length()?, length()?, length()?, length()?, length()?];
        let mut modules = Vec::new();
        for _ in 0..count {
            let mut numbers = [0; Module::NUMBERS];
            for each in &mut numbers {
                *each = number()?;
            }
            modules.push(Module::from_numbers(numbers));
        }
        let (key, rest) = rest.split_at_checked(key)?;
        let (tables, rest) = rest.split_at_checked(tables)?;
        let mut at = bytes.len() - rest.len();
        let mut half = |length: usize| {
            let start = at.checked_next_multiple_of(PAGE)?;
            at = start.checked_add(length)?;
            Some((start as u64, bytes.get(start..at)?))
        };
        let code = [half(hot)?, half(cold)?];
        Some(Parts {
            key,
            instructions,
            modules,
            tables,
            code,
        })
    }
}

/// Puts a file together; `code` is that of both halves.
pub(super) fn compose(
    key: &[u8],
    instructions: u64,
    modules: &[Module],
    tables: &[u8],
    code: &[Vec<u8>; 2],
) -> Vec<u8> {
    let mut bytes = MAGIC.to_vec();
    bytes.extend([0; SUMMED_FROM - MAGIC.len()]);
    let [hot, cold] = code;
    let lengths = [
        key.len(),
        modules.len(),
        tables.len(),
        hot.len(),
        cold.len(),
    ];
    let head = std::iter::once(instructions).chain(lengths.map(|length| length as u64));
    for number in head.chain(modules.iter().flat_map(Module::numbers)) {
        bytes.extend(number.to_le_bytes());
    }
    bytes.extend(key);
    bytes.extend(tables);
    for half in code {
        bytes.resize(bytes.len().next_multiple_of(PAGE), 0);
        bytes.extend(half);
    }
    let checksum = xxh3_64(&bytes[SUMMED_FROM..]);
    bytes[MAGIC.len()..SUMMED_FROM].copy_from_slice(&checksum.to_le_bytes());
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    fn composed() -> Vec<u8> {
        let module = Module::from_numbers(std::array::from_fn(|number| number as u64));
        let code = [vec![0x90; 5000], vec![0xcc; 70]];
        compose(b"key", 17, &[module, module], b"tables", &code)
    }

    #[test]
    fn parts_come_back_as_they_were_put_together() {
        let bytes = composed();
        let parts = Parts::read(&bytes).unwrap();
        assert_eq!((parts.key, parts.tables), (&b"key"[..], &b"tables"[..]));
        assert_eq!((parts.instructions, parts.modules.len()), (17, 2));
        let [hot, cold] = parts.code;
        assert_eq!((hot.0 % 4096, cold.0 % 4096), (0, 0));
        assert_eq!((hot.1, cold.1), (&[0x90; 5000][..], &[0xcc; 70][..]));
    }

    #[test]
    fn damage_is_noticed_wherever_it_is() {
        let bytes = composed();
        for at in 0..bytes.len() {
            let mut damaged = bytes.clone();
            damaged[at] ^= 1 << (at % 8);
            assert_eq!(Parts::read(&damaged), None, "at {at}");
            assert_eq!(Parts::read(&bytes[..at]), None, "up to {at}");
        }
    }

    /// What has the right checksum was not necessarily written by this program.
    #[test]
    fn any_numbers_are_read_without_a_panic() {
        let bytes = composed();
        for at in (SUMMED_FROM..200).step_by(4) {
            for value in [0, 1, 0x7fff_ffff_u32, u32::MAX] {
                let mut other = bytes.clone();
                other[at..at + 4].copy_from_slice(&value.to_le_bytes());
                let checksum = xxh3_64(&other[SUMMED_FROM..]);
                other[MAGIC.len()..SUMMED_FROM].copy_from_slice(&checksum.to_le_bytes());
                let _parts = Parts::read(&other);
            }
        }
    }
}
