//! System calls that wait for a time that is counted from their beginning.
//!
//! The engine interrupts such a call for its own ends, and the program makes it again. Made as it
//! was, it would wait for the whole time anew: so the engine notes when the wait is to end, and
//! has the kernel wait for what is left of it.
//!
//! `select`, `pselect6` and `ppoll` are none of them: the kernel itself writes into their
//! argument what is left. Nor are calls with absolute times, such as `mq_timedreceive` and all
//! timed waits for a futex but one.

use unspool_kernel::guarded;

use super::Call;
use super::waits::{SYS_EPOLL_PWAIT2, SYS_IO_PGETEVENTS};

const SECOND_NS: u64 = 1_000_000_000;
const MILLISECOND_NS: u64 = 1_000_000;

/// Where a call says how long it waits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Limit {
    /// An argument is a number of milliseconds.
    Milliseconds(usize),
    /// An argument points to a `timespec`.
    Time(usize),
    /// An argument points to a structure whose word of this number points to a `timespec`.
    Within(usize, usize),
}

/// Words of the one structure that such calls have: `struct io_uring_getevents_arg`.
const STRUCTURE_WORDS: usize = 3;

/// Where the kernel finds what is left of a wait: for as long as the call lasts.
#[repr(C)]
#[derive(Debug, Default)]
pub(crate) struct TimeLeft {
    time: [u64; 2],
    structure: [u64; STRUCTURE_WORDS],
}

/// A wait that has a limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct RelativeWait {
    limit: Limit,
    clock: i32,
    /// When it is to end, by that clock.
    end_ns: u64,
    /// Where the program wants to know what is left when a signal has ended it; 0 for nowhere.
    rest: u64,
    /// What the structure holds, if there is one.
    structure: [u64; STRUCTURE_WORDS],
}

impl RelativeWait {
    /// The wait that a system call begins, if it is one with a limit. The kernel refuses bad
    /// limits.
    pub(crate) fn begin(call: &Call) -> Option<RelativeWait> {
        let limit = limit(call)?;
        let mut structure = [0; STRUCTURE_WORDS];
        let length_ns = match limit {
            Limit::Milliseconds(place) => {
                let length = call.arguments[place] as i32;
                u64::try_from(length).ok()? * MILLISECOND_NS
            }
            Limit::Time(place) => read_time(call.arguments[place])?,
            Limit::Within(place, word) => {
                let start = call.arguments[place];
                for (number, word) in structure.iter_mut().enumerate() {
                    *word = guarded::read_word(start.wrapping_add(8 * number as u64))?;
                }
                read_time(structure[word])?
            }
        };
        if length_ns == 0 {
            return None;
        }
        let clock = clock(call);
        Some(RelativeWait {
            limit,
            clock,
            end_ns: now_ns(clock)?.checked_add(length_ns)?,
            rest: rest_place(call).map_or(0, |place| call.arguments[place]),
            structure,
        })
    }

    /// The call as the kernel is to get it. What is left when a signal has ended the wait the
    /// engine tells the program itself, so that its own interruptions leave no trace there.
    pub(crate) fn first(call: &Call) -> Call {
        let mut call = *call;
        if let Some(place) = rest_place(&call) {
            call.arguments[place] = 0;
        }
        call
    }

    /// The same, for what is left of the wait.
    pub(crate) fn again(&self, call: &Call, memory: &mut TimeLeft) -> Call {
        let mut call = RelativeWait::first(call);
        call.arguments[self.argument()] = self.put(self.left_ns(), memory);
        call
    }

    /// Which argument says how long the call waits.
    pub(crate) fn argument(&self) -> usize {
        match self.limit {
            Limit::Milliseconds(place) | Limit::Time(place) | Limit::Within(place, _) => place,
        }
    }

    /// Puts a time where the kernel will look for it. Returns what that argument is to be.
    pub(crate) fn put(&self, left_ns: u64, memory: &mut TimeLeft) -> u64 {
        memory.time = [left_ns / SECOND_NS, left_ns % SECOND_NS];
        let time = memory.time.as_ptr() as u64;
        match self.limit {
            Limit::Milliseconds(_) => left_ns.div_ceil(MILLISECOND_NS),
            Limit::Time(_) => time,
            Limit::Within(_, word) => {
                memory.structure = self.structure;
                memory.structure[word] = time;
                memory.structure.as_ptr() as u64
            }
        }
    }

    /// What is left of the wait. Asks the kernel, as the C library may not be there any more.
    pub(crate) fn left_ns(&self) -> u64 {
        let mut now = [0_u64; 2];
        // SAFETY: the kernel writes a time.
        unsafe { libc::syscall(libc::SYS_clock_gettime, self.clock, now.as_mut_ptr()) };
        let [seconds, rest] = now;
        self.end_ns.saturating_sub(seconds * SECOND_NS + rest)
    }

