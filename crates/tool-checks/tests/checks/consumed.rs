//! Batches that a thread of the tool gets whole.

use super::agrees;

fn line(line: &str) -> Option<bool> {
    line.starts_with("consumed ")
        .then(|| line.starts_with("consumed exactly: "))
}

/// Faults, signals, threads, copies of the process and ends: the consumer gets each entry once, in
/// order. So it does where it is slow, keeps batches or stops all threads, and in the control where it
/// leaves some out that is found.
#[test]
fn a_thread_of_the_tool_gets_all_batches() {
    const GUESTS: &[(&str, &str)] = &[
        ("slow", "instructions/strings"),
        ("kept", "signals/fault_repaired"),
        ("kept", "signals/timers"),
        ("plain", "control/long_jumps"),
        ("slow", "threads/create_and_join_often"),
        ("kept", "threads/exit_while_others_run"),
        ("stops", "threads/mutex_kinds"),
        ("kept", "processes/fork_tree"),
        ("slow", "processes/fork_among_threads"),
        ("plain", "processes/vfork"),
        ("kept", "processes/execute"),
        ("plain", "processes/execute_failures"),
        ("plain", "processes/shared_memory"),
        ("plain", "processes/limits"),
    ];
    for (mode, name) in GUESTS {
        agrees(&["consumed", mode], name, line);
    }
    let is_wrong = |text: &str| line(text).map(|right| !right);
    agrees(&["consumed", "spoilt"], "threads/mutex_kinds", is_wrong);
}

/// A consumer that is slow has the program's threads wait, instead of taking more memory.
#[test]
fn threads_wait_for_a_slow_consumer() {
    let waited = |text: &str| Some(line(text)? && text.contains("threads waited sometimes"));
    agrees(&["consumed", "slow"], "threads/mutex_kinds", waited);
}
