//! Which system calls carry order from thread to thread, by other ways than memory.
//!
//! Numbers: `arch/x86/entry/syscalls/syscall_64.tbl` of the Linux kernel.

/// How a system call carries order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Carries {
    /// What goes through descriptors: pipes, sockets, event counters, terminals.
    Data,
    /// Signals.
    Signals,
}

/// What a system call tells others, and what it learns of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct CallOrder {
    /// What was done before the call comes before what takes this.
    pub gives: Option<Carries>,
    /// What is done behind the call comes behind what has given this.
    pub takes: Option<Carries>,
}

/// `read`, `pread64`, `readv`, `recvfrom`, `recvmsg`, `preadv`, `recvmmsg`, `preadv2`.
const READING: [u32; 8] = [0, 17, 19, 45, 47, 295, 299, 327];
/// `write`, `pwrite64`, `writev`, `sendto`, `sendmsg`, `shutdown`, `pwritev`, `sendmmsg`, `pwritev2`;
/// and `close`, which the other end may wait for.
const WRITING: [u32; 10] = [1, 18, 20, 44, 46, 48, 296, 307, 328, 3];
/// `poll`, `select`, `accept`, `epoll_wait`, `pselect6`, `ppoll`, `epoll_pwait`, `accept4`,
/// `epoll_pwait2`.
const WAITING: [u32; 9] = [7, 23, 43, 232, 270, 271, 281, 288, 441];
/// `sendfile`, `connect`, `splice`, `tee`, `vmsplice`, `io_uring_enter`.
const BOTH: [u32; 6] = [40, 42, 275, 276, 278, 426];
/// `kill`, `rt_sigqueueinfo`, `tkill`, `tgkill`, `rt_tgsigqueueinfo`, `pidfd_send_signal`.
const SIGNALLING: [u32; 6] = [62, 129, 200, 234, 297, 424];
/// `rt_sigtimedwait`.
const WAITING_FOR_SIGNALS: [u32; 1] = [128];

/// How the system call with this number carries order, if it does. Which of its descriptors are
/// plain files, by which nobody waits for anybody, is for others to know.
#[must_use]
pub fn call_order(number: u32) -> CallOrder {
    let data = |numbers: &[u32]| numbers.contains(&number).then_some(Carries::Data);
    let signals = |numbers: &[u32]| numbers.contains(&number).then_some(Carries::Signals);
    let both = data(&BOTH);
    CallOrder {
        gives: data(&WRITING).or(both).or(signals(&SIGNALLING)),
        takes: data(&READING)
            .or(data(&WAITING))
            .or(both)
            .or(signals(&WAITING_FOR_SIGNALS)),
    }
}
