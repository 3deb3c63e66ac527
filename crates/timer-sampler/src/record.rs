//! Records, as the kernel writes them for `perf_event_open(2)`: of samples; and of what happens to
//! a process and its threads.

use std::mem::MaybeUninit;

use unspool_sample_slots::MAPS;

use crate::clock::now_ns;
use crate::slot::{Room, Slot};
use crate::system_call::system_call;

const COMM: u32 = 3;
const FORK: u32 = 7;
const SAMPLE: u32 = 9;
const MODE_USER: u16 = 2;
const IS_EXECUTION: u16 = 1 << 13;

/// What stands behind each record but samples: process, thread, time.
const TRAILER_BYTES: usize = 16;
const NAME_BYTES: usize = 16;
/// A record's length has 16 bits.
const CHUNK_BYTES: usize = 32 << 10;

/// Bytes of a sample before the stack: where, who, when, period, and registers after their number;
/// then the stack's length.
const SAMPLE_BYTES: usize = 8 + 8 + 8 + 8 + 8 + 8 + 17 * 8 + 8;

fn header(kind: u32, bits: u16, bytes: usize) -> u64 {
    u64::from(kind) | u64::from(bits) << 32 | (bytes as u64) << 48
}

/// A thread of a process.
#[derive(Clone, Copy)]
pub(crate) struct Who {
    pub(crate) pid: u32,
    pub(crate) tid: u32,
}

impl Who {
    fn word(self) -> u64 {
        u64::from(self.pid) | u64::from(self.tid) << 32
    }
}

/// What a sample says besides the stack.
pub(crate) struct Sample {
    pub(crate) who: Who,
    pub(crate) weight_ns: u64,
    /// rax, rbx, rcx, rdx, rsi, rdi, rbp, rsp, rip, r8 to r15.
    pub(crate) registers: [u64; 17],
}

impl Sample {
    const SP: usize = 7;
    const PC: usize = 8;

    /// Writes it with the memory from its stack pointer up to `end`; false where there is no room.
    pub(crate) fn write(&self, slot: Slot, end: u64, most: usize) -> bool {
        let start = self.registers[Self::SP];
        let available = end.saturating_sub(start) as usize & !7;
        let copied = available.min(most);
        // More room than was filled says that this is all.
        let length = copied + if available < most { 8 } else { 0 };
        let Some(mut room) = self.begin(slot, length) else {
            return false;
        };
        let from = std::ptr::with_exposed_provenance(start as usize);
        // SAFETY: memory of the thread's stack, above its stack pointer.
        unsafe { room.copy(from, copied) };
        Self::end(room, length, copied)
    }

    /// The same, where nobody knows how far there is memory.
    pub(crate) fn write_readable(&self, slot: Slot, most: usize) -> bool {
        let start = self.registers[Self::SP];
        let Some(mut room) = self.begin(slot, most) else {
            return false;
        };
        let copied = read(self.who.pid, start, room.parts(most)) & !7;
        room.advance(copied);
        Self::end(room, most, copied)
    }

    fn begin(&self, slot: Slot, length: usize) -> Option<Room> {
        let bytes = SAMPLE_BYTES + length + 8;
        let mut room = slot.room(bytes)?;
        room.put(header(SAMPLE, MODE_USER, bytes));
        room.put(self.registers[Self::PC]);
        room.put(self.who.word());
        room.put(now_ns());
        room.put(self.weight_ns);
        // Registers of a 64-bit program.
        room.put(2);
        for register in self.registers {
            room.put(register);
        }
        room.put(length as u64);
        Some(room)
    }

    fn end(mut room: Room, length: usize, copied: usize) -> bool {
        room.advance(length - copied);
        room.put(copied as u64);
        room.publish();
        true
    }
}

/// Copies memory of this process as far as it can be read, page by page.
fn read(pid: u32, mut start: u64, parts: [(*mut u8, usize); 2]) -> usize {
    const PIECES: usize = 18;
    let piece = |base: u64, length: u64| libc::iovec {
        iov_base: std::ptr::with_exposed_provenance_mut(base as usize),
        iov_len: length as usize,
    };
    let to = parts.map(|(start, bytes)| libc::iovec {
        iov_base: start.cast(),
        iov_len: bytes,
    });
    // A piece that cannot be read is left out as a whole, and what comes after it.
    let end = start + (parts[0].1 + parts[1].1) as u64;
    let mut pieces: [MaybeUninit<libc::iovec>; PIECES] = [const { MaybeUninit::uninit() }; PIECES];
    let mut count = 0;
    while start < end && count < PIECES {
        let next = ((start | 4095) + 1).min(end);
        pieces[count].write(piece(start, next - start));
        (start, count) = (next, count + 1);
    }
    // SAFETY: the kernel reads as many pieces as were filled, and writes within the parts.
    let copied = unsafe {
        let (to, pieces) = ((to.as_ptr().addr(), to.len()), pieces.as_ptr().addr());
        let arguments = [pid as usize, to.0, to.1, pieces, count, 0];
        system_call(libc::SYS_process_vm_readv, arguments)
    };
    usize::try_from(copied).unwrap_or(0)
}

/// Writes a record of these bytes, which are a whole number of words.
fn write(slot: Slot, who: Who, kind: u32, bits: u16, body: &[u8]) {
    let bytes = 8 + body.len() + TRAILER_BYTES;
    let Some(mut room) = slot.room(bytes) else {
        return;
    };
    room.put(header(kind, bits, bytes));
    // SAFETY: bytes of the caller's.
    unsafe { room.copy(body.as_ptr(), body.len()) };
    room.put(who.word());
    room.put(now_ns());
    room.publish();
}

/// The thread's name; in a process that has just begun to execute a program, with that.
pub(crate) fn name(slot: Slot, who: Who, is_execution: bool) {
    let mut body = [0; 8 + NAME_BYTES];
    body[..8].copy_from_slice(&who.word().to_ne_bytes());
    // SAFETY: the kernel writes so many bytes at most.
    unsafe { libc::prctl(libc::PR_GET_NAME, body[8..].as_mut_ptr()) };
    let bits = if is_execution { IS_EXECUTION } else { 0 };
    write(slot, who, COMM, bits, &body);
}

/// The process was copied from another one.
pub(crate) fn copied(slot: Slot, who: Who, parent: Who) {
    let mut body = [0; 24];
    let ids = [who.pid, parent.pid, who.tid, parent.tid];
    for (place, id) in body.chunks_exact_mut(4).zip(ids) {
        place.copy_from_slice(&id.to_ne_bytes());
    }
    write(slot, who, FORK, 0, &body);
}

/// All that is mapped. The kernel gives whole lines.
pub(crate) fn maps(slot: Slot, who: Who) {
    let path = c"/proc/self/maps".as_ptr();
    // SAFETY: the path ends in a zero; the descriptor is closed by whoever opened it.
    unsafe {
        let file = libc::open(path, libc::O_RDONLY | libc::O_CLOEXEC);
        if file < 0 {
            return;
        }
        let mut text = [0_u8; CHUNK_BYTES];
        loop {
            let read = libc::read(file, text.as_mut_ptr().cast(), text.len());
            let Ok(read @ 1..) = usize::try_from(read) else {
                break;
            };
            // Ends of lines fill the last word.
            let padded = read.next_multiple_of(8).min(text.len());
            text[read..padded].fill(b'\n');
            write(slot, who, MAPS, 0, &text[..padded]);
        }
        libc::close(file);
    }
}
