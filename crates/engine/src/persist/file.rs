//! A file of kept translations: what is in it, and where.
//!
//! It begins with a magic number and a checksum of what follows up to the pages of the branch
//! table: numbers (the seal, bytes of code, and the lengths of the parts), the modules, the key, and
//! the tables. These, the code of both halves of the cache and the pages of the branch table stand
//! at whole pages, so that they can be mapped. The pages have holes, and are in no checksum: they
//! follow from the tables, and are used only where the seal says that nothing was changed.

use std::fs::File;
use std::io::{self, Write};
use std::os::unix::fs::FileExt;

use unspool_code_cache::cache::{KeptBranches, Snapshot};
use xxhash_rust::xxh3::xxh3_64;

use super::module::Module;
use super::seal::Seal;

/// Begins each file; the last byte is the version of the format.
const MAGIC: [u8; 8] = *b"UNSPTRA\x04";
/// The bytes up to and including the checksum.
const SUMMED_FROM: usize = 16;
/// Code starts at multiples of this.
const PAGE: usize = 4096;

/// The parts of a file.
#[derive(Debug, PartialEq)]
pub(super) struct Parts<'a> {
    /// When it was written.
    pub(super) seal: Seal,
    /// What must be the same for translations to be of use.
    pub(super) key: &'a [u8],
    /// How many bytes of the modules' code were translated.
    pub(super) code_bytes: u64,
    /// What they were translated from.
    pub(super) modules: Vec<Module>,
    /// Where the tables of the cache start in the file, and their content.
    pub(super) tables: (u64, &'a [u8]),
    /// Where the code of each half starts in the file, and its content.
    pub(super) code: [(u64, &'a [u8]); 2],
    /// Where the pages of the branch table start in the file, and how many bytes they have.
    pub(super) branches: (u64, u64),
    /// All that the checksum is of.
    summed: &'a [u8],
    checksum: u64,
}

impl<'a> Parts<'a> {
    /// Takes a file apart. `None`: it is not one, or not as long as it was.
    pub(super) fn read(bytes: &'a [u8]) -> Option<Parts<'a>> {
        let (magic, rest) = bytes.split_first_chunk()?;
        let (checksum, mut rest) = rest.split_first_chunk()?;
        if *magic != MAGIC {
            return None;
        }
        let mut number = || -> Option<u64> {
            let (number, after) = rest.split_first_chunk()?;
            rest = after;
            Some(u64::from_le_bytes(*number))
        };
        let (boot, written) = (number()?, number()? as i64);
        let code_bytes = number()?;
        let mut length = || usize::try_from(number()?).ok();
        let [key, count, tables, hot, cold, branches] = [
            length()?,
            length()?,
            length()?,
            length()?,
            length()?,
            length()?,
        ];
        let mut modules = Vec::new();
        for _ in 0..count {
            let mut numbers = [0; Module::NUMBERS];
            for each in &mut numbers {
                *each = number()?;
            }
            modules.push(Module::from_numbers(numbers));
        }
        let (key, rest) = rest.split_at_checked(key)?;
        let mut at = bytes.len() - rest.len();
        let mut part = |length: usize| {
            let start = at.checked_next_multiple_of(PAGE)?;
            at = start.checked_add(length)?;
            Some((start, bytes.get(start..at)?))
        };
        let tables = part(tables)?;
        let code = [part(hot)?, part(cold)?];
        let summed = bytes.get(SUMMED_FROM..code[1].0 + cold)?;
        let branches = part(branches).filter(|(start, part)| start + part.len() == bytes.len())?;
        Some(Parts {
            seal: Seal { boot, written },
            key,
            code_bytes,
            modules,
            tables: (tables.0 as u64, tables.1),
            code: code.map(|(start, content)| (start as u64, content)),
            branches: (branches.0 as u64, branches.1.len() as u64),
            summed,
            checksum: u64::from_le_bytes(*checksum),
        })
    }

    /// Whether the checksum is right.
    pub(super) fn are_sound(&self) -> bool {
        xxh3_64(self.summed) == self.checksum
    }
}

/// What is to be written: all but the pages of the branch table, and these.
pub(super) struct FileContent<'a> {
    head: Vec<u8>,
    branches: &'a KeptBranches,
}

/// Puts a file together.
pub(super) fn compose<'a>(
    (seal, key): (Seal, &[u8]),
    code_bytes: u64,
    modules: &[Module],
    snapshot: &'a Snapshot,
) -> FileContent<'a> {
    let mut head = MAGIC.to_vec();
    head.extend([0; SUMMED_FROM - MAGIC.len()]);
    let [hot, cold] = &snapshot.code;
    let lengths = [
        key.len() as u64,
        modules.len() as u64,
        snapshot.tables.len() as u64,
        hot.len() as u64,
        cold.len() as u64,
        snapshot.branches.bytes(),
    ];
    let numbers = [seal.boot, seal.written as u64, code_bytes];
    let numbers = numbers.into_iter().chain(lengths);
    for number in numbers.chain(modules.iter().flat_map(Module::numbers)) {
        head.extend(number.to_le_bytes());
    }
    head.extend(key);
    for part in [&snapshot.tables, hot, cold] {
        head.resize(head.len().next_multiple_of(PAGE), 0);
        head.extend(part);
    }
    let checksum = xxh3_64(&head[SUMMED_FROM..]);
    head[MAGIC.len()..SUMMED_FROM].copy_from_slice(&checksum.to_le_bytes());
    head.resize(head.len().next_multiple_of(PAGE), 0);
    FileContent {
        head,
        branches: &snapshot.branches,
    }
}

