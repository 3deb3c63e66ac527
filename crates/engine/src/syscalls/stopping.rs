//! `ptrace` between processes that share their memory: this is how sanitizers stop all threads
//! of their program to look for leaks.
//!
//! Tracer and traced thread then share the engine too. So the thread must not be stopped while
//! it has a lock without which the tracer cannot run on; and its registers are the engine's
//! while it is there. Its vector registers are shown as they are.

use std::path::Path;

use libc::{c_long, c_uint};
use unspool_code_cache::address::CacheAddress;
use unspool_kernel::ids::{Pid, Tid};
use unspool_kernel::{guarded, lock};

use super::pass;
use crate::call::Call;
use crate::detach;
use crate::process::{Process, ThreadHandle};
use crate::thread::Thread;

/// The set of general registers, for `PTRACE_GETREGSET`.
const NT_PRSTATUS: u64 = 1;
/// Where the kernel's `user_regs_struct` has each general register, by its number.
const PLACES: [usize; 16] = [10, 11, 12, 5, 19, 4, 13, 14, 9, 8, 7, 6, 3, 2, 1, 0];
const PC_PLACE: usize = 16;
const FLAGS_PLACE: usize = 18;
const FS_BASE_PLACE: usize = 21;
const GS_BASE_PLACE: usize = 22;
/// The words of a `user_regs_struct` up to what is shown here.
const WORDS: usize = GS_BASE_PLACE + 1;

/// `ptrace`.
pub(super) fn trace(process: &Process, thread: &mut Thread, call: &Call) -> i64 {
    let [request, thread_id, address, data, ..] = call.arguments;
    let tid = Tid::of(thread_id as i32);
    match request as c_uint {
        libc::PTRACE_TRACEME => detach::wants_tracer(thread).unwrap_or_else(|| pass(process, call)),
        libc::PTRACE_ATTACH | libc::PTRACE_INTERRUPT if find(process, tid).is_some() => {
            stop(process, call)
        }
        libc::PTRACE_ATTACH | libc::PTRACE_SEIZE if !shares_memory(process, tid) => {
            detach::let_go_for_tracer(tid).unwrap_or_else(|| pass(process, call))
        }
        libc::PTRACE_GETREGS => {
            let result = pass(process, call);
            if result == 0 {
                show_registers(process, tid, data, size_of::<[u64; WORDS]>() as u64);
            }
            result
        }
        libc::PTRACE_GETREGSET if address == NT_PRSTATUS => {
            let result = pass(process, call);
            let mut vector = [0; 16];
            if result == 0 && guarded::read(data, &mut vector) {
                let [base, length] = words(&vector);
                show_registers(process, tid, base, length);
            }
            result
        }
        _ => pass(process, call),
    }
}

/// The thread with an id, if it shares this memory.
fn find(process: &Process, tid: Tid) -> Option<ThreadHandle> {
    let threads = process.threads.lock();
    let same = |handle: &&ThreadHandle| handle.tid == tid;
    threads.iter().find(same).copied()
}

/// Whether an id is that of a thread that shares this memory, be it one of the engine's own.
fn shares_memory(process: &Process, tid: Tid) -> bool {
    if find(process, tid).is_some() {
        return true;
    }
    let threads = process.threads.lock();
    let mut processes: Vec<Pid> = threads.iter().map(|handle| handle.process).collect();
    drop(threads);
    processes.sort_unstable();
    processes.dedup();
    let is_of = |process: &Pid| Path::new(&format!("/proc/{process}/task/{tid}")).exists();
    processes.iter().any(is_of)
}

/// Stops a thread, while it is sure not to hold any lock of the engine's.
fn stop(process: &Process, call: &Call) -> i64 {
    let _others_excluded = lock::exclude_others();
    let result = pass_locked(process, call);
    if result == 0 {
        let tid = call.arguments[1] as libc::id_t;
        // What the tracer is to be told of the stop is left for it.
        let how = libc::WSTOPPED | libc::WNOWAIT | libc::__WALL;
        // SAFETY: the kernel writes nothing where it is given no place to.
        unsafe { libc::syscall(libc::SYS_waitid, libc::P_PID, tid, 0, c_long::from(how), 0) };
    }
    result
}

/// Lets the kernel do it, while others are kept from locks.
fn pass_locked(process: &Process, call: &Call) -> i64 {
    // SAFETY: neither request that comes here has the kernel write to memory.
    unsafe { process.gates.call_kernel(call.number, &call.arguments) }
}

/// Replaces a stopped thread's registers, as the kernel gave them, by the program's.
fn show_registers(process: &Process, tid: Tid, at: u64, length: u64) {
    let mut bytes = [0; size_of::<[u64; WORDS]>()];
    let Some(handle) = find(process, tid) else {
        return;
    };
    if length < bytes.len() as u64 || !guarded::read(at, &mut bytes) {
        return;
    }
    let mut registers: [u64; WORDS] = words(&bytes);
    let thread = handle.thread;
    // SAFETY: the thread is listed and stopped.
    let slots = unsafe { (*thread).slots() };
    let cache = &process.code().cache;
    let pc = registers[PC_PLACE];
    let in_cache = CacheAddress::of(pc);
    match in_cache.and_then(|there| Some((there, cache.position(there)?))) {
        Some((there, position)) => {
            registers[PC_PLACE] = position.pc;
            for spill in cache.spills_at(position.fragment, there) {
                if let Some(&place) = PLACES.get(usize::from(spill.register)) {
                    registers[place] = slots.spills[usize::from(spill.slot)].get();
                }
            }
        }
        None => {
            for (place, value) in PLACES.into_iter().zip(slots.registers()) {
                registers[place] = value;
            }
            registers[PC_PLACE] = slots.pc.get();
            registers[FLAGS_PLACE] = slots.flags.get();
        }
    }
    registers[FS_BASE_PLACE] = slots.program_fs.get();
    registers[GS_BASE_PLACE] = slots.program_gs.get();
    let bytes: Vec<u8> = registers
        .iter()
        .flat_map(|word| word.to_le_bytes())
        .collect();
    // The kernel has just written there.
    let _ = guarded::write(at, &bytes);
}

fn words<const N: usize>(bytes: &[u8]) -> [u64; N] {
    let (words, _) = bytes.as_chunks::<8>();
    std::array::from_fn(|index| u64::from_le_bytes(words[index]))
}
