//! The file of a recording: one stream, whose blocks together are JSON, compressed.
//!
//! Before it was a file of streams, it was a line that said what it is, and then the same.

use std::io;

use unspool_container::in_place::{self, InPlace};
use unspool_container::stream::{Declaration, Form, StreamNumber};
use unspool_container::{HeaderError, Order, ThreadId, TraceHeader};

use super::{MOST_THREADS, Recording};

/// The stream's number in the files that are written.
const STREAM: StreamNumber = StreamNumber(0x110);
const STREAM_NAME: &str = "openmp-recording";
/// The version of the JSON's schema.
const SCHEMA: u32 = 2;
/// Bytes of JSON, compressed, in one block.
const BLOCK_BYTES: usize = 1 << 20;
const COMPRESSION_LEVEL: i32 = 3;

/// The first line of an outdated file that can be read, and what the first lines of others begin
/// with.
const OUTDATED_FIRST_LINE: &[u8] = b"unspool openmp recording 2\n";
const OUTDATED_FIRST_WORDS: &[u8] = b"unspool openmp recording ";

/// Why a file is no recording.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// It is something else.
    #[error("this is no recording of an OpenMP program")]
    NotARecording,
    /// It was written by another version.
    #[error("the recording was written by another version of unspool")]
    UnknownVersion,
    /// Its stream has another schema.
    #[error(
        "the recording has schema version {found} of the stream {STREAM_NAME}; \
         this command reads version {SCHEMA}"
    )]
    UnknownSchema {
        /// The version that the file declares.
        found: u32,
    },
    /// Its header cannot be used.
    #[error(transparent)]
    Header(HeaderError),
    /// It is cut off or damaged.
    #[error("the recording is damaged")]
    Damaged(#[source] Box<dyn std::error::Error + Send + Sync>),
}

impl Recording {
    /// The file's content.
    ///
    /// # Errors
    /// If compression fails, for lack of memory.
    pub fn to_bytes(&self) -> io::Result<Vec<u8>> {
        let mut encoder = zstd::Encoder::new(Vec::new(), COMPRESSION_LEVEL)?;
        encoder.include_checksum(true)?;
        serde_json::to_writer(&mut encoder, self)?;
        let compressed = encoder.finish()?;
        let mut bytes = in_place::start(&self.header(), &[declaration()]);
        for (number, part) in compressed.chunks(BLOCK_BYTES).enumerate() {
            let length = part.len() as u64;
            bytes.extend(in_place::block_header(
                STREAM,
                ThreadId(0),
                number as u64,
                length,
            ));
            bytes.extend(part);
        }
        Ok(bytes)
    }

    /// What every file of Unspool begins with. A recording is of a whole run: the process is the
    /// first that is in it.
    fn header(&self) -> TraceHeader {
        let first = self.processes.first();
        let process = first.and_then(|first| u32::try_from(first.process).ok());
        let program = first.and_then(|first| first.arguments.first());
        let arguments = self.command.iter().map(|word| word.clone().into_bytes());
        TraceHeader {
            order: Order::None,
            granule: 0,
            program: program
                .or(self.command.first())
                .map_or_else(Vec::new, |program| program.clone().into_bytes()),
            arguments: arguments.collect(),
            options: Vec::new(),
            process: process.unwrap_or(0),
            parent_process: None,
            start_unix_ns: self.start_unix_ns,
            tool_version: env!("CARGO_PKG_VERSION").to_owned(),
        }
    }

    /// Whether this is the beginning of a recording, or of one that is outdated, or of another
    /// file of Unspool, of which reading tells what is wrong.
    #[must_use]
    pub fn begins(start: &[u8]) -> bool {
        TraceHeader::begins(start) || start.starts_with(OUTDATED_FIRST_WORDS)
    }

    /// Reads a file's content.
    ///
    /// # Errors
    /// If it is something else, of another version, or damaged.
    pub fn from_bytes(bytes: &[u8]) -> Result<Recording, OpenError> {
        let recording: Recording = if bytes.starts_with(OUTDATED_FIRST_WORDS) {
            let compressed = bytes.strip_prefix(OUTDATED_FIRST_LINE);
            decode(compressed.ok_or(OpenError::UnknownVersion)?)?
        } else {
            decode(&compressed(bytes)?)?
        };
        recording.check().map_err(damaged)?;
        Ok(recording)
    }

    /// Whether constructs refer to what is there.
    fn check(&self) -> Result<(), String> {
        for process in &self.processes {
            let count = process.constructs.len();
            for (index, one) in process.constructs.iter().enumerate() {
                if one.parent.is_some_and(|parent| parent >= index) {
                    return Err(format!("construct {index} stands before its parent"));
                }
            }
            if process.spans.iter().any(|span| span.construct >= count) {
                return Err("a span is of no construct".to_owned());
            }
            if process.threads == 0 || process.threads > MOST_THREADS {
                return Err(format!("{} threads cannot be", process.threads));
            }
            let shares = process.constructs.iter().flat_map(|one| &one.shares);
            if shares
                .into_iter()
                .any(|share| share.thread >= process.threads)
            {
                return Err("a share is of no thread".to_owned());
            }
        }
        Ok(())
    }
}

