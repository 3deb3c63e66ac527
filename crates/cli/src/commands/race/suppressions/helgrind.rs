//! Helgrind's suppressions: blocks in braces that describe a stack frame by frame.
//!
//! Format: Valgrind User Manual, section 2.5, "Suppressing errors".

use unspool_binary::demangle;

use super::super::stacks::{Frame, Stack};

/// A block.
#[derive(Debug, Clone)]
pub(super) struct Block {
    /// Its first line.
    pub(super) name: String,
    frames: Vec<FramePattern>,
}

/// What one frame must be.
#[derive(Debug, Clone)]
enum FramePattern {
    /// In a function.
    Function(String),
    /// In a file of code.
    Object(String),
    /// From a line of the source, or from any of a file.
    Source(String),
    /// Any number of frames.
    Any,
}

/// Finds the blocks that are about races; those about other findings, and of other tools, are passed
/// over. An error says which line is not understood.
pub(super) fn read(text: &str) -> Result<Vec<Block>, String> {
    let mut blocks = Vec::new();
    let lines = text.lines().map(str::trim).zip(1..);
    let mut lines = lines.filter(|(line, _)| !line.is_empty() && !line.starts_with('#'));
    while let Some((line, number)) = lines.next() {
        if line != "{" {
            return Err(format!("line {number} must be a {{: {line}"));
        }
        let mut inside: Vec<(&str, u32)> = Vec::new();
        loop {
            match lines.next() {
                None => return Err(format!("the block of line {number} has no end")),
                Some(("}", _)) => break,
                Some(line) => inside.push(line),
            }
        }
        let [(name, _), (kinds, _), rest @ ..] = &inside[..] else {
            return Err(format!(
                "the block of line {number} has no name and no kind"
            ));
        };
        if is_about_races(kinds) {
            let frames = rest.iter().map(|(line, number)| {
                FramePattern::read(line)
                    .ok_or_else(|| format!("line {number} is not understood: {line}"))
            });
            let frames = frames.collect::<Result<Vec<_>, String>>()?;
            if frames.is_empty() {
                return Err(format!("the block of line {number} describes no frame"));
            }
            blocks.push(Block {
                name: (*name).to_owned(),
                frames,
            });
        }
    }
    Ok(blocks)
}

/// Whether a line `TOOL,TOOL:KIND` is about races.
fn is_about_races(kinds: &str) -> bool {
    let (tools, kind) = kinds.split_once(':').unwrap_or((kinds, ""));
    tools.split(',').any(|tool| match tool.trim() {
        "Helgrind" => kind == "Race",
        "drd" => kind == "ConflictingAccess",
        _ => false,
    })
}

impl Block {
    /// Whether a stack begins as the block says, from the innermost frame on.
    pub(super) fn matches(&self, stack: &Stack) -> bool {
        begins_with(&stack.frames, &self.frames)
    }
}

fn begins_with(frames: &[Frame], patterns: &[FramePattern]) -> bool {
    match (patterns, frames) {
        ([], _) => true,
        ([FramePattern::Any, rest @ ..], frames) => {
            (0..=frames.len()).any(|skipped| begins_with(&frames[skipped..], rest))
        }
        ([pattern, patterns @ ..], [frame, frames @ ..]) => {
            pattern.matches(frame) && begins_with(frames, patterns)
        }
        (_, []) => false,
    }
}

impl FramePattern {
    fn read(line: &str) -> Option<FramePattern> {
        if line == "..." {
            return Some(FramePattern::Any);
        }
        let (kind, pattern) = line.split_once(':')?;
        Some(match kind {
            // The names here are those of the source.
            "fun" => FramePattern::Function(demangle(pattern.as_bytes())),
            "obj" => FramePattern::Object(pattern.to_owned()),
            "src" => FramePattern::Source(pattern.to_owned()),
            _ => return None,
        })
    }

    fn matches(&self, frame: &Frame) -> bool {
        let place = &frame.place;
        match self {
            FramePattern::Any => true,
            FramePattern::Function(pattern) => {
                let name = place.function.as_deref();
                name.is_some_and(|name| matches(pattern, name))
            }
            FramePattern::Object(pattern) => {
                let module = place.module.as_deref();
                module.is_some_and(|module| matches(pattern, module))
            }
            FramePattern::Source(pattern) => place.line.as_deref().is_some_and(|place| {
                let (path, line) = place.rsplit_once(':').unwrap_or((place, ""));
                let file = path.rsplit('/').next().unwrap_or(path);
                matches(pattern, file) || matches(pattern, &format!("{file}:{line}"))
            }),
        }
    }
}

