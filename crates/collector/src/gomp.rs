//! GNU's libgomp: the entry points that gcc and gfortran call.
//!
//! Every function here has the name of one of libgomp's and stands in its place. It passes
//! the call on, and tells the calling thread what it enters and leaves. Where the real
//! function is not libgomp's but another runtime's of the same name, that runtime tells by
//! OMPT, and the call is only passed on.

mod dependences;
mod locks;
mod numbers;
mod parallel;
mod synchronisation;
mod target;
mod tasks;
mod worksharing;

use crate::runtime_function::Real;
use crate::thread::{self, Thread};

/// The calling thread, if this function of the runtime is to be counted.
#[inline]
fn watched(real: Real) -> Option<&'static mut Thread> {
    match real.is_gomp() {
        true => thread::current(),
        false => None,
    }
}
