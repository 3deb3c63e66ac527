//! Switches, by which threads choose between two versions of code.

use std::sync::atomic::{AtomicU64, Ordering};

use unspool_code_cache::exit::Version;
use unspool_code_cache::slots::{Slots, slots};

use crate::numbering::Numbering;
use crate::process::process;
use crate::slots::{self as tool_slots, MOST_SWITCHES, offset};

/// By which code has two versions: each thread executes the one that its switch says when it comes
/// there.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Switch(u8);

static MADE: Numbering = Numbering::new(MOST_SWITCHES, "switches");

/// What threads begin with.
static AT_START: [AtomicU64; MOST_SWITCHES] = [const { AtomicU64::new(0) }; MOST_SWITCHES];

impl Switch {
    /// A new one, which is off in all threads.
    ///
    /// # Panics
    /// If there are eight already.
    #[must_use]
    #[track_caller]
    #[expect(clippy::new_without_default, reason = "each is another one")]
    pub fn new() -> Switch {
        Switch(MADE.next())
    }

    /// Whether it is on in the calling thread.
    #[must_use]
    #[inline]
    pub fn is_on(self) -> bool {
        self.word(slots()).load(Ordering::Relaxed) != 0
    }

    /// It is on, or off, in the calling thread from the next piece of code on.
    #[inline]
    pub fn set(self, is_on: bool) {
        let word = self.word(slots());
        word.store(u64::from(is_on), Ordering::Relaxed);
    }

    /// It is on, or off, in all threads of the program, each from its next piece of code on, and in
    /// those that are still to start.
    pub fn set_everywhere(self, is_on: bool) {
        let value = u64::from(is_on);
        let Some(process) = process() else {
            AT_START[self.index()].store(value, Ordering::Relaxed);
            return;
        };
        // Under the lock of the list, so that a thread that starts has either the one or the other.
        let threads = process.threads.lock();
        AT_START[self.index()].store(value, Ordering::Relaxed);
        for handle in threads.iter() {
            // SAFETY: the thread lives while it is listed, and the list is locked.
            let slots = unsafe { (*handle.thread).slots() };
            self.word(slots).store(value, Ordering::Relaxed);
        }
    }

    /// Which version a thread executes that comes to such code now: the calling one.
    pub(crate) fn chosen(self) -> Version {
        Version::of(self.is_on())
    }

    /// Its slot.
    pub(crate) fn slot(self) -> i32 {
        offset::SWITCHES + 8 * self.index() as i32
    }

    fn index(self) -> usize {
        usize::from(self.0)
    }

    #[inline]
    fn word(self, slots: &Slots) -> &AtomicU64 {
        &tool_slots::of(slots).switches[self.index()]
    }
}

/// A thread begins, which is listed.
pub(crate) fn prepare() {
    let process = process();
    let _threads = process.map(|process| process.threads.lock());
    let switches = &tool_slots::of(slots()).switches;
    for (word, at_start) in switches.iter().zip(&AT_START) {
        word.store(at_start.load(Ordering::Relaxed), Ordering::Relaxed);
    }
}

/// A version as a number, in a thread's slots.
pub(crate) fn number(version: Version) -> u32 {
    match version {
        Version::Off => 1,
        Version::On => 2,
    }
}

/// In which version of such code the calling thread has made a system call last.
pub(crate) fn calling_version() -> Option<Version> {
    let number = tool_slots::of(slots()).calling_version.get();
    let all = [Version::Off, Version::On];
    all.into_iter()
        .find(|&version| u64::from(self::number(version)) == number)
}