impl FileContent<'_> {
    /// Bytes that it takes on a disk.
    pub(super) fn bytes(&self) -> u64 {
        (self.head.len() + self.branches.occupied()) as u64
    }

    /// Writes it to a new file.
    pub(super) fn write(&self, file: &mut File) -> io::Result<()> {
        file.write_all(&self.head)?;
        for (offset, pages) in self.branches.content() {
            file.write_all_at(&pages, self.head.len() as u64 + offset)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Seek};

    use super::*;
    use unspool_code_cache::address::CacheAddress;
    use unspool_code_cache::cache::{ModuleIndex, TargetStub};
    use unspool_kernel::layout;

    const SEAL: Seal = Seal {
        boot: 77,
        written: 1234,
    };

    /// So many bytes behind the start of the cache.
    fn in_cache(offset: u32) -> CacheAddress {
        let start = CacheAddress::of(layout::cache()).expect("it begins there");
        start.plus(offset)
    }

    /// A file, and where the pages of the branch table begin in it.
    fn composed() -> (Vec<u8>, usize) {
        let module = Module::from_numbers(std::array::from_fn(|number| number as u64));
        let first = ModuleIndex::at(0).unwrap();
        let target_stub = |(pc, code)| TargetStub::new(first, pc, in_cache(code));
        let target_stubs = [(0x1000_0000, 0x1000), (0x1000_0801, 0x2000)];
        let target_stubs = target_stubs.map(target_stub).to_vec();
        let snapshot = Snapshot {
            tables: b"tables".to_vec(),
            code: [vec![0x90; 5000], vec![0xcc; 70]],
            branches: KeptBranches::new(target_stubs, in_cache(0x40)),
        };
        let modules = [module, module];
        let content = compose((SEAL, b"key"), 17, &modules, &snapshot);
        let mut file = tempfile::tempfile().unwrap();
        content.write(&mut file).unwrap();
        let mut bytes = Vec::new();
        file.rewind().unwrap();
        file.read_to_end(&mut bytes).unwrap();
        (bytes, content.head.len())
    }

    fn is_sound(bytes: &[u8]) -> bool {
        Parts::read(bytes).is_some_and(|parts| parts.are_sound())
    }

    #[test]
    fn parts_come_back_as_they_were_put_together() {
        let (bytes, head) = composed();
        let parts = Parts::read(&bytes).unwrap();
        assert!(parts.are_sound());
        assert_eq!(
            (parts.key, parts.tables),
            (&b"key"[..], (4096, &b"tables"[..]))
        );
        assert_eq!((parts.code_bytes, parts.modules.len()), (17, 2));
        assert_eq!(
            (parts.seal, parts.branches),
            (SEAL, (head as u64, 5 * 4096))
        );
        let [hot, cold] = parts.code;
        assert_eq!((hot.0 % 4096, cold.0 % 4096), (0, 0));
        assert_eq!((hot.1, cold.1), (&[0x90; 5000][..], &[0xcc; 70][..]));
        let entry = |page: usize, number: usize| {
            let at = head + page * 4096 + number * 8;
            u64::from_le_bytes(bytes[at..at + 8].try_into().unwrap())
        };
        let code = |offset| in_cache(offset).get();
        assert_eq!((entry(0, 0), entry(4, 1)), (code(0x1000), code(0x2000)));
        assert_eq!((entry(0, 1), entry(1, 0)), (code(0x40), 0));
    }

    #[test]
    fn damage_is_noticed_wherever_it_is() {
        let (bytes, head) = composed();
        let summed = 4 * 4096 + 70;
        assert!(head - summed < 4096);
        for at in 0..summed {
            let mut damaged = bytes.clone();
            damaged[at] ^= 1 << (at % 8);
            assert!(!is_sound(&damaged), "at {at}");
            assert!(!is_sound(&bytes[..at]), "up to {at}");
        }
        for length in [head, bytes.len() - 1] {
            assert!(!is_sound(&bytes[..length]), "up to {length}");
        }
    }

    /// What has the right checksum was not necessarily written by this program.
    #[test]
    fn any_numbers_are_read_without_a_panic() {
        let (bytes, _) = composed();
        for at in (SUMMED_FROM..200).step_by(4) {
            for value in [0, 1, 0x7fff_ffff_u32, u32::MAX] {
                let mut other = bytes.clone();
                other[at..at + 4].copy_from_slice(&value.to_le_bytes());
                let _parts = Parts::read(&other);
            }
        }
    }
}
