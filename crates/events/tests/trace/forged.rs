//! Traces that are damaged and have the right checksums all the same, as whoever forges one
//! would write them: every parser behind the checksums sees them.

use std::fs;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use unspool_events::*;
use xxhash_rust::xxh3::xxh3_64;

use crate::model::Recorder;

const CHUNK_HEADER: usize = 112;
const PAYLOAD_BYTES: usize = 80;
const PAYLOAD_CHECKSUM: usize = 88;
const HEADER_CHECKSUM: usize = 104;

/// More items than a trace of a few thousand words can hold.
const MOST_ITEMS: usize = 1 << 20;
/// Far more than reading one takes.
const LONGEST: Duration = Duration::from_secs(20);

fn golden() -> Vec<u8> {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/golden");
    fs::read(folder.join("version-5.trace")).expect("a readable golden file")
}

fn number(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(bytes[at..at + 8].try_into().expect("eight bytes"))
}

/// Where the chunks start.
fn chunks(bytes: &[u8]) -> Vec<usize> {
    let fields = u32::from_le_bytes(bytes[12..16].try_into().expect("four bytes"));
    let mut at = 24 + fields as usize;
    let mut chunks = Vec::new();
    while bytes[at..].starts_with(b"\xd1UnspChk") {
        chunks.push(at);
        at += CHUNK_HEADER + number(bytes, at + PAYLOAD_BYTES) as usize;
    }
    chunks
}

/// Makes the checksums of a chunk right.
fn seal(bytes: &mut [u8], chunk: usize, payload: usize) {
    let sum = xxh3_64(&bytes[chunk + CHUNK_HEADER..][..payload]);
    bytes[chunk + PAYLOAD_CHECKSUM..][..8].copy_from_slice(&sum.to_le_bytes());
    let sum = xxh3_64(&bytes[chunk..chunk + HEADER_CHECKSUM]);
    bytes[chunk + HEADER_CHECKSUM..][..8].copy_from_slice(&sum.to_le_bytes());
}

/// A generator of numbers that look random (xorshift, Marsaglia 2003).
struct Random(u64);

impl Random {
    fn below(&mut self, limit: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % limit as u64) as usize
    }

    /// Bytes at which numbers overflow, and others.
    fn byte(&mut self) -> u8 {
        [0, 1, 0x7f, 0x80, 0xff, self.below(256) as u8][self.below(6)]
    }
}

/// Changes one to four bytes of a chunk's payload or of its header's fields.
fn forge(bytes: &mut [u8], chunk: usize, random: &mut Random) {
    let payload = number(bytes, chunk + PAYLOAD_BYTES) as usize;
    for _ in 0..=random.below(4) {
        let at = if payload == 0 || random.below(8) == 0 {
            chunk + 8 + random.below(PAYLOAD_BYTES - 8)
        } else {
            chunk + CHUNK_HEADER + random.below(payload)
        };
        bytes[at] = random.byte();
    }
    seal(bytes, chunk, payload);
}

/// Reads a trace in every way. Returns the items and the problems; none if it is refused.
fn read(path: &std::path::Path, bytes: &[u8]) -> Option<(usize, usize)> {
    fs::write(path, bytes).expect("writable");
    let mut streamed = Recorder::default();
    if let Ok(reader) = StreamReader::new(bytes) {
        reader.deliver(&mut streamed);
    }
    assert!(streamed.items.len() <= MOST_ITEMS);
    let trace = Trace::open(path).ok()?;
    let mut problems = trace.problems().to_vec();
    let mut recorder = Recorder::default();
    problems.extend(trace.merged().deliver(&mut recorder));
    assert!(recorder.items.len() <= MOST_ITEMS);
    for problem in &problems {
        assert!(!problem.to_string().is_empty());
    }
    let _ = (trace.summary(), trace.modules(), trace.functions());
    Some((recorder.items.len(), problems.len()))
}

#[test]
fn forged_chunks_are_survived() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let path = directory.path().join("trace");
    let original = golden();
    let starts = chunks(&original);
    assert!(starts.len() > 5, "the golden file has few chunks");
    let whole = read(&path, &original).expect("the golden file is readable");
    assert_eq!(whole.1, 0);
    let mut random = Random(0x2545_f491_4f6c_dd1d);
    let (mut with_problems, mut with_other_items) = (0, 0);
    for _ in 0..800 {
        let mut bytes = original.clone();
        for _ in 0..=random.below(2) {
            forge(&mut bytes, starts[random.below(starts.len())], &mut random);
        }
        let start = Instant::now();
        if let Some((items, problems)) = read(&path, &bytes) {
            with_problems += usize::from(problems > 0);
            with_other_items += usize::from(problems == 0 && items != whole.0);
        }
        assert!(start.elapsed() < LONGEST, "reading takes too long");
    }
    // The control: forgeries do reach the parsers, some say so and some go unnoticed.
    assert!(with_problems > 150, "{with_problems} with problems");
    assert!(with_other_items > 0, "none was taken for a whole trace");
}
