use super::*;
use crate::sampling::Window;

const SAMPLING: Sampling = Sampling {
    off_cpu: false,
    events: Vec::new(),
    regions: false,
    frequency_hz: 1000,
    stack_bytes: 512,
    window: Window {
        delay: std::time::Duration::ZERO,
        duration: None,
    },
};

/// What the library writes for a sample without a stack, of so many periods.
fn sample(pid: u32, periods: u64) -> Vec<u8> {
    let length = 8 * (8 + 17);
    let mut words = vec![9 | 2 << 32 | (length as u64) << 48, 0x1000];
    words.extend([
        u64::from(pid) | u64::from(pid) << 32,
        77,
        periods * 1_000_000,
        2,
    ]);
    words.extend([0; 17]);
    words.extend([0, 0]);
    words.truncate(length / 8);
    words.iter().flat_map(|word| word.to_ne_bytes()).collect()
}

/// A slot as a thread of a process leaves it in a stage.
fn fill(timers: &Timers, number: usize, pid: u32, stage: u32, (expirations, lost): (u64, u64)) {
    let ring = timers.file.ring(number).unwrap();
    ring.set(slot::TID, pid.into());
    ring.set(slot::GENERATION, 5);
    ring.set(slot::EXPIRATIONS, expirations);
    ring.set(slot::LOST, lost);
    ring.set(slot::BEGAN_NS, 1000);
    ring.set(slot::LATEST_NS, 1000 + expirations * 1_000_000 + 5);
    let mut position = 0;
    for periods in [3, 4] {
        let bytes = sample(pid, periods);
        ring.write(position, &bytes);
        position += bytes.len();
    }
    ring.set(slot::HEAD, position as u64);
    let state = state::of(pid, stage);
    timers.file.state(number).store(state, Ordering::Release);
}

fn drained(timers: &mut Timers) -> (usize, u64) {
    let (mut samples, mut lost) = (0, 0);
    timers.drain(&mut |read| match read.unwrap().what {
        What::Sampled(_) => samples += 1,
        What::Lost(count) => lost += count,
        _ => {}
    });
    (samples, lost)
}

/// What expired is sampled, found no room, or is told to be missing.
#[test]
fn what_no_sample_stands_for_is_lost() {
    let mut timers = Timers::new(&SAMPLING, libc::CLOCK_MONOTONIC).unwrap();
    let own = std::process::id();
    fill(&timers, 0, own, state::ENDED, (7, 0));
    fill(&timers, 9, own, state::ENDED, (12, 3));
    assert_eq!(drained(&mut timers), (4, 3 + 2));
    let counted = timers.finish(&mut |_| panic!("all was taken out")).unwrap();
    let expected = Counted {
        expirations: 19,
        sampled: 14,
        without_room: 3,
        used_ns: 19_000_010,
        threads_left_out: 0,
    };
    assert_eq!(counted, expected);
    // The slots are free for others.
    assert_eq!(timers.file.state(9).load(Ordering::Acquire), state::FREE);
}

/// What a program writes over its counts is no danger either.
#[test]
fn counts_that_a_program_has_written_over_are_bounded() {
    let mut timers = Timers::new(&SAMPLING, libc::CLOCK_MONOTONIC).unwrap();
    for place in [header::WITHOUT_SLOT, header::WITHOUT_TIMER] {
        timers.file.word(place).store(u64::MAX, Ordering::Release);
    }
    let counted = timers.finish(&mut |_| {}).unwrap();
    assert_eq!(counted.threads_left_out, u64::MAX);
}

/// Only what nobody writes to any more is given back: of an ended thread, of a process that
/// executes another program, of a thread that is not there.
#[test]
fn slots_of_what_has_gone_are_given_back() {
    let mut timers = Timers::new(&SAMPLING, libc::CLOCK_MONOTONIC).unwrap();
    let own = std::process::id();
    // No process has a number so high.
    let nobody = (1 << 22) - 1;
    fill(&timers, 0, own, state::USED, (7, 0));
    fill(&timers, 1, nobody, state::USED, (7, 0));
    let free = |timers: &Timers, number| timers.file.state(number).load(Ordering::Acquire) == 0;
    assert_eq!(drained(&mut timers), (4, 0));
    assert!(!free(&timers, 0) && !free(&timers, 1));
    timers.look_after(&mut |_| {});
    assert!(!free(&timers, 0) && free(&timers, 1));
    // The same process, later.
    fill(&timers, 2, own, state::USED, (7, 0));
    timers.file.ring(2).unwrap().set(slot::GENERATION, 6);
    assert_eq!(drained(&mut timers), (2, 0));
    assert!(free(&timers, 0) && !free(&timers, 2));
}

/// A program can write anything into memory that it shares.
#[test]
fn a_ring_that_a_program_has_written_over_is_no_danger() {
    let mut timers = Timers::new(&SAMPLING, libc::CLOCK_MONOTONIC).unwrap();
    let own = std::process::id();
    fill(&timers, 0, own, state::USED, (7, 0));
    timers.file.ring(0).unwrap().set(slot::HEAD, u64::MAX);
    assert_eq!(drained(&mut timers), (0, 0));
    let ring = timers.file.ring(0).unwrap();
    ring.write(0, &[0xff; 4096]);
    ring.set(slot::TAIL, 0);
    ring.set(slot::HEAD, 4096);
    let mut damaged = 0;
    timers.drain(&mut |read| damaged += u32::from(read.is_err()));
    timers.file.state(3).store(u32::MAX, Ordering::Release);
    timers.drain(&mut |_| {});
}
