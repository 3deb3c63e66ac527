//! One step from a frame to its caller, by the best means that there is.

use crate::cache::{Cache, Known};
use crate::code::{Analysis, FunctionCode};
use crate::follow::follow;
use crate::module::{Module, Modules, SIGNAL_RETURN_BYTES};
use crate::recipe::{Cfa, Recipe, Rule};
use crate::registers::{RBP, RSP, Registers};
use crate::section::Section;
use crate::step::{Failure, Found, Method, Step};
use crate::validation::{self, Certainty};

/// How many words of the stack are looked at for a return address.
const SCANNED: u64 = 512;

/// Where a handler returns to, of which call-frame information says nothing.
const SIGNAL_RETURN: Known<Recipe> = Known {
    recipe: Recipe::SIGNAL_RETURN,
    method: Method::CallFrameInformation,
    function: 0,
};

/// Goes from frames to their callers. Each thread has its own.
pub struct Unwinder {
    cache: Cache,
    analysis: Analysis,
}

impl Default for Unwinder {
    fn default() -> Unwinder {
        Unwinder::new()
    }
}

impl Unwinder {
    /// One that has met nothing. It allocates here, and nowhere else.
    #[must_use]
    pub fn new() -> Unwinder {
        Unwinder {
            cache: Cache::new(),
            analysis: Analysis::default(),
        }
    }

    /// Modules have come or gone.
    pub fn forget(&mut self) {
        self.cache.clear();
    }

    /// Makes the registers of a frame those of its caller; they are as before where there is none.
    /// `read` gives the word at an address of the process.
    ///
    /// # Errors
    /// If no way leads to a caller.
    #[inline]
    pub fn step(
        &mut self,
        modules: &(impl Modules + ?Sized),
        registers: &mut Registers,
        read: &mut impl FnMut(u64) -> Option<u64>,
    ) -> Result<Step<Found>, Failure> {
        let Some(known) = self.cache.quick(registers.lookup_address()) else {
            return self.step_unknown(modules, registers, read);
        };
        let found = known.found();
        if known.method == Method::CallFrameInformation {
            return match known.recipe.apply(registers, read)? {
                Step::Caller(()) => Ok(Step::Caller(found)),
                Step::Outermost => Ok(Step::Outermost),
            };
        }
        let callee = *registers;
        match known.recipe.apply(registers, &mut *read) {
            Ok(Step::Outermost) => Ok(Step::Outermost),
            Ok(Step::Caller(())) if returns_to(modules, registers.pc) => Ok(Step::Caller(found)),
            _ => {
                *registers = callee;
                without_recipe(modules, registers, read)
            }
        }
    }

    /// Whether a thread that is in the kernel, and would go on at `pc`, has asked it to go on where a signal
    /// came. The kernel gives it the registers that it had there one after the other: what is seen of them
    /// meanwhile is of two frames.
    #[must_use]
    pub fn is_behind_signal_return(modules: &(impl Modules + ?Sized), pc: u64) -> bool {
        pc.checked_sub(SIGNAL_RETURN_BYTES)
            .is_some_and(|start| Unwinder::is_signal_return(modules, start))
    }

    /// Whether the code at `pc` is what a handler of signals returns to, and has the kernel go on where the
    /// signal came.
    #[must_use]
    pub fn is_signal_return(modules: &(impl Modules + ?Sized), pc: u64) -> bool {
        let module = modules.module_at(pc);
        module.is_some_and(|module| module.is_signal_return(pc.wrapping_sub(module.bias)))
    }

    /// A step by a recipe that is not at hand in its quick form.
    fn step_unknown(
        &mut self,
        modules: &(impl Modules + ?Sized),
        registers: &mut Registers,
        read: &mut dyn FnMut(u64) -> Option<u64>,
    ) -> Result<Step<Found>, Failure> {
        let address = registers.lookup_address();
        let module = modules.module_at(address);
        let Some(known) = module
            .as_ref()
            .and_then(|module| self.find(module, address, registers.pc))
        else {
            return without_recipe(modules, registers, read);
        };
        let expressions = module
            .as_ref()
            .map_or(Section::default(), |module| module.frames);
        let stepped = follow(&known.recipe, registers, expressions, read);
        let is_told = known.method == Method::CallFrameInformation;
        match stepped.and_then(|step| checked(step, registers, &known.recipe)) {
            Ok(Step::Caller(caller)) if is_told || returns_to(modules, caller.pc) => {
                *registers = caller;
                Ok(Step::Caller(known.found()))
            }
            Ok(Step::Outermost) => Ok(Step::Outermost),
            Err(failure) if is_told => Err(failure),
            _ => without_recipe(modules, registers, read),
        }
    }

