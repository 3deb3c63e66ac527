//! The built collector, its companion and the probes, carried inside the command, so that one
//! file is all there is to install.
//!
//! They are shared libraries: they live in other programs, with their C library. The rest of the
//! workspace is built with a static one. The build script therefore builds them apart, with flags
//! of their own.
#![forbid(unsafe_code)]

/// The shared library, as a file's content.
pub const LIBRARY: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/libunspool_collector.so"));

/// The library that instrumented programs are linked with.
pub const DBG_RUNTIME: &[u8] =
    include_bytes!(concat!(env!("OUT_DIR"), "/libunspool_dbg_runtime.so"));

/// The library that samples a program from within.
pub const TIMER_SAMPLER: &[u8] =
    include_bytes!(concat!(env!("OUT_DIR"), "/libunspool_timer_sampler.so"));

/// The probes that come with the command.
pub const PROBES: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/libunspool_probes.so"));

#[cfg(test)]
mod tests {
    #[test]
    fn the_libraries_are_elf_files() {
        assert!(super::LIBRARY.starts_with(b"\x7fELF"));
        assert!(super::DBG_RUNTIME.starts_with(b"\x7fELF"));
        assert!(super::TIMER_SAMPLER.starts_with(b"\x7fELF"));
        assert!(super::PROBES.starts_with(b"\x7fELF"));
    }
}
