//! What becomes of this library when the process forks: a child starts a record of its own,
//! if it uses OpenMP at all.

use std::sync::MutexGuard;

use unspool_preload::clock;
use unspool_preload::fork::{self, HeldAcrossFork, Locks};

use crate::{arena, intervals, modules, process, thread, thread_slots};

/// All locks of this library. Whoever takes several takes them in this order.
struct AllLocks {
    creation: MutexGuard<'static, ()>,
    intervals: MutexGuard<'static, intervals::Described>,
    modules: MutexGuard<'static, modules::Known>,
    threads: MutexGuard<'static, thread::Spare>,
    growth: MutexGuard<'static, arena::Growth>,
}

impl Locks for AllLocks {
    fn held() -> &'static HeldAcrossFork<AllLocks> {
        static HELD: HeldAcrossFork<AllLocks> = HeldAcrossFork::new();
        &HELD
    }

    fn take() -> AllLocks {
        AllLocks {
            creation: process::creation(),
            intervals: intervals::described(),
            modules: modules::known(),
            threads: thread::spare(),
            growth: arena::growth(),
        }
    }

    fn start_child(mut self) {
        arena::forget(&mut self.growth);
        intervals::forget(&mut self.intervals);
        modules::forget(&mut self.modules);
        thread::forget(&mut self.threads);
        thread_slots::forget();
        clock::note_start();
        drop(self.creation);
    }
}

/// Makes the C library tell when the process forks.
pub(crate) fn watch() {
    fork::hold::<AllLocks>();
}
