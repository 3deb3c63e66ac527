//! Copying single instructions; what stands for branches is in `branches`.

mod branches;
#[cfg(test)]
mod tests;

use iced_x86::{Instruction as Decoded, InstructionInfoFactory, Register};
use unspool_code_cache::address::CacheAddress;
use unspool_code_cache::binding::RegisterBinding;
use unspool_code_cache::cache::{NewFragment, SpillInterval};
use unspool_code_cache::emit::{Emitter, Gpr, TARGET};
use unspool_code_cache::slots::{TARGET_SPILL, offset};
use unspool_instructions::decode::{Encoding, Instruction, Kind, Segment};

pub(crate) use self::branches::Callee;
use self::branches::EmittedCall;
use super::Vdso;
use super::reader::WINDOW;

/// The spill slot of the register that stands in for a far RIP-relative base.
pub(super) const BASE_SPILL: u8 = 1;

/// A fragment in the making.
pub struct Builder {
    /// Its hot code.
    pub code: Emitter,
    /// Its description.
    pub new_fragment: NewFragment,
    /// Where its code starts in the cache.
    pub start: CacheAddress,
    /// The vDSO as the program sees it.
    pub(crate) vdso: Vdso,
    calls: Vec<EmittedCall>,
}

/// An instruction that the engine does not know how to copy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Uncopyable;

impl Builder {
    /// Starts a fragment at program address `pc`, with what [`Cache::begin`](unspool_code_cache::cache::Cache::begin) gave.
    #[must_use]
    pub(crate) fn new(
        (code, mut new_fragment): (Emitter, NewFragment),
        pc: u64,
        vdso: Vdso,
    ) -> Builder {
        let start = code.here();
        new_fragment.pc = pc;
        Builder {
            code,
            new_fragment,
            start,
            vdso,
            calls: Vec::new(),
        }
    }

    /// Offset of the next byte in the fragment.
    #[must_use]
    pub(crate) fn offset(&self) -> u16 {
        u16::try_from(self.code.here().bytes_since(self.start)).expect("fragments are below 64 KiB")
    }

    /// Emits the instruction so that it has its old effect at its new place.
    ///
    /// # Errors
    /// If it names memory through GS, which belongs to the engine, in an unusual way.
    pub(crate) fn copy(
        &mut self,
        instruction: &Instruction,
        bytes: &[u8; WINDOW],
        pc: u64,
    ) -> Result<(), Uncopyable> {
        if instruction.segment == Some(Segment::Gs) && has_memory_operand(instruction) {
            return self.copy_in_gs(instruction, bytes, pc);
        }
        if instruction.rip_relative {
            return self.copy_rip_relative(instruction, bytes, pc);
        }
        let at = self.code.here();
        self.code.first_of(bytes, usize::from(instruction.length));
        self.patch_segment(instruction, bytes, at);
        Ok(())
    }

    /// Overwrites a byte that was emitted before.
    pub fn patch_byte(&mut self, at: CacheAddress, value: u8) {
        self.code.patch8(at, value);
    }

    fn copy_rip_relative(
        &mut self,
        instruction: &Instruction,
        bytes: &[u8; WINDOW],
        pc: u64,
    ) -> Result<(), Uncopyable> {
        let target = self.rip_target(instruction, bytes, pc);
        let next = self.code.here().get() + u64::from(instruction.length);
        let distance = target.wrapping_sub(next) as i64;
        let Ok(displacement) = i32::try_from(distance) else {
            return self.copy_far(instruction, bytes, pc, target);
        };
        if instruction.address_size_prefix {
            return self.copy_far(instruction, bytes, pc, target);
        }
        let at = self.code.here();
        self.code.first_of(bytes, usize::from(instruction.length));
        self.code.patch32(
            at.plus(u32::from(instruction.displacement_offset)),
            displacement,
        );
        self.patch_segment(instruction, bytes, at);
        Ok(())
    }

