//! Many cases, natively and in every way of observing.

use std::collections::{BTreeMap, HashSet};
use std::path::{Path, PathBuf};

use anyhow::Context;

use crate::case::Case;
use crate::compare::{Part, differences, ended, observed_differences};
use crate::execute::{Batch, Executor, Results};
use crate::generate::Generator;
use crate::left_out::{branches_nowhere, is_foreign};
use crate::minimise;
use crate::place::decode;
use crate::record::{CaseRecord, DIED, HUNG, Outcome, REFUSED, SIGNALLED};
use crate::report;
use crate::ways::Way;

/// What to do.
#[derive(Debug, Clone)]
pub struct Plan {
    /// The `unspool` under test.
    pub unspool: PathBuf,
    /// The ways of running that are compared with the native one.
    pub ways: Vec<Way>,
    /// How many cases, at least.
    pub cases: usize,
    /// How many of them in one file.
    pub batch: usize,
    /// What the cases follow from.
    pub seed: u64,
    /// How many differences are made smaller and described.
    pub described: usize,
    /// A control: what is observed is changed before it is compared, in the case of this
    /// number of every batch.
    pub falsify: Option<usize>,
}

/// What came of it.
#[derive(Debug, Default)]
pub struct Summary {
    /// Cases that were compared, each in all ways.
    pub compared: usize,
    /// Of these, cases that a signal ended.
    pub signalled: usize,
    /// Cases that do not end.
    pub endless: usize,
    /// Cases that do not do the same twice even natively.
    pub unrepeatable: usize,
    /// Cases that name memory which the engine occupies.
    pub foreign: usize,
    /// Cases that branch to an address that no address can be.
    pub nowhere: usize,
    /// Cases that `unspool` refused to run, with a message that says so, in some way.
    pub refused: usize,
    /// Codes of instructions that were executed.
    pub codes: usize,
    /// Cases that differ, by way.
    pub differing: BTreeMap<String, usize>,
    /// Descriptions of the first of them, one for each way and group of instructions.
    pub descriptions: Vec<String>,
    minimised: usize,
    seen: HashSet<(String, String)>,
}

impl Summary {
    /// How many differences there are.
    #[must_use]
    pub fn differences(&self) -> usize {
        self.differing.values().sum()
    }
}

/// Runs a campaign. `progress` is called after each file.
///
/// # Errors
/// If a runner cannot be started.
pub fn run(plan: &Plan, mut progress: impl FnMut(&Summary)) -> anyhow::Result<Summary> {
    let executor = Executor::new()?;
    let mut generator = Generator::new(plan.seed);
    let mut summary = Summary::default();
    let mut file = 0;
    while summary.compared < plan.cases {
        let wanted = plan
            .batch
            .min(plan.cases - summary.compared + plan.batch / 8);
        // The first file is small: it teaches which instructions this processor lacks.
        let wanted = if file < 4 { wanted.min(3000) } else { wanted };
        let cases: Vec<Case> = (0..wanted).map(|_| generator.next_case()).collect();
        // Code that may be written is translated with more care.
        run_batch(
            plan,
            &executor,
            &cases,
            file % 4 == 3,
            &mut generator,
            &mut summary,
        )?;
        summary.codes = generator.executed_codes();
        progress(&summary);
        file += 1;
    }
    Ok(summary)
}

/// Cases that follow from a seed.
#[must_use]
pub fn cases(count: usize, seed: u64) -> Vec<Case> {
    let mut generator = Generator::new(seed);
    (0..count).map(|_| generator.next_case()).collect()
}

/// Records cases, and asks whether the trace explains every value that they, and the runner
/// behind them, read: a write that was recorded wrongly, or not at all, shows. `None`: all is
/// explained. With `whole`, cases are left out of which it is known that a fault ends an
/// instruction of theirs whose first writes are not recorded.
///
/// # Errors
/// If a runner cannot be started.
pub fn verify(unspool: &Path, cases: &[Case], whole: bool) -> anyhow::Result<Option<String>> {
    let executor = Executor::new()?;
    let mut batch = executor.batch(cases, false)?;
    batch.separate()?;
    let native = run_natively(&mut batch, &mut Summary::default())?;
    let left_out: Vec<usize> = (0..native.len())
        .filter(|&index| whole && is_recorded_in_part(batch.record(index), &native[index]))
        .collect();
    batch.leave_out(left_out)?;
    batch.verify_recorded(unspool)
}

/// Whether the case may end by a fault inside `enter`, with frames to copy: what it pushed
/// before is not recorded.
fn is_recorded_in_part(record: &CaseRecord, outcome: &Outcome) -> bool {
    const ENTER: u8 = 0xc8;
    outcome.status == SIGNALLED && record.code[..record.length as usize].contains(&ENTER)
}

/// Runs given cases, with code that may and that may not be written, and describes those that
/// differ.
///
/// # Errors
/// If a runner cannot be started.
pub fn replay(cases: &[Case], ways: &[Way]) -> anyhow::Result<Vec<String>> {
    let executor = Executor::new()?;
    let mut descriptions = Vec::new();
    for way in ways {
        for writable in [false, true] {
            for index in minimise::differing(&executor, cases, way, writable)? {
                let case = &cases[index];
                let text = report::describe(&executor, case, way, writable, &[], None)?;
                descriptions.push(text);
            }
        }
    }
    Ok(descriptions)
}

