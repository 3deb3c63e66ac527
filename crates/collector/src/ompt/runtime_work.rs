//! Fetching iterations and creating tasks, of which OMPT does not tell how long they take, and the
//! schedule of loops: the functions that compilers call for it are stood in for.

use unspool_openmp_record::ConstructKind;

use crate::caller::return_address;
use crate::loop_schedule;
use crate::runtime_function::{RuntimeFunction, call_real};
use crate::thread::{self, Thread};

/// The calling thread, if it takes part in something that OMPT has told of, and is told from where
/// the program called. Of another runtime with these names, nothing is told.
#[inline]
fn told(address: u64) -> Option<&'static mut Thread> {
    let thread = thread::current().filter(|thread| !thread.is_outside())?;
    thread.called_from = address;
    Some(thread)
}

macro_rules! starts_of_loops {
    ($($name:ident $text:literal;)*) => {$(
        // SAFETY: the name is LLVM's, in whose place this stands, with its arguments.
        #[unsafe(no_mangle)]
        unsafe extern "C-unwind" fn $name(
            place: usize,
            thread_number: usize,
            kind: usize,
            lower: usize,
            upper: usize,
            stride: usize,
            chunk: usize,
        ) -> usize {
            static REAL: RuntimeFunction = RuntimeFunction::new($text);
            let address = return_address!();
            let real = REAL.of(address);
            let _ = told(address);
            let result =
                call_real!(real, place, thread_number, kind, lower, upper, stride, chunk);
            if let Some(thread) = thread::current() {
                thread.called_from = 0;
                // The runtime has told of the loop meanwhile.
                if thread.is_in(ConstructKind::Loop) {
                    let schedule = loop_schedule::of_llvm(kind);
                    thread.describe_loop(0, loop_schedule::resolved(schedule, address));
                }
            }
            result
        }
    )*};
}

starts_of_loops! {
    __kmpc_dispatch_init_4 c"__kmpc_dispatch_init_4";
    __kmpc_dispatch_init_4u c"__kmpc_dispatch_init_4u";
    __kmpc_dispatch_init_8 c"__kmpc_dispatch_init_8";
    __kmpc_dispatch_init_8u c"__kmpc_dispatch_init_8u";
}

macro_rules! fetches {
    ($($name:ident $text:literal;)*) => {$(
        // SAFETY: the name is LLVM's, in whose place this stands, with its arguments.
        #[unsafe(no_mangle)]
        unsafe extern "C-unwind" fn $name(
            place: usize,
            thread_number: usize,
            is_last: usize,
            lower: usize,
            upper: usize,
            stride: usize,
        ) -> usize {
            static REAL: RuntimeFunction = RuntimeFunction::new($text);
            let address = return_address!();
            let real = REAL.of(address);
            let fetch = told(address).map(|thread| thread.fetch());
            let result = call_real!(real, place, thread_number, is_last, lower, upper, stride);
            if let (Some(fetch), Some(thread)) = (fetch, thread::current()) {
                thread.called_from = 0;
                thread.return_from_runtime(&fetch, result as u32 != 0);
            }
            result
        }
    )*};
}

fetches! {
    __kmpc_dispatch_next_4 c"__kmpc_dispatch_next_4";
    __kmpc_dispatch_next_4u c"__kmpc_dispatch_next_4u";
    __kmpc_dispatch_next_8 c"__kmpc_dispatch_next_8";
    __kmpc_dispatch_next_8u c"__kmpc_dispatch_next_8u";
}

// SAFETY: the name is LLVM's, in whose place this stands, with its arguments.
#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn __kmpc_omp_task_alloc(
    place: usize,
    thread_number: usize,
    flags: usize,
    bytes: usize,
    shared_bytes: usize,
    body: usize,
) -> usize {
    static REAL: RuntimeFunction = RuntimeFunction::new(c"__kmpc_omp_task_alloc");
    let address = return_address!();
    let real = REAL.of(address);
    let began = told(address).and_then(Thread::allocate_task);
    let result = call_real!(real, place, thread_number, flags, bytes, shared_bytes, body);
    if let Some(thread) = thread::current() {
        thread.called_from = 0;
        thread.allocated_task(began);
    }
    result
}

macro_rules! creates_task {
    ($($name:ident $text:literal ($($argument:ident),*);)*) => {$(
        // SAFETY: the name is LLVM's, in whose place this stands, with its arguments.
        #[unsafe(no_mangle)]
        unsafe extern "C-unwind" fn $name($($argument: usize),*) -> usize {
            static REAL: RuntimeFunction = RuntimeFunction::new($text);
            let address = return_address!();
            let real = REAL.of(address);
            let creation = told(address).map(|thread| thread.create_allocated_task(address));
            let result = call_real!(real $(, $argument)*);
            if let (Some(creation), Some(thread)) = (creation, thread::current()) {
                thread.called_from = 0;
                thread.return_from_runtime(&creation, true);
            }
            result
        }
    )*};
}

creates_task! {
    __kmpc_omp_task c"__kmpc_omp_task" (place, thread_number, task);
    __kmpc_omp_task_with_deps c"__kmpc_omp_task_with_deps"
        (place, thread_number, task, count, dependences, others, other_dependences);
}
