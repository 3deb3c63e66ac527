//! Stacks that grow, as a tool is told of it.

use unspool_guests::Ending;

/// What the tool says at a process's end, if all that the guest accesses in its stack lies in what was
/// told, and that is what the kernel says.
fn counts(line: &str) -> Option<bool> {
    let counts = line.strip_prefix("growth: ")?;
    let is_right = counts.starts_with("0 outside of what was told, 0 not as mapped, of ");
    Some(is_right && !counts.ends_with(" of 0 accesses"))
}

/// Every step of a stack is told, and before anything of what is accessed there.
#[test]
fn growth_of_stacks_is_told() {
    let Some((_, program)) = super::build("memory/growing") else {
        return;
    };
    let observed = super::under(&["grown"], &program, &[], "grown");
    let (said, told) = (observed.stdout_text(), observed.stderr_text());
    assert_eq!(observed.ending, Ending::Exited(0), "{told}");
    assert_eq!(said.lines().count(), 11, "{said}");
    for line in said.lines() {
        let (what, start) = line.split_once(' ').expect("two words");
        let kind = if what == "grown" { "grown" } else { "mapped" };
        let expected = format!("told {kind} {start}");
        assert!(told.lines().any(|it| it == expected), "{expected}: {told}");
    }
    let ends: Vec<bool> = told.lines().filter_map(counts).collect();
    assert_eq!(ends, [true, true], "{told}");
}

/// Limits that change, handlers that run because there is no more, children, and other programs.
#[test]
fn growth_up_to_limits_is_told() {
    for name in ["memory/deep_stack", "memory/stack_growth"] {
        let told = |line: &str| match line.starts_with("told ") {
            true => Some(true),
            false => counts(line),
        };
        super::agrees(&["grown"], name, told);
    }
}

/// The control: without being told, accesses lie outside of what is known.
#[test]
fn growth_that_is_not_told_is_noticed() {
    let Some((_, program)) = super::build("memory/growing") else {
        return;
    };
    let observed = super::under(&["grown", "deaf"], &program, &[], "grown-deaf");
    let told = observed.stderr_text();
    let ends: Vec<bool> = told.lines().filter_map(counts).collect();
    assert_eq!(ends, [false, false], "{told}");
}
