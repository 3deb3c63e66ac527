//! How many of the program's multiplications of two doubles have a factor that is zero.

use std::sync::atomic::{AtomicU64, Ordering};

use unspool_tool::{
    ImageKind, Instruction, Superblock, ThreadInfo, Tool, iced_x86, memory_value, say,
    vector_register,
};

/// Products, and how many of them have a factor that is zero.
#[derive(Default)]
struct Products {
    all: u64,
    of_zero: u64,
}

#[derive(Default)]
struct ZeroProducts {
    all: AtomicU64,
    of_zero: AtomicU64,
}

fn lowest(register: [u8; 16]) -> f64 {
    let bytes = register.first_chunk().expect("there are sixteen");
    f64::from_le_bytes(*bytes)
}

impl Products {
    fn add(&mut self, left: f64, right: f64) {
        self.all += 1;
        self.of_zero += u64::from(left == 0.0 || right == 0.0);
    }
}

impl ZeroProducts {
    fn registers(&self, products: &mut Products, left: [u8; 16], right: [u8; 16]) {
        products.add(lowest(left), lowest(right));
    }

    fn memory(&self, products: &mut Products, left: [u8; 16], right: u64) {
        products.add(lowest(left), f64::from_bits(right));
    }

    // ANCHOR: multiplies
    fn multiplies(&self, instruction: &Instruction<Self>) {
        let decoded = instruction.decoded();
        let place = instruction.before();
        let register = |operand| vector_register(decoded.op_register(operand).number() as u8);
        match instruction.memory_operands().first().and_then(memory_value) {
            Some(value) => place.call(ZeroProducts::memory, (register(0), value)),
            None => place.call(ZeroProducts::registers, (register(0), register(1))),
        }
    }
    // ANCHOR_END: multiplies
}

impl Tool for ZeroProducts {
    type Thread = Products;

    fn instrument(&self, superblock: &Superblock<Self>) {
        for instruction in superblock.instructions() {
            let image = instruction.image();
            let is_own = image.is_some_and(|image| image.kind() == ImageKind::Program);
            if is_own && instruction.decoded().mnemonic() == iced_x86::Mnemonic::Mulsd {
                self.multiplies(&instruction);
            }
        }
    }

    fn thread_end(&self, _: &ThreadInfo, products: Products) {
        self.all.fetch_add(products.all, Ordering::Relaxed);
        self.of_zero.fetch_add(products.of_zero, Ordering::Relaxed);
    }

    fn end(&self) {
        let [all, of_zero] = [&self.all, &self.of_zero].map(|it| it.load(Ordering::Relaxed));
        say(&format!("{of_zero} of {all} products have a factor 0"));
    }
}

fn main() {
    unspool_tool::run(ZeroProducts::default())
}
