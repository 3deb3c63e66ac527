//! What functions append stands where the thread was.

use super::agrees;

fn line(line: &str) -> Option<bool> {
    line.starts_with("appended ")
        .then(|| line.starts_with("appended in order: "))
}

/// Faults, signals, system calls, threads, processes: entries of functions and of inserted code are
/// in the order in which they were made, all of them. The control: a function that is called behind
/// the instruction.
#[test]
fn functions_append_in_order() {
    const GUESTS: &[&str] = &[
        "instructions/counted",
        "instructions/strings",
        "memory/self_modifying",
        "signals/exact_context",
        "signals/fault_repaired",
        "signals/fault_escaped",
        "signals/timers",
        "control/long_jumps",
        "threads/create_and_join_often",
        "threads/exit_while_others_run",
        "threads/mutex_kinds",
        "processes/fork_tree",
        "processes/fork_among_threads",
        "processes/vfork",
        "processes/execute",
    ];
    for name in GUESTS {
        agrees(&["appended"], name, line);
    }
    let is_wrong = |text: &str| line(text).map(|right| !right);
    agrees(&["appended", "spoilt"], "threads/mutex_kinds", is_wrong);
}
