//! Makes a case that differs smaller.

use crate::case::Case;
use crate::compare::{ended, observed_differences};
use crate::execute::Executor;
use crate::left_out::{branches_nowhere, is_foreign};
use crate::place::without_instruction;
use crate::ways::Way;

/// A case that differs as this one does, with as few instructions and as little state as
/// steps that leave one thing out lead to.
///
/// # Errors
/// If a runner cannot be started.
pub fn minimise(
    executor: &Executor,
    case: &Case,
    way: &Way,
    writable: bool,
) -> anyhow::Result<Case> {
    const ROUNDS: usize = 40;
    let mut smallest = case.clone();
    for _ in 0..ROUNDS {
        let candidates = simpler(&smallest);
        let differing = differing(executor, &candidates, way, writable)?;
        let Some(next) = differing.first() else {
            break;
        };
        smallest = candidates[*next].clone();
    }
    Ok(smallest)
}

/// Indexes of the cases that differ.
///
/// # Errors
/// If a runner cannot be started.
pub fn differing(
    executor: &Executor,
    cases: &[Case],
    way: &Way,
    writable: bool,
) -> anyhow::Result<Vec<usize>> {
    if cases.is_empty() {
        return Ok(Vec::new());
    }
    let batch = executor.batch(cases, writable)?;
    let native = batch.run(&Way::native())?.outcomes;
    let observed = batch.run(way)?.outcomes;
    Ok((0..cases.len())
        .filter(|&index| {
            let outcome = &native[index];
            ended(outcome)
                && !is_foreign(outcome)
                && !branches_nowhere(batch.record(index), outcome)
        })
        .filter(|&index| {
            let (left, right) = (&native[index], &observed[index]);
            !observed_differences(left, right, batch.record(index), way).is_empty()
        })
        .collect())
}

/// The case with one thing left out, the largest things first.
fn simpler(case: &Case) -> Vec<Case> {
    let mut candidates = Vec::new();
    if case.instructions.len() > 1 {
        candidates
            .extend((0..case.instructions.len()).map(|index| without_instruction(case, index)));
    }
    let mut with = |change: &dyn Fn(&mut Case)| {
        let mut simpler = case.clone();
        change(&mut simpler);
        if simpler != *case {
            candidates.push(simpler);
        }
    };
    with(&|case| case.patches.clear());
    with(&|case| case.flags = 0x202);
    with(&|case| case.vectors = 1);
    with(&|case| case.image = 0);
    for register in 0..16 {
        with(&|case| case.registers[register] = 0);
    }
    candidates
}
