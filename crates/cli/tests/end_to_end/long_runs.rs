//! What takes hours, with ceilings that are lowered: numbers are given out anew, and where they
//! cannot be, the recording ends and the program goes on.

use libtest_mimic::Trial;
use serde_json::Value;

use crate::comparison::runs_alike;
use crate::observer::{Verdict, natively, run_well, traced, trial, unspool, verified, wrong};
use crate::order::{guest_command, must_fail_once};
use crate::scratch::Scratch;

const CEILINGS: &str = "UNSPOOL_TEST_CEILINGS";

/// A guest that is recorded to its end.
struct Case {
    name: &'static str,
    guest: &'static str,
    arguments: &'static [&'static str],
    ceilings: &'static str,
    /// What has to have begun anew for this to show anything.
    begun_anew: Option<&'static str>,
}

const CASES: &[Case] = &[
    Case {
        name: "threads",
        guest: "order/threads_come_and_go",
        arguments: &[],
        ceilings: "threads=8",
        begun_anew: None,
    },
    Case {
        name: "epochs_and_threads",
        guest: "order/threads_come_and_go",
        arguments: &[],
        ceilings: "threads=8,epochs=100",
        begun_anew: Some("epochs_begun_anew"),
    },
    Case {
        name: "epochs",
        guest: "order/read_shared",
        arguments: &[],
        ceilings: "epochs=10",
        begun_anew: Some("epochs_begun_anew"),
    },
    Case {
        name: "path_ids",
        guest: "cxx/threads_and_futures",
        arguments: &[],
        ceilings: "path-ids=4000",
        begun_anew: Some("path_ids_begun_anew"),
    },
    Case {
        name: "after_forks",
        guest: "order/owner_forks",
        arguments: &[],
        ceilings: "threads=8,epochs=10,path-ids=4000",
        begun_anew: Some("path_ids_begun_anew"),
    },
];

/// A guest that comes to the end of what can be told apart, or of what there is memory for.
struct Ending {
    name: &'static str,
    guest: &'static str,
    order: &'static str,
    ceilings: &'static str,
    says: &'static str,
    /// What the trace says.
    ended: &'static str,
}

const ENDINGS: &[Ending] = &[
    Ending {
        name: "no_address_space_for_order",
        guest: "order/counter_mapped_twice",
        order: "line-atomic",
        ceilings: "homes=0",
        says: "the recording ends here, because there is no address space",
        ended: "there was no address space for the order of memory that was mapped more than once; GiB that had some: 0",
    },
    Ending {
        name: "too_many_threads_at_once",
        guest: "order/many_threads",
        order: "line-atomic",
        ceilings: "threads=20",
        says: "the recording ends here, because the program has more threads at one time",
        ended: "the program wanted more threads at one time than 20",
    },
    Ending {
        name: "too_many_threads::line_atomic",
        guest: "threads/create_and_join_often",
        order: "line-atomic",
        ceilings: "thread-numbers=30",
        says: "the recording ends here, because the program has started more threads",
        ended: "the program wanted more threads one after the other than 30",
    },
    Ending {
        name: "too_many_threads::timestamp",
        guest: "threads/create_and_join_often",
        order: "timestamp",
        ceilings: "thread-numbers=30",
        says: "the recording ends here, because the program has started more threads",
        ended: "the program wanted more threads one after the other than 30",
    },
];

/// The options for a buffer that does not fit into the memory that the guest leaves.
const LARGE_BUFFER: [&str; 2] = ["--buffer", "8388608"];

pub(crate) fn trials() -> Vec<Trial> {
    let to_the_end = CASES.iter().map(|case| {
        trial(format!("long_runs::{}", case.name), |scratch| {
            recorded_to_the_end(scratch, case)
        })
    });
    let ended = ENDINGS.iter().map(|ending| {
        trial(format!("long_runs::{}", ending.name), |scratch| {
            recording_ends(scratch, ending)
        })
    });
    let control = trial(
        "long_runs::no_order_is_told_apart".to_owned(),
        no_order_is_told_apart,
    );
    let starved = trial("long_runs::no_memory_for_a_thread".to_owned(), starved);
    let kept = trial(
        "long_runs::no_memory_and_not_let_go".to_owned(),
        starved_and_kept,
    );
    to_the_end
        .chain(ended)
        .chain([control, starved, kept])
        .collect()
}

