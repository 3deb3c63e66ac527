//! What a file has of each stream.

use std::collections::BTreeMap;

use unspool_container::chunk::ChunkKind;
use unspool_container::stream::{Declaration, StreamNumber};

use super::contents::Contents;
use crate::streams::{Understanding, understanding};

/// What a file says of a stream, and how much of it there is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StreamInfo {
    /// What stands for it in the file.
    pub number: StreamNumber,
    /// Its declaration; none where there are blocks of a stream that was never declared.
    pub declaration: Option<Declaration>,
    /// Whether its records are understood here.
    pub understanding: Understanding,
    /// Its blocks, if it has a form of its own.
    pub blocks: u64,
    /// Bytes of them in the file.
    pub block_bytes: u64,
}

/// What a file has of each stream.
pub(crate) fn stream_infos(contents: &Contents) -> Vec<StreamInfo> {
    let info = |number, declaration: Option<&Declaration>| StreamInfo {
        number,
        understanding: declaration.map_or(Understanding::Unknown, understanding),
        declaration: declaration.cloned(),
        blocks: 0,
        block_bytes: 0,
    };
    let declared = contents.tables.streams.declared();
    let mut infos: BTreeMap<StreamNumber, StreamInfo> = declared
        .map(|stream| (stream.number, info(stream.number, Some(stream))))
        .collect();
    for entry in &contents.chunks {
        if entry.header.kind == Some(ChunkKind::Block) {
            let number = entry.header.stream;
            let info = infos.entry(number).or_insert_with(|| info(number, None));
            info.blocks += 1;
            info.block_bytes += entry.header.chunk_bytes();
        }
    }
    infos.into_values().collect()
}
