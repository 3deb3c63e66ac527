//! What the code at a hook can do without the engine.
//!
//! Entering a function is adding an activation to the list, and returning from it is taking that
//! away, unless anything is unusual. What is called there is then called as any other function
//! of the tool.

use unspool_code_cache::emit::gpr;

use super::{HookCall, HookValue, Hooks, WrapperFunction, list};
use crate::{AnalysisCall, Argument};

/// The registers of integer arguments.
pub(crate) const INTEGERS: [u8; 6] = [gpr::RDI, gpr::RSI, gpr::RDX, gpr::RCX, 8, 9];

/// Where a function gets an argument.
#[derive(Debug, Clone, Copy)]
pub(crate) enum ArgumentRegister {
    /// In a general register.
    General(u8),
    /// In the low half of a vector register.
    Vector(u8),
}

impl Hooks {
    /// What is called at the entry, if the code there can do all that is to be done. Where it
    /// matters how the function ends, its activation is the youngest then.
    pub(crate) fn entry_in_place(&self) -> Option<Vec<AnalysisCall>> {
        let calls = self.entry.iter().map(|call| self.at_entry(call));
        let calls = calls.collect::<Option<Vec<_>>>()?;
        (self.wrapper.is_none() && self.kept_registers().is_some()).then_some(calls)
    }

    /// What is called at the end, likewise. The activation has just been taken from the list.
    pub(crate) fn exit_in_place(&self) -> Option<Vec<AnalysisCall>> {
        if self.wrapper.is_some() || self.of_result.is_some() {
            return None;
        }
        self.exit.iter().map(|call| self.at_exit(call)).collect()
    }

    /// The function that takes the place of this one, if the code at its hooks may run that: if
    /// there is nothing else to be done.
    pub(super) fn wrapper_alone(&self) -> Option<WrapperFunction> {
        let alone = self.entry.is_empty() && self.exit.is_empty() && self.of_result.is_none();
        self.wrapper.filter(|_| alone)
    }

    /// The registers of the arguments that are kept, if all of them are in registers.
    pub(crate) fn kept_registers(&self) -> Option<Vec<ArgumentRegister>> {
        let register = |value: &HookValue| match value {
            HookValue::Integer(number) => {
                let register = INTEGERS.get(usize::from(*number))?;
                Some(ArgumentRegister::General(*register))
            }
            HookValue::Float(number) => Some(ArgumentRegister::Vector(*number)),
            _ => None,
        };
        self.kept.iter().map(register).collect()
    }

    fn at_entry(&self, call: &HookCall) -> Option<AnalysisCall> {
        inserted(call, |value| match value {
            HookValue::Constant(value) => Some(Argument::Constant(value)),
            HookValue::Integer(number) => {
                let register = INTEGERS.get(usize::from(number))?;
                Some(Argument::Register(*register))
            }
            HookValue::ChangeableInteger(number) => {
                let register = INTEGERS.get(usize::from(number))?;
                Some(Argument::Changeable(*register))
            }
            HookValue::Float(number) => Some(Argument::LowHalf(number)),
            HookValue::StackPointer => Some(Argument::Register(gpr::RSP)),
            HookValue::ReturnAddress if self.need_end() => {
                let place = list::offset::RETURN_ADDRESS - list::offset::SIZE;
                Some(Argument::Activation(place))
            }
            HookValue::ReturnAddress
            | HookValue::Result
            | HookValue::ChangeableResult
            | HookValue::FloatResult => None,
        })
    }

    fn at_exit(&self, call: &HookCall) -> Option<AnalysisCall> {
        inserted(call, |value| match value {
            HookValue::Constant(value) => Some(Argument::Constant(value)),
            HookValue::Integer(_) | HookValue::Float(_) => {
                let number = self.kept.iter().position(|&kept| kept == value)?;
                Some(Argument::Activation(list::offset::kept(number)))
            }
            HookValue::ChangeableInteger(_) => None,
            HookValue::Result => Some(Argument::Register(gpr::RAX)),
            HookValue::ChangeableResult => Some(Argument::Changeable(gpr::RAX)),
            HookValue::FloatResult => Some(Argument::LowHalf(0)),
            HookValue::StackPointer => Some(Argument::Activation(list::offset::STACK_POINTER)),
            HookValue::ReturnAddress => Some(Argument::Activation(list::offset::RETURN_ADDRESS)),
        })
    }
}

fn inserted(
    call: &HookCall,
    argument: impl Fn(HookValue) -> Option<Argument>,
) -> Option<AnalysisCall> {
    let values = call.arguments.iter().map_while(|it| *it);
    Some(AnalysisCall {
        function: call.inserted,
        arguments: values.map(argument).collect::<Option<_>>()?,
    })
}
