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

/// A page with the files that it includes (`{{#include PATH}}` in a line of its own).
fn expanded(folder: &Path, page: &str) -> String {
    let mut text = String::new();
    for line in page.lines() {
        let included = line
            .strip_prefix("{{#include ")
            .and_then(|rest| rest.strip_suffix("}}"));
        match included {
            Some(path) => text.push_str(read(&folder.join(path)).trim_end()),
            None => text.push_str(line),
        }
        text.push('\n');
    }
    assert!(!text.contains("{{#"), "an unknown directive in a page");
    text
}
