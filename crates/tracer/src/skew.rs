//! Threads' times are kept close in the file (`--max-skew`), so that whoever merges the
//! trace while it is being written need not wait for one thread for long.
//!
//! Whenever a thread has emptied its buffer, it looks for threads whose times in the file
//! are too far behind its own. Such a thread is told to say where it is: by an event
//! ([`ThreadEvent::ClockMoved`]) with a time not far behind, and by ending its chunk there. A
//! thread that waits in the kernel cannot do that itself; it has left its trace to the
//! others for that time ([`Sleep`]), and they do it on its behalf.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use unspool_events::raw::{SpecialKind, special_header};
use unspool_events::{Event, Order, ThreadEvent};
use unspool_kernel::lock::Mutex;

use super::keeper::Looks;
use super::ownership;
use super::plan::{TraceOutput, TracePlan};
use super::sleep::Sleep;
use super::thread_trace::ThreadTrace;
use crate::slots as trace_slots;
use crate::thread_trace::OF_THREAD;
use crate::tracer::Tracer;
use unspool_engine::thread::Thread;

/// How far the threads are.
#[derive(Debug)]
pub(super) struct Skew {
    /// Whether the trace goes anywhere.
    is_kept: bool,
    /// The greatest distance allowed; 0 for any.
    most: u64,
    live: Mutex<BTreeMap<u32, Live>>,
}

/// A thread that has a trace.
#[derive(Debug)]
struct Live {
    progress: Arc<ThreadProgress>,
    /// Its trace, for whoever borrows it while the thread sleeps.
    trace: *mut ThreadTrace,
}

// SAFETY: the pointer is used under the lock of the map only, where the thread is listed as long as
// it has its trace, and by whoever has borrowed that.
unsafe impl Send for Live {}

/// Where a thread stands, for others to see.
#[derive(Debug)]
pub(super) struct ThreadProgress {
    /// Whether it has left its trace to others.
    sleep: Sleep,
    /// The time up to which the file has its records.
    shown: AtomicU64,
    /// A time that it is asked to show; 0 for none.
    floor: AtomicU64,
    /// The slot by which it is asked.
    poll: u64,
}

impl ThreadProgress {
    /// The time that the thread is asked to show, once.
    pub(super) fn take_floor(&self) -> Option<u64> {
        if self.floor.load(Ordering::Relaxed) == 0 {
            return None;
        }
        Some(self.floor.swap(0, Ordering::AcqRel)).filter(|&floor| floor != 0)
    }
}

impl Skew {
    pub(super) fn new(plan: &TracePlan) -> Skew {
        // Where nothing is written, nobody reads.
        let is_kept = plan.output != TraceOutput::Discard;
        let bounded = is_kept && plan.order != Order::None;
        Skew {
            is_kept,
            most: if bounded { plan.max_skew } else { 0 },
            live: Mutex::default(),
        }
    }

    /// In a forked child: the other threads are gone.
    pub(super) fn forget_others(&self) {
        self.live.lock().clear();
    }

    /// A thread's trace begins.
    pub(super) fn begin(&self, thread: &Thread, trace: &mut ThreadTrace) {
        if !self.is_kept {
            return;
        }
        let progress = Arc::new(ThreadProgress {
            sleep: Sleep::default(),
            shown: AtomicU64::new(0),
            floor: AtomicU64::new(0),
            poll: trace_slots::of(thread.slots()).poll.as_ptr() as u64,
        });
        trace.progress = Some(Arc::clone(&progress));
        let live = Live { progress, trace };
        self.live.lock().insert(thread.number, live);
    }

    /// A thread's trace ends.
    pub(super) fn end(&self, thread: u32) {
        if self.is_kept {
            self.live.lock().remove(&thread);
        }
    }
}

/// While this lives, the thread leaves its trace to the others.
/// The thread is about to wait in the kernel, perhaps for long.
pub(super) fn begin_rest() {
    if let Some(progress) = own_progress() {
        progress.sleep.begin();
    }
}

/// It goes on.
pub(super) fn end_rest(tracer: &Tracer) {
    if let Some(progress) = own_progress() {
        progress.wake(tracer);
    }
}

/// Where the calling thread stands.
fn own_progress() -> Option<&'static ThreadProgress> {
    // SAFETY: the pointers are null or this thread's own, whose trace, or that of its parent that
    // waits, ends behind the thread's rest.
    unsafe {
        OF_THREAD
            .get(Thread::current().as_ref()?)
            .as_ref()?
            .progress
            .as_deref()
    }
}

impl Tracer {
    /// A buffer was emptied between two records: threads that are too far behind in the file show
    /// where they are, this one as well.
    pub(super) fn keep_close(&self, thread: &mut Thread) {
        if self.skew.most == 0 || OF_THREAD.get(thread).is_null() {
            return;
        }
        // SAFETY: the trace belongs to this thread, or to its parent that waits.
        let trace = unsafe { &mut *OF_THREAD.get(thread) };
        let Some(now) = self.time_of_run(trace) else {
            return;
        };
        trace.note_shown();
        if trace
            .progress
            .as_ref()
            .is_some_and(|own| self.is_far_behind(own.shown(), now))
        {
            trace.encode(&self.thread_sync(now));
            trace.show();
        }
        self.keep_others_close(thread);
    }

