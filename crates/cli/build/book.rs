//! The chapters of the book, with the program texts that they include.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use crate::read;

/// Puts them into a folder, with a list of them.
pub(crate) fn put(folder: &Path, output: &Path) {
    let mut list = String::from("&[\n");
    for (title, file) in chapters(&read(&folder.join("SUMMARY.md"))) {
        let text = expanded(folder, &read(&folder.join(&file)));
        let expanded = output.join(&file);
        fs::write(&expanded, text).expect("the output folder is there");
        let name = file.trim_end_matches(".md");
        let path = expanded.display();
        writeln!(
            list,
            "    Chapter {{ name: {name:?}, title: {title:?}, text: include_str!(\"{path}\") }},"
        )
        .expect("a string takes all");
    }
    list.push(']');
    fs::write(output.join("chapters.rs"), list).expect("the output folder is there");
}

/// Title and file of each chapter that the summary links to.
fn chapters(summary: &str) -> Vec<(String, String)> {
    let links = summary.lines().filter_map(|line| {
        let (title, rest) = line.split_once('[')?.1.split_once("](")?;
        let (file, _) = rest.split_once(')')?;
        Some((title.to_owned(), file.to_owned()))
    });
    links.collect()
}

/// A page with the texts that it includes (`{{#include PATH}}` or `{{#include PATH:ANCHOR}}` in a
/// line of its own).
fn expanded(folder: &Path, page: &str) -> String {
    let mut text = String::new();
    for line in page.lines() {
        let included = line
            .strip_prefix("{{#include ")
            .and_then(|rest| rest.strip_suffix("}}"));
        match included {
            Some(what) => text.push_str(included_text(folder, what).trim_end()),
            None => text.push_str(line),
        }
        text.push('\n');
    }
    assert!(!text.contains("{{#"), "an unknown directive in a page");
    text
}

/// A file, or the part of one between the lines that name an anchor.
fn included_text(folder: &Path, what: &str) -> String {
    let (path, anchor) = what.split_once(':').unwrap_or((what, ""));
    let text = read(&folder.join(path));
    let begin = format!("ANCHOR: {anchor}");
    let end = format!("ANCHOR_END: {anchor}");
    let lines = text
        .lines()
        .skip_while(|line| !anchor.is_empty() && !line.ends_with(&begin))
        .take_while(|line| anchor.is_empty() || !line.ends_with(&end));
    let is_anchor = |line: &str| line.contains("// ANCHOR: ") || line.contains("// ANCHOR_END: ");
    let lines: Vec<&str> = lines.filter(|line| !is_anchor(line)).collect();
    assert!(!lines.is_empty(), "{path} has no part {anchor}");
    lines.join("\n")
}
