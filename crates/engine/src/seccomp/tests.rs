//! Filters as data; the kernel's own answers are in `tests/kernel.rs`.

mod kernel;

use super::ARCHITECTURE;
use super::always::AlwaysAllowed;
use super::chain::{Filter, InKernel, Rule};
use super::kernel_copy::{ENGINE_FROM, kernel_copy};
use super::program::{Instruction, Program};
use super::run::{CallData, run};
use super::verdict::{ALLOW, Question, Verdict, is_stronger, meaning};
use std::sync::Arc;

const LOAD: u16 = 0x20;
const JUMP_IF_EQUAL: u16 = 0x15;
const RETURN: u16 = 0x06;
const RETURN_A: u16 = 0x16;

fn step(code: u16, constant: u32) -> Instruction {
    jump(code, constant, 0, 0)
}

fn jump(code: u16, constant: u32, yes: u8, no: u8) -> Instruction {
    Instruction {
        code,
        yes,
        no,
        constant,
    }
}

fn call(number: i32, arguments: [u64; 6]) -> CallData {
    CallData {
        number,
        architecture: ARCHITECTURE,
        instruction_pointer: 0x1234_5678_9abc_def0,
        arguments,
    }
}

/// The result of instructions over a call.
#[track_caller]
fn check(instructions: &[Instruction], expected: u32) {
    let program = Program::check(instructions).expect("the filter is valid");
    let data = call(7, [0x1_0000_0002, 3, 4, 5, 6, u64::MAX]);
    assert_eq!(run(&program, &data), expected);
}

#[test]
fn words_of_a_call() {
    for (offset, expected) in [
        (0, 7),
        (4, ARCHITECTURE),
        (8, 0x9abc_def0),
        (12, 0x1234_5678),
        (16, 2),
        (20, 1),
        (24, 3),
        (60, u32::MAX),
    ] {
        check(&[step(LOAD, offset), step(RETURN_A, 0)], expected);
    }
}

#[test]
fn calculations() {
    for (code, constant, expected) in [
        (0x04, 5, 12),
        (0x14, 8, u32::MAX),
        (0x24, 3, 21),
        (0x34, 2, 3),
        (0x44, 8, 15),
        (0x54, 5, 5),
        (0xa4, 1, 6),
        (0x64, 31, 0x8000_0000),
        (0x74, 1, 3),
        (0x84, 0, 7_u32.wrapping_neg()),
    ] {
        let calculation = [step(LOAD, 0), step(code, constant), step(RETURN_A, 0)];
        check(&calculation, expected);
        let set_x = step(0x01, constant);
        let with_x = step(code | 0x08, 0);
        if code != 0x84 {
            check(&[set_x, step(LOAD, 0), with_x, step(RETURN_A, 0)], expected);
        }
    }
    // A division by zero ends the filter, and a distance counts by five bits.
    check(&[step(0x00, 9), step(0x3c, 0), step(RETURN, 5)], 0);
    check(
        &[
            step(0x01, 33),
            step(0x00, 3),
            step(0x6c, 0),
            step(RETURN_A, 0),
        ],
        6,
    );
}

#[test]
fn jumps_and_cells() {
    for (code, constant, taken) in [
        (JUMP_IF_EQUAL, 7, true),
        (JUMP_IF_EQUAL, 8, false),
        (0x25, 6, true),
        (0x25, 7, false),
        (0x35, 7, true),
        (0x35, u32::MAX, false),
        (0x45, 4, true),
        (0x45, 8, false),
    ] {
        let filter = [
            step(LOAD, 0),
            jump(code, constant, 1, 0),
            step(RETURN, 1),
            step(RETURN, 2),
        ];
        check(&filter, if taken { 2 } else { 1 });
    }
    check(
        &[
            step(0x00, 5),
            step(0x02, 15),
            step(0x00, 6),
            step(0x07, 0),
            step(0x03, 14),
            step(0x60, 15),
            step(0x61, 14),
            step(0x0c, 0),
            step(0x05, 1),
            step(RETURN, 0),
            step(RETURN_A, 0),
        ],
        11,
    );
    check(&[step(0x80, 0), step(RETURN_A, 0)], 64);
}

#[test]
fn results_by_their_strength() {
    let from_the_strongest = [
        0x8000_0000,
        0,
        0x0003_0000,
        0x0005_0000,
        0x7fc0_0000,
        0x7ff0_0000,
        0x7ffc_0000,
        ALLOW,
    ];
    for (index, &one) in from_the_strongest.iter().enumerate() {
        for (other_index, &other) in from_the_strongest.iter().enumerate() {
            assert_eq!(is_stronger(one | 9, other | 3), index < other_index);
        }
    }
    for (result, expected) in [
        (0x8000_0001, Verdict::KillProcess),
        (0x0000_0001, Verdict::KillThread(libc::SIGSYS)),
        (0x0001_0000, Verdict::KillProcess),
        (0x7ffe_0000, Verdict::KillProcess),
        (0x0003_1234, Verdict::Trap(0x1234)),
        (0x0005_0000, Verdict::Return(0)),
        (0x0005_0026, Verdict::Return(-38)),
        (0x0005_ffff, Verdict::Return(-4095)),
        (0x7fc0_0000, Verdict::AskKernel(Question::Supervisor)),
        (0x7ff0_0007, Verdict::AskKernel(Question::Tracer)),
        (0x7ffc_0000, Verdict::AskKernel(Question::Log)),
        (0x7fff_1234, Verdict::Allow),
    ] {
        assert_eq!(meaning(result), expected, "{result:#x}");
    }
}

