//! Fortran, in free and in fixed form.
//!
//! Statements are read line by line: what matters are directives, where program units start,
//! where loops end, and calls. A module with the handles stands before everything else, and
//! each unit uses it; events are registered when a region or an interval is first reached.

use super::InstrumentError;
use super::directive::{Directive, Part};
use super::events::Events;

/// The instrumented source.
pub(super) fn instrument(
    source: &str,
    file: &str,
    is_fixed: bool,
) -> Result<String, InstrumentError> {
    let stem: String = file
        .rsplit('/')
        .next()
        .unwrap_or(file)
        .chars()
        .map(|letter| {
            if letter.is_ascii_alphanumeric() {
                letter
            } else {
                '_'
            }
        })
        .collect();
    let mut writer = Writer {
        is_fixed,
        module: format!("unspool_{stem}"),
        events: Events::new(file),
        text: String::new(),
        open: Vec::new(),
        quiet: 0,
        in_interface: false,
        is_pure: false,
    };
    let lines: Vec<&str> = source.lines().collect();
    let mut at = 0;
    while at < lines.len() {
        let length = writer.statement_length(&lines[at..]);
        writer.statement(&lines[at..at + length], at + 1)?;
        at += length;
    }
    writer.close_loops(lines.len());
    if let Some(open) = writer.open.last() {
        return Err(InstrumentError {
            line: open.line,
            what: format!("{} does not end", open.name),
        });
    }
    let module = writer.handles_module();
    Ok(module + &writer.text)
}

/// A construct that has not ended.
struct Open {
    name: String,
    line: usize,
    handle: usize,
    /// The region around it, of a combined construct.
    region: Option<usize>,
    /// The event of the section that it is in.
    section: Option<usize>,
    /// For a loop: what is known of its end.
    state: LoopState,
    copies: bool,
}

#[derive(Clone, PartialEq)]
enum LoopState {
    NoLoop,
    /// The loop's first statement has not come yet.
    Expected,
    Labelled(String),
    Nested(usize),
    /// The loop has ended; the directive that ends the construct may follow, or not.
    Ended,
}

struct Writer {
    is_fixed: bool,
    module: String,
    events: Events,
    text: String,
    open: Vec<Open>,
    /// How many constructs it is in within which no calls may stand.
    quiet: usize,
    in_interface: bool,
    is_pure: bool,
}

impl Writer {
    fn put(&mut self, statement: &str) {
        let indent = if self.is_fixed { "      " } else { "" };
        self.text += &format!("{indent}{statement}\n");
    }

    fn omp(&mut self, directive: &str) {
        // Long directives are continued, at a blank.
        let limit = if self.is_fixed { 66 } else { 120 };
        let mut rest = directive.trim().to_owned();
        let mut lead = "!$omp ";
        while rest.len() > limit {
            let Some(split) = rest[..limit].rfind([' ', ',']).filter(|split| *split > 0) else {
                break;
            };
            let tail = rest.split_off(split + 1);
            let mark = if self.is_fixed { "" } else { " &" };
            self.text += &format!("{lead}{rest}{mark}\n");
            lead = if self.is_fixed { "!$omp&" } else { "!$omp& " };
            rest = tail;
        }
        self.text += &format!("{lead}{rest}\n");
    }

    fn call(&mut self, function: &str, handle: usize) {
        self.put(&format!("call dbg_{function}(unspool_h({handle}))"));
    }

    fn register(&mut self) {
        self.put("if (unspool_is_new) call unspool_register()");
    }

    fn handles_module(&mut self) -> String {
        let strings = self.events.strings();
        let body = std::mem::take(&mut self.text);
        self.put(&format!("module {}", self.module.clone()));
        self.put(&format!(
            "integer(8), save :: unspool_h({}) = 0",
            strings.len().max(1)
        ));
        self.put("logical, save :: unspool_is_new = .true.");
        self.put("contains");
        self.put("subroutine unspool_register()");
        self.text += "!$omp critical (unspool_registration)\n";
        self.put("if (unspool_is_new) then");
        self.put("call dbg_init(unspool_h(1))");
        for (index, string) in strings.iter().enumerate() {
            let (more, continued) = if self.is_fixed {
                ("", "     &")
            } else {
                (" &", "")
            };
            self.put(&format!(
                "call dbg_get_handle(unspool_h({}),{more}",
                index + 1
            ));
            let letters: Vec<char> = string.chars().collect();
            let parts: Vec<String> = letters
                .chunks(40)
                .map(|part| format!("'{}'", part.iter().collect::<String>().replace('\'', "''")))
                .collect();
            for (place, part) in parts.iter().enumerate() {
                let end = if place + 1 < parts.len() {
                    format!(" //{more}")
                } else {
                    ")".to_owned()
                };
                self.text += &format!("{continued} {part}{end}\n");
            }
        }
        self.put("unspool_is_new = .false.");
        self.put("end if");
        self.text += "!$omp end critical (unspool_registration)\n";
        self.put("end subroutine");
        self.put("end module");
        std::mem::replace(&mut self.text, body)
    }

