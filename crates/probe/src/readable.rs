//! Whether memory that the program points to can be read: what it gives to `execve` is for the
//! system to refuse, and not for the probe to die of.

use std::ffi::c_char;

const PAGE: usize = 4096;

/// Whether a list of strings that a null pointer ends can be read as a whole. No list is one.
/// Nothing is allocated: the caller may be a child in its parent's memory.
pub(crate) fn is_list(strings: *const *const c_char) -> bool {
    if strings.is_null() {
        return true;
    }
    const WORD: usize = size_of::<usize>();
    let mut at = strings as usize;
    let mut last = 0;
    loop {
        let mut words = [0_u8; 64 * WORD];
        // A piece ends where a page does, unless the list is not aligned.
        let length = words.len().min((PAGE - at % PAGE).next_multiple_of(WORD));
        let read = read(at, &mut words[..length]);
        let (read, _) = words[..read].as_chunks::<WORD>();
        for &word in read {
            let pointer = usize::from_ne_bytes(word);
            if pointer == 0 {
                return true;
            }
            if pointer != last && !is_string(pointer) {
                return false;
            }
            last = pointer;
        }
        if read.len() * WORD != length {
            return false;
        }
        at += length;
    }
}

fn is_string(start: usize) -> bool {
    let mut bytes = [0; 256];
    let mut at = start;
    loop {
        // The system copies nothing of a piece that reaches into a page that is not there.
        let length = bytes.len().min(PAGE - at % PAGE);
        let read = read(at, &mut bytes[..length]);
        if read != length {
            return false;
        }
        if bytes[..read].contains(&0) {
            return true;
        }
        at += read;
    }
}

/// Reads this process's memory. Returns how many bytes could be read.
fn read(address: usize, to: &mut [u8]) -> usize {
    let read = copy(address as u64, to);
    if read == 0 && crate::errno::errno() != libc::EFAULT {
        // The system does not tell. Programs that may not ask it hardly test it.
        // SAFETY: what `execve` takes can be read.
        unsafe { std::ptr::copy_nonoverlapping(address as *const u8, to.as_mut_ptr(), to.len()) };
        return to.len();
    }
    read
}

/// Reads this process's memory as far as the system copies it. Returns how many bytes it has copied;
/// if none, `errno` says why. It neither allocates nor locks.
pub(crate) fn copy(address: u64, to: &mut [u8]) -> usize {
    let own = libc::iovec {
        iov_base: to.as_mut_ptr().cast(),
        iov_len: to.len(),
    };
    let theirs = libc::iovec {
        iov_base: std::ptr::with_exposed_provenance_mut(address as usize),
        iov_len: to.len(),
    };
    // SAFETY: the system writes to `to`, and looks itself whether the other memory is there.
    let read = unsafe {
        libc::process_vm_readv(libc::getpid(), &raw const own, 1, &raw const theirs, 1, 0)
    };
    usize::try_from(read).unwrap_or(0)
}
