//! Modules, functions and superblocks as bytes, and back.

use crate::access::AccessKind;
use crate::cache_control::{Fence, LineOperation};
use crate::id::{FunctionId, ModuleId, PathId};
use crate::modules::{Measurement, Module, TracedFunction};
use crate::superblock::{
    AccessingInstruction, AddressSource, CacheControl, Extent, Mask, Operand, Path, Slot,
    Superblock,
};
use unspool_container::bytes::{ByteReader, Malformed, put_bytes, put_varint, unzigzag, zigzag};

/// Something that a table chunk lists.
pub(crate) trait Definition: Sized {
    /// Appends it.
    fn put(&self, bytes: &mut Vec<u8>);
    /// Reads it.
    fn read(bytes: &mut ByteReader<'_>) -> Result<Self, Malformed>;
}

/// Reads all definitions of a table chunk.
pub(crate) fn read_all<Item: Definition>(bytes: &[u8]) -> Result<Vec<Item>, Malformed> {
    let mut bytes = ByteReader::new(bytes);
    let mut items = Vec::new();
    while bytes.remaining() > 0 {
        items.push(Item::read(&mut bytes)?);
    }
    Ok(items)
}

impl Definition for Module {
    fn put(&self, bytes: &mut Vec<u8>) {
        put_varint(bytes, u64::from(self.id.0));
        put_bytes(bytes, &self.path);
        put_varint(bytes, self.base);
        put_varint(bytes, self.size);
        put_bytes(bytes, &self.build_id);
    }

    fn read(bytes: &mut ByteReader<'_>) -> Result<Module, Malformed> {
        Ok(Module {
            id: ModuleId(bytes.number()?),
            path: bytes.bytes()?.to_vec(),
            base: bytes.varint()?,
            size: bytes.varint()?,
            build_id: bytes.bytes()?.to_vec(),
        })
    }
}

impl Definition for TracedFunction {
    fn put(&self, bytes: &mut Vec<u8>) {
        put_varint(bytes, u64::from(self.id.0));
        put_bytes(bytes, self.name.as_bytes());
        put_varint(bytes, self.address);
    }

    fn read(bytes: &mut ByteReader<'_>) -> Result<TracedFunction, Malformed> {
        Ok(TracedFunction {
            id: FunctionId(bytes.number()?),
            name: bytes.text()?,
            address: bytes.varint()?,
        })
    }
}

impl Definition for Measurement {
    fn put(&self, bytes: &mut Vec<u8>) {
        put_bytes(bytes, self.name.as_bytes());
        put_varint(bytes, self.value);
    }

    fn read(bytes: &mut ByteReader<'_>) -> Result<Measurement, Malformed> {
        Ok(Measurement {
            name: bytes.text()?,
            value: bytes.varint()?,
        })
    }
}

impl Definition for Superblock {
    fn put(&self, bytes: &mut Vec<u8>) {
        put_varint(bytes, self.pc);
        put_varint(bytes, u64::from(self.first_path.0));
        put_varint(bytes, self.paths.len() as u64);
        for path in &self.paths {
            put_varint(bytes, u64::from(path.accessing));
            put_varint(bytes, u64::from(path.executed));
            bytes.push(path.words);
        }
        put_varint(bytes, self.instructions.len() as u64);
        let mut previous_pc = self.pc;
        for instruction in &self.instructions {
            put_varint(bytes, zigzag(instruction.pc.wrapping_sub(previous_pc)));
            previous_pc = instruction.pc;
            put_instruction(instruction, bytes);
        }
    }

