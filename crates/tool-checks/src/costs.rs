//! What primitives of the tool interface cost: one of them at each access of the program's own code,
//! or at each call of its function `leaf`. `bench/primitives.py` measures the runs.

use std::sync::atomic::{AtomicU64, Ordering};

use unspool_tool::{
    Address, Batch, Buffer, Constant, Context, Counter, EffectiveAddress, FullContext, Image,
    ImageKind, Instruction, InstructionPointer, MemoryOperand, Original, Shadow, Superblock,
    Switch, ThreadInfo, ThreadNumber, ThreadWord, Tool, Version, arguments, effective_address,
    image_at, read_memory, say,
};

/// The tool.
pub(crate) struct Costs {
    primitive: String,
    met: Counter,
    shadow: Shadow<u8, 8>,
    cells: Shadow<u64, 8>,
    epoch: ThreadWord<u32>,
    switch: Switch,
    one: Buffer<Costs, Address>,
    four: Buffer<Costs, (Address, Address, u64, u32)>,
    /// In place of the first one.
    consumed: Option<Buffer<Costs, Address>>,
    entries: AtomicU64,
}

/// What a thread has seen.
#[derive(Default)]
pub(crate) struct Seen {
    number: u64,
    last: u64,
}

/// The sources of an entry of four fields.
type Four = (
    EffectiveAddress,
    InstructionPointer,
    Constant<u64>,
    Constant<u32>,
);

fn four(address: EffectiveAddress) -> Four {
    (address, InstructionPointer, Constant(7), Constant(8))
}

/// `leaf`.
type Leaf = extern "C" fn(u64) -> u64;

impl Costs {
    pub(crate) fn new() -> Costs {
        let primitive = arguments().get(1).and_then(|word| word.to_str());
        let consume = |tool: &Costs, batch: Batch<Address>| {
            tool.entries
                .fetch_add(batch.len() as u64, Ordering::Relaxed);
        };
        let consumed = (primitive == Some("append1-consumed"))
            .then(|| Buffer::with_consumer(1 << 14, 4, consume));
        Costs {
            primitive: primitive.unwrap_or("nothing").to_owned(),
            met: Counter::new(),
            shadow: Shadow::new().expect("shadow memory"),
            cells: Shadow::new().expect("shadow memory"),
            epoch: ThreadWord::new(),
            switch: Switch::new(),
            one: Buffer::new(1 << 14, |_: &Costs, seen: &mut Seen, batch: &[Address]| {
                seen.number += batch.len() as u64;
            }),
            four: Buffer::new(1 << 12, |_: &Costs, seen: &mut Seen, batch: &[_]| {
                seen.number += batch.len() as u64;
            }),
            consumed,
            entries: AtomicU64::new(0),
        }
    }

    fn empty(&self, _: &mut Seen) {}

    fn add(&self, seen: &mut Seen) {
        seen.number += 1;
    }

    fn address(&self, seen: &mut Seen, at: Address) {
        seen.number += 1;
        seen.last ^= at.0;
    }

    fn thread(&self, seen: &mut Seen, number: u32) {
        seen.number += u64::from(number);
    }

    fn is_last(&self, seen: &mut Seen, at: Address) -> bool {
        seen.last == at.0
    }

    fn is_other(&self, seen: &mut Seen, at: Address) -> bool {
        seen.last != at.0
    }

    fn context(&self, seen: &mut Seen, context: Context) {
        seen.number += context.register(0);
    }

    fn vector(&self, seen: &mut Seen, context: Context) {
        seen.number += u64::from(context.vector(0)[0]);
    }

    fn wrapped(&self, original: &mut Original<Self, Leaf>, number: u64) -> u64 {
        original.state().number += 1;
        original.call(number)
    }

    fn guarded(&self, seen: &mut Seen, at: Address) {
        let mut bytes = [0; 8];
        seen.number += read_memory(at, &mut bytes) as u64;
    }

