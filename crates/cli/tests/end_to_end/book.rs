//! The book about writing tools: what it shows is what is built, and what it has the reader
//! type prints what it says.
//!
//! Each page is one session of a shell, in a folder of its own. In what is printed, numbers may
//! be others, and a line `...` stands for any lines. A program text is included from a file that
//! the project builds; `<!-- write PATH -->` before it puts it where the session wants it.

use std::path::{Path, PathBuf};
use std::time::Duration;

use libtest_mimic::Trial;

use crate::new_tool::with_cargo;
use crate::observer::{COMMAND, Verdict, example, natively, run, trial, wrong};
use crate::scratch::Scratch;

pub(crate) fn trials() -> Vec<Trial> {
    let folder = root().join("docs/book/pages");
    let pages = std::fs::read_dir(&folder).into_iter().flatten().flatten();
    let mut trials: Vec<Trial> = pages
        .map(|page| page.path())
        .filter(|page| page.extension().is_some_and(|extension| extension == "md"))
        .map(|page| {
            let name = page.file_stem().unwrap_or_default().display().to_string();
            trial(format!("book::{name}"), move |_| {
                let text = std::fs::read_to_string(&page)?;
                let outside = Scratch::outside(&format!("book::{name}"))?;
                follow(&outside, &folder_of(&page), &text)?;
                outside.remove();
                Ok(())
            })
        })
        .collect();
    trials.push(trial("book::control".to_owned(), control));
    trials
}

/// What the reader has to do, in order.
#[derive(Debug)]
enum Step {
    /// Put a text into a file.
    Write(PathBuf, String),
    /// Type a command, and see this.
    Type(String, Vec<String>),
}

/// Does what a page says.
fn follow(scratch: &Scratch, folder: &Path, text: &str) -> Result<(), Verdict> {
    let mut typed = Vec::new();
    let mut script = format!("PATH={}:$PATH\nexec 2>&1\n", programs(scratch)?.display());
    for step in steps(folder, text)? {
        match step {
            Step::Write(path, text) => {
                let kept = scratch.path().join(format!("text-{}", script.len()));
                std::fs::write(&kept, text)?;
                script += &format!("cp {} {}\n", kept.display(), path.display());
            }
            Step::Type(command, expected) => {
                script += &format!("{command}\nprintf '\\n@@ %d\\n' $?\n");
                typed.push((command, expected));
            }
        }
    }
    let shell = with_cargo(natively(scratch, &["bash", "-c", &script]));
    let shell = shell.limit(Duration::from_secs(900));
    let outcome = run(scratch, &shell)?;
    let printed = outcome.stdout_text();
    let mut rest = printed.as_str();
    for (command, expected) in &typed {
        let end = rest.split_once("\n@@ ");
        let (shown, status) = end.ok_or_else(|| wrong(command, &shell, &outcome))?;
        let (status, after) = status.split_once('\n').unwrap_or((status, ""));
        rest = after;
        let shown: Vec<&str> = shown.lines().collect();
        if status != "0" || !fits(expected, &shown) {
            return Err(Verdict::Wrong(format!(
                "$ {command}\nexpected:\n{}\nshown, with status {status}:\n{}",
                expected.join("\n"),
                shown.join("\n")
            )));
        }
    }
    Ok(())
}

/// A page's steps, from its fenced blocks.
fn steps(folder: &Path, text: &str) -> Result<Vec<Step>, Verdict> {
    let mut steps = Vec::new();
    let mut write_to = None;
    let mut lines = text.lines();
    while let Some(line) = lines.next() {
        if let Some(path) = line.strip_prefix("<!-- write ") {
            write_to = path.strip_suffix(" -->").map(PathBuf::from);
        }
        let Some(language) = line.strip_prefix("```") else {
            continue;
        };
        let block: Vec<&str> = lines.by_ref().take_while(|line| *line != "```").collect();
        match language {
            "console" => steps.extend(commands(&block)),
            "text" => {}
            // The language of what the project builds.
            "rust" => {
                let text = included(folder, &block)?;
                if let Some(path) = write_to.take() {
                    steps.push(Step::Write(path, text));
                }
            }
            _ => {
                let path = write_to.take().ok_or_else(|| {
                    format!("nothing is done with a block of `{language}`: {block:?}")
                })?;
                steps.push(Step::Write(path, block.join("\n") + "\n"));
            }
        }
    }
    Ok(steps)
}

/// What is typed, and what each command shows.
fn commands(block: &[&str]) -> Vec<Step> {
    let mut commands: Vec<Step> = Vec::new();
    for line in block {
        match (line.strip_prefix("$ "), commands.last_mut()) {
            (Some(command), _) => commands.push(Step::Type(command.to_owned(), Vec::new())),
            (None, Some(Step::Type(_, expected))) => expected.push((*line).to_owned()),
            (None, _) => {}
        }
    }
    commands
}

