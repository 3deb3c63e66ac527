//! Limits are judged on made-up measurements on both sides of each limit.

use super::*;
use crate::bench::process::Usage;
use crate::bench::results::{ColumnResult, FEWEST_ROUNDS};
use crate::bench::trace_file::TraceFacts;
use crate::bench::variant::Variant;

/// A program that takes a second natively and `cpu_s` in each mode, in megabytes of memory
/// as given.
fn program(name: &'static str, sharing: Sharing, modes: &[(Mode, f64, u64)]) -> ProgramResult {
    let column = |(mode, cpu_s, megabytes): (Mode, f64, u64)| {
        let mut column = ColumnResult::new(Variant {
            mode,
            observer: vec!["/u".into()],
            is_other_build: false,
        });
        let largest_process_bytes = megabytes * 1_000_000;
        for _ in 0..FEWEST_ROUNDS {
            column.add_run(Usage {
                cpu_s,
                wall_s: cpu_s,
                largest_process_bytes,
            });
        }
        column
    };
    let columns = [(Mode::Native, 1.0, 10)]
        .iter()
        .chain(modes)
        .copied()
        .map(column)
        .collect();
    let mut result = ProgramResult {
        name,
        sharing,
        run_limit: None,
        skipped: None,
        columns,
    };
    result.derive_ratios();
    result
}

fn state(programs: &[ProgramResult], limit: &str) -> State {
    let verdicts = judge(programs);
    let found: Vec<&Verdict> = verdicts
        .iter()
        .filter(|verdict| verdict.limit.starts_with(limit))
        .collect();
    assert_eq!(found.len(), 1, "{limit} in {verdicts:#?}");
    found[0].state
}

#[test]
fn mean_and_worst_are_judged_apart() {
    let run = |name, ratio| program(name, Sharing::Alone, &[(Mode::Run, ratio, 10)]);
    let one_slow = [run("a", 1.0), run("b", 1.0), run("c", 1.0), run("d", 2.1)];
    assert_eq!(state(&one_slow, "run: mean"), State::Met);
    assert_eq!(state(&one_slow, "run: worst"), State::Missed);
    let all_slow = [run("a", 1.3), run("b", 1.3)];
    assert_eq!(state(&all_slow, "run: mean"), State::Missed);
    assert_eq!(state(&all_slow, "run: worst"), State::Met);
    assert_eq!(state(&[], "run: worst"), State::NotMeasured);
}

#[test]
fn line_atomic_is_judged_against_ticket_within_a_class() {
    let both = |sharing, ratio| {
        let modes = [
            (Mode::TicketDiscard, 2.0, 10),
            (Mode::LineAtomicDiscard, 2.0 * ratio, 10),
        ];
        program("p", sharing, &modes)
    };
    let programs = [
        both(Sharing::Little, 1.5),
        both(Sharing::Much, 1.5),
        both(Sharing::Alone, 9.0),
    ];
    assert_eq!(
        state(
            &programs,
            "line-atomic over ticket, discarded, threads share little"
        ),
        State::Missed
    );
    assert_eq!(
        state(
            &programs,
            "line-atomic over ticket, discarded, threads share much"
        ),
        State::Met
    );
    assert_eq!(
        state(
            &programs,
            "line-atomic over ticket, written, threads share much"
        ),
        State::NotMeasured
    );
}

#[test]
fn size_and_reading_speed() {
    let traced = |bytes, speed| {
        let mut program = program("p", Sharing::Alone, &[(Mode::TicketFile, 2.0, 10)]);
        program.columns[1].trace = Some(TraceFacts {
            accesses: 100,
            bytes,
            accesses_read_per_cpu_s: Some(speed),
            ..TraceFacts::default()
        });
        [program]
    };
    assert_eq!(state(&traced(80, 60e6), "bytes an access"), State::Met);
    assert_eq!(state(&traced(81, 60e6), "bytes an access"), State::Missed);
    assert_eq!(state(&traced(80, 60e6), "million accesses"), State::Met);
    assert_eq!(state(&traced(80, 49e6), "million accesses"), State::Missed);
}

#[test]
fn memory_may_grow_with_the_code() {
    let using = |megabytes, code: Option<u64>| {
        let mut program = program("p", Sharing::Alone, &[(Mode::TicketFile, 2.0, megabytes)]);
        program.columns[1].trace = Some(TraceFacts {
            translated_code_bytes: code,
            ..TraceFacts::default()
        });
        [program]
    };
    assert_eq!(state(&using(70, None), "memory"), State::Met);
    assert_eq!(state(&using(80, None), "memory"), State::NotMeasured);
    assert_eq!(state(&using(80, Some(1_000_000)), "memory"), State::Met);
    assert_eq!(state(&using(90, Some(1_000_000)), "memory"), State::Missed);
}

#[test]
fn wrapping_is_judged_over_nothing_inserted() {
    let malloc_count = Mode::Tool(Mode::TOOLS[7]);
    let limit = "tool malloc-count over nothing inserted";
    let both = |nothing, counted| {
        let modes = [
            (Mode::NOTHING_INSERTED, nothing, 10),
            (malloc_count, counted, 10),
        ];
        [program("a", Sharing::Alone, &modes)]
    };
    assert_eq!(state(&both(2.0, 2.08), limit), State::Met);
    assert_eq!(state(&both(2.0, 2.12), limit), State::Missed);
    assert_eq!(state(&both(1.0, 1.06), limit), State::Missed);
    let alone = [program("a", Sharing::Alone, &[(malloc_count, 1.0, 10)])];
    assert_eq!(state(&alone, limit), State::NotMeasured);
}

#[test]
fn applications_have_limits_of_their_own() {
    let application = |ratio| ProgramResult {
        run_limit: Some(1.5),
        ..program("a", Sharing::Alone, &[(Mode::Run, ratio, 10)])
    };
    let name = "run, application a <= 1.5";
    assert_eq!(state(&[application(1.4)], name), State::Met);
    assert_eq!(state(&[application(1.6)], name), State::Missed);
    assert_eq!(state(&[application(9.0)], "run: worst"), State::NotMeasured);
    let mut unsteady = application(1.2);
    for column in &mut unsteady.columns {
        let factor = if column.variant.mode == Mode::Run {
            1.4
        } else {
            1.0
        };
        column.add_run(Usage {
            cpu_s: factor,
            wall_s: factor,
            largest_process_bytes: 10_000_000,
        });
    }
    unsteady.derive_ratios();
    assert_eq!(state(&[unsteady], name), State::Unsteady);
    let missing = ProgramResult {
        skipped: Some("not installed".to_owned()),
        ..application(1.4)
    };
    let verdicts = judge(&[missing]);
    assert!(verdicts.iter().all(|verdict| verdict.limit != name));
}
