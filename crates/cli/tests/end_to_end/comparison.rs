//! A native and an observed run, compared.

use unspool_guests::{Comparison, Ending, Invocation, Outcome};

use crate::observer::{Verdict, run, run_well, shorten, wrong};
use crate::scratch::Scratch;

/// Makes both runs. The native one must succeed, the observed one end and say the same.
pub(crate) fn runs_alike(
    scratch: &Scratch,
    native_run: &Invocation,
    observed_run: &Invocation,
) -> Result<Outcome, Verdict> {
    let native = run_well(scratch, native_run)?;
    let observed = run(scratch, observed_run)?;
    compare(
        Comparison::Output,
        (native_run, &native),
        (observed_run, &observed),
    )?;
    Ok(observed)
}

/// Whether the observed run differs from the native one in what must be equal.
pub(crate) fn compare(
    comparison: Comparison,
    (native_run, native): (&Invocation, &Outcome),
    (observed_run, observed): (&Invocation, &Outcome),
) -> Result<(), Verdict> {
    if native.ending == Ending::TimedOut {
        return Err(wrong("the native run must not hang", native_run, native));
    }
    let mut differences = Vec::new();
    if native.ending != observed.ending {
        differences.push(format!(
            "ending: {:?}, not {:?}",
            observed.ending, native.ending
        ));
    }
    if comparison == Comparison::Output {
        differences.extend(difference("stdout", &native.stdout, &observed.stdout));
        let said = without_summaries(&observed.stderr);
        differences.extend(difference("stderr", &native.stderr, &said));
    } else if native.ending != observed.ending {
        differences.push(format!("its stderr: {}", shorten(&observed.stderr_text())));
    }
    if differences.is_empty() {
        return Ok(());
    }
    Err(Verdict::Wrong(format!(
        "the observed run differs\n{}\nreplay: {}\nnatively: {}",
        differences.join("\n"),
        observed_run.command_line(),
        native_run.command_line(),
    )))
}

/// What the program said, without the line that tells at the end of each traced process
/// what was recorded.
fn without_summaries(stderr: &[u8]) -> Vec<u8> {
    let lines = stderr.split_inclusive(|&byte| byte == b'\n');
    lines
        .filter(|line| !line.starts_with(b"unspool: process "))
        .flatten()
        .copied()
        .collect()
}

/// The first line in which two texts differ.
fn difference(what: &str, native: &[u8], observed: &[u8]) -> Option<String> {
    if native == observed {
        return None;
    }
    let native = String::from_utf8_lossy(native);
    let observed = String::from_utf8_lossy(observed);
    let mut line = 0;
    let (mut ours, mut theirs) = (observed.lines(), native.lines());
    loop {
        line += 1;
        match (ours.next(), theirs.next()) {
            (Some(our), Some(their)) if our == their => {}
            (None, None) => return Some(format!("{what} differs in its line ends")),
            (our, their) => {
                return Some(format!(
                    "{what}, line {line}: {}, not {}",
                    our.map_or("missing".to_owned(), |text| format!("`{}`", shorten(text))),
                    their.map_or("nothing".to_owned(), |text| format!("`{}`", shorten(text))),
                ));
            }
        }
    }
}
