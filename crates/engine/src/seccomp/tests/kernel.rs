//! Random filters, given to the kernel and run here: both accept the same ones, and come to the
//! same results.
//!
//! Each filter gets a child of its own. The child makes calls with numbers that no call has, so
//! that an allowed one is known by `ENOSYS`; other results are made to be errors.

use super::super::program::{Instruction, Program};
use super::super::run::{CallData, run};
use super::super::verdict::{Verdict, meaning};
use super::{call, step};

/// No call has these numbers.
const FREE_NUMBERS: std::ops::Range<i32> = 390..420;
const CALLS: usize = 8;
const ROUNDS: usize = 3000;

/// A generator that needs no memory of its own.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        // xorshift64* (Vigna 2016).
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    fn below(&mut self, end: u64) -> u64 {
        (self.next() >> 16) % end
    }

    fn one_of<T: Copy>(&mut self, all: &[T]) -> T {
        all[self.below(all.len() as u64) as usize]
    }

    fn word(&mut self) -> u32 {
        match self.below(4) {
            0 => self.below(8) as u32,
            1 => self.below(64) as u32,
            2 => u32::MAX - self.below(4) as u32,
            _ => self.next() as u32,
        }
    }
}

const CALCULATIONS: [u16; 9] = [0x04, 0x14, 0x24, 0x34, 0x44, 0x54, 0x64, 0x74, 0xa4];
const JUMPS: [u16; 4] = [0x15, 0x25, 0x35, 0x45];

/// One instruction with `left` ones behind it; mostly a valid one.
fn instruction(random: &mut Random, left: u64) -> Instruction {
    let x = random.one_of(&[0, 8]);
    match random.below(24) {
        0 => step(random.next() as u16, random.word()),
        1 => step(random.next() as u16 & 0xff, random.word()),
        2..=6 => step(0x20, random.below(16) as u32 * 4),
        7 => step(0x20, random.below(70) as u32),
        8..=12 => {
            let code = random.one_of(&CALCULATIONS);
            let constant = match code & 0xf0 {
                0x60 | 0x70 => random.below(33) as u32,
                _ => random.word(),
            };
            step(code | x, constant)
        }
        13..=16 => {
            let mut instruction = step(random.one_of(&JUMPS) | x, random.word());
            instruction.yes = random.below(left.clamp(1, 20)) as u8;
            instruction.no = random.below(left.clamp(1, 6)) as u8;
            instruction
        }
        17 => step(0x05, random.below(left.clamp(1, 3)) as u32),
        18 => step(random.one_of(&[0x02, 0x03]), random.below(3) as u32),
        19 => step(random.one_of(&[0x60, 0x61]), random.below(3) as u32),
        20 => step(random.one_of(&[0x07, 0x87, 0x84]), 0),
        21 => step(random.one_of(&[0x00, 0x01]), random.word()),
        22 => step(random.one_of(&[0x80, 0x81]), 0),
        _ => step(0x06, ERRNO | random.below(4096) as u32),
    }
}

const ERRNO: u32 = 0x0005_0000;

fn filter(random: &mut Random) -> Vec<Instruction> {
    let length = 1 + random.below(40);
    let mut all: Vec<Instruction> = (0..length)
        .map(|at| instruction(random, length - at + 2))
        .collect();
    // What was calculated becomes an error.
    all.push(step(0x54, 0xfff));
    all.push(step(0x44, ERRNO));
    all.push(step(0x16, 0));
    all
}

fn calls(random: &mut Random) -> Vec<CallData> {
    let free = FREE_NUMBERS.len() as u64;
    let some = |random: &mut Random| {
        let number = FREE_NUMBERS.start + random.below(free) as i32;
        call(
            number,
            std::array::from_fn(|_| u64::from(random.word()) << 32 | u64::from(random.word())),
        )
    };
    (0..CALLS).map(|_| some(random)).collect()
}

/// What the kernel says: whether it takes a filter, and the results of calls until one kills.
#[derive(Debug, PartialEq, Eq)]
struct Answers {
    accepted: bool,
    results: Vec<i64>,
}

fn ask_here(filter: &[Instruction], calls: &[CallData]) -> Answers {
    let Some(program) = Program::check(filter) else {
        return Answers {
            accepted: false,
            results: Vec::new(),
        };
    };
    let result = |data: &CallData| match meaning(run(&program, data)) {
        Verdict::Allow => Some(-i64::from(libc::ENOSYS)),
        Verdict::Return(result) => Some(result),
        _ => None,
    };
    Answers {
        accepted: true,
        results: calls.iter().map_while(result).collect(),
    }
}

