//! Signals that a tool raises come to the thread and with what the tool says, at once.

use unspool_guests::Ending;

#[test]
fn signals_come_as_a_tool_raises_them() {
    let said = |tool: &[&str]| {
        let (_, program) = super::build("signals/raised")?;
        let observed = super::under(tool, &program, &[], &tool.concat());
        assert_eq!(
            observed.ending,
            Ending::Exited(0),
            "{}",
            observed.stderr_text()
        );
        Some(observed.stdout_text())
    };
    let wanted = "signal 12 code -1 with 77 in the first thread\n\
                  1 came at point 0\n\
                  signal 11 code 1 with 1230 in the first thread\n\
                  1 came at point 1\n\
                  signal 12 code -1 with 77 in the second thread\n\
                  3 came\n";
    if let Some(text) = said(&["raised"]) {
        assert_eq!(text, wanted);
    }
    // The control.
    if let Some(text) = said(&["raised", "none"]) {
        assert_eq!(text, "0 came at point 0\n0 came at point 1\n0 came\n");
    }
}
