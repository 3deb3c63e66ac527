//! The system calls whose accesses follow from their arguments in a fixed way.
//!
//! Sizes are those of the kernel's structures on x86-64, which are not always those of the
//! C library.

use super::ArgumentExtent::{
    Argument, DescriptorSet, Elements, Fixed, LengthAt, Message, Messages, NodeSet,
    ResultElementsUpTo, ResultUpTo, String as Text, Vectors, VectorsUpToResult,
};
use super::Direction::{Input, Output, Remainder, Update};
use super::{ArgumentExtent, Direction, MemoryPart};

mod files;

const fn part(direction: Direction, pointer: usize, extent: ArgumentExtent) -> MemoryPart {
    MemoryPart {
        direction,
        pointer,
        extent,
    }
}

const STAT: ArgumentExtent = Fixed(144);
const STATFS: ArgumentExtent = Fixed(120);
/// A timespec or timeval.
const TIME: ArgumentExtent = Fixed(16);
/// Two of them.
const TIMES: ArgumentExtent = Fixed(32);
const RUSAGE: ArgumentExtent = Fixed(144);
const RLIMIT: ArgumentExtent = Fixed(16);
const SIGINFO: ArgumentExtent = Fixed(128);
const SIGACTION: ArgumentExtent = Fixed(32);
const INT: ArgumentExtent = Fixed(4);
const LONG: ArgumentExtent = Fixed(8);

/// Numbers of recent calls, which the C library's headers may lack.
const CACHESTAT: i64 = 451;
const FUTEX_WAKE: i64 = 454;
const FUTEX_WAIT: i64 = 455;

/// The memory that the call accesses; nothing if the table does not describe it.
pub(super) fn parts(number: i64) -> Option<&'static [MemoryPart]> {
    files::contents(number)
        .or_else(|| files::attributes(number))
        .or_else(|| waiting(number))
        .or_else(|| sockets(number))
        .or_else(|| processes(number))
        .or_else(|| time(number))
        .or_else(|| signals(number))
        .or_else(|| without_memory(number))
}

/// Waiting for many descriptors.
fn waiting(number: i64) -> Option<&'static [MemoryPart]> {
    Some(match number {
        libc::SYS_poll => const { &[part(Update, 0, Elements(1, 8))] },
        libc::SYS_ppoll => {
            const {
                &[
                    part(Update, 0, Elements(1, 8)),
                    part(Update, 2, TIME),
                    part(Remainder, 2, TIME),
                    part(Input, 3, Argument(4)),
                ]
            }
        }
        libc::SYS_select => {
            const {
                &[
                    part(Update, 1, DescriptorSet(0)),
                    part(Update, 2, DescriptorSet(0)),
                    part(Update, 3, DescriptorSet(0)),
                    part(Update, 4, TIME),
                    part(Remainder, 4, TIME),
                ]
            }
        }
        libc::SYS_epoll_wait => const { &[part(Output, 1, ResultElementsUpTo(2, 12))] },
        libc::SYS_epoll_pwait => {
            const {
                &[
                    part(Output, 1, ResultElementsUpTo(2, 12)),
                    part(Input, 4, Argument(5)),
                ]
            }
        }
        libc::SYS_epoll_pwait2 => {
            const {
                &[
                    part(Output, 1, ResultElementsUpTo(2, 12)),
                    part(Input, 3, TIME),
                    part(Input, 4, Argument(5)),
                ]
            }
        }
        _ => return None,
    })
}

