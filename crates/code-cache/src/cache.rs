//! The code cache: translated fragments, the links between them, and the way back from a
//! cache address to the program.
//!
//! A **fragment** is the translation of one or more contiguous parts of program code. It has
//! one or more **entries** (program addresses at which it can be entered with the program's
//! state in place; those of traces also *bound*, with the trace's registers spilled) and
//! **exits**. Exits to an entry are linked: their jump is patched to go there directly.
//! Indirect branches go through the branch table to **target stubs**, where those registers are
//! spilled that a [`LookupConvention`] says: a bound entry, or code that gives them back and goes on to
//! an entry.
//!
//! Hot code grows from the start of the cache; exits' stubs and target stubs that were wanted
//! later grow from its middle.

mod active;
mod crossings;
mod fragment;
mod inactive;
mod kept_branches;
mod links;
mod lookup;
mod new_fragment;
mod pc_map;
mod positions;
mod room;
mod snapshot;
mod source_ranges;
mod table;

use std::collections::BTreeSet;
use std::ops::Range;

use rustc_hash::{FxHashMap, FxHashSet};
use smallvec::SmallVec;

pub use self::fragment::{FLAGS, Fragment, FragmentId, ModuleIndex, SpillInterval};
use self::inactive::Inactive;
pub use self::inactive::KeptCode;
pub use self::kept_branches::KeptBranches;
pub use self::kept_branches::TargetStub;
use self::links::{EntryIndex, Links};
pub use self::links::{Exit, LinkedEntry};
pub use self::new_fragment::NewFragment;
use self::pc_map::PcMap;
pub use self::positions::Position;
use self::room::Opened;
pub use self::snapshot::Snapshot;
use self::source_ranges::SourceRanges;
pub use self::table::Damaged;
use self::table::Table;
use crate::address::CacheAddress;
use crate::binding::LookupConvention;
use crate::branch_table::BranchTable;
use crate::emit::{Emitter, TableBranch};
use crate::exit::{ExitIndex, Version, Way};
use crate::gates::{GATES_SIZE, Gates};
use crate::hashed_branches::HashedBranches;
use crate::protection::Protection;
use unspool_kernel::layout;

/// Bytes that must be free in either half before a fragment is begun.
const FRAGMENT_ROOM: u64 = 256 << 10;
/// Bytes that must be free in the cold half before anything is linked by new code.
const LINK_ROOM: u64 = 4 << 10;
const PAGE_SHIFT: u64 = 12;

/// The code cache of the process.
pub struct Cache {
    /// The gates.
    pub gates: Gates,
    slots: i32,
    convention: LookupConvention,
    hot: u64,
    cold: u64,
    opened: Opened,
    protection: Protection,
    branches: BranchTable,
    hashed: HashedBranches,
    /// Where branches of the table have been led through chains, and what they were.
    crossings: Vec<(CacheAddress, TableBranch)>,
    links: Links,
    /// The entries that were not kept.
    by_pc: FxHashMap<u64, EntryIndex>,
    /// The entries of code that has two versions, each in a fragment of its own that only the
    /// fragment with the other one leads to.
    versions: FxHashMap<(u64, Version), EntryIndex>,
    fragments: Table<Fragment>,
    /// Whether any of them keeps all program state in place between instructions.
    has_plain: bool,
    pc_map: PcMap,
    source_ranges: SourceRanges,
    spills: Table<SpillInterval>,
    /// Pages whose code is entered only from outside the cache.
    unlinked_pages: FxHashSet<u64>,
    /// Program addresses before which fragments end: a debugger's breakpoints.
    pub stops: BTreeSet<u64>,
    /// The breakpoint at which the fragment that is being made begins nevertheless. It is not
    /// listed among the entries: only the thread that has it made enters it, at `passed`.
    pub passing: Option<u64>,
    /// Where the fragment that begins at a breakpoint is entered.
    pub passed: CacheAddress,
    /// What was taken over from a snapshot and cannot be entered yet.
    inactive: Inactive,
    /// A new fragment whose room can be used again.
    spare: NewFragment,
    /// Bytes that it may use.
    size: u64,
    /// How often it was full and started anew.
    pub flushes: u64,
    /// Program bytes translated so far.
    pub translated_bytes: u64,
}

