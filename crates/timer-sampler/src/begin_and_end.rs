//! What this library does when it is loaded, when the process forks, and when it ends.

use std::ffi::CStr;

use unspool_preload::fork;

use crate::stack::Bounds;
use crate::thread::{self, Origin};
use crate::{handler, own_signal, regions, slot};

fn begin() {
    regions::open();
    // SAFETY: nobody changes the environment yet; a value ends in a zero.
    let path = unsafe {
        let path = libc::getenv(unspool_sample_slots::VARIABLE.as_ptr());
        match path.is_null() {
            true => return,
            false => CStr::from_ptr(path),
        }
    };
    thread::note_process();
    if slot::open(path) && thread::watch_ends() && handler::install() {
        fork::watch(Some(before_fork), Some(after_fork), Some(in_child));
        thread::begin(Bounds::of_first_thread(), Origin::Execution);
    }
}

/// A copy of much memory takes longer than a period: with a signal for each, the kernel would begin
/// it anew each time.
extern "C" fn before_fork() {
    own_signal::block();
}

extern "C" fn after_fork() {
    own_signal::unblock();
}

extern "C" fn in_child() {
    thread::begin_in_child();
    own_signal::unblock();
}

fn end() {
    if slot::is_open() {
        thread::note_end();
    }
}

unspool_preload::begin_and_end!(begin, end);
