//! Tables of records that can be kept: the first records of a table may be those of a snapshot,
//! used where its file is mapped.

use std::ops::{Index, IndexMut, Range};

/// A snapshot that is not one.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[error("the kept translations are damaged")]
pub struct Damaged;

/// What can be written to a file as it is in memory, and be used where that is mapped.
///
/// # Safety
/// The type has no padding. Where not all values of its bytes are allowed,
/// [`Record::is_allowed`] tells.
pub(super) unsafe trait Record: Copy + 'static {
    /// Whether these bytes, as many as a record has, are one.
    fn is_allowed(_bytes: &[u8]) -> bool {
        true
    }
}

// SAFETY: a number.
unsafe impl Record for u8 {}
// SAFETY: a number.
unsafe impl Record for u64 {}

/// A table that grows. What was kept stays where it is.
#[derive(Debug)]
pub(super) struct Table<T: 'static> {
    kept: &'static mut [T],
    new: Vec<T>,
}

impl<T: 'static> Default for Table<T> {
    fn default() -> Table<T> {
        Table {
            kept: &mut [],
            new: Vec::new(),
        }
    }
}

impl<T: Copy + 'static> Table<T> {
    /// A table that begins with what was kept.
    pub(super) fn kept(kept: &'static mut [T]) -> Table<T> {
        Table {
            kept,
            new: Vec::new(),
        }
    }

    pub(super) fn len(&self) -> usize {
        self.kept.len() + self.new.len()
    }

    /// How many records were kept.
    pub(super) fn kept_len(&self) -> usize {
        self.kept.len()
    }

    pub(super) fn push(&mut self, record: T) {
        self.new.push(record);
    }

    pub(super) fn extend(&mut self, records: &[T]) {
        self.new.extend_from_slice(records);
    }

    /// Those that were not kept.
    pub(super) fn new_mut(&mut self) -> &mut [T] {
        &mut self.new
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &T> {
        self.kept.iter().chain(&self.new)
    }

    /// Records that were added together, or kept.
    pub(super) fn range(&self, range: Range<usize>) -> &[T] {
        match range.start.checked_sub(self.kept.len()) {
            Some(start) => &self.new[start..range.end - self.kept.len()],
            None => &self.kept[range],
        }
    }

    /// The records from a place on, as far as they stand together.
    pub(super) fn from(&self, start: usize) -> &[T] {
        match start.checked_sub(self.kept.len()) {
            Some(start) => &self.new[start..],
            None => &self.kept[start..],
        }
    }

    /// As that of a slice.
    pub(super) fn partition_point(&self, is_before: impl Fn(&T) -> bool) -> usize {
        match self.kept.last().is_none_or(&is_before) {
            true => self.kept.len() + self.new.partition_point(is_before),
            false => self.kept.partition_point(is_before),
        }
    }

    /// Forgets all.
    pub(super) fn clear(&mut self) {
        self.kept = &mut [];
        self.new.clear();
    }
}

impl<T: 'static> Index<usize> for Table<T> {
    type Output = T;

    fn index(&self, index: usize) -> &T {
        match index.checked_sub(self.kept.len()) {
            Some(index) => &self.new[index],
            None => &self.kept[index],
        }
    }
}

impl<T: 'static> IndexMut<usize> for Table<T> {
    fn index_mut(&mut self, index: usize) -> &mut T {
        match index.checked_sub(self.kept.len()) {
            Some(index) => &mut self.new[index],
            None => &mut self.kept[index],
        }
    }
}

/// Appends a table to a snapshot: how many bytes it has, and its records, at a multiple of eight.
pub(super) fn put<'a, T: Record>(to: &mut Vec<u8>, records: impl IntoIterator<Item = &'a T>) {
    let start = to.len();
    to.extend([0; 8]);
    for record in records {
        // SAFETY: a record has no padding.
        let bytes = unsafe {
            std::slice::from_raw_parts(std::ptr::from_ref(record).cast::<u8>(), size_of::<T>())
        };
        to.extend(bytes);
    }
    let length = (to.len() - start - 8) as u64;
    to[start..start + 8].copy_from_slice(&length.to_le_bytes());
    to.resize(to.len().next_multiple_of(8), 0);
}

