//! A filter: a program in classic BPF, accepted exactly where the kernel accepts it
//! (`bpf_check_classic` in `net/core/filter.c`, `seccomp_check_filter` in `kernel/seccomp.c`).

/// The most instructions of one filter.
pub(crate) const MOST_INSTRUCTIONS: usize = 4096;
/// Bytes of what a filter looks at: `struct seccomp_data`.
pub(crate) const DATA_SIZE: u32 = 64;
/// Cells of a filter's memory.
pub(crate) const CELLS: usize = 16;

/// An instruction as programs pass it: `struct sock_filter`.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Instruction {
    /// What it does.
    pub code: u16,
    /// How many instructions a jump skips whose condition holds.
    pub(crate) yes: u8,
    /// How many one skips whose condition does not.
    pub(crate) no: u8,
    /// Its constant: a value, an offset, a cell, a distance.
    pub(crate) constant: u32,
}

impl Instruction {
    /// The instructions in memory; bytes that make no whole one are left out.
    #[must_use]
    pub(crate) fn list(bytes: &[u8]) -> Box<[Instruction]> {
        let (words, _) = bytes.as_chunks::<8>();
        let from = |&word| Instruction::from_bits(u64::from_le_bytes(word));
        words.iter().map(from).collect()
    }

    /// An instruction from its eight bytes.
    #[must_use]
    pub(crate) fn from_bits(bits: u64) -> Instruction {
        Instruction {
            code: bits as u16,
            yes: (bits >> 16) as u8,
            no: (bits >> 24) as u8,
            constant: (bits >> 32) as u32,
        }
    }

    /// Its eight bytes.
    #[must_use]
    pub(crate) fn bits(self) -> u64 {
        u64::from(self.code)
            | u64::from(self.yes) << 16
            | u64::from(self.no) << 24
            | u64::from(self.constant) << 32
    }
}

/// Where the second operand of an instruction comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Operand {
    /// The instruction.
    Constant(u32),
    /// The register X.
    X,
}

/// A calculation with the register A.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Calculation {
    Add,
    Subtract,
    Multiply,
    Divide,
    Or,
    And,
    Xor,
    ShiftLeft,
    ShiftRight,
}

/// What a jump asks of the register A.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Condition {
    /// It is the operand.
    Equal,
    /// It is greater, without sign.
    Greater,
    /// It is greater or the same, without sign.
    GreaterOrEqual,
    /// They have a bit in common.
    AnyBit,
}

/// What an instruction does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Operation {
    /// A = the word of the call's data at this offset.
    LoadData(u32),
    /// A = a constant.
    Load(u32),
    /// A = a cell.
    LoadCell(u8),
    /// X = a constant.
    LoadX(u32),
    /// X = a cell.
    LoadXCell(u8),
    /// A cell = A.
    Store(u8),
    /// A cell = X.
    StoreX(u8),
    /// X = A.
    CopyToX,
    /// A = X.
    CopyToA,
    /// A = A with the operand.
    Calculate(Calculation, Operand),
    /// A = -A.
    Negate,
    /// Skips as many instructions.
    Jump(u32),
    /// Skips `yes` or `no` instructions.
    Branch {
        /// What decides.
        condition: Condition,
        /// What A is compared with.
        operand: Operand,
        /// Instructions to skip if so.
        yes: u8,
        /// Instructions to skip if not.
        no: u8,
    },
    /// Ends with a constant.
    Return(u32),
    /// Ends with A.
    ReturnA,
}

/// A filter that the kernel would accept: every jump and cell is in bounds, no cell is read
/// before it is written, and the last instruction returns.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Program {
    operations: Box<[Operation]>,
    looks_at_instruction_pointer: bool,
}

impl Program {
    /// Checks what a program passes. `None`: the kernel would answer `EINVAL`.
    #[must_use]
    pub(crate) fn check(instructions: &[Instruction]) -> Option<Program> {
        if instructions.is_empty() || instructions.len() > MOST_INSTRUCTIONS {
            return None;
        }
        let operations: Box<[Operation]> = instructions
            .iter()
            .map(|&instruction| decode(instruction))
            .collect::<Option<_>>()?;
        let length = operations.len();
        let jumps_inside = operations.iter().enumerate().all(|(at, operation)| {
            let left = (length - at - 1) as u64;
            match *operation {
                Operation::Jump(distance) => u64::from(distance) < left,
                Operation::Branch { yes, no, .. } => u64::from(yes.max(no)) < left,
                _ => true,
            }
        });
        let returns = matches!(
            operations.last(),
            Some(Operation::Return(_) | Operation::ReturnA)
        );
        let valid = jumps_inside && returns && cells_are_written_first(&operations);
        valid.then_some(Program {
            looks_at_instruction_pointer: loads_instruction_pointer(&operations),
            operations,
        })
    }

