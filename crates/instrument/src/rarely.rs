//! Code of a tool that is seldom reached, called from a function that keeps little.
//!
//! A call of a tool's function keeps what the function can change, as far as its code can be followed
//! (see [`Compiled`](crate::Compiled)). One way that cannot be followed, to the allocator for instance,
//! makes all calls keep everything. Here that way keeps everything itself.

use std::arch::naked_asm;
use std::cell::Cell;

use unspool_instructions::operands::state_component::{AVX, HI16_ZMM, OPMASK, SSE, ZMM_HI256};

use crate::in_tool::in_tool;

/// The components of the state that compiled code changes and the calling convention does not keep,
/// as in XCR0: vector and mask registers, and MXCSR.
const KEPT: u32 = 1 << SSE | 1 << AVX | 1 << OPMASK | 1 << ZMM_HI256 | 1 << HI16_ZMM;
/// How many bytes they take at most, as in the slots of a thread.
const AREA: u32 = 4096;
/// Where an XSAVE area has its header.
const HEADER: u32 = 512;

thread_local! {
    /// How many such calls the thread is in.
    static DEPTH: Cell<u32> = const { Cell::new(0) };
}

/// Calls a function, and keeps all that the calling convention lets it change, but for general
/// registers and status flags. A function of a tool which does that only on a way that it seldom goes is
/// called as cheaply as if it had no such way.
///
/// What is called so may do what every function of a tool may: allocate, lock, compute with floating-point
/// numbers. Only the original function of a wrapper cannot be called there.
pub fn rarely<R>(function: impl FnOnce() -> R) -> R {
    let mut called = Called {
        function: Some(function),
        result: None,
    };
    // SAFETY: it is what `enter` gets.
    unsafe { call_keeping_all(enter_of(&called), (&raw mut called).cast()) };
    called
        .result
        .expect("a function that panics ends the process")
}

/// A function, until it is called, and what it has returned then.
struct Called<F, R> {
    function: Option<F>,
    result: Option<R>,
}

fn enter_of<F: FnOnce() -> R, R>(_: &Called<F, R>) -> unsafe extern "C" fn(*mut ()) {
    enter::<F, R>
}

/// # Safety
/// It must be a `Called<F, R>`, which nobody else uses.
unsafe extern "C" fn enter<F: FnOnce() -> R, R>(called: *mut ()) {
    // SAFETY: as promised.
    let called = unsafe { &mut *called.cast::<Called<F, R>>() };
    DEPTH.set(DEPTH.get() + 1);
    called.result = called.function.take().map(in_tool);
    DEPTH.set(DEPTH.get() - 1);
}

/// # Panics
/// If the thread is in such a call: what that keeps is what the program has where it goes on.
#[inline]
pub(crate) fn assert_outside() {
    let is_outside = DEPTH.get() == 0;
    assert!(
        is_outside,
        "a wrapper cannot call the original function within `rarely`"
    );
}

/// What does not show to whoever follows the code around it: it changes no vector register, mask register
/// or control word. The function gets these, and the flags, as compiled code expects them.
///
/// # Safety
/// The function must be one for that argument.
#[unsafe(naked)]
pub(crate) unsafe extern "C" fn call_keeping_all(
    function: unsafe extern "C" fn(*mut ()),
    argument: *mut (),
) {
    naked_asm!(
        ".cfi_startproc",
        "push rbp",
        ".cfi_def_cfa_offset 16",
        ".cfi_offset rbp, -16",
        "mov rbp, rsp",
        ".cfi_def_cfa_register rbp",
        "pushfq",
        "push {flags}",
        "popfq",
        "sub rsp, {area}",
        "and rsp, -64",
        "mov r8, rdi",
        "mov rdi, rsi",
        // XSAVE leaves most of its header as it is, and XRSTOR wants it clear.
        "xor eax, eax",
        "mov [rsp + {header}], rax",
        "mov [rsp + {header} + 8], rax",
        "mov [rsp + {header} + 16], rax",
        "mov [rsp + {header} + 24], rax",
        "mov [rsp + {header} + 32], rax",
        "mov [rsp + {header} + 40], rax",
        "mov [rsp + {header} + 48], rax",
        "mov [rsp + {header} + 56], rax",
        "mov eax, {kept}",
        "xor edx, edx",
        "xsave64 [rsp]",
        "push {control}",
        "ldmxcsr [rsp]",
        "pop rax",
        "call r8",
        "mov eax, {kept}",
        "xor edx, edx",
        "xrstor64 [rsp]",
        "lea rsp, [rbp - 8]",
        "popfq",
        "pop rbp",
        ".cfi_def_cfa rsp, 8",
        "ret",
        ".cfi_endproc",
        flags = const 0x202,
        control = const 0x1f80,
        area = const AREA,
        header = const HEADER,
        kept = const KEPT,
    )
}

#[cfg(test)]
mod tests {
    use std::arch::asm;
    use std::sync::atomic::{AtomicU64, Ordering};

    use super::{call_keeping_all, rarely};

    /// Of a vector register and of a mask register.
    const WHOLE: usize = 64;
    const USUAL_CONTROLS: u32 = 0x1f80;
    /// What of it is no exception that has happened.
    const CONTROLS: u32 = 0xffc0;
    /// Results are rounded towards zero.
    const OTHER_CONTROLS: u32 = 0x7f80;

