//! What a tool writes is there for the program, as far as it can be written, and code that it changes
//! runs as it is then.

use unspool_guests::Ending;

#[test]
fn the_program_finds_what_a_tool_has_written() {
    let said = |tool: &[&str]| {
        let (_, program) = super::build("memory/written")?;
        let observed = super::under(tool, &program, &[], &tool.concat());
        let text = observed.stderr_text();
        assert_eq!(observed.ending, Ending::Exited(0), "{text}");
        Some(observed.stdout_text())
    };
    let round = |first: u8, code: u8| {
        format!(
            "data 0 {first} 0\nfixed 5\nend {0} {0} {0}\ncode {code} {1}\n",
            first + 2,
            first + 3
        )
    };
    if let Some(text) = said(&["writes"]) {
        assert_eq!(text, round(10, 1) + &round(14, 13) + &round(18, 17));
    }
    // The control.
    if let Some(text) = said(&["writes", "none"]) {
        let round = "data 0 0 0\nfixed 5\nend 0 0 0\ncode 1 1\n";
        assert_eq!(text, round.repeat(3));
    }
}
