//! Functions made of bytes, changed and called.

use std::sync::atomic::{AtomicU64, Ordering};

use super::*;
use crate::function::{Original, Replacement, Wrapper};
use crate::image::Image;
use crate::inside;
use crate::probe::Probe;

type One = extern "C" fn(u64) -> u64;
type Six = extern "C" fn(u64, u64, u64, u64, u64, u64) -> u64;
type Floating = extern "C" fn(f64, u64, f64) -> f64;

#[derive(Default)]
struct Kept {
    calls: Counter,
}

impl Probe for Kept {
    fn image_load(&self, _: &Image<Self>) {}
}

fn entry_of<S: crate::Signature, F: Wrapper<Kept, S>>(_: F) -> EntryPoint {
    F::wrapper()
}

fn in_place<S: crate::Signature, F: Replacement<Kept, S>>(_: F) -> EntryPoint {
    F::replacement()
}

/// Executable memory that begins with these bytes.
fn code(function: &[u8]) -> CodeBytes<'static> {
    const PAGE: usize = 4096;
    // SAFETY: new memory, which stays.
    unsafe {
        let (anonymous, writable) = (
            libc::MAP_PRIVATE | libc::MAP_ANONYMOUS,
            libc::PROT_READ | libc::PROT_WRITE,
        );
        let start = libc::mmap(std::ptr::null_mut(), PAGE, writable, anonymous, -1, 0);
        assert_ne!(start, libc::MAP_FAILED);
        let bytes = std::slice::from_raw_parts_mut(start.cast::<u8>(), PAGE);
        bytes.fill(0xcc);
        bytes[..function.len()].copy_from_slice(function);
        let executable = libc::PROT_READ | libc::PROT_EXEC;
        assert_eq!(libc::mprotect(start, PAGE, executable), 0);
        CodeBytes {
            start: start as u64,
            bytes: std::slice::from_raw_parts(start.cast::<u8>(), PAGE),
        }
    }
}

/// Has a function of bytes changed.
fn changed(function: &[u8], change: impl Fn(&mut Patch<'_>, u64, u64) -> Done) -> u64 {
    inside::find();
    let code = code(function);
    let mut patch = Patch::new(code.start..code.start + 4096, vec![code]);
    change(&mut patch, code.start, code.start + function.len() as u64);
    assert!(patch.apply().is_empty());
    code.start
}

/// lea rax, [rdi + 1]; nop; ret: what its callers may rely on is everything.
const ADDS_ONE: [u8; 6] = [0x48, 0x8d, 0x47, 0x01, 0x90, 0xc3];

#[test]
fn a_function_is_wrapped_replaced_and_counted() {
    let kept: &'static Kept = Box::leak(Box::default());
    let probe = std::ptr::from_ref(kept).cast();
    let counter: &'static Counter = Box::leak(Box::default());
    let wrapper = entry_of::<One, _>(|kept: &Kept, original: &mut Original<One>, number| {
        kept.calls.add(1);
        original.call(number * 2) + 100
    });
    let start = changed(&ADDS_ONE, |patch, start, end| {
        let done = patch.hook(start, end, &wrapper, probe).unwrap();
        assert!(done.keeps_all);
        patch.count(start, end, counter).unwrap()
    });
    // SAFETY: the function has this type.
    let function: One = unsafe { std::mem::transmute(start) };
    assert_eq!((function(3), function(4)), (107, 109));
    assert_eq!((kept.calls.total(), counter.total()), (2, 2));

    let replacement = in_place::<One, _>(|_: &Kept, number| number + 7);
    let start = changed(&ADDS_ONE, |patch, start, end| {
        patch.hook(start, end, &replacement, probe).unwrap()
    });
    // SAFETY: as above.
    let function: One = unsafe { std::mem::transmute(start) };
    assert_eq!(function(3), 10);
}

#[test]
fn arguments_of_all_kinds_are_passed_on() {
    let kept: &'static Kept = Box::leak(Box::default());
    let probe = std::ptr::from_ref(kept).cast();
    let six = entry_of::<Six, _>(|_: &Kept, original: &mut Original<Six>, a, b, c, d, e, f| {
        assert_eq!((a, b, c, d, e, f), (1, 2, 3, 4, 5, 6));
        original.call(f, e, d, c, b, a)
    });
    // lea rax, [rdi + 2 * rsi]; lea rax, [rax + 4 * rdx]; add rax, r9; ret
    let code = [
        0x48, 0x8d, 0x04, 0x77, 0x48, 0x8d, 0x04, 0x90, 0x4c, 0x01, 0xc8, 0xc3,
    ];
    let start = changed(&code, |patch, start, end| {
        patch.hook(start, end, &six, probe).unwrap()
    });
    // SAFETY: the function has this type.
    let function: Six = unsafe { std::mem::transmute(start) };
    assert_eq!(function(1, 2, 3, 4, 5, 6), 6 + 2 * 5 + 4 * 4 + 1);

    let floating = entry_of::<Floating, _>(
        |_: &Kept, original: &mut Original<Floating>, a: f64, b: u64, c: f64| {
            assert_eq!((a, b, c), (1.5, 7, 0.25));
            original.call(c, b, a) * 2.0
        },
    );
    // subsd xmm0, xmm1; nop; ret
    let code = [0xf2, 0x0f, 0x5c, 0xc1, 0x90, 0xc3];
    let start = changed(&code, |patch, start, end| {
        patch.hook(start, end, &floating, probe).unwrap()
    });
    // SAFETY: as above.
    let function: Floating = unsafe { std::mem::transmute(start) };
    assert_eq!(function(1.5, 7, 0.25), (0.25 - 1.5) * 2.0);
}

/// What a probe's function calls is its own.
#[test]
fn a_function_of_the_probe_is_not_entered_twice() {
    static START: AtomicU64 = AtomicU64::new(0);
    fn function() -> One {
        // SAFETY: the function has this type.
        unsafe { std::mem::transmute(START.load(Ordering::SeqCst)) }
    }
    let kept: &'static Kept = Box::leak(Box::default());
    let probe = std::ptr::from_ref(kept).cast();
    let wrapper = entry_of::<One, _>(|kept: &Kept, original: &mut Original<One>, number| {
        kept.calls.add(1);
        function()(number) + original.call(number)
    });
    let start = changed(&ADDS_ONE, |patch, start, end| {
        patch.hook(start, end, &wrapper, probe).unwrap()
    });
    START.store(start, Ordering::SeqCst);
    assert_eq!(function()(5), 12);
    assert_eq!(kept.calls.total(), 1);
    // Another thread's call is another one.
    let other = std::thread::spawn(|| function()(6)).join().unwrap();
    assert_eq!((other, kept.calls.total()), (14, 2));
}
