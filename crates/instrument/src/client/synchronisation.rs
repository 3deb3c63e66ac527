//! Steps by which threads know of each other, as the engine tells them: creation and end of threads,
//! and futexes.

use unspool_engine::call::Call;
use unspool_engine::thread::Thread;
use unspool_kernel::guarded;

use crate::Instrumenter;
use crate::in_tool::{in_tool, state};
use crate::synchronisation::{Side, SyncObject, SyncOperation, Synchronisation, note_end};

/// Tells the tool of a step of the calling thread, if it wants to know.
fn tell(
    instrumenter: &Instrumenter,
    thread: &Thread,
    side: Side,
    object: SyncObject,
    operation: SyncOperation,
) {
    let tool = &instrumenter.tool;
    if tool.wants_synchronisation() {
        let event = Synchronisation::now(side, object, operation);
        // SAFETY: the state is this thread's.
        in_tool(|| unsafe { tool.synchronises(state(thread), &event) });
    }
}

/// The calling thread is about to create one of this number.
pub(super) fn creates(instrumenter: &Instrumenter, creator: &Thread, child: u32) {
    let object = SyncObject::Thread(child);
    tell(
        instrumenter,
        creator,
        Side::Gives,
        object,
        SyncOperation::Create,
    );
}

/// The calling thread, which another one has created, starts.
pub(super) fn starts(instrumenter: &Instrumenter, thread: &Thread) {
    let object = SyncObject::Thread(thread.id.0);
    tell(
        instrumenter,
        thread,
        Side::Takes,
        object,
        SyncOperation::Start,
    );
}

/// The calling thread ends, and nobody can know it yet.
pub(super) fn ends(instrumenter: &Instrumenter, thread: &Thread, pthread: u64) {
    if instrumenter.tool.wants_synchronisation() {
        note_end(pthread, thread.id.0);
    }
    let object = SyncObject::Thread(thread.id.0);
    tell(
        instrumenter,
        thread,
        Side::Gives,
        object,
        SyncOperation::End,
    );
    if thread.clear_tid != 0 {
        let word = SyncObject::Memory(thread.clear_tid);
        tell(instrumenter, thread, Side::Gives, word, SyncOperation::End);
    }
}

/// The calling thread is about to make a system call.
pub(super) fn call_begins(instrumenter: &Instrumenter, thread: &Thread, call: &Call) {
    let Some(Futex::Wakes(words)) = Futex::of(call) else {
        return;
    };
    for word in words.into_iter().flatten() {
        let word = SyncObject::Memory(word);
        tell(
            instrumenter,
            thread,
            Side::Gives,
            word,
            SyncOperation::FutexWake,
        );
    }
}

/// Its system call is over.
pub(super) fn call_over(instrumenter: &Instrumenter, thread: &Thread, call: &Call, result: i64) {
    let words = match Futex::of(call) {
        Some(Futex::Waits(words)) => words,
        Some(Futex::WaitsForOneOf { list }) => [awaited(list, result), None],
        Some(Futex::Wakes(_)) | None => return,
    };
    let operation = SyncOperation::FutexWait { result };
    for word in words.into_iter().flatten() {
        let word = SyncObject::Memory(word);
        tell(instrumenter, thread, Side::Takes, word, operation);
    }
}

/// The word that ended a wait for several, from the list of what was waited for (`struct
/// futex_waitv`).
fn awaited(list: u64, result: i64) -> Option<u64> {
    const ENTRY: u64 = 24;
    const ADDRESS: u64 = 8;
    let number = u64::try_from(result).ok()?;
    guarded::read_word(list.wrapping_add(number * ENTRY + ADDRESS))
}

/// What a system call does with futexes.
enum Futex {
    /// Wakes threads that wait at words, or has them wait at others.
    Wakes([Option<u64>; 2]),
    /// Waits at words.
    Waits([Option<u64>; 2]),
    /// Waits at any word of a list.
    WaitsForOneOf { list: u64 },
}

impl Futex {
    fn of(call: &Call) -> Option<Futex> {
        const WAIT_FOR_ONE_OF: i64 = 449;
        const WAKE: i64 = 454;
        const WAIT: i64 = 455;
        const REQUEUE: i64 = 456;
        let first = call.arguments[0];
        Some(match call.number as i64 {
            libc::SYS_futex => return Futex::of_command(call),
            WAIT_FOR_ONE_OF => Futex::WaitsForOneOf { list: first },
            WAKE => Futex::Wakes([Some(first), None]),
            WAIT => Futex::Waits([Some(first), None]),
            REQUEUE => {
                // Both are in a list like that of a wait.
                Futex::Wakes([awaited(first, 0), awaited(first, 1)])
            }
            _ => return None,
        })
    }

    /// Of the call that has them all (`futex(2)`).
    fn of_command(call: &Call) -> Option<Futex> {
        const LOCK_PI2: i32 = 13;
        let command = call.arguments[1] as i32 & libc::FUTEX_CMD_MASK;
        let (first, second) = (Some(call.arguments[0]), Some(call.arguments[4]));
        Some(match command {
            libc::FUTEX_WAIT
            | libc::FUTEX_WAIT_BITSET
            | libc::FUTEX_LOCK_PI
            | LOCK_PI2
            | libc::FUTEX_TRYLOCK_PI => Futex::Waits([first, None]),
            libc::FUTEX_WAIT_REQUEUE_PI => Futex::Waits([first, second]),
            libc::FUTEX_WAKE | libc::FUTEX_WAKE_BITSET | libc::FUTEX_UNLOCK_PI => {
                Futex::Wakes([first, None])
            }
            libc::FUTEX_WAKE_OP
            | libc::FUTEX_REQUEUE
            | libc::FUTEX_CMP_REQUEUE
            | libc::FUTEX_CMP_REQUEUE_PI => Futex::Wakes([first, second]),
            _ => return None,
        })
    }
}
