//! The code cache: translated fragments, the links between them, and the way back from a
//! cache address to the program.
//!
//! A **fragment** is the translation of one or more contiguous pieces of program code. It has
//! one or more **entries** (program addresses at which it can be entered with the program's
//! state in place; those of traces also *warm*, with the trace's registers on loan) and
//! **exits**. Exits to an entry are linked: their jump is patched to go there directly.
//! Indirect branches go through the branch table to **landings**, where the registers are on
//! loan that an [`Arrival`] says: a warm entry, or code that gives them back and goes on to
//! an entry.
//!
//! Hot code grows from the start of the cache; exits' stubs and landings that were wanted
//! later grow from its middle.

mod boundaries;
mod origins;
mod snapshot;

use std::ops::Range;

use rustc_hash::{FxHashMap, FxHashSet};

use self::boundaries::{Boundaries, Step, Steps};
use self::origins::Origins;
pub use self::snapshot::Damaged;
use self::snapshot::Sleeping;
use crate::branch_table::BranchTable;
use crate::emit::{Emitter, Gpr};
use crate::exit::{self, ExitKind};
use crate::gates::{GATES_SIZE, Gates};
use crate::hashed_branches::HashedBranches;
use crate::layout::{BRANCH_TABLE, CACHE_BASE};
use crate::warmth::{Arrival, Warmth};

/// Bytes that must be free in either half before a fragment is begun.
const FRAGMENT_ROOM: u64 = 256 << 10;
const PAGE_SHIFT: u64 = 12;

/// A program address at which translated code can be entered.
#[derive(Debug, Clone, Copy)]
pub struct Entry {
    /// The program address.
    pub pc: u64,
    /// The code, to be entered with all program state in place.
    pub cache: u32,
    /// The code to be entered with the trace registers loaded (see [`Warmth`]); 0 if none.
    pub warm: u32,
    /// Which trace registers `warm` expects.
    pub warmth: Warmth,
    /// The first linked exit: its index plus 1.
    incoming: u32,
}

/// An exit of a fragment.
#[derive(Debug, Clone, Copy)]
pub struct Exit {
    /// The program address to go on at.
    pub target: u64,
    /// What it is for.
    pub kind: ExitKind,
    /// The 32-bit field of the jump that leaves with trace registers loaded, or the only
    /// jump where there are none; 0 if it cannot be linked.
    pub field: u32,
    /// The 32-bit field of the jump after the trace registers have been put back; 0 if none.
    pub cold_field: u32,
    /// Where `field` points while not linked: code that puts the registers back, if there
    /// are any, and leaves. For a call into the engine, where the thread goes on afterwards.
    pub stub: u32,
    /// Which trace registers are loaded at `field`.
    pub warmth: Warmth,
    /// For the trace: which check or service this is.
    pub detail: u32,
    /// Whether it is linked to an entry.
    linked: bool,
    /// The next exit linked to the same entry: its index plus 1.
    next_incoming: u32,
}

/// A contiguous piece of the cache.
#[derive(Debug, Clone, Copy)]
pub struct Fragment {
    /// First cache address.
    pub start: u32,
    /// End of its hot code.
    pub end: u32,
    /// Program address of its first instruction.
    pub pc: u64,
    /// Program bytes that follow each other from there on.
    pub length: u32,
    /// Where its boundaries start.
    boundaries: u32,
    /// Where its loans start, and how many there are.
    loans: u32,
    loan_count: u16,
    /// Its trace description, plus 1; 0 if none.
    pub trace: u32,
    /// Whether it may still be entered.
    pub live: bool,
}

/// The number of the flags among borrowed registers: saved as `lahf` and `seto al` leave them.
pub const FLAGS: Gpr = 16;

/// While the cache address is in `start..end` (offsets in the fragment), the program's
/// `register` is in spill slot `slot`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Loan {
    /// First offset.
    pub start: u16,
    /// End offset.
    pub end: u16,
    /// The borrowed register.
    pub register: Gpr,
    /// Where its program value is.
    pub slot: u8,
}