/// Whether a text is what a pattern describes: `*` is any text, `?` any character.
fn matches(pattern: &str, text: &str) -> bool {
    let (pattern, text): (Vec<char>, Vec<char>) =
        (pattern.chars().collect(), text.chars().collect());
    let (mut at, mut in_text) = (0, 0);
    // Behind the last `*`, and how much of the text that has taken.
    let mut star: Option<(usize, usize)> = None;
    while in_text < text.len() {
        match pattern.get(at) {
            Some('*') => {
                at += 1;
                star = Some((at, in_text));
            }
            Some(&wanted) if wanted == '?' || wanted == text[in_text] => {
                at += 1;
                in_text += 1;
            }
            _ => match &mut star {
                None => return false,
                Some((behind, taken)) => {
                    *taken += 1;
                    (at, in_text) = (*behind, *taken);
                }
            },
        }
    }
    pattern[at..].iter().all(|&rest| rest == '*')
}

#[cfg(test)]
mod tests {
    use unspool_report::CodePlace;

    use super::*;

    fn stack(functions: &[&str]) -> Stack {
        let frames = functions.iter().map(|function| Frame {
            pc: 1,
            place: CodePlace {
                function: Some((*function).to_owned()),
                module: Some("/usr/lib/libfoo.so.1".to_owned()),
                line: Some("src/foo.c:12".to_owned()),
                is_atomic: false,
            },
            is_inlined: false,
            is_interrupted: false,
            is_recursive: false,
        });
        Stack::of(frames.collect())
    }

    /// Whether a block with these lines leaves out a race in `c`, called by `b`, called by `a`.
    fn check(lines: &str, expected: bool) {
        let blocks = read(&format!("{{\n name\n Helgrind:Race\n{lines}\n}}\n")).unwrap();
        let matched = blocks[0].matches(&stack(&["c", "b", "a"]));
        assert_eq!(matched, expected, "{lines}");
    }

    #[test]
    fn frames_are_matched_from_the_innermost() {
        check("fun:c", true);
        check("fun:c\nfun:b", true);
        check("fun:b", false);
        check("fun:c\nfun:a", false);
        check("...\nfun:a", true);
        check("fun:c\n...\nfun:a", true);
        check("...\nfun:d", false);
        check("fun:c\nfun:b\nfun:a\nfun:z", false);
        check("fun:c\nfun:b\nfun:a\n...", true);
        check("obj:*/libfoo.so*\nfun:?", true);
        check("obj:libfoo.so", false);
        check("src:foo.c:12", true);
        check("src:foo.c", true);
        check("src:foo.c:13", false);
    }

    #[test]
    fn names_are_those_of_the_source() {
        let blocks = read("{\nname\nHelgrind:Race\nfun:_ZN3Foo3barEv\n}").unwrap();
        assert!(
            blocks[0].matches(&stack(&["Foo::bar"])) || blocks[0].matches(&stack(&["Foo::bar()"]))
        );
    }

    #[test]
    fn other_findings_are_passed_over() {
        let text = "# why\n{\n a\n Memcheck:Leak\n match-leak-kinds: reachable\n fun:malloc\n}\n\
                    {\n b\n Memcheck,Helgrind:Race\n fun:x\n}\n{\n c\n drd:ConflictingAccess\n fun:y\n}\n\
                    {\n d\n Helgrind:LockOrder\n fun:z\n}\n";
        let names: Vec<String> = read(text).unwrap().into_iter().map(|it| it.name).collect();
        assert_eq!(names, ["b", "c"]);
    }

    #[test]
    fn what_is_not_understood_is_named() {
        assert!(
            read("{\n a\n Helgrind:Race\n fnu:x\n}")
                .unwrap_err()
                .contains("line 4")
        );
        assert!(
            read("{\n a\n Helgrind:Race\n fun:x\n")
                .unwrap_err()
                .contains("no end")
        );
        assert!(
            read("{\n a\n Helgrind:Race\n}")
                .unwrap_err()
                .contains("no frame")
        );
        assert!(read("{\n a\n}").unwrap_err().contains("no kind"));
        assert!(read("fun:x\n").unwrap_err().contains("line 1"));
    }

    #[test]
    fn wildcards() {
        for (pattern, text, expected) in [
            ("*", "", true),
            ("a*b*c", "aXXbYYc", true),
            ("a*b*c", "aXXbYY", false),
            ("?x", "ax", true),
            ("?x", "x", false),
            ("*aab", "aaab", true),
        ] {
            assert_eq!(matches(pattern, text), expected, "{pattern} {text}");
        }
    }
}
