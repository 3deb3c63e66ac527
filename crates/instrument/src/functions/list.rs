//! The list of a thread's activations, as translated code knows it too.
//!
//! Where nothing is unusual, the code at hooks appends to the list and takes from its end without
//! the engine. The thread's slots say where the end is, how far the list may grow, and from which
//! stack pointer on things are usual: as long as all activations are on the stack that the thread
//! is on. Otherwise that bound is above all stack pointers, and the engine is asked.

use std::ops::Range;

use unspool_code_cache::slots::slots;
use unspool_kernel::guarded;

use super::Hooks;
use super::wrappers::Wrapper;
use crate::process::process;
use crate::slots as tool_slots;
use unspool_engine::process::Process;

/// How many arguments an activation can keep for hooks at the function's end.
pub(super) const MOST_KEPT: usize = 12;

/// A call of a hooked function that has not ended.
#[repr(C)]
pub(super) struct Activation {
    /// Where the return address is.
    pub(super) stack_pointer: u64,
    pub(super) return_address: u64,
    pub(super) hooks: &'static Hooks,
    pub(super) wrapper: Option<Wrapper>,
    /// Arguments, as [`Hooks::kept`] names them.
    pub(super) kept: [u64; MOST_KEPT],
}

/// Where code finds the parts of an activation.
pub(crate) mod offset {
    use std::mem::offset_of;

    use super::Activation;

    /// Its size.
    pub(crate) const SIZE: i32 = size_of::<Activation>() as i32;
    pub(crate) const STACK_POINTER: i32 = offset_of!(Activation, stack_pointer) as i32;
    pub(crate) const RETURN_ADDRESS: i32 = offset_of!(Activation, return_address) as i32;
    pub(crate) const HOOKS: i32 = offset_of!(Activation, hooks) as i32;
    pub(crate) const WRAPPER: i32 = offset_of!(Activation, wrapper) as i32;

    /// Of an argument that is kept.
    pub(crate) const fn kept(number: usize) -> i32 {
        offset_of!(Activation, kept) as i32 + 8 * number as i32
    }
}

/// In the place of those that have not been entered.
static NOTHING: Hooks = Hooks {
    entry: Vec::new(),
    exit: Vec::new(),
    unwind: Vec::new(),
    wrapper: None,
    has_floats: false,
    of_result: None,
    address: 0,
    kept: Vec::new(),
};

/// When a list is this long, activations are looked for that ended unnoticed.
const FIRST_SWEEP: usize = 1024;

/// The activations of a thread, the youngest last.
pub(super) struct List {
    /// Behind a first one that never ends: it is where the stack begins, above all others.
    all: Vec<Activation>,
    /// The mapping in which the stack is that was used last.
    stack: Range<u64>,
    /// How many activations are not on the stack `counted`.
    strays: usize,
    /// The stack that was the last one when `strays` were counted.
    counted: Range<u64>,
    sweep_at: usize,
}

impl Default for List {
    fn default() -> List {
        let first = Activation {
            stack_pointer: u64::MAX,
            return_address: 0,
            hooks: &NOTHING,
            wrapper: None,
            kept: [0; MOST_KEPT],
        };
        List {
            all: vec![first],
            stack: 0..0,
            strays: 0,
            counted: 0..0,
            sweep_at: FIRST_SWEEP,
        }
    }
}

impl List {
    /// Takes over what translated code has done to the list.
    pub(super) fn adopt(&mut self) {
        let end = tool_slots::of(slots()).activations.get();
        if end != 0 {
            let length = (end as usize - self.all.as_ptr() as usize) / size_of::<Activation>();
            debug_assert!((1..=self.all.capacity()).contains(&length));
            // SAFETY: translated code was given this list's end, and moves it only by whole
            // activations that it has written, within the capacity and never below the first.
            unsafe { self.all.set_len(length) };
        }
    }