    /// A buffer was emptied, perhaps in the middle of what belongs to one record: the other threads
    /// show where they are.
    pub(super) fn keep_others_close(&self, thread: &mut Thread) {
        let most = self.skew.most;
        if most == 0 || OF_THREAD.get(thread).is_null() {
            return;
        }
        // SAFETY: as above.
        let trace = unsafe { &mut *OF_THREAD.get(thread) };
        let Some(now) = self.time_of_run(trace) else {
            return;
        };
        // Much may be recorded between two times: where tickets are rare.
        let is_crowded = self.writer.lock().clone().is_crowded();
        let far = |shown: u64| is_crowded || self.is_far_behind(shown, now);
        let floor = match is_crowded {
            true => now,
            false => now.saturating_sub(most / 4),
        };
        for (&number, live) in self.skew.live.lock().iter() {
            if number == thread.number || !far(live.progress.shown()) {
                continue;
            }
            match live.progress.sleep.borrow() {
                // SAFETY: the trace of a listed thread, which this one has borrowed.
                Some(_loan) => unsafe { &mut *live.trace }.catch_up(self, floor),
                None => {
                    live.progress.floor.fetch_max(floor, Ordering::AcqRel);
                    ownership::ask_to_show(live.progress.poll);
                }
            }
        }
        self.give_others_time();
    }

    /// The time that the run has reached, as far as this thread knows.
    fn time_of_run(&self, trace: &ThreadTrace) -> Option<u64> {
        match self.order() {
            Order::None => None,
            Order::LineAtomic => Some(trace.reached),
            Order::Ticket => Some(self.tickets.counter().load(Ordering::Relaxed)),
            // SAFETY: reads a counter.
            Order::Timestamp => Some(unsafe { std::arch::x86_64::_rdtsc() }),
        }
    }

    fn is_far_behind(&self, shown: u64, now: u64) -> bool {
        shown.saturating_add(self.skew.most) < now
    }

    /// Waits a little where much waits for threads that are behind, which have been asked to show
    /// where they are. Not for as long as it takes: one of them may wait for this thread.
    fn give_others_time(&self) {
        const A_MOMENT: Duration = Duration::from_millis(1);
        const MOST_MOMENTS: usize = 20;
        let writer = self.writer.lock().clone();
        for _ in 0..MOST_MOMENTS {
            if !writer.is_crowded() {
                break;
            }
            std::thread::sleep(A_MOMENT);
        }
    }

    /// Writes what threads have recorded that have been asleep for a while; `at_once`: all that
    /// sleep.
    pub(super) fn show_sleepers(&self, looks: &mut Looks, at_once: bool) {
        let all = self.skew.live.lock();
        looks.keep_only(|number| all.contains_key(&number));
        for (&number, live) in all.iter() {
            let sleep = &live.progress.sleep;
            let Some(nap) = sleep.nap() else { continue };
            if looks.is_due(number, nap, at_once)
                && let Some(_loan) = sleep.borrow()
            {
                // SAFETY: the trace of a listed thread, which the caller has borrowed.
                let trace = unsafe { &mut *live.trace };
                trace.empty();
                trace.show();
            }
        }
    }

    /// The event that moves a thread's time, with its stamp.
    fn thread_sync(&self, floor: u64) -> Vec<u64> {
        let time = self.event_time().unwrap_or(floor);
        let mut words = vec![special_header(SpecialKind::Stamp, 0, 1), time];
        Event::Thread(ThreadEvent::ClockMoved).encode(&mut words);
        words
    }
}

impl ThreadProgress {
    fn shown(&self) -> u64 {
        self.shown.load(Ordering::Relaxed)
    }

    /// The thread takes its trace back, if it has left it to the others.
    pub(super) fn wake(&self, tracer: &Tracer) {
        self.sleep.end(|| tracer.keeper.end_if_killed_at_work());
    }
}

impl ThreadTrace {
    /// Shows the thread's records, and a time at which no earlier one can follow. The
    /// thread is out of the cache.
    pub(super) fn catch_up(&mut self, tracer: &Tracer, floor: u64) {
        self.append(&tracer.thread_sync(floor));
        self.pass_stamp(self.position(), floor);
        self.empty();
        self.show();
    }

    /// The same where a record is in the making, which starts at `start` and has no words
    /// yet. Returns where it starts now.
    pub(super) fn catch_up_mid_fragment(&mut self, tracer: &Tracer, start: u64, floor: u64) -> u64 {
        let start = self.insert_before(start, 0, &tracer.thread_sync(floor));
        self.pass_stamp(start, floor);
        self.hand_over(start);
        self.show();
        self.base
    }

    /// Ends the chunk, so that a reader has all that was handed over.
    fn show(&mut self) {
        self.flush();
        self.note_shown();
    }

    fn note_shown(&mut self) {
        let counted = self.encoder.as_ref().and_then(|encoder| encoder.counted());
        if let (Some(progress), Some((time, _))) = (&self.progress, counted) {
            self.reached = self.reached.max(time);
            progress.shown.store(time, Ordering::Relaxed);
        }
    }
}
