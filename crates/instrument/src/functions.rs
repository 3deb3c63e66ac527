//! Hooks of the program's functions: calls when they are entered, when they return and when they
//! are left otherwise, and functions of the tool in their place.
//!
//! A function is hooked by its address. Where it returns to is hooked when it is first called
//! from there. What lies between is an **activation**: the function's
//! description, where its return address is on the stack, and what that says. So a function
//! returns when control comes to the return address with the stack as it was before the call,
//! whatever instruction leads there: functions that end in a jump to another one return with
//! that.

mod activations;
mod in_place;
pub(crate) mod list;
pub(crate) mod returns;
mod wrappers;

use std::collections::{HashMap, HashSet};
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

pub(crate) use activations::{
    PUSHED, began, depth, entered, forget_deeper, redirect, returned, stack_moved, thread_ends,
    thread_starts, went_on,
};
pub(crate) use in_place::{ArgumentRegister, INTEGERS};
pub use wrappers::{CallRegisters, WrapperFunction, call_original};

use super::AnalysisFunction;
use super::call_forms::name_code;
use super::compiled::Compiled;
use super::images::Image;
use super::process::process;
use unspool_kernel::lock::{Mutex, RwLock, RwLockReadGuard, RwLockWriteGuard};

/// A value at a hook.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HookValue {
    /// A constant.
    Constant(u64),
    /// An integer argument as it was at the entry, by its number; from the sixth on they are on
    /// the stack.
    Integer(u8),
    /// A floating-point argument as it was at the entry, by its number, 0 to 7.
    Float(u8),
    /// At the entry: an integer argument in a register, by its number, which the function that is
    /// called may change: it is in the argument's slot (see
    /// [`argument_word`](crate::argument_word)).
    ChangeableInteger(u8),
    /// At a return: the integer that is returned.
    Result,
    /// Likewise, and the function that is called may change it in the argument's slot.
    ChangeableResult,
    /// At a return: the floating-point number that is returned.
    FloatResult,
    /// The stack pointer where the function is entered: where its return address is.
    StackPointer,
    /// Where it returns to.
    ReturnAddress,
}

/// The most arguments of a call at a hook.
pub const MOST_ARGUMENTS: usize = 6;

/// A function that is called at a hook, with the address of its arguments' words.
pub type HookFunction = extern "C" fn(*const u64);

/// A call at a hook.
#[derive(Debug, Clone, Copy)]
pub struct HookCall {
    /// What is called by the engine.
    pub function: HookFunction,
    /// The same, as inserted code calls functions.
    pub inserted: AnalysisFunction,
    /// With what: those up to the first that is missing.
    pub arguments: [Option<HookValue>; MOST_ARGUMENTS],
}

/// What is to be done with a function.
#[derive(Debug, Clone, Default)]
pub struct Hooks {
    /// Calls when it is entered.
    pub entry: Vec<HookCall>,
    /// Calls when it returns.
    pub exit: Vec<HookCall>,
    /// Calls when it is left without returning: by an exception or by `longjmp`.
    pub unwind: Vec<HookCall>,
    /// What takes its place.
    pub wrapper: Option<WrapperFunction>,
    /// Whether floating-point registers are wanted.
    pub has_floats: bool,
    /// What it returns is the address of a function, to which this applies.
    pub of_result: Option<&'static Hooks>,
    /// The address of the function; [`hook`](crate::hook) fills it in.
    pub address: u64,
    /// The arguments that are wanted where it ends; [`hook`](crate::hook) fills them in.
    pub kept: Vec<HookValue>,
}

impl Hooks {
    /// Whether it matters how the function ends.
    pub(crate) fn need_end(&self) -> bool {
        !self.exit.is_empty()
            || !self.unwind.is_empty()
            || self.wrapper.is_some()
            || self.of_result.is_some()
    }

    /// Whether calls at the entry may change arguments.
    pub(crate) fn changes_arguments(&self) -> bool {
        let is_changed = |value: &HookValue| matches!(value, HookValue::ChangeableInteger(_));
        let mut values = self.entry.iter().flat_map(|call| call.arguments).flatten();
        values.any(|value| is_changed(&value))
    }

