//! What functions are called with: each argument behind the markers of the guest
//! `instructions/marked`, and what functions may change.
//!
//! With `buffered`, all instructions are counted and leave entries in a buffer, which must be as many.
//! With `followed`, too, and as many as calls of a function before each of them; and what has the
//! program go on elsewhere is called only because another function says so.
//! With `gated`, the functions compute with floating-point numbers, so that all registers are kept
//! around them; with `rarely`, they do that where they keep all registers themselves.
//! With `spoilt`, one value is wrong, which must be noticed.

use std::collections::HashMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use unspool_tool::iced_x86;
use unspool_tool::{
    AccessKind, Accesses, Address, Constant, Context, FallThrough, FullContext, FunctionArgument,
    Instruction, InstructionPointer, LowVector, MemoryOperand, Point, Predicate, Register,
    RegisterMut, ReturnAddress, ReturnValue, Shape, Superblock, SystemCallArgument,
    SystemCallNumber, ThreadInfo, ThreadNumber, TimeStamp, Tool, access_size, accesses,
    branch_taken, branch_target, effective_address, predicate, rarely, say,
};
use unspool_tool::{Buffer, ByReference, Counter, EffectiveAddress, StackPointer};

use crate::asked;

const MARKERS: usize = 32;
const MARK: u64 = 0x7a50_0000;

/// The forms of the functions, as above.
pub(crate) const PLAIN: u8 = 0;
pub(crate) const GATED: u8 = 1;
pub(crate) const RARELY: u8 = 2;

/// The tool.
pub(crate) struct Values<const FORM: u8> {
    spoilt: u64,
    /// The number of the marker before an instruction.
    marked: Mutex<HashMap<u64, usize>>,
    table: AtomicU64,
    sums: Mutex<[Sum; MARKERS]>,
    wrong: AtomicU64,
    /// What completes, twice.
    executed: Option<(Counter, Buffer<Values<FORM>, Address>)>,
    entries: AtomicU64,
    /// Whether what may redirect is called because another function says so.
    followed: bool,
    passed: AtomicU64,
}

/// What was seen behind a marker.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Sum {
    times: u64,
    sum: u64,
}

/// What a thread has seen.
#[derive(Default)]
pub(crate) struct Seen {
    sums: [Sum; MARKERS],
    number: f64,
    stamp: u64,
    wrong: u64,
    entries: u64,
    passed: u64,
}

impl Seen {
    fn add<const FORM: u8, const N: usize>(&mut self, marker: u8, values: [u64; N]) {
        let mut compute = || self.number = self.number * 1.5 + 1.0;
        match FORM {
            GATED => compute(),
            RARELY => rarely(compute),
            _ => {}
        }
        let sum = &mut self.sums[usize::from(marker) % MARKERS];
        sum.times += 1;
        for (value, factor) in values.into_iter().zip(1..) {
            sum.sum = sum.sum.wrapping_add(value.wrapping_mul(factor));
        }
    }
}

type State = Seen;

impl<const FORM: u8> Values<FORM> {
    pub(crate) fn new() -> Values<FORM> {
        Values {
            spoilt: u64::from(asked("spoilt")),
            marked: Mutex::default(),
            table: AtomicU64::new(0),
            sums: Mutex::default(),
            wrong: AtomicU64::new(0),
            executed: (asked("buffered") || asked("followed")).then(|| {
                let count = |_: &Self, seen: &mut State, batch: &[Address]| {
                    seen.entries += batch.len() as u64;
                };
                (Counter::new(), Buffer::new(500, count))
            }),
            entries: AtomicU64::new(0),
            followed: asked("followed"),
            passed: AtomicU64::new(0),
        }
    }

    fn one(&self, seen: &mut State, marker: u8, value: u64) {
        seen.add::<FORM, 1>(marker, [value + self.spoilt]);
    }

    fn truth(&self, seen: &mut State, marker: u8, value: bool) {
        seen.add::<FORM, 1>(marker, [u64::from(value)]);
    }

    #[expect(clippy::too_many_arguments, reason = "as many as there can be")]
    fn ten(
        &self,
        seen: &mut State,
        a: Address,
        b: Address,
        c: Address,
        d: Address,
        e: Address,
        f: u64,
        g: u64,
        h: u64,
        i: u64,
        j: u64,
    ) {
        seen.add::<FORM, 10>(1, [a.0, b.0, c.0, d.0, e.0, f, g, h, i, j]);
    }

    fn change(&self, _: &mut State, mut rbx: RegisterMut, mut rdx: RegisterMut) {
        *rbx += 37;
        *rdx += 1;
    }

    fn lower(&self, _: &mut State, mut rsp: RegisterMut) {
        *rsp -= 64;
    }

    fn repeat(&self, seen: &mut State, does: bool, size: u64, from: Address, to: Address) {
        seen.add::<FORM, 4>(4, [u64::from(does), size, from.0, to.0]);
    }

    fn target(&self, seen: &mut State, marker: u8, target: Address) {
        seen.add::<FORM, 1>(marker, [target.0]);
    }

