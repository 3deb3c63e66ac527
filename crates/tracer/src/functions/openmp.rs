//! What is noted of calls of the OpenMP runtimes of GCC (libgomp) and LLVM (libomp) beyond their
//! first three arguments: functions that they are given to call, whose calls are traced then, and
//! what tasks depend on.
//!
//! Sources: `libgomp/libgomp.map`, `libgomp_g.h` and `include/gomp-constants.h` of GCC;
//! `openmp/runtime/src/kmp.h` and `kmp_csupport.cpp` of LLVM.

use unspool_code_cache::emit::gpr;
use unspool_engine::thread::Thread;
use unspool_events::{CalledBack, Dependence};
use unspool_kernel::guarded;

/// The symbols of all functions by which programs call a runtime begin like one of these.
pub(super) const NAMES: [&str; 4] = ["GOMP_*", "omp_*", "__kmpc_*", "ompc_*"];

/// What has these functions is a runtime.
pub(super) fn is_of_runtime(symbol: &[u8]) -> bool {
    symbol.starts_with(b"GOMP_") || symbol.starts_with(b"__kmpc_")
}

/// What is noted of a function.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Noted {
    /// An argument that is a function, and what that is.
    called_back: [Option<(usize, CalledBack)>; 2],
    /// Whether arguments behind the third are wanted.
    pub(super) has_further: bool,
    dependences: Option<Dependences>,
}

/// Where a call says what a task depends on.
#[derive(Debug, Clone, Copy)]
enum Dependences {
    /// GCC: an array at this argument, if the argument before it has the flag.
    Gnu { array: usize, flagged: bool },
    /// LLVM: how many, and where.
    Llvm { count: usize, list: usize },
}

/// `GOMP_TASK_FLAG_DEPEND`.
const DEPENDS: u64 = 1 << 3;

/// More than a task depends on: what says so is no list.
const MOST: u64 = 1 << 20;

/// The arguments of a call.
pub(super) struct Arguments<'a>(pub(super) &'a Thread);

impl Arguments<'_> {
    /// An integer argument; 0 where it cannot be read.
    fn get(&self, number: usize) -> u64 {
        let registers = [gpr::RDI, gpr::RSI, gpr::RDX, gpr::RCX, gpr::R8, gpr::R9];
        match registers.get(number) {
            Some(&register) => self.0.register(register),
            None => {
                let above = 8 * (number as u64 - registers.len() as u64 + 1);
                guarded::read_word(self.0.register(gpr::RSP).wrapping_add(above)).unwrap_or(0)
            }
        }
    }

    /// The fourth to ninth.
    pub(super) fn further(&self) -> [u64; 6] {
        [3, 4, 5, 6, 7, 8].map(|number| self.get(number))
    }
}

/// What is noted of the function with this symbol.
pub(super) fn noted_of(symbol: &str) -> Noted {
    use CalledBack::{Caller, Region, Task};

    let noted = |called_back, has_further, dependences| Noted {
        called_back,
        has_further,
        dependences,
    };
    let calls = |number, what| noted([Some((number, what)), None], false, None);
    let tells = |dependences| noted([None; 2], true, Some(dependences));
    let task_of_gnu = [Some((0, Task)), Some((2, Caller))];
    match symbol {
        "GOMP_parallel_end" => Noted::default(),
        _ if symbol.starts_with("GOMP_parallel") => calls(0, Region),
        "GOMP_teams_reg" => calls(0, Caller),
        "GOMP_target" | "GOMP_target_ext" => calls(1, Caller),
        "GOMP_task" => {
            let (array, flagged) = (7, true);
            noted(task_of_gnu, true, Some(Dependences::Gnu { array, flagged }))
        }
        "GOMP_taskloop" | "GOMP_taskloop_ull" => noted(task_of_gnu, true, None),
        "GOMP_taskwait_depend" | "GOMP_taskwait_depend_nowait" => {
            let (array, flagged) = (0, false);
            tells(Dependences::Gnu { array, flagged })
        }
        "__kmpc_fork_call" | "__kmpc_fork_call_if" | "__kmpc_fork_teams" => calls(2, Region),
        "__kmpc_omp_task_alloc" | "__kmpc_omp_target_task_alloc" => {
            noted([Some((5, Task)), None], true, None)
        }
        "__kmpc_omp_task_with_deps" => tells(Dependences::Llvm { count: 3, list: 4 }),
        "__kmpc_omp_wait_deps" | "__kmpc_omp_taskwait_deps_51" => {
            tells(Dependences::Llvm { count: 2, list: 3 })
        }
        "__kmpc_taskloop" | "__kmpc_taskloop_5" | "__kmpc_reduce" | "__kmpc_reduce_nowait" => {
            noted([None; 2], true, None)
        }
        _ => Noted::default(),
    }
}

