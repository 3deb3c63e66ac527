//! The tests of which there is one for each cell of a large matrix: a run without a filter makes a
//! sample of them, one test of each row, chosen by a seed that is printed.

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::time::UNIX_EPOCH;

use libtest_mimic::{Arguments, Trial};

/// Where this is set, all tests are run.
const WHOLE: &str = "UNSPOOL_TEST_WHOLE";

/// What chooses, in place of the time.
const SEED: &str = "UNSPOOL_TEST_SEED";

/// Leaves out what the sample does not have. A filter names tests: those are all run.
pub(crate) fn of(trials: Vec<Trial>, arguments: &Arguments) -> Vec<Trial> {
    if arguments.filter.is_some() || arguments.list || std::env::var_os(WHOLE).is_some() {
        return trials;
    }
    let seed = match std::env::var(SEED) {
        Ok(text) => text
            .parse()
            .unwrap_or_else(|_| panic!("{SEED}={text} is no number")),
        Err(_) => UNIX_EPOCH.elapsed().map_or(0, |since| since.as_secs()),
    };
    let chosen = chosen(trials.iter().map(Trial::name), seed);
    let count = trials.len();
    let mut numbers = 0..;
    let sample: Vec<Trial> = trials
        .into_iter()
        .filter(|_| numbers.next().is_some_and(|number| chosen[number]))
        .collect();
    eprintln!(
        "a sample of {} of {count} tests: {SEED}={seed} repeats it, {WHOLE}=1 runs all",
        sample.len()
    );
    sample
}

/// The row of a matrix that a test belongs to.
fn row(name: &str) -> Option<(&str, &str)> {
    // Each guest is translated alone, or with what is recorded inserted.
    let ways = ["guest::run::", "guest::trace::"];
    if let Some(guest) = ways.iter().find_map(|way| name.strip_prefix(way)) {
        return Some(("guest alone", guest));
    }
    let parts: Vec<&str> = name.split("::").collect();
    match parts[..] {
        // How a source is built.
        ["races", source, twin @ ("free" | "racy"), ..] => Some((source, twin)),
        ["races", "predicted", "none", source] => Some(("predicted", source.get(..1)?)),
        ["races", "predicted", source, twin @ ("free" | "racy"), ..] => Some((source, twin)),
        // What looks at a guest besides: tools, by way of the same translation, and probes.
        ["guest", _tool, guest] => Some(("guest", guest)),
        // In which order between threads something is recorded.
        ["live", "three_ways", _order, program] => Some(("live", program)),
        ["orders", guest, "ticket" | "timestamp" | "none"] => Some(("orders", guest)),
        ["verification", "operands", _order, guest] => Some(("operands", guest)),
        // What a trace is read for that is still being written.
        ["live", "following", "parquet_is_refused"] => None,
        ["live", "following", _format] => Some(("following", "to its end")),
        ["live", "following", _format, killed] => Some(("following", killed)),
        _ => None,
    }
}

/// For each test whether it is in the sample.
fn chosen<'a>(names: impl Iterator<Item = &'a str>, seed: u64) -> Vec<bool> {
    let mut least = HashMap::new();
    let mut chosen = Vec::new();
    for (number, name) in names.enumerate() {
        let Some(row) = row(name) else {
            chosen.push(true);
            continue;
        };
        let mut hasher = DefaultHasher::new();
        (seed, name).hash(&mut hasher);
        let rank = hasher.finish();
        let best = least.entry(row).or_insert((u64::MAX, None));
        let is_better = best.1.is_none() || rank < best.0;
        if is_better && let (_, Some(earlier)) = std::mem::replace(best, (rank, Some(number))) {
            chosen[earlier] = false;
        }
        chosen.push(is_better);
    }
    chosen
}

/// Each row is in every sample, once, and other seeds choose otherwise.
pub(crate) fn is_of_every_row(trials: &[Trial]) -> Trial {
    let names: Vec<String> = trials.iter().map(|trial| trial.name().to_owned()).collect();
    crate::observer::trial("sample::of_every_row".to_owned(), move |_| {
        let mut samples = Vec::new();
        for seed in 0..20 {
            let chosen = chosen(names.iter().map(String::as_str), seed);
            let mut count_of_row = HashMap::new();
            for (name, is_chosen) in names.iter().zip(&chosen) {
                match row(name) {
                    Some(row) => *count_of_row.entry(row).or_insert(0) += u32::from(*is_chosen),
                    None if *is_chosen => {}
                    None => return Err(format!("{name} is of no row, and left out").into()),
                }
            }
            if let Some((row, count)) = count_of_row.iter().find(|(_, count)| **count != 1) {
                return Err(format!("seed {seed} has {count} tests of row {row:?}").into());
            }
            samples.push(chosen);
        }
        let in_any = (0..names.len())
            .filter(|&number| samples.iter().any(|sample| sample[number]))
            .count();
        // Of eight builds, one is in none of twenty samples in seven cases of a hundred.
        match in_any * 10 > names.len() * 9 {
            true => Ok(()),
            false => Err(format!("20 seeds choose {in_any} tests of {}", names.len()).into()),
        }
    })
}
