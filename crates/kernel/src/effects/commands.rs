//! System calls whose arguments mean different things for different commands, or that take
//! structures with pointers.

use super::{Completeness, DescribedCall};
use crate::own_process::is_own;

/// Lists the effects of a call that the table does not describe. Returns whether it is known.
pub(super) fn apply(number: i64, call: &mut DescribedCall<'_>) -> bool {
    match number {
        libc::SYS_ioctl => control_device(call),
        libc::SYS_fcntl => control_descriptor(call),
        libc::SYS_futex => futex(call),
        libc::SYS_futex_waitv => futex_wait_many(call),
        libc::SYS_prctl => control_process(call),
        libc::SYS_arch_prctl => control_thread_pointer(call),
        libc::SYS_clone => clone(call),
        libc::SYS_clone3 => clone_by_structure(call),
        libc::SYS_execve => execute(call, 0),
        libc::SYS_execveat => execute(call, 1),
        libc::SYS_seccomp => seccomp(call),
        libc::SYS_shmctl => control_shared(call, 112),
        libc::SYS_msgctl => control_shared(call, 120),
        libc::SYS_pselect6 => select_with_mask(call),
        libc::SYS_process_vm_readv => process_memory(call, true),
        libc::SYS_process_vm_writev => process_memory(call, false),
        libc::SYS_sched_setattr => {
            let attributes = call.arguments[1];
            let size = u64::from(call.fetch_u32(attributes)).max(48);
            call.add(false, attributes, size);
        }
        libc::SYS_wait4 => wait_for_child(call),
        // Asked for no group, the kernel only counts them.
        libc::SYS_getgroups => {
            let most = u64::from(call.arguments[0] as u32);
            let size = call.returned().min(most) * 4;
            call.add(true, call.arguments[1], size);
        }
        // Removing a descriptor takes no event.
        libc::SYS_epoll_ctl if call.arguments[1] != 2 => call.add(false, call.arguments[3], 12),
        libc::SYS_epoll_ctl => {}
        libc::SYS_msgrcv => {
            let size = call.returned().min(call.arguments[2]);
            if call.succeeded() {
                call.add(true, call.arguments[1], size.saturating_add(8));
            }
        }
        libc::SYS_msgsnd => {
            let size = call.arguments[2].saturating_add(8);
            call.add(false, call.arguments[1], size);
        }
        libc::SYS_mincore => {
            if call.succeeded() {
                call.add(true, call.arguments[2], call.arguments[1].div_ceil(4096));
            }
        }
        libc::SYS_perf_event_open => {
            let size = u64::from(call.fetch_u32(call.arguments[0].wrapping_add(4))).max(64);
            call.add(false, call.arguments[0], size);
        }
        _ => return false,
    }
    true
}

/// The commands of terminals, sockets, files and block devices; what others accept may hold
/// pointers of which nothing is known.
fn control_device(call: &mut DescribedCall<'_>) {
    let (command, address) = (call.arguments[1] as u32, call.arguments[2]);
    let (reads, writes) = match command {
        // Terminals: attributes (three generations of them), window size, process group.
        0x5401 => (0, 36),
        0x5402..=0x5404 => (36, 0),
        0x5405 => (0, 18),
        0x5406..=0x5408 => (18, 0),
        0x540f | 0x5411 | 0x5415 | 0x5419 | 0x5424 | 0x5429 => (0, 4),
        0x5410 | 0x5416..=0x5418 | 0x541a | 0x5423 => (4, 0),
        0x5412 => (1, 0),
        0x5413 => (0, 8),
        0x5414 => (8, 0),
        // Break, flow control, flush, exclusive use, controlling terminal, packet mode.
        0x5409..=0x540e | 0x5422 | 0x5425..=0x5428 => (0, 0),
        0x5420 => (4, 0),
        // Any descriptor: bytes to read, non-blocking, asynchronous, close on exec.
        0x541b => (0, 4),
        0x5421 | 0x5452 => (4, 0),
        0x5450 | 0x5451 => (0, 0),
        0x5460 => (0, 8),
        // Sockets: owner, urgent mark; interface requests are 40 bytes both ways.
        0x8901 | 0x8902 => (4, 0),
        0x8903..=0x8905 => (0, 4),
        0x8912 => return interface_list(call),
        0x8910..=0x892f | 0x8933..=0x8945 => (40, 40),
        // Files: flags, version; clone, pin. Declared as long, but four bytes are moved.
        0x8008_6601 => (0, 4),
        0x4008_6602 => (4, 0),
        0x4004_9409 => (0, 0),
        // Block devices: size in sectors, sector size, read-only.
        0x1260 => (0, 8),
        0x1268 | 0x125e => (0, 4),
        _ => return encoded_command(call),
    };
    add_both(call, address, reads, writes);
}