impl Noted {
    /// The functions that a call gives to be called, and what they are.
    pub(super) fn called_back(
        &self,
        arguments: &Arguments<'_>,
    ) -> impl Iterator<Item = (u64, CalledBack)> {
        let given = self.called_back.into_iter().flatten();
        let given = given.map(|(number, what)| (arguments.get(number), what));
        given.filter(|(address, _)| *address != 0)
    }

    /// What the task depends on that a call makes or waits for.
    pub(super) fn dependences(&self, arguments: &Arguments<'_>) -> Vec<(Dependence, u64)> {
        match self.dependences {
            None => Vec::new(),
            Some(Dependences::Gnu { array, flagged }) => {
                match flagged && arguments.get(array - 1) & DEPENDS == 0 {
                    true => Vec::new(),
                    false => of_gnu(arguments.get(array)),
                }
            }
            Some(Dependences::Llvm { count, list }) => of_llvm(
                arguments.get(count) & u64::from(u32::MAX),
                arguments.get(list),
            ),
        }
    }
}

fn word(address: u64, number: u64) -> Option<u64> {
    guarded::read_word(address.wrapping_add(8 * number))
}

/// The array that GCC builds: how many, how many of them `out`, then the addresses, `out` first. Or 0,
/// how many, how many `out`, `mutexinoutset`, `in`, then the addresses in this order, those of
/// objects (`depobj`) last, which have the address and the kind.
fn of_gnu(array: u64) -> Vec<(Dependence, u64)> {
    let read = || -> Option<(u64, u64, [u64; 3])> {
        let count = word(array, 0)?;
        if count != 0 {
            let out = word(array, 1)?;
            return Some((count, 2, [out, 0, count.checked_sub(out)?]));
        }
        let counts = [word(array, 2)?, word(array, 3)?, word(array, 4)?];
        Some((word(array, 1)?, 5, counts))
    };
    let Some((count, first, [out, mutex, input])) = read().filter(|(count, ..)| *count <= MOST)
    else {
        return Vec::new();
    };
    let is_before = |number: u64, counts: &[u64]| {
        number
            < counts
                .iter()
                .fold(0, |sum, count| count.saturating_add(sum))
    };
    let numbers = 0..count;
    let one = |number| {
        let address = word(array, first + number)?;
        Some(match number {
            _ if is_before(number, &[out]) => (Dependence::Out, address),
            _ if is_before(number, &[out, mutex]) => (Dependence::MutexInOutSet, address),
            _ if is_before(number, &[out, mutex, input]) => (Dependence::In, address),
            _ => (kind_of_gnu(word(address, 1)?)?, word(address, 0)?),
        })
    };
    numbers.map_while(one).collect()
}

/// `GOMP_DEPEND_IN` and its like, in objects.
fn kind_of_gnu(kind: u64) -> Option<Dependence> {
    match kind {
        1 => Some(Dependence::In),
        2 | 3 => Some(Dependence::Out),
        4 => Some(Dependence::MutexInOutSet),
        5 => Some(Dependence::InOutSet),
        _ => None,
    }
}

/// The list that Clang builds: address, size and flags of each.
fn of_llvm(count: u64, list: u64) -> Vec<(Dependence, u64)> {
    let numbers = 0..count.min(MOST);
    let one = |number| {
        let address = word(list, 3 * number)?;
        let flags = word(list, 3 * number + 2)? & 0xff;
        Some(match flags {
            1 => (Dependence::In, address),
            4 => (Dependence::MutexInOutSet, address),
            8 => (Dependence::InOutSet, address),
            _ => (Dependence::Out, address),
        })
    };
    numbers.map_while(one).collect()
}
