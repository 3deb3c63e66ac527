//! What becomes of this library when the process forks: what was recorded before is the
//! parent's to write, and the child's threads have traces of their own.

use std::sync::MutexGuard;

use unspool_preload::fork::{self, HeldAcrossFork, Locks};

use crate::{recorder, strings};

/// All locks of this library.
struct AllLocks {
    recorders: MutexGuard<'static, recorder::All>,
    _strings: MutexGuard<'static, strings::Registered>,
}

impl Locks for AllLocks {
    fn held() -> &'static HeldAcrossFork<AllLocks> {
        static HELD: HeldAcrossFork<AllLocks> = HeldAcrossFork::new();
        &HELD
    }

    fn take() -> AllLocks {
        AllLocks {
            recorders: recorder::all(),
            _strings: strings::registered(),
        }
    }

    fn start_child(mut self) {
        recorder::forget(&mut self.recorders);
    }
}

/// Makes the C library tell when the process forks.
pub(crate) fn watch() {
    fork::hold::<AllLocks>();
}
