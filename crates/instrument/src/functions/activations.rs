//! Calls of hooked functions that have not ended.
//!
//! Each thread has a list of them, the youngest last. An activation ends when control comes to
//! its return address with the stack pointer above it; and it is unwound when the stack pointer
//! is set above it otherwise (`longjmp`, exceptions), or a call puts another return address
//! where its own was. A program may have several stacks: what lies on another one (in another
//! mapping) is not touched.

use std::cell::Cell;

use unspool_code_cache::emit::gpr;
use unspool_code_cache::slots::slots;
use unspool_kernel::guarded;

use super::in_place::INTEGERS;
use super::list::{Activation, List, MOST_KEPT};
use super::wrappers::{self, CallRegisters, Wrapper, WrapperStep};
use super::{Functions, HookCall, HookValue, Hooks, MOST_ARGUMENTS};
use crate::in_tool::argument_word;
use crate::slots as tool_slots;
use crate::slots::Exchange;
use unspool_engine::thread::Thread;

/// Those of a thread.
struct Activations {
    /// All that is hooked.
    functions: &'static Functions,
    list: List,
    /// The function that is to be entered without its hook.
    unhooked: u64,
}

thread_local! {
    static ACTIVATIONS: Cell<Option<Box<Activations>>> = const { Cell::new(None) };
}

/// What unwinders push before they go on in a handler.
pub(crate) const PUSHED: u64 = 16;

/// What a hook is told: the function returns at once.
const RETURN: u64 = 1;
/// The function that has returned is called again.
const CALL_AGAIN: u64 = 2;

fn with<R>(use_it: impl FnOnce(&mut Activations) -> R) -> R {
    let activations = ACTIVATIONS.take();
    let mut activations = activations.expect("a thread of the program's has been started");
    activations.list.adopt();
    let result = use_it(&mut activations);
    activations.list.publish();
    ACTIVATIONS.set(Some(activations));
    result
}

fn exchange<'a>() -> &'a mut Exchange {
    // SAFETY: the exchange belongs to this thread, whose code in the cache waits for the hook.
    unsafe { &mut *tool_slots::of(slots()).exchange.get() }
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
        let (hooks, kept) = (activation.hooks, &activation.kept);
        make(&hooks.unwind, registers, |_, value| {
            hooks.kept_value(kept, value)
        });
    }
}

/// The value of an argument where the function is entered.
fn entry_value(registers: &CallRegisters, value: HookValue) -> u64 {
    const REGISTERS: u8 = INTEGERS.len() as u8;
    match value {
        HookValue::Integer(number) | HookValue::ChangeableInteger(number) if number < REGISTERS => {
            registers.integers[usize::from(number)]
        }
        HookValue::Integer(number) => {
            let place = 8 * (1 + u64::from(number - REGISTERS));
            guarded::read_word(registers.stack_pointer.wrapping_add(place)).unwrap_or(0)
        }
        HookValue::Float(number) => registers.floats[usize::from(number % 8)],
        _ => 0,
    }
}

/// Makes calls; a closure knows the function's arguments. Returns the registers as the calls leave
/// them.
fn make(
    calls: &[HookCall],
    mut registers: CallRegisters,
    argument: impl Fn(&CallRegisters, HookValue) -> u64,
) -> CallRegisters {
    for call in calls {
        let mut words = [0; MOST_ARGUMENTS];
        for (word, value) in words
            .iter_mut()
            .zip(call.arguments.iter().map_while(|it| *it))
        {
            *word = match value {
                HookValue::Constant(value) => value,
                HookValue::Integer(_) | HookValue::Float(_) | HookValue::ChangeableInteger(_) => {
                    argument(&registers, value)
                }
                HookValue::Result | HookValue::ChangeableResult => registers.result,
                HookValue::FloatResult => registers.float_result,
                HookValue::StackPointer => registers.stack_pointer,
                HookValue::ReturnAddress => registers.return_address,
            };
        }
        lend(call, &words);
        (call.function)(words.as_ptr());
        take_back(call, &mut registers);
    }
    registers
}

/// Where the words are that a call may change.
fn changeable(call: &HookCall) -> impl Iterator<Item = (usize, HookValue)> {
    let values = call.arguments.iter().map_while(|it| *it).enumerate();
    values.filter(|(_, value)| {
        matches!(
            value,
            HookValue::ChangeableInteger(_) | HookValue::ChangeableResult
        )
    })
}

/// Puts what a function may change where it finds it, as inserted code does.
fn lend(call: &HookCall, words: &[u64; MOST_ARGUMENTS]) {
    for (number, _) in changeable(call) {
        // SAFETY: the word is this thread's, and nobody else uses it now.
        unsafe { argument_word(number).write(words[number]) };
    }
}

