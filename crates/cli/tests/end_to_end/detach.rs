//! Processes that are let go run natively from there on, and end as if they had never been
//! observed: after a time, at a region's end, when somebody asks, or because they are to be traced.

use std::ffi::OsString;

use libtest_mimic::Trial;
use unspool_guests::{Ending, Requirement};

use crate::observer::{COMMAND, Verdict, natively, require, run, trial, wrong};
use crate::order::guest_command;
use crate::scratch::Scratch;

/// A shell script, in which `$UNSPOOL` is the command and `$GUEST` a guest that does everything
/// at once for a number of milliseconds.
struct Case {
    name: &'static str,
    needs: &'static [&'static str],
    script: &'static str,
    /// What it prints.
    prints: &'static str,
    /// What is found on standard error.
    says: &'static [&'static str],
}

const IS_LET_GO: &str = "is let go: it runs natively from here on";

const CASES: &[Case] = &[
    Case {
        name: "after_a_time::run",
        needs: &[],
        script: "\
            for after in 0.1 0.15 0.2; do \
                rm -f said; $UNSPOOL run --detach-after $after -- $GUEST 30000 running 2>said & \
                until grep -q 'is let go' said; do sleep 0.05; done; \
                until rm running; do sleep 0.05; done 2>&-; wait $!; cat said >&2; \
            done",
        prints: "all states\nall states\nall states\n",
        says: &[IS_LET_GO],
    },
    Case {
        name: "after_a_time::trace",
        needs: &[],
        script: "$UNSPOOL trace --detach-after 0.3 -o all.unspool -- $GUEST 3000 && $UNSPOOL info all.unspool >info && echo whole",
        prints: "all states\nwhole\n",
        says: &[IS_LET_GO, "nothing dropped"],
    },
    Case {
        name: "after_a_time::tool",
        needs: &[],
        script: "$UNSPOOL tool run --detach-after 0.3 instruction-count -- $GUEST 3000",
        prints: "all states\n",
        says: &[IS_LET_GO],
    },
    Case {
        name: "when_asked",
        needs: &[],
        script: "\
            $UNSPOOL run -- $GUEST 30000 running & until test -e running; do sleep 0.05; done; \
            $UNSPOOL detach $!; echo detached $?; \
            $UNSPOOL detach $!; echo again $?; \
            rm running; wait $!; echo ended $?",
        prints: "detached 0\nagain 125\nall states\nended 0\n",
        says: &[IS_LET_GO, "it is not observed by unspool"],
    },
    Case {
        name: "while_stopped",
        needs: &[],
        script: "\
            $UNSPOOL run -- $GUEST 30000 running & until test -e running; do sleep 0.05; done; \
            kill -STOP $!; \
            $UNSPOOL detach $!; echo detached $?; \
            sed -n 's/^State:.\\(.\\).*/\\1/p' /proc/$!/status; \
            kill -CONT $!; rm running; wait $!; echo ended $?",
        prints: "detached 0\nT\nall states\nended 0\n",
        says: &[IS_LET_GO],
    },
    Case {
        name: "children",
        needs: &[],
        script: "\
            $UNSPOOL run -- sh -c '\"$0\" 30000 running; echo shell' $GUEST & \
            until test -e running; do sleep 0.05; done; \
            $UNSPOOL detach --children $!; echo detached $?; \
            rm running; wait $!; echo ended $?",
        prints: "detached 0\nall states\nshell\nended 0\n",
        says: &[IS_LET_GO],
    },
    Case {
        name: "at_a_regions_end",
        needs: &[],
        script: "$UNSPOOL trace --detach-at-region-end -o marks.unspool -- $MARKS >addresses && $UNSPOOL info marks.unspool >info && echo whole; \
            $UNSPOOL export --format tsv marks.unspool >all.tsv; \
            for word in before in after; do \
                address=$(sed -n \"s/^$word //p\" addresses); \
                grep -q $address all.tsv && echo $word; \
            done; true",
        prints: "whole\nbefore\nin\n",
        says: &[IS_LET_GO],
    },
    Case {
        name: "waits_go_on",
        needs: &[],
        script: "\
            $UNSPOOL run --detach-after 0.7 -- $WAITS 1500; \
            $UNSPOOL trace --detach-after 0.7 -o waits.unspool -- $WAITS 1500",
        prints: "all in time\nall in time\n",
        says: &[IS_LET_GO],
    },
    Case {
        name: "waits_go_on_where_it_is_refused",
        needs: &[],
        script: "\
            $UNSPOOL tool run heap-overflow -- $WAITS 1500 & \
            for one in 1 2 3 4; do sleep 0.3; $UNSPOOL detach $!; done; wait $!",
        prints: "all in time\n",
        says: &["stays under observation: the tool has replaced functions"],
    },
    Case {
        name: "waits_go_on_between_regions",
        needs: &[],
        script: "$UNSPOOL trace --roi -o waits.unspool -- $WAITS 1000 8",
        prints: "all in time\n",
        says: &[],
    },
    Case {
        name: "signals_to_threads_that_stand_still",
        needs: &[],
        script: "$UNSPOOL run --detach-after 0.5 -- $STANDING",
        prints: "interrupted\n",
        says: &[IS_LET_GO],
    },
    Case {
        name: "under_filters",
        needs: &[],
        script: "\
            $UNSPOOL run --detach-after 0.5 -- $FILTERED 2500; echo ended $?; \
            $UNSPOOL trace --detach-after 0.7 -o filtered.unspool -- $FILTERED 2500; echo ended $?; \
            $UNSPOOL run -- $FILTERED 4000 & sleep 1; $UNSPOOL detach $!; echo detached $?; \
            wait $!; echo ended $?",
        prints: "under filters all the time\nended 159\nunder filters all the time\nended 159\n\
            detached 0\nunder filters all the time\nended 159\n",
        says: &[IS_LET_GO],
    },
    Case {
        name: "refused::supervised",
        needs: &[],
        script: "$UNSPOOL run --detach-after 0.3 -- $FILTERED 800 supervised; echo ended $?",
        prints: "under filters all the time\nended 159\n",
        says: &["stays under observation: a seccomp filter judges its system calls"],
    },
    Case {
        name: "not_observed",
        needs: &[],
        script: "sleep 5 & $UNSPOOL detach $!; echo $?; kill $!; $UNSPOOL detach 999999999; echo $?",
        prints: "125\n125\n",
        says: &["it is not observed by unspool", "there is no such process"],
    },
    Case {
        name: "refused::replaced_functions",
        needs: &[],
        script: "$UNSPOOL tool run --detach-after 0.3 heap-overflow -- $GUEST 1000",
        prints: "all states\n",
        says: &["stays under observation: the tool has replaced functions"],
    },
    Case {
        name: "for::strace",
        needs: &["strace"],
        script: "\
            mkdir folder; touch folder/one folder/two; \
            $UNSPOOL run -- strace -f -o log sh -c 'ls folder; echo $?'; echo ended $?; \
            grep -c -e SIGSEGV -e 'SIGRT_32' -e arch_prctl.0x1001 log; grep -q 'exit_group(0)' log && echo logged",
        prints: "one\ntwo\n0\nended 0\n0\nlogged\n",
        says: &[IS_LET_GO],
    },
    Case {
        name: "for::strace_of_a_process",
        needs: &["strace"],
        script: "\
            $UNSPOOL run -- sh -c '\"$0\" 6000 & sleep 0.5; strace -f -o log -p $! ; wait $!; echo guest $?' $GUEST; \
            grep -c SIGSEGV log; grep -q exit_group log && echo logged",
        prints: "all states\nguest 0\n0\nlogged\n",
        says: &[IS_LET_GO],
    },
    Case {
        name: "for::gdb",
        needs: &["gdb"],
        script: "$UNSPOOL run -- gdb -nx -batch -ex 'break compute' -ex run -ex 'info symbol $pc' -ex delete -ex 'handle all nostop noprint' -ex continue --args $GUEST 200 >log 2>&1; \
            grep -o '^compute' log; grep -o 'all states' log; grep -o 'exited normally' log",
        prints: "compute\nall states\nexited normally\n",
        says: &[],
    },
    Case {
        name: "python",
        needs: &["/usr/bin/python3"],
        script: "$UNSPOOL run --detach-after 0.4 -- /usr/bin/python3 -c '\
import json, re, threading, time
end = time.monotonic() + 1.5
total = [0] * 3
def work(number):
    while time.monotonic() < end:
        text = json.dumps({str(i): [i, number] for i in range(50)})
        assert len(re.findall(\"[0-9]+\", text)) == 150
        time.sleep(0.001)
        total[number] += 1
threads = [threading.Thread(target=work, args=(i,)) for i in range(3)]
[thread.start() for thread in threads]
[thread.join() for thread in threads]
print(min(total) > 0)'",
        prints: "True\n",
        says: &[IS_LET_GO],
    },
];

pub(crate) fn trials() -> Vec<Trial> {
    let mut trials: Vec<Trial> = CASES
        .iter()
        .map(|case| {
            trial(format!("detach::{}", case.name), |scratch| {
                check(scratch, case)
            })
        })
        .collect();
    trials.push(trial("detach::speed".to_owned(), speed));
    trials
}

fn guest(name: &str) -> Result<OsString, Verdict> {
    Ok(guest_command(name, &[])?.swap_remove(0))
}

fn check(scratch: &Scratch, case: &Case) -> Result<(), Verdict> {
    let needs = case.needs.iter().map(|&need| match need.starts_with('/') {
        true => Requirement::File(need.into()),
        false => Requirement::Program(need.to_owned()),
    });
    require(&needs.collect::<Vec<_>>())?;
    let invocation = natively(scratch, &["/bin/sh", "-c", case.script])
        .variable("UNSPOOL", COMMAND.as_os_str())
        .variable("GUEST", guest("processes/many_states")?)
        .variable("MARKS", guest("annotated/marks")?)
        .variable("WAITS", guest("processes/relative_waits")?)
        .variable("FILTERED", guest("seccomp/let_go")?)
        .variable("STANDING", guest("processes/signals_to_standing")?);
    let outcome = run(scratch, &invocation)?;
    let said = outcome.stderr_text();
    if outcome.stdout_text().contains("cannot tell") {
        return Err(Verdict::CannotTell("the machine is too busy".to_owned()));
    }
    let is_said = case.says.iter().all(|text| said.contains(text));
    let is_well = outcome.ending == Ending::Exited(0);
    if is_well && is_said && outcome.stdout_text() == case.prints {
        return Ok(());
    }
    let expected = format!("it prints {:?} and says {:?}", case.prints, case.says);
    Err(wrong(&expected, &invocation, &outcome))
}

/// What a loop takes of the processor's time when the program is let go, as it says itself, against
/// what it takes natively: traced it would be many times as much.
fn speed(scratch: &Scratch) -> Result<(), Verdict> {
    const MOST: f64 = 1.5;
    let program = guest("processes/time_of_a_loop")?;
    let options = ["trace", "--discard", "--detach-after", "0.3", "--"];
    let let_go = natively(scratch, &[COMMAND.as_os_str()])
        .arguments(options)
        .arguments([&program]);
    let native = natively(scratch, &[&program]);
    let mut ratio = f64::MAX;
    // Both are disturbed by what else runs on the machine, but not always.
    for _ in 0..5 {
        let time = |invocation| -> Result<f64, Verdict> {
            let outcome = run(scratch, invocation)?;
            let text = outcome.stdout_text();
            let time = text.trim().parse();
            time.map_err(|_| wrong("the guest prints a time", invocation, &outcome))
        };
        ratio = ratio.min(time(&let_go)? / time(&native)?);
        if ratio < MOST {
            return Ok(());
        }
    }
    Err(Verdict::Wrong(format!(
        "the loop takes {ratio} times as long as natively\nreplay: {}",
        let_go.command_line()
    )))
}
