//! The tables of a trace, as its chunks fill them.

use super::chunk::ChunkKind;
use super::contents::Damage;
use super::definitions::{Definition, read_all};
use super::{Function, Measurement, Module};
use crate::codec::unpack_bytes;
use crate::paths::PathTable;
use crate::superblock::Superblock;

/// What the table chunks read so far define.
#[derive(Debug, Default)]
pub(crate) struct Tables {
    pub(crate) modules: Vec<Module>,
    pub(crate) functions: Vec<Function>,
    pub(crate) superblocks: Vec<Superblock>,
    pub(crate) measurements: Vec<Measurement>,
    /// The paths of the superblocks.
    pub(crate) paths: PathTable,
}

impl Tables {
    /// Adds the table in a chunk's payload; chunks of other kinds change nothing.
    pub(crate) fn add(&mut self, kind: Option<ChunkKind>, payload: &[u8]) -> Result<(), Damage> {
        match kind {
            Some(ChunkKind::Modules) => self.modules.append(&mut read_table(payload)?),
            Some(ChunkKind::Measurements) => self.measurements.append(&mut read_table(payload)?),
            Some(ChunkKind::Functions) => self.functions.append(&mut read_table(payload)?),
            Some(ChunkKind::Superblocks) => {
                let mut superblocks = read_table(payload)?;
                superblocks
                    .iter()
                    .for_each(|superblock| self.paths.add(superblock));
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
