//! Checks the lists against expectations, and against what the kernel really writes.

use super::{Completeness, Effect, memory_effects};

fn effect(write: bool, address: u64, size: u64) -> Effect {
    Effect {
        write,
        address,
        size,
    }
}

/// A program's memory: pieces at chosen addresses, padded with readable zeros to 4096 bytes.
struct Memory(Vec<(u64, Vec<u8>)>);

impl Memory {
    fn with(pieces: &[(u64, &[u8])]) -> Memory {
        let padded = pieces.iter().map(|(address, bytes)| {
            let mut bytes = bytes.to_vec();
            bytes.resize(4096, 0);
            (*address, bytes)
        });
        Memory(padded.collect())
    }

    fn read(&self, address: u64, out: &mut [u8]) -> bool {
        self.0.iter().any(|(start, bytes)| {
            let Some(offset) = address.checked_sub(*start) else {
                return false;
            };
            let Some(piece) = bytes.get(offset as usize..offset as usize + out.len()) else {
                return false;
            };
            out.copy_from_slice(piece);
            true
        })
    }
}

fn words(words: &[u64]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_le_bytes()).collect()
}

#[track_caller]
fn check(number: i64, arguments: [u64; 6], result: i64, memory: &Memory, expected: &[Effect]) {
    let mut effects = Vec::new();
    let read = |address: u64, out: &mut [u8]| memory.read(address, out);
    let completeness = memory_effects(number as u64, arguments, result, &read, &mut effects);
    assert_eq!(effects, expected);
    assert_eq!(completeness, Completeness::Complete);
}

#[track_caller]
fn check_unknown(number: i64, arguments: [u64; 6], result: i64, memory: &Memory) {
    let mut effects = Vec::new();
    let read = |address: u64, out: &mut [u8]| memory.read(address, out);
    let completeness = memory_effects(number as u64, arguments, result, &read, &mut effects);
    assert_eq!(completeness, Completeness::Unknown);
}

const NOWHERE: Memory = Memory(Vec::new());

#[test]
fn results_bound_what_is_transferred() {
    check(
        libc::SYS_read,
        [3, 0x1000, 100, 0, 0, 0],
        7,
        &NOWHERE,
        &[effect(true, 0x1000, 7)],
    );
    check(libc::SYS_read, [3, 0x1000, 100, 0, 0, 0], 0, &NOWHERE, &[]);
    check(libc::SYS_read, [3, 0x1000, 100, 0, 0, 0], -4, &NOWHERE, &[]);
    check(
        libc::SYS_write,
        [1, 0x1000, 5, 0, 0, 0],
        5,
        &NOWHERE,
        &[effect(false, 0x1000, 5)],
    );
    // A truncated datagram returns more than it stored.
    check(
        libc::SYS_recvfrom,
        [3, 0x1000, 10, 0x20, 0, 0],
        500,
        &NOWHERE,
        &[effect(true, 0x1000, 10)],
    );
    // Asked for the size alone.
    check(
        libc::SYS_getgroups,
        [0, 0x1000, 0, 0, 0, 0],
        3,
        &NOWHERE,
        &[],
    );
}

#[test]
fn bad_addresses_and_unknown_calls_are_not_guessed() {
    check_unknown(libc::SYS_read, [3, 1, 100, 0, 0, 0], -14, &NOWHERE);
    check_unknown(libc::SYS_bpf, [0, 0x1000, 100, 0, 0, 0], 0, &NOWHERE);
    check_unknown(100_000, [0; 6], 0, &NOWHERE);
    check_unknown(
        libc::SYS_ioctl,
        [3, 0xc010_6400, 0x1000, 0, 0, 0],
        0,
        &NOWHERE,
    );
    // The iovecs cannot be read.
    check_unknown(libc::SYS_readv, [3, 0x1000, 2, 0, 0, 0], 10, &NOWHERE);
    // Addresses that wrap around.
    check_unknown(
        libc::SYS_clone3,
        [u64::MAX - 3, 88, 0, 0, 0, 0],
        -22,
        &NOWHERE,
    );
    check_unknown(
        libc::SYS_execve,
        [u64::MAX, u64::MAX, 0, 0, 0, 0],
        -2,
        &NOWHERE,
    );
}

