//! Indirect branches that do not go through the branch table: those of code beyond it, and all
//! of a program that needs the table's place in the address space for itself.
//!
//! The low 16 bits of a target choose one of 65,536 chains of **thunks**, one thunk for each
//! target. A thunk compares the whole target with its own, and goes on there or at the next
//! thunk. Behind the last one is the miss gate. Emitted code reads a chain while it is made
//! longer: a thunk is complete before the one store that shows it, and then only the target
//! of its last jump changes, which is one store too.

use std::sync::atomic::{AtomicBool, Ordering};

use rustc_hash::FxHashMap;

use crate::cache::patch;
use crate::emit::{Emitter, TARGET, gpr};
use crate::layout::{HASHED_BRANCHES, HASHED_BRANCHES_SIZE};
use crate::slots::{HASH_SPILL, offset};

const CHAINS: u64 = HASHED_BRANCHES_SIZE / 8;

/// The chains of the process. Their memory is not touched before they are used.
#[derive(Default)]
pub struct HashedBranches {
    /// Where a chain ends: gives rcx back, and leaves.
    end: u64,
    /// Where a thunk without code leads.
    miss: u64,
    /// For each target, the field of its thunk's last jump.
    fields: FxHashMap<u64, u32>,
}

/// Whether each chain has an end.
static READY: AtomicBool = AtomicBool::new(false);

/// Whether branches may go through the chains.
#[must_use]
pub fn are_ready() -> bool {
    READY.load(Ordering::Acquire)
}

impl HashedBranches {
    /// Chains that end at `end`; thunks that are cleared lead to `miss`.
    #[must_use]
    pub fn new(end: u64, miss: u64) -> HashedBranches {
        HashedBranches {
            end,
            miss,
            fields: FxHashMap::default(),
        }
    }

    /// Gives each chain its end, before code is made that uses them.
    /// [`crate::layout::reserve`] must have been called.
    pub fn make_ready(&mut self) {
        if !are_ready() {
            (0..CHAINS).for_each(|chain| write(chain, self.end));
            READY.store(true, Ordering::Release);
        }
    }

    /// Sets where branches to `pc` go, with the target's register still borrowed.
    pub fn set(&mut self, pc: u64, code: u64, cold: &mut Emitter) {
        self.make_ready();
        if let Some(&field) = self.fields.get(&pc) {
            patch(field, code as u32);
            return;
        }
        let chain = pc % CHAINS;
        let thunk = cold.here();
        cold.load_immediate(gpr::RCX, pc.wrapping_neg());
        // lea rcx, [rcx + r11]; jrcxz over the jump
        const { assert!(TARGET == 11 && gpr::RCX == 1) };
        cold.bytes(&[0x4a, 0x8d, 0x0c, 0x19, 0xe3, 0x05]);
        cold.jump(read(chain));
        cold.load_slot(gpr::RCX, offset::spill(HASH_SPILL));
        let field = cold.patchable_jump(None, code);
        write(chain, thunk);
        self.fields.insert(pc, field as u32);
    }

    /// Makes branches to `pc` leave the cache.
    pub fn clear(&mut self, pc: u64) {
        if let Some(&field) = self.fields.get(&pc) {
            patch(field, self.miss as u32);
        }
    }

    /// Forgets all thunks, whose room may then be used again: no thread may be in one.
    pub fn clear_all(&mut self, end: u64, miss: u64) {
        (self.end, self.miss) = (end, miss);
        self.fields.clear();
        if are_ready() {
            (0..CHAINS).for_each(|chain| write(chain, end));
        }
    }
}

fn read(chain: u64) -> u64 {
    // SAFETY: the chains are mapped.
    unsafe { std::ptr::read_volatile((HASHED_BRANCHES + chain * 8) as *const u64) }
}

fn write(chain: u64, thunk: u64) {
    // SAFETY: the chains are mapped.
    unsafe { std::ptr::write_volatile((HASHED_BRANCHES + chain * 8) as *mut u64, thunk) };
}
