//! The layers that ARCHITECTURE.md draws: of the crates, and of the modules in some of them. Nothing
//! uses what is drawn above it, and nothing uses each other in a circle, drawn or not.
//!
//! In a circle are not only the modules of a crate: the parts of a module make none either. What
//! the module's own file declares its parts may use; the file is what puts them together. Tests may
//! use what they like.

mod drawing;
mod imports;

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use drawing::{against, layers};
use imports::{Graph, Sources, circles, graph, sources, wholes};

/// Crates whose modules make circles: a tool is given code and images, and these call the functions
/// of a tool, each in terms of the other's type.
const CIRCLES: [&str; 1] = ["tool"];

/// Those whose layers are drawn.
const DRAWN: [&str; 3] = ["engine", "tracer", "instrument"];

fn crates() -> PathBuf {
    let own = Path::new(env!("CARGO_MANIFEST_DIR"));
    own.parent().unwrap().to_owned()
}

fn sources_of(name: &str) -> Sources {
    sources(&crates().join(name).join("src"))
}

fn architecture() -> String {
    fs::read_to_string(crates().join("../ARCHITECTURE.md")).unwrap()
}

/// The graph without what is in no circle.
fn in_circles(mut graph: Graph) -> Graph {
    let circles = circles(&graph);
    graph.retain(|part, _| circles.contains(part));
    for used in graph.values_mut() {
        used.retain(|part| circles.contains(part));
    }
    graph
}

/// The names of all crates.
fn names() -> Vec<String> {
    let folders = fs::read_dir(crates()).unwrap().map(|it| it.unwrap().path());
    let with_sources = folders.filter(|it| it.join("Cargo.toml").exists());
    let name = |it: PathBuf| it.file_name().unwrap().to_str().unwrap().to_owned();
    let mut names: Vec<_> = with_sources.map(name).collect();
    names.sort();
    names
}

#[test]
fn modules_use_each_other_without_a_circle() {
    let mut found = Vec::new();
    for name in names() {
        let graph = in_circles(graph(&[], &sources_of(&name)));
        if !graph.is_empty() {
            println!("{name}: {graph:#?}");
            found.push(name);
        }
    }
    assert_eq!(found, CIRCLES);
}

#[test]
fn parts_of_modules_use_each_other_without_a_circle() {
    let mut found = Vec::new();
    for name in names() {
        let sources = sources_of(&name);
        for whole in wholes(&sources).iter().filter(|it| !it.is_empty()) {
            let graph = in_circles(graph(whole, &sources));
            if !graph.is_empty() {
                let whole = format!("{name}::{}", whole.join("::"));
                println!("{whole}: {graph:#?}");
                found.push(whole);
            }
        }
    }
    assert_eq!(found, [""; 0]);
}

#[test]
fn modules_use_what_is_drawn_below_them() {
    let text = architecture();
    for name in DRAWN {
        let graph = graph(&[], &sources_of(name));
        assert!(graph.len() > 20, "{name}: only {} modules", graph.len());
        let modules = graph.keys().cloned().collect();
        let layers = layers(&text, &format!("### `crates/{name}`"), &modules);
        let layers = layers.expect("the crate's layers are drawn");
        assert_eq!(against(&layers, &graph), [""; 0], "{name}");
    }
}

#[test]
fn crates_use_what_is_drawn_below_them() {
    let mut graph = Graph::new();
    for entry in fs::read_dir(crates()).unwrap() {
        let folder = entry.unwrap().path();
        if let Ok(manifest) = fs::read_to_string(folder.join("Cargo.toml")) {
            let name = folder.file_name().unwrap().to_str().unwrap();
            graph.insert(name.to_owned(), dependencies(&manifest));
        }
    }
    assert!(graph.len() > 25, "only {} crates", graph.len());
    let names = graph.keys().cloned().collect();
    let layers = layers(&architecture(), "## Code map", &names);
    let layers = layers.expect("the crates' layers are drawn");
    assert_eq!(against(&layers, &graph), [""; 0]);
}

