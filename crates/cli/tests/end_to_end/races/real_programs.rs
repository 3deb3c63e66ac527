//! `unspool race` on programs that many people have looked at for races: none is reported. That
//! races are found where there are some is what the small programs beside this show.

use std::path::PathBuf;
use std::time::Duration;

use libtest_mimic::Trial;
use serde_json::Value;
use unspool_guests::{Ending, Requirement};

use crate::observer::{
    COMMAND, Verdict, example, natively, require, run, run_well, trial, unspool, wrong,
};
use crate::scratch::Scratch;

/// A program with threads, at work.
struct Case {
    name: &'static str,
    needs: &'static [&'static str],
    /// Ends with the program's end, and with its status.
    script: &'static str,
}

/// `observed` observes, `data` is text of half a megabyte, and `served` observes a server while
/// `client.py` talks to it.
const CASES: [Case; 7] = [
    Case {
        name: "xz",
        needs: &["xz"],
        script: "observed xz -k -c -0 -T2 --block-size=300000 data | xz -d | cmp - data",
    },
    Case {
        name: "pigz",
        needs: &["pigz"],
        script: "observed pigz -c -1 -p 2 data | pigz -d | cmp - data",
    },
    Case {
        name: "zstd",
        needs: &["zstd"],
        script: "observed zstd -q -c -1 -T2 data | zstd -q -d | cmp - data",
    },
    Case {
        name: "sort",
        needs: &["sort"],
        script: "observed sort --parallel=2 -S 64M -o sorted data data data data && sort -c sorted",
    },
    Case {
        name: "sqlite3",
        needs: &[],
        script: "observed python3 insert.py",
    },
    Case {
        name: "redis",
        needs: &["redis-server"],
        script: "served redis observed redis-server --unixsocket ./socket --port 0 --save '' \
                 --appendonly no --io-threads 2 --io-threads-do-reads yes",
    },
    Case {
        name: "memcached",
        needs: &["memcached"],
        script: "served memcached observed memcached -u root -s ./socket -t 2",
    },
];

/// A socket's path must be short, and not every file system that holds a checkout has sockets: the
/// server works in a folder for what is temporary.
const FUNCTIONS: &str = "
work=$PWD
observed() { \"$unspool\" race --json -o \"$work/answer\" -- \"$@\"; }
served() {
    client=$1; shift
    folder=$(mktemp -d) && cd \"$folder\" || return
    \"$@\" > \"$work/log\" & server=$!
    python3 \"$work/client.py\" \"$client\" && wait \"$server\"
    status=$?; cd \"$work\"; rm -r \"$folder\"; return \"$status\"
}
";

const INSERT: &str = "
import sqlite3, threading
sqlite3.connect('base').execute('create table counts (thread, number)')
def insert(thread):
    base = sqlite3.connect('base', timeout=60)
    for number in range(20):
        with base:
            base.execute('insert into counts values (?, ?)', (thread, number))
threads = [threading.Thread(target=insert, args=(thread,)) for thread in range(2)]
for thread in threads: thread.start()
for thread in threads: thread.join()
assert sqlite3.connect('base').execute('select sum(number) from counts').fetchone() == (380,)
";

/// Two connections, and then the order to end: SHUTDOWN, or `shutdown` where -A allows it.
const CLIENT: &str = "
import os, signal, socket, struct, sys, threading, time
def connected():
    for attempt in range(2000):
        try:
            connection = socket.socket(socket.AF_UNIX)
            connection.connect('socket')
            return connection
        except OSError:
            time.sleep(0.1)
    sys.exit('no server')
def ask(stream, text, until):
    stream.write(text); stream.flush()
    line = stream.readline()
    while line and not line.startswith(until): line = stream.readline()
    assert line, text
def redis(stream, number):
    ask(stream, b'SET key%d %d\\r\\n' % (number % 5, number), b'+OK')
    ask(stream, b'INCR counter\\r\\n', b':')
def memcached(stream, number):
    ask(stream, b'set key%d 0 0 5\\r\\nhello\\r\\n' % (number % 5), b'STORED')
    ask(stream, b'get key%d\\r\\n' % (number % 5), b'END')
questions = {'redis': redis, 'memcached': memcached}[sys.argv[1]]
def talk():
    stream = connected().makefile('rwb')
    for number in range(50): questions(stream, number)
threads = [threading.Thread(target=talk) for _ in range(2)]
for thread in threads: thread.start()
for thread in threads: thread.join()
connection = connected()
peer, = struct.unpack('i8x', connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))
os.kill(peer, signal.SIGTERM if sys.argv[1] == 'redis' else signal.SIGINT)
";

