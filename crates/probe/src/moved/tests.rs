//! Entries that may be changed and those that may not.

use super::*;

const START: u64 = 0x1000;
/// Where a function is in the code that tests are given: there is something before it.
const FUNCTION: u64 = START + 0x40;

/// Code that does nothing, with a function of these bytes in it.
fn code(function: &[u8]) -> Vec<u8> {
    let mut code = vec![0x90; 0x200];
    // What is before a function does not go on into it.
    code[0x3f] = 0xc3;
    code[0x40..0x40 + function.len()].copy_from_slice(function);
    code
}

fn surveyed(code: CodeBytes<'_>, start: u64, end: u64) -> Result<DisplacedEntry, Refusal> {
    survey(code, &FarBranches::new(code), start, end)
}

fn survey_of(function: &[u8]) -> Result<DisplacedEntry, Refusal> {
    let code = code(function);
    let code = CodeBytes {
        start: START,
        bytes: &code,
    };
    surveyed(code, FUNCTION, FUNCTION + function.len() as u64)
}

/// A function's displaced instructions at another place, as text.
fn moved(function: &[u8]) -> Result<(usize, Vec<String>), Refusal> {
    let entry = survey_of(function)?;
    let to = 0x5000;
    let bytes = entry.relocated(to)?;
    let code = CodeBytes {
        start: to,
        bytes: &bytes,
    };
    let short = |one: Instruction| {
        one.to_string()
            .to_lowercase()
            .replace("0x000000000000", "0x")
    };
    let text = code.decode(to).map(short).collect();
    Ok((entry.length, text))
}

fn check(function: &[u8], length: usize, expected: &[&str]) {
    let (found, text) = moved(function).unwrap();
    assert_eq!(
        (found, text),
        (
            length,
            expected.iter().map(|&line| line.to_owned()).collect()
        )
    );
}

#[test]
fn whole_instructions_are_moved_and_the_rest_goes_on() {
    // push rbp; mov rbp, rsp; sub rsp, 16; nop; ret
    let function = [0x55, 0x48, 0x89, 0xe5, 0x48, 0x83, 0xec, 0x10, 0x90, 0xc3];
    check(
        &function,
        8,
        &["push %rbp", "mov %rsp,%rbp", "sub $0x10,%rsp", "jmp 0x1048"],
    );
    // The same behind endbr64, which stays.
    let mut marked = vec![0xf3, 0x0f, 0x1e, 0xfa];
    marked.extend(function);
    let entry = survey_of(&marked).unwrap();
    assert_eq!((entry.at, entry.length), (FUNCTION + 4, 8));
}

#[test]
fn what_depends_on_its_address_is_mended() {
    // mov rax, [rip + 0x100]; ret
    let function = [0x48, 0x8b, 0x05, 0x00, 0x01, 0x00, 0x00, 0xc3];
    let entry = survey_of(&function).unwrap();
    let bytes = entry.relocated(0x5000).unwrap();
    let code = CodeBytes {
        start: 0x5000,
        bytes: &bytes,
    };
    let moved = code.decode(0x5000).next().unwrap();
    assert_eq!(moved.ip_rel_memory_address(), FUNCTION + 7 + 0x100);
    // test edi, edi; je +6; mov eax, 1; ret; ret
    let function = [0x85, 0xff, 0x74, 0x06, 0xb8, 1, 0, 0, 0, 0xc3, 0xc3];
    let expected = ["test %edi,%edi", "je 0x104a", "mov $1,%eax", "jmp 0x1049"];
    check(&function, 9, &expected);
}

#[test]
fn a_moved_call_returns_to_where_it_would() {
    // sub rsp, 8; call +16; add rsp, 8; ret
    let function = [
        0x48, 0x83, 0xec, 0x08, 0xe8, 0x10, 0, 0, 0, 0x48, 0x83, 0xc4, 0x08, 0xc3,
    ];
    check(
        &function,
        9,
        &[
            "sub $8,%rsp",
            "push $0x1049",
            "movl $0,4(%rsp)",
            "jmp 0x1059",
        ],
    );
    // call rax; nop …: its return address would be in what is displaced.
    let function = [0xff, 0xd0, 0x90, 0x90, 0x90, 0x90, 0xc3];
    assert_eq!(survey_of(&function).unwrap_err(), Refusal::Call(FUNCTION));
}

#[test]
fn what_is_shorter_than_a_jump_needs_padding() {
    // mov eax, edi; ret, and nothing until the next multiple of 16.
    check(&[0x89, 0xf8, 0xc3], 5, &["mov %edi,%eax", "ret"]);
    // The same, with another function right behind.
    let mut code = code(&[0x89, 0xf8, 0xc3, 0x89, 0xf0, 0xc3]);
    code[0x46] = 0xc3;
    let code = CodeBytes {
        start: START,
        bytes: &code,
    };
    assert_eq!(
        surveyed(code, FUNCTION, FUNCTION + 3).unwrap_err(),
        Refusal::Short(3)
    );
}

