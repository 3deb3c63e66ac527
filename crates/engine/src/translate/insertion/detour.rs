//! Code away from the straight path.
//!
//! What is done rarely stands behind all paths ([`Inserter::finish`](super::Inserter::finish)): a
//! jump leads there, and it comes back to where the jump was.

use smallvec::SmallVec;
use unspool_code_cache::address::CacheAddress;
use unspool_code_cache::emit::Emitter;

use super::borrowed::Borrowed;
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

    /// Ends here, with all program state in place. The registers of a mask may have been changed, and
    /// with all of them the flags.
    pub fn end(&self, code: &mut Emitter, changed: u16) {
        self.borrowed.spill(code, changed);
        code.jump(self.back);
    }
}
