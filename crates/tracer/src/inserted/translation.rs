//! The record of a superblock in the making, and the fragment to which its code is added: what all
//! that the tracer inserts is emitted through.

use std::ops::{Deref, DerefMut};

use unspool_code_cache::address::CacheAddress;
use unspool_code_cache::binding::RegisterBinding;
use unspool_code_cache::cache::Exit;
use unspool_code_cache::emit::Gpr;
use unspool_code_cache::exit::{ExitIndex, ExitKind, Reason};
use unspool_code_cache::gates::Gates;
use unspool_events::superblock::{Slot, Superblock};
use unspool_instructions::operands::MemoryOperand;

use super::Parts;
use super::addresses::Values;
use super::check::{Check, SlowCheck};
use crate::clean_calls::{TracerRequest, ValueSite};
use crate::fragments::Repetition;
use unspool_engine::translate::copy::Builder;
use unspool_engine::translate::insertion::append::BufferEntry;
use unspool_engine::translate::insertion::borrowed::Borrowed;
use unspool_engine::translate::insertion::detour::{Detour, Jumps};
use unspool_engine::translate::operand_address::load_address;
use unspool_engine::translate::walk::Walk;

/// A path that leaves the superblock at a conditional branch.
pub(super) struct SidePath {
    /// The number of the branch.
    pub(super) branch: usize,
    pub(super) path: usize,
    pub(super) words: usize,
}

/// The record of one superblock in the making.
pub(crate) struct Recorder {
    pub(crate) parts: Parts,
    pub(crate) superblock: Superblock,
    pub(crate) values: Values,
    /// Words recorded so far.
    pub(crate) words: usize,
    pub(super) side_paths: Vec<SidePath>,
    /// For each instruction, and for what is behind the last: (words, accessing instructions)
    /// recorded before it.
    pub(super) progress: Vec<(u8, u8)>,
    pub(crate) repetitions: Vec<Repetition>,
    /// Where the record is closed before the last instruction is executed; 0 if it is not.
    pub(super) closed: CacheAddress,
    /// Before which instruction what is checked.
    pub(super) checks: Vec<Vec<Check>>,
    /// Ownership checks whose slow parts are still to be emitted.
    pub(super) slow_checks: Vec<SlowCheck>,
    /// The place where the last instruction's values are taken before it.
    pub(crate) values_taken: Option<ValueSite>,
}

/// The record, with the fragment to which its code is added.
pub(crate) struct Translation<'t> {
    pub(crate) builder: &'t mut Builder,
    pub(crate) borrowed: &'t mut Borrowed,
    pub(crate) binding: RegisterBinding,
    gates: Gates,
    /// The fragment's first exit.
    first_exit: ExitIndex,
    pub(crate) recorder: &'t mut Recorder,
}

impl Deref for Translation<'_> {
    type Target = Recorder;

    fn deref(&self) -> &Recorder {
        self.recorder
    }
}

impl DerefMut for Translation<'_> {
    fn deref_mut(&mut self) -> &mut Recorder {
        self.recorder
    }
}

impl Recorder {
    /// Nothing is recorded yet of the superblock at `pc`.
    pub(crate) fn new(parts: Parts, pc: u64) -> Recorder {
        Recorder {
            parts,
            superblock: Superblock {
                pc,
                first_path: parts.recording.path_ids.next(),
                ..Superblock::default()
            },
            values: Values::default(),
            words: 0,
            side_paths: Vec::new(),
            progress: Vec::new(),
            repetitions: Vec::new(),
            closed: CacheAddress::NOWHERE,
            checks: Vec::new(),
            slow_checks: Vec::new(),
            values_taken: None,
        }
    }

    /// The record, with the fragment that the walk is at.
    pub(super) fn with<'t>(&'t mut self, walk: &'t mut Walk) -> Translation<'t> {
        Translation {
            binding: walk.binding.expect("a record needs registers"),
            gates: walk.cache.gates,
            first_exit: walk.cache.exit_index(0),
            builder: &mut walk.builder,
            borrowed: &mut walk.borrowed,
            recorder: self,
        }
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
}

impl Translation<'_> {
    /// The register that holds this thread's owner word.
    pub(crate) fn owner(&self) -> Gpr {
        let owner = self.binding.owner();
        owner.expect("code that checks owners has the owner word at hand")
    }

    /// What these jumps lead to is emitted later, and comes back to here.
    pub(crate) fn detour(&self, jumps: Jumps) -> Detour {
        Detour::new(self.builder, *self.borrowed, jumps)
    }

    /// The ways in and out of the cache.
    pub(crate) fn gates(&self) -> Gates {
        self.gates
    }

    /// A call into the engine with registers bound.
    pub(crate) fn clean_call(&mut self, request: TracerRequest, target: u64) {
        let exits = &mut self.builder.new_fragment.exits;
        let reason = Reason::exit(self.first_exit.plus(exits.len()));
        self.builder.code.leave(reason, self.gates.exit);
        let mut exit = Exit::new(ExitKind::CleanCall(request.call()), target);
        exit.stub = self.builder.code.here();
        exit.binding = self.binding;
        exits.push(exit);
    }

    /// The words of the record, which are behind its header.
    pub(crate) fn words(&self) -> BufferEntry {
        const HEADER: i32 = 8;
        BufferEntry::bound(self.binding, HEADER)
    }

    /// Where a word lies among them.
    pub(crate) fn place(slot: Slot) -> i32 {
        8 * i32::from(slot)
    }

    /// Stores a register as a word of the record.
    pub(crate) fn store_word(&mut self, slot: Slot, from: Gpr) {
        let words = self.words();
        words.store(&mut self.builder.code, Translation::place(slot), from, 8);
    }
}

/// Emits code that may change the flags. Where they are live they are saved first, and stay
/// saved until an instruction needs them.
pub(crate) fn with_flags(
    translation: &mut Translation,
    live: bool,
    emit: impl FnOnce(&mut Translation),
) {
    translation.borrowed.take_flags(translation.builder, live);
    emit(translation);
}

/// Emits the computation of an operand's address into the scratch register.
pub(crate) fn effective_address(translation: &mut Translation, operand: &MemoryOperand) {
    let scratch = translation.binding.scratch();
    load_address(&mut translation.builder.code, scratch, operand);
}
