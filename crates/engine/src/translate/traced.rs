//! Translation for memory traces.
//!
//! A fragment is one superblock (see [`superblock`](super::superblock)). Registers that its
//! code does not touch are spilled for its whole length (see [`RegisterBinding`]). Code that goes from
//! one fragment to another with the same registers spilled leaves them as they are (the
//! *bound* entry); otherwise they are put back first.
//!
//! A record's header is written at the exit, because only there is it known which path was
//! taken. Nothing inserted changes the flags, except ownership checks, which go where the
//! flags are dead or save them.

use unspool_events::PathId;
use unspool_events::raw::path_header;
use unspool_events::superblock::{AccessingInstruction, Path, Superblock};

use super::addresses::Values;
use super::copy::{Builder, Callee};
use super::live_flags::{Lookahead, find_live_flags};
use super::reader::CodeReader;
use super::superblock::{BranchDirection, End, Item, Limits, fetch, turns};
use super::{Source, ownership, record};
use crate::binding::RegisterBinding;
use crate::cache::{Cache, CacheFull, Exit, SpillInterval};
use crate::emit::{Gpr, gpr};
use crate::exit::ExitKind;
use crate::gates::Gates;
use crate::trace::{FragmentTrace, Repetition, Tracer};
use unspool_instructions::decode::Kind;
use unspool_instructions::operands::is_non_temporal;

/// A path that leaves the superblock: code at its end that finishes the record.
struct Leaving {
    /// The field of the jump to it; 0 if the code before falls through into it.
    field: u64,
    path: usize,
    words: usize,
    target: u64,
}

/// Translates the superblock at `pc` and makes it part of the cache.
///
/// # Errors
/// If the cache is full.
pub(crate) fn translate(
    tracer: &Tracer,
    cache: &mut Cache,
    source: &Source,
    pc: u64,
) -> Result<(), CacheFull> {
    let room = cache.begin(pc)?;
    let count = tracer.bound_registers();
    let mut items = Vec::new();
    let mut code = CodeReader::new(source);
    let end = fetch(cache, (source, &mut code), pc, tracer, &mut items);
    find_live_flags(&mut Lookahead::new(code), &mut items, &end);
    let builder = Builder::new(room, pc, source.vdso);
    let touched = items.iter().fold(0, |mask, item| {
        mask | item.uses().read | item.uses().written
    });
    let binding = RegisterBinding::for_code(touched, count)
        .expect("one instruction leaves enough registers alone");
    let mut translation = Translation {
        tracer,
        cache,
        builder,
        binding,
        superblock: Superblock {
            pc,
            ..Superblock::default()
        },
        values: Values::default(),
        words: 0,
        leaving: Vec::new(),
        progress: Vec::with_capacity(items.len()),
        repetitions: Vec::new(),
        closed: 0,
        exchanged: false,
        slow_checks: Vec::new(),
        flags_spill: None,
        values_taken: None,
    };
    translation.run(&items, end);
    let Translation {
        builder,
        superblock,
        progress,
        repetitions,
        closed,
        ..
    } = translation;
    let mut new_fragment = builder.new_fragment;
    new_fragment.binding = binding;
    new_fragment.turns = turns(&items);
    let first_path = superblock.first_path;
    tracer.define(&superblock);
    new_fragment.trace = tracer.add_fragment(FragmentTrace {
        first_path,
        binding,
        progress,
        repetitions,
        closed,
    });
    cache.commit(&builder.code, new_fragment);
    Ok(())
}

pub(crate) struct Translation<'a> {
    pub(crate) tracer: &'a Tracer,
    cache: &'a Cache,
    pub(crate) builder: Builder,
    pub(crate) binding: RegisterBinding,
    pub(crate) superblock: Superblock,
    pub(crate) values: Values,
    /// Words recorded so far.
    pub(crate) words: usize,
    leaving: Vec<Leaving>,
    /// For each instruction: (words, accessing instructions) recorded before it.
    progress: Vec<(u8, u8)>,
    pub(crate) repetitions: Vec<Repetition>,
    /// Where the record is closed before the last instruction is executed; 0 if it is not.
    closed: u32,
    /// Whether the last instruction leaves with other registers spilled.
    exchanged: bool,
    /// Ownership checks whose slow parts are still to be emitted.
    pub(crate) slow_checks: Vec<ownership::SlowCheck>,
    /// Where the program's flags are saved at this point.
    pub(crate) flags_spill: Option<SpillInterval>,
    /// The place where the last instruction's values are taken before it.
    pub(crate) values_taken: Option<u32>,
}

