//! `.eh_frame_hdr`: a sorted table of the entries of `.eh_frame`.

use super::entry::{self, FrameDescription};
use super::reader::{OMITTED, Reader};
use crate::section::Section;

/// `DW_EH_PE_datarel | DW_EH_PE_sdata4`: the form in which all linkers write the table.
const TABLE_ENCODING: u8 = 0x3b;
/// `DW_EH_PE_udata4`: the form of the number of rows.
const COUNT_ENCODING: u8 = 0x03;
/// Bytes of a row: where code begins, and where its entry is.
const ROW: usize = 8;

/// The entry for the code at `address`, found by the table; by going through all of them where the
/// table is missing or of another form.
pub(crate) fn find(
    header: Option<Section<'_>>,
    frames: Section<'_>,
    address: u64,
) -> Option<FrameDescription> {
    let table = header.and_then(Table::new);
    let found = match table {
        Some(table) => {
            let offset = table.entry_before(address)?.checked_sub(frames.address)?;
            entry::at(frames, usize::try_from(offset).ok()?)
        }
        None => entry::Entries::new(frames).find(|entry| entry.code.contains(&address)),
    };
    found.filter(|entry| entry.code.contains(&address))
}

/// A header for `frames`, as a linker would have made it, at the address of `frames`; nothing where
/// there is one that can be used. Without it, each look-up goes through all entries.
///
/// Entries that are further than 2 GiB from the code that they describe are left out.
#[must_use]
pub fn search_table(header: Option<Section<'_>>, frames: Section<'_>) -> Option<Vec<u8>> {
    if header.and_then(Table::new).is_some() {
        return None;
    }
    let relative = |address: u64| i32::try_from(address.wrapping_sub(frames.address) as i64).ok();
    let mut entries = entry::Entries::new(frames);
    let mut rows = Vec::new();
    while let Some((offset, entry)) = entries.next_at() {
        if let (Some(code), Ok(offset)) = (relative(entry.code.start), i32::try_from(offset)) {
            rows.push((code, offset));
        }
    }
    rows.sort_unstable();
    let count = u32::try_from(rows.len()).ok()?;
    let mut table = vec![1, OMITTED, COUNT_ENCODING, TABLE_ENCODING];
    table.extend(count.to_le_bytes());
    for (code, offset) in rows {
        table.extend(code.to_le_bytes());
        table.extend(offset.to_le_bytes());
    }
    Some(table)
}

/// The sorted table.
struct Table<'a> {
    header: u64,
    rows: &'a [[u8; ROW]],
}

impl<'a> Table<'a> {
    fn new(header: Section<'a>) -> Option<Table<'a>> {
        let mut reader = Reader::new(header, 0);
        let version = reader.u8()?;
        let [frames, count, table] = [reader.u8()?, reader.u8()?, reader.u8()?];
        if version != 1 || table != TABLE_ENCODING || count == OMITTED {
            return None;
        }
        if frames != OMITTED {
            reader.pointer(frames, header.address)?;
        }
        let count = reader.pointer(count, header.address)?;
        let (rows, _) = header.bytes.get(reader.position()..)?.as_chunks::<ROW>();
        let count = usize::try_from(count).ok()?;
        // A table that says more than there is ends where the section ends.
        let rows = &rows[..count.min(rows.len())];
        Some(Table {
            header: header.address,
            rows,
        })
    }

    /// The address of the last entry whose code begins at or before `address`.
    fn entry_before(&self, address: u64) -> Option<u64> {
        let behind = self
            .rows
            .partition_point(|row| self.address(row, 0) <= address);
        let row = self.rows.get(behind.checked_sub(1)?)?;
        Some(self.address(row, 4))
    }

    fn address(&self, row: &[u8; ROW], at: usize) -> u64 {
        let [a, b, c, d] = [row[at], row[at + 1], row[at + 2], row[at + 3]];
        let distance = i32::from_le_bytes([a, b, c, d]);
        self.header.wrapping_add_signed(i64::from(distance))
    }
}
