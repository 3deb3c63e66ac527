//! What decoding gives: the layout of an instruction, and what it means to the engine.

/// One of the two segments whose base is not zero.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Segment {
    /// FS.
    Fs,
    /// GS.
    Gs,
}

/// What an instruction means to the engine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Nothing special: may be copied once its operands are taken care of.
    Plain,
    /// A conditional jump to [`Instruction::target`].
    Jcc {
        /// The low four bits of the opcode.
        condition: u8,
    },
    /// `loopne` (E0), `loope` (E1), `loop` (E2) or `jrcxz` (E3) to [`Instruction::target`].
    /// With the address-size prefix they use ecx.
    JrcxzOrLoop {
        /// The opcode.
        opcode: u8,
    },
    /// A jump to [`Instruction::target`].
    JumpDirect,
    /// A call of [`Instruction::target`].
    CallDirect,
    /// A near jump through the ModRM operand.
    JumpIndirect,
    /// A near call through the ModRM operand.
    CallIndirect,
    /// A near return.
    Return {
        /// Bytes popped in addition to the return address.
        pop: u16,
    },
    /// A far jump, call or return, or an interrupt return.
    FarTransfer,
    /// `syscall`.
    Syscall,
    /// `sysenter`.
    Sysenter,
    /// `int imm8`.
    Int {
        /// The immediate.
        vector: u8,
    },
    /// The one-byte breakpoint.
    Int3,
    /// `int1` (`icebp`).
    Int1,
    /// `ud0`, `ud1`, `ud2`: undefined on purpose.
    Ud,
    /// `popf`: may set the trap flag.
    PopFlags,
    /// `fnstenv`, `fnsave`, `fxsave` or one of `xsave`'s family: stores, among other things,
    /// the address of the last x87 instruction.
    StoreX87State,
    /// `hlt`.
    Hlt,
    /// `rdfsbase` or `rdgsbase`; 64 bits wide with REX.W, else 32.
    ReadSegmentBase {
        /// Whose base.
        segment: Segment,
        /// The number of the general register.
        register: u8,
    },
    /// `wrfsbase` or `wrgsbase`; 64 bits wide with REX.W, else 32 (zero-extended).
    WriteSegmentBase {
        /// Whose base.
        segment: Segment,
        /// The number of the general register.
        register: u8,
    },
    /// Loads the selector of FS or GS: `mov`, `pop`, `lfs`, `lgs`.
    MoveToSegment(Segment),
    /// Reads the selector of FS or GS: `mov`, `push`.
    ReadSegment(Segment),
    /// `xbegin`, whose abort handler is [`Instruction::target`].
    Xbegin,
    /// `xend`.
    Xend,
    /// `xabort`.
    Xabort,
    /// `xtest`.
    Xtest,
    /// `cpuid`.
    Cpuid,
    /// `rdtsc`.
    Rdtsc,
    /// `rdtscp`.
    Rdtscp,
    /// `xgetbv`.
    Xgetbv,
    /// A near branch whose operand-size prefix means different things to different makers
    /// (Intel ignores it; AMD cuts the instruction pointer to 16 bits), or a return from a
    /// user interrupt.
    Unusual,
    /// Not an instruction: the processor raises an invalid-opcode fault. The length is that
    /// of the bytes recognised.
    Invalid,
}

/// How the opcode and the registers' high bits are encoded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Encoding {
    /// Legacy prefixes, perhaps REX.
    Legacy,
    /// C5 or C4.
    Vex,
    /// 62.
    Evex,
    /// 8F with a map number of 8 or more.
    Xop,
}

/// The last repeat prefix.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Repeat {
    /// None.
    None,
    /// F3.
    Rep,
    /// F2.
    Repne,
}

