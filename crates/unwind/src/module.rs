//! What is known of one image in a process.

use std::ops::Range;

use unspool_instructions::decode::{Instruction, decode};

use crate::call_frame_information::{self, FrameDescription};
use crate::section::Section;

/// How many bytes of code are looked at together: enough for any instruction, and what decoding
/// is quickest with.
pub(crate) const WINDOW: usize = 32;

/// `mov rax, 15; syscall`, in which the number is that of `rt_sigreturn`.
const SIGNAL_RETURN: [u8; 9] = [0x48, 0xc7, 0xc0, 15, 0, 0, 0, 0x0f, 0x05];
pub(crate) const SIGNAL_RETURN_BYTES: u64 = SIGNAL_RETURN.len() as u64;

/// Code of an image, by the addresses that its file gives it.
#[derive(Clone)]
pub enum ImageCode<'a> {
    /// It is here.
    Bytes(Section<'a>),
    /// It is read when it is needed.
    Memory {
        /// Its addresses.
        range: Range<u64>,
        /// What is added to them for `read`.
        bias: u64,
        /// Copies code from an address on. Returns how many bytes could be copied.
        read: &'a (dyn Fn(u64, &mut [u8]) -> usize + Sync),
    },
}

impl Default for ImageCode<'_> {
    fn default() -> Self {
        ImageCode::Bytes(Section::default())
    }
}

impl ImageCode<'_> {
    /// The addresses.
    #[must_use]
    pub fn range(&self) -> Range<u64> {
        match self {
            ImageCode::Bytes(section) => section.address..section.end(),
            ImageCode::Memory { range, .. } => range.clone(),
        }
    }

    /// The bytes from an address on, as far as there are so many.
    pub(crate) fn window(&self, address: u64) -> ([u8; WINDOW], usize) {
        let mut window = [0; WINDOW];
        let length = match self {
            ImageCode::Bytes(section) => {
                let bytes = section.from(address).unwrap_or_default();
                let length = bytes.len().min(WINDOW);
                window[..length].copy_from_slice(&bytes[..length]);
                length
            }
            ImageCode::Memory { range, bias, read } if range.contains(&address) => {
                let rest = usize::try_from(range.end - address).unwrap_or(WINDOW);
                let wanted = rest.min(WINDOW);
                let from = address.wrapping_add(*bias);
                read(from, &mut window[..wanted]).min(wanted)
            }
            ImageCode::Memory { .. } => 0,
        };
        (window, length)
    }

    /// The instruction at an address.
    pub(crate) fn instruction(&self, address: u64) -> Option<(Instruction, [u8; WINDOW])> {
        let (window, length) = self.window(address);
        let instruction = decode(&window[..length], address).ok()?;
        Some((instruction, window))
    }
}

impl std::fmt::Debug for ImageCode<'_> {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "code at {:#x?}", self.range())
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
    pub code: ImageCode<'a>,
    /// Where functions begin of which call-frame information says nothing, by addresses of the
    /// file, in order.
    pub functions: &'a [u64],
}

/// Where modules are found by addresses.
pub trait Modules {
    /// The one in whose code an address of the process is.
    fn module_at(&self, address: u64) -> Option<Module<'_>>;
}

/// Modules in the order of their addresses, which do not overlap.
impl Modules for [Module<'_>] {
    fn module_at(&self, address: u64) -> Option<Module<'_>> {
        let behind = self.partition_point(|module| module.range.start <= address);
        let module = self.get(behind.checked_sub(1)?)?;
        module.range.contains(&address).then(|| module.clone())
    }
}

impl Module<'_> {
    /// What the compiler says of the code at an address of the file.
    pub(crate) fn entry(&self, address: u64) -> Option<FrameDescription> {
        call_frame_information::find(self.header, self.frames, address)
    }

    /// Whether the code at an address of the file is what handlers of signals return to, which debuggers
    /// know by its bytes as well.
    pub(crate) fn is_signal_return(&self, address: u64) -> bool {
        let (window, length) = self.code.window(address);
        window[..length].starts_with(&SIGNAL_RETURN)
    }

    /// The function at an address of the file, of which call-frame information says nothing.
    pub(crate) fn function(&self, address: u64) -> Option<Range<u64>> {
        let behind = self.functions.partition_point(|start| *start <= address);
        let start = *self.functions.get(behind.checked_sub(1)?)?;
        let code_end = self.code.range().end;
        let end = self.functions.get(behind).copied().unwrap_or(code_end);
        (start..end).contains(&address).then_some(start..end)
    }
}
