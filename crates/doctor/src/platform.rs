//! What a machine lets a process do.

use std::time::Duration;

use unspool_kernel::layout;
use unspool_sampler::trial::{self, Event, Rate};

use crate::memory::{self, MemoryAccess};
use crate::settings::Settings;

/// How often samples are asked for, and how much CPU time the attempt takes.
const TRIED_HZ: u32 = 1000;
const TRIED_FOR: Duration = Duration::from_millis(200);

/// `HWCAP2_FSGSBASE`: the instructions for segment bases may be used.
const FSGSBASE: u64 = 2;

/// What was found. An error is the kernel's number for it.
#[derive(Debug, Clone, PartialEq)]
pub struct Platform {
    /// Sampling by CPU time, in programs alone.
    pub samples: Result<(), i32>,
    /// The same, in the kernel too.
    pub kernel_samples: Result<(), i32>,
    /// Being told when threads wait.
    pub waits: Result<(), i32>,
    /// Sampling by the processor's cycles.
    pub cycles: Result<(), i32>,
    /// How many samples came of those that were asked for; nothing where none may be taken.
    pub rate: Option<Rate>,
    /// What a timer of CPU time waits for at most, in nanoseconds: the kernel's tick.
    pub tick_ns: Option<u64>,
    /// Whether the processor and the kernel have XSAVE.
    pub has_xsave: bool,
    /// Whether programs may set segment bases themselves.
    pub has_fsgsbase: bool,
    /// Address space for translated code.
    pub code_space: MemoryAccess,
    /// Address space for the order of accesses.
    pub order_space: MemoryAccess,
    /// Code that is written while it may run.
    pub written_code: MemoryAccess,
    /// What the kernel says of itself.
    pub settings: Settings,
}

impl Platform {
    /// Tries all of it, in this process.
    #[must_use]
    pub fn examine() -> Platform {
        let samples = trial::open(Event::TaskClock, false);
        Platform {
            samples,
            kernel_samples: trial::open(Event::TaskClock, true),
            waits: trial::open(Event::ContextSwitches, true),
            cycles: trial::open(Event::Cycles, false),
            rate: trial::rate(TRIED_HZ, TRIED_FOR),
            tick_ns: resolution_ns(libc::CLOCK_MONOTONIC_COARSE),
            has_xsave: std::arch::is_x86_feature_detected!("xsave"),
            has_fsgsbase: has_fsgsbase(),
            code_space: memory::reserve(layout::CACHE_SIZE + layout::BRANCH_TABLE_SIZE),
            order_space: memory::reserve(layout::OWNER_WORDS_END - layout::OWNER_WORDS),
            written_code: memory::execute_written(),
            settings: Settings::read(),
        }
    }
}

fn has_fsgsbase() -> bool {
    // SAFETY: asks for a number.
    unsafe { libc::getauxval(libc::AT_HWCAP2) & FSGSBASE != 0 }
}

fn resolution_ns(clock: libc::clockid_t) -> Option<u64> {
    let mut resolution = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: the kernel writes one structure.
    match unsafe { libc::clock_getres(clock, &raw mut resolution) } {
        0 => Some(
            resolution.tv_sec.unsigned_abs() * 1_000_000_000 + resolution.tv_nsec.unsigned_abs(),
        ),
        _ => None,
    }
}
