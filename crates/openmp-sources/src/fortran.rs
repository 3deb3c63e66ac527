//! Fortran, in free and in fixed form.
//!
//! Statements are read one by one: what matters are directives, where program units and their
//! executable parts start and end, loops, calls and returns. A module with the handles stands
//! before everything else, and each unit uses it; events are registered when a region, an
//! interval or a procedure is first reached.

mod directives;
mod form;
mod loops;
mod statements;
mod units;
mod words;

use std::collections::HashSet;

use crate::events::Events;
use crate::short_procedures::Procedures;
use crate::{InstrumentError, LeftOut};
use form::Form;
use loops::Loop;
use units::OpenUnit;

/// The instrumented source.
pub(super) fn instrument(
    source: &str,
    file: &str,
    is_fixed: bool,
    left_out: &LeftOut,
) -> Result<String, InstrumentError> {
    // What is short is known when all has been read.
    // Names are the same in any case.
    let left_out = left_out.and(left_out.names.iter().map(|name| name.to_lowercase()));
    let first = write(source, file, is_fixed, left_out.clone(), HashSet::new())?;
    let left_out = left_out.and(first.procedures.short());
    let mut writer = write(source, file, is_fixed, left_out, first.plain_loops)?;
    let module = writer.handles_module();
    Ok(module + &writer.text)
}

/// Reads a source, and writes what comes behind the module.
fn write(
    source: &str,
    file: &str,
    is_fixed: bool,
    left_out: LeftOut,
    known_plain_loops: HashSet<usize>,
) -> Result<Writer, InstrumentError> {
    let stem: String = file
        .rsplit('/')
        .next()
        .unwrap_or(file)
        .chars()
        .map(|letter| match letter.is_ascii_alphanumeric() {
            true => letter,
            false => '_',
        })
        .collect();
    let mut writer = Writer {
        form: if is_fixed { Form::Fixed } else { Form::Free },
        module: format!("unspool_{stem}"),
        events: Events::new(file),
        left_out,
        known_plain_loops,
        procedures: Procedures::default(),
        plain_loops: HashSet::new(),
        text: String::new(),
        open: Vec::new(),
        loops: Vec::new(),
        units: Vec::new(),
        quiet: 0,
        in_interface: false,
        in_type: false,
        atomic: None,
    };
    let lines: Vec<&str> = source.lines().collect();
    let mut at = 0;
    while at < lines.len() {
        let length = writer.form.statement_length(&lines[at..]);
        writer.lines(&lines[at..at + length], at + 1)?;
        at += length;
    }
    writer.settle(lines.len() + 1);
    if let Some(open) = writer.open.last() {
        return Err(InstrumentError {
            line: open.line,
            what: format!("{} does not end", open.name),
        });
    }
    Ok(writer)
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
    /// For a loop: how far it has come.
    state: LoopState,
    /// Whether no calls may stand in it.
    is_quiet: bool,
    /// Whether it is only followed to its end.
    is_silent: bool,
    /// Whether a directive in it may cancel it.
    is_cancelled: bool,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum LoopState {
    NoLoop,
    /// So many loops come that must directly follow each other.
    Expected(usize),
    /// The loop has ended; the directive that ends the construct may follow, or not.
    Ended,
}

/// An atomic construct, which becomes a critical one around it.
struct Atomic {
    handle: usize,
    /// Whether only a directive ends it.
    is_block: bool,
    /// Whether its statement has come.
    is_done: bool,
}

struct Writer {
    form: Form,
    module: String,
    events: Events,
    left_out: LeftOut,
    procedures: Procedures,
    /// The lines of loops that only compute: those found, and those that reading the source before has
    /// found.
    plain_loops: HashSet<usize>,
    known_plain_loops: HashSet<usize>,
    text: String,
    open: Vec<Open>,
    loops: Vec<Loop>,
    units: Vec<OpenUnit>,
    /// How many constructs it is in within which no calls may stand.
    quiet: usize,
    in_interface: bool,
    in_type: bool,
    atomic: Option<Atomic>,
}

impl Writer {
    fn put(&mut self, statement: &str) {
        self.text += &self.form.written("", statement);
    }

    fn omp(&mut self, directive: &str) {
        self.text += &self.form.written_directive(directive);
    }

    fn keep(&mut self, lines: &[&str]) {
        for line in lines {
            self.text += line;
            self.text.push('\n');
        }
    }

    fn call(&mut self, function: &str, handle: usize) {
        self.put(&format!("call dbg_{function}(unspool_h({handle}))"));
    }

    fn register(&mut self) {
        self.put("if (unspool_is_new) call unspool_register()");
    }

    /// Whether calls may be inserted here.
    fn may_call(&self) -> bool {
        let is_pure = self.units.last().is_some_and(|unit| unit.is_pure);
        self.quiet == 0 && !is_pure && self.atomic.is_none()
    }

    /// Ends what has ended without saying so.
    fn settle(&mut self, line: usize) {
        if self.atomic.as_ref().is_some_and(|atomic| atomic.is_done) {
            self.end_atomic(line.saturating_sub(1));
        }
        self.close_loops(line);
    }

    fn handles_module(&mut self) -> String {
        let strings = self.events.strings();
        let body = std::mem::take(&mut self.text);
        self.put(&format!("module {}", self.module.clone()));
        let count = strings.len().max(1);
        self.put(&format!("integer(8), save :: unspool_h({count}) = 0"));
        self.put("logical, save :: unspool_is_new = .true.");
        self.put("contains");
        self.put("subroutine unspool_register()");
        self.text += "!$omp critical (unspool_registration)\n";
        self.put("if (unspool_is_new) then");
        self.put("call dbg_init(unspool_h(1))");
        for (index, string) in strings.iter().enumerate() {
            let quoted = string.replace('\'', "''");
            self.put(&format!(
                "call dbg_get_handle(unspool_h({}), '{quoted}')",
                index + 1
            ));
        }
        self.put("unspool_is_new = .false.");
        self.put("end if");
        self.text += "!$omp end critical (unspool_registration)\n";
        self.put("end subroutine");
        self.put("end module");
        std::mem::replace(&mut self.text, body)
    }
}
