//! Events as words of the raw stream: the record's argument is the event's tag, and its
//! fields follow as words. `docs/format.md` lists them.

use crate::cache_control::{Fence, LineOperation};
use crate::event::{Event, SyncOperation};
use crate::id::{FunctionId, ModuleId, ThreadId};
use crate::raw::{SpecialKind, special_header};

/// The words of an event cannot be understood.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum EventError {
    /// No event has this tag.
    #[error("no event has the tag {0}")]
    UnknownTag(u64),
    /// There are fewer words than the event needs, or one has a value that it cannot have.
    #[error("the words of an event with tag {0} are damaged")]
    Damaged(u64),
}

/// The longest text that an event carries; longer ones are cut.
const MAX_TEXT_BYTES: usize = 4096;

mod tag {
    pub(super) const THREAD_START: u64 = 1;
    pub(super) const THREAD_REGISTERED: u64 = 2;
    pub(super) const THREAD_END: u64 = 3;
    pub(super) const THREAD_POINTER: u64 = 4;
    pub(super) const FUNCTION_CALL: u64 = 5;
    pub(super) const FUNCTION_RETURN: u64 = 6;
    pub(super) const REGION_START: u64 = 7;
    pub(super) const REGION_END: u64 = 8;
    pub(super) const CONTEXT_CHANGE: u64 = 9;
    pub(super) const THREAD_SYNC: u64 = 10;
    pub(super) const SYNC: u64 = 11;
    pub(super) const SYSTEM_CALL_ENTRY: u64 = 12;
    pub(super) const SYSTEM_CALL_EXIT: u64 = 13;
    pub(super) const SYSTEM_MEMORY: u64 = 14;
    pub(super) const MODULE_LOAD: u64 = 15;
    pub(super) const MODULE_UNLOAD: u64 = 16;
    pub(super) const FORK: u64 = 17;
    pub(super) const EXEC: u64 = 18;
    pub(super) const DROPPED: u64 = 19;
    pub(super) const SHARED_MEMORY: u64 = 20;
    pub(super) const CACHE_LINE: u64 = 21;
    pub(super) const FENCE: u64 = 22;
    pub(super) const INSTRUCTION_FETCH: u64 = 23;
}

impl Event {
    /// Whether events with this tag are modules that come or go.
    pub(crate) fn is_of_module(tag: u64) -> bool {
        matches!(tag, tag::MODULE_LOAD | tag::MODULE_UNLOAD)
    }

