//! What a tool is told of signals, forks and new programs, and that it can change it.
//!
//! `events`: counts what it is told, and says it. With `swallow`, signal 10 (`SIGUSR1`) never
//! reaches the program.

use std::ffi::CString;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};

use unspool_tool::{Address, Delivery, Signal, Superblock, SystemCall, Tool, read_memory, say};

use crate::asked;

const USER_SIGNAL: i32 = 10;

/// Whether a system call returns: not `rt_sigreturn`, `execve`, `exit` and `exit_group`.
fn returns(call: &SystemCall) -> bool {
    ![15, 59, 60, 231, 322].contains(&call.number)
}

/// The tool.
#[derive(Default)]
pub(crate) struct Events {
    signals: AtomicU64,
    faults: AtomicU64,
    forks: AtomicU64,
    copies: AtomicU64,
    is_copy: AtomicU64,
    open_calls: AtomicU64,
}

impl Tool for Events {
    type Thread = ();

    fn instrument(&self, _: &Superblock<Self>) {}

    fn signal(&self, (): &mut (), signal: &mut Signal) -> Delivery {
        self.signals.fetch_add(1, Ordering::Relaxed);
        if signal.fault_address().is_some() {
            self.faults.fetch_add(1, Ordering::Relaxed);
        }
        let mut byte = [0];
        let is_code = read_memory(Address(signal.pc()), &mut byte) == 1;
        assert!(
            is_code || signal.fault_address().is_some(),
            "a signal where no code is"
        );
        match asked("swallow") && signal.number() == USER_SIGNAL {
            true => Delivery::Swallow,
            false => Delivery::Deliver,
        }
    }

    fn system_call_entry(&self, (): &mut (), call: &mut SystemCall) {
        self.open_calls
            .fetch_add(u64::from(returns(call)), Ordering::Relaxed);
    }

    fn system_call_exit(&self, (): &mut (), call: &SystemCall, _: &mut i64) {
        self.open_calls
            .fetch_sub(u64::from(returns(call)), Ordering::Relaxed);
    }

    fn before_fork(&self, (): &mut ()) {
        self.forks.fetch_add(1, Ordering::Relaxed);
    }

    fn after_fork(&self, (): &mut (), child: Option<u32>) {
        assert_ne!(child, Some(std::process::id()), "this is the parent");
        self.copies
            .fetch_add(u64::from(child.is_some()), Ordering::Relaxed);
    }

    fn forked(&self, (): &mut ()) {
        self.is_copy.store(1, Ordering::Relaxed);
        // The parent's `fork` is not over here, but will be.
        for counter in [&self.signals, &self.faults, &self.forks, &self.copies] {
            counter.store(0, Ordering::Relaxed);
        }
    }

    fn exec(&self, (): &mut (), program: &Path, arguments: &[CString]) {
        say(&format!(
            "events: becomes {} with {} arguments",
            program.display(),
            arguments.len()
        ));
    }

    fn exec_failed(&self) {
        say("events: goes on");
    }

    fn end(&self) {
        let of = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        say(&format!(
            "events: {} signals, {} faults, {} forks, {} made, copy: {}, {} calls begun and not over",
            of(&self.signals),
            of(&self.faults),
            of(&self.forks),
            of(&self.copies),
            of(&self.is_copy),
            of(&self.open_calls)
        ));
    }
}
