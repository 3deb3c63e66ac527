//! The parts of the instrumenter that inserted code is about.

use iced_x86::{Mnemonic, OpKind, Register};
use unspool_engine::translate::forced_splits::ForcedSplits;
use unspool_engine::translate::superblock::{CallSites, Item, Limits};
use unspool_instructions::decode::Kind;

use crate::buffers;
use crate::compiled::CompiledFunctions;
use crate::fragments::Fragments;
use crate::functions::Functions;
use crate::images::Images;
use crate::instrumentation::Instrumentation;
use crate::system_calls::SystemCallPlaces;

/// Where there are buffers: registers for a position, and for scratch.
const BOUND: usize = 2;

/// The parts of the instrumenter that inserted code is about.
#[derive(Clone, Copy)]
pub(crate) struct Parts {
    pub(crate) tool: &'static dyn Instrumentation,
    pub(crate) images: &'static Images,
    pub(crate) functions: &'static Functions,
    pub(crate) system_calls: &'static SystemCallPlaces,
    pub(crate) fragments: &'static Fragments,
    pub(crate) compiled: &'static CompiledFunctions,
}

impl Limits for Parts {
    fn bound_registers(&self) -> usize {
        match buffers::are_used() {
            true => BOUND,
            false => 0,
        }
    }

    fn word_bound(&self, _: &Item) -> usize {
        0
    }

    fn forced_splits(&self) -> &ForcedSplits {
        &self.fragments.forced_splits
    }

    /// The processor predicts a return only if each call is made from one place (see
    /// [`CallSites`]), and the code behind such a place cannot be a particular
    /// superblock's.
    fn follows_calls(&self) -> bool {
        false
    }

    fn is_function(&self, pc: u64) -> bool {
        self.functions.hook_at(pc).is_some()
    }

    fn leaves_out(&self) -> bool {
        self.tool.leaves_out() || self.tool.keeps_flags()
    }

    fn call_sites(&self) -> Option<&CallSites> {
        Some(&self.fragments.call_sites)
    }

    /// What the instructions before it count is to be in the counters when the tool is told that
    /// functions are left there.
    fn ends_behind(&self, item: &Item) -> bool {
        self.functions.follows_returns() && sets_stack_pointer(item)
    }
}

/// Whether an instruction gives the stack pointer a value that does not follow from the stack
/// or frame pointer.
pub(super) fn sets_stack_pointer(item: &Item) -> bool {
    let decoded = item.decoded();
    let plain = matches!(item.layout.kind, Kind::Plain);
    if !plain || decoded.op_count() == 0 || decoded.op0_kind() != OpKind::Register {
        return false;
    }
    let other = decoded.op1_kind() == OpKind::Register;
    match decoded.mnemonic() {
        Mnemonic::Mov if decoded.op0_register() == Register::RSP => {
            !(other && decoded.op1_register() == Register::RBP)
        }
        Mnemonic::Xchg => {
            decoded.op0_register() == Register::RSP
                || other && decoded.op1_register() == Register::RSP
        }
        Mnemonic::Pop => decoded.op0_register() == Register::RSP,
        Mnemonic::Lea if decoded.op0_register() == Register::RSP => {
            !matches!(decoded.memory_base(), Register::RSP | Register::RBP)
        }
        _ => false,
    }
}
