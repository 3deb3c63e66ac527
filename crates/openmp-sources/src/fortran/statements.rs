//! Statements between directives: calls, returns, loops.

use super::Writer;
use super::form::Statement;
use super::words;
use crate::InstrumentError;
use crate::directive::{Directive, parentheses};

impl Writer {
    /// The lines of one statement, directive or comment.
    pub(super) fn lines(&mut self, lines: &[&str], line: usize) -> Result<(), InstrumentError> {
        let form = self.form;
        if form.sentinel(lines[0], "!$omp").is_some() {
            let directive = Directive::parse(&form.directive_text(lines));
            self.more_than_computes();
            return self.directive(&directive, lines, line);
        }
        for sentinel in ["!$unspool", "!dvm$"] {
            if let Some(words) = form.sentinel(lines[0], sentinel) {
                self.settle(line);
                self.start_body(line);
                self.more_than_computes();
                return self.interval(&Directive::parse(words), line);
            }
        }
        if form.is_comment(lines[0]) || lines[0].starts_with('#') {
            self.keep(lines);
            return Ok(());
        }
        self.settle(line);
        let statement = form.statement(lines);
        if self.unit_statement(&statement, lines, line) {
            return Ok(());
        }
        if let Some(atomic) = self.atomic.as_mut() {
            atomic.is_done = !atomic.is_block;
            self.keep(lines);
            return Ok(());
        }
        self.executable(&statement, lines, line);
        Ok(())
    }

    fn executable(&mut self, statement: &Statement, lines: &[&str], line: usize) {
        if words::may_take_long(&statement.lower) {
            self.more_than_computes();
        }
        let parts = separated(&statement.text);
        if parts.len() > 1 {
            // Several statements in a line: their loops are followed, nothing is added.
            self.keep(lines);
            for (index, part) in parts.iter().enumerate() {
                let label = if index == 0 { &statement.label } else { "" };
                let part = Statement {
                    label: label.to_owned(),
                    text: part.clone(),
                    lower: part.to_ascii_lowercase(),
                };
                let (_, ended) = self.loop_statement(&part, line, false);
                for handle in ended {
                    self.call("endsl", handle);
                }
            }
            return;
        }
        // What ends a loop must stay its last statement.
        let ends_labelled = !statement.label.is_empty()
            && self.loops.iter().any(|one| one.label == statement.label);
        let (started, ended) = self.loop_statement(statement, line, true);
        if let Some(handle) = started {
            self.register();
            self.call("begsl", handle);
        }
        let written = self.may_call()
            && !ends_labelled
            && (self.conditional(statement, line) || self.action(statement, lines, line));
        if !written {
            self.keep(lines);
        }
        for handle in ended {
            self.call("endsl", handle);
        }
    }

    /// `if (condition) call f` and `if (condition) return` become blocks.
    fn conditional(&mut self, statement: &Statement, line: usize) -> bool {
        let Some(end) = words::condition_end(&statement.lower) else {
            return false;
        };
        let action = Statement {
            label: String::new(),
            text: statement.text[end..].to_owned(),
            lower: statement.lower[end..].to_owned(),
        };
        if self.called(&action).is_none() && !self.returns(&action) {
            return false;
        }
        let head = format!("{} then", statement.text[..end].trim_end());
        self.text += &self.form.written(&statement.label, &head);
        self.action(&action, &[], line);
        self.put("end if");
        true
    }

    /// A call or a return, with what stands around it. Says whether it was one and has been
    /// written.
    fn action(&mut self, statement: &Statement, lines: &[&str], line: usize) -> bool {
        let returns = self.returns(statement);
        let name = self.called(statement);
        if !returns && name.is_none() {
            return false;
        }
        // What jumps to a label must come before what is inserted.
        if !statement.label.is_empty() {
            self.text += &self.form.written(&statement.label, "continue");
        }
        let mut after = None;
        if let Some(name) = name {
            let handle = self.events.add("func_call", Some(name), line);
            self.register();
            self.call("before_func_call", handle);
            after = Some(handle);
        } else if let Some(handle) = self.body() {
            self.call("func_end", handle);
        }
        match statement.label.is_empty() && !lines.is_empty() {
            true => self.keep(lines),
            false => self.text += &self.form.written("", &statement.text),
        }
        if let Some(handle) = after {
            self.call("after_func_call", handle);
        }
        true
    }

    fn returns(&self, statement: &Statement) -> bool {
        statement.lower == "return" && self.body().is_some()
    }

    /// The name in the event of a call, if the statement is one that is to be seen.
    fn called(&self, statement: &Statement) -> Option<String> {
        let callee = words::after_word(&statement.lower, "call")?;
        let name = words::name_at(callee);
        let argument = callee
            .find('(')
            .map(|open| parentheses(&callee[open..]).0.trim().replace(' ', ""));
        let lock = |mark: &str| format!("{mark}{}", argument.clone().unwrap_or_default());
        match name {
            "" => None,
            "omp_set_lock" => Some(lock("@set_lock_")),
            "omp_unset_lock" => Some(lock("@unset_lock_")),
            "omp_set_nest_lock" => Some(lock("@set_nested_")),
            "omp_unset_nest_lock" => Some(lock("@unset_nested_")),
            other if other.starts_with("omp_") || other.starts_with("dbg_") => None,
            other => Some(other.to_owned()),
        }
        .filter(|name| !self.left_out.has_call(name))
    }
}

/// The statements of a line that has several.
fn separated(text: &str) -> Vec<String> {
    let mut parts = vec![String::new()];
    let mut quote = None;
    for letter in text.chars() {
        match (quote, letter) {
            (None, '\'' | '"') => quote = Some(letter),
            (Some(open), letter) if open == letter => quote = None,
            (None, ';') => {
                parts.push(String::new());
                continue;
            }
            _ => {}
        }
        if let Some(part) = parts.last_mut() {
            part.push(letter);
        }
    }
    let parts = parts.into_iter().map(|part| part.trim().to_owned());
    parts.filter(|part| !part.is_empty()).collect()
}
