//! C and C++.
//!
//! A source is read as declarations, in which functions have bodies, and bodies as
//! statements, which are found by their brackets: what is inserted goes around a statement,
//! whatever it is. Lines keep their order; `#line` is not needed, since context strings have
//! the numbers of the original.

mod declarations;
mod directives;
mod not_calls;
mod statements;
mod tokens;

use std::collections::HashSet;

use crate::events::Events;
use crate::short_procedures::Procedures;
use crate::{InstrumentError, LeftOut};

/// The instrumented source.
pub(super) fn instrument(
    source: &str,
    file: &str,
    left_out: &LeftOut,
) -> Result<String, InstrumentError> {
    // What is short is known when all has been read.
    let mut first = Writer::new(source, file, left_out.clone());
    first.declarations(0, source.len())?;
    let left_out = left_out.and(first.procedures.short());
    let mut writer = Writer::new(source, file, left_out);
    let body = writer.declarations(0, source.len())?;
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
        "section_event",
        "section_event_end",
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
        "task_begin",
        "task_end",
        "before_taskwait",
        "after_taskwait",
        "begsl",
        "endsl",
        "func_begin",
        "func_end",
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
    for (what, end) in [("function", "func_end"), ("loop", "endsl")] {
        text += &format!(
            "__attribute__((unused)) static void unspool_leave_{what}(long **event)\n\
             {{\n    dbg_{end}(*event);\n}}\n"
        );
    }
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

/// Enters something, and leaves it where the block ends, by whatever way.
fn enter_block(what: &str, begin: &str, handle: usize) -> String {
    format!(
        "long *unspool_{what} __attribute__((cleanup(unspool_leave_{what}), unused)) = \
         unspool_h + {handle}; dbg_{begin}(unspool_{what});"
    )
}

struct Writer<'source> {
    source: &'source str,
    events: Events,
    left_out: LeftOut,
    /// Names of macros with arguments that the source defines.
    macros: HashSet<&'source str>,
    procedures: Procedures,
    /// Whether it is in a loop that threads share.
    is_in_shared_loop: bool,
    /// How many sequential loops it is in, since the last construct.
    loops: usize,
}

impl<'source> Writer<'source> {
    fn new(source: &'source str, file: &str, left_out: LeftOut) -> Writer<'source> {
        Writer {
            source,
            events: Events::new(file),
            left_out,
            macros: not_calls::macros(source),
            procedures: Procedures::default(),
            is_in_shared_loop: false,
            loops: 0,
        }
    }

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

    fn event(&mut self, kind: &'static str, name: Option<String>, at: usize, end: usize) -> usize {
        let handle = self.events.add(kind, name, self.line(at));
        let last = self.line(end);
        self.events.end(handle, last);
        handle
    }
}
