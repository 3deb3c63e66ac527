//! The loaded parts of a file, and what follows from them about addresses.

use object::LittleEndian;
use object::elf::{PF_X, PT_LOAD, ProgramHeader64};
use object::read::elf::ProgramHeader;

use crate::address::{FileAddress, FileOffset, LoadBias, RuntimeAddress};
use crate::error::Problem;

const PAGE: u64 = 4096;

/// A loadable segment (`PT_LOAD`). Its ends do not overflow.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Segment {
    /// Where in the file its bytes are.
    pub offset: u64,
    /// Where the linker put it.
    pub address: u64,
    /// Bytes that come from the file.
    pub file_size: u64,
    /// Bytes in memory: what does not come from the file begins as zeros.
    pub memory_size: u64,
    /// Whether it may be executed.
    pub executable: bool,
}

impl Segment {
    fn contains(&self, address: u64) -> bool {
        address >= self.address && address - self.address < self.memory_size
    }

    fn end(&self) -> u64 {
        self.address + self.memory_size
    }
}

/// All loadable segments.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Segments(Vec<Segment>);

impl Segments {
    /// Those that the headers of a file list.
    pub(crate) fn read(
        program_headers: &[ProgramHeader64<LittleEndian>],
        problems: &mut Vec<Problem>,
    ) -> Segments {
        let all = program_headers
            .iter()
            .filter(|header| header.p_type(LittleEndian) == PT_LOAD)
            .map(|header| Segment {
                offset: header.p_offset(LittleEndian),
                address: header.p_vaddr(LittleEndian),
                file_size: header.p_filesz(LittleEndian),
                memory_size: header.p_memsz(LittleEndian),
                executable: header.p_flags(LittleEndian) & PF_X != 0,
            })
            .collect();
        let (segments, refused) = Segments::new(all);
        if refused > 0 {
            problems.push(Problem {
                part: "program headers",
                reason: format!("{refused} segments have impossible sizes"),
            });
        }
        segments
    }

    /// Keeps those that are possible; gives how many are not.
    pub(crate) fn new(all: Vec<Segment>) -> (Segments, usize) {
        let total = all.len();
        let possible: Vec<Segment> = all
            .into_iter()
            .filter(|segment| {
                segment.file_size <= segment.memory_size
                    && segment.address.checked_add(segment.memory_size).is_some()
                    && segment
                        .offset
                        .checked_add(segment.file_size)
                        .is_some_and(|end| end <= u64::MAX - PAGE)
            })
            .collect();
        let refused = total - possible.len();
        (Segments(possible), refused)
    }

    pub(crate) fn all(&self) -> &[Segment] {
        &self.0
    }

    pub(crate) fn address_of(&self, offset: FileOffset) -> Option<FileAddress> {
        let segment = self.0.iter().find(|segment| {
            offset.0 >= segment.offset && offset.0 - segment.offset < segment.file_size
        })?;
        Some(FileAddress(segment.address + (offset.0 - segment.offset)))
    }

    pub(crate) fn offset_of(&self, address: FileAddress) -> Option<FileOffset> {
        let segment = self.0.iter().find(|segment| {
            address.0 >= segment.address && address.0 - segment.address < segment.file_size
        })?;
        Some(FileOffset(segment.offset + (address.0 - segment.address)))
    }

    /// The end of the executable segment that holds the address.
    pub(crate) fn code_end(&self, address: u64) -> Option<u64> {
        self.0
            .iter()
            .find(|segment| segment.executable && segment.contains(address))
            .map(Segment::end)
    }

    /// From the first segment's first address to the last one's end.
    pub(crate) fn span(&self) -> Option<(FileAddress, FileAddress)> {
        let start = self.0.iter().map(|segment| segment.address).min()?;
        let end = self.0.iter().map(Segment::end).max()?;
        Some((FileAddress(start), FileAddress(end)))
    }

    /// Mappings consist of whole pages, so the first page of one segment in the file may be
    /// the last page of another. A mapping that starts there is most likely the former's,
    /// and its executability is the segment's.
    pub(crate) fn bias_of_mapping(
        &self,
        address: RuntimeAddress,
        offset: FileOffset,
        executable: bool,
    ) -> Option<LoadBias> {
        let first_page = |segment: &Segment| segment.offset & !(PAGE - 1);
        let segment = self
            .0
            .iter()
            .filter(|segment| {
                let end = (segment.offset + segment.file_size).next_multiple_of(PAGE);
                segment.file_size > 0 && (first_page(segment)..end).contains(&offset.0)
            })
            .max_by_key(|segment| {
                (
                    segment.executable == executable,
                    first_page(segment) == offset.0,
                )
            })?;
        let file_address = segment
            .address
            .wrapping_add(offset.0.wrapping_sub(segment.offset));
        Some(LoadBias(address.0.wrapping_sub(file_address)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn segments() -> Segments {
        let segment = |offset, address, file_size, memory_size, executable| Segment {
            offset,
            address,
            file_size,
            memory_size,
            executable,
        };
        let all = vec![
            segment(0, 0, 0x1500, 0x1500, false),
            segment(0x1500, 0x2500, 0x1000, 0x1000, true),
            segment(0x2500, 0x4500, 0x100, 0x9000, false),
            segment(u64::MAX - 5, 0, 100, 100, true),
            segment(0, u64::MAX - 5, 100, 100, true),
            segment(0, 0, 100, 99, true),
        ];
        let (segments, refused) = Segments::new(all);
        assert_eq!(refused, 3);
        segments
    }

    #[test]
    fn offsets_and_addresses_are_each_others_inverse() {
        for (offset, address) in [(0, 0), (0x14ff, 0x14ff), (0x1500, 0x2500), (0x25ff, 0x45ff)] {
            assert_eq!(
                segments().address_of(FileOffset(offset)),
                Some(FileAddress(address))
            );
            assert_eq!(
                segments().offset_of(FileAddress(address)),
                Some(FileOffset(offset))
            );
        }
        assert_eq!(segments().address_of(FileOffset(0x2600)), None);
        assert_eq!(
            segments().offset_of(FileAddress(0x4600)),
            None,
            "zeros are in no file"
        );
        assert_eq!(
            segments().span(),
            Some((FileAddress(0), FileAddress(0xd500)))
        );
    }

    #[test]
    fn a_mapping_tells_the_bias() {
        let bias = |address, offset, executable| {
            segments()
                .bias_of_mapping(RuntimeAddress(address), FileOffset(offset), executable)
                .map(|bias| bias.0)
        };
        assert_eq!(bias(0x7000_0000, 0, false), Some(0x7000_0000));
        assert_eq!(bias(0x7000_2000, 0x1000, true), Some(0x7000_0000));
        assert_eq!(bias(0x7000_1000, 0x1000, false), Some(0x7000_0000));
        assert_eq!(bias(0x7000_4000, 0x2000, false), Some(0x7000_0000));
        assert_eq!(bias(0x7000_3000, 0x2000, true), Some(0x7000_0000));
        assert_eq!(bias(0x7000_0000, 0x9000, false), None);
    }

    #[test]
    fn a_page_of_two_segments_belongs_to_the_one_that_starts_there() {
        let segment = |offset, address| Segment {
            offset,
            address,
            file_size: 0x1800,
            memory_size: 0x1800,
            executable: false,
        };
        let (segments, _) = Segments::new(vec![segment(0, 0), segment(0x1800, 0x2800)]);
        let bias = segments.bias_of_mapping(RuntimeAddress(0x5000_2000), FileOffset(0x1000), false);
        assert_eq!(bias, Some(LoadBias(0x5000_0000)));
    }
}