/// Where a cache address lies in the program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Position {
    /// The fragment.
    pub fragment: u32,
    /// The program's instruction.
    pub pc: u64,
    /// Bytes of that instruction.
    pub length: u8,
    /// Its index in the fragment.
    pub index: u32,
    /// Whether the cache address is the first of the instruction's translation.
    pub boundary: bool,
    /// Whether the address is before the first instruction (a prologue).
    pub prologue: bool,
}

impl Position {
    fn before(fragment: u32, step: Step) -> Position {
        Position {
            fragment,
            pc: step.pc,
            length: step.length,
            index: step.number,
            boundary: true,
            prologue: false,
        }
    }
}

/// Everything that is known of one fragment once its code has been emitted.
#[derive(Debug, Default)]
pub struct Draft {
    /// Program address of the first instruction.
    pub pc: u64,
    /// Bytes of hot code before the first instruction's translation.
    pub prologue: u32,
    /// (program bytes, cache bytes) of each instruction.
    pub boundaries: Vec<(u8, u32)>,
    /// The instructions that do not follow the one before them in the program: their numbers
    /// and addresses.
    pub turns: Vec<(u32, u64)>,
    /// Borrowed registers.
    pub loans: Vec<Loan>,
    /// Exits, in order; `field` already emitted with any target.
    pub exits: Vec<Exit>,
    /// Landings of indirect branches: (program address, cache address).
    pub landings: Vec<(u64, u32)>,
    /// Entries: (program address, cache address, warm address or 0).
    pub entries: Vec<(u64, u32, u32)>,
    /// What `warm` addresses expect.
    pub warmth: Warmth,
    /// Trace description, plus 1.
    pub trace: u32,
}

impl Draft {
    /// Makes it as new, except for the room that its parts have.
    fn clear(&mut self) {
        let Draft {
            pc: _,
            prologue: _,
            boundaries,
            turns,
            loans,
            exits,
            landings,
            entries,
            warmth: _,
            trace: _,
        } = self;
        boundaries.clear();
        turns.clear();
        loans.clear();
        exits.clear();
        landings.clear();
        entries.clear();
        (self.pc, self.prologue, self.trace) = (0, 0, 0);
        self.warmth = Warmth::default();
    }
}

impl Exit {
    /// An exit that is a single patchable jump.
    #[must_use]
    pub fn new(kind: ExitKind, target: u64, field: u64) -> Exit {
        Exit {
            target,
            kind,
            field: field as u32,
            cold_field: 0,
            stub: 0,
            warmth: Warmth::default(),
            detail: 0,
            linked: false,
            next_incoming: 0,
        }
    }
}

/// The code cache of the process.
pub struct Cache {
    /// The gates.
    pub gates: Gates,
    slots: i32,
    arrival: Arrival,
    hot: u64,
    cold: u64,
    branches: BranchTable,
    hashed: HashedBranches,
    entries: Vec<Entry>,
    by_pc: FxHashMap<u64, u32>,
    exits: Vec<Exit>,
    fragments: Vec<Fragment>,
    boundaries: Boundaries,
    origins: Origins,
    loans: Vec<Loan>,
    /// Pages whose code is entered only from outside the cache.
    unlinked_pages: FxHashSet<u64>,
    /// What was taken over from a snapshot and cannot be entered yet.
    sleeping: Sleeping,
    /// A draft whose room can be used again.
    spare: Draft,
    /// Bytes that it may use.
    size: u64,
    /// How often it was full and started anew.
    pub flushes: u64,
    /// Program bytes translated so far.
    pub translated_bytes: u64,
    /// Program instructions translated so far.
    pub translated_instructions: u64,
}

/// No room is left in the code cache.
#[derive(Debug, thiserror::Error)]
#[error("the code cache is full")]
pub struct CacheFull;