    /// Whether what is left can be told the program, if that wants to know it.
    pub(crate) fn can_tell_rest(&self) -> bool {
        let mut bytes = [0; 16];
        self.rest == 0 || guarded::read(self.rest, &mut bytes) && guarded::write(self.rest, &bytes)
    }

    /// A signal has ended the call. Returns what it returns. What is left is written by `write`,
    /// which says whether it could.
    pub(crate) fn ended_by_signal(&self, write: impl FnOnce(u64, &[u8; 16]) -> bool) -> i64 {
        if self.rest == 0 {
            return -i64::from(libc::EINTR);
        }
        let left = self.left_ns();
        if left == 0 {
            return 0;
        }
        let mut bytes = [0; 16];
        bytes[..8].copy_from_slice(&(left / SECOND_NS).to_le_bytes());
        bytes[8..].copy_from_slice(&(left % SECOND_NS).to_le_bytes());
        let error = match write(self.rest, &bytes) {
            true => libc::EINTR,
            false => libc::EFAULT,
        };
        -i64::from(error)
    }
}

/// Writes into the program's memory, wherever that is.
pub(crate) fn write_guarded(place: u64, bytes: &[u8; 16]) -> bool {
    guarded::write(place, bytes)
}

/// Where a call says how long it waits, if it counts from its beginning.
fn limit(call: &Call) -> Option<Limit> {
    let arguments = &call.arguments;
    let time = |place: usize| (arguments[place] != 0).then_some(Limit::Time(place));
    match call.number as i64 {
        libc::SYS_nanosleep => time(0),
        libc::SYS_clock_nanosleep if arguments[1] as i32 & libc::TIMER_ABSTIME == 0 => time(2),
        libc::SYS_poll => Some(Limit::Milliseconds(2)),
        libc::SYS_epoll_wait | libc::SYS_epoll_pwait => Some(Limit::Milliseconds(3)),
        SYS_EPOLL_PWAIT2 => time(3),
        libc::SYS_futex if arguments[1] as i32 & !libc::FUTEX_PRIVATE_FLAG == libc::FUTEX_WAIT => {
            time(3)
        }
        libc::SYS_rt_sigtimedwait => time(2),
        libc::SYS_semtimedop => time(3),
        libc::SYS_io_getevents | SYS_IO_PGETEVENTS => time(4),
        libc::SYS_io_uring_enter => queue_limit(arguments),
        _ => None,
    }
}

/// Of `io_uring_enter`.
fn queue_limit(arguments: &[u64; 6]) -> Option<Limit> {
    const WITH_STRUCTURE: u32 = 1 << 3;
    const ABSOLUTE: u32 = 1 << 5;
    const REGISTERED: u32 = 1 << 6;
    const TIME: usize = 2;
    let [_, _, _, flags, structure, size] = *arguments;
    let is_relative = flags as u32 & (WITH_STRUCTURE | ABSOLUTE | REGISTERED) == WITH_STRUCTURE;
    let fits = size == 8 * STRUCTURE_WORDS as u64 && structure != 0;
    (is_relative && fits).then_some(Limit::Within(4, TIME))
}

/// Which argument says where the rest of the time is to be written.
fn rest_place(call: &Call) -> Option<usize> {
    match call.number as i64 {
        libc::SYS_nanosleep => Some(1),
        libc::SYS_clock_nanosleep => Some(3),
        _ => None,
    }
}

/// The clock by which a call waits. Setting the time of day does not change how long a call waits
/// that is to wait for some time.
fn clock(call: &Call) -> i32 {
    match (call.number as i64, call.arguments[0] as i32) {
        (libc::SYS_clock_nanosleep, clock) if clock != libc::CLOCK_REALTIME => clock,
        _ => libc::CLOCK_MONOTONIC,
    }
}

fn now_ns(clock: i32) -> Option<u64> {
    let mut now = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: the kernel, or the vDSO in its place, fills the structure.
    let known = unsafe { libc::clock_gettime(clock, &raw mut now) } == 0;
    known.then(|| now.tv_sec as u64 * SECOND_NS + now.tv_nsec as u64)
}

/// A `timespec` of the program's, in nanoseconds. `None` for what is no time, and for more than
/// anybody waits.
fn read_time(place: u64) -> Option<u64> {
    let seconds = guarded::read_word(place)?;
    let rest = guarded::read_word(place.wrapping_add(8))?;
    let is_time = i64::try_from(seconds).is_ok() && rest < SECOND_NS;
    let whole = seconds.checked_mul(SECOND_NS).filter(|_| is_time)?;
    whole.checked_add(rest)
}

#[cfg(test)]
mod tests {
    use super::*;

    const TIME: [u64; 2] = [3, 500];
    const LENGTH_NS: u64 = 3_000_000_500;

    fn call(number: i64, arguments: &[(usize, u64)]) -> Call {
        let mut call = Call {
            number: number as u64,
            arguments: [0; 6],
        };
        for &(place, value) in arguments {
            call.arguments[place] = value;
        }
        call
    }

