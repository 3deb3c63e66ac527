//! seccomp: filters judge the calls that the program makes, and only those.
//!
//! The engine makes calls of its own in the program's process, which no filter of the program's
//! expects: a filter that forbids them would kill the program, or quietly take from the engine
//! what it relies on. And calls that the program makes are made somewhere else than the program
//! thinks. So the engine keeps each thread's filters ([`chain`]), as `filters` gets them, and
//! judges a call before anything is done about it (`syscalls::judge`): with the address behind the
//! program's own instruction, its arguments, and the kernel's order of results ([`verdict`]).
//!
//! The kernel has a copy of each filter that lets the engine's calls pass ([`kernel_copy`]); what
//! that is for is said there. `filters::succession` hands the filters to the next program in the process.

pub(crate) mod always;
pub(crate) mod chain;
pub(crate) mod kernel_copy;
pub(crate) mod program;
pub(crate) mod run;
#[cfg(test)]
mod tests;
pub(crate) mod verdict;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use unspool_code_cache::address::CacheAddress;
use unspool_kernel::lock::{Mutex, MutexGuard};

use chain::Filter;
use run::CallData;
use verdict::Verdict;

/// `AUDIT_ARCH_X86_64`.
pub(crate) const ARCHITECTURE: u32 = 0xc000_003e;

/// `SYS_SECCOMP`: a filter has sent this SIGSYS.
pub(crate) const FROM_FILTER: u64 = 1;

/// What came with a signal. A filter under which the engine itself was started may have the
/// kernel send a SIGSYS for a call of the program's, with the address of the gate. For signal
/// handlers.
pub(crate) fn as_the_program_sees_it(signal: i32, info: &[u64; 16]) -> [u64; 16] {
    let mut info = *info;
    let from_filter = signal == libc::SIGSYS && info[1] & 0xffff_ffff == FROM_FILTER;
    if from_filter && CacheAddress::of(info[2]).is_some() {
        info[2] = unspool_code_cache::slots::slots().pc.get();
    }
    info
}

/// What a thread is under. The thread itself changes it, and a thread that gives its filters to
/// all others.
#[derive(Debug, Default)]
pub(crate) struct ThreadFilters {
    /// Whether there are any.
    any: AtomicBool,
    newest: Mutex<Option<Arc<Filter>>>,
}

impl ThreadFilters {
    /// What a new thread is under.
    #[must_use]
    pub(crate) fn inherited(&self) -> ThreadFilters {
        let filters = ThreadFilters::default();
        filters.set(self.newest());
        filters
    }

    /// The newest filter, which knows the others.
    #[must_use]
    pub(crate) fn newest(&self) -> Option<Arc<Filter>> {
        match self.any.load(Ordering::Acquire) {
            true => self.lock().clone(),
            false => None,
        }
    }

    /// What becomes of a call. `None`: nothing judges it.
    #[inline]
    pub(crate) fn judge(&self, data: impl FnOnce() -> CallData) -> Option<Verdict> {
        match self.any.load(Ordering::Acquire) {
            true => self.lock().as_ref().map(|newest| newest.judge(&data())),
            false => None,
        }
    }

    /// From now on the thread is under this.
    pub(crate) fn set(&self, newest: Option<Arc<Filter>>) {
        let mut current = self.lock();
        self.any.store(newest.is_some(), Ordering::Release);
        *current = newest;
    }

    fn lock(&self) -> MutexGuard<'_, Option<Arc<Filter>>> {
        self.newest.lock()
    }
}
