//! Additions to counters that lie at fixed places from the thread pointer.

use unspool_code_cache::emit::{Emitter, Gpr};

use super::walk::Walk;
use crate::translate::item::Item;

/// What is added to the counters in slots: (slot, amount) of each.
pub(crate) type Additions = [(i32, i64)];

impl Walk<'_> {
    /// Emits additions before the copy of an instruction, or where no instruction follows. One each
    /// if the flags may change there; else by way of a register.
    pub fn add(&mut self, additions: &Additions, flags_live: bool, item: Option<&Item>) {
        let sum = (!self.flags_are_free(flags_live)).then(|| {
            let touched = item.map_or(0, |item| item.uses().read | item.uses().written);
            let [sum] = self.take_registers(touched);
            sum
        });
        emit(&mut self.builder.code, additions, sum);
    }
}

/// Emits additions: by way of a register, or, without one, such that they change the flags.
pub fn emit(code: &mut Emitter, additions: &Additions, sum: Option<Gpr>) {
    for &(slot, amount) in additions {
        for part in parts(amount) {
            match sum {
                Some(sum) => {
                    code.load_slot(sum, slot);
                    code.lea(sum, sum, part);
                    code.store_slot(slot, sum);
                }
                None => code.add_to_slot(slot, part),
            }
        }
    }
}

/// An amount in parts as immediates have them.
fn parts(amount: i64) -> impl Iterator<Item = i32> {
    let mut left = amount;
    std::iter::from_fn(move || {
        let part = left.clamp(i64::from(i32::MIN), i64::from(i32::MAX));
        left -= part;
        (part != 0).then_some(part as i32)
    })
}

#[cfg(test)]
mod tests;