    fn and(&self, more: &Hooks) -> Hooks {
        let both = |one: &[HookCall], other: &[HookCall]| [one, other].concat();
        Hooks {
            entry: both(&self.entry, &more.entry),
            exit: both(&self.exit, &more.exit),
            unwind: both(&self.unwind, &more.unwind),
            wrapper: more.wrapper.or(self.wrapper),
            has_floats: self.has_floats || more.has_floats,
            of_result: match (self.of_result, more.of_result) {
                (Some(one), Some(other)) => Some(Box::leak(Box::new(one.and(other)))),
                (one, other) => one.or(other),
            },
            address: self.address,
            kept: Vec::new(),
        }
    }

    /// The arguments that are wanted where the function ends.
    fn arguments_at_end(&self) -> Vec<HookValue> {
        let mut kept = Vec::new();
        let calls = self.exit.iter().chain(&self.unwind);
        for value in calls.flat_map(|call| call.arguments).flatten() {
            let is_argument = matches!(value, HookValue::Integer(_) | HookValue::Float(_));
            if is_argument && !kept.contains(&value) {
                kept.push(value);
            }
        }
        assert!(
            kept.len() <= list::MOST_KEPT,
            "a tool wants {} arguments of the function at {:#x} where that ends; {} can be kept",
            kept.len(),
            self.address,
            list::MOST_KEPT
        );
        kept
    }

    /// The value of an argument, among those that are kept.
    fn kept_value(&self, kept: &[u64], value: HookValue) -> u64 {
        let number = self.kept.iter().position(|&it| it == value);
        number
            .and_then(|number| kept.get(number).copied())
            .unwrap_or(0)
    }
}

/// Says what a function is called that takes the place of one of the program's, as
/// [`name_function`](crate::name_function) does for others.
pub fn name_wrapper(wrapper: WrapperFunction, name: &'static str) {
    name_code(wrapper as usize as u64, name);
}

/// What is hooked at an address.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Hook {
    /// What is to be done with the function that starts there.
    pub(crate) entry: Option<&'static Hooks>,
    /// If functions that are hooked return there: some of them, for which the code there can do
    /// what is to be done.
    pub(crate) returns: Option<&'static [&'static Hooks]>,
}

/// The most functions for which the code at one place can do what is to be done.
const MOST_IN_PLACE: usize = 4;

/// All that is hooked.
#[derive(Debug, Default)]
pub(crate) struct Functions {
    any: AtomicBool,
    follows_returns: AtomicBool,
    /// Held by who adds a hook, until code of before the hook is gone: what is hooked already may
    /// be relied on.
    changing: Mutex<()>,
    places: RwLock<HashMap<u64, Hook>>,
    /// Functions that were chosen, and the addresses of what applies to them.
    chosen: Mutex<HashSet<(u64, usize)>>,
    /// What wrappers change, by the address of each.
    wrappers: Mutex<HashMap<usize, Option<Arc<Compiled>>>>,
}

