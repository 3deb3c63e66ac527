//! Tools whose functions do not return: who wants the program to end gets that, and is told why.

use std::io::{BufRead, BufReader, Read};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::channel;
use std::time::Duration;

/// A program under a tool that misbehaves.
struct Run {
    child: Child,
    errors: BufReader<std::process::ChildStderr>,
}

/// How one has ended, and what it wrote.
struct Ended {
    status: ExitStatus,
    output: String,
    errors: String,
}

impl Run {
    /// A program under the tool that misbehaves so, when it does. No signal is ignored, as a shell
    /// has it of what it starts in the background.
    fn start(way: &str, program: &[&str]) -> Run {
        let mut child = Command::new("/usr/bin/env")
            .args(["--default-signal", env!("CARGO_BIN_EXE_tool-checks")])
            .args(["misbehave", way, "--"])
            .args(program)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .process_group(0)
            .spawn()
            .unwrap();
        let mut errors = BufReader::new(child.stderr.take().unwrap());
        let mut line = String::new();
        errors.read_line(&mut line).unwrap();
        assert_eq!(line, "tool: this takes long\n", "{way}");
        Run { child, errors }
    }

    fn send(&self, signal: &str) {
        let number = self.child.id().to_string();
        let sent = Command::new("/bin/kill").args([signal, &number]).status();
        assert!(sent.unwrap().success());
    }

    /// How it ends; what has not ended after so long is killed.
    fn end(mut self, limit: Duration) -> Ended {
        let (over, is_over) = channel::<()>();
        let number = self.child.id().to_string();
        let killer = std::thread::spawn(move || {
            if is_over.recv_timeout(limit).is_err() {
                let _ = Command::new("/bin/kill").args(["-KILL", &number]).status();
            }
        });
        let (mut output, mut errors) = (String::new(), String::new());
        self.errors.read_to_string(&mut errors).unwrap();
        let mut written = self.child.stdout.take().unwrap();
        written.read_to_string(&mut output).unwrap();
        let _ = over.send(());
        killer.join().unwrap();
        Ended {
            status: self.child.wait().unwrap(),
            output,
            errors,
        }
    }

    /// How it ends behind a signal.
    fn ended_by(self, signal: &str) -> Ended {
        self.send(signal);
        self.end(Duration::from_secs(90))
    }
}

/// Its first thread ends the process while the other one is in the tool.
const TWO_THREADS: [&str; 3] = [
    "/usr/bin/python3",
    "-c",
    "import _thread, os, time; _thread.start_new_thread(print, ()); time.sleep(0.3); os._exit(0)",
];

/// A signal that ends the program ends it ten seconds later, whatever the tool does, and the tool's
/// function is named. The control: a function that takes its time and returns. The program ends as
/// it does natively then, and nothing is said.
#[test]
fn a_tool_that_runs_for_ever_is_ended_by_a_signal() {
    std::thread::scope(|scope| {
        for (signal, way) in [
            ("-INT", "loop-in-call"),
            ("-TERM", "loop-in-instrument"),
            ("-HUP", "loop-with-memory"),
        ] {
            scope.spawn(move || {
                let ended = Run::start(way, &["/bin/true"]).ended_by(signal);
                let text = ended.errors;
                assert_eq!(ended.status.code(), Some(125), "{way}: {text}");
                for part in [
                    "error: the tool failed: for 10 seconds signal ",
                    "misbehave.rs:",
                    "help: this is a defect of the tool",
                ] {
                    assert!(text.contains(part), "{way}: {text}");
                }
            });
        }
        // Another thread waits for it: at its own start of it, and to end the process. Neither takes signals.
        for (way, what) in [
            ("loop-in-thread-start", "a thread that starts is in "),
            ("loop-in-other-thread", "a thread runs in "),
        ] {
            scope.spawn(move || {
                let ended = Run::start(way, &TWO_THREADS).ended_by("-TERM");
                let text = ended.errors;
                assert_eq!(ended.status.code(), Some(125), "{way}: {text}");
                for part in [
                    what,
                    "misbehave.rs:",
                    ", 10 seconds after a signal that is to end the program\n",
                ] {
                    assert!(text.contains(part), "{way}: {text}");
                }
            });
        }
        scope.spawn(|| {
            let ended = Run::start("slow-in-call", &["/bin/sleep", "90"]).ended_by("-TERM");
            assert_eq!(ended.status.signal(), Some(15), "{}", ended.errors);
            assert_eq!(ended.errors, "tool: the end\n");
        });
    });
}

/// A program that handles the signal is not ended by us: it is said who keeps the signal from it.
#[test]
fn a_signal_that_the_program_handles_waits() {
    let handling = [
        "/bin/sh",
        "-c",
        "trap 'echo got' TERM; echo before; echo after",
    ];
    let run = Run::start("loop-behind-output", &handling);
    run.send("-TERM");
    let ended = run.end(Duration::from_secs(14));
    let text = ended.errors;
    assert_eq!(ended.status.signal(), Some(9), "{text}");
    assert!(
        text.starts_with("warning: for 10 seconds signal 15 has waited"),
        "{text}"
    );
    assert_eq!(ended.output, "before\n");
}

/// What a thread has seen is not left out because it does not come to an end of it. Only with
/// `UNSPOOL_TEST_WHOLE`.
#[test]
fn a_thread_that_runs_for_ever_is_named_at_the_end() {
    if !is_whole() {
        return;
    }
    let ended = Run::start("loop-in-other-thread", &TWO_THREADS).end(Duration::from_secs(90));
    assert_eq!(ended.status.code(), Some(125), "{}", ended.errors);
    let expected = "60 seconds after another one has ended the program\n";
    assert!(ended.errors.contains(expected), "{}", ended.errors);
}

/// What takes long at the end of the program is let be, whatever signal comes. Only with
/// `UNSPOOL_TEST_WHOLE`.
#[test]
fn a_slow_end_is_no_endless_one() {
    if !is_whole() {
        return;
    }
    let program = ["/bin/sh", "-c", "echo done"];
    let ended = Run::start("slow-end", &program).ended_by("-TERM");
    assert_eq!(ended.output, "done\n");
    assert_eq!(ended.errors, "tool: the end\n");
}

/// The test command sets it with `--whole`: what takes long is left out otherwise.
fn is_whole() -> bool {
    let is_set = std::env::var_os("UNSPOOL_TEST_WHOLE").is_some();
    if !is_set {
        eprintln!("left out: it takes long, and UNSPOOL_TEST_WHOLE is not set");
    }
    is_set
}
