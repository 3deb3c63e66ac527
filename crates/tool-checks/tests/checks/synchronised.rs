//! What a tool is told of synchronisation orders what it orders, and changes nothing.

use super::{agrees, build, under};

const TOOL: &str = "synchronised";

/// What is said of the guest whose steps follow each other.
fn said(more: &[&str]) -> Option<String> {
    let (_, program) = build("threads/handed_on")?;
    let words: Vec<_> = [TOOL].iter().chain(more).copied().collect();
    let observed = under(&words, &program, &[], &words.join("-"));
    let text = observed.stderr_text();
    text.lines()
        .find(|line| line.starts_with(TOOL))
        .map(ToOwned::to_owned)
}

#[test]
fn steps_are_known_in_order() {
    if let Some(line) = said(&[]) {
        let wanted =
            "synchronised 812 steps: 0 not known, 0 not in order, 0 atomics not over, 58 joined";
        assert_eq!(line, wanted);
    }
    // The controls.
    for (left_out, is_right) in [
        ("without-atomics", ": 0 not known"),
        ("without-starts", ": 0 not known"),
        ("own-numbers", " 0 not in order"),
    ] {
        if let Some(line) = said(&[left_out]) {
            assert!(!line.contains(is_right), "{left_out}: {line}");
        }
    }
}

#[test]
fn programs_that_synchronise_behave_the_same() {
    for name in [
        "threads/faulting_atomics",
        "threads/mutex_kinds",
        "threads/create_and_join_often",
        "threads/main_exits_first",
        "threads/raw_clone",
        "processes/fork_among_threads",
        "processes/shared_memory_for_good",
        "processes/vfork",
        "processes/execute_from_thread",
        "signals/timers",
        "memory/self_modifying",
    ] {
        agrees(&[TOOL], name, |line| line.starts_with(TOOL).then_some(true));
    }
}
