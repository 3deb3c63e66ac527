//! `fuzz-instructions`: a campaign, or the replay of single cases.

#![forbid(unsafe_code)]

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Instant;

use anyhow::Context;
use clap::Parser;
use unspool_fuzz_instructions::campaign::{self, Plan};
use unspool_fuzz_instructions::case::Case;
use unspool_fuzz_instructions::{recorded, runner, ways};

/// Random instructions, natively and observed: both must do the same
#[derive(Debug, Parser)]
struct Arguments {
    /// The unspool under test
    #[arg(long)]
    unspool: PathBuf,
    /// How many cases to compare
    #[arg(long, default_value_t = 100_000)]
    cases: usize,
    /// What the cases follow from
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Cases in one file
    #[arg(long, default_value_t = 20_000)]
    batch: usize,
    /// Ways of observing, separated by commas; all if not given
    #[arg(long, value_delimiter = ',')]
    ways: Vec<String>,
    /// How many differences to make smaller and describe
    #[arg(long, default_value_t = 10)]
    described: usize,
    /// Replay the cases in this file, one on each line, instead of generating some
    #[arg(long)]
    replay: Option<PathBuf>,
    /// Record the cases with all values instead, and ask whether the trace explains them
    #[arg(long)]
    recorded: bool,
    /// Record the cases instead, and compare what is recorded of each first instruction
    /// (address, size and kind of its accesses) with what it should access
    #[arg(long)]
    accesses: bool,
    /// A control: falsify one result in each file of cases, which must be reported
    #[arg(long)]
    falsify: bool,
}

fn main() -> ExitCode {
    runner::run_if_called();
    match run(&Arguments::parse()) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(problem) => {
            eprintln!("error: {problem:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(arguments: &Arguments) -> anyhow::Result<bool> {
    let unspool = std::fs::canonicalize(&arguments.unspool)
        .with_context(|| format!("cannot find {}", arguments.unspool.display()))?;
    if arguments.recorded {
        let cases = campaign::cases(arguments.cases.min(arguments.batch), arguments.seed);
        let said = campaign::verify(&unspool, &cases, true)?;
        println!("{}", said.as_deref().unwrap_or("all values are explained"));
        return Ok(said.is_none());
    }
    if arguments.accesses {
        return compare_accesses(arguments, &unspool);
    }
    let named: Vec<&str> = if arguments.ways.is_empty() {
        ways::names().collect()
    } else {
        arguments.ways.iter().map(String::as_str).collect()
    };
    let ways = named
        .iter()
        .map(|name| ways::find(name, &unspool).with_context(|| format!("there is no way `{name}`")))
        .collect::<anyhow::Result<Vec<_>>>()?;
    if let Some(file) = &arguments.replay {
        return replay(file, &ways);
    }
    let plan = Plan {
        unspool,
        ways,
        cases: arguments.cases,
        batch: arguments.batch,
        seed: arguments.seed,
        described: arguments.described,
        falsify: arguments.falsify.then_some(100),
    };
    let started = Instant::now();
    let summary = campaign::run(&plan, |summary| {
        eprintln!(
            "{} cases in {} s, {} differences",
            summary.compared,
            started.elapsed().as_secs(),
            summary.differences()
        );
    })?;
    for description in &summary.descriptions {
        println!("{description}");
    }
    println!(
        "{} cases compared in {} ways ({} ended by a signal, {} kinds of instruction); left out: \
         {} endless, {} not repeatable, {} beyond their data, {} that branch nowhere; refused: {}",
        summary.compared,
        plan.ways.len(),
        summary.signalled,
        summary.codes,
        summary.endless,
        summary.unrepeatable,
        summary.foreign,
        summary.nowhere,
        summary.refused
    );
    for (way, count) in &summary.differing {
        println!("{way}: {count} differ");
    }
    Ok(summary.differences() == 0)
}

/// Compares recorded accesses. Says whether all are as they should be.
fn compare_accesses(arguments: &Arguments, unspool: &std::path::Path) -> anyhow::Result<bool> {
    let plan = recorded::Plan {
        unspool,
        cases: arguments.cases,
        batch: arguments.batch,
        seed: arguments.seed,
        falsify: arguments.falsify.then_some(recorded::Falsehood::Size),
    };
    let started = Instant::now();
    let findings = recorded::run(plan, |findings| {
        eprintln!(
            "{} cases in {} s, {} differences",
            findings.recorded,
            started.elapsed().as_secs(),
            findings.differences.len()
        );
    })?;
    for difference in findings.differences.iter().take(arguments.described) {
        println!("{difference}");
    }
    println!(
        "{} cases recorded, {} first instructions compared with {} accesses, {} differ",
        findings.recorded,
        findings.compared,
        findings.accesses,
        findings.differences.len()
    );
    Ok(findings.differences.is_empty())
}

/// Replays the cases of a file. Says whether all do the same.
fn replay(file: &std::path::Path, ways: &[ways::Way]) -> anyhow::Result<bool> {
    let text = std::fs::read_to_string(file)?;
    let cases = Case::parse_all(&text).map_err(anyhow::Error::msg)?;
    let descriptions = campaign::replay(&cases, ways)?;
    for description in &descriptions {
        println!("{description}");
    }
    println!("{} cases replayed in {} ways", cases.len(), ways.len());
    Ok(descriptions.is_empty())
}
