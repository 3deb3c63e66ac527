//! Runs single instructions with chosen registers and memory, and survives their faults.

use std::sync::atomic::{AtomicPtr, Ordering};

const PAGE: usize = 4096;
/// Room for the largest operand, with page-aligned ends.
const DATA: usize = 2 * PAGE;

/// What an instruction is given.
#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub(crate) struct Inputs {
    /// rdi; the other general registers are zero.
    pub(crate) pointer: u64,
    /// k1.
    pub(crate) mask: u64,
    /// Vector register 1.
    pub(crate) vector_mask: [u8; 64],
    /// Vector register 2.
    pub(crate) indexes: [u8; 64],
}

impl Default for Inputs {
    fn default() -> Inputs {
        Inputs {
            pointer: 0,
            mask: 0,
            vector_mask: [0; 64],
            indexes: [0; 64],
        }
    }
}

/// How an instruction ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// It completed, perhaps with an arithmetic fault.
    Completed,
    /// A page fault.
    MemoryFault {
        /// The address at fault.
        address: u64,
    },
    /// A general-protection fault: misaligned, or privileged.
    ProtectionFault,
    /// Not known to this processor.
    Undefined,
}

/// What the assembly below reads and the signal handler writes.
#[repr(C)]
struct State {
    inputs: Inputs,
    code: u64,
    stack: u64,
    vector_level: u64,
    saved_stack_pointer: u64,
    resume_at: u64,
    signal: i32,
    signal_code: i32,
    fault_address: u64,
}

/// Memory and state for running instructions. One at a time: it owns the signal handlers.
pub(crate) struct Machine {
    state: Box<State>,
    code: *mut u8,
    data: *mut u8,
}

/// The state of the machine that is running.
static RUNNING: AtomicPtr<State> = AtomicPtr::new(std::ptr::null_mut());

// Offsets in `State`: inputs 0 (pointer 0, mask 8, vectors 16 and 80), code 144, stack 152,
// vector level 160, saved stack pointer 168, resume address 176.
core::arch::global_asm!(
    ".globl unspool_test_run_instruction",
    "unspool_test_run_instruction:",
    "push rbx",
    "push rbp",
    "push r12",
    "push r13",
    "push r14",
    "push r15",
    "mov [rdi + 168], rsp",
    "lea rax, [rip + 4f]",
    "mov [rdi + 176], rax",
    "cmp qword ptr [rdi + 160], 1",
    "jb 1f",
    "je 2f",
    "kmovq k1, [rdi + 8]",
    "vmovdqu64 zmm1, [rdi + 16]",
    "vmovdqu64 zmm2, [rdi + 80]",
    "jmp 3f",
    "1:",
    "movdqu xmm1, [rdi + 16]",
    "movdqu xmm2, [rdi + 80]",
    "jmp 3f",
    "2:",
    "vmovdqu ymm1, [rdi + 16]",
    "vmovdqu ymm2, [rdi + 80]",
    "3:",
    "mov rsp, [rdi + 152]",
    "push qword ptr [rdi + 144]",
    "mov rdi, [rdi]",
    "xor eax, eax",
    "xor ebx, ebx",
    "xor ecx, ecx",
    "xor edx, edx",
    "xor esi, esi",
    "xor ebp, ebp",
    "xor r8d, r8d",
    "xor r9d, r9d",
    "xor r10d, r10d",
    "xor r11d, r11d",
    "xor r12d, r12d",
    "xor r13d, r13d",
    "xor r14d, r14d",
    "xor r15d, r15d",
    "ret",
    // The signal handler goes on here, with the stack pointer of the beginning.
    "4:",
    "fninit",
    "cld",
    "mov dword ptr [rsp - 8], 0x1f80",
    "ldmxcsr [rsp - 8]",
    "pop r15",
    "pop r14",
    "pop r13",
    "pop r12",
    "pop rbp",
    "pop rbx",
    "ret",
);

unsafe extern "C" {
    fn unspool_test_run_instruction(state: *mut State);
}

/// Notes the signal and makes the thread go on after the instruction.
extern "C" fn on_signal(
    signal: libc::c_int,
    information: *mut libc::siginfo_t,
    context: *mut libc::c_void,
) {
    // SAFETY: the kernel passes valid pointers, and the state outlives the run during which
    // signals arrive.
    unsafe {
        let state = RUNNING.load(Ordering::Relaxed);
        (*state).signal = signal;
        (*state).signal_code = (*information).si_code;
        (*state).fault_address = (*information).si_addr() as u64;
        let context = context.cast::<libc::ucontext_t>();
        let registers = &mut (*context).uc_mcontext.gregs;
        registers[libc::REG_RIP as usize] = (*state).resume_at as i64;
        registers[libc::REG_RSP as usize] = (*state).saved_stack_pointer as i64;
    }
}

