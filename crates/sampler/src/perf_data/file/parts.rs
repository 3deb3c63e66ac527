//! Where in a file its attributes, records and features are: at places that its header tells or, of what
//! went through a pipe, all among the records.

use unspool_container::bytes::{ByteReader, Malformed};

use super::PerfDataError;

pub(super) const MAGIC: &[u8; 8] = b"PERFILE2";
/// The header of what goes through a pipe has its own size only.
const PIPE_HEADER_BYTES: u64 = 16;

/// Numbers of features.
pub(super) const BUILD_IDS: u32 = 2;
pub(super) const COMMAND_LINE: u32 = 11;
const FEATURES: u32 = 256;

/// Kinds of records from here on are perf's own.
pub(super) const FIRST_OF_PERF: u32 = 64;
/// Those by which the parts of a file go through a pipe.
const ATTRIBUTE: u32 = 64;
const BUILD_ID: u32 = 67;
const FEATURE: u32 = 80;
/// Those that are followed by bytes that they do not count.
const TRACING_DATA: u32 = 66;
const AUXILIARY_TRACE: u32 = 71;

/// The parts of a file.
#[derive(Debug, Default)]
pub(super) struct Parts<'a> {
    /// Of each event its attribute, and its identifiers.
    pub(super) attributes: Vec<(&'a [u8], &'a [u8])>,
    pub(super) records: &'a [u8],
    pub(super) features: Vec<(u32, &'a [u8])>,
    /// Whether the records end before the file says so.
    pub(super) is_cut_off: bool,
}

/// Whether a file begins as one of `perf record` does.
pub(in crate::perf_data) fn is_perf_data(start: &[u8]) -> bool {
    start.starts_with(MAGIC)
}

/// Bytes of a file.
fn part(file: &[u8], offset: u64, length: u64) -> Result<&[u8], Malformed> {
    let start = usize::try_from(offset).map_err(|_| Malformed)?;
    let length = usize::try_from(length).map_err(|_| Malformed)?;
    let end = start.checked_add(length).ok_or(Malformed)?;
    file.get(start..end).ok_or(Malformed)
}

/// The next record: its kind, its bits and its body.
pub(super) fn record<'a>(reader: &mut ByteReader<'a>) -> Result<(u32, u16, &'a [u8]), Malformed> {
    let (kind, bits, length) = (reader.u32()?, reader.u16()?, reader.u16()?);
    let body = usize::from(length).checked_sub(8).ok_or(Malformed)?;
    let body = reader.take(body)?;
    let behind = match kind {
        TRACING_DATA => {
            let size = u64::from(ByteReader::new(body).u32()?);
            size.next_multiple_of(8)
        }
        AUXILIARY_TRACE => ByteReader::new(body).u64()?,
        _ => 0,
    };
    reader.take(usize::try_from(behind).map_err(|_| Malformed)?)?;
    Ok((kind, bits, body))
}

impl<'a> Parts<'a> {
    pub(super) fn of(file: &'a [u8]) -> Result<Parts<'a>, PerfDataError> {
        if !is_perf_data(file) {
            return Err(PerfDataError::NotPerfData);
        }
        let mut header = ByteReader::new(&file[MAGIC.len()..]);
        let parts = match header.u64() {
            Ok(PIPE_HEADER_BYTES) => Ok(Parts::of_pipe(&file[PIPE_HEADER_BYTES as usize..])),
            Ok(_) => Parts::of_file(file, &mut header),
            Err(error) => Err(error),
        };
        parts.map_err(|Malformed| PerfDataError::Damaged)
    }

    /// Those at the places that a header tells.
    fn of_file(file: &'a [u8], header: &mut ByteReader<'a>) -> Result<Parts<'a>, Malformed> {
        let attribute_bytes = usize::try_from(header.u64()?).map_err(|_| Malformed)?;
        let mut place = || Ok((header.u64()?, header.u64()?));
        let (attributes, (start, length)) = (place()?, place()?);
        let _types = place()?;
        let features = [header.u64()?, header.u64()?, header.u64()?, header.u64()?];
        // Where the identifiers are stands behind the attribute.
        let places = attribute_bytes.checked_sub(16).ok_or(Malformed)?;
        let listed = part(file, attributes.0, attributes.1)?.chunks_exact(attribute_bytes);
        let attributes = listed.map(|bytes| {
            let (attribute, place) = bytes.split_at(places);
            let mut place = ByteReader::new(place);
            Ok((attribute, part(file, place.u64()?, place.u64()?)?))
        });
        let mut parts = Parts {
            attributes: attributes.collect::<Result<_, Malformed>>()?,
            ..Parts::default()
        };
        // A run that was cut off has not said how much there is.
        let whole = part(file, start, length).ok().filter(|_| length > 0);
        match whole {
            Some(records) => {
                parts.records = records;
                parts.find_features(file, start.saturating_add(length), features);
            }
            None => {
                let start = usize::try_from(start).map_err(|_| Malformed)?;
                parts.records = file.get(start..).ok_or(Malformed)?;
                parts.is_cut_off = true;
            }
        }
        Ok(parts)
    }

    /// What follows the records. What is damaged there is left out: samples do not need it.
    fn find_features(&mut self, file: &'a [u8], table: u64, features: [u64; 4]) {
        let is_there = |number: &u32| features[*number as usize / 64] & 1 << (number % 64) != 0;
        let mut entries = table;
        for number in (0..FEATURES).filter(is_there) {
            let Ok(entry) = part(file, entries, 16) else {
                return;
            };
            entries += 16;
            let mut entry = ByteReader::new(entry);
            if let (Ok(offset), Ok(length)) = (entry.u64(), entry.u64())
                && let Ok(bytes) = part(file, offset, length)
            {
                self.features.push((number, bytes));
            }
        }
    }

    /// Those among the records of what went through a pipe. Where it was cut off between two of them,
    /// nothing tells.
    fn of_pipe(records: &'a [u8]) -> Parts<'a> {
        let mut parts = Parts {
            records,
            ..Parts::default()
        };
        let mut reader = ByteReader::new(records);
        loop {
            let whole = &records[records.len() - reader.remaining()..];
            let Ok((kind, _, body)) = record(&mut reader) else {
                return parts;
            };
            match kind {
                ATTRIBUTE => parts.attributes.extend(attribute(body)),
                // As such records are listed in files.
                BUILD_ID => parts.features.push((BUILD_IDS, &whole[..8 + body.len()])),
                FEATURE => {
                    if let Some((number, bytes)) = body.split_first_chunk() {
                        let number = u64::from_le_bytes(*number);
                        parts.features.push((number as u32, bytes));
                    }
                }
                _ => {}
            }
        }
    }
}

/// An attribute, which says how long it is, and the identifiers behind it.
fn attribute(body: &[u8]) -> Option<(&[u8], &[u8])> {
    let size = u32::from_le_bytes(body.get(4..8)?.try_into().ok()?);
    body.split_at_checked(size as usize)
}
