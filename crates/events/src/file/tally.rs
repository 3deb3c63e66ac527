//! Counts what is in packed records, and how far they move their thread's time.

use crate::clock::Clock;
use crate::codec::{ChunkEncoder, EncodedRecords, payload_words};
use crate::event::{KnownStream, StreamSet};
use crate::expand::{RecordKind, keep_time as keep_time_of};
use crate::operand::{MissingWord, count_accesses as count_operand};
use crate::paths::{BorrowedPath, Instruction, PathTable};
use crate::streams::{EventKind, Streams};
use crate::superblock::Extent;
use unspool_container::Order;
use unspool_container::chunk::Counts;

/// Counts the records that the encoder packed last, from `words`, and gives the thread's
/// time after them, and of which streams they are.
pub(crate) fn tally(
    encoder: &ChunkEncoder,
    encoded: EncodedRecords,
    words: &[u64],
    paths: &PathTable,
    order: Order,
    start_time: u64,
) -> (Counts, u64, StreamSet) {
    let streams = Streams::default();
    let mut used = StreamSet::default();
    let kinds: Vec<RecordKind<BorrowedPath<'_>>> = encoder
        .distinct()
        .map(|(header, _)| RecordKind::new(header, paths, &streams))
        .collect();
    let mut counts = Counts {
        words: encoded.words as u64,
        ..Counts::default()
    };
    let mut passed = 0;
    let mut has_stamps = false;
    let mut has_tickets = false;
    for (kind, (header, rows)) in kinds.iter().zip(encoder.distinct()) {
        let records = rows.len() as u64;
        match kind {
            RecordKind::Path { path, instructions } => {
                passed += *instructions as u64 * records;
                let (accessing, events) = path.code.accessing_and_events(*instructions);
                counts.instructions += accessing * records;
                counts.events += events * records;
                if header >> 63 == 0 {
                    counts.executed += path.executed * records;
                }
                counts.accesses += match path.code.fixed_accesses(*instructions) {
                    Some(accesses) => accesses * records,
                    None => {
                        let columns = payload_words(header);
                        let rows = rows.iter().map(|&row| &words[row as usize..][..columns]);
                        count_accesses(path, *instructions, rows)
                    }
                };
                used.insert(KnownStream::Accesses);
                if events > 0 {
                    used.insert(KnownStream::Instructions);
                }
                has_tickets |= path.code.has_tickets();
            }
            RecordKind::Event(kind) => {
                if let EventKind::Of(stream, _) = kind {
                    used.insert(*stream);
                }
                passed += records;
                counts.events += records;
            }
            RecordKind::Stamp(_) => has_stamps = true,
            _ => {}
        }
    }
    let mut clock = Clock::new(order, start_time);
    if has_stamps || has_tickets {
        keep_time(encoder, words, &kinds, &mut clock);
    } else {
        clock.pass(passed);
    }
    (counts, clock.time(), used)
}

/// The accesses of records of one path, some of which their words decide.
fn count_accesses<'a>(
    path: &BorrowedPath<'_>,
    instructions: usize,
    rows: impl Iterator<Item = &'a [u64]>,
) -> u64 {
    let instructions = &path.code.instructions()[..instructions];
    let operands = instructions
        .iter()
        .flat_map(|instruction| path.code.operands(instruction));
    let (plain, others): (Vec<_>, Vec<_>) =
        operands.partition(|operand| operand.extent == Extent::Plain);
    let count = |words: &[u64]| {
        let mut sum = plain.len();
        for operand in &others {
            sum += count_operand(operand, words)?;
        }
        Ok::<_, MissingWord>(sum)
    };
    rows.map(|words| {
        count(words).unwrap_or_else(|_| count_what_is_there(path, instructions, words))
    })
    .sum::<usize>() as u64
}

/// The accesses of a record that has too few words: up to the instruction that misses some.
#[cold]
fn count_what_is_there(
    path: &BorrowedPath<'_>,
    instructions: &[Instruction],
    words: &[u64],
) -> usize {
    let count = |instruction| {
        let operands = path.code.operands(instruction).iter();
        let counts = operands.map(|operand| count_operand(operand, words));
        counts.sum::<Result<usize, _>>().ok()
    };
    instructions.iter().map_while(count).sum()
}

/// Moves the clock over every record in turn.
fn keep_time(
    encoder: &ChunkEncoder,
    words: &[u64],
    kinds: &[RecordKind<BorrowedPath<'_>>],
    clock: &mut Clock,
) {
    for (index, row) in encoder.records() {
        let words = &words[row..][..payload_words(words[row - 1])];
        keep_time_of(&kinds[index], words, clock);
    }
}