/// Commands that encode direction and size in their number.
fn encoded_command(call: &mut DescribedCall<'_>) {
    let (command, address) = (call.arguments[1] as u32, call.arguments[2]);
    let size = u64::from(command >> 16 & 0x3fff);
    let reads = if command >> 30 & 1 != 0 { size } else { 0 };
    let writes = if command >> 31 != 0 { size } else { 0 };
    add_both(call, address, reads, writes);
    // Terminals (T) have no structures with pointers in them; their older commands, which
    // encode nothing, are listed above.
    if command >> 8 & 0xff != u32::from(b'T') || size == 0 {
        call.completeness = Completeness::Unknown;
    }
}

/// SIOCGIFCONF: a size and a buffer of that size.
fn interface_list(call: &mut DescribedCall<'_>) {
    let list = call.arguments[2];
    add_both(call, list, 16, 4);
    let size = u64::from(call.fetch_u32(list));
    let buffer = call.fetch_u64(list.wrapping_add(8));
    if call.succeeded() {
        call.add(true, buffer, size);
    }
}

/// Lists `reads` bytes read and, if the call succeeded, `writes` bytes written.
fn add_both(call: &mut DescribedCall<'_>, address: u64, reads: u64, writes: u64) {
    call.add(false, address, reads);
    if call.succeeded() {
        call.add(true, address, writes);
    }
}

fn control_descriptor(call: &mut DescribedCall<'_>) {
    let address = call.arguments[2];
    match call.arguments[1] {
        // Locks, of the process (5 to 7) and of the open file (36 to 38).
        5 | 36 => add_both(call, address, 32, 32),
        6 | 7 | 37 | 38 => add_both(call, address, 32, 0),
        // Owner.
        15 => add_both(call, address, 8, 0),
        16 | 17 => add_both(call, address, 0, 8),
        // Write-life hints.
        1035 | 1037 => add_both(call, address, 0, 8),
        1036 | 1038 => add_both(call, address, 8, 0),
        _ => {}
    }
}

fn futex(call: &mut DescribedCall<'_>) {
    let [word, operation, _, timeout, second_word, _] = call.arguments;
    match operation & 0x7f {
        // Wait, with or without bits, or to be requeued.
        0 | 9 => {
            call.add(false, word, 4);
            call.add(false, timeout, 16);
        }
        11 => {
            call.add(false, word, 4);
            call.add(false, timeout, 16);
            add_both(call, second_word, 4, 4);
        }
        // Wake, requeue.
        1 | 3 | 10 => {}
        // Compare and requeue.
        4 => call.add(false, word, 4),
        12 => {
            call.add(false, word, 4);
            add_both(call, second_word, 4, 4);
        }
        // Wake and operate on the second word.
        5 => add_both(call, second_word, 4, 4),
        // Locks with priority inheritance.
        6 | 13 => {
            add_both(call, word, 4, 4);
            call.add(false, timeout, 16);
        }
        7 | 8 => add_both(call, word, 4, 4),
        _ => call.completeness = Completeness::Unknown,
    }
}

fn futex_wait_many(call: &mut DescribedCall<'_>) {
    let [array, count, _, timeout, ..] = call.arguments;
    let count = count.min(128);
    call.add(false, array, count * 24);
    for index in 0..count {
        let word = call.fetch_u64(array.wrapping_add(index * 24 + 8));
        call.add(false, word, 4);
    }
    call.add(false, timeout, 16);
}