    fn returns(&self, seen: &mut State, target: Address, address: Option<Address>) {
        seen.add::<FORM, 2>(6, [target.0, address.map_or(0, |it| it.0)]);
    }

    #[expect(clippy::too_many_arguments, reason = "it is called with so many")]
    fn function(
        &self,
        seen: &mut State,
        first: u64,
        second: u64,
        sixth: u64,
        seventh: u64,
        eighth: u64,
        double: f64,
        single: f32,
    ) {
        let (double, single) = (double.to_bits(), u64::from(single.to_bits()));
        seen.add::<FORM, 7>(10, [first, second, sixth, seventh, eighth, double, single]);
    }

    fn result(&self, seen: &mut State, word: u64, double: f64) {
        seen.add::<FORM, 2>(11, [word, double.to_bits()]);
    }

    fn skip(&self, seen: &mut State, low: u64, mut context: Context) {
        seen.add::<FORM, 2>(12, [context.register(Register::Rbx as u8), low]);
        context.set_register(Register::R12 as u8, 5);
        let mut vector = context.vector(5);
        vector[..8].copy_from_slice(&(low + 7).to_le_bytes());
        context.set_vector(5, &vector);
        // Over `nop` and `add`.
        let next = context.instruction_pointer() + 5;
        context.set_instruction_pointer(next);
    }

    /// Over an addition of one.
    fn leap(&self, _: &mut State, mut context: Context) {
        let next = context.instruction_pointer() + 4;
        context.set_instruction_pointer(next);
    }

    fn always(&self, _: &mut State) -> bool {
        true
    }

    fn pass(&self, seen: &mut State) {
        seen.passed += 1;
    }

    fn is_odd(&self, _: &mut State, value: u64) -> bool {
        value & 1 != 0
    }

    fn call(&self, seen: &mut State, number: u64, first: u64, second: u64, sixth: u64) {
        seen.add::<FORM, 4>(19, [number, first, second, sixth]);
    }

    fn elements(&self, seen: &mut State, all: Accesses) {
        let sum = |sum: u64, &(at, size): &(Address, u64)| sum.wrapping_add(at.0 + size);
        seen.add::<FORM, 1>(20, [all.to_vec().iter().fold(0, sum)]);
    }

    fn downwards(&self, seen: &mut State, from: Accesses, to: Accesses) {
        let (from, to) = (from.to_vec()[0], to.to_vec()[0]);
        seen.add::<FORM, 4>(22, [from.0.0, from.1, to.0.0, to.1]);
    }

    fn at_table(&self, _: &mut State, table: u64) {
        self.table.store(table, Ordering::Relaxed);
    }

    fn of_thread(&self, seen: &mut State, thread: u32, stamp: u64, stack: Address, next: Address) {
        let right = thread < 2 && stamp > seen.stamp && stack.0.is_multiple_of(8) && next.0 != 0;
        seen.wrong += u64::from(!right);
        seen.stamp = stamp;
    }

    /// Inserts what belongs behind a marker.
    fn behind(&self, marker: usize, instruction: &Instruction<'_, Self>) {
        let before = instruction.before();
        let number = Constant(marker as u8);
        let operands = instruction.memory_operands();
        match marker {
            1 => before.call(
                Self::ten,
                (
                    sum("rcx", "r8", 1, 0),
                    sum("rdx", "r9", 1, 0),
                    sum("r9", "rcx", 1, 0),
                    sum("r8", "rdx", 2, 0),
                    sum("rdx", "rcx", 4, 5),
                    Register::R9,
                    Register::Rax,
                    Register::Rcx,
                    Constant(0x12_3456_789a_u64),
                    Register::R8,
                ),
            ),
            2 => before.call(
                Self::change,
                (ByReference(Register::Rbx), ByReference(Register::Rdx)),
            ),
            3 => before.call(Self::truth, (number, predicate(instruction))),
            4 => {
                let does: Predicate = predicate(instruction);
                let size = access_size(&operands[0]).expect("it follows from rcx");
                let [from, to] = [0, 1].map(|it| effective_address(&operands[it]));
                let (from, to) = (from.expect("rsi"), to.expect("rdi"));
                before.call(Self::repeat, (does, size, from, to));
            }
            5 => {
                let target = branch_target(instruction).expect("it is a call");
                before.call(Self::target, (number, target));
            }
            6 => {
                let target = branch_target(instruction).expect("it is a return");
                before.call(Self::returns, (target, ReturnAddress));
            }
            7..=9 => {
                let taken = branch_taken(instruction).expect("it is conditional");
                before.call(Self::truth, (number, taken));
            }
            10 => before.call(
                Self::function,
                (
                    FunctionArgument::<u64, 0>::new(),
                    FunctionArgument::<u64, 1>::new(),
                    FunctionArgument::<u64, 5>::new(),
                    FunctionArgument::<u64, 6>::new(),
                    FunctionArgument::<u64, 7>::new(),
                    FunctionArgument::<f64, 0>::new(),
                    FunctionArgument::<f32, 1>::new(),
                ),
            ),
            11 => before.call(
                Self::result,
                (ReturnValue::<u64>::new(), ReturnValue::<f64>::new()),
            ),
            12 if self.followed => {
                let arguments = (LowVector::<u64, 5>::new(), FullContext);
                before.call_if(Self::always, (), Self::skip, arguments);
            }
            12 => before.call(Self::skip, (LowVector::<u64, 5>::new(), FullContext)),
            13 => before.call_if(
                Self::is_odd,
                (Register::Rax,),
                Self::one,
                (number, Register::Rax),
            ),
            14 => self.watch(before, number, &operands[0]),
            15 => before.call(Self::at_table, (Register::Rax,)),
            16 | 18 | 24 | 25 | 26 => instruction.delete(),
            17 => instruction.redirect(instruction.next_address() + 4),
            19 => before.call(
                Self::call,
                (
                    SystemCallNumber,
                    SystemCallArgument::<0>,
                    SystemCallArgument::<1>,
                    SystemCallArgument::<5>,
                ),
            ),
            20 => {
                let all = accesses(&operands[0]);
                before.call(Self::elements, (all,));
            }
            21 => before.call(Self::lower, (ByReference(Register::Rsp),)),
            22 => {
                let [from, to] = [0, 1].map(|it| accesses(&operands[it]));
                before.call(Self::downwards, (from, to));
            }
            27 | 29 => {
                let after = instruction.after().expect("it can be followed by the next");
                self.leap_at(after);
            }
            28 => {
                let taken = instruction.taken().expect("it is a jump");
                self.leap_at(taken);
            }
            _ => before.call(
                Self::of_thread,
                (ThreadNumber, TimeStamp, StackPointer, FallThrough),
            ),
        }
    }

