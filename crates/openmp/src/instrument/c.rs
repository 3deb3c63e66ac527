//! C and C++.
//!
//! A pragma's statement is found by its brackets, so that what is inserted goes around it
//! whatever it is. Lines keep their order; `#line` is not needed, since context strings have
//! the numbers of the original.

use super::InstrumentError;
use super::directive::{Directive, Part};
use super::events::Events;

/// The instrumented source.
pub(super) fn instrument(source: &str, file: &str) -> Result<String, InstrumentError> {
    let mut writer = Writer {
        source,
        events: Events::new(file),
    };
    let body = writer.range(0, source.len())?;
    let strings = writer.events.strings();
    Ok(preamble(&strings) + &body)
}

/// Declarations, handles, and their registration before `main`.
fn preamble(strings: &[String]) -> String {
    const FUNCTIONS: &[&str] = &[
        "before_parallel",
        "parallel_event",
        "parallel_event_end",
        "after_parallel",
        "before_omp_loop",
        "after_omp_loop",
        "before_sections",
        "after_sections",
        "before_single",
        "single_event",
        "single_event_end",
        "after_single",
        "master_begin",
        "master_end",
        "before_critical",
        "critical_event",
        "critical_event_end",
        "after_critical",
        "before_barrier",
        "after_barrier",
        "before_flush",
        "flush_event",
        "before_ordered",
        "ordered_event",
        "after_ordered",
        "before_func_call",
        "after_func_call",
        "before_interval",
        "after_interval",
    ];
    let mut text = String::from("#ifdef __cplusplus\nextern \"C\" {\n#endif\n");
    text += "void dbg_init(long *);\nvoid dbg_get_handle(long *, const char *);\n";
    for function in FUNCTIONS {
        text += &format!("void dbg_{function}(long *);\n");
    }
    text += "#ifdef __cplusplus\n}\n#endif\n";
    text += &format!("static long unspool_h[{}];\n", strings.len() + 1);
    text += "__attribute__((constructor)) static void unspool_register(void)\n{\n";
    text += "    dbg_init(unspool_h);\n";
    for (index, string) in strings.iter().enumerate() {
        let escaped = string.replace('\\', "\\\\").replace('"', "\\\"");
        text += &format!(
            "    dbg_get_handle(unspool_h + {}, \"{escaped}\");\n",
            index + 1
        );
    }
    text + "}\n"
}

fn call(function: &str, handle: usize) -> String {
    format!("dbg_{function}(unspool_h + {handle});")
}

struct Writer<'source> {
    source: &'source str,
    events: Events,
}

