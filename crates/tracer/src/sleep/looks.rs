//! What somebody has seen who looks at sleeping threads now and then.

use std::collections::HashMap;

use unspool_events::ThreadId;

use super::Nap;

/// What was seen at the last look.
#[derive(Debug, Default)]
pub(crate) struct Looks(HashMap<ThreadId, Seen>);

/// A thread that slept.
#[derive(Debug, Clone, Copy)]
struct Seen {
    nap: Nap,
    shown: bool,
}

impl Looks {
    /// Whether what a thread has left is to be shown now: it was in this sleep at the last look
    /// too, or nobody will look again.
    pub(crate) fn is_due(&mut self, thread: ThreadId, nap: Nap, at_once: bool) -> bool {
        let seen = self.0.get(&thread).filter(|seen| seen.nap == nap);
        let is_due = at_once || seen.is_some_and(|seen| !seen.shown);
        let shown = is_due || seen.is_some_and(|seen| seen.shown);
        self.0.insert(thread, Seen { nap, shown });
        is_due
    }

    /// Forgets threads that are gone.
    pub(crate) fn keep_only(&mut self, is_there: impl Fn(ThreadId) -> bool) {
        self.0.retain(|&thread, _| is_there(thread));
    }
}

#[cfg(test)]
mod tests {
    use super::super::Sleep;
    use super::*;

    #[test]
    fn a_sleep_is_shown_once_and_at_the_second_look() {
        let sleep = Sleep::default();
        let mut looks = Looks::default();
        let mut look = |at_once| {
            let nap = sleep.nap().expect("the thread sleeps");
            looks.is_due(ThreadId(7), nap, at_once)
        };
        sleep.begin();
        assert_eq!(
            [look(false), look(false), look(false)],
            [false, true, false]
        );
        sleep.end(|| ());
        sleep.begin();
        assert_eq!([look(false), look(false)], [false, true]);
        sleep.end(|| ());
        sleep.begin();
        assert!(look(true), "the last look shows everything");
        assert!(look(true), "even again");
    }

    #[test]
    fn a_thread_with_the_number_of_one_that_is_gone_is_another() {
        let sleep = Sleep::default();
        sleep.begin();
        let nap = sleep.nap().expect("the thread sleeps");
        let mut looks = Looks::default();
        assert!(!looks.is_due(ThreadId(1), nap, false));
        looks.keep_only(|thread| thread != ThreadId(1));
        assert!(!looks.is_due(ThreadId(1), nap, false));
        assert!(looks.is_due(ThreadId(1), nap, false));
    }
}
