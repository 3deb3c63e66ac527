//! Target regions and transfers, as the thread that waits for a device sees them.

use unspool_openmp_record::ConstructKind;
use unspool_preload::clock;

use super::watched;
use crate::caller::return_address;
use crate::runtime_function::{RuntimeFunction, call_real};

/// Whether there is a device to wait for. Without one, the calling thread does itself what
/// is in target regions: that is no waiting.
fn has_devices(caller: u64) -> bool {
    static DEVICES: RuntimeFunction = RuntimeFunction::new(c"omp_get_num_devices");
    call_real!(DEVICES.of(caller)) as u32 > 0
}

macro_rules! targets {
    ($($name:ident $text:literal ($($argument:ident),*);)*) => {$(
        // SAFETY: the name is libgomp's, in whose place this stands, with its arguments.
        #[unsafe(no_mangle)]
        unsafe extern "C-unwind" fn $name($($argument: usize),*) -> usize {
            static REAL: RuntimeFunction = RuntimeFunction::new($text);
            let address = return_address!();
            let real = REAL.of(address);
            if !has_devices(address) {
                return call_real!(real $(, $argument)*);
            }
            if let Some(thread) = watched(real) {
                thread.enter(ConstructKind::Target, address, 0, clock::now());
            }
            let result = call_real!(real $(, $argument)*);
            if let Some(thread) = watched(real) {
                thread.leave_through(ConstructKind::Target, clock::now());
            }
            result
        }
    )*};
}

targets! {
    GOMP_target_ext c"GOMP_target_ext" (a, b, c, d, e, f, g, h, i);
    GOMP_target_update_ext c"GOMP_target_update_ext" (a, b, c, d, e, f, g, h);
    GOMP_target_enter_exit_data c"GOMP_target_enter_exit_data" (a, b, c, d, e, f, g, h);
}