fn forbids(number: u32, result: u32) -> Vec<Instruction> {
    vec![
        step(LOAD, 0),
        jump(JUMP_IF_EQUAL, number, 0, 1),
        step(RETURN, result),
        step(RETURN, ALLOW),
    ]
}

fn filter(instructions: Vec<Instruction>, earlier: Option<Arc<Filter>>) -> Arc<Filter> {
    let program = Program::check(&instructions).expect("the filter is valid");
    let in_kernel = InKernel {
        copy: true,
        listener: false,
    };
    let rule = Rule::Program(instructions.into(), program);
    Arc::new(Filter::new(rule, in_kernel, earlier))
}

#[test]
fn the_strongest_of_several_filters() {
    let first = filter(forbids(39, 0x0005_0001), None);
    let second = filter(forbids(40, 0x0005_0002), Some(Arc::clone(&first)));
    let third = filter(forbids(39, 0x0005_0003), Some(Arc::clone(&second)));
    let fourth = filter(forbids(40, 0x7ffc_0000), Some(Arc::clone(&third)));
    for (judge, number, expected) in [
        (&first, 39, Verdict::Return(-1)),
        (&first, 40, Verdict::Allow),
        (&second, 39, Verdict::Return(-1)),
        (&third, 39, Verdict::Return(-3)),
        (&fourth, 40, Verdict::Return(-2)),
        (&fourth, 41, Verdict::Allow),
        (&fourth, 100_000, Verdict::Allow),
        (&fourth, -1, Verdict::Allow),
    ] {
        assert_eq!(judge.judge(&call(number, [0; 6])), expected);
    }
    assert!(fourth.descends_from(&first) && !first.descends_from(&fourth));
}

#[test]
fn strict_mode() {
    let in_kernel = InKernel {
        copy: false,
        listener: false,
    };
    let strict = Filter::new(Rule::Strict, in_kernel, None);
    for number in -1..600 {
        let allowed = [0, 1, 15, 60].contains(&number);
        let expected = match allowed {
            true => Verdict::Allow,
            false => Verdict::KillThread(libc::SIGKILL),
        };
        assert_eq!(strict.judge(&call(number, [0; 6])), expected);
    }
}

#[test]
fn numbers_that_need_no_run() {
    // 2 is allowed if its first argument is 0, 3 fails; the rest is allowed.
    let program = [
        step(LOAD, 0),
        jump(JUMP_IF_EQUAL, 3, 4, 0),
        jump(JUMP_IF_EQUAL, 2, 0, 2),
        step(LOAD, 16),
        jump(JUMP_IF_EQUAL, 0, 0, 1),
        step(RETURN, ALLOW),
        step(RETURN, 0x0005_0001),
    ];
    let program = Program::check(&program).expect("the filter is valid");
    let always = AlwaysAllowed::ALL.and_by(&program);
    let found: Vec<i32> = (0..8).filter(|&number| !always.has(number)).collect();
    assert_eq!(found, [2, 3]);
    assert!(!always.has(-1) && !always.has(512) && always.has(511));
}

#[test]
fn the_kernels_copy_lets_the_engine_pass() {
    const ELSEWHERE: u32 = 0x4000_0003;
    let forbids_all = [step(0x02, 3), step(RETURN_A, 0)];
    let judged = |looks: bool, architecture, above: u32| {
        let copy = kernel_copy(&forbids_all, looks).expect("it is short");
        let program = Program::check(&copy).expect("the copy is valid");
        let data = CallData {
            architecture,
            instruction_pointer: u64::from(above) << 32 | 0x1234,
            ..call(1, [0; 6])
        };
        run(&program, &data) != ALLOW
    };
    assert!(judged(false, ARCHITECTURE, 0));
    assert!(judged(false, ARCHITECTURE, ENGINE_FROM - 1));
    assert!(!judged(false, ARCHITECTURE, ENGINE_FROM));
    assert!(!judged(false, ARCHITECTURE, 0x7fff));
    assert!(!judged(true, ARCHITECTURE, 0));
    assert!(judged(false, ELSEWHERE, 0x7fff) && judged(true, ELSEWHERE, 0));
    assert!(kernel_copy(&[step(RETURN, 0); 4096], false).is_none());
}
