//! The form that nearly all recipes have, small and quick to follow: the frame is at a register,
//! the return address and saved registers are at fixed distances from it.

use crate::follow::restored;
use crate::recipe::{Cfa, Recipe, Rule};
use crate::registers::{CALLEE_SAVED, RETURN_ADDRESS, RSP, Registers};
use crate::step::{Failure, Step};

/// Such a recipe.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Quick {
    /// The register from which the canonical frame address is counted.
    register: u8,
    /// The bytes from there.
    offset: i32,
    /// For each of [`CALLEE_SAVED`] the words from the canonical frame address to where it is
    /// saved; 0 if it is still in its register. (A function saves nothing above its frame.)
    saved: [i16; CALLEE_SAVED.len()],
}

impl Quick {
    /// That of a function that has just been called.
    pub(crate) const AT_ENTRY: Quick = Quick {
        register: RSP,
        offset: 8,
        saved: [0; CALLEE_SAVED.len()],
    };

    /// The recipe in this form, if it can have it.
    pub(crate) fn of(recipe: &Recipe) -> Option<Quick> {
        let Cfa::Register {
            number: register,
            offset,
        } = recipe.cfa
        else {
            return None;
        };
        let mut quick = Quick {
            register,
            offset,
            ..Quick::AT_ENTRY
        };
        for (number, rule) in (0..).zip(recipe.rules) {
            let column = CALLEE_SAVED.iter().position(|saved| *saved == number);
            match (rule, column) {
                (Rule::AtCfa(-8), _) if number == RETURN_ADDRESS => {}
                (Rule::Same, _) if number != RETURN_ADDRESS => {}
                (Rule::CfaPlus(0), _) if number == RSP => {}
                (Rule::AtCfa(offset), Some(column)) if offset < 0 && offset % 8 == 0 => {
                    quick.saved[column] = i16::try_from(offset / 8).ok()?;
                }
                _ => return None,
            }
        }
        (!recipe.is_signal_frame).then_some(quick)
    }

    /// Makes the registers those of the caller. They are as before after a failure, and where there
    /// is no caller.
    #[inline]
    pub(crate) fn apply(
        &self,
        registers: &mut Registers,
        mut read: impl FnMut(u64) -> Option<u64>,
    ) -> Result<Step<()>, Failure> {
        let base = registers.get(self.register);
        let base = base.ok_or(Failure::RegisterUnknown(self.register))?;
        let cfa = base.wrapping_add_signed(i64::from(self.offset));
        if registers.sp().is_some_and(|sp| cfa <= sp) {
            return Err(Failure::NotAbove);
        }
        let mut word = |offset: i64| {
            let address = cfa.wrapping_add_signed(offset);
            read(address).ok_or(Failure::Unreadable(address))
        };
        let pc = word(-8)?;
        if pc == 0 {
            return Ok(Step::Outermost);
        }
        let mut saved = [0; CALLEE_SAVED.len()];
        for (at, &words) in self.saved.iter().enumerate() {
            if words != 0 {
                saved[at] = match word(i64::from(words) * 8) {
                    Ok(value) => value,
                    Err(failure) => restored(registers, CALLEE_SAVED[at], failure)?,
                };
            }
        }
        registers.return_to(pc, cfa);
        for (at, &value) in saved.iter().enumerate() {
            if self.saved[at] != 0 {
                registers.set(CALLEE_SAVED[at], value);
            }
        }
        Ok(Step::Caller(()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::follow::follow;
    use crate::registers::{RBP, RBX, RSP};

    /// A stack whose words are their own addresses, but for those below `end`.
    fn read_from(end: u64) -> impl FnMut(u64) -> Option<u64> {
        move |address| (address >= end).then_some(address)
    }

    fn frame() -> (Recipe, Registers) {
        let mut recipe = Recipe::with_cfa(Cfa::Register {
            number: RBP,
            offset: 16,
        });
        recipe.rules[usize::from(RBP)] = Rule::AtCfa(-16);
        recipe.rules[12] = Rule::AtCfa(-4096);
        let mut registers = Registers::at(0x40_0000);
        registers.set(0, 1);
        registers.set(RBX, 2);
        registers.set(RBP, 0x7000);
        (recipe, registers)
    }

    #[test]
    fn both_forms_find_the_same_caller() {
        let (recipe, registers) = frame();
        let large = follow(&recipe, &registers, Default::default(), &mut read_from(0));
        let mut quick = registers;
        let form = Quick::of(&recipe).unwrap();
        let stepped = form.apply(&mut quick, read_from(0));
        assert_eq!(stepped, Ok(Step::Caller(())));
        for number in 0..16 {
            let Ok(Step::Caller(large)) = large else {
                panic!("{large:?}");
            };
            assert_eq!(quick.get(number), large.get(number), "{number}");
            assert_eq!(quick.pc, large.pc);
        }
        assert_eq!(
            quick.get(0),
            None,
            "rax belongs to the function that was called"
        );
        assert_eq!(quick.get(RBX), Some(2));
        assert_eq!(quick.get(12), Some(0x7010 - 4096));
    }

    #[test]
    fn a_failure_changes_nothing() {
        let (recipe, registers) = frame();
        let mut after = registers;
        let failed = Quick::of(&recipe).unwrap();
        let failed = failed.apply(&mut after, read_from(0x7000));
        assert_eq!(failed, Err(Failure::Unreadable(0x7010 - 4096)));
        assert_eq!(after, registers);
    }

    #[test]
    fn what_was_popped_and_cannot_be_read_any_more_is_in_its_register() {
        // Before the `ret` of a function that saved rbx and has popped it.
        let mut recipe = Recipe::at_entry();
        recipe.rules[usize::from(RBX)] = Rule::AtCfa(-16);
        let mut registers = Registers::at(0x40_0000);
        registers.set(RSP, 0x7000);
        registers.set(RBX, 2);
        let mut quick = registers;
        let form = Quick::of(&recipe).unwrap();
        assert!(form.apply(&mut quick, read_from(0x7000)).is_ok());
        let large = follow(
            &recipe,
            &registers,
            Default::default(),
            &mut read_from(0x7000),
        );
        let Ok(Step::Caller(large)) = large else {
            panic!("{large:?}");
        };
        assert_eq!((quick.get(RBX), large.get(RBX)), (Some(2), Some(2)));
        // What stands there counts where it can be read.
        let mut quick = registers;
        assert!(form.apply(&mut quick, read_from(0)).is_ok());
        assert_eq!(quick.get(RBX), Some(0x7008 - 16));
    }

    #[test]
    fn other_recipes_are_not_forced_into_it() {
        let (mut recipe, _) = frame();
        recipe.rules[RBX as usize] = Rule::Undefined;
        assert_eq!(Quick::of(&recipe), None);
        let (mut recipe, _) = frame();
        recipe.is_signal_frame = true;
        assert_eq!(Quick::of(&recipe), None);
        let (mut recipe, _) = frame();
        recipe.rules[usize::from(RETURN_ADDRESS)] = Rule::Undefined;
        assert_eq!(Quick::of(&recipe), None);
    }
}
