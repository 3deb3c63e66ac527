//! A register through which indirect branches find their way has what a tool has put there, too.

use unspool_guests::{Ending, Invocation};

const GUEST: &str = "instructions/across_indirect";

#[test]
fn what_a_tool_adds_goes_through_indirect_branches() {
    let Some((_, program)) = super::build(GUEST) else {
        return;
    };
    let added = ["1000".to_owned()];
    for way in ["inlined", "called", "gated", "context"] {
        let observed = super::under(&["added", way], &program, &added, &format!("added-{way}"));
        let text = observed.stderr_text();
        assert_eq!(observed.ending, Ending::Exited(0), "{way}: {text}");
        assert_eq!(observed.stdout_text(), "kept\n", "{way}");
    }
    // The controls: nothing is added.
    let bare = super::run(Invocation::new(&program).arguments(&added), "added-bare");
    assert_ne!(bare.ending, Ending::Exited(0));
    let nothing = super::under(&["added", "nothing"], &program, &added, "added-nothing");
    assert_ne!(nothing.ending, Ending::Exited(0));
}
