//! What this library does when it is loaded, and when the process ends.

use crate::{clock, fork, process, thread};

fn begin() {
    clock::choose();
    process::start_time();
    process::choose_directory();
    if process::is_collecting() {
        fork::watch();
        thread::watch_ends();
    }
}

unspool_preload::begin_and_end!(begin, process::note_end);
