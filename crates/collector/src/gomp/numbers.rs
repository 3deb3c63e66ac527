//! Thread numbers: a thread that asks for its own is about to divide work.
//!
//! gcc divides loops with a static schedule in the program itself. All that the runtime sees
//! of them is that a thread asks first for the number of threads and then for its own.

use unspool_preload::clock;

use crate::caller::return_address;
use crate::runtime_function::{RuntimeFunction, call_real};
use crate::thread::{self, Thread};

/// A loop asks for both numbers within so many bytes of code.
const CLOSE: u64 = 64;

/// Functions that tell a number: what to note first, and what it is where no runtime is.
macro_rules! numbers {
    ($($name:ident $text:literal $note:ident, $alone:literal;)*) => {$(
        // SAFETY: the name is the runtime's, in whose place this stands.
        #[unsafe(no_mangle)]
        unsafe extern "C-unwind" fn $name() -> usize {
            static REAL: RuntimeFunction = RuntimeFunction::new($text);
            let address = return_address!();
            if let Some(thread) = thread::current() {
                $note(thread, address);
            }
            match REAL.known_to(address) {
                Some(real) => call_real!(real),
                None => $alone,
            }
        }
    )*};
}

numbers! {
    omp_get_num_threads c"omp_get_num_threads" ask_for_size, 1;
    omp_get_num_threads_ c"omp_get_num_threads_" ask_for_size, 1;
    omp_get_thread_num c"omp_get_thread_num" ask_for_number, 0;
    omp_get_thread_num_ c"omp_get_thread_num_" ask_for_number, 0;
}

fn ask_for_size(thread: &mut Thread, address: u64) {
    thread.asked_for_size_at = address;
}

fn ask_for_number(thread: &mut Thread, address: u64) {
    let is_loop = address.wrapping_sub(thread.asked_for_size_at) < CLOSE;
    if is_loop || (thread.may_start_to_divide() && !asks_for_master(address)) {
        thread.divide(address, clock::now);
    }
}

/// Whether the code compares the number with zero at once: that is how gcc compiles a master
/// construct.
fn asks_for_master(address: u64) -> bool {
    // SAFETY: the program goes on there, so that its code can be read; a call is never the
    // last instruction of its page with fewer than these bytes after it, since it is
    // followed by a comparison, a jump or a function's end and its padding.
    let code = unsafe { std::slice::from_raw_parts(address as *const u8, 4) };
    const TEST_EAX: [u8; 2] = [0x85, 0xc0];
    code[..2] == TEST_EAX
        // The number may be kept before.
        || (code[0] == 0x89 && code[2..4] == TEST_EAX)
}
