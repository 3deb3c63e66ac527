//! Calls of hooked functions that have not ended.
//!
//! Each thread has a list of them, the youngest last. An activation ends when control comes to
//! its return address with the stack pointer above it; and it is unwound when the stack pointer
//! is set above it otherwise (`longjmp`, exceptions), or a call puts another return address
//! where its own was. A program may have several stacks: what lies on another one (in another
//! mapping) is not touched.

use std::cell::Cell;
use std::ops::Range;

use super::wrappers::{CallRegisters, Step, Wrapper};
use super::{HookCall, HookValue, Hooks, MOST_ARGUMENTS};
use crate::emit::gpr;
use crate::guarded;
use crate::instrument::Instrumenter;
use crate::process::Process;
use crate::slots::{Exchange, slots};
use crate::thread::Thread;

/// One of them.
struct Activation {
    hooks: &'static Hooks,
    /// Where the return address is.
    stack_pointer: u64,
    return_address: u64,
    wrapper: Option<Wrapper>,
}

/// Those of a thread.
#[derive(Default)]
struct Activations {
    list: Vec<Activation>,
    /// The mapping in which the stack is that was used last.
    stack: Range<u64>,
    /// Return addresses that are known to be hooked.
    returns: Vec<u64>,
    /// The function that is to be entered without its hook.
    unhooked: u64,
    /// When the list is this long, activations are looked for that ended unnoticed.
    sweep_at: usize,
}

thread_local! {
    static ACTIVATIONS: Cell<Option<Box<Activations>>> = const { Cell::new(None) };
}

/// Counts how often known return addresses became unknown.
static FORGOTTEN: std::sync::atomic::AtomicU64 = std::sync::atomic::AtomicU64::new(0);

/// What a hook is told: the function returns at once.
const RETURN: u64 = 1;
/// The function that has returned is called again.
const CALL_AGAIN: u64 = 2;

/// Places for known return addresses.
const RETURNS: usize = 256;
const FIRST_SWEEP: usize = 1024;

fn with<R>(use_it: impl FnOnce(&mut Activations) -> R) -> R {
    let mut activations = ACTIVATIONS.take().unwrap_or_default();
    let result = use_it(&mut activations);
    ACTIVATIONS.set(Some(activations));
    result
}

fn exchange<'a>() -> &'a mut Exchange {
    // SAFETY: the exchange belongs to this thread, whose code in the cache waits for the hook.
    unsafe { &mut (*slots()).exchange }
}

/// Some return addresses are not hooked any more.
pub(super) fn forget_returns() {
    FORGOTTEN.fetch_add(1, std::sync::atomic::Ordering::AcqRel);
}

impl Activations {
    /// Whether an address is on the same stack as the stack pointer.
    fn is_on_stack(&mut self, stack_pointer: u64, other: u64) -> bool {
        if !self.stack.contains(&stack_pointer) {
            let code = Process::get().code();
            let region = code.regions.find(stack_pointer);
            self.stack = region.map_or(0..0, |(start, region)| start..region.end);
        }
        self.stack.contains(&other)
    }

    /// Takes out those on the stack for which something holds, from the youngest to the first
    /// for which it does not.
    fn remove(
        &mut self,
        stack_pointer: u64,
        ended: impl Fn(&Activation) -> bool,
    ) -> Vec<Activation> {
        let mut removed = Vec::new();
        let mut index = self.list.len();
        while index > 0 {
            index -= 1;
            let place = self.list[index].stack_pointer;
            if !self.is_on_stack(stack_pointer, place) {
                continue;
            }
            if !ended(&self.list[index]) {
                break;
            }
            removed.push(self.list.remove(index));
        }
        removed
    }

    /// Has the return address hooked.
    fn hook_return(&mut self, address: u64) {
        let number = FORGOTTEN.load(std::sync::atomic::Ordering::Acquire);
        if self.returns.len() != RETURNS + 1 || self.returns[RETURNS] != number {
            self.returns = vec![0; RETURNS + 1];
            self.returns[RETURNS] = number;
        }
        let place = (address as usize ^ address as usize >> 8) % RETURNS;
        if self.returns[place] != address
            && let Some(instrumenter) = Instrumenter::get()
        {
            instrumenter.functions.hook_return(address);
            self.returns[place] = address;
        }
    }

    /// Takes out those whose return address is not where it was.
    fn sweep(&mut self) {
        self.sweep_at = self.sweep_at.max(FIRST_SWEEP);
        if self.list.len() < self.sweep_at {
            return;
        }
        let is_there = |activation: &Activation| {
            guarded::read_word(activation.stack_pointer) == Some(activation.return_address)
        };
        let (kept, lost) = std::mem::take(&mut self.list)
            .into_iter()
            .partition(is_there);
        self.list = kept;
        self.sweep_at = 2 * self.list.len();
        unwind(lost);
    }
}

