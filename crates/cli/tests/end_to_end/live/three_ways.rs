//! One run, of which an analysis is made in the process, over the trace while it is written, and over
//! the trace when it is whole: it comes to the same.

use std::ffi::OsString;
use std::time::Duration;

use libtest_mimic::Trial;
use unspool_guests::{Ending, Requirement};

use crate::observer::{COMMAND, Verdict, natively, require, run, trial, wrong};
use crate::order::{guest_command, must_fail_once};
use crate::scratch::Scratch;

const TURNS: usize = 20;

/// The orders in which what threads do has one order.
const ORDERS: [&str; 3] = ["line-atomic", "ticket", "timestamp"];

const GUESTS: &[(&str, &[&str])] = &[
    ("order/shared_strings", &["1000"]),
    ("order/many_threads", &["10", "1000"]),
    ("order/increment_cas", &["4", "5000"]),
];

pub(super) fn trials() -> Vec<Trial> {
    let mut trials = Vec::new();
    for &(guest, arguments) in GUESTS {
        for order in ORDERS {
            trials.push(trial(
                format!("live::three_ways::{order}::{guest}"),
                move |scratch| must_agree(scratch, order, &guest_command(guest, arguments)?),
            ));
        }
    }
    for order in ORDERS {
        trials.push(trial(
            format!("live::three_ways::{order}::xz"),
            move |scratch| {
                require(&[Requirement::Program("xz".to_owned())])?;
                let data: Vec<u8> = (0..40_000_u32)
                    .map(|i| (i.wrapping_mul(i) >> 7) as u8)
                    .collect();
                std::fs::write(scratch.work().join("data"), data)?;
                let command = ["xz", "-T2", "-1", "--block-size=10000", "-kc", "data"];
                must_agree(scratch, order, &command.map(OsString::from))
            },
        ));
    }
    // The control: in no order what is found depends on when records come.
    trials.push(trial(
        "live::three_ways::none_is_told_apart".to_owned(),
        |scratch| {
            let command = guest_command("order/shared_strings", &["1000"])?;
            must_fail_once(TURNS, || Ok(!agree(scratch, "none", &command)?))
        },
    ));
    trials
}

fn must_agree(scratch: &Scratch, order: &str, command: &[OsString]) -> Result<(), Verdict> {
    match agree(scratch, order, command)? {
        true => Ok(()),
        false => {
            let read = |name: &str| std::fs::read_to_string(scratch.work().join(name));
            Err(Verdict::Wrong(format!(
                "live: {}\nfollowed: {}\nrecorded: {}",
                read("live")?,
                read("followed")?,
                read("recorded")?
            )))
        }
    }
}

/// Runs a program once, and says whether the three answers about its values are the same to the
/// letter: all counts, and what was found where.
fn agree(scratch: &Scratch, order: &str, command: &[OsString]) -> Result<bool, Verdict> {
    let verify = format!("'{}' verify --unchecked 100 --json", COMMAND.display());
    let words: Vec<String> = command
        .iter()
        .map(|word| format!("'{}'", word.display()))
        .collect();
    let script = format!(
        "rm -f trace live; \
         {verify} --order {order} --record trace -o live -- {} > output & pid=$!; \
         until test -s trace; do sleep 0.02; done; \
         {verify} --follow trace > followed; followed=$?; wait $pid; live=$?; \
         {verify} trace > recorded; recorded=$?; \
         test $live = $followed -a $live = $recorded || exit 3; exit $live",
        words.join(" ")
    );
    let together = natively(scratch, &["bash", "-uc", &script]).limit(Duration::from_secs(240));
    let outcome = run(scratch, &together)?;
    if !matches!(outcome.ending, Ending::Exited(0 | 1 | 3)) {
        return Err(wrong("each has an answer", &together, &outcome));
    }
    let read = |name: &str| std::fs::read_to_string(scratch.work().join(name));
    let (live, followed, recorded) = (read("live")?, read("followed")?, read("recorded")?);
    if !recorded.contains("accesses_with_value") {
        return Err(wrong("there is an answer", &together, &outcome));
    }
    Ok(live == followed && live == recorded)
}
