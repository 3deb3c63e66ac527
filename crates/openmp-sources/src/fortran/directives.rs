//! Directives, and what becomes of them.

use super::{Atomic, LoopState, Open, Writer};
use crate::InstrumentError;
use crate::directive::{ClausePart, Directive};

/// The lock of what were atomic constructs.
const ATOMIC: &str = "critical (unspool_atomic)";

impl Writer {
    /// A directive of the instrumenter's own.
    pub(super) fn interval(
        &mut self,
        directive: &Directive,
        line: usize,
    ) -> Result<(), InstrumentError> {
        let name = directive.clauses.first().map(|(name, _)| name.clone());
        match directive.name.as_str() {
            "interval" => {
                let handle = self.events.add("user_interval", name, line);
                self.register();
                self.call("before_interval", handle);
                self.push("interval", handle, line);
                Ok(())
            }
            "end interval" => {
                let open = self.pop("interval", line)?;
                self.events.end(open.handle, line);
                self.call("after_interval", open.handle);
                Ok(())
            }
            other => Err(InstrumentError {
                line,
                what: format!("there is no directive {other}"),
            }),
        }
    }

    fn push(&mut self, name: &str, handle: usize, line: usize) -> &mut Open {
        self.open.push(Open {
            name: name.to_owned(),
            line,
            handle,
            region: None,
            section: None,
            state: LoopState::NoLoop,
            is_quiet: false,
            is_silent: false,
            is_cancelled: false,
        });
        let last = self.open.len() - 1;
        &mut self.open[last]
    }

    fn pop(&mut self, name: &str, line: usize) -> Result<Open, InstrumentError> {
        match self.open.pop() {
            Some(open) if open.name == name => Ok(open),
            Some(open) => Err(InstrumentError {
                line,
                what: format!(
                    "{name} ends within {}, which started in line {}",
                    open.name, open.line
                ),
            }),
            None => Err(InstrumentError {
                line,
                what: format!("{name} ends and has not begun"),
            }),
        }
    }

    pub(super) fn directive(
        &mut self,
        directive: &Directive,
        lines: &[&str],
        line: usize,
    ) -> Result<(), InstrumentError> {
        let name = directive.name.trim_end_matches(" simd").to_owned();
        if !name.starts_with("end ") {
            self.settle(line);
        }
        if directive.specifies() {
            self.keep(lines);
            return Ok(());
        }
        self.start_body(line);
        let is_pure = self.units.last().is_some_and(|unit| unit.is_pure);
        if is_pure || (self.quiet > 0 && !name.starts_with("end ")) {
            self.follow(directive, lines, line);
            return Ok(());
        }
        match name.as_str() {
            "parallel" | "parallel do" | "parallel sections" | "parallel workshare"
            | "parallel master" | "parallel masked" => self.parallel(directive, &name, line),
            "do" | "sections" | "single" | "workshare" => {
                self.work(directive, &name, None, line, ClausePart::All);
            }
            "section" => {
                self.end_section(line);
                self.keep(lines);
                let handle = self.events.add("sect_ev", None, line);
                self.call("section_event", handle);
                if let Some(open) = self.open.last_mut() {
                    open.section = Some(handle);
                }
            }
            "master" | "masked" => {
                let handle = self.events.add("master", None, line);
                self.keep(lines);
                self.call("master_begin", handle);
                self.push(&name, handle, line);
            }
            "critical" | "ordered" if !directive.has("depend") && !directive.has("doacross") => {
                let kind = if name == "critical" {
                    "critical"
                } else {
                    "ordered"
                };
                let handle = self.events.add(kind, directive.argument.clone(), line);
                self.call(&format!("before_{kind}"), handle);
                self.keep(lines);
                self.call(&format!("{kind}_event"), handle);
                self.push(kind, handle, line);
            }
            "atomic" => self.atomic(directive, lines, line),
            "barrier" => self.around(("barrier", "before_barrier", "after_barrier"), lines, line),
            "taskwait" => {
                self.around(
                    ("taskwait", "before_taskwait", "after_taskwait"),
                    lines,
                    line,
                );
            }
            "flush" => {
                let handle = self.events.add("flush", directive.argument.clone(), line);
                self.call("before_flush", handle);
                self.keep(lines);
                self.call("flush_event", handle);
            }
            "task" => self.task(directive, lines, line),
            "taskgroup" => {
                let handle = self.events.add("taskgroup", None, line);
                self.keep(lines);
                self.push("taskgroup", handle, line);
            }
            "cancel" => {
                self.keep(lines);
                self.cancel(directive);
            }
            _ => match name.strip_prefix("end ") {
                Some(ended) => return self.end(ended, directive, lines, line),
                None => self.follow(directive, lines, line),
            },
        }
        Ok(())
    }

