//! What is left of an analysis in the process that it is about when that does not end by itself.

use std::time::Duration;

use libtest_mimic::Trial;
use unspool_guests::{Ending, Outcome, Requirement};

use crate::observer::{COMMAND, Verdict, natively, require, run, run_well, trial, unspool, wrong};
use crate::order::guest_command;
use crate::scratch::Scratch;

/// What `verify` says of a program whose records are not all there.
const SO_FAR: &str = "the order explains the values of all";

pub(super) fn trials() -> Vec<Trial> {
    let mut trials = Vec::new();
    // SIGINT, SIGABRT, SIGTERM
    for signal in [2, 6, 15] {
        trials.push(trial(
            format!("live::ended_by_signal::{signal}"),
            move |scratch| {
                let end = ended_by(scratch, signal, "", "")?;
                end.must(&end.said.contains("passed: "), "all of it is answered")
            },
        ));
    }
    trials.push(trial("live::killed".to_owned(), |scratch| {
        let end = ended_by(scratch, 9, "", "")?;
        let is_told = end.said.contains("killed; what had been found until then:");
        end.must(&(is_told && end.said.contains(SO_FAR)), "it is told")
    }));
    trials.push(trial("live::killed::with_a_file".to_owned(), |scratch| {
        let end = ended_by(scratch, 9, "-o answer", "")?;
        let path = scratch.work().join("answer");
        let partial = format!("{}.{}.partial", path.display(), end.process);
        end.must(
            &(end.said.contains(&partial) && !path.exists()),
            "it says where",
        )?;
        let kept = std::fs::read_to_string(&partial)?;
        end.must(&kept.contains(SO_FAR), &format!("it is kept: {kept}"))
    }));
    trials.push(trial("live::ended_with_a_file".to_owned(), |scratch| {
        let end = ended_by(scratch, 15, "-o answer", "pass\n")?;
        let answer = std::fs::read_to_string(scratch.work().join("answer"))?;
        let left = std::fs::read_dir(scratch.work())?.filter_map(|entry| entry.ok());
        let partial = left.filter(|entry| entry.file_name().to_string_lossy().contains("partial"));
        let is_alone = partial.count() == 0;
        end.must(&(answer.contains("passed: ") && is_alone), &answer)
    }));
    // The control: nobody else says it.
    trials.push(trial("live::killed::control".to_owned(), |scratch| {
        let kill = "keeper = open(f'/proc/{p.pid}/task/{p.pid}/children').read().split()\n\
                    os.kill(int(keeper[0]), 9)\n";
        let end = ended_by(scratch, 9, "", kill)?;
        end.must(&end.said.is_empty(), "nothing is said")
    }));
    trials.push(trial("live::too_much_waits".to_owned(), too_much_waits));
    trials
}

/// How a run of a program that never ends by itself has ended.
struct End {
    process: u32,
    /// What was said on standard error.
    said: String,
    outcome: Outcome,
    invocation: unspool_guests::Invocation,
}

impl End {
    fn must(&self, holds: &bool, what: &str) -> Result<(), Verdict> {
        match holds {
            true => Ok(()),
            false => Err(wrong(
                &format!("{what}; said: {}", self.said),
                &self.invocation,
                &self.outcome,
            )),
        }
    }
}

/// Analyses a guest with threads, and sends it a signal once something was found. `before` is done
/// just before.
fn ended_by(scratch: &Scratch, signal: i32, options: &str, before: &str) -> Result<End, Verdict> {
    require(&[Requirement::Program("python3".to_owned())])?;
    let guest = guest_command("order/sleeper", &["1000000000"])?;
    let script = format!(
        "import os, signal, subprocess, time\n\
         # What starts the tests may have them ignore signals.\n\
         if {signal} != signal.SIGKILL: signal.signal({signal}, signal.SIG_DFL)\n\
         command = ['{}', 'verify', '--unchecked', '100', *'{options}'.split(), '--', '{}', '1000000000']\n\
         said = open('said', 'w')\n\
         p = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=said)\n\
         def ticks():\n\
         \x20   fields = open(f'/proc/{{p.pid}}/stat').read().rsplit(')', 1)[1].split()\n\
         \x20   return int(fields[11]) + int(fields[12])\n\
         while ticks() < 100: time.sleep(0.1)\n\
         time.sleep(1.5)\n\
         {before}\
         os.kill(p.pid, {signal})\n\
         assert p.wait() == -{signal}, p.returncode\n\
         patience = 1 if {is_silent} else 60\n\
         while patience > 0 and not os.path.getsize('said'):\n\
         \x20   time.sleep(0.1)\n\
         \x20   patience -= 0.1\n\
         time.sleep(0.5)\n\
         print(p.pid)",
        COMMAND.display(),
        guest[0].display(),
        is_silent = if before.is_empty() { "False" } else { "True" },
    );
    let invocation = natively(scratch, &["python3", "-c", &script]).limit(Duration::from_secs(120));
    let outcome = run_well(scratch, &invocation)?;
    let process = outcome.stdout_text().trim().parse();
    Ok(End {
        process: process.map_err(|_| wrong("it says the process", &invocation, &outcome))?,
        said: std::fs::read_to_string(scratch.work().join("said"))?,
        outcome,
        invocation,
    })
}

/// What is found before too much waits for a thread is answered, with what to do about the rest.
fn too_much_waits(scratch: &Scratch) -> Result<(), Verdict> {
    let guest = guest_command("order/sleeper", &["300"])?;
    let run_with = |options: &[&str]| {
        let observed = unspool(scratch, &["verify", "--unchecked", "100"])
            .arguments(options.iter().chain(&["--"]))
            .arguments(&guest);
        run(scratch, &observed).map(|outcome| (outcome, observed))
    };
    let (outcome, observed) = run_with(&["--max-waiting", "64K"])?;
    let said = outcome.stderr_text();
    let is_told = said.contains("the analysis ended before the program did")
        && said.contains("help: let more wait with --max-waiting")
        && said.contains("passed as far as the trace goes");
    if !is_told || outcome.ending != Ending::Exited(2) {
        return Err(wrong("it says what to do", &observed, &outcome));
    }
    // The controls: the same run as usual, and where nobody is waited for.
    for options in [&[][..], &["--max-waiting", "64K", "--order", "none"]] {
        let (outcome, observed) = run_with(options)?;
        if outcome.stderr_text().contains("ended before") {
            return Err(wrong("nothing waits too long", &observed, &outcome));
        }
    }
    Ok(())
}