    /// Appends the complete record of the event: header and words. Texts longer than 4096
    /// bytes are cut.
    pub fn encode(&self, words: &mut Vec<u64>) {
        let start = words.len();
        words.push(0);
        let tag = match self {
            Event::ThreadStart { os_thread, parent } => {
                words.push(u64::from(*os_thread));
                words.push(parent.map_or(0, |parent| u64::from(parent.0) + 1));
                tag::THREAD_START
            }
            Event::ThreadRegistered { number, name } => {
                words.push(*number as u64);
                put_text(words, name);
                tag::THREAD_REGISTERED
            }
            Event::ThreadEnd => tag::THREAD_END,
            Event::ThreadPointer { address } => {
                words.push(*address);
                tag::THREAD_POINTER
            }
            Event::FunctionCall {
                function,
                stack_pointer,
                arguments,
            } => {
                words.extend([u64::from(function.0), *stack_pointer]);
                words.extend(arguments);
                tag::FUNCTION_CALL
            }
            Event::FunctionReturn {
                function,
                stack_pointer,
                value,
            } => {
                words.extend([u64::from(function.0), *stack_pointer, *value]);
                tag::FUNCTION_RETURN
            }
            Event::RegionStart => tag::REGION_START,
            Event::RegionEnd => tag::REGION_END,
            Event::ContextChange { signal } => {
                words.push(u64::from(*signal));
                tag::CONTEXT_CHANGE
            }
            Event::ThreadSync => tag::THREAD_SYNC,
            Event::Sync { operation, object } => {
                words.extend([*operation as u64, *object]);
                tag::SYNC
            }
            Event::SystemCallEntry { number, arguments } => {
                words.push(u64::from(*number));
                words.extend(arguments);
                tag::SYSTEM_CALL_ENTRY
            }
            Event::SystemCallExit { number, result } => {
                words.extend([u64::from(*number), *result as u64]);
                tag::SYSTEM_CALL_EXIT
            }
            Event::SystemMemory {
                write,
                address,
                size,
            } => {
                words.extend([u64::from(*write), *address, *size]);
                tag::SYSTEM_MEMORY
            }
            Event::SharedMemory {
                address,
                size,
                device,
                inode,
                offset,
                own,
            } => {
                words.extend([*address, *size, *device, *inode, *offset, u64::from(*own)]);
                tag::SHARED_MEMORY
            }
            Event::CacheLine {
                operation,
                pc,
                address,
            } => {
                words.extend([*operation as u64, *pc, *address]);
                tag::CACHE_LINE
            }
            Event::Fence { fence, pc } => {
                words.extend([*fence as u64, *pc]);
                tag::FENCE
            }
            Event::InstructionFetch { pc, size } => {
                words.extend([*pc, u64::from(*size)]);
                tag::INSTRUCTION_FETCH
            }
            Event::ModuleLoad { module } => {
                words.push(u64::from(module.0));
                tag::MODULE_LOAD
            }
            Event::ModuleUnload { module } => {
                words.push(u64::from(module.0));
                tag::MODULE_UNLOAD
            }
            Event::Fork { child } => {
                words.push(u64::from(*child));
                tag::FORK
            }
            Event::Exec => tag::EXEC,
            Event::Dropped {
                words: lost,
                reason,
            } => {
                words.push(*lost);
                put_text(words, reason);
                tag::DROPPED
            }
        };
        words[start] = special_header(SpecialKind::Event, tag, words.len() - start - 1);
    }