/// Takes over what the function has made of it.
fn take_back(call: &HookCall, registers: &mut CallRegisters) {
    for (number, value) in changeable(call) {
        // SAFETY: as above.
        let word = unsafe { argument_word(number).read() };
        match value {
            HookValue::ChangeableInteger(number) => {
                registers.integers[usize::from(number) % INTEGERS.len()] = word;
            }
            _ => registers.result = word,
        }
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
        return_address: guarded::read_quickly(exchange.stack).unwrap_or(0),
        ..CallRegisters::default()
    };
    if !hooks.need_end() {
        exchange.integers = make(&hooks.entry, registers, entry_value).integers;
        return 0;
    }
    let called = tool_slots::of(slots()).called.take() == registers.stack_pointer + 8;
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
        let lost = self.list.remove_while(stack_pointer, |activation| {
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
        let is_it = |activation: &Activation| activation.hooks.address == hooks.address;
        if self.list.iter().take_while(same_call).any(is_it) {
            return;
        }
        unwind(self.list.sweep());
        let changed = make(&hooks.entry, *registers, entry_value);
        exchange().integers = changed.integers;
        let mut kept = [0; MOST_KEPT];
        for (word, &value) in kept.iter_mut().zip(&hooks.kept) {
            *word = entry_value(registers, value);
        }
        let mut wrapper = None;
        if let Some(function) = hooks.wrapper {
            let mut running = Wrapper::new();
            *running.registers() = changed;
            let step = running.begin(function);
            let call = *running.registers();
            if step == WrapperStep::Return {
                running.keep();
                let end = make(&hooks.exit, call, |_, value| hooks.kept_value(&kept, value));
                exchange().result = end.result;
                exchange().floats[0] = end.float_result;
                exchange().verdict = RETURN;
                return;
            }
            exchange().integers = call.integers;
            exchange().floats = call.floats;
            wrapper = Some(running);
            wrappers::have_one_kept();
        }
        if !super::returns::is_known(return_address) {
            self.functions.hook_return(return_address, hooks);
        }
        self.list.push(Activation {
            stack_pointer,
            return_address,
            hooks,
            wrapper,
            kept,
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
            let lost = self.list.remove_while(exchange.stack, |activation| {
                activation.stack_pointer < place
                    || activation.stack_pointer == place && activation.return_address != address
            });
            unwind(lost);
            let Some(index) = self
                .list
                .youngest()
                .filter(|&index| self.list.get(index).stack_pointer == place)
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
            if let Some(mut wrapper) = activation.wrapper.take() {
                wrapper.registers().result = registers.result;
                wrapper.registers().float_result = registers.float_result;
                let step = wrapper.resume();
                registers = *wrapper.registers();
                if step == WrapperStep::Original {
                    exchange.integers = registers.integers;
                    exchange.floats = registers.floats;
                    exchange.stack = place;
                    exchange.subject = activation.hooks.address;
                    exchange.verdict = CALL_AGAIN;
                    activation.wrapper = Some(wrapper);
                    self.list.insert(index, activation);
                    return;
                }
                wrapper.keep();
                exchange.result = registers.result;
                exchange.floats[0] = registers.float_result;
            }
            if let Some(of_result) = activation.hooks.of_result {
                self.functions.hook_chosen(registers.result, of_result);
            }
            let (hooks, kept) = (activation.hooks, &activation.kept);
            let end = make(&hooks.exit, registers, |_, value| {
                hooks.kept_value(kept, value)
            });
            exchange.result = end.result;
            if self.functions.end_in_place(hooks) {
                // So that the next such return needs nobody to ask.
                self.functions.hook_return(address, hooks);
            }
        }
    }
}

/// Copies words one by one. Inserted code and wrappers store them so, and the processor makes a wider
/// load wait until they are in memory; and vector registers that are not used need not be kept.
fn copy_words<const COUNT: usize>(from: &[u64; COUNT], to: &mut [u64; COUNT]) {
    for (from, to) in from.iter().zip(to) {
        // SAFETY: both are references. It is volatile so that compilers do not join neighbours.
        unsafe { std::ptr::from_mut(to).write_volatile(std::ptr::from_ref(from).read_volatile()) };
    }
}

/// The function has been entered, inserted code has noted its activation, and its wrapper begins.
pub(crate) extern "C" fn began(_: *const (), _: *mut (), _: u64, _: u64, _: u64, _: u64) -> u64 {
    let exchange = exchange();
    let list = &tool_slots::of(slots()).activations;
    let activation = (list.get() as *mut Activation).wrapping_sub(1);
    // SAFETY: inserted code has just written the activation there, and nobody else uses the list.
    let activation = unsafe { &mut *activation };
    let function = activation.hooks.wrapper;
    let (Some(function), Some(mut wrapper)) = (function, Wrapper::kept()) else {
        unreachable!("inserted code asks for a function that has a wrapper, where one is kept");
    };
    let registers = wrapper.registers();
    copy_words(&exchange.integers, &mut registers.integers);
    if activation.hooks.has_floats {
        copy_words(&exchange.floats, &mut registers.floats);
    }
    registers.stack_pointer = activation.stack_pointer;
    registers.return_address = activation.return_address;
    let step = wrapper.begin(function);
    let registers = wrapper.registers();
    copy_words(&registers.integers, &mut exchange.integers);
    if activation.hooks.has_floats {
        copy_words(&registers.floats, &mut exchange.floats);
    }
    exchange.verdict = 0;
    if step == WrapperStep::Return {
        exchange.result = registers.result;
        exchange.floats[0] = registers.float_result;
        exchange.stack = activation.stack_pointer;
        exchange.verdict = RETURN;
        list.set(std::ptr::from_mut(activation) as u64);
        wrapper.keep();
    } else {
        activation.wrapper = Some(wrapper);
    }
    0
}

/// The function has returned, inserted code has taken its activation from the list, and its
/// wrapper goes on.
pub(crate) extern "C" fn went_on(_: *const (), _: *mut (), _: u64, _: u64, _: u64, _: u64) -> u64 {
    let exchange = exchange();
    let list = &tool_slots::of(slots()).activations;
    // SAFETY: inserted code has just taken the activation from there, and nobody else uses the list.
    let activation = unsafe { &mut *(list.get() as *mut Activation) };
    exchange.verdict = 0;
    let Some(mut wrapper) = activation.wrapper.take() else {
        return 0;
    };
    let registers = wrapper.registers();
    registers.result = exchange.result;
    registers.float_result = exchange.floats[0];
    let step = wrapper.resume();
    let registers = wrapper.registers();
    exchange.result = registers.result;
    exchange.floats[0] = registers.float_result;
    if step == WrapperStep::Original {
        copy_words(&registers.integers, &mut exchange.integers);
        copy_words(&registers.floats, &mut exchange.floats);
        exchange.stack = activation.stack_pointer;
        exchange.subject = activation.hooks.address;
        exchange.verdict = CALL_AGAIN;
        activation.wrapper = Some(wrapper);
        list.set(std::ptr::from_mut(activation).wrapping_add(1) as u64);
    } else {
        wrapper.keep();
    }
    0
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
    let exchange = exchange();
    for (register, value) in INTEGERS.into_iter().zip(exchange.integers) {
        thread.set_register(register, value);
    }
    set_floats(thread, &exchange.floats);
    thread.set_register(gpr::RSP, exchange.stack);
    with(|activations| {
        let activation = activations.list.iter();
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
        let area = thread.slots().vectors.area();
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
    let now = exchange().stack;
    with(|activations| {
        let lost = activations.list.remove_while(now, |activation| {
            let place = activation.stack_pointer;
            place < now
                || place <= now + PUSHED
                    && guarded::read_word(place) != Some(activation.return_address)
        });
        unwind(lost);
    });
    0
}

/// How many calls of hooked functions the calling thread is in.
pub(crate) fn depth() -> usize {
    let Some(mut activations) = ACTIVATIONS.take() else {
        return 0;
    };
    activations.list.adopt();
    let depth = activations.list.len();
    ACTIVATIONS.set(Some(activations));
    depth
}

/// A child that ran in the calling thread's place is gone, with the calls that it was in: all but
/// the oldest ones, as many as [`depth`] was before.
pub(crate) fn forget_deeper(depth: usize) {
    if let Some(mut activations) = ACTIVATIONS.take() {
        activations.list.adopt();
        finish(activations.list.take_beyond(depth));
        activations.list.publish();
        ACTIVATIONS.set(Some(activations));
    }
}

/// The thread is about to execute its first instruction.
pub(crate) fn thread_starts(functions: &'static Functions) {
    ACTIVATIONS.set(Some(Box::new(Activations {
        functions,
        list: List::default(),
        unhooked: 0,
    })));
}

/// The thread ends: what it has not finished, it never will.
pub(crate) fn thread_ends() {
    if let Some(mut activations) = ACTIVATIONS.take() {
        activations.list.withdraw();
        finish(activations.list.take());
        wrappers::forget_kept();
    }
}

/// Nobody will come back to these.
fn finish(activations: Vec<Activation>) {
    for wrapper in activations.into_iter().filter_map(|it| it.wrapper) {
        wrapper.finish();
    }
}
