//! Walks up the stack of the test itself, whose callers are known by construction.

mod own_process;

use std::hint::black_box;

use own_process::{Known, functions, here, images, module, reader};
use unspool_unwind::{Certainty, Failure, Method, Module, RSP, Registers, Step, Unwinder};

/// A caller.
struct Frame {
    pc: u64,
    method: Method,
}

/// What the walk found.
struct Walk {
    frames: Vec<Frame>,
    certainties: Vec<Certainty>,
    end: Result<(), Failure>,
}

#[inline(never)]
fn walk(modules: &[Module<'_>]) -> Walk {
    let mut registers = here();
    let nothing_is_known = modules
        .iter()
        .all(|module| module.header.is_none() && module.functions.is_empty());
    if nothing_is_known {
        // With the frame pointer, functions that keep none would be left out.
        let sp = registers.sp().unwrap();
        registers = Registers::at(registers.pc);
        registers.set(RSP, sp);
    }
    let mut read = reader(registers.sp().unwrap());
    let mut unwinder = Unwinder::new();
    let mut walk = Walk {
        frames: Vec::new(),
        certainties: Vec::new(),
        end: Ok(()),
    };
    for _ in 0..20_000 {
        match unwinder.step(modules, &mut registers, &mut read) {
            Ok(Step::Caller(found)) => {
                let certainty = Unwinder::certainty(modules, found, registers.pc, &mut read);
                walk.certainties.push(certainty);
                walk.frames.push(Frame {
                    pc: registers.pc,
                    method: found.method,
                });
            }
            Ok(Step::Outermost) => break,
            Err(failure) => {
                walk.end = Err(failure);
                break;
            }
        }
    }
    walk
}

/// Calls itself so many times, with more on the stack than a return address, before it walks.
#[inline(never)]
fn recursion(depth: u32, modules: &[Module<'_>]) -> Walk {
    let words = black_box([u64::from(depth); 5]);
    let result = match depth {
        0 => walk(modules),
        _ => recursion(depth - 1, modules),
    };
    black_box(words);
    result
}

thread_local! {
    static MODULES: std::cell::Cell<*const [Module<'static>]> =
        const { std::cell::Cell::new(&[]) };
    static WALK: std::cell::RefCell<Option<Walk>> = const { std::cell::RefCell::new(None) };
}

/// Called by libc's `qsort`, in which it walks.
extern "C" fn compare(one: *const libc_void, other: *const libc_void) -> i32 {
    let _ = (one, other);
    // SAFETY: the modules live as long as `qsort` runs.
    let modules = unsafe { &*MODULES.get() };
    WALK.with_borrow_mut(|found| {
        found
            .get_or_insert_with(|| walk(modules))
            .end
            .is_err()
            .into()
    })
}

#[expect(non_camel_case_types, reason = "C's void")]
type libc_void = std::ffi::c_void;

unsafe extern "C" {
    fn qsort(
        base: *mut libc_void,
        count: usize,
        size: usize,
        compare: extern "C" fn(*const libc_void, *const libc_void) -> i32,
    );
}

fn with_modules<T>(known: Known, run: impl FnOnce(&[Module<'_>]) -> T) -> T {
    let images = images();
    let functions: Vec<Vec<u64>> = images.iter().map(functions).collect();
    let modules = images.iter().zip(&functions);
    let modules: Vec<_> = modules
        .map(|(image, functions)| module(image, functions, known))
        .collect();
    run(&modules)
}

fn within(frame: &Frame, function: usize) -> bool {
    let start = function as u64;
    (start..start + 0x400).contains(&frame.pc)
}

/// Frames of the recursion are those that return to one address, next to each other.
fn recursions(walk: &Walk) -> usize {
    let inside =
        |frame: &&Frame| within(frame, recursion as fn(u32, &[Module<'_>]) -> Walk as usize);
    walk.frames.iter().filter(inside).count()
}

fn check_recursion(known: Known, depth: u32) -> Walk {
    let walk = with_modules(known, |modules| recursion(depth, modules));
    assert_eq!(recursions(&walk), depth as usize + 1, "{:?}", walk.end);
    walk
}

#[test]
fn recursion_by_call_frame_information() {
    let walk = check_recursion(Known::CallFrameInformation, 10_000);
    assert_eq!(walk.end, Ok(()), "up to the thread's beginning");
    let frames = walk.frames.iter();
    assert!(
        frames
            .clone()
            .all(|frame| frame.method == Method::CallFrameInformation)
    );
    let confirmed = |certainty: &&Certainty| **certainty == Certainty::Confirmed;
    assert!(walk.certainties.iter().filter(confirmed).count() > 10_000);
    assert!(!walk.certainties.contains(&Certainty::Wrong));
}

#[test]
fn recursion_by_analysis() {
    let walk = check_recursion(Known::Functions, 1000);
    let analysed = |frame: &&Frame| frame.method == Method::Analysis;
    assert!(walk.frames.iter().filter(analysed).count() > 1000);
}

#[test]
fn recursion_by_a_scan_finds_the_same_and_perhaps_more() {
    let walk = with_modules(Known::Nothing, |modules| recursion(50, modules));
    assert!(recursions(&walk) >= 50, "{}", recursions(&walk));
    assert!(
        walk.frames
            .iter()
            .all(|frame| frame.method != Method::Analysis)
    );
}

#[test]
fn through_a_callback_of_libc() {
    let walk = with_modules(Known::CallFrameInformation, |modules| {
        let mut words = [3_u64, 2, 1];
        // SAFETY: the lifetime ends after `qsort`, which alone looks at the modules.
        let modules: &[Module<'static>] = unsafe { std::mem::transmute(modules) };
        MODULES.set(modules);
        // SAFETY: the array is as long as said.
        unsafe { qsort(words.as_mut_ptr().cast(), 3, 8, compare) };
        MODULES.set(&[]);
        WALK.take().unwrap()
    });
    assert_eq!(walk.end, Ok(()));
    let indirect = |certainty: &&Certainty| **certainty == Certainty::ProbableIndirect;
    assert!(
        walk.certainties
            .iter()
            .any(|certainty| indirect(&certainty))
    );
    assert!(
        !walk.certainties.contains(&Certainty::Wrong),
        "{:?}",
        walk.certainties
    );
}

#[test]
fn a_word_of_the_stack_that_cannot_be_read_is_a_failure() {
    with_modules(Known::CallFrameInformation, |modules| {
        let mut registers = here();
        let stepped = Unwinder::new().step(modules, &mut registers, &mut |_| None);
        assert!(
            matches!(stepped, Err(Failure::Unreadable(_))),
            "{stepped:?}"
        );
    });
}
