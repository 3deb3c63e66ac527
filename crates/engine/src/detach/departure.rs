//! A thread leaves the engine: what is the thread's goes back to the kernel, and the kernel
//! restores the program's registers from a signal frame.

use unspool_code_cache::emit::gpr;
use unspool_code_cache::slots;
use unspool_kernel::diagnostics;

use super::native_calls::{self, NativeCall};
use super::native_wait::NativeWait;
use super::unfinished_call::UnfinishedCall;
use crate::filters::native::{MOST_PASSING, NativeFilters, Passing};
use crate::requests;
use crate::signal_handling::deliver;
use crate::signal_handling::frame::{FRAME_SIZE, Frame, FullState};
use crate::signals::{STOP, bit};
use crate::thread::{AddressSpaceRole, Thread};

// unspool_leave(stack, fs, gs, filters, count): gives up the engine's stack, puts the thread under
// the program's filters (seccomp), gives up FS and GS, and has the kernel restore the signal frame
// at `stack`. All signals are blocked. No thread-local memory is used.
std::arch::global_asm!(
    ".globl unspool_leave",
    ".hidden unspool_leave",
    ".type unspool_leave, @function",
    "unspool_leave:",
    "mov rsp, rdi",
    "mov r12, rsi",
    "mov r13, rdx",
    "mov rbx, rcx",
    "mov rbp, r8",
    "2: test rbp, rbp",
    "jz 3f",
    // seccomp(SECCOMP_SET_MODE_FILTER, 0, filters)
    "mov eax, 317",
    "mov edi, 1",
    "xor esi, esi",
    "mov rdx, rbx",
    "syscall",
    ".globl unspool_leave_behind_filter",
    ".hidden unspool_leave_behind_filter",
    "unspool_leave_behind_filter:",
    // That the kernel takes them was tried.
    "test rax, rax",
    "jnz 4f",
    "add rbx, 16",
    "dec rbp",
    "jmp 2b",
    // arch_prctl(ARCH_SET_GS, gs)
    "3: mov eax, 158",
    "mov edi, 0x1001",
    "mov rsi, r13",
    "syscall",
    ".globl unspool_leave_behind_gs",
    ".hidden unspool_leave_behind_gs",
    "unspool_leave_behind_gs:",
    // arch_prctl(ARCH_SET_FS, fs)
    "mov eax, 158",
    "mov edi, 0x1002",
    "mov rsi, r12",
    "syscall",
    ".globl unspool_leave_behind_fs",
    ".hidden unspool_leave_behind_fs",
    "unspool_leave_behind_fs:",
    // rt_sigreturn
    "mov eax, 15",
    "syscall",
    ".globl unspool_leave_behind_return",
    ".hidden unspool_leave_behind_return",
    "unspool_leave_behind_return:",
    "4: ud2",
);

unsafe extern "C" {
    fn unspool_leave(stack: u64, fs: u64, gs: u64, filters: u64, count: u64) -> !;
    fn unspool_leave_behind_filter();
    fn unspool_leave_behind_gs();
    fn unspool_leave_behind_fs();
    fn unspool_leave_behind_return();
}

/// The calls of [`unspool_leave`], for filters that are to let them pass.
fn own_passing() -> [Passing; 4] {
    let all: [(unsafe extern "C" fn(), i64); 4] = [
        (unspool_leave_behind_filter, libc::SYS_seccomp),
        (unspool_leave_behind_gs, libc::SYS_arch_prctl),
        (unspool_leave_behind_fs, libc::SYS_arch_prctl),
        (unspool_leave_behind_return, libc::SYS_rt_sigreturn),
    ];
    all.map(|(behind, number)| Passing {
        behind: behind as *const () as u64,
        number: number as u32,
    })
}

/// All that a thread needs to leave, made while the engine is still whole.
pub(super) struct Departure {
    /// The signal frame and the vector state that it refers to.
    memory: Vec<[u64; 8]>,
    frame: u64,
    fs: u64,
    gs: u64,
    robust_list: u64,
    clear_tid: u64,
    /// A wait that goes on.
    wait: Option<NativeWait>,
    /// The call that the thread makes first of all.
    unfinished: Option<UnfinishedCall>,
    /// What judges the program's calls from then on.
    filters: NativeFilters,
}

impl Departure {
    /// Of a thread at a safe point, to which nothing comes any more.
    pub(super) fn of(thread: &Thread) -> Departure {
        Departure::through(thread, &[])
    }

