//! Declarations of streams: what a file says of what is in it.

use std::borrow::Cow;

use crate::bytes::{ByteReader, Malformed, put_bytes, put_varint};

/// Which stream, within one file. The declaration says what it is.
///
/// 0 stands for none. Who defines streams takes numbers that nobody else takes, so that files of
/// several origins can be put together: 1 to 255 are those of `unspool-events`, 256 to 511 those of
/// the OpenMP record, 512 to 767 those of the profile record.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct StreamNumber(pub u16);

/// Where the records of a stream are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum Form {
    /// Among the records of threads, in the order in which they happened there.
    Records = 0,
    /// In blocks of its own, whose layout its schema says.
    Blocks = 1,
}

/// What a file says of one of its streams.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Declaration {
    /// What stands for it in this file.
    pub number: StreamNumber,
    /// What it is: the same in all files.
    pub name: Cow<'static, str>,
    /// The version of its schema: what its records look like, and mean.
    pub version: u32,
    /// Where its records are.
    pub form: Form,
}

impl Declaration {
    /// Appends it to a table.
    pub fn put(&self, bytes: &mut Vec<u8>) {
        put_varint(bytes, u64::from(self.number.0));
        put_bytes(bytes, self.name.as_bytes());
        put_varint(bytes, u64::from(self.version));
        bytes.push(self.form as u8);
    }

    /// Reads the next one of a table.
    ///
    /// # Errors
    /// If there is none.
    pub fn read(bytes: &mut ByteReader<'_>) -> Result<Declaration, Malformed> {
        Ok(Declaration {
            number: StreamNumber(bytes.number()?),
            name: bytes.text()?.into(),
            version: bytes.number()?,
            form: match bytes.byte()? {
                0 => Form::Records,
                1 => Form::Blocks,
                _ => return Err(Malformed),
            },
        })
    }

    /// Reads a whole table.
    ///
    /// # Errors
    /// If it is damaged.
    pub fn read_all(table: &[u8]) -> Result<Vec<Declaration>, Malformed> {
        let mut bytes = ByteReader::new(table);
        let mut all = Vec::new();
        while bytes.remaining() > 0 {
            all.push(Declaration::read(&mut bytes)?);
        }
        Ok(all)
    }
}
