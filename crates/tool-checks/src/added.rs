//! Adds 1000 to r11 at each instruction that the guest `instructions/across_indirect` marks.
//!
//! A function does so that is inlined; with `called`, one that is called; with `gated`, one that computes;
//! with `context`, one that has the whole state. With `nothing`, it stays.

use unspool_tool::{
    ByReference, Context, FullContext, Instruction, Register, RegisterMut, Superblock, Tool,
};

use crate::asked;

/// `nopl 0x5a(%r11)`
const MARK: &[u8] = &[0x41, 0x0f, 0x1f, 0x43, 0x5a];

/// The tool.
pub(crate) struct Added;

impl Added {
    fn inlined(&self, _: &mut f64, mut r11: RegisterMut) {
        *r11 += 1000;
    }

    fn called(&self, sum: &mut f64, r11: RegisterMut) {
        if std::hint::black_box(*r11) != 0 {
            *sum += 1.0;
        }
        self.inlined(sum, r11);
    }

    #[inline(never)]
    fn gated(&self, sum: &mut f64, r11: RegisterMut) {
        *sum = (*sum + 1.0).ln();
        self.inlined(sum, r11);
    }

    fn context(&self, _: &mut f64, mut context: Context) {
        let r11 = context.register(Register::R11 as u8);
        context.set_register(Register::R11 as u8, r11.wrapping_add(1000));
    }

    fn insert(instruction: &Instruction<Self>) {
        let before = instruction.before();
        let r11 = (ByReference(Register::R11),);
        if asked("called") {
            before.call(Self::called, r11);
        } else if asked("gated") {
            before.call(Self::gated, r11);
        } else if asked("context") {
            before.call(Self::context, (FullContext,));
        } else if !asked("nothing") {
            before.call(Self::inlined, r11);
        }
    }
}

impl Tool for Added {
    type Thread = f64;

    fn instrument(&self, superblock: &Superblock<Self>) {
        for instruction in superblock.instructions() {
            if instruction.bytes() == MARK {
                Added::insert(&instruction);
            }
        }
    }
}