    fn leap_at(&self, point: Point<'_, Self>) {
        match self.followed {
            true => point.call_if(Self::always, (), Self::leap, (FullContext,)),
            false => point.call(Self::leap, (FullContext,)),
        }
    }

    /// Calls for what is written to eight bytes of the guest's table.
    fn watch(&self, before: Point<'_, Self>, number: Constant<u8>, operand: &MemoryOperand) {
        let start = self.table.load(Ordering::Relaxed) + 8;
        let at = effective_address(operand).expect("it has one");
        let arguments = (number, Register::Rax);
        before.call_if_within((at, 1), start..start + 8, Self::one, arguments);
    }
}

/// The address that would be `base + index × scale + displacement`.
fn sum(base: &str, index: &str, scale: u8, displacement: i64) -> EffectiveAddress {
    let named = |name: &str| match name {
        "rcx" => iced_x86::Register::RCX,
        "rdx" => iced_x86::Register::RDX,
        "r8" => iced_x86::Register::R8,
        _ => iced_x86::Register::R9,
    };
    let operand = MemoryOperand {
        kind: AccessKind::Read,
        size: 1,
        base: named(base),
        index: named(index),
        scale,
        displacement,
        segment: None,
        address_size_32: false,
        shape: Shape::Plain,
    };
    effective_address(&operand).expect("it is plain")
}

impl<const FORM: u8> Tool for Values<FORM> {
    type Thread = Seen;
    const LEAVES_OUT: bool = true;

    fn instrument(&self, superblock: &Superblock<Self>) {
        let mut marked = self.marked.lock().expect("no thread panics with it");
        for instruction in superblock.instructions() {
            if let Some(marker) = marked.get(&instruction.address()) {
                self.behind(*marker, &instruction);
            }
            if self.followed {
                instruction.before().call(Self::pass, ());
            }
            if let Some((counter, buffer)) = self.executed {
                instruction.before().count(counter, 1);
                instruction.before().append(buffer, (InstructionPointer,));
            }
            let decoded = instruction.decoded();
            let number = decoded.memory_displacement64().wrapping_sub(MARK);
            if decoded.mnemonic() == iced_x86::Mnemonic::Nop
                && (1..MARKERS as u64).contains(&number)
            {
                marked.insert(instruction.next_address(), number as usize);
            }
        }
    }

    fn thread_end(&self, _: &ThreadInfo, seen: Seen) {
        let mut sums = self.sums.lock().expect("no thread panics with it");
        for (all, own) in sums.iter_mut().zip(seen.sums) {
            all.times += own.times;
            all.sum = all.sum.wrapping_add(own.sum);
        }
        self.wrong.fetch_add(seen.wrong, Ordering::Relaxed);
        self.entries.fetch_add(seen.entries, Ordering::Relaxed);
        self.passed.fetch_add(seen.passed, Ordering::Relaxed);
    }

    fn end(&self) {
        let sums = self.sums.lock().expect("no thread panics with it");
        for (number, Sum { times, sum }) in sums.iter().enumerate() {
            if *times != 0 {
                say(&format!("marker {number}: {times} times, {sum:x}"));
            }
        }
        let executed = self.executed.map_or(0, |(counter, _)| counter.total());
        let is_right = |count: &AtomicU64| count.load(Ordering::Relaxed) == executed;
        let differ = !is_right(&self.entries) || self.followed && !is_right(&self.passed);
        let wrong = self.wrong.load(Ordering::Relaxed) + u64::from(differ);
        say(&format!("{wrong} wrong"));
    }
}