/// Crates of ours that a crate is made with; tests may use others.
fn dependencies(manifest: &str) -> BTreeSet<String> {
    let mut is_for_tests = false;
    let mut found = BTreeSet::new();
    for line in manifest.lines() {
        if line.starts_with('[') {
            is_for_tests = line.starts_with("[dev-dependencies");
        } else if let Some(rest) = line.strip_prefix("unspool-").filter(|_| !is_for_tests) {
            let end = rest.find([' ', '.', '=']).unwrap_or(rest.len());
            found.insert(rest[..end].to_owned());
        }
    }
    found
}

/// A crate of these texts.
fn made_of(texts: &[(&str, &str)]) -> Sources {
    let sources = texts.iter().map(|(module, text)| {
        let path = module.split("::").filter(|it| !it.is_empty());
        (path.map(str::to_owned).collect(), (*text).to_owned())
    });
    sources.collect()
}

/// Its modules that are in circles, or the parts of one of them.
fn circles_of(whole: &[&str], texts: &[(&str, &str)]) -> Vec<String> {
    let whole: Vec<String> = whole.iter().map(|&it| it.to_owned()).collect();
    let circles = circles(&graph(&whole, &made_of(texts)));
    circles.into_iter().collect()
}

const WAYS_BACK: [&str; 6] = [
    "use crate::upper::something;",
    "use crate::{lowest, upper::{self, something}};",
    "fn inside() { crate::upper::something(); }",
    "fn inside() { super::upper::something(); }",
    "type Known = super::Something;",
    "mod part { use super::super::upper; }",
];

#[test]
fn a_circle_is_found_however_it_is_written() {
    for way_back in WAYS_BACK {
        let root = "mod upper; mod lower; mod lowest; pub use upper::Something;";
        let texts = [
            ("", root),
            ("upper", "use crate::lower; use crate::lowest;"),
            ("lower", way_back),
            ("lowest", ""),
        ];
        assert_eq!(circles_of(&[], &texts), ["lower", "upper"], "{way_back}");
        let drawn = "### `crates/it`\n\n```text\nupper   that\nlower  lowest   this\n```\n";
        let graph = graph(&[], &made_of(&texts));
        let names = graph.keys().cloned().collect();
        let layers = layers(drawn, "### `crates/it`", &names).expect("they are drawn");
        let expected = ["lower uses upper, which is above it"];
        assert_eq!(against(&layers, &graph), expected, "{way_back}");
    }
}

#[test]
fn a_circle_inside_a_module_is_found() {
    let whole = "mod one; mod other; pub use self::one::Thing; struct Shared;";
    for way_back in [
        "use super::one;",
        "use crate::whole::one::Thing;",
        "use super::Thing;",
    ] {
        let texts = [
            ("", "mod whole;"),
            ("whole", whole),
            ("whole::one", "use super::{Shared, other};"),
            ("whole::other", way_back),
        ];
        let found = circles_of(&["whole"], &texts);
        assert_eq!(found, ["one", "other"], "{way_back}");
        assert_eq!(circles_of(&[], &texts), [""; 0]);
    }
}

#[test]
fn what_is_not_drawn_is_found() {
    let graph = graph(&[], &made_of(&[("", ""), ("one", ""), ("other", "")]));
    let layers = layers(
        "## A\n```text\none\n```",
        "## A",
        &["one".to_owned()].into(),
    );
    let layers = layers.expect("one is drawn");
    assert_eq!(against(&layers, &graph), ["other is not drawn"]);
}

#[test]
fn what_goes_down_or_is_for_tests_is_no_circle() {
    let lower = "//! See [`crate::upper`].\n#[cfg(test)]\nmod tests { use crate::upper; }";
    let texts = [
        ("", "mod upper; mod lower;"),
        ("upper", "use crate::lower;"),
        (
            "upper::inside",
            "use super::Upper; use crate::upper::other;",
        ),
        ("lower", lower),
    ];
    assert_eq!(circles_of(&[], &texts), [""; 0]);
}
