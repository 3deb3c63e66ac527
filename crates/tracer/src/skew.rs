//! Threads' times are kept close in the file (`--max-skew`), so that whoever merges the
//! trace while it is being written need not wait for one thread for long.
//!
//! Whenever a thread has emptied its buffer, it looks for threads whose times in the file
//! are too far behind its own. Such a thread is told to say where it is: by an event
//! ([`ThreadEvent::ClockMoved`](unspool_events::ThreadEvent::ClockMoved)) with a time not far behind, and by ending its chunk there. A
//! thread that waits in the kernel cannot do that itself; it has left its trace to the
//! others for that time ([`Sleep`](crate::sleep::Sleep)), and they do it on its behalf.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use unspool_events::{Order, RecordSink, ThreadId};
use unspool_kernel::lock::Mutex;

use crate::plan::{TraceOutput, TracePlan};
use crate::sleep::Looks;
use crate::thread_progress::ThreadProgress;
use crate::trace_buffer::TraceBuffer;

/// How far the threads are.
#[derive(Debug)]
pub(crate) struct Skew {
    /// Whether the trace goes anywhere.
    is_kept: bool,
    /// The greatest distance allowed; 0 for any.
    most: u64,
    live: Mutex<BTreeMap<ThreadId, Live>>,
}

/// A thread that has a trace.
#[derive(Debug)]
struct Live {
    progress: Arc<ThreadProgress>,
    /// Its trace buffer, for whoever borrows it while the thread sleeps.
    buffer: *mut TraceBuffer,
}

// SAFETY: the pointer is used under the lock of the map only, where the thread is listed as long as
// it has its trace, and by whoever has borrowed that.
unsafe impl Send for Live {}

impl Skew {
    pub(crate) fn new(plan: &TracePlan) -> Skew {
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
    pub(crate) fn forget_others(&self) {
        self.live.lock().clear();
    }

    /// A thread's trace begins, whose buffer stays where it is.
    pub(crate) fn begin(&self, thread: ThreadId, buffer: &mut TraceBuffer) {
        if !self.is_kept {
            return;
        }
        let progress = Arc::new(ThreadProgress::new(buffer.slots));
        buffer.progress = Some(Arc::clone(&progress));
        let live = Live { progress, buffer };
        self.live.lock().insert(thread, live);
    }

    /// A thread's trace ends.
    pub(crate) fn end(&self, thread: ThreadId) {
        if self.is_kept {
            self.live.lock().remove(&thread);
        }
    }

    /// A thread's buffer was emptied between two records: threads that are too far behind in the
    /// file show where they are, this one as well.
    pub(crate) fn keep_close(&self, thread: ThreadId, buffer: &mut TraceBuffer) {
        if self.most == 0 {
            return;
        }
        let Some(now) = buffer.time_of_run() else {
            return;
        };
        buffer.note_shown();
        let own = buffer.progress.as_ref();
        if own.is_some_and(|own| self.is_far_behind(own.shown(), now)) {
            buffer.show_time(now);
        }
        self.keep_others_close(thread, buffer);
    }

    /// A thread's buffer was emptied, perhaps in the middle of what belongs to one record: the other
    /// threads show where they are.
    pub(crate) fn keep_others_close(&self, thread: ThreadId, buffer: &TraceBuffer) {
        if self.most == 0 {
            return;
        }
        let Some(now) = buffer.time_of_run() else {
            return;
        };
        // Much may be recorded between two times: where tickets are rare.
        let sink = buffer.recording.sink();
        let is_crowded = sink.is_crowded();
        let far = |shown: u64| is_crowded || self.is_far_behind(shown, now);
        let floor = match is_crowded {
            true => now,
            false => now.saturating_sub(self.most / 4),
        };
        for (&number, live) in self.live.lock().iter() {
            if number == thread || !far(live.progress.shown()) {
                continue;
            }
            match live.progress.sleep.borrow() {
                // SAFETY: the buffer of a listed thread, which this one has borrowed.
                Some(_loan) => unsafe { &mut *live.buffer }.catch_up(floor),
                None => live.progress.ask_to_show(floor),
            }
        }
        give_others_time(&*sink);
    }

    fn is_far_behind(&self, shown: u64, now: u64) -> bool {
        shown.saturating_add(self.most) < now
    }

    /// Writes what threads have recorded that have been asleep for a while; `at_once`: all that
    /// sleep.
    pub(crate) fn show_sleepers(&self, looks: &mut Looks, at_once: bool) {
        let all = self.live.lock();
        looks.keep_only(|number| all.contains_key(&number));
        for (&number, live) in all.iter() {
            let sleep = &live.progress.sleep;
            let Some(nap) = sleep.nap() else { continue };
            if looks.is_due(number, nap, at_once)
                && let Some(_loan) = sleep.borrow()
            {
                // SAFETY: the buffer of a listed thread, which the caller has borrowed.
                let buffer = unsafe { &mut *live.buffer };
                buffer.empty();
                buffer.show();
            }
        }
    }
}

/// Waits a little where much waits for threads that are behind, which have been asked to show
/// where they are. Not for as long as it takes: one of them may wait for this thread.
fn give_others_time(sink: &dyn RecordSink) {
    const A_MOMENT: Duration = Duration::from_millis(1);
    const MOST_MOMENTS: usize = 20;
    for _ in 0..MOST_MOMENTS {
        if !sink.is_crowded() {
            break;
        }
        std::thread::sleep(A_MOMENT);
    }
}
