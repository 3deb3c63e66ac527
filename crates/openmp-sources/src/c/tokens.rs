//! Tokens, brackets, and where statements end.

use super::Writer;
use crate::InstrumentError;
use crate::directive::Directive;

impl Writer<'_> {
    /// Where the next token starts: after blanks and comments.
    pub(super) fn next_token(&self, mut at: usize) -> usize {
        let bytes = self.source.as_bytes();
        while at < bytes.len() {
            let rest = &self.source[at..];
            if bytes[at].is_ascii_whitespace() {
                at += 1;
            } else if rest.starts_with("//") {
                at += rest.find('\n').unwrap_or(rest.len());
            } else if rest.starts_with("/*") {
                at += rest.find("*/").map_or(rest.len(), |end| end + 2);
            } else {
                break;
            }
        }
        at
    }

    /// The token's length: a word, a literal, a directive of the preprocessor, a pragma as an
    /// operator or a sign.
    pub(super) fn token_length(&self, at: usize) -> usize {
        let rest = &self.source[at..];
        let first = rest.as_bytes()[0];
        if let Some(length) = pragma_operator(rest) {
            return length;
        }
        match first {
            b'"' | b'\'' => {
                let mut escaped = false;
                for (index, byte) in rest.bytes().enumerate().skip(1) {
                    match byte {
                        _ if escaped => escaped = false,
                        b'\\' => escaped = true,
                        _ if byte == first => return index + 1,
                        _ => {}
                    }
                }
                rest.len()
            }
            b'#' => logical_line(rest),
            _ if first.is_ascii_alphanumeric() || first == b'_' => {
                let is_word = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
                rest.bytes()
                    .position(|byte| !is_word(byte))
                    .unwrap_or(rest.len())
            }
            _ => rest.chars().next().map_or(1, char::len_utf8),
        }
    }

    /// The pragma here, whether it is one of ours, and where it ends.
    pub(super) fn pragma(&self, at: usize) -> Option<(Directive, bool, usize)> {
        let rest = &self.source[at..];
        let operator = pragma_operator(rest);
        let (text, length) = match operator {
            Some(length) => (operator_words(&rest[..length])?, length),
            None => {
                let length = logical_line(rest);
                let text = rest[..length].replace("\\\n", " ");
                let text = text.strip_prefix('#')?.trim_start();
                (text.strip_prefix("pragma")?.to_owned(), length)
            }
        };
        let words = text.trim_start();
        let end = at + length;
        if let Some(directive) = words.strip_prefix("omp") {
            return Some((Directive::parse(directive), false, end));
        }
        words
            .strip_prefix("unspool")
            .map(|directive| (Directive::parse(directive), true, end))
    }

    /// Where the statement ends that starts at or after `at`.
    pub(super) fn statement_end(&self, at: usize) -> Result<usize, InstrumentError> {
        let at = self.next_token(at);
        if at >= self.source.len() {
            return Err(self.error(at, "a statement is missing"));
        }
        let length = self.token_length(at);
        if is_directive(&self.source[at..at + length]) {
            return self.statement_end(at + length);
        }
        match &self.source[at..at + length] {
            "{" => self.closing(at),
            "}" | ")" | "]" => Err(self.error(at, "a statement is missing")),
            "for" | "while" | "switch" => {
                let head = self.closing(self.next_token(at + length))?;
                self.statement_end(head)
            }
            "if" => {
                let head = self.closing(self.next_token(at + length))?;
                let end = self.statement_end(head)?;
                let next = self.next_token(end);
                match self.source[next..].strip_prefix("else") {
                    Some(_) if self.token_length(next) == 4 => self.statement_end(next + 4),
                    _ => Ok(end),
                }
            }
            "do" => {
                let body = self.statement_end(at + length)?;
                self.semicolon(body)
            }
            "try" => {
                let mut end = self.statement_end(at + length)?;
                while let Some(head) = self.catch_head(end)? {
                    end = self.statement_end(head)?;
                }
                Ok(end)
            }
            _ => self.semicolon(at),
        }
    }

    /// Where the head of a `catch` ends that follows here.
    pub(super) fn catch_head(&self, at: usize) -> Result<Option<usize>, InstrumentError> {
        let next = self.next_token(at);
        let is_catch = self.source[next..].starts_with("catch") && self.token_length(next) == 5;
        if !is_catch {
            return Ok(None);
        }
        self.closing(self.next_token(next + 5)).map(Some)
    }

    pub(super) fn semicolon(&self, mut at: usize) -> Result<usize, InstrumentError> {
        let start = at;
        loop {
            at = self.next_token(at);
            match self.source.as_bytes().get(at) {
                None => return Err(self.error(start, "a statement does not end")),
                Some(b';') => return Ok(at + 1),
                // What a macro stands for may bring its own semicolon.
                Some(b'}') if at > start => return Ok(at),
                Some(b'(' | b'[' | b'{') => at = self.closing(at)?,
                Some(_) => at += self.token_length(at),
            }
        }
    }

    /// Where the bracket that opens here has been closed.
    pub(super) fn closing(&self, start: usize) -> Result<usize, InstrumentError> {
        let mut expected = Vec::new();
        let mut at = start;
        loop {
            at = self.next_token(at);
            match self.source.as_bytes().get(at) {
                None => return Err(self.error(start, "a bracket is not closed")),
                Some(b'(') => expected.push(b')'),
                Some(b'[') => expected.push(b']'),
                Some(b'{') => expected.push(b'}'),
                Some(byte @ (b')' | b']' | b'}')) => {
                    if expected.pop() != Some(*byte) {
                        return Err(self.error(at, "a bracket closes what was not opened"));
                    }
                }
                Some(_) => {}
            }
            at += self.token_length(at);
            if expected.is_empty() {
                return Ok(at);
            }
        }
    }
}

/// Whether a token is a directive of the preprocessor, or a pragma as an operator.
pub(super) fn is_directive(token: &str) -> bool {
    token.starts_with('#') || pragma_operator(token).is_some()
}

/// The length of `_Pragma("…")`, if it starts here: what macros and generators write instead
/// of a line with `#pragma`.
fn pragma_operator(text: &str) -> Option<usize> {
    let inside = text.strip_prefix("_Pragma")?.trim_start();
    let literal = inside.strip_prefix('(')?.trim_start();
    let literal = literal.strip_prefix('L').unwrap_or(literal);
    let mut rest = literal.strip_prefix('"')?.char_indices();
    while let Some((index, letter)) = rest.next() {
        match letter {
            '\\' => {
                rest.next();
            }
            '\n' => return None,
            '"' => {
                let after = literal[1 + index + 1..].trim_start();
                let after = after.strip_prefix(')')?;
                return Some(text.len() - after.len());
            }
            _ => {}
        }
    }
    None
}

/// What stands in the literal of `_Pragma("…")`.
pub(super) fn operator_words(operator: &str) -> Option<String> {
    pragma_operator(operator)?;
    let (_, literal) = operator.split_once('"')?;
    let (literal, _) = literal.rsplit_once('"')?;
    Some(literal.replace("\\\"", "\"").replace("\\\\", "\\"))
}

/// A line with those that continue it, without its end.
fn logical_line(text: &str) -> usize {
    let mut at = 0;
    loop {
        let Some(end) = text[at..].find('\n').map(|end| at + end) else {
            return text.len();
        };
        if !text[..end].trim_end_matches('\r').ends_with('\\') {
            return end;
        }
        at = end + 1;
    }
}
