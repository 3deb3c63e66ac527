//! Code in two versions: each thread executes the one that its switch says, and both together are what
//! is executed.

use super::{agrees, build, says, under};

/// Faults, traps, signals, threads, processes, code that changes.
const GUESTS: &[&str] = &[
    "instructions/counted",
    "instructions/strings",
    "instructions/flags",
    "instructions/avx2",
    "signals/exact_context",
    "signals/changed_context",
    "signals/fault_repaired",
    "signals/fault_escaped",
    "signals/timers",
    "signals/to_threads",
    "signals/red_zone",
    "signals/registers_kept",
    "control/long_jumps",
    "control/unwinding",
    "threads/create_and_join_often",
    "threads/exit_while_others_run",
    "threads/mutex_kinds",
    "processes/fork_tree",
    "processes/fork_among_threads",
    "processes/vfork",
    "processes/execute",
    "memory/self_modifying",
    "memory/generated_code",
    "memory/code_from_another_process",
    "memory/cross_modifying",
    "functions/nested",
    "cxx/exceptions",
];

fn all_agree(tool: &[&str]) {
    for name in GUESTS {
        agrees(tool, name, says("versions ", "as switched"));
    }
}

#[test]
fn threads_execute_the_version_that_they_have_chosen() {
    all_agree(&["versions"]);
}

/// The same where registers are bound for a buffer.
#[test]
fn so_they_do_with_buffers() {
    all_agree(&["versions", "bound"]);
}

/// Another thread turns all switches at any time.
#[test]
fn switches_of_other_threads_are_turned_at_any_time() {
    all_agree(&["versions", "bound", "everywhere"]);
}

/// The control: what is not counted in one version, and a switch that is expected to be off there, are
/// noticed.
#[test]
fn another_version_is_noticed() {
    let (guest, program) = build("instructions/counted").expect("it needs nothing but gcc");
    for way in ["versions", "bound"] {
        let tool = ["versions", "spoilt", way];
        let outcome = under(&tool, &program, &guest.arguments, &tool.join("-"));
        let text = outcome.stderr_text();
        assert!(text.contains("versions NOT as switched"), "{text}");
    }
}