/// No room is left in the code cache.
#[derive(Debug, thiserror::Error)]
#[error("the code cache is full")]
pub struct CacheFull;

impl Cache {
    /// A cache that holds the gates only. [`unspool_kernel::layout::reserve`] must have been called, and
    /// where there is a branch table, [`unspool_kernel::layout::reserve_branch_table`].
    #[must_use]
    pub fn new(
        slots: i32,
        has_branch_table: bool,
        size: u64,
        convention: LookupConvention,
        emit_gates: impl FnOnce(&mut Emitter) -> Gates,
    ) -> Cache {
        // SAFETY: the range is reserved for the cache, and nothing else writes it yet.
        let mut code = unsafe {
            Emitter::new(
                layout::cache() as *mut u8,
                (layout::cache() + GATES_SIZE) as *mut u8,
                slots,
            )
        };
        let middle = layout::cache() + size / 2;
        let opened = Opened {
            hot: layout::cache(),
            cold: middle,
        }
        .reach(layout::cache() + GATES_SIZE, middle, size);
        if opened.hot == layout::cache() || opened.cold == middle {
            unspool_kernel::diagnostics::fatal("no memory for translated code");
        }
        let gates = emit_gates(&mut code);
        Cache {
            opened,
            protection: Protection::new([layout::cache(), middle]),
            gates,
            branches: BranchTable::new(gates.miss(Way::Jump, convention), has_branch_table),
            hashed: HashedBranches::new(&gates, convention),
            crossings: Vec::new(),
            slots,
            convention,
            hot: layout::cache() + GATES_SIZE,
            cold: layout::cache() + size / 2,
            links: Links::default(),
            by_pc: FxHashMap::default(),
            versions: FxHashMap::default(),
            fragments: Table::default(),
            has_plain: false,
            pc_map: PcMap::default(),
            source_ranges: SourceRanges::default(),
            spills: Table::default(),
            unlinked_pages: FxHashSet::default(),
            stops: BTreeSet::new(),
            passing: None,
            passed: CacheAddress::NOWHERE,
            inactive: Inactive::default(),
            spare: NewFragment::default(),
            size,
            flushes: 0,
            translated_bytes: 0,
        }
    }

    /// Where the half for stubs and late target stubs starts.
    fn middle(&self) -> u64 {
        layout::cache() + self.size / 2
    }

    /// Where the cache ends.
    fn end(&self) -> u64 {
        layout::cache() + self.size
    }

    /// What else than the gates its code depends on: where slots and halves lie, and whether
    /// there is a branch table.
    #[must_use]
    pub fn layout(&self) -> String {
        format!(
            "at {:#x}, slots {:#x}, {} bytes, branch table: {}",
            layout::cache(),
            self.slots,
            self.size,
            self.has_branch_table()
        )
    }

    /// Whether indirect branches of near code go through the branch table.
    #[must_use]
    pub fn has_branch_table(&self) -> bool {
        self.branches.covers(0)
    }

    /// What is bound where indirect branches arrive.
    #[must_use]
    pub fn convention(&self) -> LookupConvention {
        self.convention
    }

    /// Bytes of machine code emitted so far.
    #[must_use]
    pub fn emitted_bytes(&self) -> u64 {
        self.hot - layout::cache() + (self.cold - self.middle())
    }

