//! How functions are called, as a tool says that is asked with `--inlining`.

use super::{build, under};

/// At how many places a function of a module's tool is inlined, copied, called, and called by the gate.
fn forms(tool: &[&str], guest: &str, (module, function): (&str, &str)) -> [u64; 4] {
    let (guest, program) = build(guest).expect("it was asked for");
    let tool = [tool, &["--inlining"]].concat();
    let outcome = under(&tool, &program, &guest.arguments, &tool.concat());
    let text = outcome.stderr_text();
    let start = format!("tool_checks::{module}::");
    let lines = text
        .lines()
        .filter_map(|line| line.strip_prefix("inlining: "));
    let mut named = lines.filter_map(|line| line.split_once(": "));
    let is_it = |name: &str| name.starts_with(&start) && name.rsplit("::").next() == Some(function);
    let line = named.find_map(|(name, forms)| is_it(name).then_some(forms));
    let line = line.unwrap_or_else(|| panic!("nothing is said of {function}: {text}"));
    let numbers = line.split(|c: char| !c.is_ascii_digit());
    let numbers: Vec<u64> = numbers.filter_map(|it| it.parse().ok()).collect();
    numbers.try_into().expect("there are four ways")
}

/// Those of a function of the tool that measures costs.
fn forms_at(primitive: &str, function: &str) -> [u64; 4] {
    // It has a function `leaf`.
    forms(
        &["costs", primitive],
        "functions/entries",
        ("costs", function),
    )
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
        let [inlined, others @ ..] = forms_at(primitive, function);
        assert!(inlined > 0, "{primitive}: {function}");
        assert_eq!(others, [0; 3], "{primitive}: {function}");
    }
    let [inlined, copied, called, gated] = forms_at("guarded", "guarded");
    assert!((inlined, copied) == (0, 0) && called + gated > 0);
    let [others @ .., gated] = forms_at("context", "context");
    assert!(others == [0; 3] && gated > 0);
}

/// A function that computes where it keeps all registers itself is called without the gate. The control is
/// the same without that.
#[test]
fn what_is_done_rarely_keeps_no_function_from_being_followed() {
    let forms = |way: &'static str| {
        forms(
            &["arguments", way],
            "instructions/marked",
            ("arguments", "one"),
        )
    };
    let [inlined, copied, called, gated] = forms("rarely");
    assert!((inlined, copied, gated) == (0, 0, 0) && called > 0);
    let [others @ .., gated] = forms("gated");
    assert!(others == [0; 3] && gated > 0);
}

/// Functions that say where an operand is are among those of which it is told, and so are functions
/// around routines.
#[test]
fn no_way_to_call_a_function_is_left_out() {
    let rewritten = "instructions/rewritten";
    if build(rewritten).is_none() {
        return;
    }
    let [inlined, others @ ..] = forms(&["rewritten"], rewritten, ("rewritten", "place"));
    assert!(inlined > 0 && others == [0; 3]);
    let tool = ["rewritten", "called"];
    let [inlined, copied, called, gated] = forms(&tool, rewritten, ("rewritten", "called"));
    assert!((inlined, copied) == (0, 0) && called + gated > 0);
    let [inlined, copied, called, gated] = forms_at("wrap", "wrapped");
    assert!((inlined, copied, gated) == (0, 0, 0) && called > 0);
    let tool = ["wrappers", "gated"];
    let [others @ .., gated] = forms(&tool, "functions/wrapped", ("wrappers", "deep"));
    assert!(others == [0; 3] && gated > 0);
}
