mod corpus;

use std::collections::BTreeSet;

use super::effect::Effect;
use super::*;
use crate::call_frame_information::Entries;
use crate::recipe::{Cfa, Rule};
use crate::registers::{CALLEE_SAVED, RETURN_ADDRESS};
use crate::section::Section;
use object::{Object, ObjectSection, ObjectSymbol};
use state::Value;

fn section<'a>(file: &object::File<'a>, name: &str) -> Option<Section<'a>> {
    let section = file.section_by_name(name)?;
    Some(Section {
        address: section.address(),
        bytes: section.data().ok()?,
    })
}

/// What `DW_OP_breg offset; DW_OP_deref; DW_OP_plus_uconst plus` says, which compilers write where
/// the stack pointer was aligned.
fn pointer(bytes: &[u8]) -> Option<(u8, i32, i32)> {
    let (&operation, mut rest) = bytes.split_first()?;
    let number = operation.checked_sub(0x70).filter(|number| *number < 16)?;
    let mut offset = 0_i32;
    let mut shift = 0;
    loop {
        let (&byte, behind) = rest.split_first()?;
        rest = behind;
        offset |= i32::from(byte & 0x7f) << shift;
        shift += 7;
        if byte & 0x80 == 0 {
            offset = offset << (32 - shift) >> (32 - shift);
            break;
        }
    }
    match *rest {
        [0x06] => Some((number, offset, 0)),
        [0x06, 0x23, plus] => Some((number, offset, i32::from(plus))),
        [0x06, 0x23, low, high] => {
            Some((number, offset, i32::from(low & 0x7f) | i32::from(high) << 7))
        }
        _ => None,
    }
}

/// Whether the state gives the canonical frame address that the compiler gives.
fn same_frame(state: &State, recipe: &Recipe, frames: Section<'_>) -> bool {
    match recipe.cfa {
        Cfa::Register { number, offset } => state.get(number) == Value::Cfa(-offset),
        Cfa::Expression { at, length } => {
            let bytes = &frames.bytes[at as usize..][..usize::from(length)];
            pointer(bytes).is_some_and(|(number, offset, plus)| {
                match (state.cfa_at(), state.get(number)) {
                    (Some(known), Value::Aligned(base)) => {
                        known.at == Value::Aligned(base + offset) && known.plus == plus
                    }
                    _ => false,
                }
            })
        }
        Cfa::AtRegister { .. } => unreachable!("call-frame information has no such rule"),
    }
}

/// Whether the state finds a register's value in the caller where the compiler finds it. Both are
/// right while it is saved and still in the register.
fn same_register(state: &State, recipe: &Recipe, number: u8) -> bool {
    let saved = state.saved(number);
    match recipe.rules[usize::from(number)] {
        Rule::Same => {
            state.get(number) == Value::Entry(number) || saved.is_none_or(|saved| saved.is_restored)
        }
        Rule::AtCfa(offset) => saved.is_some_and(|saved| saved.at == Value::Cfa(offset)),
        Rule::AtExpression { .. } => {
            saved.is_some_and(|saved| matches!(saved.at, Value::Aligned(_)))
        }
        _ => false,
    }
}

/// How many instructions were compared, and of how many the analysis says what the compiler says.
#[derive(Debug, Default, Clone, Copy)]
struct Agreement {
    instructions: u64,
    frame: u64,
    registers: u64,
}

impl Agreement {
    fn add(&mut self, frame: bool, registers: bool) {
        self.instructions += 1;
        self.frame += u64::from(frame);
        self.registers += u64::from(registers);
    }

    /// In parts of 100,000.
    fn share(&self, part: u64) -> u64 {
        100_000 * part / self.instructions
    }
}

/// A function that disagrees, for whoever wants to see it.
struct Wrong {
    instructions: u64,
    first: String,
}

