//! How a thread's end is announced to the program.

use unspool_kernel::guarded;

use crate::call::own_call;
use crate::client;
use crate::thread::Thread;

/// Announces the end of a thread as the kernel does: robust futexes first, then the
/// clear-tid word. After that the program may free the thread's stack.
pub(crate) fn announce_end(thread: &mut Thread) {
    // Whoever hears of the end may give all threads a filter, and this is none any more.
    thread.filters.set(None);
    let clients = thread.clients();
    clients.each(|client| client.end_comes(thread));
    release_robust_list(thread);
    clients.each(|client| client.end_is_announced(thread));
    if thread.clear_tid != 0 {
        client::memory_written(thread, thread.clear_tid, 4);
    }
    clear_tid(thread);
}

/// Clears the word that says that a thread is there, and wakes whoever waits for that, unless
/// it has been done.
pub(crate) fn clear_tid(thread: &mut Thread) {
    let word = std::mem::take(&mut thread.clear_tid);
    if word != 0 {
        let _ = guarded::write(word, &[0; 4]);
        wake(word, 1);
    }
}

fn wake(word: u64, count: u64) {
    let arguments = [word, libc::FUTEX_WAKE as u64, count, 0, 0, 0];
    // SAFETY: waking has no effect on memory.
    unsafe { own_call(libc::SYS_futex, arguments) };
}

/// Walks the program's list of robust futexes (`kernel/futex/core.c`, `exit_robust_list`).
fn release_robust_list(thread: &mut Thread) {
    const LONGEST: usize = 2048;
    const PRIORITY_INHERITANCE: u64 = 1;
    let head = std::mem::take(&mut thread.robust_list);
    if head == 0 {
        return;
    }
    // From here on the kernel must not walk it again.
    // SAFETY: an empty list has no effect on memory.
    unsafe { libc::syscall(libc::SYS_set_robust_list, std::ptr::null::<u8>(), 24usize) };
    let words = (
        guarded::read_word(head),
        guarded::read_word(head + 8),
        guarded::read_word(head + 16),
    );
    let (Some(mut entry), Some(offset), Some(pending)) = words else {
        return;
    };
    for _ in 0..LONGEST {
        if entry & !PRIORITY_INHERITANCE == head {
            break;
        }
        let Some(next) = guarded::read_word(entry & !PRIORITY_INHERITANCE) else {
            break;
        };
        let word = (entry & !PRIORITY_INHERITANCE).wrapping_add(offset);
        if entry != pending && !release_robust(thread, word) {
            return;
        }
        entry = next;
    }
    if pending & !PRIORITY_INHERITANCE != 0 {
        release_robust(
            thread,
            (pending & !PRIORITY_INHERITANCE).wrapping_add(offset),
        );
    }
}

/// Returns whether the word could be looked at and, where it is the thread's, written. The
/// kernel, too, goes no further otherwise.
fn release_robust(thread: &mut Thread, word: u64) -> bool {
    const OWNER: u32 = 0x3fff_ffff;
    const WAITERS: u32 = 0x8000_0000;
    const OWNER_DIED: u32 = 0x4000_0000;
    if !word.is_multiple_of(4) {
        return false;
    }
    let mut bytes = [0; 4];
    while guarded::read(word, &mut bytes) {
        let value = u32::from_le_bytes(bytes);
        if value & OWNER != thread.tid.get() as u32 {
            return true;
        }
        client::memory_written(thread, word, 4);
        match guarded::compare_exchange(word, value, value & WAITERS | OWNER_DIED) {
            Some(true) => {
                if value & WAITERS != 0 {
                    wake(word, 1);
                }
                return true;
            }
            Some(false) => {}
            None => return false,
        }
    }
    false
}
