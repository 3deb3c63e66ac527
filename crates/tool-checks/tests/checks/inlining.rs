//! How functions are called, as a tool says that is asked with `--inlining`.

use super::{build, under};

/// At how many places a function of the tool that measures costs is inlined, copied, called, and called
/// by the gate.
fn forms(primitive: &str, function: &str) -> [u64; 4] {
    // It has a function `leaf`.
    let (guest, program) = build("functions/entries").expect("it needs nothing but gcc");
    let tool = ["costs", primitive, "--inlining"];
    let outcome = under(&tool, &program, &guest.arguments, &tool.concat());
    let text = outcome.stderr_text();
    let start = format!("inlining: tool_checks::costs::Costs::{function}: ");
    let line = text.lines().find_map(|line| line.strip_prefix(&start));
    let line = line.unwrap_or_else(|| panic!("nothing is said of {function}: {text}"));
    let numbers = line.split(|c: char| !c.is_ascii_digit());
    let numbers: Vec<u64> = numbers.filter_map(|it| it.parse().ok()).collect();
    numbers.try_into().expect("there are four ways")
}

/// Short functions are inlined, whoever asks for them. The controls: one that calls another is called,
/// and one that gets the whole state is so by the gate.
#[test]
fn short_functions_are_inlined() {
    for (primitive, function) in [
        ("add", "add"),
        ("address", "address"),
        ("test", "is_last"),
        ("entry-exit", "add"),
        ("append-if-never", "is_last"),
        ("append-if-always", "is_other"),
    ] {
        let [inlined, others @ ..] = forms(primitive, function);
        assert!(inlined > 0, "{primitive}: {function}");
        assert_eq!(others, [0; 3], "{primitive}: {function}");
    }
    let [inlined, copied, called, gated] = forms("guarded", "guarded");
    assert!((inlined, copied) == (0, 0) && called + gated > 0);
    let [others @ .., gated] = forms("context", "context");
    assert!(others == [0; 3] && gated > 0);
}
