//! Statements: calls, and sequential loops.

use std::collections::HashSet;

use super::not_calls::is_call;
use super::tokens::is_directive;
use super::{Writer, call, enter_block};
use crate::InstrumentError;

impl Writer<'_> {
    /// Instruments the statements of a block.
    pub(super) fn statements(
        &mut self,
        start: usize,
        end: usize,
    ) -> Result<String, InstrumentError> {
        let mut text = String::new();
        let mut at = start;
        loop {
            let next = self.next_token(at).min(end);
            text += &self.source[at..next];
            if next >= end {
                return Ok(text);
            }
            let (new, after) = self.statement(next, true)?;
            text += &new;
            if after > end {
                return Err(self.error(next, "an interval ends within this statement"));
            }
            at = after.max(next + 1).min(end);
        }
    }

    /// A statement that is part of another, with what stands before it.
    pub(super) fn inner(&mut self, at: usize) -> Result<(String, usize), InstrumentError> {
        let next = self.next_token(at);
        if next >= self.source.len() {
            return Err(self.error(next, "a statement is missing"));
        }
        let (text, end) = self.statement(next, false)?;
        Ok((self.source[at..next].to_owned() + &text, end))
    }

    /// The statement that starts here. In a list it may become several.
    fn statement(&mut self, at: usize, in_list: bool) -> Result<(String, usize), InstrumentError> {
        let length = self.token_length(at);
        let token = &self.source[at..at + length];
        let kept = |end: usize| self.source[at..end].to_owned();
        match token {
            "{" => {
                let end = self.closing(at)?;
                let inner = self.statements(at + 1, end - 1)?;
                Ok((format!("{{{inner}}}"), end))
            }
            _ if is_directive(token) => match self.pragma(at) {
                Some((directive, is_own, after)) => self.directive(&directive, is_own, at, after),
                None if in_list => Ok((kept(at + length), at + length)),
                None => {
                    let line = kept(at + length);
                    let (text, end) = self.inner(at + length)?;
                    Ok((line + &text, end))
                }
            },
            "for" | "while" | "do" => self.sequential_loop(at),
            "if" => {
                let mut head = at + length;
                if self.source[self.next_token(head)..].starts_with("constexpr") {
                    head = self.next_token(head) + "constexpr".len();
                }
                let head = self.closing(self.next_token(head))?;
                let (then, end) = self.inner(head)?;
                let mut text = kept(head) + &then;
                let next = self.next_token(end);
                let is_else =
                    self.source[next..].starts_with("else") && self.token_length(next) == 4;
                if !is_else {
                    return Ok((text, end));
                }
                text += &self.source[end..next + 4];
                let (otherwise, end) = self.inner(next + 4)?;
                Ok((text + &otherwise, end))
            }
            "switch" => {
                let head = self.closing(self.next_token(at + length))?;
                let text = kept(head);
                let (body, end) = self.inner(head)?;
                Ok((text + &body, end))
            }
            "try" => {
                let text = kept(at + length);
                let (body, mut end) = self.inner(at + length)?;
                let mut text = text + &body;
                while let Some(head) = self.catch_head(end)? {
                    text += &self.source[end..head];
                    let (body, after) = self.inner(head)?;
                    text += &body;
                    end = after;
                }
                Ok((text, end))
            }
            "case" | "default" => {
                let end = self.after_colon(at)?;
                Ok((kept(end), end))
            }
            "}" | ")" | "]" => Err(self.error(at, "a statement is missing")),
            ";" => Ok((kept(at + 1), at + 1)),
            _ if self.is_label(at + length) && is_word(token) => {
                let end = self.after_colon(at)?;
                Ok((kept(end), end))
            }
            _ => {
                let end = self.semicolon(at)?;
                let text = &self.source[at..end];
                let name = called(text, &self.macros);
                let Some(name) = name.filter(|name| !self.left_out.has_call(name)) else {
                    return Ok((text.to_owned(), end));
                };
                let handle = self.event("func_call", Some(name), at, at);
                let (before, after) = (
                    call("before_func_call", handle),
                    call("after_func_call", handle),
                );
                let text = &self.source[at..end];
                Ok(match in_list {
                    true => (format!("{before} {text} {after}"), end),
                    false => (format!("{{ {before} {text} {after} }}"), end),
                })
            }
        }
    }

    fn is_label(&self, after: usize) -> bool {
        let next = self.next_token(after);
        let rest = &self.source[next..];
        rest.starts_with(':') && !rest.starts_with("::")
    }

    /// After the colon of a label.
    fn after_colon(&self, start: usize) -> Result<usize, InstrumentError> {
        let mut at = start;
        loop {
            at = self.next_token(at);
            let rest = &self.source[at..];
            match rest.as_bytes().first() {
                None | Some(b';' | b'}') => return Err(self.error(start, "a label does not end")),
                Some(b'(' | b'[' | b'{') => at = self.closing(at)?,
                Some(b':') if rest.starts_with("::") => at += 2,
                Some(b':') => return Ok(at + 1),
                Some(_) => at += self.token_length(at),
            }
        }
    }

    /// A loop that threads do not share. The outermost of a nest is an event, unless it only computes
    /// what is a part of an iteration of a loop that they do share: there are many such, and all that
    /// they are is work of that loop.
    fn sequential_loop(&mut self, at: usize) -> Result<(String, usize), InstrumentError> {
        let end = self.statement_end(at)?;
        let is_event = self.loops == 0
            && !self.left_out.loops
            && !(self.is_in_shared_loop && self.is_plain(at, end));
        let handle = is_event.then(|| self.event("seqloop", None, at, end));
        self.loops += 1;
        let text = self.loop_text(at, end, 1);
        self.loops -= 1;
        let text = text?;
        Ok(match handle {
            Some(handle) => {
                let enter = enter_block("loop", "begsl", handle);
                (format!("{{ {enter} {text} }}"), end)
            }
            None => (text, end),
        })
    }

    /// A loop: heads that must directly follow each other as they are, then what they repeat.
    pub(super) fn loop_text(
        &mut self,
        at: usize,
        end: usize,
        heads: usize,
    ) -> Result<String, InstrumentError> {
        let next = self.next_token(at);
        let length = self.token_length(next);
        match &self.source[next..next + length] {
            "for" | "while" => {
                let head = self.closing(self.next_token(next + length))?;
                let text = self.source[at..head].to_owned();
                if heads > 1 {
                    return Ok(text + &self.loop_text(head, end, heads - 1)?);
                }
                let (body, _) = self.inner(head)?;
                Ok(text + &body)
            }
            "do" => {
                let text = self.source[at..next + length].to_owned();
                let (body, after) = self.inner(next + length)?;
                Ok(text + &body + &self.source[after..end])
            }
            // Another directive, or braces around the next loop of a nest.
            _ => Ok(self.source[at..end].to_owned()),
        }
    }
}

