//! The layers of the engine: its core knows clients by their interface only.

use std::fs;
use std::path::{Path, PathBuf};

/// What makes a client.
const CLIENTS: [&str; 3] = ["trace", "instrument", "debug"];

/// Who may name one: `start`, which puts a run together.
const MAY_NAME: &str = "start";

fn sources(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            sources(&path, found);
        } else if path.extension().is_some_and(|end| end == "rs") {
            found.push(path);
        }
    }
}

/// The clients that a text names in its code.
fn named(text: &str) -> Vec<&'static str> {
    let code = text
        .lines()
        .map(|line| line.split("//").next().unwrap_or(""));
    let code: String = code.collect::<Vec<_>>().join("\n");
    let is_named = |client: &&str| {
        let path = format!("{client}::");
        code.match_indices(&path).any(|(at, _)| {
            let before = code[..at].chars().next_back();
            before.is_none_or(|before| !before.is_alphanumeric() && before != '_')
        })
    };
    CLIENTS.into_iter().filter(is_named).collect()
}

/// The part of the engine to which a file belongs: `trace` for `trace.rs` and all of `trace/`.
fn part(source: &Path, file: &Path) -> String {
    let inside = file.strip_prefix(source).unwrap();
    let first = inside.components().next().unwrap();
    first.as_os_str().to_str().unwrap().to_owned()
}

#[test]
fn the_core_names_no_client() {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut files = Vec::new();
    sources(&source, &mut files);
    let mut wrong = Vec::new();
    let mut looked_at = 0;
    for file in files {
        let part = part(&source, &file);
        let stem = part.trim_end_matches(".rs");
        if CLIENTS.contains(&stem) || stem == MAY_NAME {
            continue;
        }
        looked_at += 1;
        let named = named(&fs::read_to_string(&file).unwrap());
        if !named.is_empty() {
            wrong.push((file, named));
        }
    }
    assert!(looked_at > 100, "only {looked_at} files were looked at");
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[test]
fn a_name_in_code_is_found_and_one_in_a_comment_is_not() {
    assert_eq!(named("    crate::trace::event(thread);"), ["trace"]);
    assert_eq!(named("use crate::debug::{self, Stop};"), ["debug"]);
    assert_eq!(
        named("// See `trace::event`.\nbacktrace::capture();"),
        [""; 0]
    );
}