    /// An emitter for the hot code of a new fragment at a program address, and an empty new fragment
    /// of it.
    ///
    /// # Errors
    /// If there may be too little room.
    pub fn begin(&mut self, pc: u64) -> Result<(Emitter, NewFragment), CacheFull> {
        self.opened = self.opened.reach(self.hot, self.cold, self.size);
        let Opened { hot, cold } = self.opened;
        if hot - self.hot < FRAGMENT_ROOM || cold - self.cold < FRAGMENT_ROOM {
            return Err(CacheFull);
        }
        let limit = hot as *mut u8;
        // SAFETY: the rest of the hot half is free, and the cache is locked while a fragment is made.
        let mut code = unsafe { Emitter::new(self.hot as *mut u8, limit, self.slots) };
        code.hashed = !self.branches.covers(pc);
        if code.hashed {
            self.hashed.make_ready();
        }
        Ok((code, std::mem::take(&mut self.spare)))
    }

    /// Whether there is room for code that links, which is also made when nothing is translated.
    /// Without it branches leave the cache each time, until the next translation finds that
    /// the cache is full.
    fn has_cold_room(&self) -> bool {
        self.opened.cold - self.cold >= LINK_ROOM
    }

    /// An emitter for stubs; give it back to [`Cache::end_cold`].
    pub(crate) fn begin_cold(&self) -> Emitter {
        // SAFETY: as for `begin`.
        unsafe {
            Emitter::new(
                self.cold as *mut u8,
                self.opened.cold as *mut u8,
                self.slots,
            )
        }
    }

    /// Keeps what was emitted into the cold half.
    pub(crate) fn end_cold(&mut self, code: &Emitter) {
        self.cold = code.here().get();
        self.protection.filled_up_to([self.hot, self.cold]);
        self.opened = self.opened.reach(self.hot, self.cold, self.size);
    }