impl Writer<'_> {
    fn line(&self, at: usize) -> usize {
        self.source.as_bytes()[..at.min(self.source.len())]
            .iter()
            .filter(|byte| **byte == b'\n')
            .count()
            + 1
    }

    fn error(&self, at: usize, what: &str) -> InstrumentError {
        InstrumentError {
            line: self.line(at),
            what: what.to_owned(),
        }
    }

    /// Instruments a part of the source.
    fn range(&mut self, start: usize, end: usize) -> Result<String, InstrumentError> {
        let mut text = String::new();
        let mut at = start;
        while at < end {
            let next = self.next_token(at);
            let next = next.min(end);
            text += &self.source[at..next];
            at = next;
            if at >= end {
                break;
            }
            if let Some((directive, is_own, after)) = self.pragma(at) {
                let (new, after) = self.directive(&directive, is_own, at, after)?;
                text += &new;
                at = after;
                continue;
            }
            if let Some((new, after)) = self.lock_call(at) {
                text += &new;
                at = after;
                continue;
            }
            let length = self.token_length(at);
            text += &self.source[at..at + length];
            at += length;
        }
        Ok(text)
    }

    /// Where the next token starts: after blanks and comments.
    fn next_token(&self, mut at: usize) -> usize {
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

    /// The token's length: a word, a literal, a directive of the preprocessor or a sign.
    fn token_length(&self, at: usize) -> usize {
        let rest = &self.source[at..];
        let first = rest.as_bytes()[0];
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
    fn pragma(&self, at: usize) -> Option<(Directive, bool, usize)> {
        let rest = &self.source[at..];
        let length = logical_line(rest);
        let text = rest[..length].replace("\\\n", " ");
        let words = text
            .strip_prefix('#')?
            .trim_start()
            .strip_prefix("pragma")?
            .trim_start();
        let end = at + length;
        if let Some(directive) = words.strip_prefix("omp") {
            return Some((Directive::parse(directive), false, end));
        }
        words
            .strip_prefix("unspool")
            .map(|directive| (Directive::parse(directive), true, end))
    }

    /// `omp_set_lock(…);` and its kin, as statements.
    fn lock_call(&mut self, at: usize) -> Option<(String, usize)> {
        let length = self.token_length(at);
        let mark = match &self.source[at..at + length] {
            "omp_set_lock" => "@set_lock_",
            "omp_unset_lock" => "@unset_lock_",
            "omp_set_nest_lock" => "@set_nested_",
            "omp_unset_nest_lock" => "@unset_nested_",
            _ => return None,
        };
        let end = self.statement_end(at).ok()?;
        let statement = &self.source[at..end];
        let argument = statement[length..]
            .trim()
            .strip_prefix('(')?
            .strip_suffix(';')?
            .trim();
        let name = argument.strip_suffix(')')?.trim().trim_start_matches('&');
        let line = self.line(at);
        let handle = self
            .events
            .add("func_call", Some(format!("{mark}{name}")), line);
        let (before, after) = (
            call("before_func_call", handle),
            call("after_func_call", handle),
        );
        Some((format!("{{ {before} {statement} {after} }}"), end))
    }

    fn directive(
        &mut self,
        directive: &Directive,
        is_own: bool,
        at: usize,
        after: usize,
    ) -> Result<(String, usize), InstrumentError> {
        let line = self.line(at);
        let pragma = self.source[at..after].to_owned();
        if is_own {
            return self.interval(directive, at, after);
        }
        let simple = |kind: &'static str| Some(kind);
        match directive.name.as_str() {
            "parallel" => self.parallel(directive, at, after, None),
            "parallel for" | "parallel for simd" => {
                let work = if directive.name.ends_with("simd") {
                    "for simd"
                } else {
                    "for"
                };
                self.parallel(directive, at, after, Some(work))
            }
            "parallel sections" => self.parallel(directive, at, after, Some("sections")),
            "for" | "for simd" | "sections" | "single" => {
                let end = self.statement_end(after)?;
                let clauses = directive.clauses_text(Part::All);
                let nowait = directive.has("nowait");
                let name = directive.name.clone();
                Ok((
                    self.work(&name, &clauses, nowait, directive, (at, after, end))?,
                    end,
                ))
            }
            "master" | "masked" => {
                let end = self.statement_end(after)?;
                let handle = self.event("master", None, at, end);
                let body = self.range(after, end)?;
                let (begin, finish) = (call("master_begin", handle), call("master_end", handle));
                Ok((format!("{pragma}\n{{ {begin}{body} {finish} }}"), end))
            }
            "critical" => {
                let end = self.statement_end(after)?;
                let handle = self.event("critical", directive.argument.clone(), at, end);
                let body = self.range(after, end)?;
                Ok((block("critical", handle, &pragma, &body, true), end))
            }
            "ordered" if !directive.has("depend") => {
                let end = self.statement_end(after)?;
                let handle = self.event("ordered", None, at, end);
                let body = self.range(after, end)?;
                Ok((block("ordered", handle, &pragma, &body, false), end))
            }
            "barrier" => {
                let handle = self.events.add("barrier", None, line);
                let (before, then) = (
                    call("before_barrier", handle),
                    call("after_barrier", handle),
                );
                Ok((format!("{before}\n{pragma}\n{then}"), after))
            }
            "flush" => {
                let handle = self.events.add(
                    "flush",
                    simple("flush").and(directive.argument.clone()),
                    line,
                );
                let (before, then) = (call("before_flush", handle), call("flush_event", handle));
                Ok((format!("{before}\n{pragma}\n{then}"), after))
            }
            _ => Ok((pragma, after)),
        }
    }

    fn event(&mut self, kind: &'static str, name: Option<String>, at: usize, end: usize) -> usize {
        let handle = self.events.add(kind, name, self.line(at));
        let last = self.line(end);
        self.events.end(handle, last);
        handle
    }

    fn interval(
        &mut self,
        directive: &Directive,
        at: usize,
        after: usize,
    ) -> Result<(String, usize), InstrumentError> {
        // The interval's handle is found again by the nesting of directives.
        let line = self.line(at);
        match directive.name.as_str() {
            "interval" => {
                let name = directive.clauses.first().map(|(name, _)| name.clone());
                let end = self
                    .interval_end(after)
                    .ok_or_else(|| self.error(at, "the interval does not end"))?;
                let handle = self.events.add("user_interval", name, line);
                let last = self.line(end.0);
                self.events.end(handle, last);
                let body = self.range(after, end.0)?;
                let (begin, finish) = (
                    call("before_interval", handle),
                    call("after_interval", handle),
                );
                Ok((format!("{begin}{body}{finish}"), end.1))
            }
            "end interval" => Err(self.error(at, "an interval ends that has not begun")),
            other => Err(self.error(at, &format!("there is no directive {other}"))),
        }
    }

    /// Where the directive is that ends the interval, and where that ends.
    fn interval_end(&self, mut at: usize) -> Option<(usize, usize)> {
        let mut depth = 1;
        loop {
            at = self.next_token(at);
            if at >= self.source.len() {
                return None;
            }
            if let Some((directive, true, end)) = self.pragma(at) {
                match directive.name.as_str() {
                    "interval" => depth += 1,
                    "end interval" => depth -= 1,
                    _ => {}
                }
                if depth == 0 {
                    return Some((at, end));
                }
            }
            at += self.token_length(at);
        }
    }

    fn parallel(
        &mut self,
        directive: &Directive,
        at: usize,
        after: usize,
        work: Option<&str>,
    ) -> Result<(String, usize), InstrumentError> {
        let end = self.statement_end(after)?;
        let handle = self.event("parallel", None, at, end);
        self.events.set_clauses(handle, &directive.clauses);
        let part = if work.is_some() {
            Part::Region
        } else {
            Part::All
        };
        let clauses =
            directive.clauses_text(part) + &directive.shared_for_calls("unspool_h", work.is_some());
        let body = match work {
            Some(work) => {
                let clauses = directive.clauses_text(Part::Work);
                self.work(work, &clauses, false, directive, (at, after, end))?
            }
            None => self.range(after, end)?,
        };
        let text = format!(
            "{{ {}\n#pragma omp parallel {clauses}\n{{ {}\n{body}\n{} }}\n{} }}",
            call("before_parallel", handle),
            call("parallel_event", handle),
            call("parallel_event_end", handle),
            call("after_parallel", handle)
        );
        Ok((text, end))
    }

    /// A worksharing construct, whose barrier becomes explicit.
    fn work(
        &mut self,
        name: &str,
        clauses: &str,
        nowait: bool,
        directive: &Directive,
        (at, after, end): (usize, usize, usize),
    ) -> Result<String, InstrumentError> {
        let (kind, word) = match name {
            "sections" => ("sections", "sections"),
            "single" => ("single", "single"),
            _ => ("omploop", "omp_loop"),
        };
        let handle = self.event(kind, None, at, end);
        self.events.set_clauses(handle, &directive.clauses);
        let mut body = self.range(after, end)?;
        if kind == "single" {
            let (begin, finish) = (
                call("single_event", handle),
                call("single_event_end", handle),
            );
            body = format!("\n{{ {begin}{body} {finish} }}");
        }
        // What is broadcast from a single block needs the construct's own barrier.
        let own_barrier = directive.has("copyprivate");
        let wait = if own_barrier { "" } else { " nowait" };
        let mut text = format!(
            "{{ {}\n#pragma omp {name} {clauses}{wait}{body}\n",
            call(&format!("before_{word}"), handle)
        );
        if !nowait && !own_barrier {
            let last = self.line(end);
            let barrier = self.events.add("barrier", None, last);
            let (before, then) = (
                call("before_barrier", barrier),
                call("after_barrier", barrier),
            );
            text += &format!("{before}\n#pragma omp barrier\n{then}\n");
        }
        Ok(text + &format!("{} }}", call(&format!("after_{word}"), handle)))
    }

    /// Where the statement ends that starts at or after `at`.
    fn statement_end(&self, at: usize) -> Result<usize, InstrumentError> {
        let at = self.next_token(at);
        if at >= self.source.len() {
            return Err(self.error(at, "a statement is missing"));
        }
        if self.source.as_bytes()[at] == b'#' {
            return self.statement_end(at + self.token_length(at));
        }
        let length = self.token_length(at);
        match &self.source[at..at + length] {
            "{" => self.closing(at),
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
            _ => self.semicolon(at),
        }
    }

    fn semicolon(&self, mut at: usize) -> Result<usize, InstrumentError> {
        let start = at;
        loop {
            at = self.next_token(at);
            match self.source.as_bytes().get(at) {
                None => return Err(self.error(start, "a statement does not end")),
                Some(b';') => return Ok(at + 1),
                Some(b'(' | b'[' | b'{') => at = self.closing(at)?,
                Some(_) => at += self.token_length(at),
            }
        }
    }

    /// Where the bracket that opens here has been closed.
    fn closing(&self, start: usize) -> Result<usize, InstrumentError> {
        let mut depth = 0;
        let mut at = start;
        loop {
            at = self.next_token(at);
            match self.source.as_bytes().get(at) {
                None => return Err(self.error(start, "a bracket is not closed")),
                Some(b'(' | b'[' | b'{') => depth += 1,
                Some(b')' | b']' | b'}') => depth -= 1,
                Some(_) => {}
            }
            at += self.token_length(at);
            if depth <= 0 {
                return Ok(at);
            }
        }
    }
}

fn block(word: &str, handle: usize, pragma: &str, body: &str, ends: bool) -> String {
    let (before, begin) = (
        call(&format!("before_{word}"), handle),
        call(&format!("{word}_event"), handle),
    );
    let end = if ends {
        call(&format!("{word}_event_end"), handle)
    } else {
        String::new()
    };
    let after = call(&format!("after_{word}"), handle);
    format!("{{ {before}\n{pragma}\n{{ {begin}{body} {end} }}\n{after} }}")
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
