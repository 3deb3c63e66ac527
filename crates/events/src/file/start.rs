//! Reads the start of a trace file.

use std::fs::File;
use std::io::ErrorKind;
use std::os::unix::fs::FileExt;

use unspool_container::{FIXED_BYTES, HeaderError, Layout, TraceHeader};

use crate::problem::ReadError;

/// The start of a file.
#[derive(Debug)]
pub(super) struct Start {
    pub(super) header: TraceHeader,
    pub(super) layout: Layout,
    pub(super) version: u32,
    /// Where the first chunk is.
    pub(super) end: u64,
}

/// Reads the start of a file.
pub(super) fn read_start(file: &File) -> Result<Start, ReadError> {
    let cut_off = |what| HeaderError::DamagedHeader { what }.into();
    let read = |bytes: &mut [u8], offset| {
        file.read_exact_at(bytes, offset)
            .map_err(|source| match source.kind() {
                ErrorKind::UnexpectedEof => cut_off("it is cut off"),
                _ => ReadError::Read { offset, source },
            })
    };
    // A file that is shorter than a header, and begins as one does, is a trace that was cut off.
    let mut magic = [0; TraceHeader::MAGIC_BYTES];
    match read(&mut magic, 0) {
        Ok(()) if TraceHeader::begins(&magic) => {}
        Ok(()) | Err(ReadError::Header(_)) => return Err(HeaderError::NotATrace.into()),
        Err(error) => return Err(error),
    }
    let mut fixed = [0; FIXED_BYTES];
    read(&mut fixed, 0)?;
    let check = TraceHeader::check_fixed(&fixed)?;
    let end = FIXED_BYTES as u64 + check.length as u64;
    let file_bytes = file.metadata().map_or(0, |facts| facts.len());
    if end > file_bytes {
        return Err(cut_off("it is cut off"));
    }
    let mut fields = vec![0; check.length];
    read(&mut fields, FIXED_BYTES as u64)?;
    let (header, layout) = TraceHeader::from_fields(&fields, &check)?;
    Ok(Start {
        header,
        layout,
        version: check.version,
        end,
    })
}
