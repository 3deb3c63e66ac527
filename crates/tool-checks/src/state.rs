//! Flags, MXCSR, the base of FS, callers, operands that may be missing, and vector registers, as the
//! guests `instructions/state_told`, `vectors_told` and `vectors_512_told` know them.
//!
//! They come in entries, or with `called` as arguments of a function: of vector registers only, before
//! each `nop`, with `vectors`. Everything is counted, too, so that inserted code changes flags. The
//! first argument is the file to which the sums go, those of each thread by itself.

use std::collections::HashMap;
use std::fmt::Write;
use std::sync::Mutex;

use unspool_tool::{
    Address, Argument, Buffer, Caller, Constant, Counter, Flags, FsBase, ImageKind,
    InstructionPointer, Point, Superblock, ThreadInfo, Tool, VectorControl, arguments,
    effective_address, entry, iced_x86, mask_register, narrow, value_or, vector_register,
};

use crate::asked;

/// By the instruction's address and the kind of the value: how often it has come, and the sum, each
/// times its number.
pub(crate) type Sums = HashMap<(u64, u8), (u64, u64)>;

/// Where the instruction is, the kind of the value, and the value.
type Told = (Address, u8, u64);

entry! {
    /// Vector registers, so that they are not where words are.
    struct Vectors {
        is_there: bool,
        first: [u8; 16],
        short: u8,
        second: [u8; 32],
        at: Address,
        third: [u8; 64],
        constant: u16,
    }
}

/// Where the instruction is, a vector register that only AVX-512 has, and a mask.
type OfAvx512 = (Address, [u8; 64], u64);

/// A number that follows from all bytes.
fn digest(bytes: &[u8]) -> u64 {
    bytes.iter().fold(1, |all, &byte| {
        (all ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3)
    })
}

/// The tool.
pub(crate) struct State {
    log: Buffer<State, Told>,
    vectors: Buffer<State, Vectors>,
    of_avx512: Buffer<State, OfAvx512>,
    executed: Counter,
    text: Mutex<String>,
}

impl State {
    pub(crate) fn new() -> State {
        let entries = |_: &State, sums: &mut Sums, batch: &[Told]| {
            for &(at, kind, value) in batch {
                add(sums, at, kind, value);
            }
        };
        State {
            log: Buffer::new(1000, entries),
            vectors: Buffer::new(50, State::vectors),
            of_avx512: Buffer::new(50, |this: &State, sums: &mut Sums, batch: &[OfAvx512]| {
                for &(at, vector, mask) in batch {
                    this.of_avx512_called(sums, at, vector, mask);
                }
            }),
            executed: Counter::new(),
            text: Mutex::default(),
        }
    }

    fn vectors(&self, sums: &mut Sums, batch: &[Vectors]) {
        for told in batch {
            let Vectors {
                at,
                first,
                second,
                third,
                ..
            } = *told;
            let others = (told.is_there, told.short, told.constant);
            assert_eq!(others, (true, 0x5a, 0x8765));
            self.vectors_called(sums, at, first, second, third);
        }
    }

    fn vectors_called(
        &self,
        sums: &mut Sums,
        at: Address,
        first: [u8; 16],
        second: [u8; 32],
        third: [u8; 64],
    ) {
        add(sums, at, b'x', digest(&first));
        add(sums, at, b'y', digest(&second));
        add(sums, at, b'z', digest(&third));
    }

    fn of_avx512_called(&self, sums: &mut Sums, at: Address, vector: [u8; 64], mask: u64) {
        add(sums, at, b'w', digest(&vector));
        add(sums, at, b'k', mask);
    }

    fn called(&self, sums: &mut Sums, at: Address, kind: u8, value: u64) {
        add(sums, at, kind, value);
    }

    fn insert<S: Argument<Value = u64>>(&self, point: &Point<'_, Self>, kind: u8, value: S) {
        let told = (InstructionPointer, Constant(kind), value);
        if asked("called") {
            point.call(Self::called, told);
        } else {
            point.append(self.log, told);
        }
    }

    fn insert_vectors(&self, before: &Point<'_, Self>) {
        let first = vector_register::<16>(0);
        let second = vector_register::<32>(13);
        let third = vector_register::<64>(5);
        let of_avx512 = (InstructionPointer, vector_register(20), mask_register(3));
        if asked("called") {
            let values = (InstructionPointer, first, second, third);
            before.call(Self::vectors_called, values);
            return before.call(Self::of_avx512_called, of_avx512);
        }
        before.append(self.of_avx512, of_avx512);
        let short = Constant(0x5a_u8);
        let (is_there, constant) = (Constant(true), Constant(0x8765_u16));
        let entry = (
            is_there,
            first,
            short,
            second,
            InstructionPointer,
            third,
            constant,
        );
        before.append(self.vectors, entry);
    }
}

fn add(sums: &mut Sums, at: Address, kind: u8, value: u64) {
    let (times, sum) = sums.entry((at.0, kind)).or_default();
    *times += 1;
    *sum = sum.wrapping_add(times.wrapping_mul(value));
}

impl Tool for State {
    type Thread = Sums;
    const KEEPS_FLAGS: bool = true;

    fn instrument(&self, superblock: &Superblock<Self>) {
        let in_program = |at: &unspool_tool::Instruction<'_, Self>| {
            let image = at.image();
            image.is_some_and(|image| image.kind() == ImageKind::Program)
        };
        for instruction in superblock.instructions().filter(in_program) {
            let before = instruction.before();
            before.count(self.executed, 1);
            if asked("vectors") {
                if instruction.decoded().mnemonic() == iced_x86::Mnemonic::Nop {
                    self.insert_vectors(&before);
                }
                continue;
            }
            self.insert(&before, b'b', Flags);
            self.insert(&before, b'm', narrow::<u64, _>(VectorControl));
            self.insert(&before, b's', narrow::<u64, _>(FsBase));
            self.insert(&before, b'c', narrow::<u64, _>(Caller));
            let operand = instruction.memory_operands().first();
            let operand = operand.and_then(effective_address);
            let operand = narrow::<u64, _>(value_or(operand, Address(7)));
            self.insert(&before, b'o', operand);
            if let Some(after) = instruction.after() {
                after.count(self.executed, 1);
                self.insert(&after, b'a', Flags);
            }
        }
    }

    fn thread_end(&self, _: &ThreadInfo, sums: Sums) {
        let mut text = self.text.lock().expect("no thread panics with it");
        for ((at, kind), (times, sum)) in sums {
            let kind = char::from(kind);
            writeln!(text, "{at:x} {kind} {times} {sum:x}").expect("there is room");
        }
    }

    fn end(&self) {
        let file = arguments().get(1).expect("a file is named");
        let text = self.text.lock().expect("no thread panics with it");
        std::fs::write(file, &*text).expect("the file can be written");
    }
}
