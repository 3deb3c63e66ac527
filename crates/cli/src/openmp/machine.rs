//! What else runs on the machine while a program is observed.

use std::collections::HashMap;

use procfs::process::{Process, all_processes};
use procfs::{CurrentSI, KernelStats};
use rustix::process::{Pid, getpid};
use unspool_openmp::{Others, Program};

/// The machine at one moment. Times are the kernel's ticks.
#[derive(Debug)]
pub(super) struct Moment {
    /// How long all processors have run something.
    ran: u64,
    /// How long this command and what it started have run, as far as that has ended.
    own: u64,
    /// How long each other process has run, by its number and when it started.
    processes: HashMap<(i32, u64), u64>,
}

impl Moment {
    /// What the kernel shows now; nothing where it shows nothing.
    pub(super) fn now() -> Option<Moment> {
        let all = KernelStats::current().ok()?.total;
        let ran = all.user
            + all.system
            + all.irq.unwrap_or(0)
            + all.softirq.unwrap_or(0)
            + all.steal.unwrap_or(0);
        let own = Process::myself().and_then(|own| own.stat()).ok()?;
        let waited_for = own.cutime.max(0).unsigned_abs() + own.cstime.max(0).unsigned_abs();
        let stats = all_processes()
            .ok()?
            .filter_map(|one| one.ok()?.stat().ok());
        let processes = stats
            .filter(|stat| Pid::from_raw(stat.pid) != Some(getpid()))
            .map(|stat| ((stat.pid, stat.starttime), stat.utime + stat.stime));
        Some(Moment {
            ran,
            own: own.utime + own.stime + waited_for,
            processes: processes.collect(),
        })
    }

    /// What others have run since this moment. What this command started has ended.
    pub(super) fn others_since(&self) -> Option<Others> {
        let now = Moment::now()?;
        let all = now.ran.saturating_sub(self.ran);
        let own = now.own.saturating_sub(self.own);
        let ran = |(key, ticks): (&(i32, u64), &u64)| {
            let before = self.processes.get(key).copied().unwrap_or(0);
            (ticks.saturating_sub(before), key.0)
        };
        let most = now.processes.iter().map(ran).max();
        let most = most
            .filter(|(ticks, _)| *ticks > 0)
            .and_then(|(ticks, process)| {
                let stat = Process::new(process).and_then(|one| one.stat()).ok()?;
                Some(Program {
                    name: stat.comm,
                    process: process.unsigned_abs(),
                    ran_ns: nanoseconds(ticks),
                })
            });
        Some(Others {
            ran_ns: nanoseconds(all.saturating_sub(own)),
            most,
        })
    }
}

fn nanoseconds(ticks: u64) -> u64 {
    ticks.saturating_mul(1_000_000_000 / procfs::ticks_per_second().max(1))
}
