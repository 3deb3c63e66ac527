//! What stands for branches: exits, indirect branches by way of the register of the target, and
//! calls, whose second half is at the end of the fragment.

use unspool_code_cache::address::CacheAddress;
use unspool_code_cache::binding::RegisterBinding;
use unspool_code_cache::cache::Exit;
use unspool_code_cache::emit::{Gpr, TARGET, gpr};
use unspool_code_cache::exit::ExitKind;
use unspool_code_cache::slots::{TARGET_SPILL, offset};
use unspool_instructions::decode::{Instruction, Segment};

use super::{Builder, Uncopyable};

/// Where a call goes.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Callee {
    /// To a known address, with these trace registers spilled.
    Direct {
        /// The program address.
        target: u64,
        /// The registers.
        binding: RegisterBinding,
    },
    /// To the address in the register of the target.
    Indirect,
}

/// A call whose second half is still to be emitted.
pub(super) struct EmittedCall {
    field: CacheAddress,
    callee: Callee,
    return_pc: u64,
}

impl Builder {
    /// Emits an exit by a patchable jump (conditional or not).
    pub(crate) fn exit_jump(&mut self, condition: Option<u8>, kind: ExitKind, target: u64) {
        let here = self.code.here();
        let field = self.code.patchable_jump(condition, here);
        self.new_fragment
            .exits
            .push(Exit::by_jump(kind, target, field));
    }

    /// Emits an exit to a program address by a patchable jump, with trace registers spilled.
    pub(crate) fn exit_bound(&mut self, target: u64, binding: RegisterBinding) {
        let here = self.code.here();
        let field = self.code.patchable_jump(None, here);
        let mut exit = Exit::by_jump(ExitKind::Direct, target, field);
        exit.binding = binding;
        self.new_fragment.exits.push(exit);
    }

    /// Emits `loop`, `loope`, `loopne` or `jrcxz`: only their short forms exist.
    ///
    /// All prefixes are kept: processors let repeat prefixes change what `loope` waits for.
    pub(crate) fn short_branch(&mut self, instruction: &Instruction, bytes: &[u8], target: u64) {
        self.code
            .bytes(&bytes[..usize::from(instruction.length) - 1]);
        self.code.bytes(&[2]); // taken: over the next jump
        self.code.bytes(&[0xeb, 0]);
        let over = self.code.here();
        self.exit_jump(None, ExitKind::Direct, target);
        let length = self.code.here().bytes_since(over) as u8;
        self.patch_byte(over.before(), length);
    }

    /// Emits the target of an indirect branch into its register, whose program value the slot has.
    ///
    /// # Errors
    /// If it names memory through GS.
    pub fn indirect_target(
        &mut self,
        instruction: &Instruction,
        bytes: &[u8],
        pc: u64,
    ) -> Result<(), Uncopyable> {
        // A load through a far address has it in the register before it may fault.
        let spill = self.target_spill();
        let loaded = self.load_target(instruction, bytes, pc, TARGET);
        self.end_spill(spill);
        loaded
    }

    /// Emits the target of an indirect branch into a register.
    ///
    /// # Errors
    /// If it names memory through GS.
    pub(crate) fn load_target(
        &mut self,
        instruction: &Instruction,
        bytes: &[u8],
        pc: u64,
        to: Gpr,
    ) -> Result<(), Uncopyable> {
        if instruction.segment == Some(Segment::Gs) && instruction.has_memory_modrm() {
            return self.load_from_gs(instruction, bytes, pc, to);
        }
        if instruction.rip_relative {
            let address = self.rip_target(instruction, bytes, pc);
            self.load_absolute(instruction.segment, address, to);
            return Ok(());
        }
        if instruction.segment == Some(Segment::Fs) {
            self.code.bytes(&[0x65]);
        }
        if instruction.address_size_prefix {
            self.code.bytes(&[0x67]);
        }
        // mov to, r/m64
        self.code.bytes(&[
            0x48 | (to >> 3) << 2 | instruction.extension & 3,
            0x8b,
            instruction.modrm & 0xc7 | (to & 7) << 3,
        ]);
        let rest = usize::from(instruction.modrm_offset) + 1..usize::from(instruction.length);
        self.code.bytes(&bytes[rest]);
        Ok(())
    }

    fn load_absolute(&mut self, segment: Option<Segment>, address: u64, to: Gpr) {
        let rex = 0x48 | (to >> 3) << 2;
        if let Ok(displacement) = i32::try_from(address as i64) {
            if segment == Some(Segment::Fs) {
                self.code.bytes(&[0x65]);
            }
            self.code.bytes(&[rex, 0x8b, 0x04 | (to & 7) << 3, 0x25]);
            self.code.imm32(displacement);
        } else {
            self.code.load_immediate(to, address);
            if segment == Some(Segment::Fs) {
                self.code.bytes(&[0x65]);
            }
            self.code.load(to, to, 0);
        }
    }

    /// Emits the branch of a return whose address has been popped to the register of the
    /// target. If calls are `paired` with returns, the processor may predict it from its call.
    pub fn return_branch(&mut self, pop: u16, paired: bool) {
        if pop == 0 && paired {
            self.code.return_through_table();
        } else {
            self.code.lea(gpr::RSP, gpr::RSP, i32::from(pop));
            self.code.jump_through_table();
        }
    }

    /// Emits a call whose callee returns to what is emitted next. The call leaves a cache
    /// address as its return address; code at the end of the fragment, which replaces it by
    /// the program's, goes on to the callee.
    pub(crate) fn call(&mut self, callee: Callee, return_pc: u64) {
        let field = self.code.call_forward();
        self.calls.push(EmittedCall {
            field,
            callee,
            return_pc,
        });
    }

    /// Emits the second halves of all calls.
    pub(crate) fn finish_calls(&mut self) {
        for call in std::mem::take(&mut self.calls) {
            self.code.land(call.field);
            self.code.store_return_address(call.return_pc);
            match call.callee {
                Callee::Direct { target, binding } => self.exit_bound(target, binding),
                Callee::Indirect => self.code.jump_through_table(),
            }
        }
    }

    /// Emits the place of the target stub of returns and other indirect branches: the register of the
    /// target comes back from its slot. Returns its address.
    pub(crate) fn target_stub(&mut self) -> CacheAddress {
        let here = self.code.here();
        self.code.load_slot(TARGET, offset::spill(TARGET_SPILL));
        here
    }
}
