//! An entry in a buffer for each access of an instruction, of whatever shape its operands are.
//!
//! Two calls do it. The one before the instruction finds the accesses out, while indexes and masks
//! are what they are; the one behind it appends the entries, so that an instruction that faults
//! leaves none. Of a repeated string instruction there are as many as it has done rounds, which is
//! known behind it only, or where it is left in its middle.

use std::cell::{Cell, RefCell};

use super::buffers::{self, Appender, PendingBytes};
use super::elements::{Elements, Rounds};
use super::{AnalysisCall, Argument, BufferId, Context, EachAccess, thread_state};
use unspool_code_cache::emit::gpr;
use unspool_code_cache::slots::slots;

use self::template::Template;

mod template;

impl EachAccess {
    /// The call before the instruction. The path has stored so much in the buffer.
    pub(crate) fn call_before(&'static self, pending: PendingBytes) -> AnalysisCall {
        let this = std::ptr::from_ref(self) as u64;
        AnalysisCall {
            function: begin,
            arguments: vec![
                Argument::Constant(this),
                Argument::Constant(pending.to_word()),
                Argument::Context(0),
            ],
        }
    }

    /// The call behind it.
    pub(crate) fn call_behind(&self, pending: PendingBytes) -> AnalysisCall {
        AnalysisCall {
            function: complete,
            arguments: vec![
                Argument::Constant(pending.to_word()),
                Argument::Register(gpr::RCX),
            ],
        }
    }
}

/// What an instruction that a thread has begun will leave.
enum Begun {
    /// These entries.
    Entries(&'static EachAccess, Vec<u8>),
    /// Entries for as many rounds as it does.
    Rounds {
        each: &'static EachAccess,
        /// How many it does at most.
        most: u64,
        /// Its way through each operand.
        ways: Vec<(Rounds, Template)>,
    },
}

thread_local! {
    static BEGUN: RefCell<Option<Begun>> = const { RefCell::new(None) };
    /// Where a repeated instruction is that has been begun.
    static REPEATED_AT: Cell<Option<u64>> = const { Cell::new(None) };
    /// What its count was where it was left in its middle.
    static LEFT: Cell<Option<u64>> = const { Cell::new(None) };
}

impl Begun {
    fn new(each: &'static EachAccess, context: &Context) -> Begun {
        let size = usize::from(each.size);
        let operands = each.operands.iter().map(|(operand, fields)| {
            let template = Template::new(size, fields, context);
            (operand, Elements::new(operand, context), template)
        });
        let operands: Vec<_> = operands.collect();
        let rounds = operands.iter().map(|(_, elements, _)| elements.rounds());
        let rounds: Option<Vec<_>> = rounds.collect();
        if let Some(rounds) = rounds {
            let most = rounds.first().map_or(0, |(most, _)| *most);
            let ways = rounds.into_iter().zip(operands);
            let ways = ways.map(|((_, way), (operand, _, mut template))| {
                template.set_size(operand.size.into());
                (way, template)
            });
            let ways = ways.collect();
            return Begun::Rounds { each, most, ways };
        }
        let mut entries = Vec::new();
        for (_, elements, mut template) in operands {
            elements.each(|address, size| {
                template.set_size(size);
                entries.extend_from_slice(template.at(address));
            });
        }
        Begun::Entries(each, entries)
    }

    fn each(&self) -> &'static EachAccess {
        match self {
            Begun::Entries(each, _) | Begun::Rounds { each, .. } => each,
        }
    }

    /// Appends what it has done. If it is repeated, its count is `count` now.
    fn append(self, pending: PendingBytes, count: u64, state: *mut ()) {
        match self {
            Begun::Entries(each, entries) => {
                let mut appender = Appender::new(each.buffer, pending, state);
                for entry in entries.chunks_exact(each.size.into()) {
                    appender.push(entry);
                }
            }
            Begun::Rounds {
                each,
                most,
                mut ways,
            } => {
                let mut appender = Appender::new(each.buffer, pending, state);
                let narrow = ways.first().is_some_and(|(way, _)| way.is_narrow());
                let left = if narrow { count & 0xffff_ffff } else { count };
                let done = most.saturating_sub(left);
                let mut round = 0;
                while round < done {
                    let Some((mut places, room)) = appender.take_groups(done - round, ways.len())
                    else {
                        for (way, template) in &mut ways {
                            appender.push(template.at(way.address(round)));
                        }
                        round += 1;
                        continue;
                    };
                    let stride = ways.len() * usize::from(each.size);
                    for (way, template) in &mut ways {
                        let addresses = way.addresses(round..round + room);
                        // SAFETY: there is room for a group of entries for each of these rounds.
                        unsafe { template.fill(places, stride, addresses) };
                        places = places.wrapping_add(each.size.into());
                    }
                    round += room;
                }
            }
        }
    }
}

/// An instruction is about to be executed.
extern "C" fn begin(_: *const (), state: *mut (), each: u64, pending: u64, _: u64, _: u64) -> u64 {
    append_left(state, |_| PendingBytes::from_word(pending));
    // SAFETY: inserted code passes what is kept for good.
    let each = unsafe { &*(each as *const EachAccess) };
    let context = Context::current();
    let begun = Begun::new(each, &context);
    if let Begun::Rounds { .. } = begun {
        REPEATED_AT.set(Some(context.instruction_pointer()));
    }
    BEGUN.set(Some(begun));
    0
}

/// It has been.
extern "C" fn complete(
    _: *const (),
    state: *mut (),
    pending: u64,
    count: u64,
    _: u64,
    _: u64,
) -> u64 {
    append(count, state, |_| PendingBytes::from_word(pending));
    0
}

/// The calling thread, with its registers in the slots, is brought out of a repeated string
/// instruction. This may be in a handler of signals, so nothing is appended yet.
pub(super) fn leave() {
    if REPEATED_AT.get() == Some(slots().pc.get()) {
        LEFT.set(Some(slots().registers()[usize::from(gpr::RCX)]));
    }
}

/// Appends what a repeated instruction has done that was left in its middle. The calling thread is
/// outside of translated code.
pub(super) fn settle() {
    append_left(thread_state(), |_| PendingBytes::default());
}

/// The same in a function of the tool, which is about to append something else.
pub(super) fn settle_in_function(state: *mut ()) {
    append_left(state, buffers::pending_here);
}

fn append_left(state: *mut (), pending: impl Fn(BufferId) -> PendingBytes) {
    if let Some(count) = LEFT.take() {
        append(count, state, pending);
    }
}

fn append(count: u64, state: *mut (), pending: impl Fn(BufferId) -> PendingBytes) {
    REPEATED_AT.set(None);
    if let Some(begun) = BEGUN.take() {
        let pending = pending(begun.each().buffer);
        begun.append(pending, count, state);
    }
}