/// Maps `size` bytes with nothing accessible on either side.
fn map(size: usize, protection: libc::c_int) -> *mut u8 {
    // SAFETY: a fresh mapping touches nothing else.
    unsafe {
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
        let none = libc::PROT_NONE;
        let whole = libc::mmap(std::ptr::null_mut(), size + 2 * PAGE, none, flags, -1, 0);
        assert_ne!(whole, libc::MAP_FAILED);
        let inner = whole.cast::<u8>().add(PAGE);
        assert_eq!(libc::mprotect(inner.cast(), size, protection), 0);
        inner
    }
}

impl Machine {
    /// Maps memory and takes the signals.
    pub(crate) fn new() -> Machine {
        let read_write = libc::PROT_READ | libc::PROT_WRITE;
        let stack = map(16 * PAGE, read_write);
        let signal_stack = map(16 * PAGE, read_write);
        // SAFETY: the stack is fresh memory that stays; the handler is as `SA_SIGINFO` asks.
        unsafe {
            let alternate = libc::stack_t {
                ss_sp: signal_stack.cast(),
                ss_flags: 0,
                ss_size: 16 * PAGE,
            };
            assert_eq!(libc::sigaltstack(&alternate, std::ptr::null_mut()), 0);
            let mut action: libc::sigaction = std::mem::zeroed();
            action.sa_sigaction = on_signal as *const () as usize;
            action.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK | libc::SA_NODEFER;
            for signal in [
                libc::SIGSEGV,
                libc::SIGBUS,
                libc::SIGILL,
                libc::SIGFPE,
                libc::SIGTRAP,
            ] {
                assert_eq!(libc::sigaction(signal, &action, std::ptr::null_mut()), 0);
            }
        }
        let vector_level = if is_x86_feature_detected!("avx512bw") {
            2
        } else {
            u64::from(is_x86_feature_detected!("avx"))
        };
        Machine {
            state: Box::new(State {
                inputs: Inputs::default(),
                code: 0,
                stack: stack as u64 + 8 * PAGE as u64,
                vector_level,
                saved_stack_pointer: 0,
                resume_at: 0,
                signal: 0,
                signal_code: 0,
                fault_address: 0,
            }),
            code: map(PAGE, read_write | libc::PROT_EXEC),
            data: map(DATA, read_write),
        }
    }

    /// The first byte of mapped data.
    pub(crate) fn start(&self) -> u64 {
        self.data as u64
    }

    /// The first byte after mapped data.
    pub(crate) fn end(&self) -> u64 {
        self.data as u64 + DATA as u64
    }

    /// Forbids or allows writing to the data.
    pub(crate) fn set_read_only(&mut self, read_only: bool) {
        let protection = if read_only {
            libc::PROT_READ
        } else {
            libc::PROT_READ | libc::PROT_WRITE
        };
        // SAFETY: the data belongs to this machine, and nothing refers to it.
        let result = unsafe { libc::mprotect(self.data.cast(), DATA, protection) };
        assert_eq!(result, 0);
    }

    /// Runs the instruction.
    pub(crate) fn run(&mut self, bytes: &[u8], inputs: Inputs) -> Outcome {
        self.state.inputs = inputs;
        self.state.code = self.code as u64;
        // SAFETY: the code page is writable and executable and belongs to this machine. The
        // instruction accesses the data, the stack, or what faults; all registers that the
        // compiler relies on are restored, and every way out is a signal.
        unsafe {
            std::ptr::copy_nonoverlapping(bytes.as_ptr(), self.code, bytes.len());
            self.code.add(bytes.len()).write(0xcc);
            RUNNING.store(&mut *self.state, Ordering::Relaxed);
            unspool_test_run_instruction(&mut *self.state);
        }
        match self.state.signal {
            libc::SIGTRAP | libc::SIGFPE => Outcome::Completed,
            libc::SIGILL => Outcome::Undefined,
            // Kernels report protection faults as sent by themselves (SI_KERNEL), without an
            // address.
            libc::SIGSEGV if self.state.signal_code != 0x80 => Outcome::MemoryFault {
                address: self.state.fault_address,
            },
            _ => Outcome::ProtectionFault,
        }
    }
}
