//! Waiting for iterations of an ordered loop, which OMPT does not tell: the function that
//! compilers call for it is stood in for.

use unspool_openmp_record::ConstructKind;
use unspool_preload::clock;

use crate::caller::return_address;
use crate::runtime_function::{RuntimeFunction, call_real};
use crate::thread;

// SAFETY: the name is LLVM's, in whose place this stands, with its arguments.
#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn __kmpc_doacross_wait(
    place: usize,
    thread_number: usize,
    iteration: usize,
) -> usize {
    static REAL: RuntimeFunction = RuntimeFunction::new(c"__kmpc_doacross_wait");
    let address = return_address!();
    let real = REAL.of(address);
    let before = clock::now();
    let node = match thread::current() {
        Some(thread) => thread.find(ConstructKind::Ordered, address, 0, before),
        None => std::ptr::null_mut(),
    };
    let result = call_real!(real, place, thread_number, iteration);
    if let Some(thread) = thread::current() {
        thread.only_wait(node, before, clock::now());
    }
    result
}