fn is_word(token: &str) -> bool {
    token.starts_with(|letter: char| letter.is_ascii_alphabetic() || letter == '_')
}

/// The name in the event of a statement that is a call, or assigns what one returns.
fn called(text: &str, macros: &HashSet<&str>) -> Option<String> {
    let mut text = text.trim().strip_suffix(';')?.trim_end();
    if let Some((_, right)) = split_assignment(text) {
        text = right.trim();
    }
    // `(void)f();`
    if let Some(rest) = text.strip_prefix('(') {
        let (cast, rest) = rest.split_once(')')?;
        let is_type = |letter: char| letter.is_alphanumeric() || "_ *:".contains(letter);
        if !cast.chars().all(is_type) {
            return None;
        }
        text = rest.trim();
    }
    let open = text.find('(')?;
    let (callee, arguments) = text.split_at(open);
    let callee = callee.trim();
    let is_path = |letter: char| letter.is_alphanumeric() || "_.:->".contains(letter);
    let (inside, after) = crate::directive::parentheses(arguments);
    if callee.is_empty() || !callee.chars().all(is_path) || !after.trim().is_empty() {
        return None;
    }
    let name = callee.rsplit(['.', ':', '>']).next().unwrap_or(callee);
    if !is_word(name) || !is_call(callee, name) || macros.contains(callee) {
        return None;
    }
    let lock = |mark: &str| Some(format!("{mark}{}", inside.trim().trim_start_matches('&')));
    match name {
        "omp_set_lock" => lock("@set_lock_"),
        "omp_unset_lock" => lock("@unset_lock_"),
        "omp_set_nest_lock" => lock("@set_nested_"),
        "omp_unset_nest_lock" => lock("@unset_nested_"),
        other
            if ["omp_", "dbg_", "__"]
                .iter()
                .any(|start| other.starts_with(start)) =>
        {
            None
        }
        other => Some(other.to_owned()),
    }
}

/// The sides of an assignment outside of brackets and literals.
fn split_assignment(text: &str) -> Option<(&str, &str)> {
    let bytes = text.as_bytes();
    let mut depth = 0;
    let mut quote = None;
    for (index, byte) in bytes.iter().enumerate() {
        match (quote, byte) {
            (Some(open), byte) if *byte == open && bytes[index - 1] != b'\\' => quote = None,
            (Some(_), _) => {}
            (None, b'"' | b'\'') => quote = Some(*byte),
            (None, b'(' | b'[' | b'{') => depth += 1,
            (None, b')' | b']' | b'}') => depth -= 1,
            (None, b'=') if depth == 0 => {
                let before = index.checked_sub(1).map_or(b' ', |index| bytes[index]);
                if bytes.get(index + 1) == Some(&b'=') || b"=!<>".contains(&before) {
                    return None;
                }
                return Some((&text[..index], &text[index + 1..]));
            }
            _ => {}
        }
    }
    None
}
