//! Changes what a function without a name gets and returns: `changed OFFSET` makes the first argument
//! of the function so far from the start of the program's file one more, and appends what the
//! caller has passed to the result as its last digit.
//!
//! With `entry-only` the result stays, and with `by-value` both stay.

use unspool_tool::{
    FunctionArgument, FunctionArgumentByReference, Image, ImageKind, ReturnValueByReference,
    Superblock, Tool, ValueMut, arguments,
};

use crate::asked;

/// The tool.
pub(crate) struct Changed {
    offset: u64,
}

impl Changed {
    pub(crate) fn new() -> Changed {
        let offset = arguments().get(1).and_then(|word| word.to_str());
        let offset = offset.and_then(|word| u64::from_str_radix(word, 16).ok());
        Changed {
            offset: offset.expect("the first argument is an offset in hexadecimal"),
        }
    }

    fn enters(&self, (): &mut (), mut first: ValueMut<i64>) {
        first.set(first.get() + 1);
    }

    fn leaves(&self, (): &mut (), mut result: ValueMut<i64>, passed: i64) {
        result.set(result.get() * 10 + passed);
    }

    fn looks(&self, (): &mut (), mut first: i64) {
        first += 1;
        std::hint::black_box(first);
    }
}

impl Tool for Changed {
    type Thread = ();

    fn instrument(&self, _: &Superblock<Self>) {}

    fn image_load(&self, image: &Image<Self>) {
        if image.kind() != ImageKind::Program {
            return;
        }
        assert!(image.routine_starting_at(8).is_none(), "no code is there");
        let routine = image.routine_starting_at(image.base() + self.offset);
        let routine = routine.expect("the function is in the program's code");
        let passed = FunctionArgument::<i64, 0>::new();
        if asked("by-value") {
            return routine.entry().call(Changed::looks, (passed,));
        }
        let first = FunctionArgumentByReference::<i64, 0>::new();
        routine.entry().call(Changed::enters, (first,));
        if !asked("entry-only") {
            let result = ReturnValueByReference::<i64>::new();
            routine.exit().call(Changed::leaves, (result, passed));
        }
    }
}
