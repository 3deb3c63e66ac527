//! Which races are not told, because somebody has looked at them.
//!
//! The lines are ThreadSanitizer's `race:PATTERN` and `race_top:PATTERN`, and two kinds of our own:
//! `both:PATTERN`, which both places must match, and `object:PATTERN`, for the variable or the section.
//! `A|B` is either. A file with blocks in braces is Helgrind's.

mod helgrind;

use std::path::PathBuf;

use anyhow::Context;

use super::described_race::DescribedRace;
use super::stacks::Frame;
use crate::failure::Failure;

/// Those that come with the command, with their reasons.
const OWN: &str = include_str!("own.supp");

/// Lines of suppressions.
#[derive(Debug, Clone, Default)]
pub(super) struct Suppressions {
    lines: Vec<Line>,
    blocks: Vec<helgrind::Block>,
}

#[derive(Debug, Clone)]
struct Line {
    text: String,
    about: About,
    patterns: Vec<Pattern>,
}

/// What must match.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum About {
    /// One of the functions that have not returned, in either access, or the variable.
    Any,
    /// The place of either access.
    Top,
    /// The places of both.
    Both,
    /// The variable or the section.
    Object,
}

/// A text with `*` for any text, `^` for the beginning and `$` for the end.
#[derive(Debug, Clone)]
struct Pattern {
    parts: Vec<String>,
    at_start: bool,
    at_end: bool,
}

impl Suppressions {
    /// Those of files, and our own where they are wanted.
    pub(super) fn read(paths: &[PathBuf], with_own: bool) -> Result<Suppressions, Failure> {
        let mut all = Suppressions::default();
        if with_own {
            all.add(OWN)
                .map_err(|line| Failure::new(format!("unspool's own suppressions: {line}")))?;
        }
        for path in paths {
            let text = std::fs::read_to_string(path)
                .with_context(|| format!("cannot read {}", path.display()))?;
            all.add(&text).map_err(|line| {
                Failure::new(format!("{}: {line}", path.display())).with_help(
                    "each line is race:, race_top:, both: or object: and a pattern, or a # and a \
                     comment; or the file has Helgrind's blocks in braces",
                )
            })?;
        }
        Ok(all)
    }

    fn add(&mut self, text: &str) -> Result<(), String> {
        if text.lines().any(|line| line.trim() == "{") {
            self.blocks.extend(helgrind::read(text)?);
            return Ok(());
        }
        for (line, number) in text.lines().map(str::trim).zip(1..) {
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            let (kind, pattern) = line.split_once(':').unwrap_or((line, ""));
            let about = match kind {
                "race" => About::Any,
                "race_top" => About::Top,
                "both" => About::Both,
                "object" => About::Object,
                // ThreadSanitizer's other findings, which are none of ours.
                "thread" | "mutex" | "signal" | "deadlock" | "called_from_lib" => continue,
                _ => return Err(format!("line {number} is not understood: {line}")),
            };
            if pattern.is_empty() {
                return Err(format!("line {number} has no pattern: {line}"));
            }
            self.lines.push(Line {
                text: line.to_owned(),
                about,
                patterns: pattern.split('|').map(Pattern::new).collect(),
            });
        }
        Ok(())
    }

    /// The line by which a race is left out.
    pub(super) fn reason(&self, race: &DescribedRace) -> Option<&str> {
        let line = self.lines.iter().find(|line| line.matches(race));
        let block = || {
            let fits = |block: &&helgrind::Block| race.stacks.iter().any(|it| block.matches(it));
            let block = self.blocks.iter().find(fits)?;
            Some(&block.name)
        };
        line.map(|line| &line.text)
            .or_else(block)
            .map(String::as_str)
    }
}

impl Line {
    fn matches(&self, race: &DescribedRace) -> bool {
        let mut tops = race
            .stacks
            .iter()
            .map(|stack| stack.top().any(|frame| self.is_in(frame)));
        let mut frames = race.stacks.iter().flat_map(|stack| &stack.frames);
        let finds = |text: &Option<String>| text.iter().any(|text| self.finds(text));
        match self.about {
            About::Both => tops.all(|matches| matches),
            About::Top => tops.any(|matches| matches),
            About::Any => frames.any(|frame| self.is_in(frame)) || finds(&race.data.variable),
            About::Object => finds(&race.data.variable) || finds(&race.data.section),
        }
    }

    /// Whether the pattern is found in the function, the source file or the file of code.
    fn is_in(&self, frame: &Frame) -> bool {
        let place = &frame.place;
        let file = place
            .line
            .as_deref()
            .map(|line| match line.rsplit_once(':') {
                Some((file, _)) => file,
                None => line,
            });
        let texts = [place.function.as_deref(), file, place.module.as_deref()];
        texts.into_iter().flatten().any(|text| self.finds(text))
    }

    fn finds(&self, text: &str) -> bool {
        self.patterns.iter().any(|pattern| pattern.matches(text))
    }
}

impl Pattern {
    fn new(text: &str) -> Pattern {
        let at_start = text.starts_with('^');
        let at_end = text.ends_with('$');
        let text = text.trim_start_matches('^').trim_end_matches('$');
        Pattern {
            parts: text.split('*').map(str::to_owned).collect(),
            at_start,
            at_end,
        }
    }

    fn matches(&self, text: &str) -> bool {
        let (Some(first), Some(last)) = (self.parts.first(), self.parts.last()) else {
            return true;
        };
        if self.at_start && self.at_end && self.parts.len() == 1 {
            return text == first;
        }
        if self.at_start && !text.starts_with(first.as_str()) {
            return false;
        }
        if self.at_end && !text.ends_with(last.as_str()) {
            return false;
        }
        let mut rest = text;
        for part in &self.parts {
            match rest.find(part.as_str()) {
                Some(found) => rest = &rest[found + part.len()..],
                None => return false,
            }
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_match_as_thread_sanitizers_do() {
        for (pattern, text, expected) in [
            ("count", "recount_all", true),
            ("^count", "recount", false),
            ("^re*all$", "recount_all", true),
            ("re*x", "recount", false),
            ("count$", "recount", true),
            ("count$", "counts", false),
            ("^count$", "count", true),
            ("^count$", "countcount", false),
        ] {
            assert_eq!(
                Pattern::new(pattern).matches(text),
                expected,
                "{pattern} {text}"
            );
        }
    }

    #[test]
    fn lines_that_are_not_understood_are_named() {
        let mut all = Suppressions::default();
        assert!(
            all.add("# why\n\nrace:a\nboth:libc.so|ld\nmutex:x\n")
                .is_ok()
        );
        assert_eq!(all.lines.len(), 2);
        assert!(all.add("rase:a").unwrap_err().contains("line 1"));
        assert!(all.add("race:").unwrap_err().contains("no pattern"));
    }

    #[test]
    fn own_lines_are_understood() {
        assert!(Suppressions::read(&[], true).is_ok());
    }
}
