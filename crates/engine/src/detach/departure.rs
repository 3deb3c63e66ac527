//! A thread leaves the engine: what is the thread's goes back to the kernel, and the kernel
//! restores the program's registers from a signal frame.

use super::native_calls::{self, NativeCall};
use crate::signals::frame::{FRAME_SIZE, Frame, FullState, vectors};
use crate::signals::{STOP, bit};
use crate::thread::Thread;
use crate::{finish, slots};

// unspool_leave(stack, fs, gs): gives up the engine's stack, FS and GS, and has the kernel restore
// the signal frame at `stack`. All signals are blocked. No thread-local memory is used.
std::arch::global_asm!(
    ".globl unspool_leave",
    ".hidden unspool_leave",
    ".type unspool_leave, @function",
    "unspool_leave:",
    "mov rsp, rdi",
    "mov r12, rsi",
    // arch_prctl(ARCH_SET_GS, gs)
    "mov eax, 158",
    "mov edi, 0x1001",
    "mov rsi, rdx",
    "syscall",
    // arch_prctl(ARCH_SET_FS, fs)
    "mov eax, 158",
    "mov edi, 0x1002",
    "mov rsi, r12",
    "syscall",
    // rt_sigreturn
    "mov eax, 15",
    "syscall",
    "ud2",
);

unsafe extern "C" {
    fn unspool_leave(stack: u64, fs: u64, gs: u64) -> !;
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
}

impl Departure {
    /// Of a thread at a safe point, to which nothing comes any more.
    pub(super) fn of(thread: &Thread) -> Departure {
        Departure::through(thread, &[])
    }

    /// The same, for a thread that first makes some system calls, natively.
    pub(super) fn through(thread: &Thread, calls: &[NativeCall]) -> Departure {
        if !calls.is_empty() {
            // SAFETY: as below.
            match native_calls::place(calls, unsafe { &*thread.slots }) {
                // SAFETY: as below; the calls end where the program counter was.
                Ok(start) => unsafe { (*thread.slots).pc = start },
                Err(error) => finish::fatal(&format!("no memory for a thread's way out: {error}")),
            }
        }
        // SAFETY: the slots belong to this thread, which is out of the cache.
        let own = unsafe { &*thread.slots };
        let mut frame = Frame::capture(own);
        let mut state = FullState::capture(thread.slots, vectors());
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
        let bytes = frame.to_bytes();
        // SAFETY: the frame lies in `memory`, behind the state.
        unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), address as *mut u8, bytes.len()) };
        if !state.write(fp_state) {
            finish::fatal("a thread's state could not be kept for its way out");
        }
        Departure {
            memory,
            frame: address,
            fs: own.program_fs,
            gs: own.program_gs,
            robust_list: thread.robust_list,
            clear_tid: thread.clear_tid,
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
        // SAFETY: what is handed to the kernel is the program's own; the engine needs none of it
        // any more in this thread. The memory of the frame stays.
        unsafe {
            libc::syscall(libc::SYS_set_robust_list, self.robust_list, 24_usize);
            libc::syscall(libc::SYS_set_tid_address, self.clear_tid);
            std::mem::forget(self.memory);
            last();
            unspool_leave(self.frame + size_of::<u64>() as u64, self.fs, self.gs)
        }
    }
}

/// Takes what the engine has sent to itself from the thread: the program would die of it.
fn drop_own_signals() {
    let now = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    let set = bit(STOP);
    let mut programs = Vec::new();
    loop {
        let mut info = [0_u64; 16];
        // SAFETY: the kernel reads a set of 8 bytes and writes a siginfo of 128.
        let taken = unsafe {
            libc::syscall(
                libc::SYS_rt_sigtimedwait,
                &raw const set,
                info.as_mut_ptr(),
                &raw const now,
                8_usize,
            )
        };
        if taken != i64::from(STOP) {
            break;
        }
        let own = finish::is_stop_request(&info)
            || finish::is_place_request(&info)
            || super::is_request(STOP, &info);
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
