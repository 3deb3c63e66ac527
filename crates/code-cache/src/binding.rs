//! The registers of the program that a trace uses for itself.
//!
//! Code of a traced program keeps the position in the trace buffer in a register, uses a
//! second one as scratch and, in line-atomic order, holds this thread's owner word in a
//! third. The program's values wait in spill slots. Code that leaves with the same registers
//! spilled that the code after it wants leaves them as they are.

use crate::emit::{Emitter, Gpr, TARGET, gpr};
use crate::slots::{BOUND_SPILLS, Slots, TARGET_SPILL, offset};

/// The spill slot of the register that serves as scratch.
const SCRATCH_SPILL: u8 = BOUND_SPILLS[1];

/// Which registers are spilled.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[repr(transparent)]
pub struct RegisterBinding {
    /// The registers: that of the buffer in the low four bits, then those for scratch and
    /// the owner word; 0 for none (rax never serves).
    registers: u16,
}

/// What the registers are for, in the order of their spill slots. Each has a register that
/// it takes if it can: a thread mostly keeps the same ones spilled then, and indirect
/// branches always arrive with these. Scratch holds the target of an indirect branch.
const USUAL: [Gpr; 3] = [10, TARGET, 9];
/// What else can be spilled: registers that compilers use last come first. rax and rcx
/// have other duties.
const OTHERS: [Gpr; 10] = [
    8,
    15,
    14,
    13,
    12,
    gpr::RBX,
    gpr::RBP,
    gpr::RDI,
    gpr::RSI,
    gpr::RDX,
];

impl RegisterBinding {
    /// The `count` registers with which indirect branches arrive.
    #[must_use]
    pub fn usual(count: usize) -> RegisterBinding {
        RegisterBinding::of(&USUAL[..count])
    }

    /// `count` registers for code that touches those of a mask; `None` if it touches too many.
    #[must_use]
    pub fn for_code(touched: u16, count: usize) -> Option<RegisterBinding> {
        let is_free = |register: &Gpr| touched & 1 << register == 0;
        let mut others = USUAL[count..]
            .iter()
            .chain(&OTHERS)
            .copied()
            .filter(is_free);
        let mut chosen = [0; 3];
        for (place, usual) in chosen.iter_mut().zip(USUAL).take(count) {
            *place = Some(usual).filter(is_free).or_else(|| others.next())?;
        }
        Some(RegisterBinding::of(&chosen[..count]))
    }

    fn of(registers: &[Gpr]) -> RegisterBinding {
        let registers = registers
            .iter()
            .rev()
            .fold(0, |packed, &register| packed << 4 | u16::from(register));
        RegisterBinding { registers }
    }

    /// The register that holds the trace buffer's position.
    #[must_use]
    pub fn buffer(self) -> Gpr {
        (self.registers & 15) as Gpr
    }

    /// The scratch register.
    #[must_use]
    pub fn scratch(self) -> Gpr {
        (self.registers >> 4 & 15) as Gpr
    }

    /// The register that holds the owner word, if one does.
    #[must_use]
    pub fn owner(self) -> Option<Gpr> {
        Some((self.registers >> 8 & 15) as Gpr).filter(|&register| register != 0)
    }

    /// All registers, each with the spill slot of its program value.
    pub fn all(self) -> impl Iterator<Item = (Gpr, u8)> {
        [Some(self.buffer()), Some(self.scratch()), self.owner()]
            .into_iter()
            .zip(BOUND_SPILLS)
            .filter_map(|(register, slot)| Some((register?, slot)))
    }

    /// All registers, as a mask.
    #[must_use]
    #[inline]
    pub fn mask(self) -> u16 {
        let owner = self.owner().map_or(0, |register| 1 << register);
        1 << self.buffer() | 1 << self.scratch() | owner
    }

    /// Emits the borrowing of all registers.
    pub fn spill(self, code: &mut Emitter) {
        for (register, slot) in self.all() {
            code.store_slot(offset::spill(slot), register);
        }
        code.load_slot(self.buffer(), offset::BUFFER);
        if let Some(owner) = self.owner() {
            code.load_slot(owner, offset::OWNER_WORD);
        }
    }

