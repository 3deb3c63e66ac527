//! Context strings: what an event is, and where in the source.
//!
//! ```text
//! string := length "*" (attribute "=" value "*")* "*"
//! ```
//!
//! In a value, a star is written `*\`. The length counts from the first star to the last;
//! it must be there, and nobody looks at it. The shortest string is `2**`.

use std::fmt;

/// A context string.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ContextString {
    attributes: Vec<(String, String)>,
}

/// Which rule of the grammar a string breaks, and at which byte.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ContextStringError {
    /// It must start with its length.
    #[error("the string does not start with its length")]
    NoLength,
    /// After the length comes a star.
    #[error("byte {0}: no star follows the length")]
    NoStar(usize),
    /// Each attribute has a name and a value.
    #[error("byte {0}: an attribute has no value")]
    NoValue(usize),
    /// No attribute is without a name, or starts with a backslash.
    #[error("byte {0}: an attribute has no proper name")]
    BadName(usize),
    /// Two stars end it.
    #[error("byte {0}: the string does not end in two stars")]
    NoEnd(usize),
    /// Nothing follows but blanks.
    #[error("byte {0}: something follows the two stars at the end")]
    AfterEnd(usize),
}

impl ContextString {
    /// A string of these attributes.
    #[must_use]
    pub fn new(attributes: &[(&str, &str)]) -> ContextString {
        let owned = attributes
            .iter()
            .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
        ContextString {
            attributes: owned.collect(),
        }
    }

    /// Reads a string.
    ///
    /// # Errors
    /// The first rule that it breaks.
    pub fn parse(text: &str) -> Result<ContextString, ContextStringError> {
        let digits = text.bytes().take_while(u8::is_ascii_digit).count();
        if digits == 0 {
            return Err(ContextStringError::NoLength);
        }
        if text.as_bytes().get(digits) != Some(&b'*') {
            return Err(ContextStringError::NoStar(digits));
        }
        let mut attributes = Vec::new();
        let mut at = digits + 1;
        loop {
            let rest = &text[at..];
            if let Some(after) = rest.strip_prefix('*') {
                let blank = |byte: char| byte.is_whitespace() || byte == '\0';
                return match after.trim_matches(blank).is_empty() {
                    true => Ok(ContextString { attributes }),
                    false => Err(ContextStringError::AfterEnd(at + 1)),
                };
            }
            if rest.is_empty() {
                return Err(ContextStringError::NoEnd(at));
            }
            let stop = rest
                .find(['=', '*'])
                .ok_or(ContextStringError::NoEnd(text.len()))?;
            if rest.as_bytes()[stop] == b'*' {
                return Err(ContextStringError::NoValue(at));
            }
            if stop == 0 || rest.starts_with('\\') {
                return Err(ContextStringError::BadName(at));
            }
            let (value, length) =
                parse_value(&rest[stop + 1..]).ok_or(ContextStringError::NoEnd(text.len()))?;
            attributes.push((rest[..stop].to_owned(), value));
            at += stop + 1 + length;
        }
    }

    /// The value of an attribute, whose name's case does not matter.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&str> {
        let found = self
            .attributes
            .iter()
            .find(|(one, _)| one.eq_ignore_ascii_case(name));
        found.map(|(_, value)| value.as_str())
    }

    /// All attributes, in their order.
    pub fn attributes(&self) -> impl Iterator<Item = (&str, &str)> {
        self.attributes
            .iter()
            .map(|(name, value)| (name.as_str(), value.as_str()))
    }

    /// The type of the event.
    #[must_use]
    pub fn kind(&self) -> &str {
        self.get("type").unwrap_or("")
    }

    /// The source file, its first and last line.
    #[must_use]
    pub fn lines(&self) -> (String, u64, u64) {
        let line = |name: &str| self.get(name).and_then(|value| value.trim().parse().ok());
        let first = line("line1").unwrap_or(0);
        (
            self.get("file").unwrap_or("").to_owned(),
            first,
            line("line2").unwrap_or(first),
        )
    }
}

/// A value without its escapes, and how many bytes it took with the star at its end.
fn parse_value(text: &str) -> Option<(String, usize)> {
    let mut value = String::new();
    let mut at = 0;
    loop {
        let star = at + text[at..].find('*')?;
        value.push_str(&text[at..star]);
        if text.as_bytes().get(star + 1) != Some(&b'\\') {
            return Some((value, star + 1));
        }
        value.push('*');
        at = star + 2;
    }
}

impl fmt::Display for ContextString {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut text = String::from("*");
        for (name, value) in &self.attributes {
            text += &format!("{name}={}*", value.replace('*', "*\\"));
        }
        text.push('*');
        write!(formatter, "{}{text}", text.len())
    }
}

/// The strings of a program, by number: the first line of the file is number 1.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ContextStrings(Vec<Option<ContextString>>);

impl ContextStrings {
    /// Reads a file of strings. Lines that are none keep their number, and are listed with
    /// the rule that they break.
    #[must_use]
    pub fn parse(text: &str) -> (ContextStrings, Vec<(usize, ContextStringError)>) {
        let mut strings = Vec::new();
        let mut problems = Vec::new();
        for (index, line) in text.lines().enumerate() {
            match ContextString::parse(line.trim_end()) {
                Ok(string) => strings.push(Some(string)),
                Err(problem) => {
                    problems.push((index + 1, problem));
                    strings.push(None);
                }
            }
        }
        (ContextStrings(strings), problems)
    }

    /// The string of a handle, as a trace has it.
    ///
    /// Programs whose handles are four bytes wide leave the number of the next one in the
    /// upper half; other handles are compared as they are.
    #[must_use]
    pub fn of_handle(&self, handle: u64) -> Option<&ContextString> {
        let by_number = |number: u64| {
            let index = usize::try_from(number).ok()?.checked_sub(1)?;
            self.0.get(index)?.as_ref()
        };
        let (low, high) = (handle & 0xffff_ffff, handle >> 32);
        by_number(handle).or_else(|| by_number(low).filter(|_| high == low + 1))
    }
}