impl Translation<'_> {
    fn run(&mut self, items: &[Item], end: End) {
        self.superblock.first_path = self.tracer.next_path();
        self.prologue();
        let checks = if self.tracer.checks_owners() {
            ownership::plan(items, ownership::span(self.tracer.line_layout()))
        } else {
            vec![Vec::new(); items.len()]
        };
        for (index, item) in items.iter().enumerate() {
            let before = self.builder.code.here();
            self.progress
                .push((self.words as u8, self.superblock.instructions.len() as u8));
            if index == 0 {
                ownership::poll(self, item);
            }
            ownership::check(self, item, &checks[index]);
            self.record(item);
            record::settle_flags(self, item);
            self.execute(item, index);
            let written = item.uses().written;
            self.values.execute(item.decoded(), written);
            let emitted = (self.builder.code.here() - before) as u32;
            self.builder
                .new_fragment
                .pc_map
                .push((item.layout.length, emitted));
        }
        let executed = items.len();
        record::restore_flags(self);
        match end {
            End::Transfer => {}
            End::Continue(pc) => self.leave_here(executed, pc),
            End::Unfetchable(pc) => self.leave_cold(executed, ExitKind::Unfetchable, pc),
            End::Annotation(pc) => self.leave_cold(executed, ExitKind::Annotation, pc),
        }
        if self.exchanged {
            // What follows belongs to places before the exchange.
            self.builder.end_spills();
            self.builder.note_spills(self.binding);
        }
        self.finish_paths();
        ownership::finish(self);
        self.builder.finish_calls();
        self.builder.end_spills();
    }

    /// The cold entry spills the registers; the bound entry follows.
    fn prologue(&mut self) {
        let pc = self.superblock.pc;
        let cold = self.builder.code.here();
        if self.tracer.is_function(pc) {
            self.clean_call_cold(ExitKind::Function, pc);
        }
        self.binding.spill(&mut self.builder.code);
        // A thread that is taken out at the cold entry has lent nothing yet, and between there
        // and here none is.
        self.builder.note_spills(self.binding);
        let bound = self.builder.code.here();
        self.builder.new_fragment.prologue = (bound - cold) as u32;
        let bound = if self.tracer.is_function(pc) {
            0
        } else {
            bound as u32
        };
        self.builder
            .new_fragment
            .entries
            .push((pc, cold as u32, bound));
    }

    /// A call into the engine with all program state in place; the code after it goes on.
    fn clean_call_cold(&mut self, kind: ExitKind, target: u64) {
        let id = self.cache.exit_id(self.builder.new_fragment.exits.len());
        self.builder.code.leave(id, self.cache.gates.exit);
        let mut exit = Exit::new(kind, target, 0);
        exit.stub = self.builder.code.here() as u32;
        self.builder.new_fragment.exits.push(exit);
    }

    /// The register that holds this thread's owner word.
    pub(crate) fn owner(&self) -> Gpr {
        let owner = self.binding.owner();
        owner.expect("code that checks owners has the owner word at hand")
    }

    /// The ways in and out of the cache.
    pub(crate) fn gates(&self) -> Gates {
        self.cache.gates
    }

    /// A call into the engine with registers spilled.
    pub(crate) fn clean_call(&mut self, detail: u32, target: u64) {
        let id = self.cache.exit_id(self.builder.new_fragment.exits.len());
        self.builder.code.leave(id, self.cache.gates.exit);
        let mut exit = Exit::new(ExitKind::CleanCall, target, 0);
        exit.stub = self.builder.code.here() as u32;
        exit.detail = detail;
        exit.binding = self.binding;
        self.builder.new_fragment.exits.push(exit);
    }

    /// Notes a path that ends behind the current instruction.
    fn end_path(&mut self, executed: usize) -> usize {
        let path = Path {
            accessing: self.superblock.instructions.len() as u16,
            executed: executed as u16,
            words: self.words as u8,
        };
        self.superblock.paths.push(path);
        self.superblock.paths.len() - 1
    }

    /// Writes the header of a path's record and moves on behind it.
    fn close_record(&mut self, path: usize, words: usize) {
        let id = PathId(self.superblock.first_path.0 + path as u32);
        let header = path_header(id, words);
        let buffer = self.binding.buffer();
        self.builder.code.store_immediate(buffer, 0, header as i32);
        self.builder
            .code
            .lea(buffer, buffer, 8 * (words as i32 + 1));
    }

    /// Leaves by falling through to here.
    fn leave_here(&mut self, executed: usize, target: u64) {
        let path = self.end_path(executed);
        self.leaving.push(Leaving {
            field: 0,
            path,
            words: self.words,
            target,
        });
        self.finish_paths();
    }

    /// Leaves with the registers put back, for an exit that is not linked bound.
    fn leave_cold(&mut self, executed: usize, kind: ExitKind, target: u64) {
        let path = self.end_path(executed);
        self.close_record(path, self.words);
        self.binding.restore(&mut self.builder.code);
        let id = self.cache.exit_id(self.builder.new_fragment.exits.len());
        self.builder.code.leave(id, self.cache.gates.exit);
        self.builder
            .new_fragment
            .exits
            .push(Exit::new(kind, target, 0));
    }

    /// Emits the ends of paths. The last one in the list that falls through comes first.
    fn finish_paths(&mut self) {
        let mut leaving = std::mem::take(&mut self.leaving);
        leaving.sort_by_key(|path| path.field != 0);
        for path in leaving {
            if path.field != 0 {
                self.builder.code.land(path.field);
            }
            self.close_record(path.path, path.words);
            self.builder.exit_bound(path.target, self.binding);
        }
    }

    /// Emits the instruction itself and, for control transfers, the ends of paths.
    fn execute(&mut self, item: &Item, index: usize) {
        let Item {
            layout, bytes, pc, ..
        } = item;
        let next_pc = pc + u64::from(layout.length);
        let executed = index + 1;
        match layout.kind {
            // The superblock goes on at the target. That the jump has a place of its own lets
            // it be stepped over.
            Kind::JumpDirect if item.direction == BranchDirection::Target => {
                self.builder.code.nops(1)
            }
            Kind::Jcc { condition } => {
                let path = self.end_path(executed);
                let leaving = match item.direction {
                    BranchDirection::Next => condition,
                    BranchDirection::Target => condition ^ 1,
                };
                self.builder.code.bytes(&[0x0f, 0x80 | leaving]);
                let field = self.builder.code.here();
                self.builder.code.imm32(0);
                self.leaving.push(Leaving {
                    field,
                    path,
                    words: self.words,
                    target: item.side_exit().unwrap_or(next_pc),
                });
            }
            Kind::JrcxzOrLoop { .. } => {
                let path = self.end_path(executed);
                let kept = usize::from(layout.length) - 1;
                self.builder.code.bytes(&bytes[..kept]);
                // Taken: over the short jump.
                self.builder.code.bytes(&[2, 0xeb, 5, 0xe9]);
                let field = self.builder.code.here();
                self.builder.code.imm32(0);
                self.leaving.push(Leaving {
                    field,
                    path,
                    words: self.words,
                    target: layout.target,
                });
            }
            Kind::JumpDirect => self.leave_here(executed, layout.target),
            Kind::CallDirect if item.direction == BranchDirection::Target => {
                self.call_followed(layout.target, next_pc);
            }
            Kind::CallDirect => self.call_direct(executed, layout.target, next_pc),
            Kind::JumpIndirect | Kind::CallIndirect | Kind::Return { .. } => {
                self.leave_indirect(item, executed, next_pc);
            }
            Kind::Syscall => self.leave_cold(executed, ExitKind::SystemCall, next_pc),
            Kind::PopFlags | Kind::StoreX87State => {
                if self.builder.copy(layout, bytes, *pc).is_err() {
                    self.leave_cold(index, ExitKind::Emulate, *pc);
                    return;
                }
                record::after(self, item);
                if layout.kind == Kind::PopFlags {
                    self.leave_cold(executed, ExitKind::FlagsPopped, next_pc);
                } else {
                    self.leave_cold(executed, ExitKind::X87StateStored, next_pc);
                    let exit = self.builder.new_fragment.exits.last_mut();
                    exit.expect("an exit was just added").detail = u32::from(layout.length);
                }
            }
            Kind::Xbegin => {
                self.builder.code.load_immediate(gpr::RAX, 0);
                self.leave_here(executed, layout.target);
            }
            Kind::WriteSegmentBase { .. } => {
                if self.builder.segment_base(layout, bytes) {
                    self.leave_here(executed, next_pc);
                } else {
                    self.leave_cold(index, ExitKind::Emulate, *pc);
                }
            }
            Kind::ReadSegmentBase { .. } => {
                self.builder.segment_base(layout, bytes);
            }
            Kind::Plain | Kind::ReadSegment(_) => {
                let in_chunks = ownership::chunks::has_chunks(self, item);
                if in_chunks {
                    ownership::chunks::begin(self);
                }
                if self.builder.copy(layout, bytes, *pc).is_err() {
                    self.leave_cold(index, ExitKind::Emulate, *pc);
                }
                record::note_repetition(self, item, in_chunks);
                if in_chunks {
                    ownership::chunks::end(self, item);
                }
                record::after(self, item);
            }
            kind if kind.is_copied_as_it_is() => self.builder.copy_as_it_is(layout, bytes),
            kind if kind.faults_when_copied() => {
                self.builder.copy_as_it_is(layout, bytes);
                self.leave_here(executed, next_pc);
            }
            _ => self.leave_cold(index, ExitKind::Emulate, *pc),
        }
    }

    fn call_direct(&mut self, executed: usize, target: u64, next_pc: u64) {
        if target == next_pc || !self.pairs_calls() {
            self.builder.code.push_immediate(next_pc);
            self.leave_here(executed, target);
            return;
        }
        self.close(executed);
        let callee = Callee::Direct {
            target,
            binding: self.binding,
        };
        self.builder.call(callee, next_pc);
        self.land(next_pc);
    }

    /// A call whose callee is the rest of the superblock.
    fn call_followed(&mut self, target: u64, next_pc: u64) {
        if target == next_pc || !self.pairs_calls() {
            self.builder.code.push_immediate(next_pc);
            return;
        }
        let field = self.builder.code.call_forward();
        self.land(next_pc);
        self.builder.code.land(field);
        self.builder.code.store_return_address(next_pc);
    }

    /// Whether calls and returns may leave cache addresses below the end of the stack. Where
    /// values are recorded, they must not: the program might read what it never wrote.
    fn pairs_calls(&self) -> bool {
        !self.tracer.records_values()
    }

    /// Closes the record before the last instruction is executed.
    fn close(&mut self, executed: usize) {
        let path = self.end_path(executed);
        self.close_record(path, self.words);
        self.closed = self.builder.code.here() as u32;
    }

    /// The place of the target stub of a return: indirect branches arrive with the usual registers spilled.
    fn land(&mut self, next_pc: u64) {
        let target_stub = self.builder.code.here() as u32;
        self.builder
            .new_fragment
            .target_stubs
            .push((next_pc, target_stub));
        let binding = self.tracer.convention().binding();
        self.builder.exit_bound(next_pc, binding);
    }

    /// Indirect transfers. The target goes to the scratch register; with the record closed,
    /// the usual registers take the place of those spilled.
    fn leave_indirect(&mut self, item: &Item, executed: usize, next_pc: u64) {
        let Item {
            layout, bytes, pc, ..
        } = item;
        let scratch = self.binding.scratch();
        if let Kind::Return { pop } = layout.kind {
            self.close(executed);
            self.builder.code.pop(scratch);
            self.exchange();
            let paired = self.pairs_calls();
            self.builder.return_branch(pop, paired);
            return;
        }
        let target = self.builder.load_target(layout, bytes, *pc, scratch);
        if target.is_err() {
            self.leave_cold(executed - 1, ExitKind::Emulate, *pc);
            return;
        }
        self.close(executed);
        self.exchange();
        if layout.kind != Kind::CallIndirect {
            self.builder.code.jump_through_table();
        } else if self.pairs_calls() {
            self.builder.call(Callee::Indirect, next_pc);
            self.land(next_pc);
        } else {
            self.builder.code.push_immediate(next_pc);
            self.builder.code.jump_through_table();
        }
    }

    /// Borrows the usual registers in place of those spilled; scratch keeps its content.
    fn exchange(&mut self) {
        let own = self.binding;
        let usual = self.tracer.convention().binding();
        if own == usual {
            return;
        }
        self.builder.end_spills();
        own.exchange_all(usual, &mut self.builder.code);
        self.builder.note_spills(usual);
        self.exchanged = true;
    }

    /// Records what the instruction accesses, and what it asks of the caches.
    fn record(&mut self, item: &Item) {
        let fetched = self.tracer.records_instructions();
        let control = item.cache_control();
        if item.operands().is_empty() && control.is_none() && !fetched {
            return;
        }
        let mut described = AccessingInstruction {
            pc: item.pc,
            atomic: item.facts().atomic,
            non_temporal: is_non_temporal(item.decoded()),
            fetched: fetched.then_some(item.layout.length),
            cache_control: control.map(|control| record::cache_control(self, control)),
            ..AccessingInstruction::default()
        };
        if !item.operands().is_empty() {
            record::before(self, item, &mut described);
        }
        self.superblock.instructions.push(described);
    }

    /// The number of the instruction that is being translated.
    pub(crate) fn instruction_number(&self) -> u32 {
        self.progress.len() as u32 - 1
    }

    /// Takes the next word of the record.
    pub(crate) fn take_slot(&mut self) -> u8 {
        let slot = self.words as u8;
        self.words += 1;
        slot
    }

    /// Where a word lies relative to the start of the record.
    pub(crate) fn slot_offset(slot: u8) -> i32 {
        8 * (i32::from(slot) + 1)
    }
}
