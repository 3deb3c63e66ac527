//! What OMPT's interface consists of, as far as it is used here: OpenMP 5.0, section 4.

use std::ffi::{c_char, c_int, c_void};

/// What a tool may keep with a thread, region or task.
#[repr(C)]
pub(super) union Data {
    pub(super) value: u64,
    pub(super) pointer: *mut c_void,
}

/// `ompt_function_lookup_t`
pub(super) type Lookup = extern "C" fn(*const c_char) -> *mut c_void;
/// `ompt_set_callback_t`
pub(super) type SetCallback = extern "C" fn(c_int, *const c_void) -> c_int;

/// `ompt_start_tool_result_t`
#[repr(C)]
pub(super) struct StartToolResult {
    pub(super) initialize: extern "C" fn(Lookup, c_int, *mut Data) -> c_int,
    pub(super) finalize: extern "C" fn(*mut Data),
    pub(super) tool_data: Data,
}

/// Numbers of callbacks: `ompt_callbacks_t`.
pub(super) mod callback {
    pub(in crate::ompt) const PARALLEL_BEGIN: i32 = 3;
    pub(in crate::ompt) const PARALLEL_END: i32 = 4;
    pub(in crate::ompt) const TASK_CREATE: i32 = 5;
    pub(in crate::ompt) const TASK_SCHEDULE: i32 = 6;
    pub(in crate::ompt) const IMPLICIT_TASK: i32 = 7;
    pub(in crate::ompt) const TARGET: i32 = 8;
    pub(in crate::ompt) const DEPENDENCES: i32 = 18;
    pub(in crate::ompt) const SYNC_REGION_WAIT: i32 = 16;
    pub(in crate::ompt) const MUTEX_RELEASED: i32 = 17;
    pub(in crate::ompt) const WORK: i32 = 20;
    pub(in crate::ompt) const MASKED: i32 = 21;
    pub(in crate::ompt) const SYNC_REGION: i32 = 23;
    pub(in crate::ompt) const MUTEX_ACQUIRE: i32 = 26;
    pub(in crate::ompt) const MUTEX_ACQUIRED: i32 = 27;
    pub(in crate::ompt) const FLUSH: i32 = 29;
    pub(in crate::ompt) const CANCEL: i32 = 30;
    pub(in crate::ompt) const REDUCTION: i32 = 31;
}

/// `ompt_scope_endpoint_t`
pub(super) mod endpoint {
    pub(in crate::ompt) const BEGIN: i32 = 1;
    pub(in crate::ompt) const END: i32 = 2;
}

/// `ompt_parallel_flag_t`: a region whose threads are teams.
pub(super) const LEAGUE: i32 = 0x4000_0000;

/// `ompt_task_flag_t`
pub(super) const INITIAL_TASK: i32 = 1;

/// `ompt_dependence_t`
#[repr(C)]
pub(super) struct DependenceData {
    pub(super) variable: Data,
    pub(super) kind: c_int,
}

/// `ompt_dependence_type_t`, of those that do not depend on others of the same kind.
pub(super) mod dependence {
    pub(in crate::ompt) const IN: i32 = 1;
    pub(in crate::ompt) const IN_OUT_SET: i32 = 7;
}

/// `ompt_task_status_t`
pub(super) mod status {
    pub(in crate::ompt) const COMPLETE: i32 = 1;
    pub(in crate::ompt) const CANCEL: i32 = 3;
}
