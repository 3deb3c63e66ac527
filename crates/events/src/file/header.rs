//! The start of a trace file: which program, which order, which tool.

use xxhash_rust::xxh3::xxh3_64;

use super::ReadError;
use crate::bytes::{ByteReader, Malformed, put_bytes, put_varint};
use crate::order::Order;

/// The first bytes of every trace file.
const FILE_MAGIC: [u8; 8] = *b"\xd1Unspool";

/// The version of the format that is written.
pub(crate) const FORMAT_VERSION: u32 = 4;

/// The oldest version that is read. In version 2 all path ids are of one generation; before
/// version 4 there are no values of operands whose extent is known only at run time.
pub(crate) const OLDEST_VERSION: u32 = 2;

/// Bytes before the header's fields: magic, version, length, checksum.
pub(crate) const FIXED_BYTES: usize = 24;

/// The longest header that is accepted; command lines are at most a few megabytes.
const MAX_HEADER_BYTES: u32 = 1 << 26;

/// What is known when a trace begins.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TraceHeader {
    /// The order that the trace's times hold.
    pub order: Order,
    /// Bytes of memory whose order is kept as one (a power of two); 0 where that has no meaning.
    pub granule: u32,
    /// The path of the program.
    pub program: Vec<u8>,
    /// Its arguments, the program's own name first.
    pub arguments: Vec<Vec<u8>>,
    /// The observer's options, as names and values.
    pub options: Vec<(String, String)>,
    /// The kernel's id of the process.
    pub process: u32,
    /// The observed process that started this one, if any.
    pub parent_process: Option<u32>,
    /// When the trace began, in nanoseconds since 1970 (UTC).
    pub start_unix_ns: u64,
    /// The version of the tool that wrote the trace.
    pub tool_version: String,
}

impl TraceHeader {
    /// How many bytes tell whether a file is a trace.
    pub const MAGIC_BYTES: usize = FILE_MAGIC.len();

    /// Whether a file that starts so is a trace.
    #[must_use]
    pub fn begins(start: &[u8]) -> bool {
        start.starts_with(&FILE_MAGIC)
    }

    /// The header as bytes: the start of the file.
    pub(crate) fn to_bytes(&self) -> Vec<u8> {
        let mut fields = Vec::new();
        fields.push(self.order as u8);
        put_varint(&mut fields, u64::from(self.granule));
        put_bytes(&mut fields, &self.program);
        put_varint(&mut fields, self.arguments.len() as u64);
        for argument in &self.arguments {
            put_bytes(&mut fields, argument);
        }
        put_varint(&mut fields, self.options.len() as u64);
        for (name, value) in &self.options {
            put_bytes(&mut fields, name.as_bytes());
            put_bytes(&mut fields, value.as_bytes());
        }
        put_varint(&mut fields, u64::from(self.process));
        put_varint(
            &mut fields,
            self.parent_process
                .map_or(0, |parent| u64::from(parent) + 1),
        );
        put_varint(&mut fields, self.start_unix_ns);
        put_bytes(&mut fields, self.tool_version.as_bytes());

        let mut bytes = Vec::with_capacity(FIXED_BYTES + fields.len());
        bytes.extend_from_slice(&FILE_MAGIC);
        bytes.extend_from_slice(&FORMAT_VERSION.to_le_bytes());
        bytes.extend_from_slice(&(fields.len() as u32).to_le_bytes());
        bytes.extend_from_slice(&xxh3_64(&fields).to_le_bytes());
        bytes.append(&mut fields);
        bytes
    }

    /// Checks the fixed first bytes, and returns how many bytes of fields follow and their
    /// checksum.
    pub(crate) fn fields_length(fixed: &[u8; FIXED_BYTES]) -> Result<(usize, u64), ReadError> {
        let damaged = |Malformed| ReadError::DamagedHeader {
            what: "it is too short",
        };
        let mut fixed = ByteReader::new(fixed);
        if fixed.take(8).map_err(damaged)? != FILE_MAGIC {
            return Err(ReadError::NotATrace);
        }
        let found = fixed.u32().map_err(damaged)?;
        if !(OLDEST_VERSION..=FORMAT_VERSION).contains(&found) {
            return Err(ReadError::UnknownVersion {
                found,
                known: FORMAT_VERSION,
            });
        }
        let length = fixed.u32().map_err(damaged)?;
        if length > MAX_HEADER_BYTES {
            return Err(ReadError::DamagedHeader {
                what: "its length is absurd",
            });
        }
        Ok((length as usize, fixed.u64().map_err(damaged)?))
    }

    /// Reads the fields.
    pub(crate) fn from_fields(fields: &[u8], checksum: u64) -> Result<TraceHeader, ReadError> {
        if xxh3_64(fields) != checksum {
            return Err(ReadError::DamagedHeader {
                what: "its checksum is wrong",
            });
        }
        Self::parse(&mut ByteReader::new(fields)).map_err(|Malformed| ReadError::DamagedHeader {
            what: "a field is malformed",
        })
    }

    fn parse(fields: &mut ByteReader<'_>) -> Result<TraceHeader, Malformed> {
        let order = Order::from_u8(fields.byte()?).ok_or(Malformed)?;
        let granule = fields.number()?;
        let program = fields.bytes()?.to_vec();
        let mut arguments = Vec::new();
        for _ in 0..fields.varint()? {
            arguments.push(fields.bytes()?.to_vec());
        }
        let mut options = Vec::new();
        for _ in 0..fields.varint()? {
            options.push((fields.text()?, fields.text()?));
        }
        let process = fields.number()?;
        let parent_process = match fields.varint()? {
            0 => None,
            parent => Some(u32::try_from(parent - 1).map_err(|_| Malformed)?),
        };
        let start_unix_ns = fields.varint()?;
        let tool_version = fields.text()?;
        Ok(TraceHeader {
            order,
            granule,
            program,
            arguments,
            options,
            process,
            parent_process,
            start_unix_ns,
            tool_version,
        })
    }
}