    fn time_at(argument: u64) -> [u64; 2] {
        // SAFETY: the tests lead there.
        unsafe { (argument as *const [u64; 2]).read() }
    }

    #[test]
    fn what_is_left_is_where_the_call_says_how_long_it_waits() {
        let time = TIME.as_ptr() as u64;
        for (number, place, others) in [
            (libc::SYS_nanosleep, 0, vec![]),
            (libc::SYS_clock_nanosleep, 2, vec![(0, 1)]),
            (SYS_EPOLL_PWAIT2, 3, vec![]),
            (libc::SYS_futex, 3, vec![(1, 128)]),
            (libc::SYS_rt_sigtimedwait, 2, vec![]),
            (libc::SYS_semtimedop, 3, vec![]),
            (libc::SYS_io_getevents, 4, vec![]),
            (SYS_IO_PGETEVENTS, 4, vec![]),
        ] {
            let call = call(number, &[vec![(place, time)], others].concat());
            let wait = RelativeWait::begin(&call).expect("it waits");
            let mut memory = TimeLeft::default();
            let again = wait.again(&call, &mut memory);
            let [seconds, rest] = time_at(again.arguments[place]);
            let left = seconds * SECOND_NS + rest;
            assert!(left <= LENGTH_NS && left > LENGTH_NS / 2, "{number}");
            assert_eq!(wait.argument(), place, "{number}");
        }
    }

    #[test]
    fn milliseconds_are_rounded_up() {
        for (number, place) in [
            (libc::SYS_poll, 2),
            (libc::SYS_epoll_wait, 3),
            (libc::SYS_epoll_pwait, 3),
        ] {
            let call = call(number, &[(place, 7000)]);
            let wait = RelativeWait::begin(&call).expect("it waits");
            let mut memory = TimeLeft::default();
            for (left, argument) in [(1, 1), (2_000_000, 2), (2_000_001, 3), (0, 0)] {
                assert_eq!(wait.put(left, &mut memory), argument, "{number}");
            }
        }
    }

    #[test]
    fn a_structure_leads_to_what_is_left() {
        let structure = [5, 6, TIME.as_ptr() as u64];
        let place = structure.as_ptr() as u64;
        let waits = |flags: u64| {
            let call = call(libc::SYS_io_uring_enter, &[(3, flags), (4, place), (5, 24)]);
            RelativeWait::begin(&call)
        };
        assert_eq!(waits(1), None);
        assert_eq!(waits(8 | 32), None);
        assert_eq!(waits(8 | 64), None);
        let wait = waits(1 | 8).expect("it waits");
        let mut memory = TimeLeft::default();
        let at = wait.put(2 * SECOND_NS + 1, &mut memory);
        // SAFETY: `put` has led there.
        let [first, second, time] = unsafe { (at as *const [u64; 3]).read() };
        assert_eq!((first, second, time_at(time)), (5, 6, [2, 1]));
    }

    #[test]
    fn other_calls_have_no_such_limit() {
        let time = TIME.as_ptr() as u64;
        let never = [0_u64; 2];
        let wrong = [1, SECOND_NS];
        for call in [
            call(libc::SYS_clock_nanosleep, &[(1, 1), (2, time)]),
            call(libc::SYS_futex, &[(1, 9), (3, time)]),
            call(libc::SYS_futex, &[(1, 256), (3, time)]),
            call(libc::SYS_mq_timedreceive, &[(4, time)]),
            call(libc::SYS_ppoll, &[(2, time)]),
            call(libc::SYS_poll, &[(2, u64::from(u32::MAX))]),
            call(libc::SYS_poll, &[]),
            call(libc::SYS_nanosleep, &[]),
            call(libc::SYS_nanosleep, &[(0, never.as_ptr() as u64)]),
            call(libc::SYS_nanosleep, &[(0, wrong.as_ptr() as u64)]),
            call(libc::SYS_read, &[(2, time)]),
        ] {
            assert_eq!(RelativeWait::begin(&call), None, "{call:?}");
        }
    }

    #[test]
    fn the_rest_is_told_when_a_signal_has_ended_the_call() {
        let mut rest = [0_u64; 2];
        let arguments = [(0, TIME.as_ptr() as u64), (1, rest.as_mut_ptr() as u64)];
        let call = call(libc::SYS_nanosleep, &arguments);
        let wait = RelativeWait::begin(&call).expect("it waits");
        assert_eq!(RelativeWait::first(&call).arguments[1], 0);
        assert_eq!(wait.ended_by_signal(write_guarded), -i64::from(libc::EINTR));
        // The kernel and the engine write behind the compiler's back.
        let [seconds, _] = time_at(rest.as_ptr() as u64);
        assert!((1..=3).contains(&seconds));
        let over = RelativeWait { end_ns: 0, ..wait };
        assert_eq!(over.ended_by_signal(write_guarded), 0);
    }
}
