//! Countdowns of calls that are made each n-th time.

use unspool_code_cache::slots::{Slots, slots};
use unspool_events::ThreadId;
use unspool_kernel::lock::{Mutex, OnceLock};

use crate::slots::{self as tool_slots, MOST_SAMPLERS};

/// A countdown of each thread, by its number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct SamplerId(u8);

/// How often.
#[derive(Debug, Clone, Copy)]
struct Period {
    passages: u32,
    jitter: u32,
}

static ANNOUNCED: Mutex<Vec<Period>> = Mutex::new(Vec::new());
static PERIODS: OnceLock<Vec<Period>> = OnceLock::new();

impl SamplerId {
    /// A new sampler: a call each `passages`, more or less by up to `jitter`.
    ///
    /// # Panics
    /// If the program runs already, if there are too many, or if the period is not longer than
    /// the jitter.
    #[must_use]
    #[track_caller]
    pub fn new(passages: u32, jitter: u32) -> SamplerId {
        assert!(
            PERIODS.get().is_none(),
            "samplers are to be made before the program is run"
        );
        assert!(
            passages > jitter
                && passages
                    .checked_add(jitter)
                    .is_some_and(|most| most < 1 << 31),
            "a period of {passages} with a jitter of {jitter}"
        );
        let mut announced = ANNOUNCED.lock();
        assert!(
            announced.len() < MOST_SAMPLERS,
            "a tool can have {MOST_SAMPLERS} samplers"
        );
        announced.push(Period { passages, jitter });
        SamplerId(announced.len() as u8 - 1)
    }

    pub(crate) fn index(self) -> usize {
        usize::from(self.0)
    }
}

/// The program is about to run: there will be no more samplers.
pub(crate) fn settle() {
    let announced = ANNOUNCED.lock();
    let _ = PERIODS.set(announced.clone());
}

/// Starts the calling thread's countdowns. Threads differ in their jitter, but not from run to
/// run.
pub(super) fn prepare(thread: ThreadId) {
    let slots = slots();
    let seed = (u64::from(thread.0) + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    tool_slots::of(slots).random.set(seed);
    for number in 0..PERIODS.get().map_or(0, Vec::len) {
        start(slots, number);
    }
}

/// Starts the calling thread's countdown anew that has just come to its end.
pub fn restart_countdown() {
    let slots = slots();
    let number = tool_slots::of(slots).sampler.get() as usize;
    start(slots, number);
}

fn start(slots: &Slots, number: usize) {
    let Some(period) = PERIODS.get().and_then(|periods| periods.get(number)) else {
        return;
    };
    let own = tool_slots::of(slots);
    let spread = u64::from(period.jitter) * 2 + 1;
    own.random.update(next_random);
    let moved = own.random.get() % spread;
    let least = u64::from(period.passages - period.jitter);
    own.countdowns[number].set(least + moved);
}

/// Marsaglia, "Xorshift RNGs", Journal of Statistical Software 8 (14), 2003.
fn next_random(mut state: u64) -> u64 {
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    state
}