fn control_process(call: &mut DescribedCall<'_>) {
    let address = call.arguments[1];
    match call.arguments[0] as i32 {
        libc::PR_SET_NAME => {
            let size = call.string_size(address).min(16);
            call.add(false, address, size);
        }
        libc::PR_GET_NAME => add_both(call, address, 0, 16),
        libc::PR_GET_PDEATHSIG | libc::PR_GET_TSC | libc::PR_GET_CHILD_SUBREAPER => {
            add_both(call, address, 0, 4);
        }
        libc::PR_GET_TID_ADDRESS => add_both(call, address, 0, 8),
        libc::PR_SET_SECCOMP => seccomp_filter(call, call.arguments[2]),
        libc::PR_SET_VMA => {
            let name = call.arguments[4];
            if name != 0 {
                let size = call.string_size(name);
                call.add(false, name, size);
            }
        }
        libc::PR_SET_PDEATHSIG
        | libc::PR_GET_DUMPABLE
        | libc::PR_SET_DUMPABLE
        | libc::PR_GET_KEEPCAPS
        | libc::PR_SET_KEEPCAPS
        | libc::PR_GET_TIMING
        | libc::PR_SET_TIMING
        | libc::PR_GET_SECCOMP
        | libc::PR_CAPBSET_READ
        | libc::PR_CAPBSET_DROP
        | libc::PR_SET_TSC
        | libc::PR_GET_SECUREBITS
        | libc::PR_SET_SECUREBITS
        | libc::PR_SET_TIMERSLACK
        | libc::PR_GET_TIMERSLACK
        | libc::PR_TASK_PERF_EVENTS_DISABLE
        | libc::PR_TASK_PERF_EVENTS_ENABLE
        | libc::PR_MCE_KILL
        | libc::PR_MCE_KILL_GET
        | libc::PR_SET_CHILD_SUBREAPER
        | libc::PR_SET_NO_NEW_PRIVS
        | libc::PR_GET_NO_NEW_PRIVS
        | libc::PR_SET_THP_DISABLE
        | libc::PR_GET_THP_DISABLE
        | libc::PR_CAP_AMBIENT
        | libc::PR_SET_PTRACER => {}
        _ => call.completeness = Completeness::Unknown,
    }
}

/// Waiting for a child: if there was none to report, nothing is written.
fn wait_for_child(call: &mut DescribedCall<'_>) {
    if call.result > 0 {
        call.add(true, call.arguments[1], 4);
        call.add(true, call.arguments[3], 144);
    }
}

fn control_thread_pointer(call: &mut DescribedCall<'_>) {
    // Get FS, get GS, and the state components that the process may use.
    if matches!(
        call.arguments[0],
        0x1003 | 0x1004 | 0x1021 | 0x1022 | 0x1024 | 0x1025
    ) {
        add_both(call, call.arguments[1], 0, 8);
    }
}

const CLONE_PIDFD: u64 = 0x1000;
const CLONE_PARENT_SETTID: u64 = 0x10_0000;
const CLONE_CHILD_SETTID: u64 = 0x100_0000;
const CLONE_VM: u64 = 0x100;

fn clone(call: &mut DescribedCall<'_>) {
    let [flags, _, parent_id, child_id, ..] = call.arguments;
    add_thread_ids(call, flags, parent_id, parent_id, child_id);
}

fn clone_by_structure(call: &mut DescribedCall<'_>) {
    let [structure, size, ..] = call.arguments;
    call.add(false, structure, size);
    let flags = call.fetch_u64(structure);
    let descriptor = call.fetch_u64(structure.wrapping_add(8));
    let child_id = call.fetch_u64(structure.wrapping_add(16));
    let parent_id = call.fetch_u64(structure.wrapping_add(24));
    add_thread_ids(call, flags, descriptor, parent_id, child_id);
    if size >= 80 {
        let ids = call.fetch_u64(structure.wrapping_add(64));
        let count = call.fetch_u64(structure.wrapping_add(72));
        call.add(false, ids, count.min(32) * 4);
    }
}

