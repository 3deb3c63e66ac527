//! What `verify` says of traces: never that all is well where it did not look.

use std::path::Path;
use std::time::Duration;

use libtest_mimic::Trial;
use unspool_guests::{Ending, Outcome, Requirement};

use crate::observer::{Verdict, natively, require, run, run_well, traced, trial, unspool, wrong};
use crate::order::{guest_command, must_fail_once};
use crate::scratch::Scratch;

/// Runs of a race until one of them must show.
const TURNS: usize = 20;

/// Guests whose operands are repeated, indexed, masked or compressed, and the orders that must
/// explain all that they see: with a second thread only one does.
const OPERANDS: [(&str, &[&str]); 9] = [
    ("instructions/strings", ANY_ORDER),
    ("instructions/strings_broken_off", ANY_ORDER),
    ("instructions/avx2", ANY_ORDER),
    ("instructions/avx512", ANY_ORDER),
    ("instructions/gather", ANY_ORDER),
    ("instructions/scatter", ANY_ORDER),
    ("instructions/elements", &["line-atomic"]),
    ("memory/long_strings", &["line-atomic"]),
    ("order/shared_strings", &["line-atomic"]),
];
const ANY_ORDER: &[&str] = &["line-atomic", "ticket"];

/// Guests whose threads want each other's lines all the time.
const SHARING: [&str; 4] = [
    "order/false_sharing",
    "order/queue_many",
    "order/sequence_lock",
    "order/shared_strings",
];

/// Ordinary programs.
const PROGRAMS: [&[&str]; 4] = [
    &["ls", "-l", "/usr/lib"],
    &["sort", "/etc/passwd"],
    &["python3", "-c", "print(sum(range(1000)))"],
    &["bash", "-c", "for i in 1 2 3; do echo $i; done"],
];

pub(crate) fn trials() -> Vec<Trial> {
    let mut trials = files_and_mappings();
    for (guest, orders) in OPERANDS {
        for order in orders {
            let name = format!("verification::operands::{order}::{guest}");
            trials.push(trial(name, move |scratch| {
                passes(scratch, order, &guest_command(guest, &["300"])?)
            }));
        }
    }
    for guest in SHARING {
        let name = format!("verification::full_buffers::{guest}");
        trials.push(trial(name, move |scratch| {
            let command = guest_command(guest, &["2000"])?;
            // Full again and again, in the middle of what threads do with each other's lines.
            let options = ["--buffer", "512"];
            let outcome = checked_with(scratch, "line-atomic", &options, &command)?;
            explained(&outcome)
        }));
    }
    for command in PROGRAMS {
        let name = format!("verification::programs::{}", command[0]);
        trials.push(trial(name, move |scratch| {
            require(&[Requirement::Program(command[0].to_owned())])?;
            passes(scratch, "line-atomic", command)
        }));
    }
    trials.push(trial(
        "verification::operands::none_is_told_apart".to_owned(),
        |scratch| must_fail_once(TURNS, || repeated_differs(scratch)),
    ));
    trials.push(trial(
        "verification::times_cannot_tell".to_owned(),
        |scratch| must_fail_once(TURNS, || times_cannot_tell(scratch)),
    ));
    trials
}

fn files_and_mappings() -> Vec<Trial> {
    vec![
        trial("verification::shared_mappings".to_owned(), |scratch| {
            let command = guest_command("order/two_mappings", &["2000"])?;
            let outcome = checked(scratch, "line-atomic", &command)?;
            if share(&outcome, "foreign_accesses")? > 0.01 || outcome.ending == Ending::Exited(1) {
                let text = "two mappings of one memory are checked as one".to_owned();
                return Err(Verdict::Wrong(format!("{text}: {}", outcome.stdout_text())));
            }
            Ok(())
        }),
        trial(
            "verification::shared_mappings::none_is_told_apart".to_owned(),
            |scratch| {
                let command = guest_command("order/two_mappings", &["2000"])?;
                must_fail_once(TURNS, || {
                    let outcome = checked(scratch, "none", &command)?;
                    Ok(outcome.ending == Ending::Exited(1))
                })
            },
        ),
        trial("verification::read_while_watched".to_owned(), |scratch| {
            let command = guest_command("order/read_while_watched", &[])?;
            passes(scratch, "line-atomic", &command)
        }),
        trial(
            "verification::read_while_watched::none_is_told_apart".to_owned(),
            |scratch| {
                let command = guest_command("order/read_while_watched", &[])?;
                must_fail_once(TURNS, || {
                    let outcome = checked(scratch, "none", &command)?;
                    Ok(outcome.ending == Ending::Exited(1))
                })
            },
        ),
        trial(
            "verification::shared_mappings::children_may_have_written".to_owned(),
            |scratch| {
                let command = guest_command("processes/shared_memory", &[])?;
                let outcome = checked(scratch, "line-atomic", &command)?;
                match outcome.ending {
                    Ending::Exited(2) => Ok(()),
                    _ => Err(Verdict::Wrong(outcome.stdout_text())),
                }
            },
        ),
        trial(
            "verification::killed_beside_a_sleeping_thread".to_owned(),
            killed,
        ),
        trial("verification::from_a_pipe".to_owned(), from_a_pipe),
        trial(
            "verification::naive_check".to_owned(),
            |scratch| match naive_check(scratch, "line-atomic")? {
                0 => Ok(()),
                wrong => Err(Verdict::Wrong(format!("{wrong} bytes are not explained"))),
            },
        ),
        trial(
            "verification::naive_check::none_is_told_apart".to_owned(),
            |scratch| must_fail_once(TURNS, || Ok(naive_check(scratch, "none")? > 0)),
        ),
    ]
}

