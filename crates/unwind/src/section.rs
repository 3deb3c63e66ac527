//! Pieces of an image's file.

/// Bytes of an image, and the address that its file gives the first of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Section<'a> {
    /// The address.
    pub address: u64,
    /// The bytes.
    pub bytes: &'a [u8],
}

impl<'a> Section<'a> {
    /// The address behind the last byte.
    #[must_use]
    pub fn end(&self) -> u64 {
        self.address.saturating_add(self.bytes.len() as u64)
    }

    /// The bytes from `address` to the section's end.
    #[must_use]
    pub fn from(&self, address: u64) -> Option<&'a [u8]> {
        let offset = usize::try_from(address.checked_sub(self.address)?).ok()?;
        self.bytes.get(offset..)
    }
}
