//! Program units, and the bodies of procedures.

use super::Writer;
use super::form::Statement;
use super::words::{self, Unit};

/// A program unit that has not ended.
pub(super) struct OpenUnit {
    unit: Unit,
    line: usize,
    pub(super) is_pure: bool,
    /// What it specifies, while nothing has been executed.
    specification: Option<String>,
    /// The event of its body.
    body: Option<usize>,
    /// Whether nothing has come that takes long.
    is_short: bool,
}

impl Writer {
    /// A statement that starts or ends units, or stands among what they specify. Says whether
    /// it was one and has been written.
    pub(super) fn unit_statement(
        &mut self,
        statement: &Statement,
        lines: &[&str],
        line: usize,
    ) -> bool {
        let lower = statement.lower.as_str();
        if self.follow_interface(lower) || self.follow_type(lower) {
            self.note_specification(lower);
            self.keep(lines);
            return true;
        }
        if let Some(unit) = words::started_unit(lower) {
            self.keep(lines);
            self.start_unit(unit, line);
            return true;
        }
        if self.units.is_empty() {
            // A main program need not say that it starts.
            self.start_unit(Unit::Program, line);
        }
        let is_end = words::ends_unit(lower);
        if is_end || lower == "contains" {
            self.end_body(&statement.label, line);
            if !is_end {
                self.takes_long();
            }
            match statement.label.is_empty() {
                true => self.keep(lines),
                // The label stands before the end of the body now.
                false => self.text += &self.form.written("", &statement.text),
            }
            if is_end
                && let Some(unit) = self.units.pop()
                && let Unit::Procedure { name, .. } = &unit.unit
            {
                self.procedures.add(name, unit.is_short);
            }
            return true;
        }
        if self.is_specification(lower) {
            self.note_specification(lower);
            self.keep(lines);
            return true;
        }
        self.start_body(line);
        false
    }

    /// Interfaces hold the heads of procedures that are elsewhere.
    fn follow_interface(&mut self, lower: &str) -> bool {
        let starts = words::after_word(lower, "interface")
            .is_some_and(|rest| !rest.starts_with('='))
            || lower.starts_with("abstract interface");
        let ends = lower.starts_with("end interface") || lower.starts_with("endinterface");
        let was = self.in_interface;
        self.in_interface = (was || starts) && !ends;
        was || starts
    }

    /// Derived types may contain procedures too.
    fn follow_type(&mut self, lower: &str) -> bool {
        let rest = words::after_word(lower, "type");
        let starts = rest.is_some_and(|rest| {
            !rest.starts_with(['(', '=', '%', '*']) && !rest.is_empty() && !lower.contains("is (")
        });
        let ends = lower.starts_with("end type") || lower.starts_with("endtype");
        let was = self.in_type;
        self.in_type = (was || starts) && !ends;
        was || starts
    }

    fn start_unit(&mut self, unit: Unit, line: usize) {
        let is_pure = matches!(unit, Unit::Procedure { is_pure: true, .. });
        if unit != Unit::Holder {
            let module = self.module.clone();
            self.put(&format!("use {module}"));
        }
        self.units.push(OpenUnit {
            unit,
            line,
            is_pure,
            specification: Some(String::new()),
            body: None,
            is_short: self.units.is_empty(),
        });
    }

    fn is_specification(&self, lower: &str) -> bool {
        let before = self
            .units
            .last()
            .and_then(|unit| unit.specification.as_deref());
        before.is_some_and(|before| words::specifies(lower, before))
    }

    fn note_specification(&mut self, lower: &str) {
        if let Some(before) = self
            .units
            .last_mut()
            .and_then(|unit| unit.specification.as_mut())
        {
            before.push_str(lower);
            before.push('\n');
        }
    }

    /// The first statement comes that executes something.
    pub(super) fn start_body(&mut self, line: usize) {
        let Some(unit) = self.units.last_mut() else {
            return;
        };
        let Some(specification) = unit.specification.take() else {
            return;
        };
        unit.is_short &= words::is_of_scalars(&specification);
        if unit.is_pure {
            return;
        }
        if let Unit::Procedure { name, .. } = &unit.unit
            && !self.left_out.has_function(name)
        {
            let handle = self.events.add("function", Some(name.clone()), unit.line);
            self.events.end(handle, line);
            unit.body = Some(handle);
            self.register();
            self.call("func_begin", handle);
        }
    }

    /// What executes ends here, where a label may stand.
    fn end_body(&mut self, label: &str, line: usize) {
        // A procedure may have nothing to execute.
        self.start_body(line);
        if !label.is_empty() {
            self.text += &self.form.written(label, "continue");
        }
        if let Some(handle) = self.units.last_mut().and_then(|unit| unit.body.take()) {
            self.events.end(handle, line);
            self.call("func_end", handle);
        }
    }

    /// Something comes in this unit that may take long.
    pub(super) fn takes_long(&mut self) {
        if let Some(unit) = self.units.last_mut() {
            unit.is_short = false;
        }
    }

    /// The event of the body that a return leaves.
    pub(super) fn body(&self) -> Option<usize> {
        self.units.last().and_then(|unit| unit.body)
    }
}