    /// Gives the list to translated code.
    pub(super) fn publish(&mut self) {
        if self.counted != self.stack {
            self.counted = self.stack.clone();
            let others = self.all[1..].iter();
            let others = others.filter(|it| !self.stack.contains(&it.stack_pointer));
            self.strays = others.count();
        }
        self.all.reserve(1);
        self.all[0].stack_pointer = self.stack.end;
        let usual = self.strays == 0 && !self.stack.is_empty();
        let address = |length: usize| self.all.as_ptr().wrapping_add(length) as u64;
        let limit = self.all.capacity().min(self.sweep_at);
        let own = tool_slots::of(slots());
        own.activations.set(address(self.all.len()));
        own.activations_limit.set(address(limit));
        own.usual_stack
            .set(if usual { self.stack.start } else { u64::MAX });
    }

    /// Takes the list away from translated code, for good.
    pub(super) fn withdraw(&mut self) {
        self.adopt();
        tool_slots::of(slots()).activations.set(0);
        tool_slots::of(slots()).usual_stack.set(u64::MAX);
    }

    /// Notes on which stack the thread is.
    pub(super) fn be_on(&mut self, stack_pointer: u64) {
        if !self.stack.contains(&stack_pointer) {
            let code = process().map(Process::code);
            let region = code.as_ref().and_then(|it| it.regions.find(stack_pointer));
            self.stack = region.map_or(0..0, |(start, region)| start..region.end);
        }
    }

    /// Takes out those on the stack for which something holds, from the youngest to the first
    /// for which it does not.
    pub(super) fn remove_while(
        &mut self,
        stack_pointer: u64,
        ended: impl Fn(&Activation) -> bool,
    ) -> Vec<Activation> {
        self.be_on(stack_pointer);
        let mut removed = Vec::new();
        while let Some(index) = self.youngest().filter(|&index| ended(&self.all[index])) {
            removed.push(self.all.remove(index));
        }
        removed
    }

    /// The number of the youngest on the stack that the thread is on.
    pub(super) fn youngest(&self) -> Option<usize> {
        let mut numbers = (1..self.all.len()).rev();
        numbers.find(|&index| self.stack.contains(&self.all[index].stack_pointer))
    }

    pub(super) fn get(&mut self, index: usize) -> &mut Activation {
        &mut self.all[index]
    }

    pub(super) fn remove(&mut self, index: usize) -> Activation {
        self.all.remove(index)
    }

    /// All of them, the youngest first.
    pub(super) fn iter(&self) -> impl Iterator<Item = &Activation> {
        self.all[1..].iter().rev()
    }

    /// Adds one on the stack that the thread is on.
    pub(super) fn push(&mut self, activation: Activation) {
        self.all.push(activation);
    }

    /// Puts one back to where it was.
    pub(super) fn insert(&mut self, index: usize, activation: Activation) {
        self.all.insert(index, activation);
    }

    /// How many there are.
    pub(super) fn len(&self) -> usize {
        self.all.len() - 1
    }

    /// Takes out all but the oldest ones, wherever the thread goes on.
    pub(super) fn take_beyond(&mut self, oldest: usize) -> Vec<Activation> {
        (self.stack, self.counted) = (0..0, 0..0);
        self.all.split_off(self.all.len().min(oldest + 1))
    }

    /// Takes out all of them.
    pub(super) fn take(&mut self) -> Vec<Activation> {
        self.all.split_off(1)
    }

    /// Takes out those whose return address is not where it was, if the list is long.
    pub(super) fn sweep(&mut self) -> Vec<Activation> {
        if self.all.len() < self.sweep_at {
            return Vec::new();
        }
        let is_there = |activation: &Activation| {
            guarded::read_word(activation.stack_pointer) == Some(activation.return_address)
        };
        let (kept, lost) = self.take().into_iter().partition(is_there);
        self.all.extend::<Vec<_>>(kept);
        self.sweep_at = FIRST_SWEEP.max(2 * self.all.len());
        self.counted = 0..0;
        lost
    }
}