/// Tells that functions were left without returning.
fn unwind(removed: impl IntoIterator<Item = Activation>) {
    for activation in removed {
        if let Some(wrapper) = activation.wrapper {
            wrapper.finish();
        }
        let registers = CallRegisters {
            stack_pointer: activation.stack_pointer,
            return_address: activation.return_address,
            ..CallRegisters::default()
        };
        make(&activation.hooks.unwind, &registers);
    }
}

fn make(calls: &[HookCall], registers: &CallRegisters) {
    const REGISTERS: u8 = 6;
    for call in calls {
        let mut words = [0; MOST_ARGUMENTS];
        for (word, value) in words
            .iter_mut()
            .zip(call.arguments.iter().map_while(|it| *it))
        {
            *word = match value {
                HookValue::Constant(value) => value,
                HookValue::Integer(number) if number < REGISTERS => {
                    registers.integers[usize::from(number)]
                }
                HookValue::Integer(number) => {
                    let place = 8 * (1 + u64::from(number - REGISTERS));
                    guarded::read_word(registers.stack_pointer.wrapping_add(place)).unwrap_or(0)
                }
                HookValue::Float(number) => registers.floats[usize::from(number % 8)],
                HookValue::Result => registers.result,
                HookValue::FloatResult => registers.float_result,
                HookValue::StackPointer => registers.stack_pointer,
                HookValue::ReturnAddress => registers.return_address,
            };
        }
        (call.function)(words.as_ptr());
    }
}

/// The hook at a function's first instruction.
pub(crate) extern "C" fn entered(_: *const (), _: *mut (), _: u64, _: u64, _: u64, _: u64) -> u64 {
    let exchange = exchange();
    // SAFETY: the emitted hook names a description, and descriptions are for ever.
    let hooks: &'static Hooks = unsafe { &*(exchange.subject as *const Hooks) };
    exchange.verdict = 0;
    let registers = CallRegisters {
        integers: exchange.integers,
        floats: exchange.floats,
        stack_pointer: exchange.stack,
        return_address: guarded::read_word(exchange.stack).unwrap_or(0),
        ..CallRegisters::default()
    };
    if !hooks.need_end() {
        make(&hooks.entry, &registers);
        return 0;
    }
    // SAFETY: the slots belong to this thread.
    let called = unsafe { std::mem::take(&mut (*slots()).called) } == registers.stack_pointer + 8;
    with(|activations| activations.enter(hooks, &registers, called));
    0
}

impl Activations {
    fn enter(&mut self, hooks: &'static Hooks, registers: &CallRegisters, called: bool) {
        if self.unhooked == hooks.address {
            self.unhooked = 0;
            return;
        }
        let CallRegisters {
            stack_pointer,
            return_address,
            ..
        } = *registers;
        let lost = self.remove(stack_pointer, |activation| {
            let below = activation.stack_pointer < stack_pointer;
            below
                || activation.stack_pointer == stack_pointer
                    && (called || activation.return_address != return_address)
        });
        unwind(lost);
        // A function that jumps to its own beginning goes on.
        let same_call = |activation: &&Activation| {
            activation.stack_pointer == stack_pointer && activation.return_address == return_address
        };
        let mut call = self.list.iter().rev().take_while(same_call);
        if call.any(|activation| activation.hooks.address == hooks.address) {
            return;
        }
        self.sweep();
        make(&hooks.entry, registers);
        let mut wrapper = hooks.wrapper.map(Wrapper::new);
        if let Some(running) = &mut wrapper {
            match running.resume(*registers) {
                Step::Original(call) => {
                    exchange().integers = call.integers;
                    exchange().floats = call.floats;
                }
                Step::Return(call) => {
                    exchange().result = call.result;
                    exchange().floats[0] = call.float_result;
                    exchange().verdict = RETURN;
                    if let Some(wrapper) = wrapper {
                        wrapper.finish();
                    }
                    return make(&hooks.exit, &call);
                }
            }
        }
        self.hook_return(return_address);
        self.list.push(Activation {
            hooks,
            stack_pointer,
            return_address,
            wrapper,
        });
    }
}

/// The hook at a return address.
pub(crate) extern "C" fn returned(_: *const (), _: *mut (), _: u64, _: u64, _: u64, _: u64) -> u64 {
    exchange().verdict = 0;
    with(Activations::leave);
    0
}