/// Sockets, and the System V and POSIX ways of passing messages.
fn sockets(number: i64) -> Option<&'static [MemoryPart]> {
    Some(match number {
        libc::SYS_socketpair => const { &[part(Output, 3, LONG)] },
        libc::SYS_bind | libc::SYS_connect => const { &[part(Input, 1, Argument(2))] },
        libc::SYS_accept | libc::SYS_accept4 | libc::SYS_getsockname | libc::SYS_getpeername => {
            const { &[part(Update, 2, INT), part(Output, 1, LengthAt(2))] }
        }
        libc::SYS_sendto => const { &[part(Input, 1, ResultUpTo(2)), part(Input, 4, Argument(5))] },
        libc::SYS_recvfrom => {
            const {
                &[
                    part(Update, 5, INT),
                    part(Output, 1, ResultUpTo(2)),
                    part(Output, 4, LengthAt(5)),
                ]
            }
        }
        libc::SYS_sendmsg => const { &[part(Input, 1, Message)] },
        libc::SYS_recvmsg => const { &[part(Output, 1, Message)] },
        libc::SYS_sendmmsg => const { &[part(Input, 1, Messages)] },
        libc::SYS_recvmmsg => const { &[part(Update, 4, TIME), part(Output, 1, Messages)] },
        libc::SYS_setsockopt => const { &[part(Input, 3, Argument(4))] },
        libc::SYS_getsockopt => const { &[part(Update, 4, INT), part(Output, 3, LengthAt(4))] },
        libc::SYS_semop => const { &[part(Input, 1, Elements(2, 6))] },
        libc::SYS_semtimedop => const { &[part(Input, 1, Elements(2, 6)), part(Input, 3, TIME)] },
        libc::SYS_mq_open => const { &[part(Input, 0, Text), part(Input, 3, Fixed(64))] },
        libc::SYS_mq_timedsend => const { &[part(Input, 1, Argument(2)), part(Input, 4, TIME)] },
        libc::SYS_mq_timedreceive => {
            const {
                &[
                    part(Output, 1, ResultUpTo(2)),
                    part(Output, 3, INT),
                    part(Input, 4, TIME),
                ]
            }
        }
        libc::SYS_mq_notify => const { &[part(Input, 1, Fixed(64))] },
        libc::SYS_mq_getsetattr => {
            const { &[part(Input, 1, Fixed(64)), part(Output, 2, Fixed(64))] }
        }
        _ => return None,
    })
}

/// Processes, threads, their limits and rights, and the system.
fn processes(number: i64) -> Option<&'static [MemoryPart]> {
    Some(match number {
        libc::SYS_waitid => const { &[part(Output, 2, SIGINFO), part(Output, 4, RUSAGE)] },
        libc::SYS_getrusage => const { &[part(Output, 1, RUSAGE)] },
        libc::SYS_getrlimit => const { &[part(Output, 1, RLIMIT)] },
        libc::SYS_setrlimit => const { &[part(Input, 1, RLIMIT)] },
        libc::SYS_prlimit64 => const { &[part(Input, 2, RLIMIT), part(Output, 3, RLIMIT)] },
        libc::SYS_uname => const { &[part(Output, 0, Fixed(390))] },
        libc::SYS_sysinfo => const { &[part(Output, 0, Fixed(112))] },
        libc::SYS_times => const { &[part(Output, 0, Fixed(32))] },
        libc::SYS_getcpu => const { &[part(Output, 0, INT), part(Output, 1, INT)] },
        libc::SYS_sethostname | libc::SYS_setdomainname => const { &[part(Input, 0, Argument(1))] },
        libc::SYS_setgroups => const { &[part(Input, 1, Elements(0, 4))] },
        libc::SYS_getresuid | libc::SYS_getresgid => {
            const {
                &[
                    part(Output, 0, INT),
                    part(Output, 1, INT),
                    part(Output, 2, INT),
                ]
            }
        }
        libc::SYS_capget => const { &[part(Update, 0, LONG), part(Output, 1, Fixed(24))] },
        libc::SYS_capset => const { &[part(Input, 0, LONG), part(Input, 1, Fixed(24))] },
        libc::SYS_sched_getparam => const { &[part(Output, 1, INT)] },
        libc::SYS_sched_setparam => const { &[part(Input, 1, INT)] },
        libc::SYS_sched_setscheduler => const { &[part(Input, 2, INT)] },
        libc::SYS_sched_setaffinity => const { &[part(Input, 2, Argument(1))] },
        libc::SYS_sched_getaffinity => const { &[part(Output, 2, ResultUpTo(1))] },
        libc::SYS_sched_getattr => const { &[part(Output, 1, Argument(2))] },
        libc::SYS_get_robust_list => const { &[part(Output, 1, LONG), part(Output, 2, LONG)] },
        libc::SYS_get_mempolicy => const { &[part(Output, 0, INT), part(Output, 1, NodeSet(2))] },
        libc::SYS_set_mempolicy => const { &[part(Input, 1, NodeSet(2))] },
        libc::SYS_mbind => const { &[part(Input, 3, NodeSet(4))] },
        libc::SYS_migrate_pages => {
            const { &[part(Input, 2, NodeSet(1)), part(Input, 3, NodeSet(1))] }
        }
        libc::SYS_move_pages => {
            const {
                &[
                    part(Input, 2, Elements(1, 8)),
                    part(Input, 3, Elements(1, 4)),
                    part(Output, 4, Elements(1, 4)),
                ]
            }
        }
        libc::SYS_add_key => {
            const {
                &[
                    part(Input, 0, Text),
                    part(Input, 1, Text),
                    part(Input, 2, Argument(3)),
                ]
            }
        }
        libc::SYS_request_key => {
            const {
                &[
                    part(Input, 0, Text),
                    part(Input, 1, Text),
                    part(Input, 2, Text),
                ]
            }
        }
        FUTEX_WAKE => const { &[] },
        FUTEX_WAIT => const { &[part(Input, 0, INT), part(Input, 4, TIME)] },
        CACHESTAT => const { &[part(Input, 1, TIME), part(Output, 2, Fixed(40))] },
        libc::SYS_landlock_create_ruleset => const { &[part(Input, 0, Argument(1))] },
        _ => return None,
    })
}

