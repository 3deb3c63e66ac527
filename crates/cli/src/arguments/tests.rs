//! What is typed, and what it comes to.

use clap::CommandFactory;
use unspool_events::Order;

use super::*;
use crate::failure::Failure;
use crate::plan::{
    Children, Destination, ExportFormat, ExportPlan, Input, LivePlan, MergePlan, RunPlan,
    TraceDestination, TracePlan,
};

fn parse(line: &str) -> Result<Command, clap::Error> {
    Arguments::try_parse_from(std::iter::once("unspool").chain(line.split_whitespace()))
        .map(|arguments| arguments.command)
}

fn run_plan(line: &str) -> RunPlan {
    match parse(line) {
        Ok(Command::Run(typed)) => typed.try_into().unwrap(),
        other => panic!("{line}: {other:?}"),
    }
}

fn trace_plan(line: &str) -> Result<TracePlan, Failure> {
    match parse(line) {
        Ok(Command::Trace(typed)) => typed.try_into(),
        other => panic!("{line}: {other:?}"),
    }
}

fn export_plan(line: &str) -> Result<ExportPlan, Failure> {
    match parse(line) {
        Ok(Command::Export(typed)) => typed.try_into(),
        other => panic!("{line}: {other:?}"),
    }
}

#[test]
fn the_definition_has_no_contradictions() {
    Arguments::command().debug_assert();
}

#[test]
fn options_end_at_the_program() {
    for (line, program, arguments) in [
        ("run ls", "ls", ""),
        ("run ls -l --help --version", "ls", "-l --help --version"),
        ("run -- ls -l -- x", "ls", "-l -- x"),
        ("run -- -odd --name", "-odd", "--name"),
        ("run ls -- -l", "ls", "-- -l"),
    ] {
        let plan = run_plan(line);
        assert_eq!(plan.observed.program, program, "{line}");
        let expected: Vec<&str> = arguments.split_whitespace().collect();
        assert_eq!(plan.observed.arguments, expected, "{line}");
    }
    let plan = trace_plan("trace --roi sort --roi -o x --order none").unwrap();
    assert_eq!(
        plan.observed.arguments,
        ["--roi", "-o", "x", "--order", "none"]
    );
    assert_eq!((plan.region_only, plan.order), (true, Order::LineAtomic));
    assert_eq!(
        plan.destination,
        TraceDestination::File("sort.unspool".into())
    );
}

#[test]
fn mistakes_are_refused() {
    for line in [
        "run",
        "run --unknown ls",
        "run --code-cache 8X ls",
        "run --code-cache 99999999999G ls",
        "trace",
        "trace --order",
        "trace --order sideways ls",
        "trace --discard -o x ls",
        "trace --granule many ls",
        "trace --locks -1 ls",
        "export x",
        "export x --format tsv --without-time",
        "export x --format xml",
        "replay-increments x",
        "replay-increments x --address 0xzz",
        "info",
        "verify x y",
        "merge x y",
    ] {
        assert!(parse(line).is_err(), "{line}");
    }
    for line in [
        "trace --granule 63 ls",
        "trace --granule 0 ls",
        "trace --granule 8192 ls",
        "trace --locks 0 ls",
        "trace --code-cache 1023K ls",
        "trace --code-cache 513M ls",
        "trace --buffer 0 ls",
        "trace --max-skew 0 ls",
        "trace --max-skew 9 --order none ls",
        "trace --functions /no/such/file ls",
        "trace ..",
    ] {
        assert!(trace_plan(line).is_err(), "{line}");
    }
    for line in [
        "export x --format csv --ordered --without-time",
        "export x --format parquet -o -",
    ] {
        assert!(export_plan(line).is_err(), "{line}");
    }
}

#[test]
fn options_and_function_lists_become_the_plan() {
    let folder = tempfile::tempdir().unwrap();
    let names = folder.path().join("names");
    std::fs::write(&names, "# queue\n  push \n\nqueue::pop\n").unwrap();
    let plan = trace_plan(&format!(
        "trace --failed-cas --registered-only --verify --instructions --max-skew 9 --children leave --functions {} ls",
        names.display()
    ))
    .unwrap();
    assert_eq!(plan.functions, ["push", "queue::pop"]);
    assert!(plan.failed_cas && plan.registered_only && !plan.region_only);
    assert!(plan.verify && plan.instructions);
    assert_eq!(plan.max_skew, Some(9));
    assert_eq!(plan.children, Children::Leave);
    let plan = run_plan("run --children leave --code-cache 2M ls");
    assert_eq!((plan.children, plan.code_cache), (Children::Leave, 2 << 20));
    assert!(trace_plan("trace ls").unwrap().functions.is_empty());
}

#[test]
fn the_output_is_named_after_the_program() {
    for (line, destination) in [
        (
            "trace /usr/bin/sort",
            TraceDestination::File("sort.unspool".into()),
        ),
        (
            "trace -o /tmp/t sort",
            TraceDestination::File("/tmp/t".into()),
        ),
        ("trace --discard sort", TraceDestination::Discard),
    ] {
        assert_eq!(trace_plan(line).unwrap().destination, destination, "{line}");
    }
}

#[test]
fn exports_and_merges_know_where_they_go() {
    let plan = export_plan("export x.unspool --format parquet").unwrap();
    assert_eq!(
        plan.format,
        ExportFormat::Parquet {
            prefix: "x.unspool".into()
        }
    );
    let plan = export_plan("export x --format tsv --ordered --without-time -o y").unwrap();
    assert_eq!(plan.format, ExportFormat::Tsv { times: false });
    assert_eq!(
        (plan.ordered, plan.destination),
        (true, Destination::File("y".into()))
    );
    for (line, input) in [
        ("merge", Input::StandardInput),
        ("merge -", Input::StandardInput),
        ("merge --keep-time pipe", Input::File("pipe".into())),
    ] {
        let Ok(Command::Merge(typed)) = parse(line) else {
            panic!("{line}")
        };
        assert_eq!(MergePlan::from(typed).input, input, "{line}");
    }
}

#[test]
fn addresses_are_decimal_or_hexadecimal() {
    for (text, address) in [("16", 16), ("0x10", 16), ("0XfF", 255)] {
        let line = format!("replay-increments x --address {text}");
        let Ok(Command::ReplayIncrements(typed)) = parse(&line) else {
            panic!("{line}")
        };
        assert_eq!(typed.address, address, "{line}");
    }
}

#[test]
fn an_analysis_takes_a_trace_or_a_program() {
    let verify = |line: &str| match parse(line) {
        Ok(Command::Verify(typed)) => Some((typed.input, LivePlan::new(&typed.live).unwrap())),
        _ => None,
    };
    let (input, live) = verify("verify x.unspool --follow").unwrap();
    assert_eq!((input, live), (Some("x.unspool".into()), None));
    let (input, live) = verify("verify --order ticket -- ls -l -- x").unwrap();
    let live = live.unwrap();
    assert_eq!((input, live.order), (None, Order::Ticket));
    assert_eq!(live.observed.program, "ls");
    assert_eq!(live.observed.arguments, ["-l", "--", "x"]);
    for line in [
        "verify",
        "verify x -- ls",
        "verify --follow -- ls",
        "verify --order none x",
        "verify -o answer x",
        "replay-increments --address 1",
    ] {
        assert!(parse(line).is_err(), "{line}");
    }
}
