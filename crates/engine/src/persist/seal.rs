//! Whether a kept file is what was written: without reading it.
//!
//! A file that has its name has its content too, as long as the system runs: what is not on the disk
//! yet is in memory. After a power failure that can be different. So each file says in which run
//! of the system it was written, and which time of modification it was given then: a whole
//! second, which a file that somebody changes afterwards does not have but by accident.

use std::fs::{File, Metadata};
use std::io::Read;
use std::os::unix::fs::MetadataExt;

use xxhash_rust::xxh3::xxh3_64;

/// When a file was written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Seal {
    /// Names this run of the system; 0 if that is not known.
    pub(super) boot: u64,
    /// The time of modification, in seconds.
    pub(super) written: i64,
}

/// What a seal tells.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum SealState {
    /// The file is as it was written.
    Whole,
    /// It must be looked at.
    Unknown,
    /// It was changed.
    Broken,
}

impl Seal {
    /// For a file that is written at a moment, in seconds.
    pub(super) fn new(written: i64) -> Seal {
        Seal {
            boot: boot(),
            written,
        }
    }

    /// What it tells of the file that it stands in.
    pub(super) fn examine(self, facts: &Metadata) -> SealState {
        self.compare(boot(), (facts.mtime(), facts.mtime_nsec()))
    }

    fn compare(self, boot: u64, modified: (i64, i64)) -> SealState {
        match self.boot == boot && boot != 0 {
            true if modified == (self.written, 0) => SealState::Whole,
            true => SealState::Broken,
            false => SealState::Unknown,
        }
    }
}

/// A number for this run of the system.
fn boot() -> u64 {
    let mut id = [0; 36];
    let file = File::open("/proc/sys/kernel/random/boot_id");
    let read = file.and_then(|mut file| file.read_exact(&mut id));
    read.map_or(0, |()| xxh3_64(&id))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_files_of_this_run_and_of_their_time_are_whole() {
        let seal = Seal {
            boot: 5,
            written: 1000,
        };
        let cases = [
            (5, (1000, 0), SealState::Whole),
            (5, (1000, 1), SealState::Broken),
            (5, (1001, 0), SealState::Broken),
            (6, (1000, 0), SealState::Unknown),
            (0, (1000, 0), SealState::Unknown),
        ];
        for (boot, modified, expected) in cases {
            assert_eq!(
                seal.compare(boot, modified),
                expected,
                "{boot} {modified:?}"
            );
        }
        let nowhere = Seal { boot: 0, ..seal };
        assert_eq!(nowhere.compare(0, (1000, 0)), SealState::Unknown);
    }
}
