//! The functions by which threads lock, and what each does.

/// What a lock is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum LockKind {
    /// One owner; it may be allowed to lock it again.
    Mutex,
    /// One writer, or any number of readers.
    ReadWrite,
    /// A mutex whose waiters do not sleep.
    Spin,
}

impl LockKind {
    /// In words.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            LockKind::Mutex => "mutex",
            LockKind::ReadWrite => "read-write lock",
            LockKind::Spin => "spin lock",
        }
    }
}

/// Whether somebody who asks for a lock waits until it is free.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Patience {
    Endless,
    /// Not at all, or up to some time.
    Bounded,
}

/// What a function does. Its object is the first argument.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Operation {
    Lock {
        kind: LockKind,
        is_shared: bool,
        patience: Patience,
    },
    Unlock(LockKind),
    /// The second argument is what it is to be like.
    Initialise(LockKind),
    /// Unlocks, or initialises: spin locks of glibc have one function for both, by two names.
    MakeFree,
    Destroy(LockKind),
    /// The mutex is the second argument.
    WaitForCondition,
    /// Who waits for the object behind this has learnt what the thread has done.
    Give,
    /// The thread learns that, if the function succeeds.
    Take,
    /// Both: all of them give before any takes.
    Meet,
    JoinThread(Patience),
    /// The second argument is whether locks like this may be left to others by a thread that ends.
    MakeRobust,
    /// What was said of it holds no more.
    ForgetAttributes,
}

/// All functions, by their names in C.
const FUNCTIONS: &[(&str, Operation)] = {
    use LockKind::{Mutex, ReadWrite, Spin};
    use Operation::*;
    use Patience::{Bounded, Endless};
    &[
        ("pthread_mutex_lock", lock(Mutex, false, Endless)),
        ("pthread_mutex_trylock", lock(Mutex, false, Bounded)),
        ("pthread_mutex_timedlock", lock(Mutex, false, Bounded)),
        ("pthread_mutex_clocklock", lock(Mutex, false, Bounded)),
        ("pthread_mutex_unlock", Unlock(Mutex)),
        ("pthread_mutex_init", Initialise(Mutex)),
        ("pthread_mutex_destroy", Destroy(Mutex)),
        ("pthread_mutexattr_init", ForgetAttributes),
        ("pthread_mutexattr_setrobust", MakeRobust),
        ("pthread_rwlock_rdlock", lock(ReadWrite, true, Endless)),
        ("pthread_rwlock_tryrdlock", lock(ReadWrite, true, Bounded)),
        ("pthread_rwlock_timedrdlock", lock(ReadWrite, true, Bounded)),
        ("pthread_rwlock_clockrdlock", lock(ReadWrite, true, Bounded)),
        ("pthread_rwlock_wrlock", lock(ReadWrite, false, Endless)),
        ("pthread_rwlock_trywrlock", lock(ReadWrite, false, Bounded)),
        (
            "pthread_rwlock_timedwrlock",
            lock(ReadWrite, false, Bounded),
        ),
        (
            "pthread_rwlock_clockwrlock",
            lock(ReadWrite, false, Bounded),
        ),
        ("pthread_rwlock_unlock", Unlock(ReadWrite)),
        ("pthread_rwlock_init", Initialise(ReadWrite)),
        ("pthread_rwlock_destroy", Destroy(ReadWrite)),
        ("pthread_spin_lock", lock(Spin, false, Endless)),
        ("pthread_spin_trylock", lock(Spin, false, Bounded)),
        ("pthread_spin_unlock", MakeFree),
        ("pthread_spin_init", MakeFree),
        ("pthread_spin_destroy", Destroy(Spin)),
        ("pthread_cond_wait", WaitForCondition),
        ("pthread_cond_timedwait", WaitForCondition),
        ("pthread_cond_clockwait", WaitForCondition),
        ("pthread_cond_signal", Give),
        ("pthread_cond_broadcast", Give),
        ("sem_post", Give),
        ("sem_wait", Take),
        ("sem_trywait", Take),
        ("sem_timedwait", Take),
        ("sem_clockwait", Take),
        ("pthread_barrier_wait", Meet),
        ("pthread_join", JoinThread(Endless)),
        ("pthread_tryjoin_np", JoinThread(Bounded)),
        ("pthread_timedjoin_np", JoinThread(Bounded)),
        ("pthread_clockjoin_np", JoinThread(Bounded)),
        // What glibc's functions of C11 do not do by those above.
        ("cnd_wait", WaitForCondition),
        ("cnd_timedwait", WaitForCondition),
        ("cnd_signal", Give),
        ("cnd_broadcast", Give),
        ("mtx_lock", lock(Mutex, false, Endless)),
        ("mtx_trylock", lock(Mutex, false, Bounded)),
        ("mtx_timedlock", lock(Mutex, false, Bounded)),
        ("mtx_unlock", Unlock(Mutex)),
        ("mtx_init", Initialise(Mutex)),
        ("mtx_destroy", Destroy(Mutex)),
        ("thrd_join", JoinThread(Endless)),
    ]
};

const fn lock(kind: LockKind, is_shared: bool, patience: Patience) -> Operation {
    Operation::Lock {
        kind,
        is_shared,
        patience,
    }
}

/// The names of the functions whose calls and returns must be among the events.
pub fn functions() -> impl Iterator<Item = &'static str> {
    FUNCTIONS.iter().map(|(name, _)| *name)
}

/// What the function of a name does.
pub(super) fn operation_of(name: &str) -> Option<Operation> {
    let found = FUNCTIONS.iter().find(|(known, _)| *known == name);
    found.map(|(_, operation)| *operation)
}
