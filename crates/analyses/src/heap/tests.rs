use unspool_events::{Access, AccessFlags, AccessKind};

use super::*;

const THREAD: ThreadId = ThreadId(3);
const STACK: u64 = 0x7fff_0000;

/// What a thread does, one step after the other, and where it is.
struct Program {
    heap: Heap,
    paths: CallPaths,
    time: u64,
}

impl Program {
    fn new() -> Program {
        Program::with_memory(1 << 20)
    }

    fn with_memory(most_bytes: usize) -> Program {
        let mut heap = Heap::new(most_bytes);
        for (number, name) in functions().enumerate() {
            heap.function(&TracedFunction {
                id: FunctionId(number as u32),
                name: name.to_owned(),
                address: 0,
            });
        }
        Program {
            heap,
            paths: CallPaths::new(1 << 20),
            time: 0,
        }
    }

    fn event(&mut self, span: Span) {
        self.time += 1;
        self.heap
            .event(THREAD, self.time, &Event::Span(span), &self.paths);
    }

    fn function(name: &str) -> FunctionId {
        let number = functions().position(|known| known == name);
        FunctionId(number.expect("a function that is followed") as u32)
    }

    /// The instruction at an address calls a function, with a stack that is so deep.
    fn calls(&mut self, pc: u64, depth: u64, name: &str, arguments: [u64; 3]) {
        let address = STACK - 16 * depth;
        self.paths.thread(THREAD).access(&Access {
            time: self.time,
            pc,
            address,
            size: 8,
            kind: AccessKind::Write,
            flags: AccessFlags::RETURN_ADDRESS,
        });
        self.event(Span::FunctionCall {
            function: Program::function(name),
            stack_pointer: address,
            arguments,
        });
    }

    fn returns(&mut self, depth: u64, name: &str, value: u64, stored: Option<u64>) {
        let stack_pointer = STACK - 16 * depth;
        self.paths.thread(THREAD).access(&Access {
            time: self.time,
            pc: 0,
            address: stack_pointer,
            size: 8,
            kind: AccessKind::Read,
            flags: AccessFlags::RETURN_ADDRESS,
        });
        self.event(Span::FunctionReturn {
            function: Program::function(name),
            stack_pointer,
            value,
            stored,
        });
    }

    fn does(&mut self, pc: u64, name: &str, arguments: [u64; 3], value: u64) {
        self.calls(pc, 1, name, arguments);
        self.returns(1, name, value, None);
    }

    /// The block that has a byte: where it was allocated, its address, its size, and where it was freed.
    fn block(&mut self, address: u64) -> Option<(u64, u64, u64, Option<u64>)> {
        let id = self.heap.tell(address)?;
        let block = self.heap.block(id, u64::MAX);
        let caller = |step: HeapStep| self.paths.calls(step.context)[0].pc;
        assert_eq!(block.allocated.thread, THREAD.0);
        let freed = block.freed.map(caller);
        Some((caller(block.allocated), block.address, block.size, freed))
    }
}

#[test]
fn what_functions_return_are_blocks() {
    let mut program = Program::new();
    program.does(1, "malloc", [24, 0, 0], 0x1000);
    program.does(2, "calloc", [4, 25, 0], 0x2000);
    program.does(3, "aligned_alloc", [64, 128, 0], 0x3000);
    program.calls(4, 1, "posix_memalign", [0x9000, 64, 256]);
    program.returns(1, "posix_memalign", 0, Some(0x4000));
    program.calls(5, 1, "posix_memalign", [0x9000, 64, 256]);
    program.returns(1, "posix_memalign", 12, Some(0x5000));
    program.does(6, "malloc", [24, 0, 0], 0);
    assert_eq!(program.block(0x1000), Some((1, 0x1000, 24, None)));
    assert_eq!(program.block(0x1017), Some((1, 0x1000, 24, None)));
    assert_eq!(program.block(0x1018), None);
    assert_eq!(program.block(0xfff), None);
    assert_eq!(program.block(0x2063), Some((2, 0x2000, 100, None)));
    assert_eq!(program.block(0x3000), Some((3, 0x3000, 128, None)));
    assert_eq!(program.block(0x40ff), Some((4, 0x4000, 256, None)));
    assert_eq!(program.block(0x5000), None);
    assert_eq!(program.block(0), None);
}

#[test]
fn freed_blocks_are_known_until_their_memory_is_given_out_again() {
    let mut program = Program::new();
    program.does(1, "malloc", [64, 0, 0], 0x1000);
    program.does(2, "malloc", [64, 0, 0], 0x1040);
    let told = program.heap.tell(0x1000).expect("a block");
    let before = program.time + 1;
    program.does(3, "free", [0x1000, 0, 0], 0);
    program.does(4, "free", [0, 0, 0], 0);
    // What a thread has kept of freed blocks it gives back when it ends.
    program.does(9, "free", [0x1000, 0, 0], 0);
    assert_eq!(program.block(0x1000), Some((1, 0x1000, 64, Some(3))));
    // To whom it was told of before that, too; but it was not freed then.
    assert!(program.heap.block(told, before + 1).freed.is_some());
    assert_eq!(program.heap.block(told, before).freed, None);
    program.does(5, "malloc", [16, 0, 0], 0x1010);
    assert_eq!(program.block(0x1010), Some((5, 0x1010, 16, None)));
    assert_eq!(program.block(0x1000), None);
    assert_eq!(program.block(0x1040), Some((2, 0x1040, 64, None)));
    program.does(6, "malloc", [128, 0, 0], 0x1000);
    assert_eq!(program.block(0x1040), Some((6, 0x1000, 128, None)));
}

