//! A stripped program's function gets what a tool has made of its arguments, and its callers what the
//! tool has made of its results.

use unspool_guests::{Ending, Invocation};

const GUEST: &str = "functions/changed";

/// What the guest says when the function makes something of its arguments.
fn wanted(product: impl Fn(i64, i64) -> i64) -> Vec<i64> {
    let nested = (0..3).fold(1, |inner, _| product(inner, 2) - 1);
    let mut all: Vec<_> = (1..=3).map(|first| product(first, 10)).collect();
    all.extend([product(4, 10), nested, product(7, 8), product(7, 8)]);
    all
}

#[test]
fn arguments_and_results_of_a_function_without_a_name() {
    let Some((guest, _)) = super::build(GUEST) else {
        return;
    };
    let Ok(program) = super::WORKSHOP.build(&guest, "stripped") else {
        return eprintln!("{GUEST} is left out: it cannot be stripped");
    };
    let native = super::run(Invocation::new(&program), "changed-native");
    let offset = native.stdout_text().lines().next().map(ToOwned::to_owned);
    let offset = offset.expect("it says where the function is");
    let said = |tool: &[&str]| {
        let words: Vec<_> = ["changed", &offset]
            .into_iter()
            .chain(tool.iter().copied())
            .collect();
        let observed = super::under(&words, &program, &[], &format!("changed-{}", tool.concat()));
        assert_eq!(
            observed.ending,
            Ending::Exited(0),
            "{}",
            observed.stderr_text()
        );
        let text = observed.stdout_text();
        let numbers = text.lines().skip(1).map(|line| line.parse());
        numbers.collect::<Result<Vec<i64>, _>>().expect("numbers")
    };
    assert_eq!(said(&[]), wanted(|a, b| (a + 1) * b * 10 + a));
    assert_eq!(said(&["entry-only"]), wanted(|a, b| (a + 1) * b));
    // The control.
    assert_eq!(said(&["by-value"]), wanted(|a, b| a * b));
}