    /// A directive with a call before and after it.
    fn around(
        &mut self,
        (kind, before, after): (&'static str, &str, &str),
        lines: &[&str],
        line: usize,
    ) {
        let handle = self.events.add(kind, None, line);
        self.call(before, handle);
        self.keep(lines);
        self.call(after, handle);
    }

    /// Keeps a construct that is no event, and follows it to its end where that matters.
    fn follow(&mut self, directive: &Directive, lines: &[&str], line: usize) {
        self.keep(lines);
        let waits_for_loop = self
            .open
            .last()
            .is_some_and(|open| matches!(open.state, LoopState::Expected(1..)));
        if directive.stands_alone() || waits_for_loop {
            return;
        }
        let (has_loop, is_quiet) = (directive.has_loop(), directive.is_quiet());
        let count = directive.loops();
        let open = self.push(&directive.name, 0, line);
        open.is_silent = true;
        open.is_quiet = is_quiet;
        if has_loop {
            open.state = LoopState::Expected(count);
        }
        self.quiet += usize::from(is_quiet);
    }

    /// An atomic construct gets a critical one around it, as which it is measured. The
    /// atomic itself stays, for what is in other files.
    fn atomic(&mut self, directive: &Directive, lines: &[&str], line: usize) {
        let handle = self.events.add("critical", Some("atomic".to_owned()), line);
        self.call("before_critical", handle);
        self.omp(ATOMIC);
        self.call("critical_event", handle);
        self.keep(lines);
        self.atomic = Some(Atomic {
            handle,
            is_block: directive.has("capture"),
            is_done: false,
        });
    }

    pub(super) fn end_atomic(&mut self, line: usize) {
        if let Some(atomic) = self.atomic.take() {
            self.events.end(atomic.handle, line);
            self.call("critical_event_end", atomic.handle);
            self.omp(&format!("end {ATOMIC}"));
            self.call("after_critical", atomic.handle);
        }
    }

    fn task(&mut self, directive: &Directive, lines: &[&str], line: usize) {
        let handle = self.events.add("task", None, line);
        let shared = directive.shared_for_calls("unspool_h, unspool_is_new", false);
        match shared.is_empty() {
            true => self.keep(lines),
            false => {
                let clauses = directive.clauses_text(ClausePart::All);
                self.omp(&format!("task {clauses}{shared}"));
            }
        }
        self.call("task_begin", handle);
        self.push("task", handle, line);
    }

    /// What may be cancelled keeps its own barrier.
    fn cancel(&mut self, directive: &Directive) {
        let what = directive.cancelled();
        let of_kind = |open: &&mut Open| open.name.ends_with(what);
        if let Some(open) = self.open.iter_mut().rev().find(of_kind) {
            open.is_cancelled = true;
        }
    }

    fn parallel(&mut self, directive: &Directive, name: &str, line: usize) {
        let handle = self.events.add("parallel", None, line);
        self.events.set_clauses(handle, &directive.clauses);
        let work = name.strip_prefix("parallel ");
        let part = if work.is_some() {
            ClausePart::Region
        } else {
            ClausePart::All
        };
        let shared = directive.shared_for_calls("unspool_h, unspool_is_new", work.is_some());
        self.register();
        self.call("before_parallel", handle);
        self.omp(&format!(
            "parallel {}{shared}",
            directive.clauses_text(part)
        ));
        self.call("parallel_event", handle);
        match work {
            Some(work @ ("master" | "masked")) => {
                let inner = self.events.add("master", None, line);
                self.omp(&format!(
                    "{work} {}",
                    directive.clauses_text(ClausePart::Work)
                ));
                self.call("master_begin", inner);
                self.push(name, inner, line).region = Some(handle);
            }
            Some(work) => self.work(directive, work, Some(handle), line, ClausePart::Work),
            None => {
                self.push("parallel", handle, line);
            }
        }
    }

    fn work(
        &mut self,
        directive: &Directive,
        name: &str,
        region: Option<usize>,
        line: usize,
        part: ClausePart,
    ) {
        let (kind, word) = work_words(name);
        let handle = self.events.add(kind, None, line);
        self.events.set_clauses(handle, &directive.clauses);
        self.call(&format!("before_{word}"), handle);
        let is_simd = directive.name.ends_with(" simd");
        let simd = if is_simd { " simd" } else { "" };
        self.omp(&format!("{name}{simd} {}", directive.clauses_text(part)));
        if name == "single" {
            self.call("single_event", handle);
        }
        let open_name = if region.is_some() {
            format!("parallel {name}")
        } else {
            name.to_owned()
        };
        let is_quiet = name == "workshare" || is_simd;
        let loops = directive.loops();
        let open = self.push(&open_name, handle, line);
        open.region = region;
        open.is_quiet = is_quiet;
        if name == "do" {
            open.state = LoopState::Expected(loops);
        }
        self.quiet += usize::from(is_quiet);
    }

    fn end_section(&mut self, line: usize) {
        if let Some(section) = self.open.last_mut().and_then(|open| open.section.take()) {
            self.events.end(section, line);
            self.call("section_event_end", section);
        }
    }

    fn end(
        &mut self,
        ended: &str,
        directive: &Directive,
        lines: &[&str],
        line: usize,
    ) -> Result<(), InstrumentError> {
        if ended == "atomic" {
            self.keep(lines);
            self.end_atomic(line);
            return Ok(());
        }
        let whole = directive.name.strip_prefix("end ").unwrap_or(ended);
        let is_followed = |open: &mut Open| open.is_silent && open.name == whole;
        if let Some(open) = self.open.pop_if(is_followed) {
            self.quiet -= usize::from(open.is_quiet);
            self.keep(lines);
            return Ok(());
        }
        let is_work = matches!(
            ended,
            "do" | "sections"
                | "single"
                | "workshare"
                | "parallel do"
                | "parallel sections"
                | "parallel workshare"
        );
        if is_work {
            if ended.ends_with("sections") {
                self.end_section(line);
            }
            let open = self.pop(ended, line)?;
            if directive.has("copyprivate") {
                // What is broadcast needs the construct's own barrier.
                self.call("single_event_end", open.handle);
                self.keep(lines);
                self.events.end(open.handle, line);
                self.call("after_single", open.handle);
                return Ok(());
            }
            self.end_work(&open, directive.has("nowait"), line);
            return Ok(());
        }
        // A loop may have ended without a directive before the construct around it does.
        self.close_loops(line);
        let (before, after): (&str, &str) = match ended {
            "parallel" => ("parallel_event_end", "after_parallel"),
            "master" | "masked" => ("master_end", ""),
            "critical" => ("critical_event_end", "after_critical"),
            "ordered" => ("", "after_ordered"),
            "task" => ("task_end", ""),
            "taskgroup" => ("before_taskwait", "after_taskwait"),
            "parallel master" | "parallel masked" => {
                let open = self.pop(ended, line)?;
                self.call("master_end", open.handle);
                self.events.end(open.handle, line);
                self.omp(&format!("end {}", &ended["parallel ".len()..]));
                self.end_region(&open, line);
                return Ok(());
            }
            _ => {
                self.keep(lines);
                return Ok(());
            }
        };
        let open = self.pop(ended, line)?;
        self.events.end(open.handle, line);
        if !before.is_empty() {
            self.call(before, open.handle);
        }
        self.keep(lines);
        if !after.is_empty() {
            self.call(after, open.handle);
        }
        Ok(())
    }

    /// Ends a worksharing construct; its barrier becomes explicit.
    pub(super) fn end_work(&mut self, open: &Open, nowait: bool, line: usize) {
        self.quiet -= usize::from(open.is_quiet);
        if open.is_silent {
            return;
        }
        let name = open.name.strip_prefix("parallel ").unwrap_or(&open.name);
        let name = name.to_owned();
        let (_, word) = work_words(&name);
        if name == "single" {
            self.call("single_event_end", open.handle);
        }
        let simd = if name == "do" && open.is_quiet {
            " simd"
        } else {
            ""
        };
        let keeps_barrier = open.is_cancelled && !nowait;
        let wait = if keeps_barrier { "" } else { " nowait" };
        self.omp(&format!("end {name}{simd}{wait}"));
        self.events.end(open.handle, line);
        if !nowait && !keeps_barrier {
            let barrier = self.events.add("barrier", None, line);
            self.call("before_barrier", barrier);
            self.omp("barrier");
            self.call("after_barrier", barrier);
        }
        self.call(&format!("after_{word}"), open.handle);
        self.end_region(open, line);
    }

    fn end_region(&mut self, open: &Open, line: usize) {
        if let Some(region) = open.region {
            self.events.end(region, line);
            self.call("parallel_event_end", region);
            self.omp("end parallel");
            self.call("after_parallel", region);
        }
    }
}

/// The type in context strings, and the word in names of functions.
fn work_words(name: &str) -> (&'static str, &'static str) {
    match name {
        "sections" => ("sections", "sections"),
        "single" => ("single", "single"),
        "workshare" => ("workshare", "workshare"),
        _ => ("omploop", "omp_loop"),
    }
}
