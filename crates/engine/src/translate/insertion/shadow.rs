//! Words of shadow memory: one for each granule of the program's, found by its address.
//!
//! A check is: the word is found ([`ShadowLayout::find`]) and compared, and a jump is taken to a
//! [`Detour`](super::detour::Detour) where it is not what it should be.

use unspool_code_cache::emit::{Address, Emitter, Gpr};

/// Where the shadow word of an address lies.
#[derive(Debug, Clone, Copy)]
pub struct ShadowLayout {
    /// Where that of granule 0 lies.
    pub base: u64,
    /// log₂ of the bytes of a granule.
    pub shift: u8,
    /// How many bits of a granule's number count, if not all that its address has.
    pub bits: Option<u8>,
    /// Bytes of a word: 1, 2, 4 or 8.
    pub word: u8,
}

/// A shadow word that was found: what emitted code names it by.
#[derive(Debug, Clone, Copy)]
pub struct ShadowWord {
    address: Address,
}

impl ShadowLayout {
    /// The word of an address that is known, if code can name it by its address.
    pub fn known(&self, address: u64) -> Option<ShadowWord> {
        let number = address >> self.shift;
        let number = self.bits.map_or(number, |bits| number & ((1 << bits) - 1));
        let word = number.wrapping_mul(u64::from(self.word));
        let displacement = i32::try_from(self.base.wrapping_add(word)).ok()?;
        let address = Address {
            base: None,
            index: None,
            displacement,
        };
        Some(ShadowWord { address })
    }

    /// Emits what loads the base into a register.
    pub fn load_base(&self, code: &mut Emitter, to: Gpr) {
        code.load_immediate(to, self.base);
    }

    /// Emits what makes an address in a register the number of its granule, and changes the flags.
    /// `base`: the register of the base, if it is not near.
    pub fn find(&self, code: &mut Emitter, number: Gpr, base: Option<Gpr>) -> ShadowWord {
        let (left, right) = self.shifts();
        if left != 0 {
            code.shift_by(false, number, left);
        }
        code.shift_by(true, number, right);
        self.word_of(number, base)
    }

    /// By how much an address is shifted to the left, and then to the right.
    fn shifts(&self) -> (u8, u8) {
        match self.bits {
            Some(bits) => (64 - bits - self.shift, 64 - bits),
            None => (0, self.shift),
        }
    }

    /// The word of a granule whose number is in a register.
    pub fn word_of(&self, number: Gpr, base: Option<Gpr>) -> ShadowWord {
        let address = Address {
            base,
            index: Some((number, self.word)),
            displacement: match base {
                Some(_) => 0,
                None => i32::try_from(self.base).expect("a base that is not near has a register"),
            },
        };
        ShadowWord { address }
    }
}

impl ShadowWord {
    /// A part of the word, or what lies so far behind its start.
    pub fn at(self, distance: i32) -> Address {
        let displacement = self.address.displacement + distance;
        Address {
            displacement,
            ..self.address
        }
    }
}

#[cfg(test)]
mod tests;