    /// The same, for a thread that first makes some system calls, natively.
    pub(super) fn through(thread: &Thread, calls: &[NativeCall]) -> Departure {
        let slots = thread.slots();
        let mut unfinished = UnfinishedCall::of(thread);
        if let Some((pc, result)) = unfinished.as_ref().and_then(|it| it.ended_by_pending()) {
            unfinished = None;
            slots.pc.set(pc);
            slots.registers[usize::from(gpr::RAX)].set(result as u64);
        }
        let wait = unfinished.as_ref().and_then(UnfinishedCall::wait);
        let wait = wait.map(|wait| NativeWait::new(wait, slots).unwrap_or_else(no_memory));
        if let Some(wait) = &wait {
            slots.pc.set(wait.start);
        }
        let mut passing = Vec::from(own_passing());
        passing.extend(wait.as_ref().map(|wait| wait.passing));
        if !calls.is_empty() {
            let start = native_calls::place(calls, slots);
            let start = start.unwrap_or_else(no_memory);
            passing.extend(native_calls::passing(calls, start));
            slots.pc.set(start);
        }
        debug_assert!(passing.len() <= MOST_PASSING);
        // A child in its parent's place has given the kernel its filters before it executed.
        let filters = match thread.role {
            AddressSpaceRole::Process => NativeFilters::of(thread, &passing).expect("it was tried"),
            AddressSpaceRole::VforkChild | AddressSpaceRole::SharedMemoryChild => {
                NativeFilters::default()
            }
        };
        let mut frame = Frame::capture(slots);
        let mut state = FullState::capture(thread);
        let lines = (FRAME_SIZE + state.frame_size()).div_ceil(64) as usize;
        // A line to spare for alignment, and one for what the frame's start is off.
        let mut memory: Vec<[u64; 8]> = vec![[0; 8]; lines + 2];
        let fp_state = (memory.as_mut_ptr() as u64 + 63) & !63;
        let address = (fp_state + state.frame_size() + 15) & !15;
        let stack = thread.alternate_stack;
        frame.stack = [stack.base, u64::from(stack.flags as u32), stack.size];
        frame.mask = thread.delivery.mask();
        frame.set_fp_state(fp_state);
        frame.set_trap_flag(thread.steps.program_flag);
        let bytes = frame.bytes();
        // SAFETY: the frame lies in `memory`, behind the state.
        unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), address as *mut u8, bytes.len()) };
        if !state.write(fp_state) {
            diagnostics::fatal("a thread's state could not be kept for its way out");
        }
        Departure {
            memory,
            frame: address,
            fs: slots.program_fs.get(),
            gs: slots.program_gs.get(),
            robust_list: thread.robust_list,
            clear_tid: thread.clear_tid,
            wait,
            // The calls that come first end with registers that are known now.
            unfinished: unfinished.filter(|_| calls.is_empty()),
            filters,
        }
    }

    /// Leaves the engine for good.
    pub(super) fn leave(self) -> ! {
        self.leave_behind(|| {})
    }

    /// The same, behind what is to be done last of all.
    pub(super) fn leave_behind(self, last: impl FnOnce()) -> ! {
        drop_own_signals();
        unregister_restartable_sequences();
        let ended = self.unfinished.and_then(|call| call.ended_by_pending());
        if let Some((pc, result)) = ended {
            // SAFETY: the frame lies there, in memory that is this thread's.
            unsafe { (*(self.frame as *mut Frame)).return_from_call(pc, result) };
        } else if let Some(wait) = self.wait {
            wait.measure();
        }
        // SAFETY: what is handed to the kernel is the program's own; the engine needs none of it
        // any more in this thread. The memory of the frame stays.
        unsafe {
            libc::syscall(libc::SYS_set_robust_list, self.robust_list, 24_usize);
            libc::syscall(libc::SYS_set_tid_address, self.clear_tid);
            std::mem::forget(self.memory);
            let (filters, count) = self.filters.lists();
            std::mem::forget(self.filters);
            last();
            let stack = self.frame + size_of::<u64>() as u64;
            unspool_leave(stack, self.fs, self.gs, filters, count)
        }
    }
}

fn no_memory<T>(error: std::io::Error) -> T {
    diagnostics::fatal(&format!("no memory for a thread's way out: {error}"))
}

/// Takes what the engine has sent to itself from the thread: the program would die of it.
fn drop_own_signals() {
    let mut programs = Vec::new();
    while let Some((_, info)) = deliver::take_pending(bit(STOP)) {
        let own = requests::is_stop_request(&info)
            || requests::is_place_request(&info)
            || requests::is_request(STOP, &info);
        if !own {
            programs.push(info);
        }
    }
    for info in programs {
        // SAFETY: a process may send any signal to itself, with what came with it.
        unsafe {
            libc::syscall(
                libc::SYS_rt_tgsigqueueinfo,
                libc::getpid(),
                libc::gettid(),
                STOP,
                info.as_ptr(),
            )
        };
    }
}

/// The C library of the engine has told the kernel where it keeps what restartable sequences
/// need; the program may want to do so itself. Where it has not, the kernel refuses.
fn unregister_restartable_sequences() {
    const UNREGISTER: libc::c_int = 1;
    const SIGNATURE: u32 = 0x5305_3053;
    const RSEQ: libc::c_long = 334;
    /// What C libraries register: the first version's size, which later ones keep.
    const SIZE: u32 = 32;
    let offset: i64;
    // SAFETY: reads a constant of the C library, if that has it.
    unsafe {
        std::arch::asm!(
            ".weak __rseq_offset",
            "mov {offset}, [rip + __rseq_offset@GOTPCREL]",
            "test {offset}, {offset}",
            "jz 2f",
            "mov {offset}, [{offset}]",
            "2:",
            offset = out(reg) offset,
            options(nostack, readonly),
        );
    }
    if offset == 0 {
        return;
    }
    let area = slots::thread_pointer().wrapping_add_signed(offset);
    // SAFETY: the kernel forgets an address.
    unsafe { libc::syscall(RSEQ, area, SIZE, UNREGISTER, SIGNATURE) };
}
