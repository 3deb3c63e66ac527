//! The start of a trace file: which program, which order, which tool.

use xxhash_rust::xxh3::xxh3_64;

use crate::bytes::{ByteReader, Malformed, put_bytes, put_varint};
use crate::order::Order;
use crate::{FIRST_WITH_STREAMS, FIXED_BYTES, FORMAT_VERSION, OLDEST_VERSION};

/// The first bytes of every trace file.
const FILE_MAGIC: [u8; 8] = *b"\xd1Unspool";

/// The longest header that is accepted; command lines are at most a few megabytes.
const MAX_HEADER_BYTES: u32 = 1 << 26;

/// How a file is filled.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum Layout {
    /// Chunk after chunk, with an index and an end behind them once it is whole.
    Appended = 0,
    /// In the memory of the process that writes it: see [`crate::in_place`].
    InPlace = 1,
}

/// The start of a file cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum HeaderError {
    /// The first bytes are not those of a trace.
    #[error("this is not an Unspool trace")]
    NotATrace,
    /// The file was written in a format that this version does not know.
    #[error("the trace has format version {found}; this program reads versions up to {known}")]
    UnknownVersion {
        /// The version in the file.
        found: u32,
        /// The newest version that this program knows.
        known: u32,
    },
    /// The file header is damaged, so that nothing after it can be understood.
    #[error("the header of the trace is damaged: {what}")]
    DamagedHeader {
        /// What is wrong with it.
        what: &'static str,
    },
    /// A file that is filled in place was expected, and this is one that is appended to.
    #[error("this is a trace that was appended to, not one that is filled in place")]
    NotInPlace,
}

/// What the first bytes of a file say of the header's fields, which follow.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FieldsCheck {
    /// The version of the format.
    pub version: u32,
    /// Bytes of the fields.
    pub length: usize,
    /// Their checksum.
    checksum: u64,
}

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

    /// The header as bytes: the start of the file. It is longer by `padding` zeros.
    #[must_use]
    pub fn to_bytes(&self, layout: Layout, padding: usize) -> Vec<u8> {
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
        put_varint(&mut fields, layout as u64);
        fields.resize(fields.len() + padding, 0);

        let mut bytes = Vec::with_capacity(FIXED_BYTES + fields.len());
        bytes.extend_from_slice(&FILE_MAGIC);
        bytes.extend_from_slice(&FORMAT_VERSION.to_le_bytes());
        bytes.extend_from_slice(&(fields.len() as u32).to_le_bytes());
        bytes.extend_from_slice(&xxh3_64(&fields).to_le_bytes());
        bytes.append(&mut fields);
        bytes
    }

    /// Reads it from the first bytes of a file, and returns what follows it, too.
    ///
    /// # Errors
    /// If it cannot be used.
    pub fn read(bytes: &[u8]) -> Result<(TraceHeader, Layout, &[u8]), HeaderError> {
        let (fixed, rest) = bytes.split_first_chunk().ok_or(HeaderError::NotATrace)?;
        let check = Self::check_fixed(fixed)?;
        let (fields, rest) = rest.split_at_checked(check.length).ok_or(CUT_OFF)?;
        let (header, layout) = Self::from_fields(fields, &check)?;
        Ok((header, layout, rest))
    }

    /// Checks the fixed first bytes, and returns what they say of the fields that follow.
    ///
    /// # Errors
    /// If this is no trace, or has a version that is not known.
    pub fn check_fixed(fixed: &[u8; FIXED_BYTES]) -> Result<FieldsCheck, HeaderError> {
        let damaged = |Malformed| HeaderError::DamagedHeader {
            what: "it is too short",
        };
        let mut fixed = ByteReader::new(fixed);
        if fixed.take(8).map_err(damaged)? != FILE_MAGIC {
            return Err(HeaderError::NotATrace);
        }
        let version = fixed.u32().map_err(damaged)?;
        if !(OLDEST_VERSION..=FORMAT_VERSION).contains(&version) {
            return Err(HeaderError::UnknownVersion {
                found: version,
                known: FORMAT_VERSION,
            });
        }
        let length = fixed.u32().map_err(damaged)?;
        if length > MAX_HEADER_BYTES {
            return Err(HeaderError::DamagedHeader {
                what: "its length is absurd",
            });
        }
        Ok(FieldsCheck {
            version,
            length: length as usize,
            checksum: fixed.u64().map_err(damaged)?,
        })
    }

    /// Reads the fields.
    ///
    /// # Errors
    /// If they are damaged.
    pub fn from_fields(
        fields: &[u8],
        check: &FieldsCheck,
    ) -> Result<(TraceHeader, Layout), HeaderError> {
        if fields.len() != check.length {
            return Err(CUT_OFF);
        }
        if xxh3_64(fields) != check.checksum {
            return Err(HeaderError::DamagedHeader {
                what: "its checksum is wrong",
            });
        }
        let mut fields = ByteReader::new(fields);
        let parsed = Self::parse(&mut fields).and_then(|header| {
            let layout = match check.version < FIRST_WITH_STREAMS {
                true => Layout::Appended,
                false => read_layout(&mut fields)?,
            };
            Ok((header, layout))
        });
        parsed.map_err(|Malformed| HeaderError::DamagedHeader {
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

const CUT_OFF: HeaderError = HeaderError::DamagedHeader {
    what: "it is cut off",
};

fn read_layout(fields: &mut ByteReader<'_>) -> Result<Layout, Malformed> {
    match fields.varint()? {
        0 => Ok(Layout::Appended),
        1 => Ok(Layout::InPlace),
        _ => Err(Malformed),
    }
}
