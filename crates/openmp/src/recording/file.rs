//! The file of a recording: a line that says what it is, then JSON, compressed.

use std::io;

use super::{MOST_THREADS, Recording};

/// The first line. The number changes when what follows does.
const FIRST_LINE: &[u8] = b"unspool openmp recording 2\n";
const FIRST_WORDS: &[u8] = b"unspool openmp recording ";
const COMPRESSION_LEVEL: i32 = 3;

/// Why a file is no recording.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// It is something else.
    #[error("this is no recording of an OpenMP program")]
    NotARecording,
    /// It was written by another version.
    #[error("the recording was written by another version of unspool")]
    UnknownVersion,
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
        let json = serde_json::to_vec(self)?;
        let mut bytes = FIRST_LINE.to_vec();
        bytes.extend(zstd::encode_all(json.as_slice(), COMPRESSION_LEVEL)?);
        Ok(bytes)
    }

    /// Reads a file's content.
    ///
    /// # Errors
    /// If it is something else, of another version, or damaged.
    pub fn from_bytes(bytes: &[u8]) -> Result<Recording, OpenError> {
        if !bytes.starts_with(FIRST_WORDS) {
            return Err(OpenError::NotARecording);
        }
        let Some(compressed) = bytes.strip_prefix(FIRST_LINE) else {
            return Err(OpenError::UnknownVersion);
        };
        let decoder = zstd::Decoder::new(compressed).map_err(damaged)?;
        let recording: Recording = serde_json::from_reader(decoder).map_err(damaged)?;
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

fn damaged(error: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> OpenError {
    OpenError::Damaged(error.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_recording_comes_back_as_it_was() {
        let recording = Recording {
            command: vec!["./a".to_owned()],
            processes: Vec::new(),
        };
        let bytes = recording.to_bytes().unwrap();
        assert_eq!(Recording::from_bytes(&bytes).unwrap(), recording);
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
        let cut = &Recording::default().to_bytes().unwrap()[..FIRST_LINE.len() + 5];
        assert!(matches!(
            Recording::from_bytes(cut),
            Err(OpenError::Damaged(_))
        ));
    }
}