    fn is_comment(&self, line: &str) -> bool {
        let first = line.chars().next();
        line.trim().is_empty()
            || line.trim_start().starts_with('!')
            || (self.is_fixed && matches!(first, Some('c' | 'C' | '*' | 'd' | 'D')))
    }

    /// The text of a directive with this sentinel.
    fn sentinel<'line>(&self, line: &'line str, sentinel: &str) -> Option<&'line str> {
        let line = if self.is_fixed {
            line
        } else {
            line.trim_start()
        };
        let start = line.get(..sentinel.len())?;
        let is_it = start[1..].eq_ignore_ascii_case(&sentinel[1..])
            && (start.starts_with('!') || (self.is_fixed && start.starts_with(['c', 'C', '*'])));
        is_it.then(|| &line[sentinel.len()..])
    }

    /// How many lines the first statement or directive takes.
    fn statement_length(&self, lines: &[&str]) -> usize {
        let is_directive = self.sentinel(lines[0], "!$omp").is_some();
        if !is_directive && self.is_comment(lines[0]) {
            return 1;
        }
        let mut length = 1;
        while length < lines.len() {
            let (last, next) = (lines[length - 1], lines[length]);
            let continues = match (self.is_fixed, is_directive) {
                (false, true) => {
                    let words = self.sentinel(last, "!$omp").unwrap_or("");
                    without_comment(words).trim_end().ends_with('&')
                }
                (false, false) => without_comment(last).trim_end().ends_with('&'),
                (true, true) => self
                    .sentinel(next, "!$omp")
                    .is_some_and(|rest| !rest.starts_with([' ', '0', '\t']) && !rest.is_empty()),
                (true, false) => {
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

    fn keep(&mut self, lines: &[&str]) {
        for line in lines {
            self.text += line;
            self.text.push('\n');
        }
    }

    fn statement(&mut self, lines: &[&str], line: usize) -> Result<(), InstrumentError> {
        if self.sentinel(lines[0], "!$omp").is_some() {
            let words = lines.iter().filter_map(|one| self.sentinel(one, "!$omp"));
            let words = words
                .enumerate()
                .map(|(index, one)| match self.is_fixed && index > 0 {
                    // The sixth column only says that the line continues.
                    true => one.get(1..).unwrap_or(""),
                    false => one,
                });
            let words = words.map(|one| without_comment(one).trim().trim_matches('&'));
            let joined = words.collect::<Vec<_>>().join(" ");
            return self.directive(&Directive::parse(&joined), lines, line);
        }
        for sentinel in ["!$unspool", "!dvm$"] {
            if let Some(words) = self.sentinel(lines[0], sentinel) {
                return self.interval(&Directive::parse(words), line);
            }
        }
        if self.is_comment(lines[0]) || lines[0].starts_with('#') {
            self.keep(lines);
            return Ok(());
        }
        self.close_loops(line);
        let text = lines
            .iter()
            .map(|one| without_comment(one).trim().trim_matches('&'))
            .collect::<Vec<_>>()
            .join(" ");
        let text = text.to_ascii_lowercase();
        let statement = text.trim();
        if statement.starts_with("interface") || statement.starts_with("abstract interface") {
            self.in_interface = true;
        } else if statement.starts_with("end interface") || statement.starts_with("endinterface") {
            self.in_interface = false;
        }
        if !self.in_interface && self.call_statement(statement, lines, line) {
            self.loop_statement(statement, line);
            return Ok(());
        }
        self.keep(lines);
        if !self.in_interface && starts_unit(statement) {
            self.is_pure = statement
                .split_whitespace()
                .any(|word| word == "pure" || word == "elemental");
            let module = self.module.clone();
            self.put(&format!("use {module}"));
        }
        self.loop_statement(statement, line);
        Ok(())
    }

    /// Calls get calls around them; says whether the statement was one and has been written.
    fn call_statement(&mut self, statement: &str, lines: &[&str], line: usize) -> bool {
        let Some(callee) = statement.strip_prefix("call ") else {
            return false;
        };
        let name: String = callee
            .trim()
            .chars()
            .take_while(|letter| letter.is_alphanumeric() || *letter == '_')
            .collect();
        let argument = callee.find('(').map(|open| {
            super::directive::parentheses(&callee[open..])
                .0
                .trim()
                .replace(' ', "")
        });
        let lock = |mark: &str| format!("{mark}{}", argument.clone().unwrap_or_default());
        let name = match name.as_str() {
            "omp_set_lock" => lock("@set_lock_"),
            "omp_unset_lock" => lock("@unset_lock_"),
            "omp_set_nest_lock" => lock("@set_nested_"),
            "omp_unset_nest_lock" => lock("@unset_nested_"),
            other if other.starts_with("omp_") || other.starts_with("dbg_") => return false,
            other => other.to_owned(),
        };
        if self.quiet > 0 || self.is_pure {
            return false;
        }
        let handle = self.events.add("func_call", Some(name), line);
        self.call("before_func_call", handle);
        self.keep(lines);
        self.call("after_func_call", handle);
        true
    }

    /// Follows the loop of the innermost construct to its end.
    fn loop_statement(&mut self, statement: &str, _line: usize) {
        let Some(open) = self.open.last_mut() else {
            return;
        };
        let (label, rest) = match statement.find(|letter: char| !letter.is_ascii_digit()) {
            Some(0) | None => ("", statement),
            Some(end) => (&statement[..end], statement[end..].trim_start()),
        };
        let compact = rest.replace(' ', "");
        let is_end = compact.starts_with("enddo");
        let head = match rest.split_once(':') {
            Some((name, rest))
                if name
                    .trim()
                    .chars()
                    .all(|letter| letter.is_alphanumeric() || letter == '_') =>
            {
                rest.trim_start()
            }
            _ => rest,
        };
        let is_do = head == "do"
            || head.starts_with("do ")
            || (head.starts_with("do")
                && head[2..].starts_with(|letter: char| letter.is_ascii_digit()));
        let do_label: String = head
            .get(2..)
            .unwrap_or("")
            .trim_start()
            .chars()
            .take_while(char::is_ascii_digit)
            .collect();
        open.state = match (open.state.clone(), is_do, is_end) {
            (LoopState::Expected, true, _) if do_label.is_empty() => LoopState::Nested(1),
            (LoopState::Expected, true, _) => LoopState::Labelled(do_label),
            (LoopState::Labelled(wanted), ..) if wanted == label => LoopState::Ended,
            (LoopState::Nested(depth), true, _) if do_label.is_empty() => {
                LoopState::Nested(depth + 1)
            }
            (LoopState::Nested(1), _, true) => LoopState::Ended,
            (LoopState::Nested(depth), _, true) => LoopState::Nested(depth - 1),
            (state, ..) => state,
        };
    }

    /// Ends the constructs whose loop has ended, and whose end no directive says.
    fn close_loops(&mut self, line: usize) {
        while let Some(open) = self.open.pop_if(|open| open.state == LoopState::Ended) {
            self.end_work(&open, false, line.saturating_sub(1));
        }
    }

    fn interval(&mut self, directive: &Directive, line: usize) -> Result<(), InstrumentError> {
        let name = directive.clauses.first().map(|(name, _)| name.clone());
        self.close_loops(line);
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

    fn push(&mut self, name: &str, handle: usize, line: usize) {
        self.open.push(Open {
            name: name.to_owned(),
            line,
            handle,
            region: None,
            section: None,
            state: LoopState::NoLoop,
            copies: false,
        });
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

    fn directive(
        &mut self,
        directive: &Directive,
        lines: &[&str],
        line: usize,
    ) -> Result<(), InstrumentError> {
        let name = directive.name.trim_end_matches(" simd").to_owned();
        if !name.starts_with("end ") {
            self.close_loops(line);
        }
        if self.is_pure {
            self.keep(lines);
            return Ok(());
        }
        match name.as_str() {
            "parallel" | "parallel do" | "parallel sections" | "parallel workshare" => {
                self.parallel(directive, &name, line)
            }
            "do" | "sections" | "single" | "workshare" => {
                self.work(directive, &name, None, line, Part::All)
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
            "critical" | "ordered" if !directive.has("depend") => {
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
            "barrier" => {
                let handle = self.events.add("barrier", None, line);
                self.call("before_barrier", handle);
                self.keep(lines);
                self.call("after_barrier", handle);
            }
            "flush" => {
                let handle = self.events.add("flush", directive.argument.clone(), line);
                self.call("before_flush", handle);
                self.keep(lines);
                self.call("flush_event", handle);
            }
            _ => match name.strip_prefix("end ") {
                Some(ended) => return self.end(ended, directive, lines, line),
                None => self.keep(lines),
            },
        }
        Ok(())
    }

    fn parallel(&mut self, directive: &Directive, name: &str, line: usize) {
        let handle = self.events.add("parallel", None, line);
        self.events.set_clauses(handle, &directive.clauses);
        let work = name.strip_prefix("parallel ");
        let part = if work.is_some() {
            Part::Region
        } else {
            Part::All
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
            Some(work) => self.work(directive, work, Some(handle), line, Part::Work),
            None => self.push("parallel", handle, line),
        }
    }

    fn work(
        &mut self,
        directive: &Directive,
        name: &str,
        region: Option<usize>,
        line: usize,
        part: Part,
    ) {
        let (kind, word) = work_words(name);
        let handle = self.events.add(kind, None, line);
        self.events.set_clauses(handle, &directive.clauses);
        self.call(&format!("before_{word}"), handle);
        let simd = if directive.name.ends_with(" simd") {
            " simd"
        } else {
            ""
        };
        self.omp(&format!("{name}{simd} {}", directive.clauses_text(part)));
        if name == "single" {
            self.call("single_event", handle);
        }
        let open_name = if region.is_some() {
            format!("parallel {name}")
        } else {
            name.to_owned()
        };
        self.push(&open_name, handle, line);
        self.quiet += usize::from(name == "workshare" || !simd.is_empty());
        if let Some(open) = self.open.last_mut() {
            open.region = region;
            open.copies = !simd.is_empty();
            if name == "do" {
                open.state = LoopState::Expected;
            }
        }
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
        match ended {
            "parallel" => {
                let open = self.pop("parallel", line)?;
                self.events.end(open.handle, line);
                self.call("parallel_event_end", open.handle);
                self.keep(lines);
                self.call("after_parallel", open.handle);
            }
            "master" | "masked" => {
                let open = self.pop(ended, line)?;
                self.events.end(open.handle, line);
                self.call("master_end", open.handle);
                self.keep(lines);
            }
            "critical" => {
                let open = self.pop(ended, line)?;
                self.events.end(open.handle, line);
                self.call("critical_event_end", open.handle);
                self.keep(lines);
                self.call("after_critical", open.handle);
            }
            "ordered" => {
                let open = self.pop(ended, line)?;
                self.events.end(open.handle, line);
                self.keep(lines);
                self.call("after_ordered", open.handle);
            }
            _ => self.keep(lines),
        }
        Ok(())
    }

    fn end_work(&mut self, open: &Open, nowait: bool, line: usize) {
        let name = open
            .name
            .strip_prefix("parallel ")
            .unwrap_or(&open.name)
            .to_owned();
        let (_, word) = work_words(&name);
        self.quiet -= usize::from(name == "workshare" || open.copies);
        if name == "single" {
            self.call("single_event_end", open.handle);
        }
        let simd = if open.copies { " simd" } else { "" };
        self.omp(&format!("end {name}{simd} nowait"));
        self.events.end(open.handle, line);
        if !nowait {
            let barrier = self.events.add("barrier", None, line);
            self.call("before_barrier", barrier);
            self.omp("barrier");
            self.call("after_barrier", barrier);
        }
        self.call(&format!("after_{word}"), open.handle);
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

/// A line without the comment at its end.
fn without_comment(line: &str) -> &str {
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

/// Whether a program, subroutine or function starts here.
fn starts_unit(statement: &str) -> bool {
    let words: Vec<&str> = statement
        .split(|letter: char| letter.is_whitespace() || letter == '(')
        .collect();
    let Some(position) = words
        .iter()
        .position(|word| ["program", "subroutine", "function"].contains(word))
    else {
        return false;
    };
    let is_prefix = |word: &&str| {
        let starts = [
            "pure",
            "elemental",
            "impure",
            "recursive",
            "module",
            "integer",
            "real",
            "double",
            "precision",
            "complex",
            "logical",
            "character",
            "type",
            "kind",
            "len",
            "*",
            ")",
            "4)",
            "8)",
            "dp)",
            "wp)",
        ];
        word.is_empty() || starts.iter().any(|start| word.starts_with(start)) || word.ends_with(')')
    };
    words[..position].iter().all(is_prefix)
        && words
            .get(position + 1)
            .is_some_and(|name| name.starts_with(|letter: char| letter.is_ascii_alphabetic()))
}