/// Compares all functions of a file. Parts of functions that lie elsewhere are left out: what holds
/// where they begin cannot be told from their instructions. `disturb` changes the state first.
fn compare(path: &str, disturb: fn(&mut State)) -> (Agreement, Vec<Wrong>) {
    let data = std::fs::read(path).unwrap();
    let file = object::File::parse(&*data).unwrap();
    let frames = section(&file, ".eh_frame").unwrap();
    let code = section(&file, ".text").unwrap();
    // Some begin as if they were called, and go on in the middle.
    let is_part =
        |symbol: &object::Symbol<'_, '_>| symbol.name().is_ok_and(|name| name.contains(".cold"));
    let parts = file.symbols().filter(is_part);
    let parts: BTreeSet<u64> = parts.map(|symbol| symbol.address()).collect();
    let mut analysis = Analysis::default();
    let mut all = Agreement::default();
    let mut wrong = Vec::new();
    for entry in Entries::new(frames) {
        if entry.code.start < code.address || entry.code.end > code.end() {
            continue;
        }
        let function = FunctionCode {
            code: &ImageCode::Bytes(code),
            range: entry.code.clone(),
        };
        let at_entry = entry.recipe(frames, entry.code.start).unwrap();
        if at_entry.cfa != Recipe::at_entry().cfa || parts.contains(&entry.code.start) {
            continue;
        }
        let mut here = Wrong {
            instructions: 0,
            first: String::new(),
        };
        analysis.settle(&function);
        analysis.pass(&function, &mut |address, _, state| {
            let (instruction, _) = function.code.instruction(address).unwrap();
            // Padding is not executed, and what is said of it means nothing.
            if is_padding(&instruction) {
                return true;
            }
            let mut state = *state;
            disturb(&mut state);
            let recipe = entry.recipe(frames, address).unwrap();
            // A function that nobody has called has no frame to find.
            if recipe.rules[usize::from(RETURN_ADDRESS)] == Rule::Undefined {
                return true;
            }
            let frame = same_frame(&state, &recipe, frames);
            let mut saved = CALLEE_SAVED.iter();
            let registers = saved.all(|number| same_register(&state, &recipe, *number));
            all.add(frame, registers);
            if !(frame && registers) {
                here.instructions += 1;
                if here.instructions == 1 {
                    here.first = format!("{address:#x}: {recipe:?}\n  {state:?}");
                }
            }
            true
        });
        if here.instructions > 0 {
            wrong.push(here);
        }
    }
    (all, wrong)
}

/// The files to compare, and in how many of 100,000 instructions frame and saved registers agree at
/// least. glibc has functions in assembly whose information is not complete, and LLVM leaves out
/// `add rsp` where it has merged the ends of functions.
fn files() -> Vec<(String, u64, u64)> {
    if let Ok(files) = std::env::var("UNSPOOL_UNWIND_FILES") {
        return files.split(':').map(|path| (path.into(), 0, 0)).collect();
    }
    let own = std::env::current_exe().unwrap();
    let mut files = vec![
        ("/lib/x86_64-linux-gnu/libc.so.6".into(), 99_900, 99_900),
        ("/bin/bash".into(), 99_950, 99_950),
        (own.to_str().unwrap().into(), 99_900, 99_900),
    ];
    // OpenSSL's assembly moves the stack pointer within loops, and some of its own information is wrong.
    let others = [
        ("/usr/bin/python3.11", 99_900, 99_900),
        ("/usr/lib/x86_64-linux-gnu/libcrypto.so.3", 98_800, 99_500),
        ("/usr/lib/x86_64-linux-gnu/libgfortran.so.5", 99_900, 99_900),
    ];
    let is_there = others
        .iter()
        .filter(|it| std::fs::exists(it.0).is_ok_and(|it| it));
    files.extend(is_there.map(|&(path, frame, registers)| (path.into(), frame, registers)));
    files
}

