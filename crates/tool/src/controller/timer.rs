//! Regions that all threads have together, and the time that may bound them.
//!
//! Time is kept by a thread of the tool's own, which waits until a region is to begin or to end. It is
//! woken where something else has changed what comes next.

use std::sync::Arc;
use std::thread::{self, Thread};
use std::time::{Duration, Instant};

use unspool_instrument::Switch;
use unspool_kernel::lock::Mutex;

use super::Rules;
use super::progress::{Progress, RegionChange};
use super::trigger::Event;
use crate::run::say;

/// How far all threads are together.
#[derive(Debug, Default)]
pub(super) struct Together {
    state: Mutex<State>,
    /// The thread that keeps time, if one does.
    timer: Mutex<Timer>,
}

#[derive(Debug, Default)]
struct State {
    progress: Progress,
    /// When time has begun, or a region has begun or ended last.
    since: Option<Instant>,
}

impl State {
    /// A region has begun or ended. Switches are turned in the order in which regions do so, with the
    /// state in hand.
    fn follow(&mut self, change: RegionChange, switch: Switch) {
        switch.set_everywhere(change.is_begin);
        self.since = Some(Instant::now());
    }
}

#[derive(Debug, Default)]
enum Timer {
    /// It is not wanted yet.
    #[default]
    None,
    /// It is to start, and looks at the state when it does.
    Starting,
    /// It is there.
    Running(Thread),
}

impl Together {
    /// What may begin or end a region happens. Returns whether one does by that.
    pub(super) fn change(
        &self,
        switch: Switch,
        happens: impl FnOnce(&mut Progress) -> Option<RegionChange>,
    ) -> Option<RegionChange> {
        let change = {
            let mut state = self.state.lock();
            let change = happens(&mut state.progress)?;
            state.follow(change, switch);
            change
        };
        if let Timer::Running(thread) = &*self.timer.lock() {
            thread.unpark();
        }
        Some(change)
    }

    /// Time is kept from now on, if it is not already.
    pub(super) fn keep_time(self: &Arc<Together>, switch: Switch, rules: &Rules) {
        {
            let mut timer = self.timer.lock();
            if !matches!(*timer, Timer::None) {
                return;
            }
            *timer = Timer::Starting;
        }
        self.state.lock().since.get_or_insert_with(Instant::now);
        let (together, rules) = (Arc::clone(self), rules.clone());
        let started = unspool_instrument::spawn("regions", move || {
            *together.timer.lock() = Timer::Running(thread::current());
            together.wait(switch, &rules);
        });
        if let Err(error) = started {
            say(&format!(
                "error: no time bounds regions, nobody can keep it: {error}"
            ));
        }
    }

    /// The same in a forked child, in which the thread that kept time is not there.
    pub(super) fn keep_time_anew(self: &Arc<Together>, switch: Switch, rules: &Rules) {
        *self.timer.lock() = Timer::None;
        self.keep_time(switch, rules);
    }

    /// Has regions begin and end by time, as long as there are any to come.
    fn wait(&self, switch: Switch, rules: &Rules) {
        loop {
            let mut state = self.state.lock();
            let Some((_, awaited)) = state.progress.awaited(rules) else {
                return;
            };
            let Event::Time(once) = awaited.event else {
                drop(state);
                thread::park();
                continue;
            };
            let times = u32::try_from(awaited.count).unwrap_or(u32::MAX);
            let since = *state.since.get_or_insert_with(Instant::now);
            let left = once.saturating_mul(times).saturating_sub(since.elapsed());
            if left > Duration::ZERO {
                drop(state);
                thread::park_timeout(left);
                continue;
            }
            let change = state.progress.turn(None);
            state.follow(change, switch);
        }
    }
}