/// The layout of one instruction. Offsets are from its first byte; an offset of a part that
/// it does not have is 0.
// In this order the parts that most instructions lack are written by one store.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Instruction {
    /// Where a direct branch goes; 0 for other kinds.
    pub target: u64,
    /// What it means to the engine.
    pub kind: Kind,
    /// The segment override in force, if it is FS or GS (others do nothing in 64-bit mode).
    pub segment: Option<Segment>,
    /// Where the override in force stands.
    pub(crate) segment_offset: u8,
    /// Whether 66 is among the prefixes.
    pub(crate) operand_size_prefix: bool,
    /// Whether 67 is among the prefixes.
    pub address_size_prefix: bool,
    /// Whether F0 is among the prefixes.
    pub(crate) lock: bool,
    /// The last of F2 and F3.
    pub repeat: Repeat,
    /// How the opcode is encoded.
    pub encoding: Encoding,
    /// Where REX, VEX, EVEX or XOP starts; where the opcode starts if there is none of them.
    pub prefix_offset: u8,
    /// The opcode map: 0 (one byte), 1 (0F), 2 (0F 38), 3 (0F 3A), or the number that VEX,
    /// EVEX or XOP gives.
    pub map: u8,
    /// Bytes.
    pub length: u8,
    /// The REX byte in force; 0 if none.
    pub rex: u8,
    /// W, R, X and B (bits 3 to 0) as REX would give them, in any encoding.
    pub extension: u8,
    /// The opcode byte.
    pub opcode: u8,
    /// Where the opcode byte is (its last, after escapes).
    pub(crate) opcode_offset: u8,
    /// The ModRM byte; 0 if none.
    pub modrm: u8,
    /// Where ModRM is.
    pub modrm_offset: u8,
    /// The SIB byte; 0 if none.
    pub sib: u8,
    /// Where SIB is.
    pub sib_offset: u8,
    /// Where the displacement is; absolute addresses (`mov al, [moffs]`) count as such.
    pub displacement_offset: u8,
    /// 0, 1, 4 or 8 bytes.
    pub displacement_size: u8,
    /// Where the immediate is; branch displacements count as such.
    pub immediate_offset: u8,
    /// Bytes of immediate, of both together where there are two.
    pub immediate_size: u8,
    /// Whether the memory operand is relative to the next instruction.
    pub rip_relative: bool,
    pub(super) memory_modrm: bool,
}

impl Kind {
    /// Whether a copy faults or traps as the instruction does in place, and nothing is executed
    /// behind it.
    #[must_use]
    pub fn faults_when_copied(self) -> bool {
        matches!(
            self,
            Kind::Int3
                | Kind::Int { vector: 3 }
                | Kind::Int1
                | Kind::Ud
                | Kind::Hlt
                | Kind::Invalid
                | Kind::Xabort
                | Kind::Xend
        )
    }

    /// Whether a copy does the same without more ado, though it is not [`Kind::Plain`].
    #[must_use]
    pub fn is_copied_as_it_is(self) -> bool {
        matches!(
            self,
            Kind::Xtest | Kind::Cpuid | Kind::Rdtsc | Kind::Rdtscp | Kind::Xgetbv
        )
    }
}

impl Instruction {
    /// Whether the instruction may write one of the general registers r8 to r15, as an operand (`syscall`
    /// writes r11 without being told). Its bytes tell it, so that most instructions need not be decoded for
    /// it: some of which it is said do not. Privileged instructions are not in it.
    #[must_use]
    #[inline]
    pub fn may_write(&self, register: u8, bytes: &[u8]) -> bool {
        let low = register & 7;
        let (reg_is_upper, rm_is_upper) = (self.extension & 4 != 0, self.extension & 1 != 0);
        let has_modrm = self.modrm_offset != 0;
        if has_modrm && reg_is_upper && self.modrm >> 3 & 7 == low {
            return true;
        }
        // What memory is addressed with is only read.
        if has_modrm && rm_is_upper && self.modrm >> 6 == 3 && self.modrm & 7 == low {
            return true;
        }
        // The other operand of VEX and XOP, and of EVEX that has two bytes between.
        let other = match self.encoding {
            Encoding::Legacy => return !has_modrm && rm_is_upper && self.opcode & 7 == low,
            Encoding::Vex if bytes[usize::from(self.prefix_offset)] == 0xc5 => 1,
            Encoding::Vex | Encoding::Xop | Encoding::Evex => 2,
        };
        let other = bytes[usize::from(self.prefix_offset) + other];
        !other >> 3 & 15 == register
    }

    /// REX.W or its equivalent.
    #[must_use]
    #[inline]
    pub fn wide(&self) -> bool {
        self.extension & 8 != 0
    }

    /// The ModRM `reg` field without extension: a register or the opcode's continuation.
    #[must_use]
    #[inline]
    pub fn modrm_reg(&self) -> u8 {
        self.modrm >> 3 & 7
    }

    /// Whether ModRM names a memory operand.
    #[must_use]
    #[inline]
    pub fn has_memory_modrm(&self) -> bool {
        self.memory_modrm
    }
}
