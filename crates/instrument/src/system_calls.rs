//! What a tool is told of system calls: of all of them where they begin and end, and where they
//! are over behind instructions that it chose.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use unspool_kernel::effects::{Completeness, Effect, memory_effects};
use unspool_kernel::guarded;
use unspool_kernel::lock::RwLock;

use super::{MOST_ARGUMENTS, Version, switches};

/// A system call of the program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SystemCall {
    /// Its number.
    pub number: u64,
    /// Its six arguments, used or not.
    pub arguments: [u64; 6],
}

/// The memory of the program that the kernel has accessed for a system call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CallMemory {
    /// What it has read and written, as far as it is known.
    pub effects: Vec<Effect>,
    /// Whether that is all.
    pub completeness: Completeness,
}

impl SystemCall {
    /// Which memory of the program the kernel has read and written for the call: to be asked where
    /// the call is over, with its result.
    ///
    /// Where the kernel follows pointers, memory tells where they lead: another thread that changes
    /// it meanwhile makes this wrong. Not listed is what changes because memory is mapped or
    /// unmapped, and what the kernel does later (asynchronous input and output, the end of a thread).
    #[must_use]
    pub fn memory(&self, result: i64) -> CallMemory {
        let mut effects = Vec::new();
        let completeness = memory_effects(
            self.number,
            self.arguments,
            result,
            &guarded::read,
            &mut effects,
        );
        CallMemory {
            effects,
            completeness,
        }
    }
}

/// A value when a system call is over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SystemCallValue {
    /// A constant.
    Constant(u64),
    /// A general register, by its number (rax 0, rcx 1, rdx 2, rbx 3, rsp 4, …, r15 15).
    Register(u8),
    /// The call's number.
    Number,
    /// An argument of it, by its number, 0 to 5.
    Argument(u8),
    /// What it has returned.
    Result,
}

/// A call of a tool's function when a system call is over.
#[derive(Debug, Clone, Copy)]
pub struct CallWhenOver {
    /// What is called, with the address of its arguments' words.
    pub function: extern "C" fn(*const u64),
    /// With what: those up to the first that is missing.
    pub arguments: [Option<SystemCallValue>; MOST_ARGUMENTS],
}

/// The address of an instruction, and in which version of the code it is, if that has two.
type Place = (u64, Option<Version>);

/// What is to be called behind which instructions.
#[derive(Debug, Default)]
pub(crate) struct SystemCallPlaces {
    any: AtomicBool,
    places: RwLock<HashMap<Place, Arc<[CallWhenOver]>>>,
}

impl SystemCallPlaces {
    /// An instruction is translated, with these calls behind it.
    pub(crate) fn set(&self, place: Place, calls: &[(u32, CallWhenOver)]) {
        if calls.is_empty() && !self.any.load(Ordering::Acquire) {
            return;
        }
        let mut places = self.places.write();
        // What the code had before the tool changed its mind.
        let others: &[_] = match place.1 {
            None => &[Some(Version::Off), Some(Version::On)],
            Some(_) => &[None],
        };
        for &other in others {
            places.remove(&(place.0, other));
        }
        match calls {
            [] => drop(places.remove(&place)),
            _ => drop(places.insert(place, calls.iter().map(|(_, call)| *call).collect())),
        }
        self.any.store(true, Ordering::Release);
    }

    /// What is to be called behind an instruction that the calling thread has executed.
    pub(crate) fn at(&self, pc: u64) -> Option<Arc<[CallWhenOver]>> {
        if !self.any.load(Ordering::Acquire) {
            return None;
        }
        let places = self.places.read();
        let calls = places.get(&(pc, switches::calling_version()));
        calls.or_else(|| places.get(&(pc, None))).cloned()
    }
}
