//! The stream `mappings`.

use super::KnownStream;
use super::words::{Fields, Record, Unreadable};
use crate::id::ModuleId;

/// What is mapped where changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mapping {
    /// A module was mapped.
    ModuleLoad {
        /// Which one.
        module: ModuleId,
    },
    /// A module was unmapped.
    ModuleUnload {
        /// Which one.
        module: ModuleId,
    },
    /// A range of memory was mapped, in the system call that has not returned yet or before the
    /// thread began, that other mappings and other processes may show as well.
    Shared {
        /// First byte.
        address: u64,
        /// Bytes.
        size: u64,
        /// The device of the memory object; the greatest two numbers stand for memory without a
        /// file and for System V segments.
        device: u64,
        /// The object's number on the device.
        inode: u64,
        /// Which byte of the object comes first.
        offset: u64,
        /// Whether this process has made it and given it to nobody.
        own: bool,
    },
}

/// The kind of [`Mapping::ModuleLoad`].
const LOAD: u16 = 1;
/// The kind of [`Mapping::ModuleUnload`].
const UNLOAD: u16 = 2;

impl Mapping {
    /// Whether records of this kind are of modules that come or go.
    pub(crate) fn is_of_module(kind: u16) -> bool {
        matches!(kind, LOAD | UNLOAD)
    }
}

impl Record for Mapping {
    const STREAM: KnownStream = KnownStream::Mappings;

    fn put(&self, words: &mut Vec<u64>) -> u16 {
        match *self {
            Mapping::ModuleLoad { module } => {
                words.push(u64::from(module.0));
                LOAD
            }
            Mapping::ModuleUnload { module } => {
                words.push(u64::from(module.0));
                UNLOAD
            }
            Mapping::Shared {
                address,
                size,
                device,
                inode,
                offset,
                own,
            } => {
                words.extend([address, size, device, inode, offset, u64::from(own)]);
                3
            }
        }
    }

    fn read(kind: u16, fields: &mut Fields<'_>) -> Result<Mapping, Unreadable> {
        Ok(match kind {
            LOAD => Mapping::ModuleLoad {
                module: ModuleId(fields.number()?),
            },
            UNLOAD => Mapping::ModuleUnload {
                module: ModuleId(fields.number()?),
            },
            3 => Mapping::Shared {
                address: fields.word()?,
                size: fields.word()?,
                device: fields.word()?,
                inode: fields.word()?,
                offset: fields.word()?,
                own: fields.word()? != 0,
            },
            _ => return Err(Unreadable::Kind),
        })
    }
}
