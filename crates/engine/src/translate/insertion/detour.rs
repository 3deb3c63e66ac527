//! Code away from the straight path.
//!
//! What is done rarely stands behind all paths ([`Inserter::finish`](super::Inserter::finish)): a
//! jump leads there, and it comes back to where the jump was.

use smallvec::SmallVec;
use unspool_code_cache::address::CacheAddress;
use unspool_code_cache::emit::Emitter;

use super::borrowed::Borrowed;
use super::walk::Walk;
use crate::translate::copy::Builder;

/// The fields of jumps that lead to one place.
pub type Jumps = SmallVec<[CacheAddress; 2]>;

/// Code that is still to be emitted, and where it comes from and goes to.
#[derive(Debug)]
pub struct Detour {
    jumps: Jumps,
    back: CacheAddress,
    borrowed: Borrowed,
}

impl Detour {
    /// Where these jumps lead is emitted later; it comes back to here.
    pub fn new(builder: &Builder, borrowed: Borrowed, jumps: Jumps) -> Detour {
        Detour {
            jumps,
            back: builder.code.here(),
            borrowed,
        }
    }

    /// Begins here. What is borrowed stays so, and what is bound.
    pub fn land(&self, code: &mut Emitter) {
        for &jump in &self.jumps {
            code.land(jump);
        }
    }

    /// Where it goes to.
    pub fn back(&self) -> CacheAddress {
        self.back
    }

    /// Begins here, and all program state is in place, but for what is bound.
    pub fn begin(&self, code: &mut Emitter) {
        self.land(code);
        self.borrowed.restore(code);
    }

    /// Begins here, and inserted code goes on with what is borrowed: it may borrow more, and give
    /// some of it back. Ends by [`Detour::rejoin`].
    pub fn enter(&self, walk: &mut Walk) {
        self.land(&mut walk.builder.code);
        walk.borrowed = self.borrowed.begun_here(&walk.builder);
    }

    /// Ends here, with the program's registers and flags as they were where it began, in place or
    /// borrowed.
    pub fn rejoin(&self, walk: &mut Walk) {
        let borrowed = std::mem::take(&mut walk.borrowed);
        borrowed.become_as(&mut walk.builder, &self.borrowed);
        walk.builder.code.jump(self.back);
    }

    /// Ends here, with all program state in place. The registers of a mask may have been changed, and
    /// with all of them the flags.
    pub fn end(&self, code: &mut Emitter, changed: u16) {
        self.borrowed.spill(code, changed);
        code.jump(self.back);
    }
}
