//! How a caller's registers follow from those of the function that it has called.

use crate::registers::{RETURN_ADDRESS, RSP};

/// Registers with a rule: the general ones and the return address.
pub(crate) const COLUMNS: usize = 17;

/// The canonical frame address: what the stack pointer was before the call that made the frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cfa {
    /// A register's value and so many bytes.
    Register {
        /// The register.
        number: u8,
        /// The bytes.
        offset: i32,
    },
    /// The word at a register's value and so many bytes, and some more.
    AtRegister {
        /// The register.
        number: u8,
        /// The bytes from its value to the word.
        offset: i32,
        /// The bytes from what the word says.
        plus: i32,
    },
    /// What a DWARF expression gives, which stands at an offset of the section of call-frame
    /// information.
    Expression {
        /// The offset.
        at: u32,
        /// Its bytes.
        length: u16,
    },
}

/// Where a register's value in the caller is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Rule {
    /// Still in the register.
    Same,
    /// Nowhere. For the return address: there is no caller.
    Undefined,
    /// In memory, so many bytes from the canonical frame address.
    AtCfa(i32),
    /// In memory, so many bytes from a register's value.
    AtRegister {
        /// The register.
        number: u8,
        /// The bytes.
        offset: i16,
    },
    /// The canonical frame address and so many bytes.
    CfaPlus(i32),
    /// In another register.
    Register(u8),
    /// In memory, where a DWARF expression says.
    AtExpression {
        /// Its offset in the section of call-frame information.
        at: u32,
        /// Its bytes.
        length: u16,
    },
    /// What a DWARF expression gives.
    Expression {
        /// Its offset in the section of call-frame information.
        at: u32,
        /// Its bytes.
        length: u16,
    },
}

/// How to go from a frame to its caller, for one instruction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Recipe {
    /// Where the frame is.
    pub cfa: Cfa,
    /// Where the caller's registers are, by DWARF's numbers; the last is the return address.
    pub rules: [Rule; COLUMNS],
    /// Whether the caller was interrupted by a signal where its program counter is, instead of
    /// having called.
    pub is_signal_frame: bool,
}

impl Recipe {
    /// That of the frame in which a thread begins: there is no caller.
    pub(crate) const OUTERMOST: Recipe = {
        let mut rules = [Rule::Same; COLUMNS];
        rules[RETURN_ADDRESS as usize] = Rule::Undefined;
        Recipe {
            cfa: Cfa::Register {
                number: RSP,
                offset: 0,
            },
            rules,
            is_signal_frame: false,
        }
    };

    /// That of the code to which the handler of a signal returns, which asks the kernel to go on where the
    /// signal came: what the kernel has put on the stack for that begins at the stack pointer.
    ///
    /// Source: `struct ucontext` and `struct sigcontext` of Linux for x86-64.
    pub(crate) const SIGNAL_RETURN: Recipe = {
        const fn at(offset: i16) -> Rule {
            Rule::AtRegister {
                number: RSP,
                offset,
            }
        }
        let mut rules = [Rule::Same; COLUMNS];
        // rax, rdx, rcx, rbx, rsi, rdi, rbp, rsp.
        let places = [144, 136, 152, 128, 112, 104, 120, 160];
        let mut number = 0;
        while number < 8 {
            rules[number] = at(places[number]);
            rules[number + 8] = at(40 + 8 * number as i16);
            number += 1;
        }
        rules[RETURN_ADDRESS as usize] = at(168);
        Recipe {
            cfa: Cfa::AtRegister {
                number: RSP,
                offset: 160,
                plus: 0,
            },
            rules,
            is_signal_frame: true,
        }
    };

    /// The frame of a function that has just been called.
    #[must_use]
    pub fn at_entry() -> Recipe {
        Recipe::with_cfa(Cfa::Register {
            number: RSP,
            offset: 8,
        })
    }

    /// A frame whose return address is where a call puts it, and which has saved nothing.
    #[must_use]
    pub fn with_cfa(cfa: Cfa) -> Recipe {
        let mut rules = [Rule::Same; COLUMNS];
        rules[usize::from(RETURN_ADDRESS)] = Rule::AtCfa(-8);
        rules[usize::from(RSP)] = Rule::CfaPlus(0);
        Recipe {
            cfa,
            rules,
            is_signal_frame: false,
        }
    }
}
