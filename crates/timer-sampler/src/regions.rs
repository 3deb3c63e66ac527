//! Regions of interest, which the program enters and leaves by the annotation library's functions: these
//! look for the two here, and do nothing where they are not.

use std::ffi::CStr;
use std::ptr::null_mut;
use std::sync::atomic::{AtomicPtr, AtomicU64, Ordering};

use unspool_sample_slots::regions::{
    FILE_BYTES, MAGIC, MARKS, VARIABLE, mark, place, time_place, who_place,
};

use crate::clock::now_ns;
use crate::slot::pid_namespace;

static FILE: AtomicPtr<u8> = AtomicPtr::new(null_mut());

/// Maps the file, if there is one.
pub(crate) fn open() {
    // SAFETY: nobody changes the environment yet; a value ends in a zero.
    let start = unsafe {
        let path = libc::getenv(VARIABLE.as_ptr());
        if path.is_null() {
            return;
        }
        map(CStr::from_ptr(path))
    };
    let Some(start) = start else {
        return;
    };
    FILE.store(start, Ordering::Release);
    let is_own = pid_namespace() == Some(word(start, place::PID_NAMESPACE).load(Ordering::Relaxed));
    if !is_own {
        word(start, place::ELSEWHERE).fetch_add(1, Ordering::Relaxed);
    }
    let magic = word(start, place::MAGIC).load(Ordering::Acquire);
    if magic != MAGIC || !is_own {
        FILE.store(null_mut(), Ordering::Release);
    }
}

/// Maps all of the file, for which the command has provided the memory.
fn map(path: &CStr) -> Option<*mut u8> {
    let protection = libc::PROT_READ | libc::PROT_WRITE;
    // SAFETY: the path ends in a zero; the mapping is new.
    unsafe {
        let file = libc::open(
            path.as_ptr(),
            libc::O_RDWR | libc::O_CLOEXEC | libc::O_NOCTTY,
        );
        if file < 0 {
            return None;
        }
        let mut found: libc::stat = std::mem::zeroed();
        let mut start = libc::MAP_FAILED;
        if libc::fstat(file, &raw mut found) == 0 && found.st_size as usize >= FILE_BYTES {
            start = libc::mmap(
                null_mut(),
                FILE_BYTES,
                protection,
                libc::MAP_SHARED,
                file,
                0,
            );
        }
        libc::close(file);
        (start != libc::MAP_FAILED).then_some(start.cast())
    }
}

fn word<'a>(start: *mut u8, place: usize) -> &'a AtomicU64 {
    // SAFETY: the file is mapped, and callers name aligned words in it.
    unsafe { AtomicU64::from_ptr(start.add(place).cast()) }
}

fn tell(enters: bool) {
    let start = FILE.load(Ordering::Acquire);
    if start.is_null() {
        return;
    }
    let time_ns = now_ns();
    let written = word(start, place::WRITTEN);
    let mut number = written.load(Ordering::Relaxed);
    loop {
        let read = word(start, place::READ).load(Ordering::Acquire);
        if number.wrapping_sub(read) >= MARKS {
            word(start, place::LOST).fetch_add(1, Ordering::Relaxed);
            return;
        }
        let (order, next) = (Ordering::AcqRel, number.wrapping_add(1));
        match written.compare_exchange_weak(number, next, order, Ordering::Relaxed) {
            Ok(_) => break,
            Err(other) => number = other,
        }
    }
    // SAFETY: asks for a number.
    let pid = unsafe { libc::getpid() }.unsigned_abs();
    word(start, who_place(number)).store(mark::of(pid, enters), Ordering::Relaxed);
    word(start, time_place(number)).store(time_ns, Ordering::Release);
}

/// The process enters a region of interest.
#[unsafe(no_mangle)]
pub(crate) extern "C" fn unspool_profile_start_region() {
    tell(true);
}

/// It leaves it.
#[unsafe(no_mangle)]
pub(crate) extern "C" fn unspool_profile_end_region() {
    tell(false);
}