    /// Emits the exchange of these registers for as many others. Scratch loses its content.
    ///
    /// What passes from register to register arrives sooner than through the slots, and the
    /// thread's next record waits for it.
    pub(crate) fn exchange(self, to: RegisterBinding, code: &mut Emitter) {
        let is_reused =
            |(register, slot)| self.all().any(|(own, its)| own == register && its != slot);
        if to.all().any(is_reused) {
            self.restore(code);
            to.spill(code);
            return;
        }
        let scratch = self.scratch();
        for ((own, slot), (other, _)) in self.all().zip(to.all()) {
            if own != other && own != scratch {
                code.copy(scratch, own);
                code.load_slot(own, offset::spill(slot));
                code.store_slot(offset::spill(slot), other);
                code.copy(other, scratch);
            }
        }
        if scratch != to.scratch() {
            let slot = offset::spill(SCRATCH_SPILL);
            code.load_slot(scratch, slot);
            code.store_slot(slot, to.scratch());
        }
    }

    /// Emits the exchange of these registers for others, where scratch keeps its content.
    pub fn exchange_all(self, to: RegisterBinding, code: &mut Emitter) {
        let content = offset::spill(TARGET_SPILL);
        code.store_slot(content, self.scratch());
        self.exchange(to, code);
        code.load_slot(to.scratch(), content);
    }

    /// Emits the return of all registers.
    pub fn restore(self, code: &mut Emitter) {
        code.store_slot(offset::BUFFER, self.buffer());
        for (register, slot) in self.all() {
            code.load_slot(register, offset::spill(slot));
        }
    }
}

impl Slots {
    /// Puts the program's value of the register of targets into its slot, too. Translated code without
    /// bound registers relies on it that it is there wherever a fragment is entered or left: an indirect
    /// branch then needs no store before it uses the register, and what loads it where the branch arrives
    /// does not wait for one.
    #[inline]
    pub fn keep_target(&self) {
        self.spills[usize::from(TARGET_SPILL)].set(self.registers[usize::from(TARGET)].get());
    }
}

/// What indirect branches have spilled where they arrive.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LookupConvention {
    /// The register of the target.
    Plain,
    /// The usual registers of a trace.
    Traced,
    /// The usual registers of a trace whose code checks owners.
    Checked,
}

impl LookupConvention {
    /// All there are, in the order of their numbers.
    pub(crate) const ALL: [LookupConvention; 3] = [
        LookupConvention::Plain,
        LookupConvention::Traced,
        LookupConvention::Checked,
    ];

    /// The trace registers.
    #[must_use]
    pub fn binding(self) -> RegisterBinding {
        match self {
            LookupConvention::Plain => RegisterBinding::default(),
            LookupConvention::Traced => RegisterBinding::usual(2),
            LookupConvention::Checked => RegisterBinding::usual(3),
        }
    }

    /// Emits the return of all that is spilled.
    pub fn restore(self, code: &mut Emitter) {
        match self {
            LookupConvention::Plain => code.load_slot(TARGET, offset::spill(TARGET_SPILL)),
            LookupConvention::Traced | LookupConvention::Checked => self.binding().restore(code),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::RegisterBinding;

    #[test]
    fn usual_registers_keep_their_duties() {
        assert_eq!(
            RegisterBinding::for_code(0, 3),
            Some(RegisterBinding::usual(3))
        );
        let without_buffer = RegisterBinding::for_code(1 << 10, 2).unwrap();
        assert_eq!(
            without_buffer.scratch(),
            RegisterBinding::usual(2).scratch()
        );
        assert_eq!(without_buffer.buffer(), 9);
        assert_eq!(without_buffer.owner(), None);
    }

    #[test]
    fn a_register_has_one_duty() {
        for touched in 0..=u16::MAX {
            let Some(binding) = RegisterBinding::for_code(touched, 3) else {
                continue;
            };
            let registers: Vec<u8> = binding.all().map(|(register, _)| register).collect();
            assert_eq!(registers.len(), 3);
            assert!(
                registers
                    .iter()
                    .all(|register| touched & 1 << register == 0)
            );
            assert!(registers[0] != registers[1] && registers[1] != registers[2]);
            assert_ne!(registers[0], registers[2]);
        }
    }
}
