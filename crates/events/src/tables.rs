//! The tables of a trace, as its chunks fill them.

use crate::codec::unpack_bytes;
use crate::definitions::{Definition, read_all};
use crate::modules::{Measurement, Module, TracedFunction};
use crate::paths::Generations;
use crate::problem::Damage;
use crate::streams::Streams;
use crate::superblock::Superblock;
use unspool_container::chunk::{ChunkHeader, ChunkKind};
use unspool_container::stream::Declaration;

/// What the table chunks read so far define.
#[derive(Debug, Default)]
pub(crate) struct Tables {
    pub(crate) modules: Vec<Module>,
    pub(crate) functions: Vec<TracedFunction>,
    pub(crate) superblocks: Vec<Superblock>,
    pub(crate) measurements: Vec<Measurement>,
    /// The streams that are declared.
    pub(crate) streams: Streams,
    /// The paths of the superblocks.
    pub(crate) paths: Generations,
}

impl Tables {
    /// Adds the table in a chunk's payload; chunks of other kinds change nothing.
    pub(crate) fn add(&mut self, header: &ChunkHeader, payload: &[u8]) -> Result<(), Damage> {
        match header.kind {
            Some(ChunkKind::Modules) => self.modules.append(&mut read_table(payload)?),
            Some(ChunkKind::Measurements) => self.measurements.append(&mut read_table(payload)?),
            Some(ChunkKind::Streams) => {
                let table = unpack_bytes(payload).map_err(|_| "its table cannot be unpacked")?;
                let declared = Declaration::read_all(&table);
                self.streams
                    .declare(declared.map_err(|_| "its table is malformed")?);
            }
            Some(ChunkKind::Functions) => self.functions.append(&mut read_table(payload)?),
            Some(ChunkKind::Superblocks) => {
                let mut superblocks = read_table(payload)?;
                let paths = self.paths.add(header.generation);
                superblocks
                    .iter()
                    .for_each(|superblock| paths.add(superblock));
                self.superblocks.append(&mut superblocks);
            }
            _ => {}
        }
        Ok(())
    }
}

fn read_table<Item: Definition>(payload: &[u8]) -> Result<Vec<Item>, Damage> {
    let table = unpack_bytes(payload).map_err(|_| "its table cannot be unpacked")?;
    read_all(&table).map_err(|_| "its table is malformed")
}
