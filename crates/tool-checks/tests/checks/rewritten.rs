//! Memory that is elsewhere than the program's code says.

use unspool_guests::{Ending, Invocation};

const GUEST: &str = "instructions/rewritten";

#[test]
fn accesses_go_where_the_tool_says() {
    let Some((_, program)) = super::build(GUEST) else {
        return;
    };
    let native = super::run(Invocation::new(&program), "native-rewritten");
    assert_eq!(native.ending, Ending::Exited(0));
    let moved = ["moved".to_owned()];
    for way in ["inlined", "called", "appended"] {
        let test = format!("rewritten-{way}");
        let observed = super::under(&["rewritten", way], &program, &moved, &test);
        let text = observed.stderr_text();
        assert_eq!(observed.ending, Ending::Exited(0), "{way}: {text}");
        assert_eq!(observed.stdout_text(), native.stdout_text(), "{way}");
    }
    // The controls: nothing is rewritten, or not all.
    let bare = super::run(
        Invocation::new(&program).arguments(&moved),
        "bare-rewritten",
    );
    assert_eq!(bare.ending, Ending::Exited(3));
    let some = super::under(
        &["rewritten", "reads-only"],
        &program,
        &moved,
        "some-rewritten",
    );
    assert_eq!(some.ending, Ending::Exited(3));
}
