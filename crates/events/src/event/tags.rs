//! The events of files before streams were declared: each had one number, its tag.

use super::KnownStream;

/// Which record of which stream an event with this tag is.
pub(crate) fn stream_of_tag(tag: u64) -> Option<(KnownStream, u16)> {
    Some(match tag {
        1 => (KnownStream::Threads, 1),
        2 => (KnownStream::Threads, 2),
        3 => (KnownStream::Threads, 3),
        4 => (KnownStream::Threads, 4),
        5 => (KnownStream::Spans, 1),
        6 => (KnownStream::Spans, 2),
        7 => (KnownStream::Spans, 3),
        8 => (KnownStream::Spans, 4),
        9 => (KnownStream::Threads, 5),
        10 => (KnownStream::Threads, 6),
        11 => (KnownStream::Synchronisation, 1),
        12 => (KnownStream::SystemCalls, 1),
        13 => (KnownStream::SystemCalls, 2),
        14 => (KnownStream::MemoryEffects, 1),
        15 => (KnownStream::Mappings, 1),
        16 => (KnownStream::Mappings, 2),
        17 => (KnownStream::Processes, 1),
        18 => (KnownStream::Processes, 2),
        19 => (KnownStream::Losses, 1),
        20 => (KnownStream::Mappings, 3),
        21 => (KnownStream::Instructions, 1),
        22 => (KnownStream::Instructions, 2),
        23 => (KnownStream::Instructions, 3),
        _ => return None,
    })
}
