//! The entries of `.eh_frame`: one for each piece of code (a frame description entry), which
//! refers to what several have in common (a common information entry).

use std::ops::Range;

use super::reader::{INDIRECT, OMITTED, Reader};
use crate::section::Section;

/// What is said of one piece of code.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FrameDescription {
    /// The code, by the addresses that the section has.
    pub code: Range<u64>,
    /// Whether the code is where a signal's handler returns to.
    pub is_signal_frame: bool,
    /// The instructions that hold for all of the code, and those of this piece: offsets in the
    /// section.
    pub(super) instructions: [Range<usize>; 2],
    pub(super) code_alignment: u64,
    pub(super) data_alignment: i64,
    pub(super) return_address: u64,
    pub(super) pointer_encoding: u8,
}

/// What several entries have in common.
struct Common {
    code_alignment: u64,
    data_alignment: i64,
    return_address: u64,
    has_augmentation_data: bool,
    pointer_encoding: u8,
    is_signal_frame: bool,
    instructions: Range<usize>,
}

/// All entries of an `.eh_frame`, in the order in which they stand there. What cannot be
/// understood is left out; the walk ends where the next entry cannot be found.
#[derive(Clone)]
pub struct Entries<'a> {
    section: Section<'a>,
    position: usize,
}

impl<'a> Entries<'a> {
    /// Those of this section.
    #[must_use]
    pub fn new(section: Section<'a>) -> Entries<'a> {
        Entries {
            section,
            position: 0,
        }
    }
}

impl Entries<'_> {
    /// The next entry, and its offset in the section.
    pub(super) fn next_at(&mut self) -> Option<(usize, FrameDescription)> {
        loop {
            let offset = self.position;
            let mut reader = Reader::new(self.section, offset);
            let content = content(&mut reader)?;
            self.position = reader.position();
            if let Some(entry) = parse(self.section, content) {
                return Some((offset, entry));
            }
        }
    }
}

impl Iterator for Entries<'_> {
    type Item = FrameDescription;

    fn next(&mut self) -> Option<FrameDescription> {
        self.next_at().map(|(_, entry)| entry)
    }
}

/// The entry at an offset of the section.
pub(super) fn at(section: Section<'_>, offset: usize) -> Option<FrameDescription> {
    let mut reader = Reader::new(section, offset);
    let content = content(&mut reader)?;
    parse(section, content)
}

/// What an entry consists of behind its length; nothing at the section's end.
fn content<'a>(reader: &mut Reader<'a>) -> Option<Reader<'a>> {
    let length = match reader.u32()? {
        0 => return None,
        u32::MAX => reader.u64()?,
        length => u64::from(length),
    };
    reader.take(length)
}

/// The frame description entry in `reader`; nothing if that is a common one.
fn parse(section: Section<'_>, mut reader: Reader<'_>) -> Option<FrameDescription> {
    let back_from = reader.position();
    let back = reader.u32()? as usize;
    if back == 0 {
        return None;
    }
    let common = common(section, back_from.checked_sub(back)?)?;
    let start = reader.pointer(common.pointer_encoding, 0)?;
    let length = reader.formatted(common.pointer_encoding)?;
    if common.has_augmentation_data {
        let length = reader.unsigned()?;
        reader.take(length)?;
    }
    Some(FrameDescription {
        code: start..start.checked_add(length)?,
        is_signal_frame: common.is_signal_frame,
        instructions: [common.instructions, reader.position()..reader.end()],
        code_alignment: common.code_alignment,
        data_alignment: common.data_alignment,
        return_address: common.return_address,
        pointer_encoding: common.pointer_encoding,
    })
}

/// The common information entry at an offset.
fn common(section: Section<'_>, offset: usize) -> Option<Common> {
    let mut start = Reader::new(section, offset);
    let mut reader = content(&mut start)?;
    if reader.u32()? != 0 {
        return None;
    }
    let version = reader.u8()?;
    let augmentation = reader;
    while reader.u8()? != 0 {}
    match version {
        1 | 3 => {}
        // The sizes of addresses and of segment selectors.
        4 if reader.u16()? == 8 => {}
        _ => return None,
    }
    let code_alignment = reader.unsigned()?;
    let data_alignment = reader.signed()?;
    let return_address = match version {
        1 => u64::from(reader.u8()?),
        _ => reader.unsigned()?,
    };
    let mut common = Common {
        code_alignment,
        data_alignment,
        return_address,
        has_augmentation_data: false,
        pointer_encoding: 0,
        is_signal_frame: false,
        instructions: 0..0,
    };
    common.augment(augmentation, &mut reader)?;
    common.instructions = reader.position()..reader.end();
    Some(common)
}

impl Common {
    /// Reads the augmentation data in `reader`, which the letters of `augmentation` describe.
    fn augment(&mut self, mut augmentation: Reader<'_>, reader: &mut Reader<'_>) -> Option<()> {
        let mut data = *reader;
        loop {
            match augmentation.u8()? {
                0 => return Some(()),
                b'z' => {
                    let length = reader.unsigned()?;
                    data = reader.take(length)?;
                    self.has_augmentation_data = true;
                }
                b'R' => self.pointer_encoding = data.u8()?,
                b'S' => self.is_signal_frame = true,
                b'L' => {
                    data.u8()?;
                }
                b'P' => {
                    let encoding = data.u8()?;
                    if encoding != OMITTED {
                        data.pointer(encoding & !INDIRECT, 0)?;
                    }
                }
                // Branch protection of another processor; without data.
                b'B' => {}
                // What follows an unknown letter cannot be told, unless its length is known.
                _ if self.has_augmentation_data => return Some(()),
                _ => return None,
            }
        }
    }
}