/// `UNSPOOL_UNWIND_FILES` names other files, with colons between; the worst functions are shown.
#[test]
fn agrees_with_the_compiler() {
    for (path, frame, registers) in files() {
        let (all, mut wrong) = compare(&path, |_| {});
        println!(
            "{path}: {} instructions, frame {} and registers {} of 100,000",
            all.instructions,
            all.share(all.frame),
            all.share(all.registers)
        );
        wrong.sort_by_key(|function| std::cmp::Reverse(function.instructions));
        for function in wrong.iter().take(5) {
            println!("{} {}", function.instructions, function.first);
        }
        assert!(all.instructions > 20_000, "{path}");
        assert!(all.share(all.frame) >= frame, "{path}: {all:?}");
        assert!(all.share(all.registers) >= registers, "{path}: {all:?}");
    }
}

/// The recipe for the instruction at an offset of some code, which is a function.
fn recipe_in(code: &[u8], offset: u64) -> Option<Recipe> {
    let code = ImageCode::Bytes(Section {
        address: 0x1000,
        bytes: code,
    });
    let function = FunctionCode {
        code: &code,
        range: code.range(),
    };
    Analysis::default().recipe(&function, 0x1000 + offset)
}

/// As `_start`, `clone` and `clone3` do it; a function that has kept the frame pointer before, or was called
/// on this stack, has a caller.
#[test]
fn who_marks_the_outermost_frame_has_no_caller() {
    let is_outermost = |code: &[u8], offset| recipe_in(code, offset) == Some(Recipe::OUTERMOST);
    // xor ebp, ebp; and rsp, -16; mov rdi, r8; call rdx; mov rdi, rax
    let clone3 = [
        0x31, 0xed, 0x48, 0x83, 0xe4, 0xf0, 0x4c, 0x89, 0xc7, 0xff, 0xd2, 0x48, 0x89, 0xc7,
    ];
    assert!(is_outermost(&clone3, 10));
    // xor ebp, ebp; pop rax; pop rdi; call rax; hlt
    let clone = [0x31, 0xed, 0x58, 0x5f, 0xff, 0xd0, 0xf4];
    assert!(is_outermost(&clone, 4));
    // push rbp; xor ebp, ebp; and rsp, -16; call rdx; hlt
    let kept = [0x55, 0x31, 0xed, 0x48, 0x83, 0xe4, 0xf0, 0xff, 0xd2, 0xf4];
    assert!(!is_outermost(&kept, 7));
    // sub rsp, 8; xor ebp, ebp; call rdx; hlt
    let called = [0x48, 0x83, 0xec, 8, 0x31, 0xed, 0xff, 0xd2, 0xf4];
    assert!(!is_outermost(&called, 6));
    // xor ebx, ebx; and rsp, -16; call rdx; hlt
    let other = [0x31, 0xdb, 0x48, 0x83, 0xe4, 0xf0, 0xff, 0xd2, 0xf4];
    assert!(!is_outermost(&other, 6));
}

#[test]
fn a_disturbed_analysis_does_not_agree() {
    let path = "/bin/bash";
    let (all, _) = compare(path, |state| state.apply(Effect::Push(None)));
    assert!(all.share(all.frame) < 5_000, "{all:?}");
    let (all, _) = compare(path, |state| *state = State::at_entry());
    assert!(all.share(all.frame) < 50_000, "{all:?}");
}

/// Code that nobody has compiled: the analysis ends, and says something or nothing.
#[test]
fn random_code_is_no_panic() {
    let mut seed = 7_u64;
    let mut random = || {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (seed >> 56) as u8
    };
    // Instructions that move the stack by much, again and again, between what is random.
    let deep = [0x48, 0x81, 0xec, 0xff, 0xff, 0xff, 0x7f, 0x54, 0x5c];
    let mut found = 0;
    for round in 0..500 {
        let bytes: Vec<u8> = match round % 3 {
            0 => deep.repeat(23),
            _ => (0..200)
                .flat_map(|_| [random(), deep[usize::from(random()) % deep.len()]])
                .collect(),
        };
        let code = ImageCode::Bytes(Section {
            address: u64::MAX - 300,
            bytes: &bytes[..200],
        });
        let function = FunctionCode {
            range: code.range(),
            code: &code,
        };
        let mut analysis = Analysis::with_labels(16);
        found += usize::from(analysis.recipe(&function, u64::MAX - 200).is_some());
    }
    assert!(found > 0);
}