    /// The event with this tag (the argument of the record's header) and these words. More
    /// words than the event needs are ignored.
    ///
    /// # Errors
    /// If there is no such event.
    pub fn decode(tag: u64, words: &[u64]) -> Result<Event, EventError> {
        let mut fields = Fields { tag, words };
        Ok(match tag {
            tag::THREAD_START => Event::ThreadStart {
                os_thread: fields.number()?,
                parent: match fields.word()? {
                    0 => None,
                    parent => Some(ThreadId(fields.narrow(parent - 1)?)),
                },
            },
            tag::THREAD_REGISTERED => Event::ThreadRegistered {
                number: fields.word()? as i64,
                name: fields.text()?,
            },
            tag::THREAD_END => Event::ThreadEnd,
            tag::THREAD_POINTER => Event::ThreadPointer {
                address: fields.word()?,
            },
            tag::FUNCTION_CALL => Event::FunctionCall {
                function: FunctionId(fields.number()?),
                stack_pointer: fields.word()?,
                arguments: fields.array()?,
            },
            tag::FUNCTION_RETURN => Event::FunctionReturn {
                function: FunctionId(fields.number()?),
                stack_pointer: fields.word()?,
                value: fields.word()?,
            },
            tag::REGION_START => Event::RegionStart,
            tag::REGION_END => Event::RegionEnd,
            tag::CONTEXT_CHANGE => Event::ContextChange {
                signal: fields.number()?,
            },
            tag::THREAD_SYNC => Event::ThreadSync,
            tag::SYNC => {
                let operation = SyncOperation::from_u64(fields.word()?);
                Event::Sync {
                    operation: operation.ok_or(EventError::Damaged(tag))?,
                    object: fields.word()?,
                }
            }
            tag::SYSTEM_CALL_ENTRY => Event::SystemCallEntry {
                number: fields.number()?,
                arguments: fields.array()?,
            },
            tag::SYSTEM_CALL_EXIT => Event::SystemCallExit {
                number: fields.number()?,
                result: fields.word()? as i64,
            },
            tag::SYSTEM_MEMORY => Event::SystemMemory {
                write: fields.word()? != 0,
                address: fields.word()?,
                size: fields.word()?,
            },
            tag::CACHE_LINE => {
                let operation = LineOperation::from_u64(fields.word()?);
                Event::CacheLine {
                    operation: operation.ok_or(EventError::Damaged(tag))?,
                    pc: fields.word()?,
                    address: fields.word()?,
                }
            }
            tag::FENCE => {
                let fence = Fence::from_u64(fields.word()?);
                Event::Fence {
                    fence: fence.ok_or(EventError::Damaged(tag))?,
                    pc: fields.word()?,
                }
            }
            tag::INSTRUCTION_FETCH => {
                let (pc, size) = (fields.word()?, fields.word()?);
                Event::InstructionFetch {
                    pc,
                    size: u8::try_from(size).map_err(|_| EventError::Damaged(tag))?,
                }
            }
            tag::MODULE_LOAD => Event::ModuleLoad {
                module: ModuleId(fields.number()?),
            },
            tag::MODULE_UNLOAD => Event::ModuleUnload {
                module: ModuleId(fields.number()?),
            },
            tag::FORK => Event::Fork {
                child: fields.number()?,
            },
            tag::EXEC => Event::Exec,
            tag::DROPPED => Event::Dropped {
                words: fields.word()?,
                reason: fields.text()?,
            },
            tag::SHARED_MEMORY => Event::SharedMemory {
                address: fields.word()?,
                size: fields.word()?,
                device: fields.word()?,
                inode: fields.word()?,
                offset: fields.word()?,
                own: fields.word()? != 0,
            },
            _ => return Err(EventError::UnknownTag(tag)),
        })
    }
}

/// Appends a text: its length in bytes, then the bytes, padded with zeros to whole words.
fn put_text(words: &mut Vec<u64>, text: &str) {
    let mut length = text.len().min(MAX_TEXT_BYTES);
    while !text.is_char_boundary(length) {
        length -= 1;
    }
    words.push(length as u64);
    for bytes in text.as_bytes()[..length].chunks(8) {
        let mut word = [0; 8];
        word[..bytes.len()].copy_from_slice(bytes);
        words.push(u64::from_le_bytes(word));
    }
}

/// Takes fields from the words of an event.
struct Fields<'a> {
    tag: u64,
    words: &'a [u64],
}

impl Fields<'_> {
    fn word(&mut self) -> Result<u64, EventError> {
        let (&first, rest) = self
            .words
            .split_first()
            .ok_or(EventError::Damaged(self.tag))?;
        self.words = rest;
        Ok(first)
    }

    fn narrow(&self, word: u64) -> Result<u32, EventError> {
        u32::try_from(word).map_err(|_| EventError::Damaged(self.tag))
    }

    fn number(&mut self) -> Result<u32, EventError> {
        let word = self.word()?;
        self.narrow(word)
    }

    fn array<const N: usize>(&mut self) -> Result<[u64; N], EventError> {
        let (&first, rest) = self
            .words
            .split_first_chunk()
            .ok_or(EventError::Damaged(self.tag))?;
        self.words = rest;
        Ok(first)
    }

    fn text(&mut self) -> Result<String, EventError> {
        let length = self.word()?;
        if length > self.words.len() as u64 * 8 {
            return Err(EventError::Damaged(self.tag));
        }
        let mut bytes: Vec<u8> = self
            .words
            .iter()
            .flat_map(|word| word.to_le_bytes())
            .collect();
        bytes.truncate(length as usize);
        Ok(String::from_utf8_lossy(&bytes).into_owned())
    }
}

#[cfg(test)]
mod tests;