    fn at_access(&self, instruction: &Instruction<Self>, address: EffectiveAddress) {
        let before = instruction.before();
        match self.primitive.as_str() {
            "count" => before.count(self.met, 1),
            "empty" => before.call(Costs::empty, ()),
            "add" => before.call(Costs::add, ()),
            "address" => before.call(Costs::address, (address,)),
            "thread" => before.call(Costs::thread, (ThreadNumber,)),
            "test" => before.call_if(Costs::is_last, (address,), Costs::add, ()),
            "append1" => before.append(self.one, (address,)),
            "append1-consumed" => {
                if let Some(buffer) = self.consumed {
                    before.append(buffer, (address,));
                }
            }
            "append4" => before.append(self.four, four(address)),
            "append-if-never" => {
                before.append_if(Costs::is_last, (address,), self.four, four(address));
            }
            "append-if-always" => {
                before.append_if(Costs::is_other, (address,), self.four, four(address));
            }
            "context" => before.call(Costs::context, (FullContext,)),
            "vector" => before.call(Costs::vector, (FullContext,)),
            "guarded" => before.call(Costs::guarded, (address,)),
            _ => {}
        }
    }
}

impl Costs {
    /// What a superblock of the program costs that has two versions, of which the thread executes the
    /// one in which nothing is inserted.
    fn at_superblock(&self, superblock: &Superblock<Self>) {
        let image = image_at(superblock.address());
        if image.is_none_or(|image| image.kind() != ImageKind::Program) {
            return;
        }
        let first = superblock.instructions().next();
        match (self.primitive.as_str(), first) {
            ("superblocks", Some(first)) => first.before().count(self.met, 1),
            ("version-off", _) => match superblock.version(self.switch) {
                Version::Off => {}
                Version::On => superblock
                    .instructions()
                    .for_each(|it| it.before().call(Costs::add, ())),
            },
            _ => {}
        }
    }

    /// What shadow memory costs: a byte that is compared with a constant, half a word that is compared
    /// with the thread's, and two halves of which a part is compared and one becomes the thread's.
    fn at_operand(&self, instruction: &Instruction<Self>, operand: &MemoryOperand) {
        const MASK: u32 = 0xff;
        let before = instruction.before();
        let [one, other] = [0, 4].map(|offset| self.cells.part::<u32>(offset));
        match self.primitive.as_str() {
            "shadow" => {
                let tests = [self.shadow.whole().is(0)];
                before.check_shadow((operand, &tests, &[]), Costs::add, ());
            }
            "shadow-word" => {
                before.check_shadow((operand, &[one.is(self.epoch)], &[]), Costs::add, ());
            }
            "shadow-cell" => {
                let tests = [one, other].map(|half| half.is_under(MASK, self.epoch));
                let stores = [one.becomes(self.epoch)];
                before.check_shadow((operand, &tests, &stores), Costs::add, ());
            }
            "shadow-store" => {
                before.store_shadow(operand, &[one.becomes(self.epoch)]);
            }
            _ => {}
        }
    }
}

impl Tool for Costs {
    type Thread = Seen;

    fn instrument(&self, superblock: &Superblock<Self>) {
        self.at_superblock(superblock);
        for instruction in superblock.instructions() {
            let image = image_at(instruction.address());
            if image.is_none_or(|image| image.kind() != ImageKind::Program) {
                continue;
            }
            for operand in instruction.memory_operands() {
                if let Some(address) = effective_address(operand) {
                    self.at_access(&instruction, address);
                    self.at_operand(&instruction, operand);
                }
            }
        }
    }

    fn image_load(&self, image: &Image<Self>) {
        for routine in image.routines_named("leaf") {
            match self.primitive.as_str() {
                "entry" => routine.entry().call(Costs::add, ()),
                "entry-exit" => {
                    routine.entry().call(Costs::add, ());
                    routine.exit().call(Costs::add, ());
                }
                "wrap" => {
                    image.wrap::<Leaf>("leaf", Costs::wrapped);
                }
                _ => {}
            }
        }
    }

    fn thread_end(&self, _: &ThreadInfo, seen: Seen) {
        if matches!(self.primitive.as_str(), "count" | "superblocks") {
            say(&format!("{} passages", self.met.total()));
        } else {
            std::hint::black_box(seen.number);
        }
    }
}
