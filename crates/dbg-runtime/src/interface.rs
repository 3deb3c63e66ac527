//! The functions themselves, under the names of C and of Fortran.
//!
//! All take the address of a handle first. What follows (thread numbers, clauses, loop
//! bounds) says nothing that is not known better here, and is not looked at.

use std::ffi::c_char;

use crate::{intervals, recorder, strings};

/// Reads a handle. Only its lower half is its own: the variable may be four bytes wide.
///
/// # Safety
/// The program passes the address of a handle.
unsafe fn read(handle: *const u32) -> u32 {
    // SAFETY: as the caller promises; Fortran may align it to four bytes only.
    unsafe { handle.read_unaligned() }
}

macro_rules! events {
    ($($step:ident: $name:ident $fortran:ident;)*) => {$(
        events! { @one $step $name }
        events! { @one $step $fortran }
    )*};
    (@one $step:ident $name:ident) => {
        // SAFETY: the name is of the interface that instrumented programs call.
        #[unsafe(no_mangle)]
        unsafe extern "C" fn $name(handle: *const u32) {
            // SAFETY: instrumented programs pass the address of a handle.
            let handle = unsafe { read(handle) };
            let told = recorder::current().$step(handle);
            events! { @also $step handle told }
        }
    };
    // Lets `unspool openmp` see the interval too.
    (@also before_call $handle:ident $name:ident) => { enter_interval($handle, $name); };
    (@also enter_interval $handle:ident $name:ident) => { enter_interval($handle, $name); };
    (@also after_call $handle:ident $is_interval:ident) => { leave_interval($is_interval); };
    (@also leave_interval $handle:ident $is_interval:ident) => { leave_interval($is_interval); };
    (@also $step:ident $handle:ident $told:ident) => { let () = $told; };
}

fn enter_interval(handle: u32, name: Option<String>) {
    if let Some(name) = name {
        intervals::enter(u64::from(handle), &name);
    }
}

fn leave_interval(is_interval: bool) {
    if is_interval {
        intervals::leave();
    }
}

events! {
    before: dbg_before_parallel dbg_before_parallel_;
    before: dbg_before_omp_loop dbg_before_omp_loop_;
    before: dbg_beforeomploop dbg_beforeomploop_;
    before: dbg_before_sections dbg_before_sections_;
    before: dbg_before_single dbg_before_single_;
    before: dbg_before_workshare dbg_before_workshare_;
    before: dbg_before_critical dbg_before_critical_;
    before: dbg_before_ordered dbg_before_ordered_;
    before: dbg_before_flush dbg_before_flush_;
    before: dbg_before_taskwait dbg_before_taskwait_;
    before_barrier: dbg_before_barrier dbg_before_barrier_;
    before_barrier: dbg_beforebarrier dbg_beforebarrier_;
    begin: dbg_parallel_event dbg_parallel_event_;
    begin: dbg_section_event dbg_section_event_;
    begin: dbg_single_event dbg_single_event_;
    begin: dbg_critical_event dbg_critical_event_;
    begin: dbg_ordered_event dbg_ordered_event_;
    begin: dbg_master_begin dbg_master_begin_;
    begin: dbg_task_begin dbg_task_begin_;
    begin: dbg_begsl dbg_begsl_;
    begin: dbg_before_loop dbg_before_loop_;
    begin: dbg_func_begin dbg_func_begin_;
    begin: dbg_funcbegin dbg_funcbegin_;
    end: dbg_parallel_event_end dbg_parallel_event_end_;
    end: dbg_section_event_end dbg_section_event_end_;
    end: dbg_single_event_end dbg_single_event_end_;
    end: dbg_critical_event_end dbg_critical_event_end_;
    end: dbg_master_end dbg_master_end_;
    end_task: dbg_task_end dbg_task_end_;
    end: dbg_endsl dbg_endsl_;
    end: dbg_after_loop dbg_after_loop_;
    end: dbg_func_end dbg_func_end_;
    end: dbg_funcend dbg_funcend_;
    after: dbg_after_parallel dbg_after_parallel_;
    after: dbg_after_omp_loop dbg_after_omp_loop_;
    after: dbg_afteromploop dbg_afteromploop_;
    after: dbg_after_sections dbg_after_sections_;
    after: dbg_after_single dbg_after_single_;
    after: dbg_after_workshare dbg_after_workshare_;
    after: dbg_after_critical dbg_after_critical_;
    after: dbg_after_ordered dbg_after_ordered_;
    after: dbg_flush_event dbg_flush_event_;
    after_barrier: dbg_after_taskwait dbg_after_taskwait_;
    after_barrier: dbg_after_barrier dbg_after_barrier_;
    after_barrier: dbg_afterbarrier dbg_afterbarrier_;
    before_call: dbg_before_func_call dbg_before_func_call_;
    before_call: dbg_before_funcall dbg_before_funcall_;
    after_call: dbg_after_func_call dbg_after_func_call_;
    after_call: dbg_after_funcall dbg_after_funcall_;
    enter_interval: dbg_before_interval dbg_before_interval_;
    leave_interval: dbg_after_interval dbg_after_interval_;
}