#[test]
fn strings_end_at_their_zero() {
    let memory = Memory::with(&[(0x1ff0, b"/a/rather/long/path/over/a/line\0")]);
    check(
        libc::SYS_newfstatat,
        [0, 0x1ff0, 0x5000, 0, 0, 0],
        0,
        &memory,
        &[effect(false, 0x1ff0, 32), effect(true, 0x5000, 144)],
    );
    // Failing, it wrote nothing.
    check(
        libc::SYS_newfstatat,
        [0, 0x1ff0, 0x5000, 0, 0, 0],
        -2,
        &memory,
        &[effect(false, 0x1ff0, 32)],
    );
}

#[test]
fn vectors_are_filled_in_order() {
    let memory = Memory::with(&[(0x1000, &words(&[0x5000, 8, 0, 9, 0x6000, 100, 0x7000, 5]))]);
    check(
        libc::SYS_readv,
        [3, 0x1000, 4, 0, 0, 0],
        27,
        &memory,
        &[
            effect(false, 0x1000, 64),
            effect(true, 0x5000, 8),
            effect(true, 0x6000, 10),
        ],
    );
}

#[test]
fn messages() {
    let header = words(&[0x5000, 16, 0x2000, 1, 0x7000, 24, 0]);
    let memory = Memory::with(&[(0x1000, &header), (0x2000, &words(&[0x6000, 100]))]);
    check(
        libc::SYS_recvmsg,
        [3, 0x1000, 0, 0, 0, 0],
        40,
        &memory,
        &[
            effect(false, 0x1000, 56),
            effect(true, 0x5000, 16),
            effect(false, 0x2000, 16),
            effect(true, 0x6000, 40),
            effect(true, 0x7000, 24),
            effect(true, 0x1008, 4),
            effect(true, 0x1028, 12),
        ],
    );
}

#[test]
fn commands() {
    let wait = [0x1000, 0x80, 5, 0x2000, 0, 0];
    check(
        libc::SYS_futex,
        wait,
        -110,
        &NOWHERE,
        &[effect(false, 0x1000, 4), effect(false, 0x2000, 16)],
    );
    // The fourth argument of a requeue is a number.
    check(
        libc::SYS_futex,
        [0x1000, 0x84, 1, 0x7fff_ffff, 0x3000, 5],
        1,
        &NOWHERE,
        &[effect(false, 0x1000, 4)],
    );
    check(
        libc::SYS_futex,
        [0x1000, 0x81, 1, 9, 9, 9],
        1,
        &NOWHERE,
        &[],
    );
    check(
        libc::SYS_ioctl,
        [0, 0x5401, 0x1000, 0, 0, 0],
        0,
        &NOWHERE,
        &[effect(true, 0x1000, 36)],
    );
    check(
        libc::SYS_ioctl,
        [0, 0x5401, 0x1000, 0, 0, 0],
        -25,
        &NOWHERE,
        &[],
    );
    check(
        libc::SYS_epoll_ctl,
        [3, 2, 4, 0x1234, 0, 0],
        0,
        &NOWHERE,
        &[],
    );
    let flags = 0x3d_0f00;
    check(
        libc::SYS_clone,
        [flags, 0x9000, 0x1000, 0x2000, 0x3000, 0],
        77,
        &NOWHERE,
        &[effect(true, 0x1000, 4)],
    );
    let interrupted = -i64::from(libc::EINTR);
    check(
        libc::SYS_nanosleep,
        [0x1000, 0x2000, 0, 0, 0, 0],
        interrupted,
        &NOWHERE,
        &[effect(false, 0x1000, 16), effect(true, 0x2000, 16)],
    );
    check(
        libc::SYS_wait4,
        [7, 0x1000, 1, 0x2000, 0, 0],
        0,
        &NOWHERE,
        &[],
    );
}

