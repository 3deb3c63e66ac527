//! Words of shadow memory: what inserted code makes of them is what functions would.

use super::{agrees, build, says, under};

const KINDS: [&str; 6] = ["u8/1", "u16/2", "u32/4", "u64/8", "u64/1", "u8/64"];

fn fits() -> impl Fn(&str) -> Option<bool> {
    says("shadows ", "as by functions")
}

/// Words of all sizes, live flags, operands of all sizes and alignments.
#[test]
fn inlined_words_are_what_functions_store() {
    const GUESTS: [&str; 4] = [
        "instructions/counted",
        "instructions/flags",
        "instructions/strings",
        "instructions/avx2",
    ];
    for kind in KINDS {
        for name in GUESTS {
            agrees(&["shadows", kind], name, fits());
        }
    }
}

/// Memory that is unmapped, moved and limited; signals, and processes with copies of it.
#[test]
fn words_follow_what_becomes_of_memory() {
    const GUESTS: [&str; 7] = [
        "memory/map_games",
        "memory/heap_growth",
        "memory/self_modifying",
        "signals/exact_context",
        "signals/fault_repaired",
        "processes/limits",
        "processes/fork_tree",
    ];
    for name in GUESTS {
        agrees(&["shadows", "u64/8"], name, fits());
    }
    agrees(&["shadows", "u8/1"], "memory/map_games", fits());
}

/// The controls: a store that is left out, and words that are expected to stay, are noticed.
#[test]
fn other_words_are_noticed() {
    for (way, name) in [
        ("spoilt", "instructions/counted"),
        ("kept", "memory/map_games"),
    ] {
        let (guest, program) = build(name).expect("it needs nothing but gcc");
        let tool = ["shadows", "u64/8", way];
        let outcome = under(
            &tool,
            &program,
            &guest.arguments,
            &tool.join("-").replace('/', "-"),
        );
        let text = outcome.stderr_text();
        assert!(
            text.contains("shadows NOT as by functions"),
            "{way}: {text}"
        );
    }
}