#[test]
fn blocks_are_gone_with_their_memory() {
    let mut program = Program::new();
    program.does(0x10, "malloc", [0x100, 0, 0], 0x5000);
    program.does(0x20, "malloc", [0x100, 0, 0], 0x6000);
    program.heap.forget(0x6100, 0x1000);
    program.heap.forget(0x4000, 0x1001);
    assert!(program.block(0x5080).is_none(), "a part of it is gone");
    assert!(
        program.block(0x6080).is_some(),
        "what lies behind it is gone"
    );
}

#[test]
fn blocks_that_are_made_larger_are_others() {
    let mut program = Program::new();
    program.does(1, "malloc", [64, 0, 0], 0x1000);
    program.does(2, "realloc", [0x1000, 128, 0], 0x1000);
    assert_eq!(program.block(0x1000), Some((2, 0x1000, 128, None)));
    program.does(3, "reallocarray", [0x1000, 4, 64], 0x2000);
    assert_eq!(program.block(0x1000), Some((2, 0x1000, 128, Some(3))));
    assert_eq!(program.block(0x20ff), Some((3, 0x2000, 256, None)));
    // There is no room for that.
    program.does(4, "realloc", [0x2000, u64::MAX, 0], 0);
    assert_eq!(program.block(0x2000), Some((3, 0x2000, 256, None)));
    program.does(5, "realloc", [0x2000, 0, 0], 0);
    assert_eq!(program.block(0x2000), Some((3, 0x2000, 256, Some(5))));
}

#[test]
fn the_outermost_function_counts() {
    let mut program = Program::new();
    program.calls(1, 1, "_Znwm", [40, 0, 0]);
    program.calls(2, 2, "malloc", [56, 0, 0]);
    program.returns(2, "malloc", 0x1000, None);
    program.returns(1, "_Znwm", 0x1010, None);
    assert_eq!(program.block(0x1010), Some((1, 0x1010, 40, None)));
    assert_eq!(program.block(0x1000), None);
    // By a jump: both have the same stack.
    program.calls(3, 1, "_ZdlPvm", [0x1010, 0, 0]);
    program.event(Span::FunctionCall {
        function: Program::function("free"),
        stack_pointer: STACK - 16,
        arguments: [0x1010, 0, 0],
    });
    program.returns(1, "free", 0, None);
    program.returns(1, "_ZdlPvm", 0, None);
    assert_eq!(program.block(0x1010), Some((1, 0x1010, 40, Some(3))));
}

#[test]
fn a_function_that_an_exception_has_left_is_over() {
    let mut program = Program::new();
    let huge = [u64::MAX / 2, 0, 0];
    program.calls(1, 2, "_Znwm", huge);
    program.calls(9, 3, "malloc", huge);
    program.returns(3, "malloc", 0, None);
    // Its caller handles the exception, and calls what has a deeper stack than it had.
    program.calls(2, 1, "valloc", [1, 0, 0]);
    program.returns(1, "valloc", 0x5000, None);
    program.calls(1, 2, "_Znwm", huge);
    let caller = STACK - 16;
    program.paths.thread(THREAD).access(&Access {
        time: program.time,
        pc: 7,
        address: caller,
        size: 8,
        kind: AccessKind::Write,
        flags: AccessFlags::RETURN_ADDRESS,
    });
    program.calls(3, 4, "malloc", [32, 0, 0]);
    program.returns(4, "malloc", 0x1000, None);
    assert_eq!(program.block(0x1000), Some((3, 0x1000, 32, None)));
    // Its caller calls it again.
    program.calls(1, 2, "_Znwm", huge);
    program.calls(1, 2, "_Znwm", [32, 0, 0]);
    program.returns(2, "_Znwm", 0x2000, None);
    assert_eq!(program.block(0x2000), Some((1, 0x2000, 32, None)));
}

#[test]
fn memory_is_bounded_and_that_is_said() {
    let mut program = Program::with_memory(100 * BLOCK_BYTES);
    for number in 1..=1000 {
        program.does(1, "malloc", [16, 0, 0], 0x1000 * number);
        program.does(2, "free", [0x1000 * number, 0, 0], 0);
    }
    assert!(program.heap.blocks.len() <= 100);
    assert_eq!(program.heap.forgotten, 0);
    for number in 1..=150 {
        program.does(3, "malloc", [16, 0, 0], 0x1000 * number);
    }
    assert!(program.heap.blocks.len() <= 100);
    assert_eq!(program.heap.forgotten, 1);
    assert_eq!(
        program.block(0x1000 * 150),
        Some((3, 0x1000 * 150, 16, None))
    );
}