impl Cache {
    /// A cache that holds the gates only. [`crate::layout::reserve`] must have been called, and
    /// where there is a branch table, [`crate::layout::reserve_branch_table`].
    #[must_use]
    pub fn new(
        slots: i32,
        has_branch_table: bool,
        size: u64,
        arrival: Arrival,
        emit_gates: impl FnOnce(&mut Emitter) -> Gates,
    ) -> Cache {
        // SAFETY: the range is reserved for the cache, and nothing else writes it yet.
        let mut code = unsafe {
            Emitter::new(
                CACHE_BASE as *mut u8,
                (CACHE_BASE + GATES_SIZE) as *mut u8,
                slots,
            )
        };
        let gates = emit_gates(&mut code);
        Cache {
            gates,
            branches: BranchTable::new(gates.miss(arrival), has_branch_table),
            hashed: HashedBranches::new(gates.chain_end(arrival), gates.miss(arrival)),
            slots,
            arrival,
            hot: CACHE_BASE + GATES_SIZE,
            cold: CACHE_BASE + size / 2,
            entries: Vec::new(),
            by_pc: FxHashMap::default(),
            exits: Vec::new(),
            fragments: Vec::new(),
            boundaries: Boundaries::default(),
            origins: Origins::default(),
            loans: Vec::new(),
            unlinked_pages: FxHashSet::default(),
            sleeping: Sleeping::default(),
            spare: Draft::default(),
            size,
            flushes: 0,
            translated_bytes: 0,
            translated_instructions: 0,
        }
    }

    /// Where the half for stubs and late landings starts.
    fn middle(&self) -> u64 {
        CACHE_BASE + self.size / 2
    }

    /// Where the cache ends.
    fn end(&self) -> u64 {
        CACHE_BASE + self.size
    }

    /// What else than the gates its code depends on: where slots, halves and branch table lie.
    #[must_use]
    pub fn layout(&self) -> String {
        format!(
            "slots {:#x}, {} bytes, branch table from {:#x}",
            self.slots,
            self.size,
            if self.branches.covers(0) {
                BRANCH_TABLE
            } else {
                0
            }
        )
    }

    /// Bytes of machine code emitted so far.
    #[must_use]
    pub fn emitted_bytes(&self) -> u64 {
        self.hot - CACHE_BASE + (self.cold - self.middle())
    }

    /// An emitter for the hot code of a new fragment at a program address, and an empty draft
    /// of it.
    ///
    /// # Errors
    /// If there may be too little room.
    pub fn begin(&mut self, pc: u64) -> Result<(Emitter, Draft), CacheFull> {
        if self.middle() - self.hot < FRAGMENT_ROOM || self.end() - self.cold < FRAGMENT_ROOM {
            return Err(CacheFull);
        }
        let limit = self.middle() as *mut u8;
        // SAFETY: the rest of the hot half is free, and the cache is locked while a fragment is made.
        let mut code = unsafe { Emitter::new(self.hot as *mut u8, limit, self.slots) };
        code.hashed = !self.branches.covers(pc);
        if code.hashed {
            self.hashed.make_ready();
        }
        Ok((code, std::mem::take(&mut self.spare)))
    }

    /// An emitter for stubs; give it back to [`Cache::end_cold`].
    pub fn begin_cold(&self) -> Emitter {
        // SAFETY: as for `begin`.
        unsafe { Emitter::new(self.cold as *mut u8, self.end() as *mut u8, self.slots) }
    }

    /// Keeps what was emitted into the cold half.
    pub fn end_cold(&mut self, code: &Emitter) {
        self.cold = code.here();
    }

    /// The id that the next exit of a draft will have, given its index there.
    #[must_use]
    pub fn exit_id(&self, index_in_draft: usize) -> u32 {
        exit::FIRST + (self.exits.len() + index_in_draft) as u32
    }

    /// Code on this page of the program is from now on entered only from outside the cache,
    /// where it can be looked at before.
    pub fn keep_unlinked(&mut self, page: u64) {
        self.unlinked_pages.insert(page >> PAGE_SHIFT);
    }

    /// What is on the pages of a range is gone.
    pub fn allow_links(&mut self, range: &Range<u64>) {
        if !self.unlinked_pages.is_empty() {
            let pages = range.start >> PAGE_SHIFT..range.end.div_ceil(1 << PAGE_SHIFT);
            self.unlinked_pages.retain(|page| !pages.contains(page));
        }
    }

    /// Whether the code at a program address is entered only from outside the cache.
    #[must_use]
    pub fn is_unlinked(&self, pc: u64) -> bool {
        !self.unlinked_pages.is_empty() && self.unlinked_pages.contains(&(pc >> PAGE_SHIFT))
    }

