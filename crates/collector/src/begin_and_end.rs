//! What this library does when it is loaded, and when the process ends.

use unspool_preload::clock;

use crate::{fork, process, thread};

fn begin() {
    clock::choose();
    clock::note_start();
    process::choose_directory();
    if process::is_collecting() {
        fork::watch();
        thread::watch_ends();
    }
}

fn end() {
    thread::note_end(clock::now());
    process::note_end();
}

unspool_preload::begin_and_end!(begin, end);
