//! Through which calls a thread has come to a probed function.

use std::arch::asm;
use std::ops::Range;
use std::sync::OnceLock;

use unspool_unwind::{RBP, RBX, RSP, Registers};

use crate::errno::{errno, set_errno};
use crate::mapped;
use crate::walkers;

/// Where this library's code is, whose frames are left out.
static OWN: OnceLock<Range<u64>> = OnceLock::new();

/// Makes everything that walks need.
///
/// # Safety
/// To be called at the process's start.
pub(crate) unsafe fn prepare() {
    // SAFETY: the caller's.
    unsafe { mapped::look() };
    let here = prepare as *const () as u64;
    let own = mapped::with(|mapped| mapped.image_at(here).map(|(_, range)| range.clone()));
    OWN.get_or_init(|| own.flatten().unwrap_or_default());
    walkers::fill();
}

/// The process is a copy: what other threads were using is lost. `may_walk` if the thread may be in
/// the middle of a walk, in which a handler has forked.
pub(crate) fn forked(may_walk: bool) {
    if OWN.get().is_some() {
        if !may_walk {
            mapped::forked();
        }
        walkers::fill();
    }
}

/// Through which calls the thread has come to the function in whose place, or around which, a
/// function of the probe's is: puts an address in each call, innermost first, into `path`: that of its
/// last byte, one less than the return address. The first is in the function that has called. Where a
/// signal has interrupted a function, it is that of the instruction that is executed next. Returns how
/// many there are: fewer than there is room for if the thread has come through fewer calls, or if
/// nothing tells how a function was called.
///
/// Only for probes that say [`Probe::CALL_PATHS`](crate::Probe::CALL_PATHS).
///
/// Frames are found by the information that compilers leave for exceptions; where there is none, by
/// the frame pointer, else by the next word of the stack to which a call returns. Functions of the
/// probe's are left out. Nothing is allocated or locked, so that functions of an allocator can ask,
/// too; eight threads walk at a time, and others wait for one of them. The stack is read by
/// `process_vm_readv`: in a program whose filter of system calls forbids it there is no path, and one
/// whose filter kills for it must not be asked.
///
/// ```
/// use unspool_probe::{Address, Image, Original, Probe, call_path};
///
/// type Malloc = extern "C" fn(usize) -> Address;
///
/// struct Depths;
///
/// impl Depths {
///     fn malloc(&self, original: &mut Original<Malloc>, size: usize) -> Address {
///         let mut path = [0; 32];
///         let depth = call_path(&mut path);
///         let callers = &path[..depth];
///         original.call(size)
///     }
/// }
///
/// impl Probe for Depths {
///     const CALL_PATHS: bool = true;
///
///     fn image_load(&self, image: &Image<Self>) {
///         image.wrap::<Malloc>("malloc", Depths::malloc);
///     }
/// }
/// ```
///
/// # Panics
/// If the probe does not say that it asks for call paths.
#[inline(never)]
#[track_caller]
pub fn call_path(path: &mut [u64]) -> usize {
    let Some(own) = OWN.get() else {
        panic!("a probe that asks for call paths must say `const CALL_PATHS: bool = true`");
    };
    let before = errno();
    let registers = here();
    let count = mapped::with(|mapped| {
        walkers::with(|walker| walker.walk(mapped, registers, own, path)).unwrap_or(0)
    });
    set_errno(before);
    count.unwrap_or(0)
}

/// The registers that a function gives back as it got them, here.
#[inline(always)]
fn here() -> Registers {
    let mut values = [0_u64; 8];
    // SAFETY: registers are stored into the array; nothing else changes.
    unsafe {
        asm!(
            "lea {pc}, [rip]",
            "mov qword ptr [{to}], {pc}",
            "mov qword ptr [{to} + 8], rsp",
            "mov qword ptr [{to} + 16], rbp",
            "mov qword ptr [{to} + 24], rbx",
            "mov qword ptr [{to} + 32], r12",
            "mov qword ptr [{to} + 40], r13",
            "mov qword ptr [{to} + 48], r14",
            "mov qword ptr [{to} + 56], r15",
            pc = out(reg) _,
            to = in(reg) values.as_mut_ptr(),
            options(nostack, preserves_flags),
        );
    }
    let mut registers = Registers::at(values[0]);
    for (number, value) in [RSP, RBP, RBX, 12, 13, 14, 15]
        .into_iter()
        .zip(&values[1..])
    {
        registers.set(number, *value);
    }
    registers
}
