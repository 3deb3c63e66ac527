//! What files say of the frames of their functions.

use unspool_kernel::guarded;
use unspool_unwind::Section;

/// What a file says of the frames of its functions, by the addresses that it gives them.
#[derive(Debug)]
pub(crate) struct Frames {
    pub(crate) information: OwnedSection,
    pub(crate) header: Option<OwnedSection>,
    /// Where functions begin, in order.
    pub(crate) functions: Vec<u64>,
}

/// A section of it, as it is in memory.
#[derive(Debug)]
pub(crate) struct OwnedSection {
    address: u64,
    bytes: Vec<u8>,
}

impl OwnedSection {
    /// The section of a name, as it is in memory.
    fn read(module: &unspool_binary::Module, bias: u64, name: &str) -> Option<OwnedSection> {
        let mut sections = module.sections().iter();
        let section = sections.find(|section| section.name == name)?;
        let address = section.address.0;
        let mut bytes = vec![0; usize::try_from(section.size).ok()?];
        let is_read = guarded::read(address.wrapping_add(bias), &mut bytes);
        is_read.then_some(OwnedSection { address, bytes })
    }

    pub(crate) fn section(&self) -> Section<'_> {
        Section {
            address: self.address,
            bytes: &self.bytes,
        }
    }
}

impl Frames {
    /// What a file says that is in memory.
    pub(crate) fn read(module: &unspool_binary::Module, bias: u64) -> Option<Frames> {
        let mut functions: Vec<u64> = module
            .functions()
            .map(|function| function.address().0)
            .collect();
        functions.dedup();
        let read = |name| OwnedSection::read(module, bias, name);
        Some(Frames {
            information: read(".eh_frame")?,
            header: read(".eh_frame_hdr"),
            functions,
        })
    }
}
