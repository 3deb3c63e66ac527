//! Target regions and transfers, as the thread that waits for them sees them.

use unspool_openmp_record::Kind;

use super::watched;
use crate::caller::return_address;
use crate::clock;
use crate::real::{Real, call_real};

macro_rules! targets {
    ($($name:ident $text:literal ($($argument:ident),*);)*) => {$(
        // SAFETY: the name is libgomp's, in whose place this stands, with its arguments.
        #[unsafe(no_mangle)]
        unsafe extern "C-unwind" fn $name($($argument: usize),*) -> usize {
            static REAL: Real = Real::new($text);
            let address = return_address!();
            if let Some(thread) = watched(&REAL) {
                thread.enter(Kind::Target, address, 0, clock::now());
            }
            let result = call_real!(REAL $(, $argument)*; $(targets!(@word $argument)),*);
            if let Some(thread) = watched(&REAL) {
                thread.leave_through(Kind::Target, clock::now());
            }
            result
        }
    )*};
    (@word $argument:ident) => { usize };
}

targets! {
    GOMP_target_ext c"GOMP_target_ext" (a, b, c, d, e, f, g, h, i);
    GOMP_target_update_ext c"GOMP_target_update_ext" (a, b, c, d, e, f, g, h);
    GOMP_target_enter_exit_data c"GOMP_target_enter_exit_data" (a, b, c, d, e, f, g, h);
}