    /// The entry for a program address.
    #[must_use]
    pub fn entry(&self, pc: u64) -> Option<&Entry> {
        self.by_pc
            .get(&pc)
            .map(|&index| &self.entries[index as usize])
    }

    /// The entry for a program address. Where all program state is in place between any two
    /// instructions, any of them becomes an entry when it is wanted.
    pub fn entry_anywhere(&mut self, pc: u64) -> Option<Entry> {
        self.find(pc).map(|index| self.entries[index as usize])
    }

    fn find(&mut self, pc: u64) -> Option<u32> {
        if let Some(&index) = self.by_pc.get(&pc) {
            return Some(index);
        }
        let cache = self.inside(pc)?;
        let index = self.entries.len() as u32;
        self.entries.push(Entry {
            pc,
            cache,
            warm: 0,
            warmth: Warmth::default(),
            incoming: 0,
        });
        self.by_pc.insert(pc, index);
        Some(index)
    }

    /// Whether there is an entry for a program address, or could be.
    #[must_use]
    pub fn knows(&self, pc: u64) -> bool {
        self.by_pc.contains_key(&pc) || self.inside(pc).is_some()
    }

    /// Where a fragment that keeps all program state in place between instructions holds the
    /// instruction at a program address.
    fn inside(&self, pc: u64) -> Option<u32> {
        if self.is_unlinked(pc) {
            return None;
        }
        self.origins.fragments_at(pc).find_map(|index| {
            let fragment = &self.fragments[index as usize];
            let step = Some(index)
                .filter(|_| fragment.live && fragment.trace == 0)
                .and_then(|index| self.steps(index).find(|step| step.pc == pc))?;
            Some(fragment.start + step.start)
        })
    }

    /// The exit with an id from `slots.exit`.
    #[must_use]
    pub fn exit(&self, id: u32) -> &Exit {
        &self.exits[(id - exit::FIRST) as usize]
    }

    /// Makes a finished draft part of the cache: emits its stubs, links its exits, and
    /// publishes its entries.
    pub fn commit(&mut self, code: &Emitter, mut draft: Draft) {
        let start = self.hot as u32;
        self.hot = code.here().next_multiple_of(16).min(self.middle());
        let fragment = self.fragments.len() as u32;
        let (length, bytes) = self.origins.insert(fragment, &draft);
        self.fragments.push(Fragment {
            start,
            end: code.here() as u32,
            pc: draft.pc,
            length,
            boundaries: self.boundaries.push(&draft),
            loans: self.loans.len() as u32,
            loan_count: draft.loans.len() as u16,
            trace: draft.trace,
            live: true,
        });
        self.translated_bytes += bytes;
        self.translated_instructions += draft.boundaries.len() as u64;
        self.loans.extend_from_slice(&draft.loans);
        for &(pc, cache, warm) in &draft.entries {
            let index = self.entries.len() as u32;
            self.entries.push(Entry {
                pc,
                cache,
                warm,
                warmth: draft.warmth,
                incoming: 0,
            });
            self.by_pc.insert(pc, index);
        }
        for &(pc, landing) in &draft.landings {
            if self.branches.is_empty_at(pc) && !self.is_unlinked(pc) {
                self.branches.set(pc, u64::from(landing));
            }
        }
        self.commit_exits(&mut draft.exits);
        draft.clear();
        self.spare = draft;
    }

    fn commit_exits(&mut self, exits: &mut Vec<Exit>) {
        let mut cold = self.begin_cold();
        for mut exit in exits.drain(..) {
            let id = self.exit_id(0);
            if exit.field != 0 {
                exit.stub = cold.here() as u32;
                if exit.warmth != Warmth::default() {
                    exit.warmth.give_back(&mut cold);
                    let here = cold.here();
                    exit.cold_field = cold.patchable_jump(None, here) as u32;
                    patch(exit.cold_field, exit.cold_field + 4);
                }
                cold.leave(id, self.gates.exit);
                patch(exit.field, exit.stub);
            }
            let index = self.exits.len();
            self.exits.push(exit);
            if exit.kind == ExitKind::Direct {
                self.link(index as u32);
            }
        }
        self.end_cold(&cold);
    }