    /// What is in registers that functions may change.
    #[repr(C, align(64))]
    #[derive(Clone, PartialEq, Eq, Debug)]
    struct State {
        vectors: [[u8; WHOLE]; 32],
        masks: [u64; 8],
        controls: u32,
    }

    /// Nothing in it is zero.
    fn filled() -> State {
        let byte = |number: usize| (number % 251) as u8 + 1;
        State {
            vectors: std::array::from_fn(|vector| {
                std::array::from_fn(|number| byte(vector * 7 + number))
            }),
            masks: std::array::from_fn(|mask| 0x0101_0101_0101_0101 * (mask as u64 + 1)),
            controls: OTHER_CONTROLS,
        }
    }

    /// A function that fills registers from a state, calls `call_keeping_all` with the direction flag set, and
    /// puts into the state what is in them then. It returns the flags as they were behind the call.
    macro_rules! around {
        ($name:ident, $load:literal, $store:literal) => {
            fn $name(function: unsafe extern "C" fn(*mut ()), state: &mut State) -> u64 {
                let flags: u64;
                // SAFETY: all that is changed is said to be, or given back, and the caller knows that the
                // processor has these registers. The red zone is left alone.
                unsafe {
                    asm!(
                        "sub rsp, 128",
                        $load,
                        "ldmxcsr [r13 + {controls}]",
                        "std",
                        "call {call}",
                        "pushfq",
                        "cld",
                        "pop r12",
                        $store,
                        "stmxcsr [r13 + {controls}]",
                        "push {usual}",
                        "ldmxcsr [rsp]",
                        "add rsp, 136",
                        call = sym call_keeping_all,
                        controls = const std::mem::offset_of!(State, controls),
                        usual = const USUAL_CONTROLS,
                        in("r13") std::ptr::from_mut(state),
                        in("rdi") function,
                        in("rsi") std::ptr::null_mut::<()>(),
                        out("r12") flags,
                        clobber_abi("C"),
                    );
                }
                flags
            }
        };
    }

    around!(
        narrow,
        ".irp n,0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15
         movups xmm\\n, [r13 + \\n*64]
         .endr",
        ".irp n,0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15
         movups [r13 + \\n*64], xmm\\n
         .endr"
    );
    around!(
        wide,
        ".irp n,0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15
         vmovups ymm\\n, [r13 + \\n*64]
         .endr",
        ".irp n,0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15
         vmovups [r13 + \\n*64], ymm\\n
         .endr
         vzeroupper"
    );
    around!(
        widest,
        ".irp n,0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17,18,19,20,21,22,23,24,25,26,27,28,29,30,31
         vmovups zmm\\n, [r13 + \\n*64]
         .endr
         .irp n,0,1,2,3,4,5,6,7
         kmovq k\\n, [r13 + 2048 + \\n*8]
         .endr",
        ".irp n,0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17,18,19,20,21,22,23,24,25,26,27,28,29,30,31
         vmovups [r13 + \\n*64], zmm\\n
         .endr
         .irp n,0,1,2,3,4,5,6,7
         kmovq [r13 + 2048 + \\n*8], k\\n
         .endr
         vzeroall"
    );

    /// Functions like it with what the processor has.
    fn all_around() -> Vec<fn(unsafe extern "C" fn(*mut ()), &mut State) -> u64> {
        let mut all: Vec<fn(unsafe extern "C" fn(*mut ()), &mut State) -> u64> = vec![narrow];
        if std::arch::is_x86_feature_detected!("avx") {
            all.push(wide);
        }
        if std::arch::is_x86_feature_detected!("avx512bw") {
            all.push(widest);
        }
        all
    }

    static SEEN: AtomicU64 = AtomicU64::new(0);

    /// Notes flags and control word, and leaves nothing as it was.
    unsafe extern "C" fn change_all(_: *mut ()) {
        let mut controls: u32 = 0;
        // SAFETY: what is changed is what functions may change; the processor has the registers.
        unsafe {
            asm!("stmxcsr [{}]", in(reg) &mut controls);
            if std::arch::is_x86_feature_detected!("avx512bw") {
                asm!(
                    "vzeroall",
                    ".irp n,16,17,18,19,20,21,22,23,24,25,26,27,28,29,30,31
                     vpxorq zmm\\n, zmm\\n, zmm\\n
                     .endr
                     .irp n,0,1,2,3,4,5,6,7
                     kxorq k\\n, k\\n, k\\n
                     .endr",
                    clobber_abi("C"),
                );
            } else {
                asm!(
                    ".irp n,0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15
                     xorps xmm\\n, xmm\\n
                     .endr",
                    clobber_abi("C"),
                );
            }
        }
        SEEN.store(u64::from(controls), Ordering::Relaxed);
    }

    #[test]
    fn all_that_functions_may_change_is_kept() {
        const DIRECTION: u64 = 0x400;
        for around in all_around() {
            let mut state = filled();
            let flags = around(change_all, &mut state);
            assert_eq!(state, filled());
            assert_eq!(flags & DIRECTION, DIRECTION);
            let seen = SEEN.load(Ordering::Relaxed) as u32;
            assert_eq!(seen & CONTROLS, USUAL_CONTROLS & CONTROLS);
        }
    }

    #[test]
    fn the_result_comes_back() {
        let text = String::from("moved");
        assert_eq!(rarely(move || text + " on"), "moved on");
        assert_eq!(rarely(|| rarely(|| 1.5_f64) * 2.0), 3.0);
    }
}
