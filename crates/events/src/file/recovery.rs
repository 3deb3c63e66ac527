//! Finds the chunks of a file that has no index, or a damaged one.
//!
//! Chunks follow each other without gaps, so the header of one says where the next one
//! starts. Where there is no intact header, the next one is searched for by its first bytes.

use std::fs::File;
use std::os::unix::fs::FileExt;

use super::index::IndexEntry;
use super::start::Start;
use crate::problem::Problem;
use unspool_container::Layout;
use unspool_container::chunk::{CHUNK_HEADER_BYTES, CHUNK_MAGIC, ChunkHeader};

/// How much is searched at once.
const WINDOW_BYTES: usize = 1 << 16;

/// Finds all intact chunk headers, and notes the bytes between them.
pub(super) fn find_chunks(
    file: &File,
    start: &Start,
    file_bytes: u64,
    problems: &mut Vec<Problem>,
) -> Vec<IndexEntry> {
    let mut chunks = Vec::new();
    let mut offset = start.end;
    while offset < file_bytes {
        if let Some(header) = header_at(file, offset) {
            let end = offset.saturating_add(header.chunk_bytes());
            if end <= file_bytes {
                chunks.push(IndexEntry { offset, header });
                offset = end;
                continue;
            }
        }
        let next = next_header(file, offset + 1).unwrap_or(file_bytes);
        if next == file_bytes && start.layout == Layout::InPlace && is_unused(file, offset) {
            break;
        }
        let what = if next == file_bytes {
            "no whole chunk is left"
        } else {
            "they are no chunk"
        };
        problems.push(Problem::Damaged {
            offset,
            length: next - offset,
            what,
        });
        offset = next;
    }
    chunks
}

/// Whether there are only zeros from this place on.
fn is_unused(file: &File, start: u64) -> bool {
    let mut window = vec![0; WINDOW_BYTES];
    let mut offset = start;
    loop {
        match file.read_at(&mut window, offset) {
            Ok(0) => return true,
            Ok(length) if window[..length].iter().all(|&byte| byte == 0) => offset += length as u64,
            _ => return false,
        }
    }
}

/// The chunk header at this place, if there is an intact one.
fn header_at(file: &File, offset: u64) -> Option<ChunkHeader> {
    let mut bytes = [0; CHUNK_HEADER_BYTES];
    file.read_exact_at(&mut bytes, offset).ok()?;
    ChunkHeader::from_bytes(&bytes).ok()
}

/// Where the next intact chunk header is, from this place on.
fn next_header(file: &File, start: u64) -> Option<u64> {
    let mut window = vec![0; WINDOW_BYTES];
    let mut offset = start;
    loop {
        let length = file.read_at(&mut window, offset).ok()?;
        let searched = window[..length].windows(CHUNK_MAGIC.len());
        for (at, _) in searched
            .enumerate()
            .filter(|(_, bytes)| **bytes == CHUNK_MAGIC)
        {
            if header_at(file, offset + at as u64).is_some() {
                return Some(offset + at as u64);
            }
        }
        // A magic may lie across the windows' border.
        let step = length
            .checked_sub(CHUNK_MAGIC.len() - 1)
            .filter(|&step| step > 0)?;
        offset += step as u64;
    }
}