impl Functions {
    fn read(&self) -> RwLockReadGuard<'_, HashMap<u64, Hook>> {
        self.places.read()
    }

    fn write(&self) -> RwLockWriteGuard<'_, HashMap<u64, Hook>> {
        self.places.write()
    }

    /// What is hooked at an address.
    pub(crate) fn hook_at(&self, pc: u64) -> Option<Hook> {
        if !self.any.load(Ordering::Acquire) {
            return None;
        }
        self.read().get(&pc).copied()
    }

    /// Whether a function of the tool's stands in the place of any.
    pub(crate) fn replaces_any(&self) -> bool {
        let replaces = |hooks: &Hooks| hooks.wrapper.is_some();
        self.read()
            .values()
            .filter_map(|hook| hook.entry)
            .any(|hooks| replaces(hooks) || hooks.of_result.is_some_and(replaces))
    }

    /// What the function that takes the place of one changes, if the code at hooks may run it.
    pub(crate) fn wrapper_in_place(&self, hooks: &Hooks) -> Option<Arc<Compiled>> {
        let function = hooks.wrapper_alone()?;
        let mut wrappers = self.wrappers.lock();
        let known = wrappers.entry(function as usize);
        let entries = [began as *const () as u64, went_on as *const () as u64];
        let code = wrappers::code(entries);
        let examine = || Compiled::examine_coroutine(&code, function as usize as u64).map(Arc::new);
        known.or_insert_with(examine).clone()
    }

    /// Whether the code at hooks can do all that is to be done where a function ends.
    fn end_in_place(&self, hooks: &Hooks) -> bool {
        hooks.exit_in_place().is_some() || self.wrapper_in_place(hooks).is_some()
    }

    /// Whether it matters for any function how it ends.
    pub(crate) fn follows_returns(&self) -> bool {
        self.follows_returns.load(Ordering::Acquire)
    }

    /// Hooks a function, beside what is hooked there already.
    pub(crate) fn hook(&self, address: u64, hooks: Hooks) {
        let _alone = self.changing.lock();
        self.hook_alone(address, hooks);
    }

    /// Hooks a function where nobody else adds a hook meanwhile.
    fn hook_alone(&self, address: u64, hooks: Hooks) {
        let mut hooks = Hooks { address, ..hooks };
        {
            let mut places = self.write();
            let hook = places.entry(address).or_default();
            if let Some(earlier) = hook.entry {
                hooks = earlier.and(&hooks);
            }
            hooks.kept = hooks.arguments_at_end();
            // Activations refer to it, and code in the cache.
            let hooks: &'static Hooks = Box::leak(Box::new(hooks));
            hook.entry = Some(hooks);
            self.any.store(true, Ordering::Release);
            if hooks.need_end() && !self.follows_returns.swap(true, Ordering::AcqRel) {
                drop(places);
                // Calls in what is translated are not noted.
                return translate_anew(0..u64::MAX);
            }
        }
        translate_anew(address..address + 1);
    }

    /// A function has chosen another one, to which this applies: once, however often it chooses it.
    /// (Each file that refers to an indirect function has it chosen anew.)
    fn hook_chosen(&self, address: u64, hooks: &'static Hooks) {
        let choice = (address, std::ptr::from_ref(hooks).addr());
        let _alone = self.changing.lock();
        let is_new = self.chosen.lock().insert(choice);
        if is_new {
            self.hook_alone(address, hooks.clone());
        }
    }

    /// Hooks a return address, to which a function returns.
    ///
    /// Other threads may call from the same place at the same time. None of them goes on before
    /// the code at the address is gone in which the hook is missing: it would return through
    /// that code, and what is to be done there would be left undone.
    fn hook_return(&self, address: u64, hooks: &'static Hooks) {
        let listed = |hook: &Hook| {
            hook.returns.is_some_and(|list| {
                list.len() == MOST_IN_PLACE
                    || list.iter().any(|it| std::ptr::eq(*it, hooks))
                    || !self.end_in_place(hooks)
            })
        };
        let _alone = self.changing.lock();
        if !self.read().get(&address).is_some_and(listed) {
            let mut places = self.write();
            let hook = places.entry(address).or_default();
            let mut list = hook.returns.unwrap_or_default().to_vec();
            list.extend(self.end_in_place(hooks).then_some(hooks));
            hook.returns = Some(Box::leak(list.into_boxed_slice()));
            drop(places);
            translate_anew(address..address + 1);
        }
        returns::note(address);
    }

    /// An image's code is gone.
    pub(super) fn forget(&self, image: &Image) {
        if self.any.load(Ordering::Acquire) {
            let _alone = self.changing.lock();
            let range = image.range();
            self.chosen
                .lock()
                .retain(|(address, _)| !range.contains(address));
            let mut places = self.write();
            places.retain(|address, _| !range.contains(address));
            returns::forget();
        }
    }
}

fn translate_anew(range: Range<u64>) {
    if let Some(process) = process() {
        process.code().cache.invalidate(range);
    }
}

#[cfg(test)]
mod tests;
