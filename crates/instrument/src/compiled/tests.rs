//! What is found out about functions that are known.

use super::{BodyInstruction, Compiled, Renaming};

extern "C" fn adds(left: u64, right: &mut u64) -> u64 {
    *right += left;
    *right
}

extern "C" fn copies(from: &[u8; 32], to: &mut [u8; 32]) {
    *to = *from;
}

extern "C" fn multiplies(left: f64, right: f64) -> f64 {
    left * right
}

extern "C" fn may_panic(table: &[u64; 16], index: usize) -> u64 {
    table[index]
}

#[inline(never)]
extern "C" fn calls(left: u64, right: &mut u64) -> u64 {
    std::hint::black_box(adds as extern "C" fn(u64, &mut u64) -> u64)(left, right)
}

#[inline(never)]
fn square(number: u64) -> u64 {
    std::hint::black_box(number) * number
}

extern "C" fn calls_directly(number: u64) -> u64 {
    square(number) + square(number + 1)
}

extern "C" fn loops(numbers: &[u32; 1000]) -> u32 {
    numbers.iter().fold(0, |sum, it| sum.rotate_left(3) ^ it)
}

fn examined(function: *const ()) -> Option<Compiled> {
    Compiled::examine(function as u64)
}

#[test]
fn a_simple_function_changes_little_and_can_be_copied() {
    let found = examined(adds as *const ()).unwrap();
    assert!(found.flags, "{found:?}");
    assert_eq!(found.vectors, 0);
    assert_ne!(found.changes & 1, 0, "its result is in rax");
    assert_ne!(found.reads & 1 << 7, 0, "it reads rdi");
    assert_eq!(found.changes & (1 << 3 | 1 << 5), 0, "rbx and rbp are kept");
    if !cfg!(debug_assertions) {
        assert_eq!(found.changes & !(1 | 1 << 7), 0, "{found:?}");
        let body = found.body.expect("it is short");
        assert!(!body.uses_stack && body.steps.len() < 8, "{body:?}");
    }
}

#[test]
fn low_halves_of_vector_registers_are_seen() {
    let found = examined(copies as *const ()).unwrap();
    assert!(found.vectors != 0 || cfg!(debug_assertions), "{found:?}");
}

#[test]
fn arithmetic_and_what_cannot_be_followed_may_change_anything() {
    assert!(examined(multiplies as *const ()).is_none());
    assert!(examined(calls as *const ()).is_none());
    // Not code at all.
    static NUMBER: u64 = 0;
    assert!(examined((&raw const NUMBER).cast()).is_none());
}

#[test]
fn direct_calls_are_followed_and_loops_are_not_copied() {
    let found = examined(calls_directly as *const ()).unwrap();
    assert!(found.body.is_none());
    let found = examined(loops as *const ()).unwrap();
    assert!(found.body.is_none());
}

extern "C" fn allocates(counts: &mut Vec<u64>, number: u64) {
    match counts.last_mut() {
        Some(last) => *last += number,
        None => counts.push(number),
    }
}

extern "C" fn allocates_rarely(counts: &mut Vec<u64>, number: u64) {
    match counts.last_mut() {
        Some(last) => *last += number,
        None => crate::rarely(|| counts.push(number)),
    }
}

#[test]
fn a_way_that_is_rarely_gone_and_keeps_all_hides_nothing_else() {
    assert!(examined(allocates as *const ()).is_none());
    let found = examined(allocates_rarely as *const ()).expect("the allocator is called rarely");
    assert!(found.flags && found.body.is_none(), "{found:?}");
    assert_eq!(found.changes, super::VOLATILE);
    assert_eq!(found.vectors & !1, 0, "{found:?}");
}

#[test]
fn a_way_that_panics_changes_nothing() {
    let found = examined(may_panic as *const ()).expect("a panic ends the way");
    if let Some(body) = found.body {
        let fails = body
            .steps
            .iter()
            .any(|step| matches!(step, BodyInstruction::Fail(_)));
        assert!(fails, "{body:?}");
    }
}

/// A function of instructions, as its steps.
fn steps(code: &[u8]) -> Vec<BodyInstruction> {
    let mut decoder = iced_x86::Decoder::with_ip(64, code, 0, iced_x86::DecoderOptions::NONE);
    let instructions: Vec<_> = decoder.iter().collect();
    let bytes = |it: &iced_x86::Instruction| code[it.ip() as usize..it.next_ip() as usize].to_vec();
    instructions
        .iter()
        .map(|it| BodyInstruction::Plain(bytes(it), *it))
        .collect()
}

