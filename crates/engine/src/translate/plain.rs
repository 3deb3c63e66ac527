//! Translation without instrumentation.
//!
//! A fragment runs on behind conditional branches and, in code that cannot change by
//! itself, behind direct calls, so that likely continuations are found translated and lie
//! next to each other. Every basic block begins with all program state in place, so each
//! is an entry of its own and no block need be translated twice.

use super::Source;
use super::copy::{Builder, Callee};
use super::reader::{CodeReader, WINDOW};
use crate::binding::RegisterBinding;
use crate::cache::{Cache, CacheFull, Exit};
use crate::emit::TARGET;
use crate::exit::ExitKind;
use crate::slots::{TARGET_SPILL, offset};
use unspool_instructions::decode::{Instruction, Kind};

/// Instructions after which a fragment ends at the next block boundary.
const SOFT_LIMIT: usize = 96;
/// Instructions after which a fragment ends anywhere.
const HARD_LIMIT: usize = 256;
/// The annotation marker: `nopl 0x554E5350(%rax,%rax,1)`.
pub(crate) const MARKER: [u8; 8] = [0x0f, 0x1f, 0x84, 0x00, 0x50, 0x53, 0x4e, 0x55];

/// What follows an instruction.
enum Next {
    /// The next instruction, in the same basic block.
    Instruction,
    /// A new basic block, whose place of the target stub has been emitted if it has one.
    Block { target_stub: u64 },
    /// Nothing.
    End,
}

/// Translates the code at `pc` and makes it part of the cache. With `by_indirect_branch` an indirect
/// branch has just come there.
///
/// # Errors
/// If the cache is full.
pub(crate) fn translate(
    cache: &mut Cache,
    source: &Source,
    pc: u64,
    by_indirect_branch: bool,
) -> Result<(), CacheFull> {
    let mut builder = Builder::new(cache.begin(pc)?, pc, source.vdso);
    let mut target_stub = 0;
    if by_indirect_branch {
        let spill = builder.target_spill();
        target_stub = builder.target_stub();
        builder.end_spill(spill);
        builder.new_fragment.prologue = u32::from(builder.offset());
    }
    let mut translation = Translation {
        cache,
        source,
        code: CodeReader::new(source),
        builder: &mut builder,
        pc,
    };
    translation.run(target_stub);
    builder.finish_calls();
    cache.commit(&builder.code, builder.new_fragment);
    Ok(())
}

struct Translation<'a> {
    cache: &'a Cache,
    source: &'a Source<'a>,
    code: CodeReader<'a>,
    builder: &'a mut Builder,
    pc: u64,
}