impl Activations {
    fn leave(&mut self) {
        let exchange = exchange();
        let (address, place) = (exchange.subject, exchange.stack.wrapping_sub(8));
        loop {
            let lost = self.remove(exchange.stack, |activation| {
                activation.stack_pointer < place
                    || activation.stack_pointer == place && activation.return_address != address
            });
            unwind(lost);
            let youngest = (0..self.list.len()).rev();
            let mut on_stack =
                youngest.filter(|&index| self.stack.contains(&self.list[index].stack_pointer));
            let Some(index) = on_stack
                .next()
                .filter(|&index| self.list[index].stack_pointer == place)
            else {
                return;
            };
            let mut activation = self.list.remove(index);
            let mut registers = CallRegisters {
                result: exchange.result,
                float_result: exchange.floats[0],
                stack_pointer: place,
                return_address: address,
                ..CallRegisters::default()
            };
            if let Some(wrapper) = &mut activation.wrapper {
                match wrapper.resume(registers) {
                    Step::Return(call) => {
                        registers = call;
                        exchange.result = call.result;
                        exchange.floats[0] = call.float_result;
                    }
                    Step::Original(call) => {
                        exchange.integers = call.integers;
                        exchange.floats = call.floats;
                        exchange.stack = place;
                        exchange.subject = activation.hooks.address;
                        exchange.verdict = CALL_AGAIN;
                        self.list.insert(index, activation);
                        return;
                    }
                }
            }
            if let Some(wrapper) = activation.wrapper.take() {
                wrapper.finish();
            }
            if let Some(of_result) = activation.hooks.of_result {
                super::hook(registers.result, of_result.clone());
            }
            make(&activation.hooks.exit, &registers);
        }
    }
}

/// Control does not go on at a hook: a wrapper returned without calling the original, or calls
/// it once more.
pub(crate) fn redirect(thread: &mut Thread) {
    match exchange().verdict {
        RETURN => return_at_once(thread),
        _ => call_again(thread),
    }
}

fn return_at_once(thread: &mut Thread) {
    let exchange = exchange();
    thread.set_register(gpr::RAX, exchange.result);
    thread.set_register(gpr::RCX, exchange.integers[3]);
    set_floats(thread, &exchange.floats[..1]);
    thread.set_register(gpr::RSP, exchange.stack + 8);
    thread.set_pc(guarded::read_word(exchange.stack).unwrap_or(0));
}

/// The thread goes to the original once more, with the stack as it was.
fn call_again(thread: &mut Thread) {
    const INTEGERS: [u8; 6] = [gpr::RDI, gpr::RSI, gpr::RDX, gpr::RCX, 8, 9];
    let exchange = exchange();
    for (register, value) in INTEGERS.into_iter().zip(exchange.integers) {
        thread.set_register(register, value);
    }
    set_floats(thread, &exchange.floats);
    thread.set_register(gpr::RSP, exchange.stack);
    with(|activations| {
        let activation = activations.list.iter().rev();
        let mut activation = activation.filter(|it| it.stack_pointer == exchange.stack);
        if let Some(activation) = activation.next() {
            // The callee may have used the place.
            let bytes = activation.return_address.to_le_bytes();
            let _ = guarded::write(activation.stack_pointer, &bytes);
        }
        activations.unhooked = exchange.subject;
    });
    thread.set_pc(exchange.subject);
}

/// Sets the low halves of the first vector registers.
fn set_floats(thread: &mut Thread, values: &[u64]) {
    /// Where they are in the legacy part of an XSAVE area, and where its header is.
    const REGISTERS: usize = 160;
    const HEADER: usize = 512;
    /// The component that they are.
    const LOW_HALVES: u64 = 1 << 1;
    // SAFETY: the slots belong to this thread, which is out of the cache.
    unsafe {
        let area = (&raw mut (*thread.slots).vectors).cast::<u8>();
        let header = area.add(HEADER).cast::<u64>();
        if header.read() & LOW_HALVES == 0 {
            // What is in its initial state may not have been written.
            area.add(REGISTERS).write_bytes(0, 256);
            header.write(header.read() | LOW_HALVES);
        }
        for (number, value) in values.iter().enumerate() {
            let place = area.add(REGISTERS + 16 * number);
            place.cast::<u64>().write_unaligned(*value);
        }
    }
}

/// The stack pointer was set anew: what lies below it on the same stack is unwound.
pub(crate) extern "C" fn stack_moved(
    _: *const (),
    _: *mut (),
    _: u64,
    _: u64,
    _: u64,
    _: u64,
) -> u64 {
    /// What unwinders push before they go on in a handler.
    const PUSHED: u64 = 16;
    let now = exchange().stack;
    with(|activations| {
        let lost = activations.remove(now, |activation| {
            let place = activation.stack_pointer;
            place < now
                || place <= now + PUSHED
                    && guarded::read_word(place) != Some(activation.return_address)
        });
        unwind(lost);
    });
    0
}

/// The thread ends: what it has not finished, it never will.
pub(crate) fn thread_ends() {
    if let Some(activations) = ACTIVATIONS.take() {
        for activation in activations.list {
            if let Some(wrapper) = activation.wrapper {
                wrapper.finish();
            }
        }
    }
}