    /// Its instructions.
    #[must_use]
    pub(crate) fn operations(&self) -> &[Operation] {
        &self.operations
    }

    /// Whether it looks at the instruction pointer of calls.
    #[must_use]
    pub(crate) fn looks_at_instruction_pointer(&self) -> bool {
        self.looks_at_instruction_pointer
    }
}

fn loads_instruction_pointer(operations: &[Operation]) -> bool {
    const INSTRUCTION_POINTER: std::ops::Range<u32> = 8..16;
    operations.iter().any(|operation| {
        matches!(operation, Operation::LoadData(offset) if INSTRUCTION_POINTER.contains(offset))
    })
}

fn decode(instruction: Instruction) -> Option<Operation> {
    use Calculation as C;
    use Operation as O;
    const DIVIDE: u16 = 0x30;
    const SHIFTS: [u16; 2] = [0x60, 0x70];
    const FROM_X: u16 = 0x08;
    let Instruction {
        code,
        yes,
        no,
        constant,
    } = instruction;
    let cell = || {
        u8::try_from(constant)
            .ok()
            .filter(|&cell| usize::from(cell) < CELLS)
    };
    let operand = match code & FROM_X {
        0 => Operand::Constant(constant),
        _ => Operand::X,
    };
    let branch = |condition| O::Branch {
        condition,
        operand,
        yes,
        no,
    };
    Some(match code {
        0x20 if constant < DATA_SIZE && constant.is_multiple_of(4) => O::LoadData(constant),
        0x80 => O::Load(DATA_SIZE),
        0x81 => O::LoadX(DATA_SIZE),
        0x00 => O::Load(constant),
        0x01 => O::LoadX(constant),
        0x60 => O::LoadCell(cell()?),
        0x61 => O::LoadXCell(cell()?),
        0x02 => O::Store(cell()?),
        0x03 => O::StoreX(cell()?),
        0x07 => O::CopyToX,
        0x87 => O::CopyToA,
        0x06 => O::Return(constant),
        0x16 => O::ReturnA,
        0x84 => O::Negate,
        0x05 => O::Jump(constant),
        0x15 | 0x1d => branch(Condition::Equal),
        0x25 | 0x2d => branch(Condition::Greater),
        0x35 | 0x3d => branch(Condition::GreaterOrEqual),
        0x45 | 0x4d => branch(Condition::AnyBit),
        _ if code & !0xf8 == 0x04 => {
            let by_constant = code & FROM_X == 0;
            let operation = code & 0xf0;
            if by_constant && operation == DIVIDE && constant == 0
                || by_constant && SHIFTS.contains(&operation) && constant >= u32::BITS
            {
                return None;
            }
            let calculation = match operation {
                0x00 => C::Add,
                0x10 => C::Subtract,
                0x20 => C::Multiply,
                DIVIDE => C::Divide,
                0x40 => C::Or,
                0x50 => C::And,
                0x60 => C::ShiftLeft,
                0x70 => C::ShiftRight,
                0xa0 => C::Xor,
                _ => return None,
            };
            O::Calculate(calculation, operand)
        }
        _ => return None,
    })
}

/// `check_load_and_stores`: on every way to a load, its cell has been written. All jumps go
/// forward, so one pass sees all ways.
fn cells_are_written_first(operations: &[Operation]) -> bool {
    const ALL: u16 = u16::MAX;
    let mut on_arrival = vec![ALL; operations.len()];
    let mut written: u16 = 0;
    for (at, operation) in operations.iter().enumerate() {
        written &= on_arrival[at];
        match *operation {
            Operation::Store(cell) | Operation::StoreX(cell) => written |= 1 << cell,
            Operation::LoadCell(cell) | Operation::LoadXCell(cell) if written & 1 << cell == 0 => {
                return false;
            }
            Operation::Jump(distance) => {
                on_arrival[at + 1 + distance as usize] &= written;
                written = ALL;
            }
            Operation::Branch { yes, no, .. } => {
                on_arrival[at + 1 + usize::from(yes)] &= written;
                on_arrival[at + 1 + usize::from(no)] &= written;
                written = ALL;
            }
            _ => {}
        }
    }
    true
}
