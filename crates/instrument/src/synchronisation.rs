//! What threads do by which others can know what they have done before, for tools that want to be
//! told.
//!
//! Every event gives something to an object or takes it from there, and has a number. The number of
//! what is given is drawn before the program's memory or the kernel can show it, that of what is
//! taken when it has been seen. So what is taken has the greater number, without a lock around the
//! operation itself, which a fault or a signal would have to release.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};

use unspool_kernel::lock::Mutex;

/// A step of a thread by which others can know what it has done before, or by which it can know
/// that of others.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Synchronisation {
    /// Its number among all of the process: if one thread takes what another has given, the taker's
    /// number is the greater one, and so are numbers of what a thread does later.
    pub order: u64,
    /// Whether the thread gives or takes.
    pub side: Side,
    /// By what the threads know of each other.
    pub object: SyncObject,
    /// What the thread does.
    pub operation: SyncOperation,
}

/// Whether a thread lets others know what it has done, or gets to know what they have.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Side {
    /// What it has done before is known to whoever takes from the same object later: a release.
    Gives,
    /// It knows from here on what has been given to the object until then: an acquisition.
    Takes,
}

/// By what threads know of each other.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum SyncObject {
    /// Memory at an address.
    Memory(u64),
    /// A thread, by its number.
    Thread(u32),
}

/// What a thread does to synchronise.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum SyncOperation {
    /// An atomic instruction, which gives before it and takes behind it.
    Atomic {
        /// The instruction's address.
        pc: u64,
        /// Its bytes of memory.
        size: u32,
        /// What it does to them.
        kind: AtomicKind,
        /// Where it takes: whether it has written, as a compare-and-exchange may not.
        has_written: Option<bool>,
    },
    /// A system call that wakes threads at a futex, and is about to be made. How many it wakes is
    /// the call's result.
    FutexWake,
    /// A system call that waits at a futex, and has returned this: 0 if the thread was woken.
    FutexWait {
        /// A negative error number if it was not.
        result: i64,
    },
    /// The thread is about to create another one, which the object is.
    Create,
    /// The thread, which the object is, starts with what its creator knew.
    Start,
    /// The thread ends. It gives to itself, and to the word that is cleared for whoever waits.
    End,
    /// The thread has joined the one that the object is.
    Join,
}

/// What an atomic instruction does to memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum AtomicKind {
    /// Writes another value, whatever was there.
    Exchange,
    /// Writes another value if a certain one was there.
    CompareExchange,
    /// Writes what it makes of the value.
    Update,
}

impl AtomicKind {
    /// The inverse of `kind as u8`, for code that passes numbers.
    #[must_use]
    pub fn from_number(number: u8) -> AtomicKind {
        let all = [
            AtomicKind::Exchange,
            AtomicKind::CompareExchange,
            AtomicKind::Update,
        ];
        all[usize::from(number)]
    }
}

/// How many events there were.
static ORDER: AtomicU64 = AtomicU64::new(0);

/// The numbers of threads that have ended, by what they were called (`pthread_t`), for whoever
/// joins them.
static ENDED: Mutex<Option<HashMap<u64, u32>>> = Mutex::new(None);

impl Synchronisation {
    /// What happens now: to be called before what is given can be seen, and behind what is taken.
    #[must_use]
    pub fn now(side: Side, object: SyncObject, operation: SyncOperation) -> Synchronisation {
        Synchronisation {
            order: ORDER.fetch_add(1, Ordering::SeqCst) + 1,
            side,
            object,
            operation,
        }
    }
}

/// A thread ends that is called so.
pub(crate) fn note_end(pthread: u64, number: u32) {
    let mut ended = ENDED.lock();
    ended.get_or_insert_default().insert(pthread, number);
}

/// The number of the last thread that ended with this `pthread_t`, for whoever has joined it.
#[must_use]
pub fn ended_thread(pthread: u64) -> Option<u32> {
    ENDED.lock().as_ref()?.get(&pthread).copied()
}