    /// Links an exit to the entry for its target, if there is one. Returns that entry.
    pub fn link_exit(&mut self, id: u32) -> Option<Entry> {
        let index = id - exit::FIRST;
        if self.exits[index as usize].kind == ExitKind::Direct {
            self.link(index);
        }
        self.entry(self.exits[index as usize].target).copied()
    }

    fn link(&mut self, index: u32) {
        let exit = self.exits[index as usize];
        // Several threads may have left by the exit before it was linked.
        if exit.linked || self.is_unlinked(exit.target) {
            return;
        }
        let Some(entry_index) = self.find(exit.target) else {
            return;
        };
        let entry = &mut self.entries[entry_index as usize];
        if exit.cold_field != 0 {
            patch(exit.cold_field, entry.cache);
            if entry.warm != 0 && entry.warmth == exit.warmth {
                patch(exit.field, entry.warm);
            }
        } else if exit.field != 0 {
            patch(exit.field, entry.cache);
        } else {
            return;
        }
        let exit = &mut self.exits[index as usize];
        exit.linked = true;
        exit.next_incoming = entry.incoming;
        entry.incoming = index + 1;
    }

    /// Gives indirect branches to a program address, for which there is an entry, a landing.
    pub fn add_landing(&mut self, pc: u64) {
        if self.is_unlinked(pc) {
            return;
        }
        let Some(&index) = self.by_pc.get(&pc) else {
            return;
        };
        let in_table = self.branches.is_empty_at(pc);
        if !in_table && self.branches.covers(pc) {
            // The branch came from code that does not use the table.
            return self.land_in_chain(pc, self.branches.get(pc));
        }
        let entry = self.entries[index as usize];
        let landing = if entry.warm != 0 && self.arrival.warmth() == entry.warmth {
            u64::from(entry.warm)
        } else {
            let mut cold = self.begin_cold();
            let here = cold.here();
            self.arrival.give_back(&mut cold);
            cold.jump(u64::from(entry.cache));
            self.end_cold(&cold);
            here
        };
        if in_table {
            self.branches.set(pc, landing);
        } else {
            self.land_in_chain(pc, landing);
        }
    }

    fn land_in_chain(&mut self, pc: u64, landing: u64) {
        let mut cold = self.begin_cold();
        self.hashed.set(pc, landing, &mut cold);
        self.end_cold(&cold);
    }

    /// The fragment that holds a cache address.
    #[must_use]
    pub fn fragment_at(&self, address: u64) -> Option<u32> {
        let address = u32::try_from(address).ok()?;
        let after = self
            .fragments
            .partition_point(|fragment| fragment.start <= address);
        let index = after.checked_sub(1)?;
        (address < self.fragments[index].end).then_some(index as u32)
    }

    /// A fragment by its index.
    #[must_use]
    pub fn fragment(&self, index: u32) -> &Fragment {
        &self.fragments[index as usize]
    }

    /// Where a cache address lies in the program; `None` outside fragments' hot code.
    #[must_use]
    pub fn position(&self, address: u64) -> Option<Position> {
        let index = self.fragment_at(address)?;
        let fragment = self.fragments[index as usize];
        let wanted = address as u32 - fragment.start;
        let step = self.steps(index).find(|step| wanted < step.end)?;
        let prologue = wanted < step.start;
        Some(Position {
            boundary: wanted == if prologue { 0 } else { step.start },
            prologue,
            ..Position::before(index, step)
        })
    }

    /// Where the code of a fragment's first instruction starts, behind what prepares it.
    #[must_use]
    pub fn prologue_end(&self, index: u32) -> u64 {
        let fragment = self.fragments[index as usize];
        let first = self.steps(index).next();
        u64::from(first.map_or(fragment.end, |step| fragment.start + step.start))
    }