    /// Where an exit of the new fragment will stand, given its place there.
    #[must_use]
    pub fn exit_index(&self, place_in_draft: usize) -> ExitIndex {
        ExitIndex::at(self.links.exits.len() + place_in_draft)
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

    /// The number of the fragment that is being made.
    #[must_use]
    pub fn next_fragment(&self) -> FragmentId {
        FragmentId::at(self.fragments.len())
    }

    /// An exit.
    #[must_use]
    pub fn exit(&self, index: ExitIndex) -> &Exit {
        &self.links.exits[index.place()]
    }

    /// Makes a finished new fragment part of the cache: emits its stubs, links its exits, and
    /// publishes its entries.
    pub fn commit(&mut self, code: &Emitter, mut new_fragment: NewFragment) {
        if let Some(pc) = self.passing {
            self.passed = new_fragment.entries[0].1;
            new_fragment.entries.clear();
            new_fragment
                .target_stubs
                .retain(|&(target_stub, _)| target_stub != pc);
        }
        let start = CacheAddress::emitted(self.hot);
        self.hot = code.here().get().next_multiple_of(16).min(self.middle());
        let fragment = self.next_fragment();
        self.has_plain |= new_fragment.plain;
        let (length, bytes) = self.source_ranges.insert(fragment, &new_fragment);
        self.fragments.push(Fragment {
            pc: new_fragment.pc,
            start,
            end: code.here(),
            length,
            pc_map: self.pc_map.push(&new_fragment),
            spills: self.spills.len() as u32,
            spill_count: new_fragment.spills.len() as u16,
            module: ModuleIndex::NONE,
            live: true,
            plain: new_fragment.plain,
            goes_on: new_fragment.version.is_some(),
            unused: [0; 5],
        });
        self.translated_bytes += bytes;
        self.spills.extend(&new_fragment.spills);
        for &(pc, cache, bound) in &new_fragment.entries {
            let index = self
                .links
                .push_entry(pc, cache, bound, new_fragment.binding);
            match new_fragment.version {
                Some(version) => self.versions.insert((pc, version), index),
                None => self.by_pc.insert(pc, index),
            };
        }
        for &(pc, target_stub) in &new_fragment.target_stubs {
            if self.is_unlinked(pc) {
                continue;
            }
            if self.branches.is_empty_at(pc) {
                self.branches.set(pc, target_stub);
            } else if !self.branches.covers(pc) {
                self.hashed.offer(pc, target_stub);
            }
        }
        self.commit_exits(&mut new_fragment.exits);
        new_fragment.clear();
        self.spare = new_fragment;
    }

    /// Makes all translations of code in a range of program addresses unreachable. Threads
    /// that are inside one leave it at their next exit.
    ///
    /// Returns whether there were any.
    pub fn invalidate(&mut self, range: Range<u64>) -> bool {
        if range.is_empty() {
            return false;
        }
        let mut stale = self.source_ranges.remove(&range);
        stale.extend(self.inactive.fragments_in(range));
        stale.retain(|&fragment| self.is_live(fragment));
        for &fragment in &stale {
            self.retire(fragment);
        }
        !stale.is_empty()
    }

    /// Opens room for much more code, and all that there is: the kernel may refuse to do so later.
    pub fn open_ahead(&mut self) {
        const AHEAD: u64 = 16 << 20;
        self.protection.give_up();
        let (hot, cold) = (self.hot + AHEAD, self.cold + AHEAD);
        self.opened = self.opened.reach(hot, cold, self.size);
    }

    /// Forgets all translations, and uses their room again. Only while no thread is inside.
    pub fn start_anew(&mut self) {
        self.flushes += 1;
        self.empty();
    }

    /// Does without the branch table from now on: all indirect branches of code to come go
    /// through hashed chains. Only while no thread is inside and before [`Cache::start_anew`].
    pub fn give_branch_table_up(&mut self) {
        self.branches.give_up();
    }

    fn empty(&mut self) {
        self.clear(self.convention);
        self.fragments.clear();
        self.links.exits.clear();
        self.crossings.clear();
        self.pc_map.clear();
        self.source_ranges.clear();
        self.spills.clear();
        self.hot = layout::cache() + GATES_SIZE;
        self.cold = self.middle();
        self.protection.start_anew();
    }

    /// Makes all translations unreachable. Only for a process with a single thread that is out
    /// of the cache: a forked child, or a thread about to create the second. Code to come
    /// spills what `convention` says where indirect branches arrive.
    pub fn clear(&mut self, convention: LookupConvention) {
        self.convention = convention;
        self.branches
            .clear_all(self.gates.miss(Way::Jump, convention));
        self.hashed.clear_all(&self.gates, convention);
        self.links.entries.clear();
        self.by_pc.clear();
        self.versions.clear();
        self.source_ranges.forget_places();
        self.inactive = Inactive::default();
        // With nothing active, none that was kept is live.
        for fragment in self.fragments.new_mut() {
            fragment.live = false;
        }
    }

    fn retire(&mut self, id: FragmentId) {
        let fragment = *self.fragment(id);
        self.fragments[id.place()].live = false;
        let held = fragment.start..=fragment.end;
        for version in Version::ALL {
            let key = (fragment.pc, version);
            if let Some(index) = self.version_index(fragment.pc, version)
                && held.contains(&self.links.entries[index.place()].cache)
            {
                self.versions.remove(&key);
                self.unlink(index);
            }
        }
        for pc in self.possible_entries(id) {
            if held.contains(&self.branches.get(pc)) {
                self.branches.clear(pc);
            }
            self.hashed.clear(pc, &mut self.protection);
            let new = self.by_pc.get(&pc).copied();
            let entries: SmallVec<[EntryIndex; 2]> =
                new.into_iter().chain(self.kept_entries(pc)).collect();
            for entry_index in entries {
                let entry = self.links.entries[entry_index.place()];
                if held.contains(&entry.cache) {
                    if new == Some(entry_index) {
                        self.by_pc.remove(&pc);
                    }
                    self.branches.clear(pc);
                    self.unlink(entry_index);
                }
            }
        }
    }

    /// The program addresses at which a fragment may be entered: its instructions, and the places
    /// behind them, where calls may land. A fragment without instructions stands for its address.
    fn possible_entries(&self, id: FragmentId) -> Vec<u64> {
        let mut places = vec![self.fragment(id).pc];
        for step in self.steps(id) {
            let end = step.pc + u64::from(step.length);
            places.extend([step.pc, end]);
        }
        // The end of an instruction is mostly the start of the next.
        places.dedup();
        places
    }
}
