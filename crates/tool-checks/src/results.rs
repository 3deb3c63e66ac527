//! What system calls return, behind the instructions that make them: as `system_call_exit` tells
//! it, as often, and as the program gets it.
//!
//! With `spoilt`, other results are expected.

use std::sync::atomic::{AtomicU64, Ordering};

use unspool_tool::{
    Address, FallThrough, Register, Superblock, SystemCall, SystemCallArgument, SystemCallNumber,
    SystemCallResult, ThreadInfo, ThreadNumber, Tool, say,
};

use crate::asked;

/// A call that returns no error in any program; here it does.
const TIMES: u64 = 100;
const CHANGED: i64 = 4321;

/// The tool.
#[derive(Default)]
pub(crate) struct Results {
    told: AtomicU64,
    behind: AtomicU64,
    wrong: AtomicU64,
}

/// What a thread has been told, and what has come behind the instructions.
#[derive(Default)]
pub(crate) struct Calls {
    thread: u32,
    last: Option<(SystemCall, i64)>,
    told: u64,
    behind: u64,
    wrong: u64,
}

impl Results {
    #[expect(clippy::too_many_arguments, reason = "it is called with so many")]
    fn over(
        &self,
        calls: &mut Calls,
        number: u64,
        first: u64,
        sixth: u64,
        result: i64,
        rax: u64,
        rcx: u64,
        next: Address,
        thread: u32,
    ) {
        calls.behind += 1;
        let fits = calls.last.take().is_some_and(|(call, told)| {
            (number, first, sixth) == (call.number, call.arguments[0], call.arguments[5])
                && (result, rax) == (told, told as u64)
                && (rcx, thread) == (next.0, calls.thread)
        });
        calls.wrong += u64::from(!fits);
    }
}

impl Tool for Results {
    type Thread = Calls;

    fn instrument(&self, superblock: &Superblock<Self>) {
        for instruction in superblock.instructions() {
            if let Some(after) = instruction.after_system_call() {
                let arguments = (
                    SystemCallNumber,
                    SystemCallArgument::<0>,
                    SystemCallArgument::<5>,
                    SystemCallResult,
                    Register::Rax,
                    Register::Rcx,
                    FallThrough,
                    ThreadNumber,
                );
                after.call(Results::over, arguments);
            }
        }
    }

    fn thread_start(&self, thread: &ThreadInfo, calls: &mut Calls) {
        calls.thread = thread.number;
    }

    fn system_call_exit(&self, calls: &mut Calls, call: &SystemCall, result: &mut i64) {
        calls.told += 1;
        if call.number == TIMES {
            *result = CHANGED;
        }
        let expected = *result + i64::from(asked("spoilt"));
        calls.last = Some((*call, expected));
    }

    fn thread_end(&self, _: &ThreadInfo, calls: Calls) {
        self.told.fetch_add(calls.told, Ordering::Relaxed);
        self.behind.fetch_add(calls.behind, Ordering::Relaxed);
        self.wrong.fetch_add(calls.wrong, Ordering::Relaxed);
    }

    fn end(&self) {
        let of = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let (told, behind, wrong) = (of(&self.told), of(&self.behind), of(&self.wrong));
        let agree = told == behind && wrong == 0 && told != 0;
        let agree = if agree { "as told" } else { "NOT as told" };
        say(&format!(
            "results {agree}: {told} told, {behind} behind instructions, {wrong} wrong"
        ));
    }
}
