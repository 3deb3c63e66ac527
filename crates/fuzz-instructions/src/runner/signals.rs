//! Takes down how a signal ended a case.

use std::sync::atomic::{AtomicU64, Ordering};

use super::entry::{self, UNSPOOL_FUZZ_EXCHANGE};
use crate::record::{HUNG, SIGNALLED, VECTORS_SIZE};

/// The number of the case that runs, from 1; 0 while none does.
pub(super) static RUNNING: AtomicU64 = AtomicU64::new(0);

/// How a signal ended a case.
#[derive(Debug, Clone, Copy)]
pub(super) struct Ending {
    pub(super) status: u64,
    pub(super) signal: [u64; 3],
    pub(super) fault: [u64; 3],
    pub(super) pc: u64,
}

/// The ending of the case that runs; valid if its status is not 0.
pub(super) static mut ENDING: Ending = NO_ENDING;

pub(super) const NO_ENDING: Ending = Ending {
    status: 0,
    signal: [0; 3],
    fault: [0; 3],
    pc: 0,
};

/// General registers in the order of their numbers, as the kernel names them.
const ORDER: [i32; 16] = [
    libc::REG_RAX,
    libc::REG_RCX,
    libc::REG_RDX,
    libc::REG_RBX,
    libc::REG_RSP,
    libc::REG_RBP,
    libc::REG_RSI,
    libc::REG_RDI,
    libc::REG_R8,
    libc::REG_R9,
    libc::REG_R10,
    libc::REG_R11,
    libc::REG_R12,
    libc::REG_R13,
    libc::REG_R14,
    libc::REG_R15,
];

const STACK_SIZE: usize = 256 << 10;

/// Catches all signals that a case may raise, on a stack that cases cannot reach.
pub(super) fn install(request: &super::Request) {
    // SAFETY: the stack is leaked; the handlers follow the kernel's convention.
    unsafe {
        let stack = libc::stack_t {
            ss_sp: Box::leak(vec![0_u8; STACK_SIZE].into_boxed_slice())
                .as_mut_ptr()
                .cast(),
            ss_flags: 0,
            ss_size: STACK_SIZE,
        };
        libc::sigaltstack(&raw const stack, std::ptr::null_mut());
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK;
        libc::sigfillset(&raw mut action.sa_mask);
        action.sa_sigaction = fault as *const () as usize;
        for signal in [
            libc::SIGSEGV,
            libc::SIGBUS,
            libc::SIGILL,
            libc::SIGFPE,
            libc::SIGTRAP,
        ] {
            libc::sigaction(signal, &raw const action, std::ptr::null_mut());
        }
        action.sa_sigaction = tick as *const () as usize;
        libc::sigaction(libc::SIGVTALRM, &raw const action, std::ptr::null_mut());
        start_timer(libc::ITIMER_VIRTUAL, request.patience_us);
        if request.interrupt_us != 0 {
            action.sa_sigaction = interrupt as *const () as usize;
            libc::sigaction(libc::SIGALRM, &raw const action, std::ptr::null_mut());
            start_timer(libc::ITIMER_REAL, request.interrupt_us);
        }
    }
}

/// # Safety
/// The signal of the timer must have a handler.
unsafe fn start_timer(which: libc::c_int, period_us: i64) {
    let period = libc::timeval {
        tv_sec: 0,
        tv_usec: period_us,
    };
    let timer = libc::itimerval {
        it_interval: period,
        it_value: period,
    };
    // SAFETY: the structure is valid.
    unsafe { libc::setitimer(which as _, &raw const timer, std::ptr::null_mut()) };
}

/// Takes back the alignment-check flag of the case, which the kernel leaves on in handlers.
#[inline(always)]
fn allow_any_alignment() {
    // SAFETY: changes no flag that compiled code relies on.
    unsafe { std::arch::asm!("pushfq", "and dword ptr [rsp], 0xfffbffff", "popfq") };
}

/// The processor raised a signal.
unsafe extern "C" fn fault(signal: i32, info: *mut libc::siginfo_t, context: *mut libc::c_void) {
    allow_any_alignment();
    if RUNNING.load(Ordering::Relaxed) == 0 {
        // The runner's own fault: it happens again, and ends the process.
        // SAFETY: restores the default action.
        unsafe { libc::signal(signal, libc::SIG_DFL) };
        return;
    }
    // SAFETY: the kernel passes these two structures.
    let (info, context) = unsafe { (&*info, &mut *context.cast::<libc::ucontext_t>()) };
    // SAFETY: all signals in question come with an address.
    let address = unsafe { info.si_addr() } as u64;
    let signal = [signal as u64, info.si_code as u64, address];
    end_case(SIGNALLED, signal, context);
}

/// Ends a case that was running at the last tick already.
unsafe extern "C" fn tick(_signal: i32, _info: *mut libc::siginfo_t, context: *mut libc::c_void) {
    allow_any_alignment();
    static LAST: AtomicU64 = AtomicU64::new(0);
    let running = RUNNING.load(Ordering::Relaxed);
    if running != 0 && LAST.swap(running, Ordering::Relaxed) == running {
        // SAFETY: as above.
        let context = unsafe { &mut *context.cast::<libc::ucontext_t>() };
        end_case(HUNG, [0; 3], context);
    }
}

/// Does nothing: the case that it interrupts must not notice.
unsafe extern "C" fn interrupt(_: i32, _: *mut libc::siginfo_t, _: *mut libc::c_void) {}

/// Copies the state, and makes the signal return to the runner.
fn end_case(status: u64, signal: [u64; 3], context: &mut libc::ucontext_t) {
    let registers = &mut context.uc_mcontext.gregs;
    let at = |index: i32| registers[index as usize] as u64;
    let ending = Ending {
        status,
        signal,
        fault: [at(libc::REG_ERR), at(libc::REG_TRAPNO), at(libc::REG_CR2)],
        pc: at(libc::REG_RIP),
    };
    // SAFETY: the case is the only user of the exchange, and it has ended. The frame holds
    // the vector state in XSAVE format.
    unsafe {
        let exchange = &raw mut UNSPOOL_FUZZ_EXCHANGE;
        let case_base: u64;
        std::arch::asm!("rdfsbase {}", out(reg) case_base);
        std::arch::asm!("wrfsbase {}", in(reg) (*exchange).own_thread_pointer);
        ENDING = ending;
        for (number, index) in ORDER.into_iter().enumerate() {
            (*exchange).registers[number] = registers[index as usize] as u64;
        }
        (*exchange).flags = registers[libc::REG_EFL as usize] as u64;
        (*exchange).thread_pointer = case_base;
        copy_vectors(
            context.uc_mcontext.fpregs.cast(),
            (&raw mut (*exchange).vectors).cast(),
        );
        registers[libc::REG_RSP as usize] = (*exchange).stack as i64;
    }
    registers[libc::REG_RIP as usize] = entry::way_back() as i64;
    registers[libc::REG_EFL as usize] = 0x202;
}

/// # Safety
/// `from` must be the state in a signal frame, `to` an area of full size.
unsafe fn copy_vectors(from: *const u8, to: *mut u8) {
    const SOFTWARE_BYTES: usize = 464;
    const SIZE: usize = SOFTWARE_BYTES + 16;
    // SAFETY: the kernel says in the software bytes how long the state is; they themselves
    // are not part of it.
    unsafe {
        let size = (from.add(SIZE).cast::<u32>().read() as usize).min(VECTORS_SIZE);
        std::ptr::copy_nonoverlapping(from, to, size);
        to.add(SOFTWARE_BYTES).write_bytes(0, 48);
    }
}
