//! The functions that programs call which were instrumented in their source: the `dbg_*`
//! interface of the original analyser for OpenMP.
//!
//! Such programs are linked with this library. Each thread adds up, for each event and the
//! intervals around it, how often it happened, how long it took and how long it waited; at
//! the end, `trace.N.mtr` is written for each thread, beside `cstrings.csf`, which holds the
//! context strings in the order of their registration. If the program also runs under
//! `unspool openmp`, its intervals are seen there too.

mod fork;
mod interface;
mod intervals;
mod recorder;
mod strings;

unspool_preload::begin_and_end!(begin, recorder::write_traces);

fn begin() {
    unspool_preload::clock::choose();
    fork::watch();
}
