//! The instructions themselves, and the ways out of a superblock.

use super::counts::{self, inside_is_taken};
use super::scratch::Scratch;
use super::{Leaving, Translation, hooks};
use crate::binding::RegisterBinding;
use crate::emit::{TARGET, gpr};
use crate::exit::ExitKind;
use crate::instrument::{Amounts, Insertions, MOST_BUFFERS};
use crate::slots::{TARGET_SPILL, offset};
use crate::translate::copy::Callee;
use crate::translate::superblock::{BranchDirection, Item};
use unspool_instructions::decode::{Kind, Repeat};
use unspool_instructions::operands::{MemoryOperand, Shape};

impl Translation<'_> {
    /// Emits the instruction itself and what goes with it.
    pub(super) fn execute(&mut self, item: &Item, index: usize, insertions: &Insertions) {
        let Item {
            layout, bytes, pc, ..
        } = item;
        let next_pc = pc + u64::from(layout.length);
        match layout.kind {
            // The superblock goes on at the target. That the jump has a place of its own lets
            // it be stepped over.
            Kind::JumpDirect if item.direction == BranchDirection::Target => {
                self.builder.code.nops(1)
            }
            Kind::Jcc { condition } => {
                let (leaving, target) = match item.direction {
                    BranchDirection::Next => (condition, layout.target),
                    BranchDirection::Target => (condition ^ 1, next_pc),
                };
                let due = self.tally.aside(index, item, insertions);
                let outside = if inside_is_taken(item) {
                    insertions.after
                } else {
                    insertions.taken
                };
                let nothing = self.pending == [0; MOST_BUFFERS];
                if due.is_empty() && outside.is_empty() && nothing {
                    self.builder
                        .exit_jump(Some(leaving), ExitKind::Direct, target);
                    if let (Some(binding), Some(exit)) =
                        (self.binding, self.builder.new_fragment.exits.last_mut())
                    {
                        exit.binding = binding;
                    }
                } else {
                    self.builder.code.bytes(&[0x0f, 0x80 | leaving]);
                    self.leave_aside(index, target, due);
                }
            }
            Kind::JrcxzOrLoop { .. } => {
                let kept = usize::from(layout.length) - 1;
                self.builder.code.bytes(&bytes[..kept]);
                // Taken: over the short jump.
                self.builder.code.bytes(&[2, 0xeb, 5, 0xe9]);
                let due = self.tally.aside(index, item, insertions);
                self.leave_aside(index, layout.target, due);
            }
            Kind::JumpDirect => self.leave_here(layout.target),
            Kind::CallDirect => self.call_direct(layout.target, next_pc),
            Kind::JumpIndirect | Kind::CallIndirect | Kind::Return { .. } => {
                self.leave_indirect(item, index, next_pc);
            }
            Kind::Syscall => {
                self.instrumenter.system_calls.set(*pc, insertions.over);
                self.leave(ExitKind::SystemCall, next_pc, 0);
            }
            Kind::PopFlags | Kind::StoreX87State => {
                if self.builder.copy(layout, bytes, *pc).is_err() {
                    return self.emulate(*pc);
                }
                if layout.kind == Kind::PopFlags {
                    self.leave(ExitKind::FlagsPopped, next_pc, 0);
                } else {
                    let length = u32::from(layout.length);
                    self.leave(ExitKind::X87StateStored, next_pc, length);
                }
            }
            Kind::Xbegin => {
                self.builder.code.load_immediate(gpr::RAX, 0);
                self.leave_here(layout.target);
            }
            Kind::WriteSegmentBase { .. } => {
                if self.builder.segment_base(layout, bytes) {
                    self.leave_here(next_pc);
                } else {
                    self.emulate(*pc);
                }
            }
            Kind::ReadSegmentBase { .. } => {
                self.builder.segment_base(layout, bytes);
            }
            Kind::Plain | Kind::ReadSegment(_) => {
                let is_repeated =
                    |operand: &MemoryOperand| matches!(operand.shape, Shape::Repeat { .. });
                let may_repeat = layout.repeat != Repeat::None;
                if may_repeat && item.operands().iter().any(is_repeated) {
                    self.repetitions.push(self.builder.code.here() as u32);
                }
                if self.builder.copy(layout, bytes, *pc).is_err() {
                    self.emulate(*pc);
                }
            }
            kind if kind.is_copied_as_it_is() => self.builder.copy_as_it_is(layout, bytes),
            kind if kind.faults_when_copied() => {
                self.builder.copy_as_it_is(layout, bytes);
                self.leave_here(next_pc);
            }
            _ => self.emulate(*pc),
        }
    }

    pub(super) fn emulate(&mut self, pc: u64) {
        self.leave(ExitKind::Emulate, pc, 0);
    }

    /// Emits the field of a jump to the code that adds what is due and goes on elsewhere.
    fn leave_aside(&mut self, number: usize, target: u64, due: Amounts) {
        let field = self.builder.code.here();
        self.builder.code.imm32(0);
        self.leaving.push(Leaving {
            field,
            number,
            target,
            due,
            pending: self.pending,
        });
    }

    fn call_direct(&mut self, target: u64, next_pc: u64) {
        if target == next_pc {
            // Only asks where it is.
            self.builder.code.push_immediate(next_pc);
            self.leave_here(target);
            return;
        }
        let binding = match self.binding {
            Some(_) => self.instrumenter.convention().binding(),
            None => RegisterBinding::default(),
        };
        if self.binding.is_some() {
            self.probe_call(next_pc);
            self.advance(self.pending);
            self.exchange();
        }
        self.call(Callee::Direct { target, binding }, target, next_pc);
    }

    /// Makes a call at the place where it is always made, which may be here.
    pub(super) fn call(&mut self, callee: Callee, target: u64, next_pc: u64) {
        hooks::note_call(self);
        if let Some(place) = self.instrumenter.call_site(next_pc, target) {
            if self.binding.is_none() {
                self.probe_call(next_pc);
            }
            self.builder.code.jump(u64::from(place));
            return;
        }
        if self.builder.code.here() == self.item_start {
            // Who comes here from elsewhere is in the middle of the call, not before it.
            self.builder.code.nops(1);
        }
        let place = self.builder.code.here() as u32;
        self.instrumenter.add_call_site(next_pc, target, place);
        self.builder.call(callee, next_pc);
        if self.binding.is_some() {
            let target_stub = self.builder.code.here() as u32;
            self.builder
                .new_fragment
                .target_stubs
                .push((next_pc, target_stub));
            let usual = self.instrumenter.convention().binding();
            self.builder.exit_bound(next_pc, usual);
            return;
        }
        let target_stub = self.builder.target_stub();
        self.builder
            .new_fragment
            .target_stubs
            .push((next_pc, target_stub as u32));
        self.builder.exit_jump(None, ExitKind::Direct, next_pc);
    }

    fn leave_indirect(&mut self, item: &Item, index: usize, next_pc: u64) {
        let Item {
            layout, bytes, pc, ..
        } = item;
        if let Some(binding) = self.binding {
            return self.leave_indirect_bound(item, binding, next_pc);
        }
        if let Kind::Return { pop } = layout.kind {
            self.builder
                .code
                .store_slot(offset::spill(TARGET_SPILL), TARGET);
            let spill = self.builder.target_spill();
            let amounts = self.tally.before(index);
            counts::add(
                &mut self.builder.code,
                amounts,
                item.flags_live,
                Scratch::target(),
            );
            self.builder.code.pop(TARGET);
            self.builder.end_spill(spill);
            self.builder.return_branch(pop, true);
            return;
        }
        if self.builder.indirect_target(layout, bytes, *pc).is_err() {
            return self.emulate(*pc);
        }
        if layout.kind == Kind::CallIndirect {
            let spill = self.builder.target_spill();
            self.call(Callee::Indirect, 0, next_pc);
            self.builder.end_spill(spill);
        } else {
            self.builder.code.jump_through_table();
        }
    }
}