/// Makes a real call on `arena` and demands that all bytes that it changed are listed as
/// written, and that all that are listed lie in the arena.
#[track_caller]
fn observe(number: i64, arena: &mut [u64], arguments: [u64; 6]) -> i64 {
    let bytes = |arena: &[u64]| words(arena);
    let (start, before) = (arena.as_ptr() as u64, bytes(arena));
    let [a, b, c, d, e, f] = arguments;
    // SAFETY: the arguments point into the arena, which is large enough for each call.
    let result = unsafe { libc::syscall(number, a, b, c, d, e, f) };
    let result = if result == -1 {
        -i64::from(std::io::Error::last_os_error().raw_os_error().unwrap())
    } else {
        result
    };
    let after = bytes(arena);
    let read = |address: u64, out: &mut [u8]| {
        // SAFETY: the calls are given valid pointers only.
        unsafe { std::ptr::copy_nonoverlapping(address as *const u8, out.as_mut_ptr(), out.len()) };
        true
    };
    let mut effects = Vec::new();
    let completeness = memory_effects(number as u64, arguments, result, &read, &mut effects);
    assert_eq!(completeness, Completeness::Complete);
    for (index, (old, new)) in before.iter().zip(&after).enumerate() {
        let address = start + index as u64;
        let is_listed = effects.iter().any(|effect| {
            effect.write && (effect.address..effect.address + effect.size).contains(&address)
        });
        assert!(
            old == new || is_listed,
            "call {number}: byte {index} changed, {effects:x?}"
        );
    }
    result
}

/// A fresh arena, and its address.
fn arena() -> (Vec<u64>, u64) {
    let arena = vec![0xa5a5_5a5a_c33c_3cc3; 1024];
    let address = arena.as_ptr() as u64;
    (arena, address)
}

#[test]
fn the_kernel_writes_what_is_listed() {
    let at_current = libc::AT_FDCWD as u64;
    let path = c"/proc/self/exe".as_ptr() as u64;
    let directory = c"/".as_ptr() as u64;
    // For each call its arguments, of which `0xA000 + n` stands for arena byte n.
    let calls: &[(i64, [u64; 6])] = &[
        (libc::SYS_uname, [0xa000, 0, 0, 0, 0, 0]),
        (libc::SYS_sysinfo, [0xa000, 0, 0, 0, 0, 0]),
        (libc::SYS_times, [0xa000, 0, 0, 0, 0, 0]),
        (libc::SYS_time, [0xa000, 0, 0, 0, 0, 0]),
        (libc::SYS_getcwd, [0xa000, 4096, 0, 0, 0, 0]),
        (libc::SYS_clock_gettime, [0, 0xa000, 0, 0, 0, 0]),
        (libc::SYS_clock_getres, [1, 0xa000, 0, 0, 0, 0]),
        (libc::SYS_gettimeofday, [0xa000, 0xa100, 0, 0, 0, 0]),
        (libc::SYS_getcpu, [0xa000, 0xa010, 0, 0, 0, 0]),
        (libc::SYS_getresuid, [0xa000, 0xa010, 0xa020, 0, 0, 0]),
        (libc::SYS_getrlimit, [7, 0xa000, 0, 0, 0, 0]),
        (libc::SYS_prlimit64, [0, 7, 0, 0xa000, 0, 0]),
        (libc::SYS_getrusage, [0, 0xa000, 0, 0, 0, 0]),
        (libc::SYS_getrandom, [0xa000, 33, 0, 0, 0, 0]),
        (libc::SYS_stat, [path, 0xa000, 0, 0, 0, 0]),
        (libc::SYS_newfstatat, [at_current, path, 0xa000, 0, 0, 0]),
        (libc::SYS_statx, [at_current, path, 0, 0xfff, 0xa000, 0]),
        (libc::SYS_statfs, [directory, 0xa000, 0, 0, 0, 0]),
        (libc::SYS_readlink, [path, 0xa000, 100, 0, 0, 0]),
        (libc::SYS_readlinkat, [at_current, path, 0xa000, 100, 0, 0]),
        (libc::SYS_rt_sigprocmask, [0, 0, 0xa000, 8, 0, 0]),
        (libc::SYS_rt_sigaction, [10, 0, 0xa000, 8, 0, 0]),
        (libc::SYS_rt_sigpending, [0xa000, 8, 0, 0, 0, 0]),
        (libc::SYS_sigaltstack, [0, 0xa000, 0, 0, 0, 0]),
        (libc::SYS_getitimer, [0, 0xa000, 0, 0, 0, 0]),
        (libc::SYS_sched_getaffinity, [0, 1024, 0xa000, 0, 0, 0]),
        (libc::SYS_sched_getparam, [0, 0xa000, 0, 0, 0, 0]),
        (libc::SYS_sched_getattr, [0, 0xa000, 48, 0, 0, 0]),
        (libc::SYS_sched_rr_get_interval, [0, 0xa000, 0, 0, 0, 0]),
        (libc::SYS_get_robust_list, [0, 0xa000, 0xa010, 0, 0, 0]),
        (libc::SYS_prctl, [16, 0xa000, 0, 0, 0, 0]),
        (libc::SYS_arch_prctl, [0x1003, 0xa000, 0, 0, 0, 0]),
        (libc::SYS_getgroups, [1000, 0xa000, 0, 0, 0, 0]),
    ];
    let mut failed = Vec::new();
    for (number, arguments) in calls {
        let (mut arena, start) = arena();
        let arguments = arguments.map(|argument| match argument {
            0xa000..0xc000 => start + argument - 0xa000,
            other => other,
        });
        let result = observe(*number, &mut arena, arguments);
        if result < 0 {
            failed.push((*number, result));
        }
    }
    // Where a call is not permitted it shows nothing; but some must be.
    assert!(failed.len() < 5, "calls that failed: {failed:?}");
}

