//! Limits are judged on made-up measurements on both sides of each limit.

use super::*;
use crate::bench::catalogue;
use crate::bench::figure::FEWEST_ROUNDS;
use crate::bench::process::Usage;
use crate::bench::results::ColumnResult;
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
        columns,
        ..ProgramResult::bare(name, sharing)
    };
    result.derive_ratios();
    result
}

fn found(programs: &[ProgramResult], limit: &str, small: bool) -> Verdict {
    let verdicts = judge(programs, small);
    let mut found = verdicts
        .iter()
        .filter(|verdict| verdict.limit.starts_with(limit));
    match (found.next(), found.next()) {
        (Some(one), None) => one.clone(),
        _ => panic!("{limit} in {verdicts:#?}"),
    }
}

fn state(programs: &[ProgramResult], limit: &str) -> State {
    found(programs, limit, false).state
}

/// Lets the rounds of a mode lie apart by as many tenths, above the others.
fn shake(program: &mut ProgramResult, mode: Mode, tenths: f64) {
    let mut columns = program.columns.iter_mut();
    let column = columns
        .find(|column| column.variant.mode == mode)
        .expect("the mode was measured");
    column.cpu_s[0] *= 1.0 + tenths / 10.0;
    program.derive_ratios();
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
fn each_limit_has_its_border() {
    let one = |mode, ratio| [program("p", Sharing::Alone, &[(mode, ratio, 10)])];
    for (mode, limit, border) in [
        (Mode::Run, "run: mean", 1.25),
        (
            Mode::TicketDiscard,
            "trace discarded, ticket order: mean",
            1.8,
        ),
        (Mode::TicketFile, "trace written, ticket order: mean", 6.0),
        (Mode::TicketFile, "trace written, ticket order: worst", 12.0),
        (
            Mode::Tool(Mode::TOOLS[0]),
            "tool instruction-count: mean",
            1.25,
        ),
        (Mode::Tool(Mode::TOOLS[4]), "tool address-sum: mean", 2.0),
    ] {
        assert_eq!(
            state(&one(mode, border - 0.01), limit),
            State::Met,
            "{limit}"
        );
        assert_eq!(
            state(&one(mode, border + 0.01), limit),
            State::Missed,
            "{limit}"
        );
    }
}

#[test]
fn no_program_may_be_above_the_limit_on_the_worst() {
    let written = |name, ratio| program(name, Sharing::Alone, &[(Mode::TicketFile, ratio, 10)]);
    let programs = [written("a", 1.0), written("b", 1.0), written("c", 12.5)];
    assert_eq!(
        state(&programs, "trace written, ticket order: mean"),
        State::Met
    );
    assert_eq!(
        state(&programs, "trace written, ticket order: worst"),
        State::Missed
    );
}

#[test]
fn interpreters_have_a_limit_of_their_own() {
    let counted = |name, ratio| {
        let modes = [(Mode::Tool(Mode::TOOLS[0]), ratio, 10)];
        program(name, Sharing::Alone, &modes)
    };
    let limit = "tool instruction-count: worst interpreter";
    assert_eq!(state(&[counted("perl", 1.69)], limit), State::Met);
    assert_eq!(state(&[counted("perl", 1.71)], limit), State::Missed);
    let compiled = [counted("perl", 1.0), counted("gzip", 9.0)];
    assert_eq!(state(&compiled, limit), State::Met);
    assert_eq!(state(&[counted("gzip", 1.0)], limit), State::NotMeasured);
}

#[test]
fn limits_name_programs_that_there_are() {
    let is_there = |name: &str| catalogue::all().any(|program| program.name == name);
    for name in INTERPRETERS {
        assert!(is_there(name), "{name}");
    }
    assert!(is_there("conjugate_gradient") && is_there("embarrassingly_parallel"));
}

#[test]
fn line_atomic_is_judged_against_ticket_within_a_class() {
    let both = |name, sharing, ratio| {
        let modes = [
            (Mode::TicketDiscard, 2.0, 10),
            (Mode::LineAtomicDiscard, 2.0 * ratio, 10),
        ];
        program(name, sharing, &modes)
    };
    let programs = |little| {
        [
            both("a", Sharing::Little, little),
            both("b", Sharing::Much, 1.5),
            both("c", Sharing::Alone, 9.0),
        ]
    };
    let little = "line-atomic over ticket, discarded, threads share little";
    assert_eq!(state(&programs(1.29), little), State::Met);
    assert_eq!(state(&programs(1.31), little), State::Missed);
    let much = |what| format!("line-atomic over ticket, {what}, threads share much");
    assert_eq!(state(&programs(1.5), &much("discarded")), State::Met);
    assert_eq!(state(&programs(1.5), &much("written")), State::NotMeasured);

    let only = "line-atomic over ticket, discarded, conjugate_gradient";
    let gradient = |ratio| [both("conjugate_gradient", Sharing::Little, ratio)];
    assert_eq!(state(&gradient(2.19), only), State::Met);
    assert_eq!(state(&gradient(2.21), only), State::Missed);
    assert_eq!(state(&programs(1.0), only), State::NotMeasured);
}

#[test]
fn what_is_left_out_of_a_mean_is_said() {
    let run = |name, ratio| program(name, Sharing::Alone, &[(Mode::Run, ratio, 10)]);
    let mut few = run("few", 9.0);
    for column in &mut few.columns {
        column.cpu_s.truncate(3);
    }
    few.derive_ratios();
    let mut apart = run("apart", 1.0);
    shake(&mut apart, Mode::Run, 2.0);
    let mut failed = run("failed", 1.0);
    failed.columns[1].cpu_s.clear();
    failed.columns[1].problems.push("ended".to_owned());
    failed.derive_ratios();
    let skipped = ProgramResult {
        skipped: Some("not installed".to_owned()),
        ..ProgramResult::bare("skipped", Sharing::Alone)
    };
    let programs = [run("a", 1.2), few, apart, failed, skipped];
    let verdict = found(&programs, "run: mean", false);
    assert_eq!(verdict.state, State::Met);
    assert_eq!(
        verdict.measured,
        "mean 1.200 of 1 of 5 programs, least 1.200 (a), greatest 1.200 (a); left out: \
         few (3 rounds), apart (rounds differ by 20 %), failed (failed as run), \
         skipped (skipped)"
    );
    // Three rounds are above the limit on each, so that it cannot be said to hold.
    assert_eq!(state(&programs, "run: worst"), State::Unsteady);
    // Its rounds agree no more than to a fifth, but all of them are below.
    assert_eq!(state(&programs[2..3], "run: worst"), State::Unsteady);
    let both = [programs[0].clone(), programs[2].clone()];
    assert_eq!(state(&both, "run: worst"), State::Met);
}

#[test]
fn small_sizes_judge_nothing() {
    let one = [program("p", Sharing::Alone, &[(Mode::Run, 9.0, 10)])];
    assert_eq!(found(&one, "run: mean", false).state, State::Missed);
    let small = found(&one, "run: mean", true);
    assert_eq!(small.state, State::NotMeasured);
    assert!(small.measured.starts_with("mean 9.000"), "{small:?}");
}

#[test]
fn size_and_reading_speed() {
    let facts = |bytes, read_cpu_s| TraceFacts {
        accesses: 100_000_000,
        bytes,
        read_cpu_s,
        ..TraceFacts::default()
    };
    let traced = |bytes, speed: f64| {
        let mut program = program("p", Sharing::Alone, &[(Mode::TicketFile, 2.0, 10)]);
        program.columns[1].traces = vec![facts(bytes, 1e8 / speed); FEWEST_ROUNDS];
        [program]
    };
    let (size, speed) = ("bytes an access", "million accesses");
    assert_eq!(state(&traced(80_000_000, 60e6), size), State::Met);
    assert_eq!(state(&traced(81_000_000, 60e6), size), State::Missed);
    assert_eq!(state(&traced(80_000_000, 51e6), speed), State::Met);
    assert_eq!(state(&traced(80_000_000, 49e6), speed), State::Missed);
    let mut few = traced(80_000_000, 60e6);
    few[0].columns[1].traces.pop();
    assert_eq!(state(&few, size), State::Unsteady);
    let mut apart = traced(80_000_000, 60e6);
    apart[0].columns[1].traces[0] = facts(80_000_000, 9.0);
    assert_eq!(state(&apart, size), State::Met);
    assert_eq!(state(&apart, speed), State::Unsteady);
}

#[test]
fn memory_may_grow_with_the_code() {
    let using = |megabytes, code: Option<u64>| {
        let mut program = program("p", Sharing::Alone, &[(Mode::TicketFile, 2.0, megabytes)]);
        program.columns[1].traces.push(TraceFacts {
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
    let verdicts = judge(&[missing], false);
    assert!(verdicts.iter().all(|verdict| verdict.limit != name));
}
