//! The filters that a thread is under, the newest first, as its children inherit them.

use std::sync::Arc;

use super::always::AlwaysAllowed;
use super::program::{Instruction, Program};
use super::run::{CallData, run};
use super::verdict::{ALLOW, Question, Verdict, is_stronger, meaning};

/// What the calls of a thread are judged by.
#[derive(Debug)]
pub(crate) struct Filter {
    rule: Rule,
    /// What the thread was under before.
    earlier: Option<Arc<Filter>>,
    /// What this and all earlier ones always allow.
    always: AlwaysAllowed,
    /// What the kernel has of it.
    pub(crate) in_kernel: InKernel,
}

/// What the kernel has of a filter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct InKernel {
    /// A copy that judges the program's 64-bit calls.
    pub(crate) copy: bool,
    /// A supervisor answers for it.
    pub(crate) listener: bool,
}

/// What a thread has asked for.
#[derive(Debug)]
pub(crate) enum Rule {
    /// A filter, as the program passed it, and ready to run.
    Program(Box<[Instruction]>, Program),
    /// `SECCOMP_MODE_STRICT`: reading, writing, returning from a handler, and the end.
    Strict,
}

impl Filter {
    /// A filter on top of those that a thread is under.
    #[must_use]
    pub(crate) fn new(rule: Rule, in_kernel: InKernel, earlier: Option<Arc<Filter>>) -> Filter {
        let before = earlier
            .as_ref()
            .map_or(AlwaysAllowed::ALL, |earlier| earlier.always);
        let always = match &rule {
            Rule::Program(_, program) => before.and_by(program),
            Rule::Strict => before.filtered(|number| is_allowed_strictly(number as i32)),
        };
        Filter {
            rule,
            earlier,
            always,
            in_kernel,
        }
    }

    /// This filter and all earlier ones.
    pub(crate) fn all(&self) -> impl Iterator<Item = &Filter> {
        std::iter::successors(Some(self), |filter| filter.earlier.as_deref())
    }

    /// What was asked for.
    #[must_use]
    pub(crate) fn rule(&self) -> &Rule {
        &self.rule
    }

    /// Its instructions, if it is a program.
    #[must_use]
    pub(crate) fn program(&self) -> Option<(&[Instruction], &Program)> {
        match &self.rule {
            Rule::Program(instructions, program) => Some((instructions, program)),
            Rule::Strict => None,
        }
    }

    /// Whether the thread may do next to nothing. There is no filter beside that mode.
    #[must_use]
    pub(crate) fn is_strict(&self) -> bool {
        matches!(self.rule, Rule::Strict)
    }

    /// Whether this filter is the other or was installed on top of it.
    #[must_use]
    pub(crate) fn descends_from(&self, other: &Filter) -> bool {
        self.all().any(|filter| std::ptr::eq(filter, other))
    }

    /// What becomes of a call.
    #[must_use]
    pub(crate) fn judge(&self, data: &CallData) -> Verdict {
        if self.always.has(data.number) {
            return Verdict::Allow;
        }
        if self.is_strict() {
            return match is_allowed_strictly(data.number) {
                true => Verdict::Allow,
                false => Verdict::KillThread(libc::SIGKILL),
            };
        }
        let mut decided_by = self;
        let mut strongest = ALLOW;
        for filter in self.all() {
            let Some((_, program)) = filter.program() else {
                continue;
            };
            let result = run(program, data);
            if is_stronger(result, strongest) {
                (strongest, decided_by) = (result, filter);
            }
        }
        match meaning(strongest) {
            // The kernel has no copy that would ask.
            Verdict::AskKernel(Question::Log) if !decided_by.in_kernel.copy => Verdict::Allow,
            Verdict::AskKernel(_) if !decided_by.in_kernel.copy => {
                Verdict::Return(-i64::from(libc::ENOSYS))
            }
            verdict => verdict,
        }
    }
}

fn is_allowed_strictly(number: i32) -> bool {
    matches!(
        i64::from(number),
        libc::SYS_read | libc::SYS_write | libc::SYS_exit | libc::SYS_rt_sigreturn
    )
}
