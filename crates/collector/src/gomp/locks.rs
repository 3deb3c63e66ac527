//! Locks and nested locks, by their names in C and in Fortran.

use unspool_openmp_record::ConstructKind;
use unspool_preload::clock;

use crate::caller::return_address;
use crate::runtime_function::{RuntimeFunction, call_real};
use crate::thread;

macro_rules! locks {
    ($($name:ident $text:literal $test_text:literal;)*) => {$(
        // SAFETY: the name is libgomp's, in whose place this stands, with its arguments.
        #[unsafe(no_mangle)]
        unsafe extern "C-unwind" fn $name(lock: usize) -> usize {
            static REAL: RuntimeFunction = RuntimeFunction::new($text);
            let address = return_address!();
            let real = REAL.of(address);
            let Some(thread) = thread::current() else {
                return call_real!(real, lock);
            };
            if !real.is_gomp() {
                // Another runtime reports the lock by OMPT, with our address as the caller's.
                thread.called_from = address;
                let result = call_real!(real, lock);
                thread.called_from = 0;
                return result;
            }
            // To ask whether the lock is free costs less than to read the clock.
            static TEST: RuntimeFunction = RuntimeFunction::new($test_text);
            if let Some(node) = thread.known(ConstructKind::Lock, address, lock as u64)
                && call_real!(TEST.of(address), lock) as u32 != 0
            {
                if let Some(thread) = thread::current() {
                    thread.pass(node);
                }
                return 0;
            }
            let before = clock::now();
            let node = thread.find(ConstructKind::Lock, address, lock as u64, before);
            let result = call_real!(real, lock);
            if let Some(thread) = thread::current() {
                thread.only_wait(node, before, clock::now());
            }
            result
        }
    )*};
}

locks! {
    omp_set_lock c"omp_set_lock" c"omp_test_lock";
    omp_set_lock_ c"omp_set_lock_" c"omp_test_lock_";
    omp_set_nest_lock c"omp_set_nest_lock" c"omp_test_nest_lock";
    omp_set_nest_lock_ c"omp_set_nest_lock_" c"omp_test_nest_lock_";
}
