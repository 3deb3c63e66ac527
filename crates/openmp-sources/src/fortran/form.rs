//! Free and fixed form: where statements start and end, and how new ones are written.

/// The form of a source.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Form {
    Free,
    Fixed,
}

/// A statement without comments and continuation marks, as it was written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Statement {
    /// Its label, or nothing.
    pub(super) label: String,
    /// Its text, on one line.
    pub(super) text: String,
    /// The same in lower case.
    pub(super) lower: String,
}

/// How long lines of new statements become, apart from what continues them.
const FREE_WIDTH: usize = 100;
/// In fixed form the statement field is what it is.
const FIXED_WIDTH: usize = 66;

impl Form {
    pub(super) fn is_fixed(self) -> bool {
        self == Form::Fixed
    }

    /// Whether a line is blank or a comment.
    pub(super) fn is_comment(self, line: &str) -> bool {
        let first = line.chars().next();
        line.trim().is_empty()
            || line.trim_start().starts_with('!')
            || (self.is_fixed() && matches!(first, Some('c' | 'C' | '*' | 'd' | 'D')))
    }

    /// The text of a directive with this sentinel.
    pub(super) fn sentinel<'line>(self, line: &'line str, sentinel: &str) -> Option<&'line str> {
        let line = if self.is_fixed() {
            line
        } else {
            line.trim_start()
        };
        let start = line.get(..sentinel.len())?;
        let is_marked =
            start.starts_with('!') || (self.is_fixed() && start.starts_with(['c', 'C', '*']));
        let is_it = is_marked && start[1..].eq_ignore_ascii_case(&sentinel[1..]);
        is_it.then(|| &line[sentinel.len()..])
    }

    /// How many lines the first statement or directive takes.
    pub(super) fn statement_length(self, lines: &[&str]) -> usize {
        let is_directive = self.sentinel(lines[0], "!$omp").is_some();
        if !is_directive && (self.is_comment(lines[0]) || lines[0].starts_with('#')) {
            return 1;
        }
        let mut length = 1;
        while length < lines.len() {
            let (last, next) = (lines[length - 1], lines[length]);
            let continues = match (self, is_directive) {
                (Form::Free, true) => {
                    let words = self.sentinel(last, "!$omp").unwrap_or("");
                    without_comment(words).trim_end().ends_with('&')
                }
                // Comments may stand between a line and what continues it.
                (Form::Free, false) => {
                    let mut written = lines[..length].iter().rev();
                    let last = written.find(|line| !self.is_comment(line)).unwrap_or(&"");
                    without_comment(last).trim_end().ends_with('&')
                }
                (Form::Fixed, true) => self
                    .sentinel(next, "!$omp")
                    .is_some_and(|rest| !rest.starts_with([' ', '0', '\t']) && !rest.is_empty()),
                (Form::Fixed, false) => {
                    !self.is_comment(next)
                        && next.get(..5).is_some_and(|start| start.trim().is_empty())
                        && next
                            .as_bytes()
                            .get(5)
                            .is_some_and(|mark| !b" 0".contains(mark))
                }
            };
            if !continues {
                break;
            }
            length += 1;
        }
        length
    }

    /// A directive's words, without sentinels.
    pub(super) fn directive_text(self, lines: &[&str]) -> String {
        let words = lines.iter().filter_map(|one| self.sentinel(one, "!$omp"));
        let words = words
            .enumerate()
            .map(|(index, one)| match self.is_fixed() && index > 0 {
                // The sixth column only says that the line continues.
                true => one.get(1..).unwrap_or(""),
                false => one,
            });
        let words = words.map(|one| without_comment(one).trim().trim_matches('&'));
        words.collect::<Vec<_>>().join(" ")
    }

    /// What the lines of a statement say.
    pub(super) fn statement(self, lines: &[&str]) -> Statement {
        let mut text = String::new();
        for (index, line) in lines.iter().enumerate() {
            if self.is_comment(line) {
                continue;
            }
            match self {
                Form::Free => {
                    let part = without_comment(line).trim();
                    let part = match index {
                        0 => part,
                        _ => part.strip_prefix('&').unwrap_or(part),
                    };
                    text += part.strip_suffix('&').unwrap_or(part);
                }
                Form::Fixed if index == 0 => text += without_comment(line).trim_end(),
                Form::Fixed => text += without_comment(line.get(6..).unwrap_or("")).trim_end(),
            }
        }
        let text = text.trim();
        let digits = text.bytes().take_while(u8::is_ascii_digit).count();
        let (label, text) = text.split_at(digits);
        let text = text.trim();
        Statement {
            label: label.to_owned(),
            text: text.to_owned(),
            lower: text.to_ascii_lowercase(),
        }
    }

    /// A statement in lines of this form.
    pub(super) fn written(self, label: &str, text: &str) -> String {
        let letters: Vec<char> = text.chars().collect();
        let (first, width) = match self {
            Form::Free if label.is_empty() => (String::new(), FREE_WIDTH),
            Form::Free => (format!("{label} "), FREE_WIDTH),
            Form::Fixed => (format!("{label:<6}"), FIXED_WIDTH),
        };
        let (end, next) = match self {
            Form::Free => ("&", "&"),
            Form::Fixed => ("", "     &"),
        };
        let mut lines = first;
        for (index, part) in letters.chunks(width).enumerate() {
            if index > 0 {
                lines += &format!("{end}\n{next}");
            }
            lines.extend(part);
        }
        lines.push('\n');
        lines
    }

    /// A directive in lines of this form, which are broken at blanks and commas.
    pub(super) fn written_directive(self, directive: &str) -> String {
        let limit = if self.is_fixed() { 66 } else { 120 };
        let mut rest = directive.trim().to_owned();
        let mut lead = "!$omp ";
        let mut lines = String::new();
        while rest.len() > limit {
            let Some(split) = rest[..limit].rfind([' ', ',']).filter(|split| *split > 0) else {
                break;
            };
            let tail = rest.split_off(split + 1);
            let mark = if self.is_fixed() { "" } else { " &" };
            lines += &format!("{lead}{rest}{mark}\n");
            lead = if self.is_fixed() { "!$omp&" } else { "!$omp& " };
            rest = tail;
        }
        lines + &format!("{lead}{rest}\n")
    }
}

/// A line without the comment at its end.
pub(super) fn without_comment(line: &str) -> &str {
    let mut quote = None;
    for (index, letter) in line.char_indices() {
        match (quote, letter) {
            (None, '\'' | '"') => quote = Some(letter),
            (Some(open), letter) if open == letter => quote = None,
            (None, '!') => return &line[..index],
            _ => {}
        }
    }
    line
}
