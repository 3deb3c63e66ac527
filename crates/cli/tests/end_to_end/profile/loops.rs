//! Time in loops: that of the guest `profile/loops`, in which it stands behind the head of each.

use std::path::Path;

use libtest_mimic::Trial;
use serde_json::Value;

use super::{By, array, by_both, guest_named, number, profile, profiled, uncertain};
use crate::observer::{Verdict, trial};
use crate::scratch::Scratch;
use unspool_guests::Ending;

pub(crate) fn trials() -> Vec<Trial> {
    let annotated = by_both("annotated", annotated);
    let kept = trial("profile::loops_kept".to_owned(), kept);
    by_both("loops", loops)
        .into_iter()
        .chain(annotated)
        .chain([kept])
        .collect()
}

/// The loops of the guest, by line, with what each takes.
fn labelled() -> Result<Vec<(usize, f64)>, Verdict> {
    let guests = Path::new(env!("CARGO_MANIFEST_DIR")).join("../guests/programs");
    let text = std::fs::read_to_string(guests.join("profile/loops.c"))?;
    let labels = (1..).zip(text.lines()).filter_map(|(number, line)| {
        let (_, seconds) = line.split_once("// loop: ")?;
        Some((number, seconds.parse().ok()?))
    });
    Ok(labels.collect())
}

/// Names and loops that were found before are the same, whatever has become of what was kept of them.
fn kept(scratch: &Scratch) -> Result<(), Verdict> {
    let file = scratch.path().join("recording").display().to_string();
    let report = scratch.path().join("report").display().to_string();
    let mut words = ["-o", &file, "--folded", "--report", &report, "--"]
        .map(std::ffi::OsString::from)
        .to_vec();
    words.extend(guest_named("profile/loops", "")?);
    profile(scratch, By::Kernel, &words)?;
    let shown = || -> Result<Value, Verdict> {
        let text = profile(scratch, By::Kernel, &["--json", &file])?
            .stdout_text()
            .to_string();
        serde_json::from_str(&text).map_err(|_| Verdict::Wrong(format!("no JSON: {text}")))
    };
    let folder = scratch.path().join("cache/unspool/structure");
    let files = || -> Result<Vec<std::path::PathBuf>, Verdict> {
        let entries = std::fs::read_dir(&folder)?;
        Ok(entries
            .map(|entry| Ok(entry?.path()))
            .collect::<std::io::Result<_>>()?)
    };
    let found = shown()?;
    let first = files()?;
    let known = shown()?;
    // What stands there is what is told: the control.
    for path in &first {
        let text = std::fs::read_to_string(path)?;
        let other = text.replace("\"is_irreducible\":false", "\"is_irreducible\":true");
        std::fs::write(path, other.replace("\"nested\"", "\"renamed\""))?;
    }
    let changed = shown()?;
    let has_function = |name: &str| {
        let mut functions = array(&changed, "functions").iter();
        functions.any(|one| one["name"] == name)
    };
    let is_used = array(&changed, "loops")
        .iter()
        .all(|one| one["irreducible"] == true)
        && has_function("renamed")
        && !has_function("nested");
    for path in &first {
        let text = std::fs::read_to_string(path)?;
        let mut file: Value =
            serde_json::from_str(&text).map_err(|_| Verdict::Wrong(format!("no JSON: {text}")))?;
        for list in ["functions", "places"] {
            file[list] = Value::Array(Vec::new());
        }
        std::fs::write(path, file.to_string())?;
    }
    let emptied = shown()?;
    for path in &first {
        std::fs::write(path, b"damaged")?;
    }
    let damaged = shown()?;
    let is_same = known == found && emptied == found && damaged == found;
    match is_same && is_used && !first.is_empty() && array(&found, "loops").len() > 4 {
        true => Ok(()),
        false => Err(Verdict::Wrong(format!("{first:?}: {found:#}\n{known:#}"))),
    }
}

/// Every loop has the time that it takes, and the one that does nothing none; a loop within another is
/// told as such. The control: labels that are one line off are not found.
fn loops(scratch: &Scratch, by: By) -> Result<(), Verdict> {
    let profile = profiled(scratch, by, &guest_named("profile/loops", "")?)?;
    let labelled = labelled()?;
    let all = array(&profile, "loops");
    let at = |line: usize| {
        let ending = format!("loops.c:{line}");
        all.iter().find(|one| {
            one["line"]
                .as_str()
                .is_some_and(|line| line.ends_with(&ending))
        })
    };
    let most = uncertain(&profile) + 0.03;
    let misses = |shift: usize| {
        let total = |line| at(line).map_or(0.0, |one| number(&one["total"]));
        let wrong = labelled
            .iter()
            .filter(|(line, seconds)| (total(line + shift) - seconds).abs() > most);
        wrong.cloned().collect::<Vec<_>>()
    };
    let wrong = misses(0);
    if !wrong.is_empty() || labelled.len() != 6 {
        return Err(Verdict::Wrong(format!(
            "{wrong:?} of {labelled:?}: {all:#?}"
        )));
    }
    if misses(1).len() < 4 {
        return Err(Verdict::Wrong(
            "lines that have no loop were taken for some".to_owned(),
        ));
    }
    let named = |one: &Value| one["function"].as_str().unwrap_or_default().to_owned();
    let of = |name: &str, depth: u64| {
        all.iter()
            .find(|one| named(one) == name && one["depth"] == depth)
    };
    let parent =
        of("nested", 1).and_then(|one| all.get(usize::try_from(one["parent"].as_u64()?).ok()?));
    let innermost = of("burn", 1).map_or(f64::NAN, |one| number(&one["self"]));
    let is_nested = parent.is_some_and(|parent| named(parent) == "nested" && parent["depth"] == 0);
    let once = all.iter().any(|one| named(one) == "once");
    match is_nested && !once && innermost > 0.8 {
        true => Ok(()),
        false => Err(Verdict::Wrong(format!("{all:#?}"))),
    }
}

/// Below the line that calls there is the call with its share of the time; instructions far from any
/// time are left out. A function that is not there is told, behind the report.
fn annotated(scratch: &Scratch, by: By) -> Result<(), Verdict> {
    let program = guest_named("profile/loops", "")?[0].display().to_string();
    let arguments = ["--annotate", "nested", "--annotate", "burn", "--", &program];
    let outcome = profile(scratch, by, &arguments)?;
    let text = outcome.stdout_text();
    let (_, code) = text.split_once("\nnested in ").unwrap_or_default();
    let (_, behind) = code
        .split_once("for (int k = 0; k < two; k++)")
        .unwrap_or_default();
    let share = |line: &str| {
        let mut words = line.split_whitespace();
        let is_call = line.contains("call");
        let share = words.nth(2).filter(|_| is_call)?;
        share.parse::<f64>().ok()
    };
    let inner = behind.lines().find_map(share).unwrap_or(f64::NAN);
    let has_both = text.contains("\nburn in ") && code.contains("kept = burn(0.02);");
    if outcome.ending != Ending::Exited(0) || !has_both || (inner - 40.0).abs() > 10.0 {
        return Err(Verdict::Wrong(format!("{inner} %: {text}")));
    }
    let unknown = profile(scratch, by, &["--annotate", "nobody", "--", &program])?;
    let is_told = unknown.stderr_text().contains("function nobody");
    match unknown.ending == Ending::Exited(125)
        && is_told
        && unknown.stdout_text().contains("Top down")
    {
        true => Ok(()),
        false => Err(Verdict::Wrong(unknown.stderr_text())),
    }
}
