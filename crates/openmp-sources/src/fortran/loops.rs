//! Loops: those that threads share, and sequential ones.
//!
//! Of sequential loops, the outermost in each construct is an event: calls in every loop of
//! a nest would cost more than the loops.

use super::form::Statement;
use super::words;
use super::{LoopState, Writer};

/// A loop that has not ended.
pub(super) struct Loop {
    /// The label of its last statement; empty where `end do` ends it.
    pub(super) label: String,
    role: Role,
    /// How many constructs it is in.
    depth: usize,
    line: usize,
    /// Whether it only computes.
    is_plain: bool,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Role {
    /// A worksharing construct's own loop.
    Shared,
    /// A loop that must directly follow another.
    Nested,
    /// An event.
    Sequential(usize),
    /// None.
    Plain,
}

impl Writer {
    /// Follows loops where a statement is one, or ends some. Says what is to stand before it
    /// and after it.
    pub(super) fn loop_statement(
        &mut self,
        statement: &Statement,
        line: usize,
        may_add: bool,
    ) -> (Option<usize>, Vec<usize>) {
        let mut ended = Vec::new();
        let mut started = None;
        if let Some(label) = words::started_loop(&statement.lower) {
            self.takes_long();
            let role = self.role(may_add && statement.label.is_empty(), line);
            if let Role::Sequential(handle) = role {
                started = Some(handle);
            }
            self.loops.push(Loop {
                label,
                role,
                depth: self.open.len(),
                line,
                is_plain: true,
            });
            return (started, ended);
        }
        let by_label = |one: &mut Loop| !one.label.is_empty() && one.label == statement.label;
        let mut any = false;
        while let Some(one) = self.loops.pop_if(by_label) {
            any = true;
            self.end_loop(&one, line, &mut ended);
        }
        if !any
            && words::ends_loop(&statement.lower)
            && let Some(one) = self.loops.pop_if(|one| one.label.is_empty())
        {
            self.end_loop(&one, line, &mut ended);
        }
        (started, ended)
    }

    fn role(&mut self, may_add: bool, line: usize) -> Role {
        let depth = self.open.len();
        if let Some(open) = self.open.last_mut()
            && let LoopState::Expected(count) = open.state
            && count > 0
        {
            let is_first = !self
                .loops
                .last()
                .is_some_and(|one| one.depth == depth && one.role != Role::Plain);
            open.state = LoopState::Expected(count - 1);
            return if is_first { Role::Shared } else { Role::Nested };
        }
        let is_within = |one: &Loop| {
            one.depth == depth && matches!(one.role, Role::Sequential(_) | Role::Plain)
        };
        // There are many such, and all that they are is work of the loop that threads share.
        let is_in_shared_loop = (self.open.iter()).any(|open| open.state == LoopState::Expected(0));
        let is_part = is_in_shared_loop && self.known_plain_loops.contains(&line);
        if !may_add
            || !self.may_call()
            || self.left_out.loops
            || is_part
            || self.loops.iter().any(is_within)
        {
            return Role::Plain;
        }
        Role::Sequential(self.events.add("seqloop", None, line))
    }

    /// Something comes that does more than to compute.
    pub(super) fn more_than_computes(&mut self) {
        self.takes_long();
        self.loops.iter_mut().for_each(|one| one.is_plain = false);
    }

    fn end_loop(&mut self, one: &Loop, line: usize, ended: &mut Vec<usize>) {
        if one.is_plain {
            self.plain_loops.insert(one.line);
        }
        match one.role {
            Role::Sequential(handle) => {
                self.events.end(handle, line);
                ended.push(handle);
            }
            Role::Shared => {
                if let Some(open) = self.open.get_mut(one.depth.wrapping_sub(1)) {
                    open.state = LoopState::Ended;
                }
            }
            Role::Nested | Role::Plain => {}
        }
    }

    /// Ends the constructs whose loop has ended, and whose end no directive says.
    pub(super) fn close_loops(&mut self, line: usize) {
        while let Some(open) = self.open.pop_if(|open| open.state == LoopState::Ended) {
            self.end_work(&open, false, line.saturating_sub(1));
        }
    }
}
