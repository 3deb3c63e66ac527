//! Tools that use up the memory of their control group.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

use unspool_guests::{Ending, Guest, Invocation, Outcome, catalog::programs_folder};

const LIMIT: u64 = 512 << 20;

/// A control group of the test's own, with a limit.
struct Group(PathBuf);

impl Group {
    /// `None`, with the reason said, where none can be made.
    fn new() -> Option<Group> {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let name = format!("unspool-tool-checks-{}-{number}", std::process::id());
        let kinds = [
            ("/sys/fs/cgroup/memory", "memory.limit_in_bytes"),
            ("/sys/fs/cgroup", "memory.max"),
        ];
        let found = kinds.iter().find_map(|(root, limit)| {
            let folder = Path::new(root).join(&name);
            fs::create_dir(&folder).ok()?;
            let group = Group(folder);
            fs::write(group.0.join(limit), LIMIT.to_string()).ok()?;
            // Where memory can be swapped out, the limit alone kills nobody.
            let _ = fs::write(group.0.join("memory.swappiness"), "0");
            let _ = fs::write(group.0.join("memory.swap.max"), "0");
            Some(group)
        });
        if found.is_none() {
            eprintln!("left out: no control group can be made that limits memory");
        }
        found
    }

    /// A program under a tool that does wrong, in the group.
    fn run(&self, way: &str, program: &[&str]) -> Outcome {
        let script = format!("echo $$ > {}/cgroup.procs && exec \"$@\"", self.0.display());
        let tool = env!("CARGO_BIN_EXE_tool-checks");
        let invocation = Invocation::new("/bin/sh")
            .arguments(["-c", &script, "sh", tool, "misbehave", way, "--"])
            .arguments(program);
        super::run(invocation, &format!("shortage-{way}"))
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        // What died a moment ago may still be in it.
        for _ in 0..50 {
            if fs::remove_dir(&self.0).is_ok() {
                return;
            }
            std::thread::sleep(std::time::Duration::from_millis(20));
        }
    }
}

const PROGRAM: [&str; 2] = ["/bin/ls", "/usr/lib"];

/// A tool that takes more and more is named with its line before the kernel kills it.
#[test]
fn a_tool_that_takes_all_memory_is_named() {
    let Some(group) = Group::new() else {
        return;
    };
    for way in ["leak", "leak-in-one-block"] {
        let outcome = group.run(way, &PROGRAM);
        let text = outcome.stderr_text();
        assert_eq!(outcome.ending, Ending::Exited(125), "{way}: {text}");
        for part in [
            "tool: no memory for ",
            "error: the tool failed: ",
            " MiB of memory are left of the 512 MiB that its control group has; the tool and unspool have allocated ",
            "misbehave.rs:",
            "help: this is a defect of the tool",
            "help: raise the limit of the control group",
        ] {
            assert!(text.contains(part), "{way}: {part}: {text}");
        }
    }
}

/// The control: a tool that stays within what there is lives.
#[test]
fn a_tool_that_takes_much_memory_lives() {
    let Some(group) = Group::new() else {
        return;
    };
    let outcome = group.run("keep", &PROGRAM);
    let text = outcome.stderr_text();
    assert_eq!(outcome.ending, Ending::Exited(0), "{text}");
    assert!(text.contains("tool: the end"), "{text}");
}

/// What a program does that takes so many MiB under such a tool.
fn filled(way: &str, mebibytes: &str) -> Option<Outcome> {
    let group = Group::new()?;
    let source = programs_folder().join("processes/parts/fills.c");
    let text = fs::read_to_string(&source).expect("there is such a program");
    let guest = Guest::parse("processes/fills", &source, &text).expect("it is a guest");
    let program = super::WORKSHOP.build(&guest, "").expect("gcc is there");
    let program = program.to_str().expect("its name is ours");
    Some(group.run(way, &[program, mebibytes]))
}

/// Where it is the program that takes most, the tool is named as the one who wants more, and not blamed.
#[test]
fn a_program_that_takes_all_memory_is_not_the_tools_fault() {
    let Some(outcome) = filled("leak-slowly", "400") else {
        return;
    };
    let text = outcome.stderr_text();
    assert_eq!(outcome.ending, Ending::Exited(125), "{text}");
    for part in [
        "error: there is no memory left for observing the program: ",
        "and the tool wants 131072 bytes more in ",
        "misbehave.rs:",
    ] {
        assert!(text.contains(part), "{part}: {text}");
    }
    assert!(!text.contains("the tool failed"), "{text}");
}

/// Under a tool that takes little, the kernel kills a program that takes too much, as it does natively.
#[test]
fn a_program_alone_is_the_kernels_matter() {
    if let Some(outcome) = filled("none", "600") {
        let text = outcome.stderr_text();
        assert_eq!(outcome.ending, Ending::Signalled(9), "{text}");
        assert!(!text.contains("memory"), "{text}");
    }
}