/// Clocks and timers.
fn time(number: i64) -> Option<&'static [MemoryPart]> {
    Some(match number {
        libc::SYS_time => const { &[part(Output, 0, LONG)] },
        libc::SYS_gettimeofday => const { &[part(Output, 0, TIME), part(Output, 1, LONG)] },
        libc::SYS_settimeofday => const { &[part(Input, 0, TIME), part(Input, 1, LONG)] },
        libc::SYS_clock_gettime | libc::SYS_clock_getres | libc::SYS_sched_rr_get_interval => {
            const { &[part(Output, 1, TIME)] }
        }
        libc::SYS_clock_settime => const { &[part(Input, 1, TIME)] },
        libc::SYS_nanosleep => const { &[part(Input, 0, TIME), part(Remainder, 1, TIME)] },
        libc::SYS_clock_nanosleep => const { &[part(Input, 2, TIME), part(Remainder, 3, TIME)] },
        libc::SYS_adjtimex => const { &[part(Update, 0, Fixed(208))] },
        libc::SYS_clock_adjtime => const { &[part(Update, 1, Fixed(208))] },
        libc::SYS_getitimer => const { &[part(Output, 1, TIMES)] },
        libc::SYS_setitimer => const { &[part(Input, 1, TIMES), part(Output, 2, TIMES)] },
        libc::SYS_timer_create => const { &[part(Input, 1, Fixed(64)), part(Output, 2, INT)] },
        libc::SYS_timer_settime | libc::SYS_timerfd_settime => {
            const { &[part(Input, 2, TIMES), part(Output, 3, TIMES)] }
        }
        libc::SYS_timer_gettime | libc::SYS_timerfd_gettime => const { &[part(Output, 1, TIMES)] },
        _ => return None,
    })
}

/// Signals.
fn signals(number: i64) -> Option<&'static [MemoryPart]> {
    Some(match number {
        libc::SYS_rt_sigaction => {
            const { &[part(Input, 1, SIGACTION), part(Output, 2, SIGACTION)] }
        }
        libc::SYS_rt_sigprocmask => {
            const { &[part(Input, 1, Argument(3)), part(Output, 2, Argument(3))] }
        }
        libc::SYS_rt_sigpending => const { &[part(Output, 0, Argument(1))] },
        libc::SYS_rt_sigsuspend => const { &[part(Input, 0, Argument(1))] },
        libc::SYS_rt_sigtimedwait => {
            const {
                &[
                    part(Input, 0, Argument(3)),
                    part(Output, 1, SIGINFO),
                    part(Input, 2, TIME),
                ]
            }
        }
        libc::SYS_rt_sigqueueinfo => const { &[part(Input, 2, SIGINFO)] },
        libc::SYS_rt_tgsigqueueinfo => const { &[part(Input, 3, SIGINFO)] },
        libc::SYS_pidfd_send_signal => const { &[part(Input, 2, SIGINFO)] },
        libc::SYS_signalfd | libc::SYS_signalfd4 => const { &[part(Input, 1, Argument(2))] },
        libc::SYS_sigaltstack => const { &[part(Input, 0, Fixed(24)), part(Output, 1, Fixed(24))] },
        _ => return None,
    })
}

