//! What is known of one image in a process.

use std::ops::Range;

use crate::call_frame_information::{self, Entry};

/// Bytes of an image, and the address that its file gives the first of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Section<'a> {
    /// The address.
    pub address: u64,
    /// The bytes.
    pub bytes: &'a [u8],
}

impl<'a> Section<'a> {
    /// The bytes from `address` to the section's end.
    #[must_use]
    pub fn from(&self, address: u64) -> Option<&'a [u8]> {
        let offset = usize::try_from(address.checked_sub(self.address)?).ok()?;
        self.bytes.get(offset..)
    }
}

/// An executable or library, as it is mapped into a process.
#[derive(Debug, Clone, Default)]
pub struct Module<'a> {
    /// Where its code is in the process.
    pub range: Range<u64>,
    /// What is added to an address of the file to have that in the process.
    pub bias: u64,
    /// `.eh_frame`.
    pub frames: Section<'a>,
    /// `.eh_frame_hdr`.
    pub header: Option<Section<'a>>,
    /// The code, as far as it is readable.
    pub code: Section<'a>,
    /// Where functions begin of which call-frame information says nothing, by addresses of the
    /// file, in order.
    pub functions: &'a [u64],
}

impl Module<'_> {
    /// What the compiler says of the code at an address of the file.
    pub(crate) fn entry(&self, address: u64) -> Option<Entry> {
        call_frame_information::find(self.header, self.frames, address)
    }

    /// The function at an address of the file, of which call-frame information says nothing.
    pub(crate) fn function(&self, address: u64) -> Option<Range<u64>> {
        let behind = self.functions.partition_point(|start| *start <= address);
        let start = *self.functions.get(behind.checked_sub(1)?)?;
        let code_end = self.code.address + self.code.bytes.len() as u64;
        let end = self.functions.get(behind).copied().unwrap_or(code_end);
        (start..end).contains(&address).then_some(start..end)
    }
}