/// What the kernel tells about a new thread or process. A child with its own memory is told
/// there, which is not this program's.
fn add_thread_ids(
    call: &mut DescribedCall<'_>,
    flags: u64,
    descriptor: u64,
    parent_id: u64,
    child_id: u64,
) {
    if !call.succeeded() {
        return;
    }
    if flags & CLONE_PIDFD != 0 {
        call.add(true, descriptor, 4);
    }
    if flags & CLONE_PARENT_SETTID != 0 {
        call.add(true, parent_id, 4);
    }
    if flags & (CLONE_CHILD_SETTID | CLONE_VM) == CLONE_CHILD_SETTID | CLONE_VM {
        call.add(true, child_id, 4);
    }
}

/// The path, the arguments and the environment, from argument number `path` on. It is seen
/// only where it failed; else this memory is gone.
fn execute(call: &mut DescribedCall<'_>, path: usize) {
    let size = call.string_size(call.arguments[path]);
    call.add(false, call.arguments[path], size);
    for list in [call.arguments[path + 1], call.arguments[path + 2]] {
        let mut entry = list;
        while entry != 0 {
            let string = call.fetch_u64(entry);
            call.add(false, entry, 8);
            if string == 0 || call.completeness == Completeness::Unknown {
                break;
            }
            let size = call.string_size(string);
            call.add(false, string, size);
            entry = entry.wrapping_add(8);
        }
    }
}

fn seccomp(call: &mut DescribedCall<'_>) {
    match call.arguments[0] {
        0 => {}
        1 => seccomp_filter(call, call.arguments[2]),
        // Whether an action exists; sizes of the notification structures.
        2 => add_both(call, call.arguments[2], 4, 0),
        3 => add_both(call, call.arguments[2], 0, 6),
        _ => call.completeness = Completeness::Unknown,
    }
}

/// A filter program: a length and a pointer to that many instructions of eight bytes.
fn seccomp_filter(call: &mut DescribedCall<'_>, program: u64) {
    if program == 0 {
        return;
    }
    call.add(false, program, 16);
    let length = u64::from(u16::from_le_bytes(call.fetch(program)));
    let instructions = call.fetch_u64(program.wrapping_add(8));
    call.add(false, instructions, length * 8);
}

/// Control of shared memory and message queues, whose description has `size` bytes.
fn control_shared(call: &mut DescribedCall<'_>, size: u64) {
    match call.arguments[1] {
        // Remove, lock, unlock.
        0 | 11 | 12 => {}
        1 => add_both(call, call.arguments[2], size, 0),
        2 => add_both(call, call.arguments[2], 0, size),
        _ => call.completeness = Completeness::Unknown,
    }
}

fn select_with_mask(call: &mut DescribedCall<'_>) {
    for set in 1..=3 {
        let size = u64::from((call.arguments[0] as u32).div_ceil(64)) * 8;
        add_both(call, call.arguments[set], size, size);
    }
    let time = call.arguments[4];
    add_both(call, time, 16, 16);
    if call.result == -i64::from(libc::EINTR) {
        call.add(true, time, 16);
    }
    let mask = call.arguments[5];
    if mask != 0 {
        call.add(false, mask, 16);
        let (address, size) = (call.fetch_u64(mask), call.fetch_u64(mask.wrapping_add(8)));
        call.add(false, address, size);
    }
}

/// Copying from or to another process, which may be this one.
fn process_memory(call: &mut DescribedCall<'_>, into_this_process: bool) {
    let [process, local, local_count, remote, remote_count, _] = call.arguments;
    let limit = call.returned();
    call.add_vectors(into_this_process, local, local_count, limit);
    if is_own(process) {
        call.add_vectors(!into_this_process, remote, remote_count, limit);
    } else {
        call.add(false, remote, remote_count.min(1024) * 16);
    }
}