/// Nothing may be wrong, and nothing may have been left out.
fn passes(
    scratch: &Scratch,
    order: &str,
    command: &[impl AsRef<std::ffi::OsStr>],
) -> Result<(), Verdict> {
    explained(&checked(scratch, order, command)?)
}

/// Whether the order explains every value that was read.
fn explained(outcome: &Outcome) -> Result<(), Verdict> {
    match outcome.ending {
        Ending::Exited(0) => Ok(()),
        _ => Err(Verdict::Wrong(outcome.stdout_text())),
    }
}

/// Whether, in no order, a value of a repeated string instruction is found to be wrong.
fn repeated_differs(scratch: &Scratch) -> Result<bool, Verdict> {
    let command = guest_command("order/shared_strings", &["3000"])?;
    let outcome = checked(scratch, "none", &command)?;
    let answer = answer(&outcome)?;
    let mismatches = answer["mismatches"].as_array();
    let is_repeated = |mismatch: &serde_json::Value| {
        let seen = mismatch["seen"].as_array().map_or(0, Vec::len);
        seen > 64
    };
    Ok(mismatches.is_some_and(|all| all.iter().any(is_repeated)))
}

/// Whether an order of times leaves open what threads have read that change one word. It never
/// refutes it.
fn times_cannot_tell(scratch: &Scratch) -> Result<bool, Verdict> {
    let command = guest_command("order/increment_cas", &["4", "5000"])?;
    let outcome = checked(scratch, "timestamp", &command)?;
    let open = share(&outcome, "unexplained_between_stamps")? > 0.0;
    match (answer(&outcome)?["verdict"].as_str(), open) {
        (Some("passed"), false) => Ok(false),
        (Some("partly_checked"), true) => Ok(true),
        _ => Err(Verdict::Wrong(outcome.stdout_text())),
    }
}

/// Traces with values and verifies: what `verify --json` answers.
fn checked(
    scratch: &Scratch,
    order: &str,
    command: &[impl AsRef<std::ffi::OsStr>],
) -> Result<Outcome, Verdict> {
    checked_with(scratch, order, &[], command)
}

fn checked_with(
    scratch: &Scratch,
    order: &str,
    options: &[&str],
    command: &[impl AsRef<std::ffi::OsStr>],
) -> Result<Outcome, Verdict> {
    let file = scratch.path().join("checked.unspool");
    let options = [&["--verify", "--order", order], options].concat();
    run_well(scratch, &traced(scratch, &options, &file, command))?;
    verify(scratch, &file)
}

fn verify(scratch: &Scratch, file: &Path) -> Result<Outcome, Verdict> {
    let verify = unspool(scratch, &["verify", "--json", "--show", "1000"]).arguments([file]);
    let outcome = run(scratch, &verify)?;
    match outcome.ending {
        Ending::Exited(0..=2) => Ok(outcome),
        _ => Err(wrong("verify answers", &verify, &outcome)),
    }
}

fn answer(outcome: &Outcome) -> Result<serde_json::Value, Verdict> {
    serde_json::from_str(&outcome.stdout_text()).map_err(|error| Verdict::Wrong(error.to_string()))
}

/// What part of all accesses a count of the answer is.
fn share(outcome: &Outcome, name: &str) -> Result<f64, Verdict> {
    let answer = answer(outcome)?;
    let count = |name: &str| answer[name].as_f64().unwrap_or(f64::NAN);
    Ok(count(name) / count("accesses"))
}