fn ask_kernel(filter: &[Instruction], calls: &[CallData]) -> Answers {
    let mut pipe = [0; 2];
    // SAFETY: the child uses nothing but system calls and what was made before.
    unsafe {
        assert_eq!(libc::pipe(pipe.as_mut_ptr()), 0);
        let child = libc::fork();
        if child == 0 {
            answer(pipe[1], filter, calls);
        }
        assert!(child > 0);
        libc::close(pipe[1]);
        let mut results = Vec::new();
        let mut word = [0_u8; 8];
        while libc::read(pipe[0], word.as_mut_ptr().cast(), word.len()) == 8 {
            results.push(i64::from_le_bytes(word));
        }
        libc::close(pipe[0]);
        libc::waitpid(child, std::ptr::null_mut(), 0);
        let accepted = results.remove(0) == 0;
        Answers { accepted, results }
    }
}

/// In the child: whether the filter was installed, then each call's result.
///
/// # Safety
/// The process must be a forked child's.
unsafe fn answer(to: i32, filter: &[Instruction], calls: &[CallData]) -> ! {
    #[repr(C)]
    struct FilterList {
        length: u16,
        first: *const Instruction,
    }
    let list = FilterList {
        length: filter.len() as u16,
        first: filter.as_ptr(),
    };
    // SAFETY: the filter judges the calls with free numbers only, because those before it let
    // others pass; so writing and ending still work.
    unsafe {
        libc::prctl(libc::PR_SET_DUMPABLE, 0, 0, 0, 0);
        libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
        let installed = libc::syscall(libc::SYS_seccomp, 1, 0, &raw const list);
        report(to, installed);
        if installed == 0 {
            for data in calls {
                let [a, b, c, d, e, f] = data.arguments;
                let failed = libc::syscall(i64::from(data.number), a, b, c, d, e, f);
                let error = std::io::Error::last_os_error().raw_os_error().unwrap_or(0);
                report(
                    to,
                    if failed == -1 {
                        -i64::from(error)
                    } else {
                        failed
                    },
                );
            }
        }
        libc::_exit(0)
    }
}

fn report(to: i32, result: i64) {
    let bytes = result.to_le_bytes();
    // SAFETY: writes from an array.
    unsafe { libc::write(to, bytes.as_ptr().cast(), bytes.len()) };
}

/// The same filter for free numbers; other calls pass. It has the same jumps and cells.
fn for_free_numbers(filter: &[Instruction]) -> Vec<Instruction> {
    let mut whole = vec![
        step(0x20, 0),
        Instruction {
            yes: 1,
            ..step(0x35, FREE_NUMBERS.start as u32)
        },
        step(0x06, super::ALLOW),
        Instruction {
            no: 1,
            ..step(0x35, FREE_NUMBERS.end as u32)
        },
        step(0x06, super::ALLOW),
        step(0x00, 0),
    ];
    whole.extend_from_slice(filter);
    whole
}

#[test]
fn random_filters_as_in_the_kernel() {
    // SAFETY: asks.
    if unsafe { libc::prctl(libc::PR_GET_SECCOMP) } != 0 {
        println!("skipped: this process is under a filter already");
        return;
    }
    let mut random = Random(0x1234_5678_9abc_def1);
    let (mut accepted, mut answered) = (0, 0);
    for round in 0..ROUNDS {
        // Half of them are left as they are, to see what is refused.
        let filter = for_free_numbers(&filter(&mut random));
        let calls = calls(&mut random);
        let here = ask_here(&filter, &calls);
        let kernel = ask_kernel(&filter, &calls);
        // The instruction pointer is the child's: results that depend on it are not compared.
        let blind = Program::check(&filter).is_none_or(|it| !it.looks_at_instruction_pointer());
        assert_eq!(here.accepted, kernel.accepted, "round {round}: {filter:?}");
        if blind {
            assert_eq!(here, kernel, "round {round}: {filter:?}");
            answered += kernel.results.len();
        }
        accepted += usize::from(kernel.accepted);
    }
    println!("{accepted} of {ROUNDS} filters accepted, {answered} results");
    assert!(accepted > ROUNDS / 10 && accepted < ROUNDS && answered > ROUNDS / 2);
}
