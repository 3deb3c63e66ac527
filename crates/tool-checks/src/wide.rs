//! Entries of many addresses, made of all registers there are, in the first buffer and in another
//! one: each has the values that a call at the same place gets.
//!
//! With `spoilt`, the call gets another one.

use std::sync::atomic::{AtomicU64, Ordering};

use unspool_tool::{
    AccessKind, Address, Buffer, EffectiveAddress, MemoryOperand, Shape, Superblock, ThreadInfo,
    Tool, effective_address, entry, iced_x86, say,
};

use crate::asked;

entry! {
    /// As many values as there can be.
    struct Wide {
        a: Address,
        b: Address,
        c: Address,
        d: Address,
        e: Address,
        f: Address,
        g: Address,
        h: Address,
        i: Address,
        j: Address,
    }
}

impl Wide {
    fn sum(&self) -> u64 {
        let values = [
            self.a, self.b, self.c, self.d, self.e, self.f, self.g, self.h, self.i, self.j,
        ];
        values.iter().zip(1..).fold(0, |sum, (value, factor)| {
            sum.wrapping_add(value.0.wrapping_mul(factor))
        })
    }
}

/// The tool.
pub(crate) struct Entries {
    first: Buffer<Entries, Wide>,
    other: Buffer<Entries, Wide>,
    sums: [AtomicU64; 3],
}

/// What was in the first buffer, in the other one, and what calls got.
pub(crate) type Sums = [u64; 3];

fn add(sums: &mut Sums, number: usize, entry: &Wide) {
    sums[number] = sums[number].wrapping_add(entry.sum() | 1);
}

impl Entries {
    pub(crate) fn new() -> Entries {
        Entries {
            first: Buffer::new(1000, |_, sums, batch| {
                batch.iter().for_each(|entry| add(sums, 0, entry));
            }),
            other: Buffer::new(1000, |_, sums, batch| {
                batch.iter().for_each(|entry| add(sums, 1, entry));
            }),
            sums: Default::default(),
        }
    }

    #[expect(clippy::too_many_arguments, reason = "as many as there can be")]
    #[expect(clippy::many_single_char_names, reason = "they have none")]
    fn called(
        &self,
        sums: &mut Sums,
        a: Address,
        b: Address,
        c: Address,
        d: Address,
        e: Address,
        f: Address,
        g: Address,
        h: Address,
        i: Address,
        j: Address,
    ) {
        let a = Address(a.0 + 2 * u64::from(asked("spoilt")));
        let entry = Wide {
            a,
            b,
            c,
            d,
            e,
            f,
            g,
            h,
            i,
            j,
        };
        add(sums, 2, &entry);
    }
}

/// The address that `base + index × 2 + 24` would be, the registers by their numbers, in the
/// segment of another operand.
fn sum(base: u32, index: u32, like: Option<&MemoryOperand>) -> EffectiveAddress {
    let register = |number| iced_x86::Register::RAX + number % 16;
    let operand = MemoryOperand {
        kind: AccessKind::Read,
        size: 1,
        base: register(base),
        // The stack pointer cannot be one.
        index: register(if index % 16 == 4 { 5 } else { index }),
        scale: 2,
        displacement: 24,
        segment: like.and_then(|operand| operand.segment),
        address_size_32: false,
        shape: Shape::Plain,
    };
    effective_address(&operand).expect("it is plain")
}

impl Tool for Entries {
    type Thread = Sums;

    fn instrument(&self, superblock: &Superblock<Self>) {
        let mut operands = superblock
            .instructions()
            .flat_map(|it| it.memory_operands());
        let in_segment = operands.find(|operand| operand.segment.is_some());
        for (number, instruction) in (0_u32..).zip(superblock.instructions()) {
            // Entries are made for instructions that complete, and calls before all.
            if instruction.after().is_none() || instruction.branch().is_some() {
                continue;
            }
            let at = |field: u32| {
                let base = number + 2 * field;
                let like = in_segment.filter(|_| field % 3 == number % 3);
                sum(base, base + 1 + number % 2, like)
            };
            let values = (
                at(0),
                at(1),
                at(2),
                at(3),
                at(4),
                at(5),
                at(6),
                at(7),
                at(8),
                at(9),
            );
            let before = instruction.before();
            before.append(self.first, values);
            before.call(Entries::called, values);
            before.append(self.other, values);
        }
    }

    fn thread_end(&self, _: &ThreadInfo, sums: Sums) {
        for (all, sum) in self.sums.iter().zip(sums) {
            all.fetch_add(sum, Ordering::Relaxed);
        }
    }

    fn end(&self) {
        let sums = self.sums.each_ref().map(|sum| sum.load(Ordering::Relaxed));
        let agree = sums[0] == sums[2] && sums[1] == sums[2] && sums[2] != 0;
        let agree = if agree { "" } else { "NOT " };
        say(&format!("wide entries {agree}as called: {sums:x?}"));
    }
}