/// A checker of a few lines, in another language, over the exported text: how many bytes it
/// cannot explain. `verify` must find some exactly where it does, and have looked at as many.
fn naive_check(scratch: &Scratch, order: &str) -> Result<u64, Verdict> {
    const CHECKER: &str = include_str!("verification/naive_check.py");
    require(&[Requirement::Program("python3".to_owned())])?;
    let checker = scratch.work().join("naive_check.py");
    std::fs::write(&checker, CHECKER)?;
    let file = scratch.path().join("checked.unspool");
    let outcome = checked(
        scratch,
        order,
        &guest_command("order/increment", &["4", "3000"])?,
    )?;
    let export = unspool(scratch, &["export", "--format", "csv", "--ordered"]).arguments([&file]);
    let script = format!("({}) | python3 naive_check.py", export.command_line());
    let naive = natively(scratch, &["bash", "-euo", "pipefail", "-c", &script]);
    let found = run_well(scratch, &naive.limit(Duration::from_secs(120)))?;
    let numbers: Vec<u64> = found
        .stdout_text()
        .split_whitespace()
        .filter_map(|number| number.parse().ok())
        .collect();
    let &[compared, wrong] = &numbers[..] else {
        return Err(Verdict::Wrong(found.stdout_text()));
    };
    let answer = answer(&outcome)?;
    let looked_at = ["bytes_compared", "bytes_learned"].map(|name| answer[name].as_u64());
    let agrees = looked_at.into_iter().flatten().sum::<u64>() == compared
        && (wrong > 0) == (answer["verdict"] == "failed");
    match agrees {
        true => Ok(wrong),
        false => Err(Verdict::Wrong(format!(
            "{compared} bytes, {wrong} wrong; verify: {answer}"
        ))),
    }
}

/// One thread sleeps from the start; what the other did until all were killed is looked at.
fn killed(scratch: &Scratch) -> Result<(), Verdict> {
    let command = guest_command("order/sleeper", &["1000000"])?;
    let file = scratch.path().join("killed.unspool");
    let traced = traced(scratch, &["--verify"], &file, &command);
    let outcome = run(scratch, &traced.kill_after(Duration::from_secs(3)))?;
    if outcome.ending != Ending::Signalled(9) {
        return Err(Verdict::Wrong(outcome.stderr_text()));
    }
    let outcome = verify(scratch, &file)?;
    let unchecked = share(&outcome, "accesses_unchecked")?;
    let text = outcome.stdout_text();
    if outcome.ending != Ending::Exited(2) || unchecked > 0.01 || unchecked.is_nan() {
        return Err(Verdict::Wrong(format!(
            "what is there is checked, and not called whole: {text}"
        )));
    }
    Ok(())
}

/// Every reader takes the trace from a pipe, while the program prints.
fn from_a_pipe(scratch: &Scratch) -> Result<(), Verdict> {
    let file = scratch.path().join("piped.unspool");
    let trace = traced(scratch, &["--verify"], Path::new("-"), &["ls", "/"]).command_line();
    for reader in [
        "info -",
        "info /dev/stdin",
        "verify --unchecked 5 -",
        "export - --format csv",
        "merge",
        "merge -",
    ] {
        let unspool = unspool(scratch, &[] as &[&str]).command_line();
        let script = format!("set -o pipefail; ({trace} 2> talk) | ({unspool} {reader})");
        let outcome = run_well(scratch, &natively(scratch, &["bash", "-euc", &script]))?;
        let talk = std::fs::read_to_string(scratch.work().join("talk"))?;
        let printed = talk.lines().any(|line| line == "usr");
        if outcome.stdout.len() < 100 || !printed {
            return Err(Verdict::Wrong(format!("{script}\n{talk}")));
        }
    }
    // What goes to a file through standard output is what -o would have written there.
    let script = format!("{trace} > {} 2> talk", file.display());
    run_well(scratch, &natively(scratch, &["bash", "-euc", &script]))?;
    run_well(scratch, &crate::observer::verified(scratch, &file))?;
    // Where both are one, they would be mixed.
    let script = format!("({trace}) 2>&1 | cat");
    let both = natively(scratch, &["bash", "-uc", &script]);
    let outcome = run_well(scratch, &both)?;
    let refused = "standard output and standard error are one";
    if !outcome.stdout_text().contains(refused) {
        return Err(wrong("refused", &both, &outcome));
    }
    Ok(())
}
