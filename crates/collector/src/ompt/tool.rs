//! How the runtime finds this tool.

use std::ffi::{c_char, c_int, c_uint, c_void};

use super::callbacks as ours;
use super::runtime;
use super::types::{Data, Lookup, SetCallback, StartToolResult, callback};
use crate::process;

/// The runtime may keep and change it, but nobody else reads it.
struct Result(std::cell::UnsafeCell<StartToolResult>);

// SAFETY: only the runtime uses what is in it.
unsafe impl Sync for Result {}

static RESULT: Result = Result(std::cell::UnsafeCell::new(StartToolResult {
    initialize,
    finalize,
    tool_data: Data { value: 0 },
}));

// SAFETY: the name is what OpenMP's specification says that runtimes look for.
#[unsafe(no_mangle)]
extern "C" fn ompt_start_tool(_version: c_uint, _runtime: *const c_char) -> *mut StartToolResult {
    match process::is_collecting() {
        true => RESULT.0.get(),
        false => std::ptr::null_mut(),
    }
}

extern "C" fn initialize(lookup: Lookup, _device: c_int, _data: *mut Data) -> c_int {
    runtime::found_by(lookup as *const c_void);
    let set = lookup(c"ompt_set_callback".as_ptr());
    if set.is_null() {
        return 0;
    }
    // SAFETY: the specification says what function has this name.
    let set: SetCallback = unsafe { std::mem::transmute(set) };
    let callbacks: [(c_int, *const c_void); 17] = [
        (
            callback::PARALLEL_BEGIN,
            ours::parallel_begin as *const c_void,
        ),
        (callback::PARALLEL_END, ours::parallel_end as *const c_void),
        (
            callback::IMPLICIT_TASK,
            ours::implicit_task as *const c_void,
        ),
        (callback::TASK_CREATE, ours::task_create as *const c_void),
        (callback::DEPENDENCES, ours::dependences as *const c_void),
        (
            callback::TASK_SCHEDULE,
            ours::task_schedule as *const c_void,
        ),
        (callback::WORK, ours::work as *const c_void),
        (callback::MASKED, ours::masked as *const c_void),
        (callback::SYNC_REGION, ours::sync_region as *const c_void),
        (
            callback::SYNC_REGION_WAIT,
            ours::sync_region_wait as *const c_void,
        ),
        (callback::REDUCTION, ours::reduction as *const c_void),
        (
            callback::MUTEX_ACQUIRE,
            ours::mutex_acquire as *const c_void,
        ),
        (
            callback::MUTEX_ACQUIRED,
            ours::mutex_acquired as *const c_void,
        ),
        (
            callback::MUTEX_RELEASED,
            ours::mutex_released as *const c_void,
        ),
        (callback::TARGET, ours::target as *const c_void),
        (callback::FLUSH, ours::flush as *const c_void),
        (callback::CANCEL, ours::cancel as *const c_void),
    ];
    for (number, function) in callbacks {
        // What a runtime does not offer is not seen, and that is all there is to it.
        let _ = set(number, function);
    }
    1
}

extern "C" fn finalize(_data: *mut Data) {
    process::note_time();
}