    /// How certain it is that the caller, which is at `pc`, has called, for a step that was made.
    /// `read` gives the word at an address of the process.
    #[must_use]
    pub fn certainty(
        modules: &(impl Modules + ?Sized),
        found: Found,
        pc: u64,
        read: &mut dyn FnMut(u64) -> Option<u64>,
    ) -> Certainty {
        validation::certainty(modules, found.called, pc, read)
    }

    /// The recipe for an address of the process in `module`, at which a frame is whose program counter is `pc`.
    fn find(&mut self, module: &Module<'_>, address: u64, pc: u64) -> Option<Known<Recipe>> {
        if let Some(known) = self.cache.large(address) {
            return Some(*known);
        }
        let known = self.look_up(module, address, pc)?;
        self.cache.keep(address, known);
        Some(known)
    }

    fn look_up(&mut self, module: &Module<'_>, address: u64, pc: u64) -> Option<Known<Recipe>> {
        let link = address.wrapping_sub(module.bias);
        if let Some(entry) = module.entry(link) {
            let recipe = entry.recipe(module.frames, link)?;
            return Some(Known {
                recipe,
                method: Method::CallFrameInformation,
                function: entry.code.start.wrapping_add(module.bias),
            });
        }
        // No call stands before the code to which a handler returns: what lies there is another function's.
        if module.is_signal_return(pc.wrapping_sub(module.bias)) {
            return Some(SIGNAL_RETURN);
        }
        let range = module.function(link)?;
        let start = range.start.wrapping_add(module.bias);
        let function = FunctionCode {
            code: &module.code,
            range,
        };
        let recipe = self.analysis.recipe(&function, link)?;
        Some(Known {
            recipe,
            method: Method::Analysis,
            function: start,
        })
    }
}

/// A step that goes up. A signal may have come on another stack.
fn checked(
    step: Step<Registers>,
    from: &Registers,
    recipe: &Recipe,
) -> Result<Step<Registers>, Failure> {
    match step {
        Step::Caller(caller) if caller.pc == 0 => Ok(Step::Outermost),
        Step::Caller(caller) if !recipe.is_signal_frame && caller.sp() <= from.sp() => {
            Err(Failure::NotAbove)
        }
        step => Ok(step),
    }
}

/// Whether a call stands before an address, or it is where the handler of a signal returns to.
fn returns_to(modules: &(impl Modules + ?Sized), address: u64) -> bool {
    let module = modules.module_at(address.wrapping_sub(1));
    module.is_some_and(|module| {
        let link = address.wrapping_sub(module.bias);
        let is_behind_handler = || {
            let entry = module.entry(link);
            entry.map_or_else(
                || module.is_signal_return(link),
                |entry| entry.is_signal_frame,
            )
        };
        validation::call_before(&module, address).is_some() || is_behind_handler()
    })
}

/// The caller, where nothing is known of the code: by the frame pointer, else by the next return
/// address on the stack.
fn without_recipe(
    modules: &(impl Modules + ?Sized),
    registers: &mut Registers,
    read: &mut dyn FnMut(u64) -> Option<u64>,
) -> Result<Step<Found>, Failure> {
    let (caller, method) = match by_frame_pointer(registers, read) {
        Some(caller) if returns_to(modules, caller.pc) => (caller, Method::FramePointer),
        _ => (by_scan(modules, registers, read)?, Method::Scan),
    };
    *registers = caller;
    Ok(Step::Caller(Found { method, called: 0 }))
}

fn by_scan(
    modules: &(impl Modules + ?Sized),
    registers: &Registers,
    read: &mut dyn FnMut(u64) -> Option<u64>,
) -> Result<Registers, Failure> {
    let sp = registers.sp().ok_or(Failure::RegisterUnknown(RSP))?;
    for word in 0..SCANNED {
        let at = sp.wrapping_add(8 * word);
        let Some(pc) = read(at) else { break };
        if returns_to(modules, pc) {
            let mut caller = Registers::returning_to(pc);
            caller.set(RSP, at.wrapping_add(8));
            if let Some(value) = registers.get(RBP) {
                caller.set(RBP, value);
            }
            return Ok(caller);
        }
    }
    Err(Failure::NoReturnAddress)
}

fn by_frame_pointer(
    registers: &Registers,
    read: &mut dyn FnMut(u64) -> Option<u64>,
) -> Option<Registers> {
    let (frame, sp) = (registers.get(RBP)?, registers.sp()?);
    if frame < sp || frame % 8 != 0 {
        return None;
    }
    let mut recipe = Recipe::with_cfa(Cfa::Register {
        number: RBP,
        offset: 16,
    });
    recipe.rules[usize::from(RBP)] = Rule::AtCfa(-16);
    match follow(&recipe, registers, Section::default(), read) {
        Ok(Step::Caller(caller)) => Some(caller),
        _ => None,
    }
}
