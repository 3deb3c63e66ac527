//! Call stacks with names.

use std::collections::BTreeMap;

use serde_json::{Value, json};
use unspool_analyses::{ContextId, RaceCheck};
use unspool_report::{CodePlace, Places};

use super::standard_libraries::is_in_standard_library;
use super::string_functions::{is_in_c_library, is_string_function};

/// One function that has not returned.
#[derive(Debug, Clone)]
pub(super) struct Frame {
    /// The instruction that it is at.
    pub(super) pc: u64,
    pub(super) place: CodePlace,
    /// Whether it was inlined into the next one.
    pub(super) is_inlined: bool,
    /// Whether a signal interrupted it, and the handler is the frame before.
    pub(super) is_interrupted: bool,
    /// Whether calls that lead back to it are left out.
    pub(super) is_recursive: bool,
}

/// The functions that have not returned, innermost first.
#[derive(Debug, Clone, Default)]
pub(super) struct Stack {
    pub(super) frames: Vec<Frame>,
    /// The number of the frame that somebody can do something about: functions that copy or look
    /// through memory do so for their caller.
    headline: usize,
}

/// Finds names for stacks.
pub(super) struct Stacks<'a> {
    check: &'a RaceCheck,
    places: &'a mut Places,
    known: BTreeMap<u64, Vec<CodePlace>>,
}

impl<'a> Stacks<'a> {
    pub(super) fn new(check: &'a RaceCheck, places: &'a mut Places) -> Stacks<'a> {
        Stacks {
            check,
            places,
            known: BTreeMap::new(),
        }
    }

    /// For names of data.
    pub(super) fn places(&mut self) -> &mut Places {
        self.places
    }

    /// The stack at an instruction, or of the kernel in a system call, that some calls led to.
    pub(super) fn stack(&mut self, pc: Option<u64>, context: ContextId) -> Stack {
        let mut frames = Vec::new();
        if let Some(pc) = pc {
            self.add_frames(pc, (false, false), &mut frames);
        }
        for call in self.check.calls(context) {
            let state = (call.is_interrupted, call.is_recursive);
            self.add_frames(call.pc, state, &mut frames);
        }
        let is_own = |frame: &Frame| match pc {
            Some(_) => !is_string_function(&frame.place),
            None => !is_in_c_library(&frame.place),
        };
        let headline = frames.iter().position(is_own).unwrap_or(0);
        Stack { frames, headline }
    }

    /// The stack at the call of a function of the C library by which somebody has wanted something:
    /// what the standard libraries of C++ and Rust do by it they do for their callers.
    pub(super) fn of_request(&mut self, context: ContextId) -> Stack {
        let mut stack = self.stack(None, context);
        let is_own =
            |frame: &Frame| !is_in_c_library(&frame.place) && !is_in_standard_library(&frame.place);
        if let Some(own) = stack.frames.iter().position(is_own) {
            stack.headline = own;
        }
        stack
    }

    fn add_frames(
        &mut self,
        pc: u64,
        (is_interrupted, is_recursive): (bool, bool),
        frames: &mut Vec<Frame>,
    ) {
        let places = &mut self.places;
        let known = self.known.entry(pc).or_insert_with(|| places.frames(pc));
        let last = known.len() - 1;
        frames.extend(known.iter().enumerate().map(|(number, place)| Frame {
            pc,
            place: place.clone(),
            is_inlined: number != last,
            is_interrupted: is_interrupted && number == 0,
            is_recursive: is_recursive && number == last,
        }));
    }
}

impl Stack {
    /// One of these frames, which is looked at from the innermost on.
    #[cfg(test)]
    pub(super) fn of(frames: Vec<Frame>) -> Stack {
        Stack {
            frames,
            headline: 0,
        }
    }

    /// The frame to look at.
    pub(super) fn headline(&self) -> Option<&Frame> {
        self.frames.get(self.headline)
    }

    /// The frame to look at, and the one that accesses memory. Of the C library that is the function as a
    /// whole, with what was inlined into it: that is known where its debugging information is installed, and
    /// what is left out must not depend on that.
    pub(super) fn top(&self) -> impl Iterator<Item = &Frame> {
        let innermost = self.frames.first();
        let is_of_library = innermost.is_some_and(|frame| is_in_c_library(&frame.place));
        let whole = self.frames.iter().position(|frame| !frame.is_inlined);
        let end = match whole.filter(|_| is_of_library) {
            Some(outer) => outer + 1,
            None => usize::from(self.headline != 0),
        };
        self.headline()
            .into_iter()
            .chain(self.frames.iter().take(end))
    }

    /// The stack in lines for people, without the frame to look at.
    pub(super) fn lines(&self, indent: &str) -> String {
        const SHOWN: usize = 24;
        let mut text = String::new();
        for (number, frame) in self.frames.iter().enumerate().take(SHOWN) {
            let relation = match number.checked_sub(1).map(|before| &self.frames[before]) {
                _ if number == self.headline => continue,
                _ if number < self.headline => "by",
                Some(before) if before.is_inlined => "inlined into",
                _ if frame.is_interrupted => "as a signal handler at",
                _ => "called from",
            };
            text += &format!("{indent}{relation} {}\n", frame.text());
        }
        let hidden = self.frames.len().saturating_sub(SHOWN);
        if hidden > 0 {
            text += &format!("{indent}and {hidden} further calls\n");
        }
        text
    }

    /// All frames, for programs.
    pub(super) fn as_json(&self) -> Value {
        self.frames.iter().map(Frame::as_json).collect()
    }
}

impl Frame {
    /// The function and its line, for people.
    pub(super) fn text(&self) -> String {
        let function = self.place.function.as_deref().unwrap_or("?");
        let folded = if self.is_recursive {
            " (recursive)"
        } else {
            ""
        };
        format!("{function}, {}{folded}", self.position())
    }

    /// The line, or the address.
    pub(super) fn position(&self) -> String {
        match (&self.place.line, &self.place.module) {
            (Some(line), _) => line.clone(),
            (None, Some(module)) => format!("{:#x} in {module}", self.pc),
            (None, None) => format!("{:#x}", self.pc),
        }
    }

    fn as_json(&self) -> Value {
        json!({
            "pc": self.pc,
            "module": self.place.module,
            "function": self.place.function,
            "line": self.place.line,
            "inlined": self.is_inlined,
            "interrupted": self.is_interrupted,
            "recursive": self.is_recursive,
        })
    }
}
