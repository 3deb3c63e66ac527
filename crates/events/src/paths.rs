//! The superblocks that are known, by path id, ready to turn records into accesses.

use std::sync::Arc;

use rustc_hash::FxHashMap;

use crate::id::PathId;
use crate::superblock::{Extent, Operand, Slot, Superblock};

/// Looks up paths. Shared by those who count records and those who read them.
#[derive(Debug, Default)]
pub(crate) struct PathTable {
    paths: FxHashMap<u32, KnownPath>,
}

/// A path, and the code it runs through.
#[derive(Debug, Clone)]
pub(crate) struct KnownPath {
    /// The code of its superblock.
    pub(crate) code: Arc<Code>,
    /// How many accessing instructions of the superblock are on the path.
    pub(crate) accessing: usize,
    /// How many instructions of any kind are.
    pub(crate) executed: u64,
}

/// The accessing instructions of a superblock, with all operands in one piece.
#[derive(Debug)]
pub(crate) struct Code {
    instructions: Vec<Instruction>,
    operands: Vec<Operand>,
    /// For each number of instructions from the start: how many accesses they make, where
    /// that is known from the code alone.
    fixed_accesses: Vec<Option<u64>>,
    has_tickets: bool,
}

/// An accessing instruction.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Instruction {
    /// Its address.
    pub(crate) pc: u64,
    /// Whether it is atomic.
    pub(crate) atomic: bool,
    /// The word that holds its ticket.
    pub(crate) ticket: Option<Slot>,
    /// The word that says whether its compare-and-swap succeeded.
    pub(crate) cas_success: Option<Slot>,
    first_operand: u32,
    end_operand: u32,
}

impl Instruction {
    /// The ticket it drew in a record with these words.
    #[inline]
    pub(crate) fn ticket_in(&self, words: &[u64]) -> Option<u64> {
        self.ticket
            .and_then(|slot| words.get(usize::from(slot)).copied())
    }
}

impl PathTable {
    /// Adds a superblock's paths. One that is there already keeps its first meaning.
    pub(crate) fn add(&mut self, superblock: &Superblock) {
        let code = Arc::new(Code::new(superblock));
        for (id, path) in (superblock.first_path.0..=u32::MAX).zip(&superblock.paths) {
            self.paths.entry(id).or_insert_with(|| KnownPath {
                code: Arc::clone(&code),
                accessing: usize::from(path.accessing).min(code.instructions.len()),
                executed: u64::from(path.executed),
            });
        }
    }

    /// The path with this id.
    pub(crate) fn get(&self, path: PathId) -> Option<&KnownPath> {
        self.paths.get(&path.0)
    }
}

impl Code {
    fn new(superblock: &Superblock) -> Code {
        let mut operands = Vec::new();
        let mut instructions = Vec::with_capacity(superblock.instructions.len());
        let mut accesses = Some(0);
        let mut fixed_accesses = vec![accesses];
        for instruction in &superblock.instructions {
            let first_operand = operands.len() as u32;
            operands.extend(instruction.operands.iter().cloned());
            instructions.push(Instruction {
                pc: instruction.pc,
                atomic: instruction.atomic,
                ticket: instruction.ticket,
                cas_success: instruction.cas_success,
                first_operand,
                end_operand: operands.len() as u32,
            });
            let plain = instruction
                .operands
                .iter()
                .all(|operand| operand.extent == Extent::Plain);
            accesses = accesses
                .filter(|_| plain)
                .map(|sum| sum + instruction.operands.len() as u64);
            fixed_accesses.push(accesses);
        }
        let has_tickets = instructions
            .iter()
            .any(|instruction| instruction.ticket.is_some());
        Code {
            instructions,
            operands,
            fixed_accesses,
            has_tickets,
        }
    }

    /// Its accessing instructions.
    pub(crate) fn instructions(&self) -> &[Instruction] {
        &self.instructions
    }

    /// The operands of one of its instructions.
    pub(crate) fn operands(&self, instruction: &Instruction) -> &[Operand] {
        &self.operands[instruction.first_operand as usize..instruction.end_operand as usize]
    }

    /// How many accesses the first `instructions` instructions make, where that does not
    /// depend on recorded words.
    pub(crate) fn fixed_accesses(&self, instructions: usize) -> Option<u64> {
        self.fixed_accesses.get(instructions).copied().flatten()
    }

    /// Whether any instruction draws tickets.
    pub(crate) fn has_tickets(&self) -> bool {
        self.has_tickets
    }
}
