//! Registers that inserted code spills for a moment.

use unspool_code_cache::emit::{Emitter, Gpr, TARGET, gpr};
use unspool_code_cache::slots::offset;

use unspool_engine::translate::superblock::Item;

/// The spill slots of scratch registers, which nothing else uses.
pub(super) const FIRST_SPILL: u8 = 8;
/// See [`FIRST_SPILL`].
pub(super) const SECOND_SPILL: u8 = 9;

/// Two registers that may be spilled for a moment.
#[derive(Debug, Clone, Copy)]
pub(super) struct Scratch {
    pub(super) registers: [Gpr; 2],
    /// Whether the value of the first is kept elsewhere, and brought back from there.
    first_is_free: bool,
}

impl Scratch {
    /// Registers that an instruction does not touch, since it may be half emitted.
    pub(super) fn beside(item: Option<&Item>) -> Scratch {
        Scratch::without(item.map_or(0, |item| item.uses().read | item.uses().written))
    }

    /// Registers that are not in a mask.
    ///
    /// # Panics
    /// If there are not two.
    pub(super) fn without(touched: u16) -> Scratch {
        Scratch::outside(touched).expect("an instruction touches six registers at most")
    }

    /// The same; `None` if there are not two.
    pub(super) fn outside(touched: u16) -> Option<Scratch> {
        let mut untouched = [gpr::RCX, gpr::RDX, gpr::RBX, gpr::RSI, gpr::RDI, 8, 9, 10]
            .into_iter()
            .filter(|register| touched & 1 << register == 0);
        Some(Scratch {
            registers: [untouched.next()?, untouched.next()?],
            first_is_free: false,
        })
    }

    /// The register of an indirect branch's target, whose value is in its slot already.
    pub(super) fn target() -> Scratch {
        Scratch {
            registers: [TARGET, gpr::RCX],
            first_is_free: true,
        }
    }

    /// Keeps the program's values of the first `count`.
    pub(super) fn spill(self, code: &mut Emitter, count: usize) {
        for (register, slot) in self.spilled(count) {
            code.store_slot(slot, register);
        }
    }

    /// Brings them back.
    pub(super) fn restore(self, code: &mut Emitter, count: usize) {
        for (register, slot) in self.spilled(count) {
            code.load_slot(register, slot);
        }
    }

    /// Which of them are spilled, with their slots, if `count` are needed.
    pub(super) fn spilled(self, count: usize) -> impl Iterator<Item = (Gpr, i32)> {
        const SPILLS: [u8; 2] = [FIRST_SPILL, SECOND_SPILL];
        let all = self.registers.into_iter().zip(SPILLS).take(count);
        all.skip(usize::from(self.first_is_free))
            .map(|(register, spill)| (register, offset::spill(spill)))
    }
}