#[test]
fn sockets_and_files_write_what_is_listed() {
    let (mut memory, start) = arena();
    let pair = start + 512;
    assert_eq!(
        observe(libc::SYS_socketpair, &mut memory, [1, 2, 0, pair, 0, 0]),
        0
    );
    let [first, second] = [memory[64] & 0xffff_ffff, memory[64] >> 32];
    let send = || {
        let (mut memory, start) = arena();
        assert_eq!(
            observe(libc::SYS_sendto, &mut memory, [first, start, 20, 0, 0, 0]),
            20
        );
    };
    send();
    let receive = |number, extra: &dyn Fn(&mut [u64], u64) -> [u64; 6], expected| {
        let (mut memory, start) = arena();
        let arguments = extra(&mut memory, start);
        assert_eq!(
            observe(number, &mut memory, arguments),
            expected,
            "call {number}"
        );
    };
    receive(
        libc::SYS_ioctl,
        &|_, start| [second, 0x541b, start, 0, 0, 0],
        0,
    );
    receive(
        libc::SYS_poll,
        &|memory, start| {
            memory[0] = second | 1 << 32;
            [start, 1, 0, 0, 0, 0]
        },
        1,
    );
    receive(
        libc::SYS_recvfrom,
        &|memory, start| {
            memory[100] = 64;
            [second, start, 100, 0, start + 256, start + 800]
        },
        20,
    );
    send();
    receive(
        libc::SYS_recvmsg,
        &|memory, start| {
            memory[..7].copy_from_slice(&[start + 512, 64, start + 64, 2, start + 1024, 64, 0]);
            memory[8..12].copy_from_slice(&[start + 2048, 8, start + 3072, 100]);
            [second, start, 0, 0, 0, 0]
        },
        20,
    );
    receive(
        libc::SYS_getsockname,
        &|memory, start| {
            memory[100] = 64;
            [second, start, start + 800, 0, 0, 0]
        },
        0,
    );
    receive(
        libc::SYS_getsockopt,
        &|memory, start| {
            memory[100] = 4;
            [second, 1, 3, start, start + 800, 0]
        },
        0,
    );
    for descriptor in [first, second] {
        receive(libc::SYS_close, &|_, _| [descriptor, 0, 0, 0, 0, 0], 0);
    }
    let directory = observe(
        libc::SYS_open,
        &mut memory,
        [c"/".as_ptr() as u64, 0x10000, 0, 0, 0, 0],
    );
    let (mut listing, start) = arena();
    let listed = [directory as u64, start, 4096, 0, 0, 0];
    assert!(observe(libc::SYS_getdents64, &mut listing, listed) > 0);
    observe(
        libc::SYS_close,
        &mut listing,
        [directory as u64, 0, 0, 0, 0, 0],
    );
}
