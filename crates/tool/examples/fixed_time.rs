//! Runs a program for which the processor's time-stamp counter advances by a hundred each time
//! it is read: what depends on it is the same in each run.

use std::sync::atomic::{AtomicU64, Ordering};

use unspool_tool::iced_x86::Mnemonic;
use unspool_tool::{ByReference, Register, RegisterMut, Superblock, Tool};

#[derive(Default)]
struct FixedTime {
    now: AtomicU64,
}

impl FixedTime {
    fn read(&self, _: &mut (), mut low: RegisterMut, mut high: RegisterMut) {
        let now = self.now.fetch_add(100, Ordering::Relaxed);
        *low = now & 0xffff_ffff;
        *high = now >> 32;
    }
}

impl Tool for FixedTime {
    type Thread = ();
    const LEAVES_OUT: bool = true;

    fn instrument(&self, superblock: &Superblock<Self>) {
        for instruction in superblock.instructions() {
            if instruction.decoded().mnemonic() == Mnemonic::Rdtsc {
                let result = (ByReference(Register::Rax), ByReference(Register::Rdx));
                instruction.before().call(FixedTime::read, result);
                instruction.delete();
            }
        }
    }
}

fn main() {
    unspool_tool::run(FixedTime::default())
}