#[test]
fn what_only_the_result_is_made_by_is_left_out() {
    let add = [0x48, 0xff, 0x06]; // inc qword [rsi]
    let result = [0x31, 0xc0]; // xor eax, eax
    let load = [0x48, 0x8b, 0x07]; // mov rax, [rdi], which may fault
    let half = [0xb0, 0x01]; // mov al, 1
    let fence = [0x0f, 0xae, 0xf0]; // mfence
    let used = [0x48, 0x89, 0xc1, 0x48, 0x89, 0x0e]; // mov rcx, rax; mov [rsi], rcx
    let left = |code: &[&[u8]]| {
        let body = super::Body::new(steps(&code.concat()), false);
        body.without_result().steps
    };
    assert_eq!(left(&[&add, &result]), steps(&add));
    assert_eq!(left(&[&result, &half]), []);
    assert_eq!(left(&[&load, &half]).len(), 1, "a fault is an effect");
    assert_eq!(left(&[&fence]), steps(&fence));
    let all = [&result[..], &half, &used].concat();
    assert_eq!(left(&[&all]), steps(&all), "it is stored");
}

#[test]
fn a_branch_over_what_is_left_out_goes_too() {
    let mut all = steps(&[0x48, 0x85, 0xff, 0xb8, 1, 0, 0, 0, 0xff, 0x06]); // test; mov; inc [rsi]
    all.insert(1, BodyInstruction::Branch(Some(4), 3));
    let body = super::Body::new(all, false).without_result();
    assert_eq!(body.steps, steps(&[0xff, 0x06]));
    assert!(body.changes_flags);
    // The control: what it leads over is needed.
    let mut all = steps(&[0x48, 0x85, 0xff, 0xff, 0x06, 0xff, 0x06]);
    all.insert(1, BodyInstruction::Branch(Some(4), 3));
    let body = super::Body::new(all.clone(), false).without_result();
    assert_eq!(body.steps, all);
}

#[test]
fn other_registers_stand_for_those_that_instructions_name() {
    let registers = |code: &[u8]| super::Body::new(steps(code), false).registers;
    let renamed = |code: &[u8], from, to| {
        let mut renaming = Renaming::default();
        renaming.set(from, to);
        let BodyInstruction::Plain(_, instruction) = &steps(code)[0] else {
            unreachable!("all steps are plain");
        };
        renaming.apply(instruction)
    };
    let bytes = |code: &[u8]| Some(code.to_vec());
    // add [rsi+rdi*4+8], rax
    let add = [0x48, 0x01, 0x44, 0xbe, 0x08];
    assert_eq!(registers(&add).used, 1 << 0 | 1 << 6 | 1 << 7);
    assert_eq!((registers(&add).written, registers(&add).fixed), (0, 0));
    assert_eq!(renamed(&add, 0, 9), bytes(&[0x4c, 0x01, 0x4c, 0xbe, 0x08]));
    assert_eq!(renamed(&add, 6, 9), bytes(&[0x49, 0x01, 0x44, 0xb9, 0x08]));
    assert_eq!(renamed(&add, 7, 9), bytes(&[0x4a, 0x01, 0x44, 0x8e, 0x08]));
    // and al, 1: a longer form for another register
    assert_eq!(registers(&[0x24, 0x01]).fixed, 0);
    assert_eq!(
        renamed(&[0x24, 0x01], 0, 6),
        bytes(&[0x40, 0x80, 0xe6, 0x01])
    );
    // shl rax, cl: only cl counts
    let shift = [0x48, 0xd3, 0xe0];
    assert_eq!(registers(&shift).fixed, 1 << 1);
    assert_eq!(renamed(&shift, 1, 9), None);
    assert_eq!(renamed(&shift, 0, 9), bytes(&[0x49, 0xd3, 0xe1]));
    // mul rsi: rax and rdx are not named
    assert_eq!(registers(&[0x48, 0xf7, 0xe6]).fixed, 1 << 0 | 1 << 2);
    // mov ah, cl: beside ah no prefix may be
    assert_eq!(registers(&[0x88, 0xcc]).fixed, 1 << 0 | 1 << 1);
}

extern "C" fn reads_memory(address: u64) -> u64 {
    let mut bytes = [0; 24];
    crate::read_memory(address, &mut bytes) as u64 + u64::from(bytes[23])
}

extern "C" fn reads_much_memory(address: u64, length: usize) -> u64 {
    let mut bytes = [0; 200];
    crate::read_memory(address, &mut bytes[..length.min(200)]) as u64 + u64::from(bytes[23])
}

#[test]
fn guarded_reads_are_followed() {
    for function in [reads_memory as *const (), reads_much_memory as *const ()] {
        assert!(examined(function).is_some() || cfg!(debug_assertions));
    }
}
