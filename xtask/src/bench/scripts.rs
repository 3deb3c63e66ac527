//! Tests of the scripts in `bench`: they judge as their examples say.

use std::process::Command;

#[test]
fn primitives_are_judged_as_the_examples_say() {
    let script = crate::step::workspace().join("bench/primitives.py");
    let tested = Command::new("python3")
        .args(["-B", "-m", "doctest", "-v"])
        .arg(&script)
        .output();
    let output = tested.expect("python3 runs the script");
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{said}");
    // One that lost its examples would pass, too.
    assert!(said.contains("judgement(\"add\""), "{said}");
}
