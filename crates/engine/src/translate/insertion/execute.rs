//! The instructions themselves, and the ways out of a superblock.

use unspool_code_cache::address::CacheAddress;
use unspool_code_cache::binding::RegisterBinding;
use unspool_code_cache::emit::{Gpr, TARGET, gpr};
use unspool_code_cache::exit::ExitKind;
use unspool_instructions::decode::Kind;

use super::PathEnd;
use super::walk::{Inserters, SideExit, Walk};
use crate::translate::copy::Callee;
use crate::translate::superblock::{BranchDirection, Item};

impl Walk<'_> {
    /// Emits an instruction and the ends of paths that it brings about. Returns whether the walk
    /// may go on behind it.
    pub(in crate::translate) fn execute(&mut self, inserters: Inserters, item: &Item) -> bool {
        let Item {
            layout, bytes, pc, ..
        } = item;
        let next_pc = item.next_pc();
        let executed = self.number + 1;
        match layout.kind {
            // The superblock goes on at the target. That the jump has a place of its own lets
            // it be stepped over.
            Kind::JumpDirect if item.direction == BranchDirection::Target => {
                self.builder.code.nops(1);
                true
            }
            Kind::Jcc { condition } => {
                self.conditional(inserters, item, condition);
                true
            }
            Kind::JrcxzOrLoop { .. } => {
                self.counted(inserters, item);
                true
            }
            Kind::JumpDirect => {
                self.leave_here(inserters, executed, layout.target);
                false
            }
            Kind::CallDirect => self.call_direct(inserters, item, executed),
            Kind::Return { pop } => {
                self.return_from(inserters, (executed, pop));
                false
            }
            Kind::JumpIndirect | Kind::CallIndirect => {
                self.leave_indirect(inserters, item, executed)
            }
            Kind::Syscall => {
                for inserter in inserters.iter_mut() {
                    inserter.system_call(self, item);
                }
                self.leave(inserters, executed, ExitKind::SystemCall, next_pc);
                false
            }
            Kind::PopFlags | Kind::StoreX87State => {
                if !self.copy(inserters, item) {
                    return false;
                }
                if layout.kind == Kind::PopFlags {
                    self.leave(inserters, executed, ExitKind::FlagsPopped, next_pc);
                } else {
                    let length = layout.length;
                    let stored = ExitKind::X87StateStored { length };
                    self.leave(inserters, executed, stored, next_pc);
                }
                false
            }
            Kind::Xbegin => {
                // A transaction may always abort: this one does, for no particular reason.
                self.builder.code.load_immediate(gpr::RAX, 0);
                self.leave_here(inserters, executed, layout.target);
                false
            }
            Kind::WriteSegmentBase { .. } | Kind::ReadSegmentBase { .. } => {
                if !self.builder.segment_base(layout, bytes) {
                    return self.emulate(inserters, *pc);
                }
                self.keep_target(item);
                let ends = matches!(layout.kind, Kind::WriteSegmentBase { .. }) && !self.plain;
                if ends {
                    self.leave_here(inserters, executed, next_pc);
                }
                !ends
            }
            Kind::Plain | Kind::ReadSegment(_) => self.copy(inserters, item),
            kind if kind.is_copied_as_it_is() => {
                self.builder.copy_as_it_is(layout, bytes);
                true
            }
            // These fault or trap when copied, as they do in place.
            kind if kind.faults_when_copied() => {
                self.builder.copy_as_it_is(layout, bytes);
                self.leave_here(inserters, executed, next_pc);
                false
            }
            _ => self.emulate(inserters, *pc),
        }
    }

    fn copy(&mut self, inserters: Inserters, item: &Item) -> bool {
        let copied = match item.elsewhere {
            Some(slot) => self.builder.copy_elsewhere(item, slot),
            None => self.builder.copy(&item.layout, &item.bytes, item.pc),
        };
        if copied.is_err() {
            return self.emulate(inserters, item.pc);
        }
        self.borrowed.forget_overwritten(&mut self.builder, item);
        for inserter in inserters {
            inserter.copied(self, item);
        }
        self.keep_target(item);
        true
    }

    /// Emits, behind the copy of an instruction that writes the register of targets, that its slot has
    /// the program's value, too. Where registers are bound, another slot has it.
    fn keep_target(&mut self, item: &Item) {
        if self.binding.is_none()
            && item.layout.may_write(TARGET, &item.bytes)
            && item.uses().written & 1 << TARGET != 0
        {
            self.builder.code.keep_target();
        }
    }

    /// Leaves before an instruction that the engine executes.
    fn emulate(&mut self, inserters: Inserters, pc: u64) -> bool {
        self.give_back_all();
        self.leave(inserters, self.number, ExitKind::Emulate, pc);
        false
    }

    /// Emits a conditional branch out of the superblock.
    fn conditional(&mut self, inserters: Inserters, item: &Item, condition: u8) {
        let (leaving, target) = match item.direction {
            BranchDirection::Next => (condition, item.layout.target),
            BranchDirection::Target => (condition ^ 1, item.next_pc()),
        };
        if self.has_something_aside(inserters, item) {
            let field = self.builder.code.jump_forward_if(leaving);
            self.leave_aside(field, target);
            return;
        }
        self.builder
            .exit_jump(Some(leaving), ExitKind::Direct, target);
        self.bind_last_exit();
    }

    /// Emits a branch that depends on rcx.
    fn counted(&mut self, inserters: Inserters, item: &Item) {
        let target = item.layout.target;
        if self.has_something_aside(inserters, item) {
            let kept = usize::from(item.layout.length) - 1;
            self.builder.code.bytes(&item.bytes[..kept]);
            // Taken: over the short jump.
            self.builder.code.bytes(&[2, 0xeb, 5]);
            let field = self.builder.code.jump_forward();
            self.leave_aside(field, target);
            return;
        }
        self.builder.short_branch(&item.layout, &item.bytes, target);
        self.bind_last_exit();
    }

    fn has_something_aside(&mut self, inserters: Inserters, item: &Item) -> bool {
        let mut something = false;
        for inserter in inserters {
            something |= inserter.side_exit(self, item);
        }
        something
    }

    /// The exit that was just emitted leaves with the registers bound that are.
    fn bind_last_exit(&mut self) {
        let exit = self.builder.new_fragment.exits.last_mut();
        if let (Some(binding), Some(exit)) = (self.binding, exit) {
            exit.binding = binding;
        }
    }

    /// Notes the field of a jump to the code that does what is to be done on a way out.
    fn leave_aside(&mut self, field: CacheAddress, target: u64) {
        let number = self.number;
        self.side_exits.push(SideExit {
            field,
            number,
            target,
        });
    }

    fn call_direct(&mut self, inserters: Inserters, item: &Item, executed: usize) -> bool {
        let (target, next_pc) = (item.layout.target, item.next_pc());
        let is_followed = item.direction == BranchDirection::Target;
        // One that calls what follows it only asks where it is.
        if target == next_pc || !self.pairs_calls {
            if target != next_pc {
                before_call(self, inserters);
            }
            self.builder.code.push_immediate(next_pc);
            let goes_on = is_followed || self.plain && target == next_pc;
            if !goes_on {
                self.leave_here(inserters, executed, target);
            }
            return goes_on;
        }
        if is_followed {
            // The callee is the rest of the superblock.
            let field = self.builder.code.call_forward();
            self.land(next_pc);
            self.builder.code.land(field);
            self.builder.code.store_return_address(next_pc);
            return true;
        }
        let usual = self.cache.convention().binding();
        let binding = match self.shares_calls {
            true => self
                .binding
                .map_or_else(RegisterBinding::default, |_| usual),
            false => self.binding.unwrap_or_default(),
        };
        if self.shares_calls && self.binding.is_some() {
            self.probe_call(next_pc);
        }
        self.close(inserters, executed, PathEnd::Transfer);
        if self.shares_calls {
            self.exchange();
        }
        let callee = Callee::Direct { target, binding };
        self.call(inserters, callee, target, next_pc);
        true
    }

    /// Makes a call, and emits where it returns to. If calls are shared, it is made at the place
    /// where it is always made, which may be here.
    fn call(&mut self, inserters: Inserters, callee: Callee, target: u64, next_pc: u64) {
        before_call(self, inserters);
        if !self.shares_calls {
            self.builder.call(callee, next_pc);
            if !self.plain {
                self.land(next_pc);
            }
            return;
        }
        let sites = inserters.iter().find_map(|it| it.limits().call_sites());
        let sites = sites.expect("who wants calls to be shared knows where they are");
        if let Some(place) = sites.get(next_pc, target) {
            if self.binding.is_none() {
                self.probe_call(next_pc);
            }
            self.builder.code.jump(place);
            return;
        }
        if self.builder.code.here() == self.item_start {
            // Who comes here from elsewhere is in the middle of the call, not before it.
            self.builder.code.nops(1);
        }
        sites.add(next_pc, target, self.builder.code.here());
        self.builder.call(callee, next_pc);
        self.land(next_pc);
    }

    /// The target stub of a return: indirect branches arrive with the usual registers bound.
    fn land(&mut self, next_pc: u64) {
        if self.binding.is_some() {
            let stub = self.builder.code.here();
            self.builder.new_fragment.target_stubs.push((next_pc, stub));
            let usual = self.cache.convention().binding();
            self.builder.exit_bound(next_pc, usual);
            return;
        }
        let stub = self.builder.target_stub();
        self.builder.new_fragment.target_stubs.push((next_pc, stub));
        self.builder.exit_jump(None, ExitKind::Direct, next_pc);
    }

    /// Touches the stack as the call will: if it faults, then here, where it is known which
    /// superblock it belongs to.
    fn probe_call(&mut self, next_pc: u64) {
        self.builder
            .code
            .store_immediate(gpr::RSP, -8, next_pc as i32);
    }

    fn return_from(&mut self, inserters: Inserters, (executed, pop): (usize, u16)) {
        let paired = self.pairs_calls;
        let Some(binding) = self.binding else {
            self.builder.code.pop(TARGET);
            self.borrowed.leave_target(&mut self.builder);
            self.builder.return_branch(pop, paired);
            return;
        };
        self.close(inserters, executed, PathEnd::Return);
        self.builder.code.pop(binding.scratch());
        self.close(inserters, executed, PathEnd::ReturnTaken);
        self.exchange();
        self.builder.return_branch(pop, paired);
    }

    /// An indirect jump or call.
    fn leave_indirect(&mut self, inserters: Inserters, item: &Item, executed: usize) -> bool {
        let Item {
            layout, bytes, pc, ..
        } = item;
        let next_pc = item.next_pc();
        let calls = layout.kind == Kind::CallIndirect;
        let Some(binding) = self.binding else {
            let target = self.builder.indirect_target(layout, bytes, *pc);
            if target.is_err() {
                return self.emulate(inserters, *pc);
            }
            self.borrowed.leave_target(&mut self.builder);
            if !calls {
                self.builder.code.jump_through_table();
                return false;
            }
            let spill = self.builder.target_spill();
            self.call(inserters, Callee::Indirect, 0, next_pc);
            self.builder.end_spill(spill);
            return true;
        };
        let scratch: Gpr = binding.scratch();
        let target = self.builder.load_target(layout, bytes, *pc, scratch);
        if target.is_err() {
            return self.emulate(inserters, *pc);
        }
        if calls && self.shares_calls {
            self.probe_call(next_pc);
        }
        if self.close(inserters, executed, PathEnd::Transfer) {
            let again = self.builder.load_target(layout, bytes, *pc, scratch);
            debug_assert!(again.is_ok(), "it was loaded before");
        }
        self.exchange();
        match (calls, self.pairs_calls) {
            (false, _) => self.builder.code.jump_through_table(),
            (true, true) => self.call(inserters, Callee::Indirect, 0, next_pc),
            (true, false) => {
                before_call(self, inserters);
                self.builder.code.push_immediate(next_pc);
                self.builder.code.jump_through_table();
            }
        }
        calls
    }
}

fn before_call(walk: &mut Walk, inserters: Inserters) {
    for inserter in inserters {
        inserter.before_call(walk);
    }
}
