//! Time in which a thread was ready to run and had no processor, told apart from its work and
//! from its waits.
//!
//! What a thread does is short beside the time for which the kernel lets somebody else run. So it
//! is enough to look where it has been at something for long: a thread that was preempted has.

use unspool_openmp_record::layout::thread_block;
use unspool_preload::clock;

use super::{Thread, construct};
use crate::construct::Node;
use crate::processor_time::{ProcessorTime, without_processor_ns};

/// How long a thread may be at something, in ticks, before it is looked whether it ran.
pub(super) const LOOK_AFTER_TICKS: u64 = 1 << 20;
/// What is shorter, in nanoseconds, is no time without a processor that the kernel would give
/// somebody else, but what the two clocks differ by.
const SHORTEST_NS: u64 = 1_000_000;
/// How much time passes at most, in ticks, before the time without a processor is read anew.
const READ_ANEW_TICKS: u64 = 1 << 27;

/// What was read last.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct LastReading {
    ticks: u64,
    ns: u64,
    time: ProcessorTime,
    without_ticks: u64,
    without_ns: u64,
    /// How much longer the thread had been without a processor then than when it was read before.
    without_more_ns: Option<u64>,
}

/// What a thread was at until now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Until {
    /// The program's work, in the construct.
    Work(*mut Node),
    /// Waiting, or nothing of the program's.
    Wait,
}

impl Thread {
    /// The process's first thread: its time counts from the start of the process.
    pub(super) fn start_first_processor_time(&mut self) {
        let (ticks, ns) = clock::start();
        self.reading = LastReading {
            ticks,
            ns,
            without_ticks: ticks,
            ..LastReading::default()
        };
    }

    /// A thread that is not known yet: from here on its time counts.
    pub(super) fn start_processor_time(&mut self) {
        self.reading = LastReading {
            ticks: clock::now(),
            ns: clock::monotonic_ns(),
            time: ProcessorTime::now(),
            without_ticks: clock::now(),
            without_ns: without_processor_ns().unwrap_or(0),
            without_more_ns: None,
        };
    }

    /// The last moment of a thread.
    pub(super) fn end_processor_time(&mut self, now: u64) {
        self.read_processor_time(now, Until::Wait);
        self.without_since_last_ns(now);
    }

    /// Something ends that may have been long.
    #[inline]
    pub(super) fn look_at_processor(&mut self, now: u64, until: Until) {
        if now.saturating_sub(self.reading.ticks) >= LOOK_AFTER_TICKS {
            self.read_processor_time(now, until);
        }
    }

    #[cold]
    fn read_processor_time(&mut self, now: u64, until: Until) {
        let before = self.reading;
        let (ns, time) = (clock::monotonic_ns(), ProcessorTime::now());
        self.reading.ticks = now;
        self.reading.ns = ns;
        self.reading.time = time;
        let ran = time.ran_ns.saturating_sub(before.time.ran_ns);
        let stopped = time.stopped.saturating_sub(before.time.stopped);
        let preempted = time.preempted.saturating_sub(before.time.preempted);
        self.block.add(thread_block::RAN_NS, ran);
        self.block.add(thread_block::STOPPED, stopped);
        self.block.add(thread_block::PREEMPTED, preempted);
        let not_run = ns.saturating_sub(before.ns).saturating_sub(ran);
        match until {
            Until::Work(node) if not_run >= SHORTEST_NS => {
                // Where the program itself has slept, what the kernel counts is at most all that.
                let without = match (stopped, self.without_since_last_ns(now)) {
                    (0, _) => not_run,
                    (_, Some(without)) => without.min(not_run),
                    (_, None) => 0,
                };
                self.worked_without_processor(node, clock::ticks(without, now, ns));
            }
            // What a wait lacked is no part of the work behind it.
            Until::Wait if preempted > 0 => {
                self.without_since_last_ns(now);
            }
            _ if now.saturating_sub(before.without_ticks) >= READ_ANEW_TICKS => {
                self.without_since_last_ns(now);
            }
            _ => {}
        }
    }

    /// How long the thread was without a processor since this was last asked at another moment, in
    /// nanoseconds.
    fn without_since_last_ns(&mut self, now: u64) -> Option<u64> {
        if self.reading.without_ticks != now {
            let all = without_processor_ns();
            let more = all.map(|all| all.saturating_sub(self.reading.without_ns));
            self.reading.without_ticks = now;
            self.reading.without_ns = all.unwrap_or(0);
            self.reading.without_more_ns = more;
            self.block.add(thread_block::WITHOUT_NS, more.unwrap_or(0));
        }
        self.reading.without_more_ns
    }

    fn worked_without_processor(&mut self, node: *mut Node, ticks: u64) {
        self.without_processor += ticks;
        // SAFETY: nodes are never freed.
        if let Some(node) = unsafe { node.as_ref() } {
            node.record.add(construct::WITHOUT_PROCESSOR, ticks);
        }
    }

    /// How much of the time since what the thread waited for has happened it had no processor to
    /// go on with, in ticks.
    #[inline]
    pub(super) fn late_for_lack_of_processor(&mut self, happened: u64, now: u64) -> u64 {
        let late = now.saturating_sub(happened);
        match late >= LOOK_AFTER_TICKS {
            true => self.late_without_processor(late, now),
            false => 0,
        }
    }

    #[cold]
    fn late_without_processor(&mut self, late: u64, now: u64) -> u64 {
        let without = self.without_since_last_ns(now).unwrap_or(0);
        clock::ticks(without, now, clock::monotonic_ns()).min(late)
    }
}
