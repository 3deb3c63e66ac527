#![expect(
    clippy::disallowed_types,
    reason = "what other tests fork does not come here"
)]

use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, Ordering};

use super::{ADVANCE_NS, ALL, EACH, RandomWaits, mixed, now_ns};

const fn none() -> RandomWaits {
    RandomWaits::none(5_000, 300_000)
}

#[test]
fn one_window_in_four_is_widened() {
    let windows = none();
    windows.begin(7);
    let widened = (0..4096).filter_map(|_| windows.next_wait()).count();
    assert!((900..1150).contains(&widened), "{widened} of 4096");
}

#[test]
fn windows_take_their_part_of_the_time_and_no_more() {
    let windows = none();
    windows.begin(7);
    let began = now_ns();
    let mut longest = 0;
    while now_ns() - began < 100_000_000 {
        let before = now_ns();
        windows.pass();
        longest = longest.max(now_ns() - before);
    }
    let elapsed = now_ns() - began + ADVANCE_NS;
    let waited = windows.waited_ns.load(Ordering::Relaxed);
    // One wait more than allowed, for how long nobody knows.
    assert!(waited <= elapsed / EACH + longest, "{waited} of {elapsed}");
    assert!(waited + longest >= ADVANCE_NS / EACH, "only {waited}");
    const { assert!(EACH > ALL, "one window leaves the others nothing") };
}

/// One that is about to sleep until something is there, and one that brings it and wakes it.
#[derive(Default)]
struct Meeting {
    is_there: AtomicBool,
    is_asleep: AtomicBool,
    is_woken: AtomicBool,
}

impl Meeting {
    /// The defect: it looks before it says that it is about to sleep.
    fn look_and_sleep(&self, window: impl Fn()) {
        if !self.is_there.load(Ordering::SeqCst) {
            window();
            self.is_asleep.store(true, Ordering::SeqCst);
        }
    }

    fn say_and_sleep(&self, window: impl Fn()) {
        self.is_asleep.store(true, Ordering::SeqCst);
        window();
        if self.is_there.load(Ordering::SeqCst) {
            self.is_asleep.store(false, Ordering::SeqCst);
        }
    }

    fn bring(&self) {
        self.is_there.store(true, Ordering::SeqCst);
        if self.is_asleep.load(Ordering::SeqCst) {
            self.is_woken.store(true, Ordering::SeqCst);
        }
    }

    fn sleeps_for_ever(&self) -> bool {
        self.is_asleep.load(Ordering::SeqCst) && !self.is_woken.load(Ordering::SeqCst)
    }
}

const MEETINGS: u64 = 3000;

/// How many of the meetings end with a sleeper whom nobody wakes.
fn lost(windows: &RandomWaits, sleep: fn(&Meeting, &dyn Fn())) -> u64 {
    let meetings: Vec<_> = (0..MEETINGS).map(|_| Meeting::default()).collect();
    let start = Barrier::new(2);
    let window = || {
        if windows.have_begun() {
            windows.pass();
        }
    };
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for (number, meeting) in (0..).zip(&meetings) {
                start.wait();
                // Whoever brings something comes at any time.
                let delay_ns = mixed(number) % 50_000;
                let begin = now_ns();
                while now_ns() - begin < delay_ns {}
                meeting.bring();
            }
        });
        for (number, meeting) in (0..).zip(&meetings) {
            start.wait();
            let delay_ns = mixed(!number) % 50_000;
            let begin = now_ns();
            while now_ns() - begin < delay_ns {}
            sleep(meeting, &window);
        }
    });
    let lost = meetings.iter().filter(|meeting| meeting.sleeps_for_ever());
    lost.count() as u64
}

#[test]
fn a_lost_wake_up_is_found_in_wide_windows_and_hardly_in_narrow_ones() {
    let look = |meeting: &Meeting, window: &dyn Fn()| meeting.look_and_sleep(window);
    let say = |meeting: &Meeting, window: &dyn Fn()| meeting.say_and_sleep(window);
    let wide = none();
    wide.begin(7);
    let found = lost(&wide, look);
    let found_narrow = lost(&none(), look);
    println!("{found} wide, {found_narrow} narrow, of {MEETINGS}");
    assert!(found > 10 * found_narrow.max(1), "{found}, {found_narrow}");
    assert_eq!(lost(&wide, say), 0, "what is right is called wrong");
}
