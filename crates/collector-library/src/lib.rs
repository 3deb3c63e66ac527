//! The built collector and its companion, carried inside the command, so that one file is all there is to
//! install.
//!
//! The collector is a shared library: it lives in other programs, with their C library. The
//! rest of the workspace is built with a static one. The build script therefore builds the
//! collector apart, with flags of its own.
#![forbid(unsafe_code)]

/// The shared library, as a file's content.
pub const LIBRARY: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/libunspool_collector.so"));

/// The library that instrumented programs are linked with.
pub const DBG_RUNTIME: &[u8] =
    include_bytes!(concat!(env!("OUT_DIR"), "/libunspool_dbg_runtime.so"));

#[cfg(test)]
mod tests {
    #[test]
    fn the_libraries_are_elf_files() {
        assert!(super::LIBRARY.starts_with(b"\x7fELF"));
        assert!(super::DBG_RUNTIME.starts_with(b"\x7fELF"));
    }
}