macro_rules! unused {
    ($($name:ident)*) => {$(
        // SAFETY: the name is of the interface that instrumented programs call.
        #[unsafe(no_mangle)]
        extern "C" fn $name() {}
    )*};
}

unused! {
    dbg_omp_loop_event dbg_omp_loop_event_
    dbg_loop_event dbg_loop_event_
    dbg_siter dbg_siter_
    dbg_ompiter dbg_ompiter_
    dbg_funcparvar dbg_funcparvar_
    dbg_funcpararr dbg_funcpararr_
    dbg_reg_par dbg_reg_par_
    dbg_reg_par_arr dbg_reg_par_arr_
    dbg_regparvar dbg_regparvar_
    dbg_regpararr dbg_regpararr_
    dbg_type_controllong dbg_type_controllong_
    dbg_type_control dbg_type_control_
    dbg_get_addr dbg_get_addr_
    dbg_threadprivate dbg_threadprivate_
    dbg_flush_event_end dbg_flush_event_end_
    dbg_before_io dbg_before_io_
    dbg_after_io dbg_after_io_
}

macro_rules! questions {
    ($($name:ident)*) => {$(
        /// Whether the program is to report an iteration: it may.
        // SAFETY: the name is of the interface that instrumented programs call.
        #[unsafe(no_mangle)]
        extern "C" fn $name() -> i64 {
            1
        }
    )*};
}

questions! {
    dbg_omp_ifiter dbg_omp_ifiter_
    dbg_sifiter dbg_sifiter_
    dbg_if_loop_event dbg_if_loop_event_
    dbg_omp_if_loop_event dbg_omp_if_loop_event_
}

macro_rules! handles {
    ($($name:ident)*) => {$(
        // SAFETY: the name is of the interface that instrumented programs call.
        #[unsafe(no_mangle)]
        unsafe extern "C" fn $name(handle: *mut u32, string: *const c_char) {
            // SAFETY: instrumented programs pass a context string, which ends in two stars.
            let number = unsafe { strings::register(string) };
            // SAFETY: and the address of a handle.
            unsafe { handle.write_unaligned(number) };
        }
    )*};
}

handles! { dbg_get_handle dbg_get_handle_ }

macro_rules! starts {
    ($($name:ident)*) => {$(
        // SAFETY: the name is of the interface that instrumented programs call.
        #[unsafe(no_mangle)]
        extern "C" fn $name() {
            recorder::start_clock();
        }
    )*};
}

starts! { dbg_init dbg_init_ }

macro_rules! finishes {
    ($($name:ident)*) => {$(
        // SAFETY: the name is of the interface that instrumented programs call.
        #[unsafe(no_mangle)]
        extern "C" fn $name() {
            recorder::write_traces();
        }
    )*};
}

finishes! { dbg_finalize dbg_finalize_ }