    fn steps(&self, index: u32) -> Steps<'_> {
        let fragment = &self.fragments[index as usize];
        let turns = self.origins.turns(index);
        self.boundaries
            .steps(fragment.boundaries, fragment.pc, turns)
    }

    /// The position before an instruction, by its number, of the fragment that holds a cache
    /// address.
    #[must_use]
    pub fn position_of(&self, address: u64, wanted: u32) -> Option<Position> {
        let index = self.fragment_at(address)?;
        let step = self.steps(index).nth(wanted as usize)?;
        Some(Position::before(index, step))
    }

    /// The registers that are on loan at a cache address of a fragment.
    pub fn loans_at(&self, fragment: u32, address: u64) -> impl Iterator<Item = Loan> + '_ {
        let fragment = self.fragments[fragment as usize];
        let offset = address as u32 - fragment.start;
        let first = fragment.loans as usize;
        self.loans[first..first + usize::from(fragment.loan_count)]
            .iter()
            .copied()
            .filter(move |loan| (u32::from(loan.start)..u32::from(loan.end)).contains(&offset))
    }

    /// Makes all translations of code in a range of program addresses unreachable. Threads
    /// that are inside one leave it at their next exit.
    ///
    /// Returns whether there were any.
    pub fn invalidate(&mut self, range: Range<u64>) -> bool {
        if range.is_empty() {
            return false;
        }
        let mut stale = self.origins.remove(&range);
        stale.retain(|&index| self.fragments[index as usize].live);
        for &index in &stale {
            self.retire(index);
        }
        !stale.is_empty()
    }

    /// Forgets all translations, and uses their room again. Only while no thread is inside.
    pub fn start_anew(&mut self) {
        self.flushes += 1;
        self.empty();
    }

    fn empty(&mut self) {
        self.clear(self.arrival);
        self.fragments.clear();
        self.exits.clear();
        self.boundaries.clear();
        self.origins.clear();
        self.loans.clear();
        self.hot = CACHE_BASE + GATES_SIZE;
        self.cold = self.middle();
    }

    /// Makes all translations unreachable. Only for a process with a single thread that is out
    /// of the cache: a forked child, or a thread about to create the second. Code to come
    /// has `arrival` on loan where indirect branches arrive.
    pub fn clear(&mut self, arrival: Arrival) {
        self.arrival = arrival;
        self.branches.clear_all(self.gates.miss(arrival));
        self.hashed
            .clear_all(self.gates.chain_end(arrival), self.gates.miss(arrival));
        self.entries.clear();
        self.by_pc.clear();
        self.origins.forget_places();
        self.sleeping = Sleeping::default();
        for fragment in &mut self.fragments {
            fragment.live = false;
        }
    }

    fn retire(&mut self, index: u32) {
        let fragment = self.fragments[index as usize];
        self.fragments[index as usize].live = false;
        let held = u64::from(fragment.start)..=u64::from(fragment.end);
        let whole = fragment.pc..fragment.pc + u64::from(fragment.length.max(1));
        let pieces = self.origins.pieces(index);
        let pieces = pieces.map_or_else(|| vec![whole], <[_]>::to_vec);
        // The place behind a piece may be where a call's return lands.
        for pc in pieces.into_iter().flat_map(|piece| piece.start..=piece.end) {
            if held.contains(&self.branches.get(pc)) {
                self.branches.clear(pc);
            }
            self.hashed.clear(pc);
            let Some(&entry_index) = self.by_pc.get(&pc) else {
                continue;
            };
            let entry = self.entries[entry_index as usize];
            if held.contains(&u64::from(entry.cache)) {
                self.by_pc.remove(&pc);
                self.branches.clear(pc);
                self.unlink_incoming(entry_index);
            }
        }
    }

    fn unlink_incoming(&mut self, entry_index: u32) {
        let mut next = std::mem::take(&mut self.entries[entry_index as usize].incoming);
        while next != 0 {
            let exit = &mut self.exits[next as usize - 1];
            next = std::mem::take(&mut exit.next_incoming);
            exit.linked = false;
            patch(exit.field, exit.stub);
            if exit.cold_field != 0 {
                patch(exit.cold_field, exit.cold_field + 4);
            }
        }
    }
}

/// Points the 32-bit field of a jump to `target`, atomically with respect to threads that run it.
pub(crate) fn patch(field: u32, target: u32) {
    let distance = target.wrapping_sub(field + 4);
    // SAFETY: the field belongs to a jump of the cache and does not cross a cache line, so
    // the store is seen whole. It need not be aligned, so it is the machine's store, not Rust's.
    unsafe {
        std::arch::asm!(
            "mov dword ptr [{field}], {distance:e}",
            field = in(reg) u64::from(field),
            distance = in(reg) distance,
            options(nostack, preserves_flags)
        );
    }
}
