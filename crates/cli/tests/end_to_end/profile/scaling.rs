//! Runs of known sizes, compared.

use std::ffi::OsString;

use libtest_mimic::Trial;
use serde_json::Value;
use unspool_guests::Ending;

use super::{By, array, by_both, guest, guest_named, number, profile, profiled_with};
use crate::observer::Verdict;
use crate::scratch::Scratch;

pub(crate) fn trials() -> Vec<Trial> {
    let compared = by_both("scaling::losses_are_where_they_are", compared);
    let drawn = by_both("flame_graph", drawn);
    compared.into_iter().chain(drawn).collect()
}

/// How much each of these functions loses, with what it calls, and all together.
fn losses(comparison: &Value) -> [f64; 3] {
    let functions = array(comparison, "functions");
    let of = |name: &str| {
        let function = functions.iter().find(|it| it["name"] == name);
        function.map_or(f64::NAN, |it| number(&it["total_loss"]))
    };
    [of("divided"), of("repeated"), number(&comparison["loss"])]
}

/// Of one thread and of three: what each of them does again is lost, and the tree and the text say so.
/// What they divide is not lost, unless each of them were to do as much as the one: then it is won. The
/// control: nothing is lost between a run and itself.
fn compared(scratch: &Scratch, by: By) -> Result<(), Verdict> {
    let file = |name: &str| scratch.path().join(name).display().to_string();
    let mut uncertain = 0.0;
    for threads in ["1", "3"] {
        let mut command = guest_named("profile/scaled", "")?;
        command.push(threads.into());
        let options = ["-o".to_owned(), file(threads)].map(OsString::from);
        let one = profiled_with(scratch, by, &options, &command)?;
        let samples_late = number(&one["longest"]) * threads.parse::<f64>().unwrap_or(1.0);
        uncertain += super::uncertain(&one) + samples_late;
    }
    let compare = |base: &str, kind: &str, run: &str| {
        let (base, run) = (file(base), file(run));
        let options = ["--baseline", &base, "--scaling", kind, "--json", &run];
        let outcome = profile(scratch, by, &options)?;
        let said: Result<Value, _> = serde_json::from_str(&outcome.stdout_text());
        let said = said.map_err(|problem| Verdict::Wrong(format!("no JSON: {problem}")))?;
        match (
            outcome.ending,
            array(&serde_json::json!({ "all": said }), "all"),
        ) {
            (Ending::Exited(0), [only]) => Ok(only.clone()),
            (ending, all) => Err(Verdict::Wrong(format!("{ending:?}: {} of them", all.len()))),
        }
    };
    let check = |what: &str, comparison: &Value, expected: [f64; 3]| {
        let found = losses(comparison);
        let is_near = |(is, must): (&f64, &f64)| (is - must).abs() < uncertain;
        match found.iter().zip(&expected).all(is_near) {
            true => Ok(()),
            false => Err(Verdict::Wrong(format!(
                "{what}: {found:?}, not {expected:?}"
            ))),
        }
    };
    let strong = compare("1", "strong", "3")?;
    check("strong", &strong, [0.0, 0.4, 0.4])?;
    check("weak", &compare("1", "weak", "3")?, [-1.2, 0.0, -1.2])?;
    let same = losses(&compare("3", "strong", "3")?);
    if same != [0.0; 3] {
        return Err(Verdict::Wrong(format!(
            "between a run and itself: {same:?}"
        )));
    }
    let contexts = array(&strong, "calling_contexts").iter();
    let own: f64 = contexts.map(|it| number(&it["self_loss"])).sum();
    if (own - number(&strong["loss"])).abs() > 1e-6 {
        return Err(Verdict::Wrong(format!("contexts lose {own} s")));
    }
    let text = profile(scratch, by, &["--baseline", &file("1"), &file("3")])?.stdout_text();
    let parts = ["from 1 thread,", "to   3 threads,", "Top down", "repeated"];
    match parts.iter().all(|part| text.contains(part)) {
        true => Ok(()),
        false => Err(Verdict::Wrong(text)),
    }
}

/// The picture has a bar for each function on a path, and names; a file that cannot be written is
/// told, beside the report.
fn drawn(scratch: &Scratch, by: By) -> Result<(), Verdict> {
    let picture = scratch.path().join("picture.svg").display().to_string();
    let mut arguments = ["--flame-graph", &picture, "--"]
        .map(OsString::from)
        .to_vec();
    arguments.extend(guest("")?);
    let outcome = profile(scratch, by, &arguments)?;
    let drawn = std::fs::read_to_string(&picture)?;
    let bars = ["left", "right", "descend", "burn"].map(|name| {
        let title = format!("<title>{name} (");
        drawn.matches(&title).count()
    });
    let is_picture = drawn.contains("<svg ") && drawn.trim_end().ends_with("</svg>");
    if outcome.ending != Ending::Exited(0) || !is_picture || bars.contains(&0) || bars[3] < 3 {
        return Err(Verdict::Wrong(format!("{bars:?}: {drawn}")));
    }
    arguments[1] = "/nowhere/picture.svg".into();
    let refused = profile(scratch, by, &arguments)?;
    let is_told = refused.stderr_text().contains("/nowhere/picture.svg");
    match refused.ending == Ending::Exited(125)
        && is_told
        && refused.stdout_text().contains("Top down")
    {
        true => Ok(()),
        false => Err(Verdict::Wrong(refused.stderr_text())),
    }
}