/// The tables of a snapshot, one after the other.
pub(super) struct Tables {
    bytes: &'static mut [u8],
    /// Whether they are known to be as [`put`] left them.
    trusted: bool,
}

impl Tables {
    /// Tables that start at a multiple of eight.
    pub(super) fn new(bytes: &'static mut [u8], trusted: bool) -> Tables {
        debug_assert!(bytes.as_ptr().addr().is_multiple_of(8));
        Tables { bytes, trusted }
    }

    /// The next table.
    pub(super) fn next<T: Record>(&mut self) -> Result<&'static mut [T], Damaged> {
        const { assert!(align_of::<T>() <= 8) };
        let (length, rest) = std::mem::take(&mut self.bytes)
            .split_first_chunk_mut()
            .ok_or(Damaged)?;
        let length = usize::try_from(u64::from_le_bytes(*length)).map_err(|_| Damaged)?;
        let whole = length.checked_next_multiple_of(8).ok_or(Damaged)?;
        let (table, rest) = rest.split_at_mut_checked(whole).ok_or(Damaged)?;
        self.bytes = rest;
        let table = &mut table[..length];
        let mut records = table.chunks_exact(size_of::<T>());
        if !records.remainder().is_empty() || !self.trusted && !records.all(T::is_allowed) {
            return Err(Damaged);
        }
        let count = length / size_of::<T>();
        // SAFETY: each table starts at a multiple of eight, as much as any record wants, and holds
        // records that `put` wrote, or that are allowed. Nobody else has these bytes.
        Ok(unsafe { std::slice::from_raw_parts_mut(table.as_mut_ptr().cast::<T>(), count) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Bytes at a multiple of eight.
    fn leak(bytes: &[u8]) -> &'static mut [u8] {
        let words = vec![0_u64; bytes.len().div_ceil(8)].leak();
        // SAFETY: the words are nobody else's.
        let all =
            unsafe { std::slice::from_raw_parts_mut(words.as_mut_ptr().cast::<u8>(), bytes.len()) };
        all.copy_from_slice(bytes);
        all
    }

    fn written() -> Vec<u8> {
        let mut bytes = Vec::new();
        put(&mut bytes, &[1_u8, 2, 3]);
        put::<u64>(&mut bytes, &[]);
        put(&mut bytes, &[7_u64, 8]);
        bytes
    }

    #[test]
    fn tables_come_back() {
        let mut tables = Tables::new(leak(&written()), true);
        assert_eq!(tables.next::<u8>().unwrap(), [1, 2, 3]);
        assert!(tables.next::<u64>().unwrap().is_empty());
        assert_eq!(tables.next::<u64>().unwrap(), [7, 8]);
        assert!(tables.next::<u64>().is_err());
    }

    #[test]
    fn tables_that_are_cut_off_or_uneven_are_damaged() {
        let bytes = written();
        let mut tables = Tables::new(leak(&bytes[..bytes.len() - 1]), true);
        assert!(tables.next::<u8>().is_ok() && tables.next::<u64>().is_ok());
        assert!(tables.next::<u64>().is_err());
        assert!(Tables::new(leak(&bytes), true).next::<u64>().is_err());
    }

    #[test]
    fn new_records_stand_behind_kept_ones() {
        let mut table = Table::kept(vec![1, 3, 5].leak());
        table.push(7);
        table.extend(&[9, 11]);
        table[1] += 1;
        table[4] += 1;
        let all: Vec<_> = table.iter().copied().collect();
        assert_eq!(all, [1, 4, 5, 7, 10, 11]);
        assert_eq!((table.len(), table.kept_len()), (6, 3));
        assert_eq!(
            (table.range(1..3), table.range(3..5)),
            (&[4, 5][..], &[7, 10][..])
        );
        assert_eq!((table.from(2), table.from(5)), (&[5][..], &[11][..]));
        for (limit, count) in [(0, 0), (4, 1), (5, 2), (6, 3), (7, 3), (11, 5), (20, 6)] {
            assert_eq!(table.partition_point(|&one| one < limit), count, "{limit}");
        }
        table.clear();
        assert_eq!(table.len(), 0);
    }
}
