//! What of a program of OpenMP may run at the same time, though one thread executes it. That no more is
//! told than there is show the programs `openmp_*` of `crates/guests/races`, as all others do.

use std::path::Path;

use libtest_mimic::Trial;
use serde_json::Value;
use unspool_guests::{Ending, Invocation};

use super::{BUILDS, answers, folder, told};
use crate::observer::{Verdict, run, run_well, trial, unspool, wrong};
use crate::scratch::Scratch;

pub(super) fn trials() -> Vec<Trial> {
    vec![
        trial("races::openmp::one_thread".to_owned(), one_thread),
        trial("races::openmp::recorded".to_owned(), recorded),
        trial("races::openmp::static".to_owned(), static_program),
        trial("races::openmp::many_tasks".to_owned(), many_tasks),
    ]
}

/// The two tasks of one thread race; as threads ran they do not.
fn one_thread(scratch: &Scratch) -> Result<(), Verdict> {
    let program = BUILDS[2].of(scratch, &folder().join("openmp_one_thread.c"))?;
    let (as_it_ran, command) = answers_without(scratch, &program)?;
    if !races(&as_it_ran).is_empty() {
        let text = format!("one thread executes both: {as_it_ran:#}");
        return Err(told(text, &command));
    }
    let (answer, command) = answers(scratch, &program, &[])?;
    let is_in_task = |race: &Value, side: &str| {
        let part = &race[side]["part"];
        let made = part["made"]["line"].as_str().unwrap_or_default();
        part["kind"] == "task" && made.contains("openmp_one_thread.c:")
    };
    let is_of_one_thread = |race: &Value| race["first"]["thread"] == race["second"]["thread"];
    let races = races(&answer);
    let is_right = races.iter().all(|race| {
        is_in_task(race, "first") && is_in_task(race, "second") && is_of_one_thread(race)
    });
    match is_right && !races.is_empty() {
        true => Ok(()),
        false => Err(told(
            format!("two tasks of one thread race: {answer:#}"),
            &command,
        )),
    }
}

fn answers_without(scratch: &Scratch, program: &Path) -> Result<(Value, Invocation), Verdict> {
    super::answers_with(scratch, program, &["--no-openmp"], &["--no-openmp"])
}

fn races(answer: &Value) -> Vec<Value> {
    let lists = ["races", "possible", "uncertain"].into_iter();
    let lists = lists.filter_map(|list| answer[list].as_array());
    lists.flatten().cloned().collect()
}

/// A trace with the calls of the runtime gives the same, and one without them what threads did.
fn recorded(scratch: &Scratch) -> Result<(), Verdict> {
    let program = BUILDS[2].of(scratch, &folder().join("openmp_one_thread.c"))?;
    for (options, status) in [(&["--openmp"][..], 66), (&[], 0)] {
        let trace = scratch.path().join("trace");
        let record = unspool(scratch, &["trace", "-o"])
            .arguments([&trace])
            .arguments(options)
            .arguments([&program]);
        run_well(scratch, &record)?;
        let read = unspool(scratch, &["race"]).arguments([&trace]);
        let outcome = run(scratch, &read)?;
        if outcome.ending != Ending::Exited(status) {
            return Err(wrong(
                &format!("it must end with {status}"),
                &read,
                &outcome,
            ));
        }
    }
    Ok(())
}

/// A runtime in the program itself is known by its symbols. Stacks and thread-local variables lie otherwise
/// in such programs.
fn static_program(scratch: &Scratch) -> Result<(), Verdict> {
    let sources = ["one_thread", "task_of_worker", "task_of_own_thread"];
    let sources = sources.map(|name| folder().join(format!("openmp_{name}.c")));
    for source in &sources {
        for (racy, status) in [("-DRACY", 66), ("-DNOTHING", 0)] {
            let program = scratch.path().join("static");
            let compile = Invocation::new("gcc")
                .arguments(["-g", "-static", "-pthread", "-fopenmp", racy])
                .arguments([source.as_os_str(), "-o".as_ref(), program.as_os_str()]);
            run_well(scratch, &compile)?;
            let live = unspool(scratch, &["race", "--"]).arguments([&program]);
            let outcome = run(scratch, &live)?;
            if outcome.ending != Ending::Exited(status) {
                let must = format!("{} must end with {status}", source.display());
                return Err(wrong(&must, &live, &outcome));
            }
        }
    }
    Ok(())
}

/// More tasks than are known at once: what was forgotten is said, and nothing is made up.
fn many_tasks(scratch: &Scratch) -> Result<(), Verdict> {
    let source = scratch.path().join("many_tasks.c");
    let text = "#include <stdlib.h>\n\
        long values[20000];\n\
        int main(void) {\n\
        #pragma omp parallel num_threads(2)\n\
        #pragma omp single\n\
            for (long number = 0; number < 20000; number++) {\n\
        #pragma omp task\n\
                values[number] = number;\n\
            }\n\
            return values[1] != 1;\n\
        }\n";
    std::fs::write(&source, text)?;
    let program = scratch.path().join("many_tasks");
    let compile = Invocation::new("gcc")
        .arguments(["-g", "-fopenmp"])
        .arguments([source.as_os_str(), "-o".as_ref(), program.as_os_str()]);
    run_well(scratch, &compile)?;
    let (answer, command) = answers(scratch, &program, &[])?;
    let has_said = answer["begun_anew"].as_u64().is_some_and(|count| count > 0);
    match has_said && races(&answer).is_empty() {
        true => Ok(()),
        false => Err(told(
            format!("no races, and much forgotten: {answer:#}"),
            &command,
        )),
    }
}
