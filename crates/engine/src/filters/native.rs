//! The filters of a thread that is let go: from there on the kernel alone judges its calls.
//!
//! The copies that the kernel has let calls from high addresses pass, where the program itself may
//! lie. So it gets the filters once more as they are, as the thread's last act but a few. These
//! few, which give up the engine's state, no filter of the program's expects: they pass by their
//! number and the address behind them, both. Nothing else can be called there.

use super::install::is_permitted;
use crate::seccomp::ARCHITECTURE;
use crate::seccomp::chain::{Filter, Rule};
use crate::seccomp::kernel_copy::strict;
use crate::seccomp::program::{Instruction, MOST_INSTRUCTIONS};
use crate::seccomp::verdict::ALLOW;
use crate::thread::Thread;

/// A call that passes whatever the filters say: the address behind its instruction, its number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Passing {
    pub(crate) behind: u64,
    pub(crate) number: u32,
}

/// The most of them that a thread has.
pub(crate) const MOST_PASSING: usize = 8;

/// Filters for the kernel, the oldest first.
#[derive(Debug, Default)]
pub(crate) struct NativeFilters {
    lists: Vec<super::install::FilterList>,
    /// What the lists name.
    filters: Vec<Vec<Instruction>>,
}

impl NativeFilters {
    /// Those of a thread. `None`: one would be too long.
    pub(crate) fn of(thread: &Thread, passing: &[Passing]) -> Option<NativeFilters> {
        let newest = thread.filters.newest();
        let all = newest.iter().flat_map(|newest| newest.all());
        let mut filters: Vec<_> = all.map(|it| behind(passing, it)).collect::<Option<_>>()?;
        filters.reverse();
        let lists = filters.iter().map(|it| super::install::list(it)).collect();
        Some(NativeFilters { lists, filters })
    }

    /// Where the kernel finds them, as `sock_fprog`, and how many there are.
    pub(crate) fn lists(&self) -> (u64, u64) {
        debug_assert_eq!(self.lists.len(), self.filters.len());
        (self.lists.as_ptr() as u64, self.lists.len() as u64)
    }
}

/// Whether the kernel will take a thread's filters when it is let go. It has the copies already, and
/// room for a number of instructions only: so a thread that is under the same ones tries.
pub(crate) fn will_be_taken(thread: &Thread) -> bool {
    const STACK: usize = 64 << 10;
    let Some(newest) = thread.filters.newest() else {
        return true;
    };
    // A supervisor has been promised that it is asked by the copy, and would be asked twice.
    if newest.all().any(|filter| filter.in_kernel.listener) || !is_permitted() {
        return false;
    }
    let nothing = Passing {
        behind: 0,
        number: 0,
    };
    let Some(filters) = NativeFilters::of(thread, &[nothing; MOST_PASSING]) else {
        return false;
    };
    let attempt = move || filters.filters.iter().all(|filter| is_taken(filter));
    let spawned = std::thread::Builder::new().stack_size(STACK).spawn(attempt);
    spawned.is_ok_and(|attempt| attempt.join().unwrap_or(false))
}

/// Has the kernel take a filter of the same size, which lets everything pass.
fn is_taken(filter: &[Instruction]) -> bool {
    let mut harmless = filter.to_vec();
    harmless[0] = step(RETURN, ALLOW, 0, 0);
    super::install::ask_kernel(0, &harmless) == 0
}

const LOAD: u16 = 0x20;
const LOAD_CONSTANT: u16 = 0x00;
const JUMP_IF_EQUAL: u16 = 0x15;
const RETURN: u16 = 0x06;

fn step(code: u16, constant: u32, yes: u8, no: u8) -> Instruction {
    Instruction {
        code,
        yes,
        no,
        constant,
    }
}

/// A filter behind the instructions that let some calls pass, and all of 32-bit code, which the
/// copies judge.
fn behind(passing: &[Passing], filter: &Filter) -> Option<Vec<Instruction>> {
    const NUMBER_AT: u32 = 0;
    const ARCHITECTURE_AT: u32 = 4;
    const INSTRUCTION_POINTER_AT: u32 = 8;
    let mut whole = vec![
        step(LOAD, ARCHITECTURE_AT, 0, 0),
        step(JUMP_IF_EQUAL, ARCHITECTURE, 1, 0),
        step(RETURN, ALLOW, 0, 0),
    ];
    for call in passing {
        whole.extend([
            step(LOAD, NUMBER_AT, 0, 0),
            step(JUMP_IF_EQUAL, call.number, 0, 5),
            step(LOAD, INSTRUCTION_POINTER_AT, 0, 0),
            step(JUMP_IF_EQUAL, call.behind as u32, 0, 3),
            step(LOAD, INSTRUCTION_POINTER_AT + 4, 0, 0),
            step(JUMP_IF_EQUAL, (call.behind >> 32) as u32, 0, 1),
            step(RETURN, ALLOW, 0, 0),
        ]);
    }
    // As the filter finds it natively.
    whole.push(step(LOAD_CONSTANT, 0, 0, 0));
    match filter.rule() {
        Rule::Program(instructions, _) => whole.extend_from_slice(instructions),
        Rule::Strict => whole.extend(strict()),
    }
    (whole.len() <= MOST_INSTRUCTIONS).then_some(whole)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::seccomp::chain::InKernel;
    use crate::seccomp::program::Program;
    use crate::seccomp::run::{CallData, run};

    fn result(passing: &[Passing], data: &CallData) -> u32 {
        const ERROR: u32 = 0x0005_0001;
        // Forbids everything.
        let rules: Box<[_]> = Box::new([step(RETURN, ERROR, 0, 0)]);
        let program = Program::check(&rules).expect("a filter");
        let in_kernel = InKernel {
            copy: true,
            listener: false,
        };
        let filter = Filter::new(Rule::Program(rules, program), in_kernel, None);
        let whole = behind(passing, &filter).expect("it is short");
        run(&Program::check(&whole).expect("a filter"), data)
    }

    #[test]
    fn calls_pass_by_address_and_number_alone() {
        let passing = [(0x1_2345_6789, 15), (0x7fff_0000_1000, 231)];
        let passing = passing.map(|(behind, number)| Passing { behind, number });
        for (number, address, passes) in [
            (15, 0x1_2345_6789, true),
            (231, 0x7fff_0000_1000, true),
            (231, 0x1_2345_6789, false),
            (15, 0x7fff_0000_1000, false),
            (15, 0x2_2345_6789, false),
            (15, 0x1_2345_678a, false),
            (0, 0, false),
        ] {
            let data = CallData {
                number,
                architecture: ARCHITECTURE,
                instruction_pointer: address,
                arguments: [0; 6],
            };
            let is_allowed = result(&passing, &data) == ALLOW;
            assert_eq!(is_allowed, passes, "{number} {address:#x}");
        }
    }
}
