//! What `unspool doctor` says of this machine: tried, and with its remedies carried out.

use libtest_mimic::Trial;
use serde_json::Value;
use unspool_guests::Outcome;

use crate::observer::{Verdict, natively, run, trial, unspool, wrong};
use crate::scratch::Scratch;

pub(crate) fn trials() -> Vec<Trial> {
    vec![
        trial("doctor::text_and_json".to_owned(), text_and_json),
        trial("doctor::remedy_of_address_space".to_owned(), address_space),
    ]
}

/// The verdicts by the checks' names, and their remedies.
fn checks(outcome: &Outcome) -> Result<Vec<(String, String, Option<String>)>, Verdict> {
    let report: Value = serde_json::from_slice(&outcome.stdout)
        .map_err(|error| Verdict::Wrong(format!("JSON: {error}")))?;
    let text = |value: &Value| value.as_str().map(str::to_owned);
    let all = report["checks"].as_array().into_iter().flatten();
    Ok(all
        .map(|check| {
            (
                text(&check["name"]).unwrap_or_default(),
                text(&check["verdict"]).unwrap_or_default(),
                text(&check["remedy"]),
            )
        })
        .collect())
}

fn expect(holds: bool, outcome: &Outcome) -> Result<(), Verdict> {
    match holds {
        true => Ok(()),
        false => Err(Verdict::Wrong(format!(
            "status {:?}: {}",
            outcome.ending,
            String::from_utf8_lossy(&outcome.stdout)
        ))),
    }
}

/// Each check has a verdict, and a remedy unless it is good; the text says the same; and the status
/// says whether a command cannot work.
fn text_and_json(scratch: &Scratch) -> Result<(), Verdict> {
    let command = unspool(scratch, &["doctor", "--json"]);
    let outcome = run(scratch, &command)?;
    let found = checks(&outcome)?;
    let is_sound = |(name, verdict, remedy): &(String, String, Option<String>)| {
        !name.is_empty() && (verdict == "good") == remedy.is_none()
    };
    expect(found.len() > 10 && found.iter().all(is_sound), &outcome)?;
    let is_missing = found.iter().any(|(_, verdict, _)| verdict == "missing");
    let status = unspool_guests::Ending::Exited(i32::from(is_missing));
    expect(outcome.ending == status, &outcome)?;
    let command = unspool(scratch, &["doctor"]);
    let text = run(scratch, &command)?;
    let told = String::from_utf8_lossy(&text.stdout).into_owned();
    match found.iter().all(|(name, ..)| told.contains(name.as_str())) {
        true => Ok(()),
        false => Err(wrong("a check is not in the text", &command, &text)),
    }
}

/// Where address space is limited, translated programs cannot run, which is said with a status of
/// its own; with the limit lifted, as is said, they can.
fn address_space(scratch: &Scratch) -> Result<(), Verdict> {
    let command = env!("CARGO_BIN_EXE_unspool");
    let limited = |then: &str| {
        let script = format!("ulimit -S -v 8000000; {then} {command} doctor --json");
        run(scratch, &natively(scratch, &["sh", "-c", &script]))
    };
    let is_missing = |outcome: &Outcome| {
        let found = checks(outcome)?;
        let check = found
            .into_iter()
            .find(|(name, ..)| name == "address space for code");
        let (_, verdict, remedy) = check.unwrap_or_default();
        Ok::<_, Verdict>((verdict == "missing", remedy.unwrap_or_default()))
    };
    let outcome = limited("")?;
    let (missing, remedy) = is_missing(&outcome)?;
    expect(
        missing && outcome.ending == unspool_guests::Ending::Exited(1),
        &outcome,
    )?;
    let outcome = limited(&format!("{remedy};"))?;
    let (missing, _) = is_missing(&outcome)?;
    expect(!missing, &outcome)
}