impl Translation<'_> {
    fn run(&mut self, target_stub: u64) {
        let here = self.builder.code.here() as u32;
        self.builder.new_fragment.entries.push((self.pc, here, 0));
        self.begin_block(target_stub);
        loop {
            let before = self.builder.code.here();
            let Some((instruction, window)) = self.fetch() else {
                return;
            };
            let next = self.instruction(&instruction, &window);
            let emitted = (self.builder.code.here() - before) as u32;
            // A place of the target stub counts as the end of the call before it.
            self.builder
                .new_fragment
                .pc_map
                .push((instruction.length, emitted));
            let count = self.builder.new_fragment.pc_map.len();
            self.pc += u64::from(instruction.length);
            let ends = self.source.ends_at(self.pc);
            match next {
                Next::End => return,
                Next::Instruction if count < HARD_LIMIT && !ends => {}
                Next::Instruction => {
                    self.builder.exit_jump(None, ExitKind::Direct, self.pc);
                    return;
                }
                Next::Block { target_stub: 0 } => {
                    if count >= SOFT_LIMIT || ends || self.cache.knows(self.pc) {
                        self.builder.exit_jump(None, ExitKind::Direct, self.pc);
                        return;
                    }
                    self.begin_block(0);
                }
                Next::Block { target_stub } => {
                    if count >= SOFT_LIMIT || ends {
                        self.builder
                            .new_fragment
                            .target_stubs
                            .push((self.pc, target_stub as u32));
                        self.builder.exit_jump(None, ExitKind::Direct, self.pc);
                        return;
                    }
                    self.begin_block(target_stub);
                }
            }
        }
    }

    /// Notes the place of the target stub of a block, if it has one. Whether the block is ever entered
    /// otherwise shows later: the cache finds any instruction then.
    fn begin_block(&mut self, target_stub: u64) {
        if target_stub != 0 {
            let new_fragment = &mut self.builder.new_fragment;
            new_fragment
                .target_stubs
                .push((self.pc, target_stub as u32));
        }
    }

    /// The instruction at the current address; emits the exit that explains why there is none.
    fn fetch(&mut self) -> Option<(Instruction, [u8; WINDOW])> {
        let fetched = self.code.instruction(self.pc);
        if fetched.is_none() {
            self.builder.exit_jump(None, ExitKind::Unfetchable, self.pc);
        }
        fetched
    }

    fn instruction(&mut self, instruction: &Instruction, window: &[u8; WINDOW]) -> Next {
        let next_pc = self.pc + u64::from(instruction.length);
        match instruction.kind {
            Kind::Plain => self.plain(instruction, window),
            Kind::Jcc { condition } => {
                self.builder
                    .exit_jump(Some(condition), ExitKind::Direct, instruction.target);
                Next::Block { target_stub: 0 }
            }
            Kind::JrcxzOrLoop { .. } => {
                self.builder
                    .short_branch(instruction, window, instruction.target);
                Next::Block { target_stub: 0 }
            }
            Kind::JumpDirect => {
                self.builder
                    .exit_jump(None, ExitKind::Direct, instruction.target);
                Next::End
            }
            Kind::CallDirect => {
                if instruction.target == next_pc {
                    // Only asks where it is.
                    self.builder.code.push_immediate(next_pc);
                    return Next::Block { target_stub: 0 };
                }
                let callee = Callee::Direct {
                    target: instruction.target,
                    binding: RegisterBinding::default(),
                };
                self.builder.call(callee, next_pc);
                self.after_call(next_pc)
            }
            Kind::JumpIndirect => {
                if self
                    .builder
                    .indirect_target(instruction, window, self.pc)
                    .is_err()
                {
                    return self.emulate();
                }
                self.builder.code.jump_through_table();
                Next::End
            }
            Kind::CallIndirect => self.call_indirect(instruction, window, next_pc),
            Kind::Return { pop } => {
                self.builder
                    .code
                    .store_slot(offset::spill(TARGET_SPILL), TARGET);
                self.builder.code.pop(TARGET);
                self.builder.return_branch(pop, true);
                Next::End
            }
            Kind::Syscall => {
                self.leave(ExitKind::SystemCall, next_pc, 0);
                self.after_system_call(next_pc)
            }
            Kind::PopFlags => {
                self.copy(instruction, window);
                self.leave(ExitKind::FlagsPopped, next_pc, 0);
                Next::End
            }
            Kind::StoreX87State => {
                if self.builder.copy(instruction, window, self.pc).is_err() {
                    return self.emulate();
                }
                let length = u32::from(instruction.length);
                self.leave(ExitKind::X87StateStored, next_pc, length);
                Next::End
            }
            Kind::Xbegin => {
                // A transaction may always abort: this one does, for no particular reason.
                self.builder.code.load_immediate(crate::emit::gpr::RAX, 0);
                self.builder
                    .exit_jump(None, ExitKind::Direct, instruction.target);
                Next::End
            }
            Kind::ReadSegmentBase { .. } | Kind::WriteSegmentBase { .. } => {
                if self.builder.segment_base(instruction, window) {
                    Next::Instruction
                } else {
                    self.emulate()
                }
            }
            Kind::MoveToSegment(_) | Kind::FarTransfer | Kind::Unusual | Kind::Sysenter => {
                self.emulate()
            }
            Kind::Int { vector } if vector != 3 => self.emulate(),
            // These fault or trap when copied, as they do in place.
            Kind::Int { .. }
            | Kind::Int3
            | Kind::Int1
            | Kind::Ud
            | Kind::Hlt
            | Kind::Invalid
            | Kind::Xabort
            | Kind::Xend => {
                self.copy(instruction, window);
                self.builder.exit_jump(None, ExitKind::Direct, next_pc);
                Next::End
            }
            Kind::ReadSegment(_) => self.plain(instruction, window),
            Kind::Xtest | Kind::Cpuid | Kind::Rdtsc | Kind::Rdtscp | Kind::Xgetbv => {
                self.copy(instruction, window);
                Next::Instruction
            }
        }
    }

    fn plain(&mut self, instruction: &Instruction, window: &[u8; WINDOW]) -> Next {
        if window[..8] == MARKER {
            let next = self.pc + u64::from(instruction.length);
            self.leave(ExitKind::Annotation, next, 0);
            return Next::End;
        }
        if self.builder.copy(instruction, window, self.pc).is_err() {
            return self.emulate();
        }
        Next::Instruction
    }

    fn copy(&mut self, instruction: &Instruction, window: &[u8; WINDOW]) {
        self.builder.copy_as_it_is(instruction, window);
    }

    /// Leaves the cache with all program state in place.
    fn leave(&mut self, kind: ExitKind, target: u64, detail: u32) {
        let id = self.cache.exit_id(self.builder.new_fragment.exits.len());
        let gate = self.cache.gates.exit;
        self.builder.code.leave(id, gate);
        let mut exit = Exit::new(kind, target, 0);
        exit.detail = detail;
        self.builder.new_fragment.exits.push(exit);
    }

    fn call_indirect(
        &mut self,
        instruction: &Instruction,
        window: &[u8; WINDOW],
        next_pc: u64,
    ) -> Next {
        if self
            .builder
            .indirect_target(instruction, window, self.pc)
            .is_err()
        {
            return self.emulate();
        }
        let spill = self.builder.target_spill();
        self.builder.call(Callee::Indirect, next_pc);
        self.builder.end_spill(spill);
        self.after_call(next_pc)
    }

    /// The place of the target stub of the call's return, and behind it the code there.
    fn after_call(&mut self, next_pc: u64) -> Next {
        let target_stub = self.builder.target_stub();
        if !self.cache.knows(next_pc) && self.source.fetchable(next_pc) != 0 {
            return Next::Block { target_stub };
        }
        self.builder
            .new_fragment
            .target_stubs
            .push((next_pc, target_stub as u32));
        self.builder.exit_jump(None, ExitKind::Direct, next_pc);
        Next::End
    }

    fn after_system_call(&mut self, next_pc: u64) -> Next {
        if !self.source.is_stable(next_pc, 1) || self.cache.entry(next_pc).is_some() {
            return Next::End;
        }
        Next::Block { target_stub: 0 }
    }

    fn emulate(&mut self) -> Next {
        self.builder.exit_jump(None, ExitKind::Emulate, self.pc);
        Next::End
    }
}