fn recorded_to_the_end(scratch: &Scratch, case: &Case) -> Result<(), Verdict> {
    let command = guest_command(case.guest, case.arguments)?;
    let file = scratch.path().join("long.unspool");
    let observed = traced(scratch, &["--verify"], &file, &command);
    let observed = observed.variable(CEILINGS, case.ceilings);
    let outcome = run_well(scratch, &observed)?;
    if outcome.stderr_text().contains("the recording ends") {
        return Err(wrong("the recording goes on", &observed, &outcome));
    }
    let verify = verified(scratch, &file);
    run_well(scratch, &verify)?;
    let totals = totals(scratch, &file)?;
    match case.begun_anew.map(|name| (name, totals[name].as_u64())) {
        None | Some((_, Some(2..))) => Ok(()),
        Some((name, times)) => Err(Verdict::Wrong(format!("{name}: {times:?}"))),
    }
}

fn recording_ends(scratch: &Scratch, ending: &Ending) -> Result<(), Verdict> {
    let command = guest_command(ending.guest, &[])?;
    let native_run = natively(scratch, &command);
    let file = scratch.path().join("ended.unspool");
    let options = ["--order", ending.order, "--verify"];
    let observed_run = traced(scratch, &options, &file, &command);
    let observed_run = observed_run.variable(CEILINGS, ending.ceilings);
    let observed = runs_alike(scratch, &native_run, &observed_run)?;
    if observed.stderr_text().matches(ending.says).count() != 1 {
        return Err(wrong("it says once why", &observed_run, &observed));
    }
    let totals = totals(scratch, &file)?;
    if totals["ended_early"].as_str() != Some(ending.ended) {
        return Err(Verdict::Wrong(format!("ended early: {totals}")));
    }
    if ending.order == "line-atomic" {
        let verify = verified(scratch, &file);
        run_well(scratch, &verify)?;
    }
    Ok(())
}

/// A further thread finds no memory for what it would record: the program goes on natively.
fn starved(scratch: &Scratch) -> Result<(), Verdict> {
    let command = guest_command("threads/little_memory", &[])?;
    let file = scratch.path().join("starved.unspool");
    let native_run = natively(scratch, &command);
    let observed_run = traced(scratch, &LARGE_BUFFER, &file, &command);
    let observed = runs_alike(scratch, &native_run, &observed_run)?;
    let says = "the recording ends here, because there is no memory for the trace buffer";
    if observed.stderr_text().matches(says).count() != 1 {
        return Err(wrong("it says once why", &observed_run, &observed));
    }
    let totals = totals(scratch, &file)?;
    let ended = totals["ended_early"].as_str().unwrap_or_default();
    match ended.contains("no memory for a further thread's trace buffer") {
        true => Ok(()),
        false => Err(Verdict::Wrong(format!("ended early: {totals}"))),
    }
}

/// The same where a filter keeps the process from being let go: the thread is refused.
fn starved_and_kept(scratch: &Scratch) -> Result<(), Verdict> {
    let command = guest_command("threads/little_memory", &["filtered"])?;
    let file = scratch.path().join("kept.unspool");
    let native = run_well(scratch, &natively(scratch, &command))?;
    let observed_run = traced(scratch, &LARGE_BUFFER, &file, &command);
    let observed = run_well(scratch, &observed_run)?;
    let says = "gets no further thread: there is no memory for the trace buffer";
    let is_refused = observed.stdout_text().contains("a thread: refused");
    if native.stdout_text().contains("a thread: refused")
        || !is_refused
        || !observed.stderr_text().contains(says)
        || !observed.stderr_text().contains("a seccomp filter")
    {
        return Err(wrong("the thread is refused", &observed_run, &observed));
    }
    totals(scratch, &file).map(drop)
}

/// What `info` says of a whole trace.
fn totals(scratch: &Scratch, file: &std::path::Path) -> Result<Value, Verdict> {
    let info = ["info".as_ref(), "--json".as_ref(), file.as_os_str()];
    let outcome = run_well(scratch, &unspool(scratch, &info))?;
    let parsed: Result<Value, _> = serde_json::from_slice(&outcome.stdout);
    let mut information = parsed.map_err(|problem| Verdict::Wrong(problem.to_string()))?;
    Ok(information["totals"].take())
}

/// The check can fail: the same program in no order at all.
fn no_order_is_told_apart(scratch: &Scratch) -> Result<(), Verdict> {
    let command = guest_command("order/threads_come_and_go", &[])?;
    let file = scratch.path().join("none.unspool");
    must_fail_once(20, || {
        let options = ["--order", "none", "--verify"];
        run_well(scratch, &traced(scratch, &options, &file, &command))?;
        let verify = verified(scratch, &file);
        let outcome = crate::observer::run(scratch, &verify)?;
        Ok(outcome.ending != unspool_guests::Ending::Exited(0))
    })
}