fn run_batch(
    plan: &Plan,
    executor: &Executor,
    cases: &[Case],
    writable: bool,
    generator: &mut Generator,
    summary: &mut Summary,
) -> anyhow::Result<()> {
    let mut batch = executor.batch(cases, writable)?;
    let native = run_natively(&mut batch, summary)?;
    for (index, outcome) in native
        .iter()
        .enumerate()
        .filter(|(_, outcome)| ended(outcome))
    {
        summary.compared += 1;
        summary.signalled += usize::from(outcome.status == SIGNALLED);
        learn(
            generator,
            &cases[index],
            batch.record(index).address,
            outcome,
        );
    }
    for way in &plan.ways {
        let mut observed = batch
            .run(way)
            .with_context(|| format!("cannot observe ({})", way.name))?;
        falsify(plan, &native, &mut observed);
        summary.refused += observed
            .outcomes
            .iter()
            .filter(|outcome| outcome.status == REFUSED)
            .count();
        let differing: Vec<(usize, Vec<Part>)> = (0..cases.len())
            .filter(|&index| {
                ended(&native[index]) && !(way.interrupt_us != 0 && pops_flags(&cases[index]))
            })
            .map(|index| {
                let (left, right) = (&native[index], &observed.outcomes[index]);
                (
                    index,
                    observed_differences(left, right, batch.record(index), way),
                )
            })
            .filter(|(_, parts)| !parts.is_empty())
            .collect();
        if differing.is_empty() {
            continue;
        }
        *summary.differing.entry(way.name.clone()).or_default() += differing.len();
        for (index, parts) in spread(&differing) {
            let described = summary.descriptions.len();
            if described >= plan.described || summary.minimised >= 8 * plan.described {
                break;
            }
            let smaller = minimise::minimise(executor, &cases[*index], way, writable)?;
            summary.minimised += 1;
            // What differs in the same instructions has mostly the same reason.
            if !summary
                .seen
                .insert((way.name.clone(), report::mnemonics(&smaller)))
            {
                continue;
            }
            let said = observed.last_words.iter().find(|(died, _)| died == index);
            summary.descriptions.push(report::describe(
                executor,
                &smaller,
                way,
                writable,
                parts,
                said.map(|(_, said)| said.as_str()),
            )?);
        }
    }
    Ok(())
}

/// The first difference of each kind, then the others.
fn spread(differing: &[(usize, Vec<Part>)]) -> Vec<&(usize, Vec<Part>)> {
    let mut seen = HashSet::new();
    let (mut first, rest): (Vec<_>, Vec<_>) = differing
        .iter()
        .partition(|(_, parts)| seen.insert(parts.clone()));
    first.extend(rest);
    first
}

/// Runs the batch natively, and leaves out what cannot be compared.
///
/// # Errors
/// If the runner fails.
pub fn run_natively(batch: &mut Batch, summary: &mut Summary) -> anyhow::Result<Vec<Outcome>> {
    let way = Way::native();
    let mut first = batch.run(&way)?.outcomes;
    let mut left_out = Vec::new();
    for (index, outcome) in first.iter_mut().enumerate() {
        let nowhere = branches_nowhere(batch.record(index), outcome);
        let counter = match outcome.status {
            HUNG => &mut summary.endless,
            // A case that kills the runner natively reaches beyond its data.
            DIED => &mut summary.foreign,
            _ if is_foreign(outcome) => &mut summary.foreign,
            _ if nowhere => &mut summary.nowhere,
            _ => continue,
        };
        *counter += 1;
        outcome.status = DIED;
        left_out.push(index);
    }
    batch.leave_out(left_out)?;
    let second = batch.run(&way)?.outcomes;
    let mut left_out = Vec::new();
    for (index, (first, second)) in first.iter_mut().zip(&second).enumerate() {
        if ended(first) && !differences(first, second).is_empty() {
            summary.unrepeatable += 1;
            first.status = DIED;
            left_out.push(index);
        }
    }
    if !left_out.is_empty() {
        batch.leave_out(left_out)?;
    }
    Ok(first)
}

/// Whether the case may set its trap flag. A signal at that very moment may make the trap come
/// an instruction early or late.
fn pops_flags(case: &Case) -> bool {
    case.instructions.iter().any(|bytes| bytes.contains(&0x9d))
}

/// Tells the generator which instructions the processor knows.
fn learn(generator: &mut Generator, case: &Case, address: u64, outcome: &Outcome) {
    let undefined = outcome.status == SIGNALLED && outcome.signal[0] == libc::SIGILL as u64;
    let mut at = address;
    for bytes in &case.instructions {
        let (instruction, _) = decode(bytes, at);
        if undefined && outcome.pc == at {
            generator.learn(instruction.code(), true);
            return;
        }
        generator.learn(instruction.code(), false);
        at += bytes.len() as u64;
    }
}

/// The control: one bit of one result is wrong.
fn falsify(plan: &Plan, native: &[Outcome], observed: &mut Results) {
    let Some(number) = plan.falsify else { return };
    let index = (0..native.len())
        .filter(|&index| ended(&native[index]))
        .nth(number);
    if let Some(index) = index {
        observed.outcomes[index].registers ^= 1;
    }
}
