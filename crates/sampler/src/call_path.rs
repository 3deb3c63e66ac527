//! From a sample to the frames of the thread.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::sync::Arc;

use rustc_hash::FxHashMap;
use unspool_profile_record::{PathEnd, StepCertainty};
use unspool_unwind::{Certainty, Failure, Found, Registers, Step, Unwinder};

use crate::address_space::{AddressSpace, WithMemory};
use crate::kernel_record::Sampled;

/// No path is longer: damaged call-frame information could make one that is.
const MOST_FRAMES: usize = 8192;

/// One frame of a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct PathFrame {
    /// An address within its instruction, in the process.
    pub(crate) address: u64,
    /// How certain it is that it called the frame before.
    pub(crate) certainty: StepCertainty,
}

/// Unwinds the stacks of the threads of one process.
#[derive(Default)]
pub(crate) struct CallPaths {
    unwinder: Unwinder,
    certainties: FxHashMap<(u64, u64), StepCertainty>,
    /// The memory of the process, for pointers to functions that are linked when they are called, and
    /// for code that it has made itself.
    memory: Option<Arc<File>>,
}

impl CallPaths {
    /// For a process that is not here.
    pub(crate) fn without_process() -> CallPaths {
        CallPaths::default()
    }

    /// For the process of this number.
    pub(crate) fn new(pid: u32) -> CallPaths {
        CallPaths {
            memory: File::open(format!("/proc/{pid}/mem")).ok().map(Arc::new),
            ..CallPaths::default()
        }
    }

    /// Other code is mapped.
    pub(crate) fn forget(&mut self) {
        self.unwinder.forget();
        self.certainties.clear();
    }

    /// Puts the frames of a sample into `path`, innermost first; says how it ends.
    pub(crate) fn follow(
        &mut self,
        space: &AddressSpace,
        sampled: &Sampled,
        path: &mut Vec<PathFrame>,
    ) -> PathEnd {
        path.clear();
        if let [innermost, callers @ ..] = &sampled.frames[..] {
            path.push(PathFrame {
                address: *innermost,
                certainty: StepCertainty::NoCall,
            });
            path.extend(callers.iter().map(|caller| PathFrame {
                // Within the call.
                address: caller.wrapping_sub(1),
                certainty: StepCertainty::Probable,
            }));
            return match path.last() {
                Some(last) if space.begins_at(last.address) => PathEnd::Outermost,
                // Whether there are more cannot be told.
                _ => PathEnd::NoStack,
            };
        }
        let Some(mut registers) = sampled.registers else {
            return PathEnd::NoStack;
        };
        let first = PathFrame {
            address: registers.lookup_address(),
            certainty: StepCertainty::NoCall,
        };
        path.push(first);
        let start = registers.sp().unwrap_or(0);
        let memory = self.memory.clone();
        let code = WithMemory {
            space,
            read: &|address, to| read_memory(memory.as_deref(), address, to),
        };
        if sampled.is_in_kernel && Unwinder::is_behind_signal_return(&code, registers.pc) {
            // Which of the registers are those of the place where the signal came cannot be told.
            return PathEnd::NoStack;
        }
        let mut read = |address: u64| word(&sampled.stack, address.checked_sub(start)?);
        while path.len() < MOST_FRAMES {
            match self.unwinder.step(&code, &mut registers, &mut read) {
                Ok(Step::Outermost) => return PathEnd::Outermost,
                Ok(Step::Caller(found)) => {
                    if registers.is_interrupted
                        && let Some(frame) = path.last_mut()
                    {
                        // The kernel has put this frame there, for the handler to return to its
                        // first instruction: no call stands before.
                        frame.certainty = StepCertainty::NoCall;
                        frame.address = frame.address.wrapping_add(1);
                    }
                    path.push(PathFrame {
                        address: registers.lookup_address(),
                        certainty: self.certainty(&code, found, &registers),
                    });
                }
                Err(_) if space.begins_at(registers.lookup_address()) => {
                    return PathEnd::Outermost;
                }
                Err(failure) => return end_of(failure, sampled, start),
            }
        }
        PathEnd::Failed
    }

    fn certainty(
        &mut self,
        code: &WithMemory<'_>,
        found: Found,
        caller: &Registers,
    ) -> StepCertainty {
        if caller.is_interrupted {
            return StepCertainty::NoCall;
        }
        let key = (found.called, caller.pc);
        if let Some(&known) = self.certainties.get(&key) {
            return known;
        }
        let mut read = |address: u64| {
            let mut word = [0; 8];
            let is_whole = (code.read)(address, &mut word) == word.len();
            is_whole.then(|| u64::from_le_bytes(word))
        };
        let certainty = match Unwinder::certainty(code, found, caller.pc, &mut read) {
            Certainty::Wrong => StepCertainty::Wrong,
            Certainty::Confirmed | Certainty::ConfirmedTail => StepCertainty::Confirmed,
            Certainty::ProbableTail | Certainty::ProbableIndirect => StepCertainty::Probable,
        };
        self.certainties.insert(key, certainty);
        certainty
    }
}

/// Copies memory of a process; says how much could be copied.
fn read_memory(memory: Option<&File>, address: u64, to: &mut [u8]) -> usize {
    memory.map_or(0, |memory| memory.read_at(to, address).unwrap_or(0))
}

/// The word of a stack that begins so many bytes from its start.
fn word(stack: &[u8], offset: u64) -> Option<u64> {
    let rest = stack.get(usize::try_from(offset).ok()?..)?;
    Some(u64::from_le_bytes(*rest.first_chunk()?))
}

/// Whether more of the stack would have helped.
fn end_of(failure: Failure, sampled: &Sampled, start: u64) -> PathEnd {
    let end = start.saturating_add(sampled.stack.len() as u64);
    match failure {
        // A process that begins or ends has registers for a while, but no memory.
        _ if sampled.stack.is_empty() => PathEnd::NoStack,
        Failure::Unreadable(address) if sampled.is_cut_off && address.saturating_add(8) > end => {
            PathEnd::CutOff
        }
        _ => PathEnd::Failed,
    }
}
