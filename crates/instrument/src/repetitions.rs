//! Whether a repeated string instruction is at its first repetition.
//!
//! Such an instruction can be left in its middle: by a fault, or by a signal. It is begun again
//! then, with what is inserted before it, and with the registers as they were. By these it is
//! known again. A handler may use such instructions itself, and be left by `longjmp`: then its
//! like begins with other registers.

use std::cell::RefCell;

use unspool_code_cache::emit::gpr;
use unspool_code_cache::slots::slots;

/// Where in its work an instruction is: its address, the stack pointer, what is left to do, and
/// the places it has come to.
type Progress = [u64; 5];

#[derive(Default)]
struct Repetitions {
    /// The last one that was begun, and whether at its first repetition.
    begun: Option<(Progress, bool)>,
    /// Those that were left after some of their repetitions, the last one last.
    left: Vec<Progress>,
}

thread_local! {
    static REPETITIONS: RefCell<Repetitions> = RefCell::default();
}

fn progress() -> Progress {
    let (pc, registers) = (slots().pc.get(), slots().registers());
    let register = |number: u8| registers[usize::from(number)];
    [
        pc,
        register(gpr::RSP),
        register(gpr::RCX),
        register(gpr::RSI),
        register(gpr::RDI),
    ]
}

/// Whether the repeated string instruction that the calling thread is about to execute has done
/// none of its repetitions yet. For functions that are called before such an instruction with an
/// argument [`Argument::Context`](super::Argument::Context).
#[must_use]
pub fn is_first_repetition() -> bool {
    let now = progress();
    REPETITIONS.with_borrow_mut(|Repetitions { begun, left }| {
        if let Some((known, first)) = *begun
            && known == now
        {
            return first;
        }
        let known = left.iter().rposition(|it| *it == now);
        if let Some(known) = known {
            // Later ones were those of handlers that are over.
            left.truncate(known);
        }
        *begun = Some((now, known.is_none()));
        known.is_none()
    })
}

/// The thread is brought out of a repeated string instruction, with the program's registers in
/// its slots.
pub(super) fn leave() {
    let now = progress();
    REPETITIONS.with_borrow_mut(|Repetitions { begun, left }| {
        let Some((start, first)) = begun.take() else {
            return;
        };
        if start[0] == now[0] && (!first || start != now) {
            // One that was left in the same frame will not be gone on with.
            left.retain(|it| it[..2] != now[..2]);
            left.push(now);
        }
    });
}
