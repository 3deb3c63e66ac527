//! Indirect branches that do not go through the branch table: those of code beyond it, those
//! that have met targets beyond it, and all of a program that needs the table's place in the
//! address space for itself.
//!
//! The low 16 bits of a target choose one of 65,536 chains of **thunks**, one thunk for each
//! target. A thunk compares the whole target with its own, and goes on there or at the next
//! thunk. Behind the last one is the miss gate. Emitted code reads a chain while it is made
//! longer: a thunk is complete before the one store that shows it, and then only the target
//! of its last instruction changes, which is one store too.
//!
//! Returns that are paired with calls have chains of their own, whose thunks end with a `ret`:
//! so the processor predicts it from the call.

use std::sync::atomic::{AtomicBool, Ordering};

use rustc_hash::FxHashMap;
use unspool_kernel::diagnostics;
use unspool_kernel::layout::{self, HASHED_BRANCHES_SIZE};

use crate::address::CacheAddress;
use crate::binding::LookupConvention;
use crate::emit::{Emitter, TARGET, gpr};
use crate::exit::Way;
use crate::gates::Gates;
use crate::protection::Protection;
use crate::slots::{HASH_SPILL, offset};

const CHAINS: u64 = HASHED_BRANCHES_SIZE / 8;

/// The chains of the process. Their memory is not touched before they are used.
#[derive(Default)]
pub(crate) struct HashedBranches {
    /// For each way where a chain ends: gives rcx back, and leaves.
    ends: [CacheAddress; Way::ALL.len()],
    /// For each way where a thunk without code leads.
    misses: [CacheAddress; Way::ALL.len()],
    /// For each target of each way, the field of its thunk's last instruction.
    fields: FxHashMap<(Way, u64), CacheAddress>,
    /// Target stubs that fragments have for targets beyond the table, until they are wanted.
    offered: FxHashMap<u64, CacheAddress>,
}

/// Whether each chain has an end.
static READY: AtomicBool = AtomicBool::new(false);

fn are_ready() -> bool {
    READY.load(Ordering::Acquire)
}

impl HashedBranches {
    /// Chains without thunks.
    #[must_use]
    pub(crate) fn new(gates: &Gates, convention: LookupConvention) -> HashedBranches {
        HashedBranches {
            ends: Way::ALL.map(|way| gates.chain_end(way, convention)),
            misses: Way::ALL.map(|way| gates.miss(way, convention)),
            ..HashedBranches::default()
        }
    }

    /// Gives each chain its end, before code is made that uses them.
    /// [`unspool_kernel::layout::reserve`] must have been called.
    pub(crate) fn make_ready(&mut self) {
        if !are_ready() {
            let size = Way::ALL.len() as u64 * HASHED_BRANCHES_SIZE;
            if let Err(error) = layout::open(layout::hashed_branches(), size) {
                diagnostics::fatal(&format!("no memory for branches to far code: {error}"));
            }
            self.end_all();
            READY.store(true, Ordering::Release);
        }
    }

    fn end_all(&self) {
        for (way, end) in Way::ALL.into_iter().zip(self.ends) {
            (0..CHAINS).for_each(|chain| write(way, chain, end));
        }
    }

    /// A fragment has a target stub for branches to `pc`.
    pub(crate) fn offer(&mut self, pc: u64, target_stub: CacheAddress) {
        self.offered.insert(pc, target_stub);
    }

    /// The target stub for branches to `pc` that a fragment has.
    #[must_use]
    pub(crate) fn offered(&self, pc: u64) -> Option<CacheAddress> {
        self.offered.get(&pc).copied()
    }

    /// Sets where branches to `pc` go, with the target's register still spilled.
    pub(crate) fn set(
        &mut self,
        (way, pc): (Way, u64),
        code: CacheAddress,
        (cold, protection): (&mut Emitter, &mut Protection),
    ) {
        self.make_ready();
        if let Some(&field) = self.fields.get(&(way, pc)) {
            point(way, field, code, protection);
            return;
        }
        let chain = pc % CHAINS;
        let thunk = cold.here();
        cold.load_immediate(gpr::RCX, pc.wrapping_neg());
        // lea rcx, [rcx + r11]; jrcxz over the jump
        const { assert!(TARGET == 11 && gpr::RCX == 1) };
        cold.bytes(&[0x4a, 0x8d, 0x0c, 0x19, 0xe3, 0x05]);
        cold.jump(read(way, chain));
        cold.load_slot(gpr::RCX, offset::spill(HASH_SPILL));
        let field = match way {
            Way::Jump => cold.patchable_jump(None, code),
            Way::Return => cold.patchable_return(code),
        };
        write(way, chain, thunk);
        self.fields.insert((way, pc), field);
    }

    /// Makes branches to `pc` leave the cache.
    pub(crate) fn clear(&mut self, pc: u64, protection: &mut Protection) {
        self.offered.remove(&pc);
        for way in Way::ALL {
            if let Some(&field) = self.fields.get(&(way, pc)) {
                point(way, field, self.misses[way as usize], protection);
            }
        }
    }

    /// Forgets all thunks, whose room may then be used again: no thread may be in one.
    pub(crate) fn clear_all(&mut self, gates: &Gates, convention: LookupConvention) {
        *self = HashedBranches::new(gates, convention);
        if are_ready() {
            self.end_all();
        }
    }
}

/// Points the last instruction of a thunk elsewhere.
fn point(way: Way, field: CacheAddress, code: CacheAddress, protection: &mut Protection) {
    match way {
        Way::Jump => protection.patch(field, code),
        // The address itself is pushed, not the distance to it.
        Way::Return => protection.set_field(field, code.get() as u32),
    }
}

fn read(way: Way, chain: u64) -> CacheAddress {
    // SAFETY: the chains are mapped.
    let thunk = unsafe { std::ptr::read_volatile((way.chains() + chain * 8) as *const u64) };
    CacheAddress::emitted(thunk)
}

fn write(way: Way, chain: u64, thunk: CacheAddress) {
    // SAFETY: the chains are mapped.
    unsafe { std::ptr::write_volatile((way.chains() + chain * 8) as *mut u64, thunk.get()) };
}