#[test]
fn branches_into_what_is_displaced_are_found() {
    // dec edi; jne -4; ret: a loop to the beginning.
    let function = [0xff, 0xcf, 0x75, 0xfc, 0x89, 0xf8, 0xc3];
    assert_eq!(
        survey_of(&function).unwrap_err(),
        Refusal::BranchBack(FUNCTION + 2)
    );
    // xor eax, eax; add eax, edi; dec edi; jne -6; ret: to the second instruction.
    let function = [0x31, 0xc0, 0x01, 0xf8, 0xff, 0xcf, 0x75, 0xfa, 0xc3];
    assert_eq!(
        survey_of(&function).unwrap_err(),
        Refusal::BranchBack(FUNCTION + 6)
    );
    // The control: the third is behind what is displaced.
    let function = [0x31, 0xc0, 0x01, 0xf8, 0x90, 0xff, 0xcf, 0x75, 0xfc, 0xc3];
    assert_eq!(survey_of(&function).unwrap().length, 5);
    // A call of itself is a call.
    let function = [
        0x31, 0xc0, 0x01, 0xf8, 0x90, 0xe8, 0xf6, 0xff, 0xff, 0xff, 0xc3,
    ];
    assert_eq!(survey_of(&function).unwrap().length, 5);
}

/// push rbp; mov rbp, rsp; sub rsp, 16; ret
const USUAL: [u8; 9] = [0x55, 0x48, 0x89, 0xe5, 0x48, 0x83, 0xec, 0x10, 0xc3];

#[test]
fn branches_of_neighbours_are_found() {
    for (target, is_refused) in [
        (FUNCTION, false),
        (FUNCTION + 1, true),
        (FUNCTION + 8, false),
    ] {
        for at in [START + 0x20, FUNCTION + 0x30] {
            let mut code = code(&USUAL);
            let index = (at - START) as usize;
            let distance = target.wrapping_sub(at + 2) as u8;
            code[index..index + 3].copy_from_slice(&[0xeb, distance, 0xc3]);
            let code = CodeBytes {
                start: START,
                bytes: &code,
            };
            let refusal = surveyed(code, FUNCTION, FUNCTION + USUAL.len() as u64).err();
            assert_eq!(refusal, is_refused.then_some(Refusal::BranchInto(at)));
        }
    }
}

#[test]
fn branches_from_afar_are_found() {
    let entry = survey_of(&USUAL).unwrap();
    for (opcode, target, is_refused) in [
        (&[0xe9][..], FUNCTION + 4, true),
        (&[0x0f, 0x84], FUNCTION + 4, true),
        (&[0xe8], FUNCTION + 1, true),
        (&[0xe8], FUNCTION, false),
        (&[0xe9], FUNCTION + 8, false),
        (&[0x05], FUNCTION + 4, false),
    ] {
        let mut code = code(&USUAL);
        let at = START + 0x1a0;
        let next = at + opcode.len() as u64 + 4;
        let mut branch = opcode.to_vec();
        branch.extend((target.wrapping_sub(next) as u32).to_le_bytes());
        code[0x1a0..0x1a0 + branch.len()].copy_from_slice(&branch);
        let code = CodeBytes {
            start: START,
            bytes: &code,
        };
        let found = FarBranches::new(code).find(&entry.boundaries());
        assert_eq!(found, is_refused.then_some(at));
    }
}

#[test]
fn what_is_no_code_is_refused() {
    // An opcode that there is not in 64-bit code.
    assert_eq!(
        survey_of(&[0x06, 0x90, 0x90, 0x90, 0x90, 0xc3]).unwrap_err(),
        Refusal::Undecodable(FUNCTION)
    );
    let bytes = code(&USUAL);
    let code = CodeBytes {
        start: START,
        bytes: &bytes,
    };
    assert_eq!(surveyed(code, 0x10, 0x20).unwrap_err(), Refusal::Outside);
    assert_eq!(
        surveyed(code, FUNCTION, FUNCTION).unwrap_err(),
        Refusal::Outside
    );
}

#[test]
fn callers_rely_only_on_what_a_compiler_can_know() {
    use crate::branches::callers_may_rely;
    let rely = |function: &[u8]| {
        let bytes = code(function);
        callers_may_rely(
            CodeBytes {
                start: START,
                bytes: &bytes,
            },
            FUNCTION,
        )
    };
    // mov eax, edi; ret
    assert!(rely(&[0x89, 0xf8, 0xc3]));
    // call rax; ret
    assert!(!rely(&[0xff, 0xd0, 0xc3]));
    // call +1; ret; jmp [rip + 0]: by the table of another library's addresses.
    assert!(!rely(&[0xe8, 1, 0, 0, 0, 0xc3, 0xff, 0x25, 0, 0, 0, 0]));
    // call +1; ret; jmp rax: a table of cases, perhaps.
    assert!(rely(&[0xe8, 1, 0, 0, 0, 0xc3, 0xff, 0xe0]));
}