/// The text that a block includes: a file that is built, or the part of one between anchors.
fn included(folder: &Path, block: &[&str]) -> Result<String, Verdict> {
    let [line] = block else {
        return Err(format!("a program text that nothing builds: {block:?}").into());
    };
    let name = line
        .strip_prefix("{{#include ")
        .and_then(|line| line.strip_suffix("}}"))
        .ok_or_else(|| format!("a program text that nothing builds: {line}"))?;
    let (path, anchor) = name.split_once(':').unwrap_or((name, ""));
    let text = std::fs::read_to_string(folder.join(path))
        .map_err(|problem| format!("{path}: {problem}"))?;
    if anchor.is_empty() {
        return Ok(text);
    }
    let (begin, end) = (format!("ANCHOR: {anchor}"), format!("ANCHOR_END: {anchor}"));
    let inside = text.lines().skip_while(|line| !line.ends_with(&begin));
    let inside: Vec<&str> = inside
        .take_while(|line| !line.ends_with(&end))
        .skip(1)
        .collect();
    match inside.is_empty() {
        true => Err(format!("{path} has no anchor {anchor}").into()),
        false => Ok(inside.join("\n")),
    }
}

/// Whether lines are as expected, whatever their numbers.
fn fits(expected: &[String], shown: &[&str]) -> bool {
    match (expected.split_first(), shown.split_first()) {
        (None, None) => true,
        (Some((first, others)), _) if first == "..." => {
            (0..=shown.len()).any(|skipped| fits(others, &shown[skipped..]))
        }
        (Some((first, others)), Some((line, rest))) => {
            without_numbers(first) == without_numbers(line) && fits(others, rest)
        }
        _ => false,
    }
}

/// A line with `0` in place of each number, hexadecimal ones included, and one space in place
/// of several.
fn without_numbers(line: &str) -> String {
    let words = line.split_whitespace().map(|word| {
        let mut short = String::new();
        let mut rest = word;
        while let Some(letter) = rest.chars().next() {
            let hexadecimal = rest
                .strip_prefix("0x")
                .map(|digits| digits.trim_start_matches(|digit: char| digit.is_ascii_hexdigit()));
            if letter.is_ascii_digit() {
                short.push('0');
                let decimal = || rest.trim_start_matches(|digit: char| digit.is_ascii_digit());
                rest = hexadecimal.unwrap_or_else(decimal);
            } else {
                short.push(letter);
                rest = &rest[letter.len_utf8()..];
            }
        }
        short
    });
    words.collect::<Vec<_>>().join(" ")
}

/// A folder with the command, and the examples under their names.
fn programs(scratch: &Scratch) -> Result<PathBuf, Verdict> {
    let folder = scratch.path().join("programs");
    std::fs::create_dir(&folder)?;
    std::os::unix::fs::symlink(&*COMMAND, folder.join("unspool"))?;
    for file in std::fs::read_dir(root().join("crates/tool/examples"))? {
        let name = file?.path().with_extension("");
        let name = name.file_name().unwrap_or_default();
        std::os::unix::fs::symlink(example(name)?, folder.join(name))?;
    }
    Ok(folder)
}

/// Pages that say what is not so are found out.
fn control(scratch: &Scratch) -> Result<(), Verdict> {
    for (what, page) in [
        ("another output", "```console\n$ echo one\ntwo\n```\n"),
        ("no output", "```console\n$ echo one\n```\n"),
        ("more output", "```console\n$ true\n...\none\n```\n"),
        ("a failure", "```console\n$ false\n```\n"),
        ("a text of its own", "```rust\nfn main() {}\n```\n"),
        ("no file", "```rust\n{{#include no-such-file.rs}}\n```\n"),
        (
            "no anchor",
            "```rust\n{{#include main.rs:no-such-anchor}}\n```\n",
        ),
        ("a text unused", "```toml\n[package]\n```\n"),
    ] {
        let tests = root().join("crates/cli/tests/end_to_end");
        let scratch = Scratch::new(&format!("book-control-{what}"))?;
        if follow(&scratch, &tests, page).is_ok() {
            return Err(Verdict::Wrong(format!("{what} is not found out")));
        }
        scratch.remove();
    }
    let page =
        "<!-- write a -->\n```toml\n7\n```\n```console\n$ cat a; echo 0x1f 12\n...\n0x2 3\n```\n";
    follow(scratch, &root(), page)
}

fn folder_of(page: &Path) -> PathBuf {
    page.parent().unwrap_or(page).to_owned()
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}