    /// The address that a RIP-relative operand names.
    #[must_use]
    pub(crate) fn rip_target(&self, instruction: &Instruction, bytes: &[u8], pc: u64) -> u64 {
        let at = usize::from(instruction.displacement_offset);
        let field: [u8; 4] = bytes[at..at + 4]
            .try_into()
            .expect("a RIP-relative field has four bytes");
        let displacement = i64::from(i32::from_le_bytes(field));
        let target = pc
            .wrapping_add(u64::from(instruction.length))
            .wrapping_add(displacement as u64);
        let target = if instruction.address_size_prefix {
            target & 0xffff_ffff
        } else {
            target
        };
        self.vdso.resolve(pc, target)
    }

    /// Emits an instruction whose RIP-relative operand is out of reach, with a spilled
    /// register as its base. All that its bytes say besides stays.
    fn copy_far(
        &mut self,
        instruction: &Instruction,
        bytes: &[u8],
        pc: u64,
        target: u64,
    ) -> Result<(), Uncopyable> {
        let mut decoder = iced_x86::Decoder::with_ip(64, bytes, pc, iced_x86::DecoderOptions::NONE);
        self.with_base(&decoder.decode(), |builder, base| {
            builder.code.load_immediate(base, target);
            builder.copy_with_base(instruction, bytes, base);
        })
    }

    /// Emits an instruction with a register as the base of its RIP-relative operand.
    fn copy_with_base(&mut self, instruction: &Instruction, bytes: &[u8], base: Gpr) {
        let at = self.code.here();
        self.code.bytes(&bytes[..usize::from(instruction.length)]);
        self.patch_segment(instruction, bytes, at);
        // [base + 0], with a displacement of as many bytes.
        let modrm = 0x80 | instruction.modrm & 0x38 | base;
        self.patch_byte(at.plus(u32::from(instruction.modrm_offset)), modrm);
        self.code
            .patch32(at.plus(u32::from(instruction.displacement_offset)), 0);
        // The base's high bit, which means nothing while there is none.
        let prefix = at.plus(u32::from(instruction.prefix_offset));
        let first = bytes[usize::from(instruction.prefix_offset)];
        let second = bytes[usize::from(instruction.prefix_offset) + 1];
        match instruction.encoding {
            Encoding::Legacy if instruction.rex != 0 => self.patch_byte(prefix, first & !1),
            Encoding::Vex if first == 0xc5 => {}
            Encoding::Vex | Encoding::Evex | Encoding::Xop => {
                self.patch_byte(prefix.plus(1), second | 0x20);
            }
            Encoding::Legacy => {}
        }
    }

    /// Emits what uses a register that the instruction does not, which is spilled meanwhile.
    ///
    /// # Errors
    /// If there is none.
    pub(super) fn with_base(
        &mut self,
        decoded: &Decoded,
        emit: impl FnOnce(&mut Builder, Gpr),
    ) -> Result<(), Uncopyable> {
        let binding = self.new_fragment.binding;
        let is_bound = binding != RegisterBinding::default();
        // Of a bound register two would say where the program's value is, and where the
        // instruction faults the client needs what it has there itself.
        let bound = if is_bound { binding.mask() } else { 0 };
        let Some(base) = unused_register(decoded, bound) else {
            let scratch = binding.scratch();
            let others = !(1 << scratch);
            let base = unused_register(decoded, others).filter(|_| is_bound);
            emit(self, base.ok_or(Uncopyable)?);
            return Ok(());
        };
        self.code.store_slot(offset::spill(BASE_SPILL), base);
        let start = self.offset();
        emit(self, base);
        self.end_spill(SpillInterval {
            start,
            end: start,
            register: base,
            slot: BASE_SPILL,
        });
        self.code.load_slot(base, offset::spill(BASE_SPILL));
        Ok(())
    }

    /// Turns FS prefixes of an instruction that was emitted at `at` into GS prefixes. The last
    /// one counts for the processor, but the kernel, which executes some instructions itself,
    /// refuses those that differ.
    fn patch_segment(&mut self, instruction: &Instruction, bytes: &[u8], at: CacheAddress) {
        const FS: u8 = 0x64;
        const GS: u8 = 0x65;
        if instruction.segment != Some(Segment::Fs) {
            return;
        }
        let prefixes = &bytes[..usize::from(instruction.prefix_offset)];
        for (place, _) in (0..).zip(prefixes).filter(|(_, byte)| **byte == FS) {
            self.patch_byte(at.plus(place), GS);
        }
    }