/// Calls that access no memory of the program's.
fn without_memory(number: i64) -> Option<&'static [MemoryPart]> {
    matches!(
        number,
        libc::SYS_close
            | libc::SYS_close_range
            | libc::SYS_lseek
            | libc::SYS_dup
            | libc::SYS_dup2
            | libc::SYS_dup3
            | libc::SYS_fsync
            | libc::SYS_fdatasync
            | libc::SYS_sync
            | libc::SYS_syncfs
            | libc::SYS_sync_file_range
            | libc::SYS_ftruncate
            | libc::SYS_fallocate
            | libc::SYS_fadvise64
            | libc::SYS_readahead
            | libc::SYS_flock
            | libc::SYS_fchdir
            | libc::SYS_fchmod
            | libc::SYS_fchown
            | libc::SYS_umask
            | libc::SYS_tee
            | libc::SYS_eventfd
            | libc::SYS_eventfd2
            | libc::SYS_epoll_create
            | libc::SYS_epoll_create1
            | libc::SYS_inotify_init
            | libc::SYS_inotify_init1
            | libc::SYS_inotify_rm_watch
            | libc::SYS_timerfd_create
            | libc::SYS_userfaultfd
            | libc::SYS_memfd_secret
            | libc::SYS_socket
            | libc::SYS_listen
            | libc::SYS_shutdown
            | libc::SYS_mmap
            | libc::SYS_munmap
            | libc::SYS_mprotect
            | libc::SYS_mremap
            | libc::SYS_msync
            | libc::SYS_madvise
            | libc::SYS_brk
            | libc::SYS_mlock
            | libc::SYS_mlock2
            | libc::SYS_munlock
            | libc::SYS_mlockall
            | libc::SYS_munlockall
            | libc::SYS_remap_file_pages
            | libc::SYS_pkey_alloc
            | libc::SYS_pkey_free
            | libc::SYS_pkey_mprotect
            | libc::SYS_membarrier
            | libc::SYS_shmget
            | libc::SYS_shmat
            | libc::SYS_shmdt
            | libc::SYS_semget
            | libc::SYS_msgget
            | libc::SYS_fork
            | libc::SYS_vfork
            | libc::SYS_exit
            | libc::SYS_exit_group
            | libc::SYS_kill
            | libc::SYS_tkill
            | libc::SYS_tgkill
            | libc::SYS_pause
            | libc::SYS_alarm
            | libc::SYS_sched_yield
            | libc::SYS_sched_getscheduler
            | libc::SYS_sched_get_priority_max
            | libc::SYS_sched_get_priority_min
            | libc::SYS_getpriority
            | libc::SYS_setpriority
            | libc::SYS_ioprio_get
            | libc::SYS_ioprio_set
            | libc::SYS_getpid
            | libc::SYS_getppid
            | libc::SYS_gettid
            | libc::SYS_getuid
            | libc::SYS_geteuid
            | libc::SYS_getgid
            | libc::SYS_getegid
            | libc::SYS_setuid
            | libc::SYS_setgid
            | libc::SYS_setreuid
            | libc::SYS_setregid
            | libc::SYS_setresuid
            | libc::SYS_setresgid
            | libc::SYS_setfsuid
            | libc::SYS_setfsgid
            | libc::SYS_getpgid
            | libc::SYS_getpgrp
            | libc::SYS_setpgid
            | libc::SYS_getsid
            | libc::SYS_setsid
            | libc::SYS_pidfd_open
            | libc::SYS_pidfd_getfd
            | libc::SYS_set_tid_address
            | libc::SYS_set_robust_list
            | libc::SYS_rseq
            | libc::SYS_restart_syscall
            | libc::SYS_personality
            | libc::SYS_unshare
            | libc::SYS_setns
            | libc::SYS_kcmp
            | libc::SYS_timer_getoverrun
            | libc::SYS_timer_delete
            | libc::SYS_iopl
            | libc::SYS_ioperm
            | libc::SYS_vhangup
            | libc::SYS_reboot
            | libc::SYS_landlock_restrict_self
    )
    .then_some(&[])
}