fn declaration() -> Declaration {
    Declaration {
        number: STREAM,
        name: STREAM_NAME.into(),
        version: SCHEMA,
        form: Form::Blocks,
    }
}

/// What the blocks of the stream hold.
fn compressed(bytes: &[u8]) -> Result<Vec<u8>, OpenError> {
    let file = InPlace::read(bytes).map_err(|error| match error {
        HeaderError::NotATrace | HeaderError::NotInPlace => OpenError::NotARecording,
        error => OpenError::Header(error),
    })?;
    let stream = file.stream(STREAM_NAME).ok_or(OpenError::NotARecording)?;
    if stream.version != SCHEMA {
        let found = stream.version;
        return Err(OpenError::UnknownSchema { found });
    }
    if let Some(gap) = file.gaps.first() {
        let end = gap.offset + gap.length;
        let place = format!("bytes {} to {end}: {}", gap.offset, gap.what);
        return Err(damaged(place));
    }
    let blocks = file.blocks.iter();
    let parts = blocks.filter(|block| block.stream == stream.number);
    Ok(parts.flat_map(|block| block.payload).copied().collect())
}

fn decode(compressed: &[u8]) -> Result<Recording, OpenError> {
    let decoder = zstd::Decoder::new(compressed).map_err(damaged)?;
    serde_json::from_reader(decoder).map_err(damaged)
}

fn damaged(error: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> OpenError {
    OpenError::Damaged(error.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn example() -> Recording {
        Recording {
            command: vec!["./a".to_owned(), "1".to_owned()],
            start_unix_ns: 7,
            others: None,
            processes: Vec::new(),
        }
    }

    #[test]
    fn a_recording_comes_back_as_it_was() {
        let bytes = example().to_bytes().unwrap();
        assert_eq!(Recording::from_bytes(&bytes).unwrap(), example());
        assert!(Recording::begins(&bytes));
    }

    #[test]
    fn a_recording_is_a_file_of_one_stream() {
        let bytes = example().to_bytes().unwrap();
        let file = InPlace::read(&bytes).unwrap();
        assert_eq!(file.streams, [declaration()]);
        assert_eq!(file.header.arguments, [b"./a", &b"1"[..]]);
        assert_eq!(file.header.start_unix_ns, 7);
        assert_eq!((file.blocks.len(), file.gaps), (1, Vec::new()));
    }

    #[test]
    fn long_recordings_have_several_blocks() {
        // What does not compress: each word is a hash of its number.
        let word = |number: u64| format!("{:x}", number.wrapping_mul(0x9e37_79b9_7f4a_7c15));
        let recording = Recording {
            command: (0..200_000).map(word).collect(),
            ..Recording::default()
        };
        let bytes = recording.to_bytes().unwrap();
        assert!(InPlace::read(&bytes).unwrap().blocks.len() > 1);
        assert_eq!(Recording::from_bytes(&bytes).unwrap(), recording);
    }

    #[test]
    fn outdated_recordings_are_read() {
        let mut bytes = OUTDATED_FIRST_LINE.to_vec();
        let json = br#"{"command":["./a","1"],"processes":[]}"#;
        bytes.extend(zstd::encode_all(&json[..], COMPRESSION_LEVEL).unwrap());
        assert!(Recording::begins(&bytes));
        let read = Recording::from_bytes(&bytes).unwrap();
        assert_eq!(read.command, example().command);
    }

    #[test]
    fn other_files_are_told_apart() {
        assert!(matches!(
            Recording::from_bytes(b"x"),
            Err(OpenError::NotARecording)
        ));
        let newer = b"unspool openmp recording 99\nx";
        assert!(matches!(
            Recording::from_bytes(newer),
            Err(OpenError::UnknownVersion)
        ));
        let other_stream = in_place::start(&example().header(), &[]);
        assert!(matches!(
            Recording::from_bytes(&other_stream),
            Err(OpenError::NotARecording)
        ));
        let newer = Declaration {
            version: 99,
            ..declaration()
        };
        let newer = in_place::start(&example().header(), &[newer]);
        assert!(matches!(
            Recording::from_bytes(&newer),
            Err(OpenError::UnknownSchema { found: 99 })
        ));
    }

    #[test]
    fn damage_is_found() {
        let bytes = example().to_bytes().unwrap();
        for length in 0..bytes.len() {
            assert!(Recording::from_bytes(&bytes[..length]).is_err(), "{length}");
        }
        let mut changed = bytes.clone();
        for place in bytes.len() - 30..bytes.len() {
            changed[place] ^= 1;
            assert!(Recording::from_bytes(&changed).is_err(), "{place}");
            changed[place] ^= 1;
        }
    }
}
