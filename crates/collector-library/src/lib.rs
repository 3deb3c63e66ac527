//! The built collector, carried inside the command, so that one file is all there is to
//! install.
//!
//! The collector is a shared library: it lives in other programs, with their C library. The
//! rest of the workspace is built with a static one. The build script therefore builds the
//! collector apart, with flags of its own.
#![forbid(unsafe_code)]

/// The shared library, as a file's content.
pub const LIBRARY: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/libunspool_collector.so"));

#[cfg(test)]
mod tests {
    #[test]
    fn the_library_is_an_elf_file() {
        assert!(super::LIBRARY.starts_with(b"\x7fELF"));
    }
}
