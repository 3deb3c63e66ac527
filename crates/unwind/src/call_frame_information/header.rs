//! `.eh_frame_hdr`: a sorted table of the entries of `.eh_frame`.

use super::entry::{self, FrameDescription};
use super::reader::{OMITTED, Reader};
use crate::section::Section;

/// `DW_EH_PE_datarel | DW_EH_PE_sdata4`: the form in which all linkers write the table.
const TABLE_ENCODING: u8 = 0x3b;
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