    /// Copies an instruction byte for byte.
    pub(crate) fn copy_as_it_is(&mut self, instruction: &Instruction, bytes: &[u8]) {
        self.code.bytes(&bytes[..usize::from(instruction.length)]);
    }

    /// Marks the register of the target as spilled from here until [`Builder::end_spill`].
    #[must_use]
    pub fn target_spill(&self) -> SpillInterval {
        SpillInterval {
            start: self.offset(),
            end: 0,
            register: TARGET,
            slot: TARGET_SPILL,
        }
    }

    /// Ends a spill here.
    pub fn end_spill(&mut self, spill: SpillInterval) {
        let end = self.offset();
        self.new_fragment
            .spills
            .push(SpillInterval { end, ..spill });
    }

    /// From here on the registers of a trace, or of a tool's buffers, are spilled.
    pub(crate) fn note_spills(&mut self, binding: RegisterBinding) {
        let start = self.offset();
        let spills = binding.all().map(|(register, slot)| SpillInterval {
            start,
            end: u16::MAX,
            register,
            slot,
        });
        self.new_fragment.spills.extend(spills);
    }

    /// All that was lent has been given back here.
    pub(crate) fn end_spills(&mut self) {
        let end = self.offset();
        for spill in &mut self.new_fragment.spills {
            spill.end = spill.end.min(end);
        }
    }

    /// Emits an instruction that reads or writes the base of FS, which is that of GS here, or
    /// of GS, which is a slot. `false`: not handled (32-bit forms of writes to FS's).
    pub(crate) fn segment_base(&mut self, instruction: &Instruction, bytes: &[u8]) -> bool {
        match instruction.kind {
            Kind::ReadSegmentBase {
                segment: Segment::Gs,
                register,
            } => {
                self.read_gs_base(instruction, register);
                return true;
            }
            Kind::WriteSegmentBase {
                segment: Segment::Gs,
                register,
            } => {
                self.write_gs_base(instruction, bytes, register);
                return true;
            }
            Kind::WriteSegmentBase { register, .. } => {
                if !instruction.wide() {
                    return false;
                }
                self.code.store_slot(offset::PROGRAM_FS, register);
            }
            _ => {}
        }
        let at = self.code.here();
        self.code.bytes(&bytes[..usize::from(instruction.length)]);
        // /0 → /1 and /2 → /3: from FS to GS.
        self.patch_byte(
            at.plus(u32::from(instruction.modrm_offset)),
            instruction.modrm | 0x08,
        );
        true
    }
}

/// Whether a segment override would matter.
fn has_memory_operand(instruction: &Instruction) -> bool {
    let implicit = instruction.encoding == Encoding::Legacy
        && instruction.map == 0
        && matches!(
            instruction.opcode,
            0xa0..=0xa7 | 0xac | 0xad | 0x6e | 0x6f | 0xd7
        );
    let lea = instruction.map == 0 && instruction.opcode == 0x8d;
    let nop = instruction.map == 1 && matches!(instruction.opcode, 0x18..=0x1f);
    // maskmovq and maskmovdqu store where rdi points.
    let masked = instruction.map == 1 && instruction.opcode == 0xf7;
    implicit || masked || instruction.has_memory_modrm() && !lea && !nop
}

/// A register among the lower eight that an instruction does not use, beside those of a mask.
fn unused_register(decoded: &Decoded, taken: u16) -> Option<Gpr> {
    const CANDIDATES: [(Register, Gpr); 6] = [
        (Register::RAX, 0),
        (Register::RCX, 1),
        (Register::RDX, 2),
        (Register::RBX, 3),
        (Register::RSI, 6),
        (Register::RDI, 7),
    ];
    let mut factory = InstructionInfoFactory::new();
    let info = factory.info(decoded);
    CANDIDATES
        .into_iter()
        .filter(|(_, number)| taken & 1 << number == 0)
        .find(|&(register, _)| {
            !info
                .used_registers()
                .iter()
                .any(|used| used.register().full_register() == register)
        })
        .map(|(_, number)| number)
}