pub(super) fn trials() -> Vec<Trial> {
    let mut trials = Vec::new();
    for case in CASES {
        trials.push(trial(
            format!("races::real_programs::{}", case.name),
            move |scratch| has_none(scratch, &case),
        ));
    }
    trials.push(trial(
        "races::real_programs::work_stealing".to_owned(),
        |scratch| {
            let program = example("work_stealing")?;
            let script = "observed \"$program\" > sums && [ \"$(cat sums)\" = '3999 2500 4900' ]";
            looked_at(scratch, script, Some(program))
        },
    ));
    trials.push(trial(
        "races::answer_that_cannot_be_written".to_owned(),
        answer_is_told,
    ));
    trials
}

fn has_none(scratch: &Scratch, case: &Case) -> Result<(), Verdict> {
    let needed = case.needs.iter().chain(&["python3", "cmp"]);
    let needed: Vec<_> = needed
        .map(|program| Requirement::Program((*program).to_owned()))
        .collect();
    require(&needed)?;
    looked_at(scratch, case.script, None)
}

/// No race is found, and accesses of several threads were compared.
fn looked_at(scratch: &Scratch, script: &str, program: Option<PathBuf>) -> Result<(), Verdict> {
    let folder = scratch.work();
    std::fs::create_dir_all(folder)?;
    let lines = (0..40_000_u64).map(|number| format!("{} of {number}\n", number * 7919 % 40_009));
    std::fs::write(folder.join("data"), lines.collect::<String>())?;
    std::fs::write(folder.join("insert.py"), INSERT)?;
    std::fs::write(folder.join("client.py"), CLIENT)?;
    let script = format!("{FUNCTIONS}{script}");
    let shell = natively(scratch, &["bash", "-o", "pipefail", "-c", &script])
        .variable("unspool", COMMAND.as_os_str())
        .variable("program", program.unwrap_or_default())
        .limit(Duration::from_secs(240));
    let outcome = run_well(scratch, &shell)?;
    let answer: Value = serde_json::from_str(&std::fs::read_to_string(folder.join("answer"))?)
        .map_err(|problem| Verdict::Wrong(format!("no JSON: {problem}")))?;
    let is_empty = |list: &str| answer[list].as_array().is_some_and(Vec::is_empty);
    let compared = answer["accesses_checked"].as_u64();
    if !is_empty("races") || !is_empty("uncertain") || compared.is_none_or(|count| count < 10_000) {
        let expected = format!("no race must be found, of many accesses: {answer:#}");
        return Err(wrong(&expected, &shell, &outcome));
    }
    Ok(())
}

/// A program may take away what the answer was to be written to.
fn answer_is_told(scratch: &Scratch) -> Result<(), Verdict> {
    let script = "rmdir folder; exit 0";
    let live = unspool(
        scratch,
        &["race", "-o", "folder/answer", "--children=leave"],
    )
    .arguments(["--", "sh", "-c", script]);
    std::fs::create_dir_all(scratch.work().join("folder"))?;
    let outcome = run(scratch, &live)?;
    let talk = outcome.stderr_text();
    let is_told =
        talk.contains("/folder/answer: No such file or directory") && talk.contains("no races");
    match outcome.ending == Ending::Exited(125) && is_told {
        true => Ok(()),
        false => Err(wrong("the answer must be told in place", &live, &outcome)),
    }
}
