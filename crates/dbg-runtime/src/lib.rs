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

extern "C" fn end() {
    recorder::write_traces();
}

extern "C" fn begin() {
    fork::watch();
}

#[used]
// SAFETY: the dynamic linker calls what stands in this section, after relocation.
#[unsafe(link_section = ".init_array")]
static BEGIN: extern "C" fn() = begin;

#[used]
// SAFETY: the dynamic linker calls what stands in this section when the process ends.
#[unsafe(link_section = ".fini_array")]
static END: extern "C" fn() = end;
