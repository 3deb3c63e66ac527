//! What stands outside functions: where their bodies are.

use super::tokens::is_directive;
use super::{Writer, enter_block};
use crate::InstrumentError;

/// What the tokens of a declaration have told so far.
#[derive(Default)]
struct Head {
    words: Vec<String>,
    /// The word before the first parentheses, once they have come.
    function: Option<String>,
    is_initialiser: bool,
    /// Whether a constructor's list of members follows.
    lists_members: bool,
    last: String,
}

/// What an opening brace starts.
enum Brace {
    /// More declarations.
    Declarations,
    /// The body of a function, whose name is given if calls may stand in it.
    Body(Option<String>),
    /// Something else, which is kept.
    Other,
}

/// Words before parentheses that are no function's name.
const NO_NAMES: &[&str] = &[
    "__attribute__",
    "__declspec",
    "alignas",
    "_Alignas",
    "noexcept",
    "throw",
    "decltype",
    "typeof",
    "__typeof__",
    "asm",
    "__asm__",
    "requires",
    "explicit",
];

impl Head {
    fn token(&mut self, token: &str) {
        match token {
            "=" if self.last != "operator" => self.is_initialiser = true,
            ":" if self.function.is_some() => self.lists_members = true,
            _ => {}
        }
        self.words.push(token.to_owned());
        self.last = token.to_owned();
    }

    fn parentheses(&mut self) {
        let is_name = |word: &str| {
            let starts = word.starts_with(|letter: char| letter.is_alphabetic() || letter == '_');
            starts && !NO_NAMES.contains(&word)
        };
        if self.function.is_none() && is_name(&self.last) {
            self.function = Some(self.last.clone());
        }
        self.last = "()".to_owned();
    }

    fn brace(&self) -> Brace {
        let has = |word: &str| self.words.iter().any(|one| one == word);
        if self.lists_members && self.last != "()" && self.last != "}" {
            // A member's braces: `Type() : member{1} {`.
            return Brace::Other;
        }
        if self.is_initialiser {
            return Brace::Other;
        }
        if let Some(name) = &self.function {
            let may_call = !has("constexpr") && !has("consteval") && name != "main";
            return Brace::Body(may_call.then(|| name.clone()));
        }
        let opens = ["namespace", "extern", "class", "struct", "union"];
        match opens.iter().any(|word| has(word)) && !has("enum") {
            true => Brace::Declarations,
            false => Brace::Other,
        }
    }
}

impl Writer<'_> {
    /// Instruments declarations.
    pub(super) fn declarations(
        &mut self,
        start: usize,
        end: usize,
    ) -> Result<String, InstrumentError> {
        let mut text = String::new();
        let mut head = Head::default();
        let mut at = start;
        while at < end {
            let next = self.next_token(at).min(end);
            text += &self.source[at..next];
            at = next;
            if at >= end {
                break;
            }
            let length = self.token_length(at);
            let token = &self.source[at..at + length];
            match token {
                "{" => {
                    let close = self.closing(at)?;
                    match head.brace() {
                        Brace::Declarations => {
                            text.push('{');
                            text += &self.declarations(at + 1, close - 1)?;
                            text.push('}');
                            head = Head::default();
                        }
                        Brace::Body(name) => {
                            text += &self.body(name, at, close)?;
                            head = Head::default();
                        }
                        Brace::Other => {
                            text += &self.source[at..close];
                            head.last = "}".to_owned();
                        }
                    }
                    at = close;
                }
                "(" | "[" => {
                    let close = self.closing(at)?;
                    text += &self.source[at..close];
                    if token == "(" {
                        head.parentheses();
                    }
                    at = close;
                }
                _ if is_directive(token) => {
                    // Directives that stand outside functions insert nothing, but intervals
                    // must not stand there.
                    if let Some((directive, true, _)) = self.pragma(at) {
                        return Err(self.error(
                            at,
                            match directive.name.as_str() {
                                "end interval" => "an interval ends that has not begun",
                                "interval" => "an interval must stand in a function",
                                _ => "there is no such directive",
                            },
                        ));
                    }
                    text += token;
                    at += length;
                }
                ";" => {
                    text.push(';');
                    head = Head::default();
                    at += length;
                }
                _ => {
                    head.token(token);
                    text += token;
                    at += length;
                }
            }
        }
        Ok(text)
    }

    /// A function's body, with its brackets.
    fn body(
        &mut self,
        name: Option<String>,
        at: usize,
        end: usize,
    ) -> Result<String, InstrumentError> {
        self.loops = 0;
        if let Some(name) = &name {
            let is_short = self.is_short(at + 1, end - 1);
            self.procedures.add(name, is_short);
        }
        let begin = match name {
            Some(name) if !self.left_out.has_function(&name) => {
                let handle = self.event("function", Some(name), at, end);
                enter_block("function", "func_begin", handle)
            }
            _ => String::new(),
        };
        let inner = self.statements(at + 1, end - 1)?;
        Ok(format!("{{{begin}{inner}}}"))
    }
}
