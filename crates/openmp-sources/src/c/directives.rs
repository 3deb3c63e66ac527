//! Directives, and what becomes of them.

use super::tokens::operator_words;
use super::{Writer, call};
use crate::InstrumentError;
use crate::directive::{ClausePart, Directive};

impl Writer<'_> {
    pub(super) fn directive(
        &mut self,
        directive: &Directive,
        is_own: bool,
        at: usize,
        after: usize,
    ) -> Result<(String, usize), InstrumentError> {
        if is_own {
            return self.interval(directive, at, after);
        }
        // Loops are counted anew in each construct.
        let loops = std::mem::take(&mut self.loops);
        let result = self.construct(directive, at, after);
        self.loops = loops;
        result
    }

    fn construct(
        &mut self,
        directive: &Directive,
        at: usize,
        after: usize,
    ) -> Result<(String, usize), InstrumentError> {
        let written = &self.source[at..after];
        // An operator takes no more clauses, as a line does.
        let pragma = match operator_words(written) {
            Some(words) => format!("\n#pragma {words}"),
            None => written.to_owned(),
        };
        let name = directive.name.as_str();
        match name {
            "parallel" => self.parallel(directive, at, after, None),
            "parallel for" | "parallel for simd" | "parallel sections" | "parallel master"
            | "parallel masked" => {
                self.parallel(directive, at, after, Some(&name["parallel ".len()..]))
            }
            "for" | "for simd" | "sections" | "single" => {
                let end = self.statement_end(after)?;
                let clauses = directive.clauses_text(ClausePart::All);
                let nowait = directive.has("nowait");
                let text = self.work(name, &clauses, nowait, directive, (at, after, end))?;
                Ok((text, end))
            }
            "section" => {
                let (body, end) = self.inner(after)?;
                let handle = self.event("sect_ev", None, at, end);
                Ok((
                    within(
                        &pragma,
                        ("section_event", "section_event_end"),
                        handle,
                        &body,
                    ),
                    end,
                ))
            }
            "master" | "masked" => {
                let (body, end) = self.inner(after)?;
                let handle = self.event("master", None, at, end);
                Ok((
                    within(&pragma, ("master_begin", "master_end"), handle, &body),
                    end,
                ))
            }
            "task" => {
                let (body, end) = self.inner(after)?;
                let handle = self.event("task", None, at, end);
                let shared = directive.shared_for_calls("unspool_h", false);
                let pragma = pragma + &shared;
                Ok((
                    within(&pragma, ("task_begin", "task_end"), handle, &body),
                    end,
                ))
            }
            "critical" => {
                let (body, end) = self.inner(after)?;
                let handle = self.event("critical", directive.argument.clone(), at, end);
                Ok((block("critical", handle, &pragma, &body, true), end))
            }
            "atomic" => {
                // What is measured is a critical construct around it. The atomic itself
                // stays, for what is in other files.
                let end = self.statement_end(after)?;
                let handle = self.event("critical", Some("atomic".to_owned()), at, end);
                let body = format!("\n{pragma}{}", &self.source[after..end]);
                let pragma = "#pragma omp critical(unspool_atomic)";
                Ok((block("critical", handle, pragma, &body, true), end))
            }
            "ordered" if !directive.has("depend") && !directive.has("doacross") => {
                let (body, end) = self.inner(after)?;
                let handle = self.event("ordered", None, at, end);
                Ok((block("ordered", handle, &pragma, &body, false), end))
            }
            "barrier" => Ok(self.around(("barrier", "before_barrier", "after_barrier"), at, after)),
            "taskwait" => {
                Ok(self.around(("taskwait", "before_taskwait", "after_taskwait"), at, after))
            }
            "taskgroup" => {
                let (body, end) = self.inner(after)?;
                let handle = self.event("taskgroup", None, at, end);
                let (before, then) = (
                    call("before_taskwait", handle),
                    call("after_taskwait", handle),
                );
                Ok((
                    format!("{{\n{pragma}\n{{ {body} {before} }}\n{then} }}"),
                    end,
                ))
            }
            "flush" => {
                let handle = self.event("flush", directive.argument.clone(), at, at);
                let (before, then) = (call("before_flush", handle), call("flush_event", handle));
                Ok((format!("{before}\n{pragma}\n{then}"), after))
            }
            _ if directive.specifies() || directive.stands_alone() => {
                Ok((written.to_owned(), after))
            }
            _ => {
                let end = self.statement_end(after)?;
                let body = match (directive.is_quiet(), directive.has_loop()) {
                    (true, _) => self.source[after..end].to_owned(),
                    (false, true) => self.loop_text(after, end, directive.loops())?,
                    (false, false) => self.inner(after)?.0,
                };
                Ok((self.source[at..after].to_owned() + &body, end))
            }
        }
    }

    /// A directive with a call before and after it.
    fn around(
        &mut self,
        (kind, before, then): (&'static str, &str, &str),
        at: usize,
        after: usize,
    ) -> (String, usize) {
        let handle = self.event(kind, None, at, at);
        let (before, then) = (call(before, handle), call(then, handle));
        (
            format!("{before}\n{}\n{then}", &self.source[at..after]),
            after,
        )
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
                let body = self.statements(after, end.0)?;
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
            ClausePart::Region
        } else {
            ClausePart::All
        };
        let clauses =
            directive.clauses_text(part) + &directive.shared_for_calls("unspool_h", work.is_some());
        let body = match work {
            Some(work @ ("master" | "masked")) => {
                let clauses = directive.clauses_text(ClausePart::Work);
                let inner = self.event("master", None, at, end);
                let (body, _) = self.inner(after)?;
                let pragma = format!("#pragma omp {work} {clauses}");
                within(&pragma, ("master_begin", "master_end"), inner, &body)
            }
            Some(work) => {
                let clauses = directive.clauses_text(ClausePart::Work);
                self.work(work, &clauses, false, directive, (at, after, end))?
            }
            None => self.inner(after)?.0,
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
        let mut body = match name {
            "for simd" => self.source[after..end].to_owned(),
            "for" => {
                let outer = std::mem::replace(&mut self.is_in_shared_loop, true);
                let body = self.loop_text(after, end, directive.loops());
                self.is_in_shared_loop = outer;
                body?
            }
            _ => self.inner(after)?.0,
        };
        if kind == "single" {
            let (begin, finish) = (
                call("single_event", handle),
                call("single_event_end", handle),
            );
            body = format!("\n{{ {begin}{body} {finish} }}");
        }
        // What is broadcast from a single block needs the construct's own barrier.
        // So does what may be cancelled.
        let own_barrier = directive.has("copyprivate")
            || (!nowait && self.source[after..end].contains("omp cancel "));
        let wait = if own_barrier { "" } else { " nowait" };
        let mut text = format!(
            "{{ {}\n#pragma omp {name} {clauses}{wait}\n{body}\n",
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
}

/// A construct that threads wait for, with calls around it and within.
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

/// A construct with calls at the start and the end of its block.
fn within(pragma: &str, (begin, end): (&str, &str), handle: usize, body: &str) -> String {
    let (begin, end) = (call(begin, handle), call(end, handle));
    format!("{pragma}\n{{ {begin}{body} {end} }}")
}
