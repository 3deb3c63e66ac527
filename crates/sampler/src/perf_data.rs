//! What `perf record` has written, as a recording.

mod file;

use std::collections::HashMap;
use std::io::Write;
use std::time::UNIX_EPOCH;

use unspool_container::TraceHeader;
use unspool_profile_record::{Ending, Record, Settings, Source, Writer};

pub use self::file::PerfDataError;
use self::file::{PerfData, is_perf_data};
use crate::kernel_record::{KernelRecord, What};
use crate::observer::{Observer, Origin};
use crate::part_of_run::PartOfRun;

/// What could not be taken over.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct NotTaken {
    /// Samples of other events than the one that stands for time.
    pub other_samples: u64,
    /// Whether the file ends in the middle.
    pub is_cut_off: bool,
}

/// Whether a file that starts so is one of `perf record`.
#[must_use]
pub fn begins(start: &[u8]) -> bool {
    is_perf_data(start)
}

/// Writes a recording of what a file of `perf record` says: its samples with their call paths, which are
/// unwound where it has copies of stacks and registers, and taken as they are where it has call chains.
/// The files of the program are read where they lie here; those with other build identifiers than the
/// sampled ones are not. The command in the header is perf's.
///
/// # Errors
/// If it is no such file, or its samples do not stand for time, or the recording cannot be written.
pub fn import(
    file: &[u8],
    header: TraceHeader,
    output: impl Write,
) -> Result<NotTaken, PerfDataError> {
    let read = PerfData::read(file)?;
    let not_taken = NotTaken {
        other_samples: read.other_samples,
        is_cut_off: read.is_cut_off,
    };
    let header = TraceHeader {
        program: read.command.first().cloned().unwrap_or_default(),
        arguments: read.command.clone(),
        ..header
    };
    write(read, &header, output).map_err(|_| PerfDataError::Write)?;
    Ok(not_taken)
}

fn write(read: PerfData, header: &TraceHeader, output: impl Write) -> std::io::Result<()> {
    let mut writer = Writer::new(output, header)?;
    writer.write(&Record::Settings(Settings {
        period_ns: read.event.period_ns().unwrap_or(0),
        stack_bytes: read.event.stack_bytes.into(),
        includes_kernel: read.event.includes_kernel(),
        source: Source::PerfRecord,
    }))?;
    let build_ids: HashMap<String, Vec<u8>> = read
        .build_ids
        .into_iter()
        .map(|(path, id)| (String::from_utf8_lossy(&path).into_owned(), id))
        .collect();
    let mut observer = Observer::new(
        writer,
        Origin::Elsewhere { build_ids },
        PartOfRun::new(0..u64::MAX, false),
        UNIX_EPOCH,
    );
    let is_sample = |record: &&KernelRecord| matches!(record.what, What::Sampled(_));
    let mut times = read.records.iter().filter(is_sample);
    let first_ns = times.next().map_or(0, |record| record.time_ns);
    let last_ns = times.next_back().map_or(first_ns, |record| record.time_ns);
    for record in read.records {
        observer.take(record)?;
    }
    observer.flush()?;
    observer.write(&Record::Ending(Ending {
        elapsed_ns: last_ns - first_ns,
        user_ns: 0,
        system_ns: 0,
    }))?;
    observer.flush()
}
