//! How much memory `xsave` and its kin use.
//!
//! Source: Intel 64 and IA-32 Architectures Software Developer's Manual, volume 1, chapter 13:
//! the legacy region and the header, then the components, in the standard format each at an
//! offset of its own, in the compacted format one behind the other.

use core::arch::x86_64::{__cpuid, __cpuid_count};

use iced_x86::{Code, Instruction, OpKind, Register};

const LEGACY_AND_HEADER: u32 = 576;
const FIRST_EXTENDED: u32 = 2;

/// How large the state is that `xsave` and its kin move, on this processor and under this
/// kernel.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ExtendedStateSizes {
    /// Bytes in the standard format, with all state that the kernel has enabled.
    pub(crate) standard: u32,
    /// Bytes in the compacted format, with all enabled state.
    pub(crate) compacted: u32,
    /// What the processor's state consists of behind the header.
    pub(super) components: &'static [Component],
}

impl ExtendedStateSizes {
    /// Asks the processor. Slow (virtual machines trap it), and what it finds is kept for good: do
    /// it once.
    #[must_use]
    pub fn of_this_processor() -> ExtendedStateSizes {
        if __cpuid(0).eax < 0xd {
            return ExtendedStateSizes {
                standard: LEGACY_AND_HEADER,
                compacted: LEGACY_AND_HEADER,
                components: &[],
            };
        }
        let user = __cpuid_count(0xd, 0);
        let supervisor = __cpuid_count(0xd, 1);
        // Where the processor has no compacted format it reports nothing.
        ExtendedStateSizes {
            standard: user.ebx.max(LEGACY_AND_HEADER),
            compacted: supervisor.ebx.max(LEGACY_AND_HEADER),
            components: components(user.eax | supervisor.ecx).leak(),
        }
    }

    /// With no other state than the components of a mask, as far as they are enabled.
    #[must_use]
    pub fn with_components(self, mask: u32) -> ExtendedStateSizes {
        let wanted = self
            .components
            .iter()
            .filter(|component| mask & 1 << component.number != 0);
        let (mut standard, mut compacted) = (LEGACY_AND_HEADER, LEGACY_AND_HEADER);
        for component in wanted {
            standard = standard.max(component.offset + component.size);
            if component.aligned {
                compacted = compacted.next_multiple_of(64);
            }
            compacted += component.size;
        }
        ExtendedStateSizes {
            standard: standard.min(self.standard),
            compacted: compacted.min(self.compacted),
            components: self.components,
        }
    }
}

impl ExtendedStateSizes {
    /// Bytes that an area has in either format.
    pub(super) fn of_either_format(self) -> u32 {
        match self.compacted {
            // There is no other format.
            LEGACY_AND_HEADER => self.standard,
            compacted => compacted.min(self.standard),
        }
    }

    /// Where a component lies in an area: offset and bytes. `compacted`: the components that the
    /// area has, as its header says, if that is in the compacted format.
    ///
    /// ```
    /// use unspool_instructions::operands::ExtendedStateSizes;
    /// use unspool_instructions::operands::state_component::AVX;
    ///
    /// let sizes = ExtendedStateSizes::of_this_processor();
    /// // The upper halves of ymm0 to ymm15 come first in either format.
    /// if let Some(place) = sizes.place_of(AVX, None) {
    ///     assert_eq!(place, (576, 256));
    ///     assert_eq!(sizes.place_of(AVX, Some(1 << AVX)), Some(place));
    /// }
    /// ```
    #[must_use]
    pub fn place_of(&self, number: u32, compacted: Option<u32>) -> Option<(usize, usize)> {
        let mut components = self.components.iter();
        let component = components.find(|component| component.number == number)?;
        let offset = match compacted {
            None => component.offset,
            Some(all) => {
                let before = self.with_components(all & ((1 << number) - 1)).compacted;
                match component.aligned {
                    true => before.next_multiple_of(64),
                    false => before,
                }
            }
        };
        Some((offset as usize, component.size as usize))
    }
}

/// A part of the state behind the header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Component {
    number: u32,
    /// In the standard format.
    offset: u32,
    size: u32,
    /// Whether it starts at a multiple of 64 bytes in the compacted format.
    aligned: bool,
}

/// The components of a mask: those that this processor has.
fn components(mask: u32) -> Vec<Component> {
    const ALIGNED: u32 = 2;
    (FIRST_EXTENDED..u32::BITS)
        .filter(|number| mask & 1 << number != 0)
        .map(|number| (number, __cpuid_count(0xd, number)))
        .filter(|(_, facts)| facts.eax != 0)
        .map(|(number, facts)| Component {
            number,
            offset: facts.ebx,
            size: facts.eax,
            aligned: facts.ecx & ALIGNED != 0,
        })
        .collect()
}

/// The components that code asks for in edx and eax, if it can be seen in the instructions
/// before, from the last one backwards, that it asks for none of the upper half.
pub fn requested_components<'a>(
    before: impl Iterator<Item = (&'a Instruction, u16)>,
) -> Option<u32> {
    const RAX: u16 = 1;
    const RDX: u16 = 1 << 2;
    let (mut low, mut high) = (None, None);
    for (instruction, written) in before {
        let value = constant(instruction);
        if low.is_none() && written & RAX != 0 {
            low = Some(value?);
        }
        if high.is_none() && written & RDX != 0 {
            high = Some(value?);
        }
        if let (Some(low), Some(0)) = (low, high) {
            return Some(low);
        }
    }
    None
}

/// What an instruction puts into its only register, if that is always the same.
fn constant(instruction: &Instruction) -> Option<u32> {
    match instruction.code() {
        Code::Mov_r32_imm32 => Some(instruction.immediate32()),
        Code::Xor_r32_rm32 | Code::Xor_rm32_r32
            if instruction.op1_kind() == OpKind::Register
                && instruction.op0_register() == instruction.op1_register()
                && instruction.op0_register() != Register::None =>
        {
            Some(0)
        }
        _ => None,
    }
}