    fn read(bytes: &mut ByteReader<'_>) -> Result<Superblock, Malformed> {
        let pc = bytes.varint()?;
        let first_path = PathId(bytes.number()?);
        let mut paths = Vec::new();
        for _ in 0..bytes.varint()? {
            paths.push(Path {
                accessing: bytes.number()?,
                executed: bytes.number()?,
                words: bytes.byte()?,
            });
        }
        let mut instructions = Vec::new();
        let mut previous_pc = pc;
        for _ in 0..bytes.varint()? {
            previous_pc = previous_pc.wrapping_add(unzigzag(bytes.varint()?));
            instructions.push(read_instruction(previous_pc, bytes)?);
        }
        Ok(Superblock {
            pc,
            first_path,
            instructions,
            paths,
        })
    }
}

const ATOMIC: u8 = 1;
const TICKET: u8 = 2;
const CAS_SUCCESS: u8 = 4;
const NON_TEMPORAL: u8 = 8;
const FETCHED: u8 = 16;
const CACHE_LINE: u8 = 32;
const FENCE: u8 = 64;
const CALLS_OR_RETURNS: u8 = 128;

fn put_instruction(instruction: &AccessingInstruction, bytes: &mut Vec<u8>) {
    let flag = |set, bit| if set { bit } else { 0 };
    bytes.push(
        flag(instruction.atomic, ATOMIC)
            | flag(instruction.ticket.is_some(), TICKET)
            | flag(instruction.cas_success.is_some(), CAS_SUCCESS)
            | flag(instruction.non_temporal, NON_TEMPORAL)
            | flag(instruction.fetched.is_some(), FETCHED)
            | flag(instruction.calls_or_returns, CALLS_OR_RETURNS)
            | match instruction.cache_control {
                None => 0,
                Some(CacheControl::Line { .. }) => CACHE_LINE,
                Some(CacheControl::Fence(_)) => FENCE,
            },
    );
    bytes.extend(instruction.ticket);
    bytes.extend(instruction.cas_success);
    bytes.extend(instruction.fetched);
    match instruction.cache_control {
        None => {}
        Some(CacheControl::Line { operation, address }) => {
            bytes.push(operation as u8 | source_bit(address));
            put_address(address, bytes);
        }
        Some(CacheControl::Fence(fence)) => bytes.push(fence as u8),
    }
    put_varint(bytes, instruction.operands.len() as u64);
    for operand in &instruction.operands {
        put_operand(operand, bytes);
    }
}

fn read_instruction(
    pc: u64,
    bytes: &mut ByteReader<'_>,
) -> Result<AccessingInstruction, Malformed> {
    let flags = bytes.byte()?;
    if flags & CACHE_LINE != 0 && flags & FENCE != 0 {
        return Err(Malformed);
    }
    let mut slot = |bit| -> Result<Option<Slot>, Malformed> {
        if flags & bit == 0 {
            Ok(None)
        } else {
            bytes.byte().map(Some)
        }
    };
    let ticket = slot(TICKET)?;
    let cas_success = slot(CAS_SUCCESS)?;
    let fetched = slot(FETCHED)?;
    let cache_control = match flags & (CACHE_LINE | FENCE) {
        0 => None,
        CACHE_LINE => Some(read_line_operation(bytes)?),
        _ => {
            let fence = Fence::from_u64(u64::from(bytes.byte()?));
            Some(CacheControl::Fence(fence.ok_or(Malformed)?))
        }
    };
    let mut operands = Vec::new();
    for _ in 0..bytes.varint()? {
        operands.push(read_operand(bytes)?);
    }
    Ok(AccessingInstruction {
        pc,
        atomic: flags & ATOMIC != 0,
        non_temporal: flags & NON_TEMPORAL != 0,
        calls_or_returns: flags & CALLS_OR_RETURNS != 0,
        fetched,
        cache_control,
        ticket,
        cas_success,
        operands,
    })
}

fn read_line_operation(bytes: &mut ByteReader<'_>) -> Result<CacheControl, Malformed> {
    let code = bytes.byte()?;
    let operation = LineOperation::from_u64(u64::from(code & !LINE_FROM_WORD));
    Ok(CacheControl::Line {
        operation: operation.ok_or(Malformed)?,
        address: read_address(code & LINE_FROM_WORD != 0, bytes)?,
    })
}

/// In the code of a line's operation: the address is from a word.
const LINE_FROM_WORD: u8 = 128;

fn source_bit(address: AddressSource) -> u8 {
    match address {
        AddressSource::Absolute(_) => 0,
        AddressSource::Word { .. } => LINE_FROM_WORD,
    }
}

fn put_address(address: AddressSource, bytes: &mut Vec<u8>) {
    match address {
        AddressSource::Absolute(address) => put_varint(bytes, address),
        AddressSource::Word { slot, add } => {
            bytes.push(slot);
            put_varint(bytes, zigzag(add as u64));
        }
    }
}

fn read_address(from_word: bool, bytes: &mut ByteReader<'_>) -> Result<AddressSource, Malformed> {
    Ok(if from_word {
        AddressSource::Word {
            slot: bytes.byte()?,
            add: unzigzag(bytes.varint()?) as i64,
        }
    } else {
        AddressSource::Absolute(bytes.varint()?)
    })
}

const WRITE: u8 = 1;
const FROM_WORD: u8 = 2;
const EXTENT_SHIFT: u8 = 2;

fn put_operand(operand: &Operand, bytes: &mut Vec<u8>) {
    let extent = match operand.extent {
        Extent::Plain => 0,
        Extent::Repeat { .. } => 1,
        Extent::Indexed { .. } => 2,
        Extent::Masked { .. } => 3,
        Extent::Compressed { .. } => 4,
        Extent::AnyOf { .. } => 5,
        Extent::Rows { .. } => 6,
    };
    let source = match operand.address {
        AddressSource::Absolute(_) => 0,
        AddressSource::Word { .. } => FROM_WORD,
    };
    bytes.push(operand.kind as u8 | source | extent << EXTENT_SHIFT);
    put_varint(bytes, u64::from(operand.size));
    put_address(operand.address, bytes);
    match operand.extent {
        Extent::Plain => {}
        Extent::Repeat {
            before,
            after,
            pointer_after,
        } => {
            bytes.extend([before, after, pointer_after]);
        }
        Extent::Indexed {
            index,
            index_size,
            scale,
            count,
            mask,
        } => {
            bytes.extend([index, index_size, scale, count]);
            put_mask(mask, bytes);
        }
        Extent::Masked { count, mask } => {
            bytes.push(count);
            put_mask(mask, bytes);
        }
        Extent::Compressed { count, mask } | Extent::AnyOf { count, mask } => {
            bytes.extend([count, mask]);
        }
        Extent::Rows { stride, form } => bytes.extend([stride, form]),
    }
}

fn read_operand(bytes: &mut ByteReader<'_>) -> Result<Operand, Malformed> {
    let form = bytes.byte()?;
    let kind = if form & WRITE != 0 {
        AccessKind::Write
    } else {
        AccessKind::Read
    };
    let size = bytes.number()?;
    let address = read_address(form & FROM_WORD != 0, bytes)?;
    let extent = match form >> EXTENT_SHIFT {
        0 => Extent::Plain,
        1 => Extent::Repeat {
            before: bytes.byte()?,
            after: bytes.byte()?,
            pointer_after: bytes.byte()?,
        },
        2 => Extent::Indexed {
            index: bytes.byte()?,
            index_size: bytes.byte()?,
            scale: bytes.byte()?,
            count: bytes.byte()?,
            mask: read_mask(bytes)?,
        },
        3 => Extent::Masked {
            count: bytes.byte()?,
            mask: read_mask(bytes)?,
        },
        4 => Extent::Compressed {
            count: bytes.byte()?,
            mask: bytes.byte()?,
        },
        5 => Extent::AnyOf {
            count: bytes.byte()?,
            mask: bytes.byte()?,
        },
        6 => Extent::Rows {
            stride: bytes.byte()?,
            form: bytes.byte()?,
        },
        _ => return Err(Malformed),
    };
    Ok(Operand {
        kind,
        size,
        address,
        extent,
    })
}

/// The mask of all elements; no record has so many words.
const ALL_ELEMENTS: u8 = u8::MAX;

fn put_mask(mask: Mask, bytes: &mut Vec<u8>) {
    bytes.push(match mask {
        Mask::All => ALL_ELEMENTS,
        Mask::Bits(slot) => slot,
    });
}

fn read_mask(bytes: &mut ByteReader<'_>) -> Result<Mask, Malformed> {
    Ok(match bytes.byte()? {
        ALL_ELEMENTS => Mask::All,
        slot => Mask::Bits(slot),
    })
}
