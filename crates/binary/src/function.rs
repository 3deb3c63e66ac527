//! The functions of a module, by address.

use std::ops::Range;

use crate::address::FileAddress;
use crate::demangle::demangle;
use crate::segments::Segments;

/// What a name in a symbol table stands for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum FunctionKind {
    /// A function.
    Function,
    /// An indirect function (`STT_GNU_IFUNC`): what is at the address does not do the named
    /// work, but returns the address of a function that does, chosen for this processor.
    Resolver,
    /// A label in code, without a type: often a function written in assembler.
    Label,
}

/// A name and the code that it stands for. One piece of code may have several.
#[derive(Debug, Clone, Copy)]
pub struct Function<'module> {
    table: &'module FunctionTable,
    entry: &'module TableEntry,
}

impl<'module> Function<'module> {
    /// Its first instruction.
    #[must_use]
    pub fn address(&self) -> FileAddress {
        FileAddress(self.entry.address)
    }

    /// The address after its last byte. Where the symbol tells no size this is where the
    /// next function starts, or the segment ends.
    #[must_use]
    pub fn end(&self) -> FileAddress {
        FileAddress(self.entry.end)
    }

    /// What it is.
    #[must_use]
    pub fn kind(&self) -> FunctionKind {
        self.entry.kind
    }

    /// The name as the symbol table has it (mangled), without a version.
    #[must_use]
    pub fn symbol(&self) -> &'module [u8] {
        self.table.name(self.entry)
    }

    /// Where its symbol is among all.
    pub(crate) fn name_range(&self) -> Range<usize> {
        let start = self.entry.name_start as usize;
        start..start + self.entry.name_length as usize
    }

    /// The name as the source has it: see [`demangle`].
    #[must_use]
    pub fn name(&self) -> String {
        demangle(self.symbol())
    }
}

#[derive(Debug, Clone, Copy)]
struct TableEntry {
    address: u64,
    end: u64,
    name_start: u32,
    name_length: u32,
    kind: FunctionKind,
    /// 0 global, 1 weak, 2 local.
    binding: u8,
}

/// Functions sorted by address, the best name of an address first.
#[derive(Debug, Default)]
pub(crate) struct FunctionTable {
    entries: Vec<TableEntry>,
    names: Vec<u8>,
    /// For each entry, the greatest end of it and those before it.
    greatest_ends: Vec<u64>,
}

impl FunctionTable {
    pub(crate) fn iter(&self) -> impl Iterator<Item = Function<'_>> {
        self.entries
            .iter()
            .map(|entry| Function { table: self, entry })
    }

    pub(crate) fn all_names(&self) -> &[u8] {
        &self.names
    }

    /// The innermost function that holds the address.
    pub(crate) fn at(&self, address: u64) -> Option<Function<'_>> {
        let after = self
            .entries
            .partition_point(|entry| entry.address <= address);
        let mut best: Option<&TableEntry> = None;
        for index in (0..after).rev() {
            let entry = &self.entries[index];
            if best.is_some_and(|best| best.address != entry.address)
                || self.greatest_ends[index] <= address
            {
                break;
            }
            if entry.end > address {
                // Going backwards through the names of one address ends at the best.
                best = Some(entry);
            }
        }
        best.map(|entry| Function { table: self, entry })
    }

    fn name(&self, entry: &TableEntry) -> &[u8] {
        let start = entry.name_start as usize;
        self.names
            .get(start..start + entry.name_length as usize)
            .unwrap_or_default()
    }
}

/// Collects functions in any order.
#[derive(Debug, Default)]
pub(crate) struct FunctionTableBuilder {
    table: FunctionTable,
}

impl FunctionTableBuilder {
    /// Adds a function; a size of 0 is unknown.
    pub(crate) fn add(
        &mut self,
        address: u64,
        size: u64,
        kind: FunctionKind,
        binding: u8,
        name: &[u8],
    ) {
        let names = &mut self.table.names;
        let (Ok(name_start), Ok(name_length)) =
            (u32::try_from(names.len()), u32::try_from(name.len()))
        else {
            return;
        };
        names.extend_from_slice(name);
        let end = address.saturating_add(size);
        self.table.entries.push(TableEntry {
            address,
            end,
            name_start,
            name_length,
            kind,
            binding,
        });
    }

    /// The address, the end by the symbol's size, the kind and the symbol of each.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (u64, u64, FunctionKind, &[u8])> {
        let table = &self.table;
        let entries = table.entries.iter();
        entries.map(|entry| (entry.address, entry.end, entry.kind, table.name(entry)))
    }

    /// Adds all functions of another table.
    pub(crate) fn append(&mut self, other: FunctionTableBuilder) {
        for entry in &other.table.entries {
            let name = other.table.name(entry);
            self.add(
                entry.address,
                entry.end - entry.address,
                entry.kind,
                entry.binding,
                name,
            );
        }
    }

    /// Sorts, and fills in the ends that are not known.
    pub(crate) fn build(self, segments: &Segments) -> FunctionTable {
        let mut table = self.table;
        let names = std::mem::take(&mut table.names);
        let name = |entry: &TableEntry| {
            let start = entry.name_start as usize;
            names
                .get(start..start + entry.name_length as usize)
                .unwrap_or_default()
        };
        table.entries.sort_by(|one, other| {
            let key =
                |entry: &TableEntry| (entry.address, entry.kind, entry.binding, entry.name_length);
            key(one)
                .cmp(&key(other))
                .then_with(|| name(one).cmp(name(other)))
        });
        // Both symbol tables name exported functions.
        table
            .entries
            .dedup_by(|one, other| one.address == other.address && name(one) == name(other));
        table.names = names;
        remove_inner_labels(&mut table.entries);
        fill_ends(&mut table.entries, segments);
        let mut greatest = 0;
        table.greatest_ends = table
            .entries
            .iter()
            .map(|entry| {
                greatest = greatest.max(entry.end);
                greatest
            })
            .collect();
        table
    }
}

/// Labels inside a function of known size are places in it, not functions.
fn remove_inner_labels(entries: &mut Vec<TableEntry>) {
    let mut sized_end = 0;
    entries.retain(|entry| {
        let inner = entry.kind == FunctionKind::Label && entry.address < sized_end;
        if entry.kind != FunctionKind::Label {
            sized_end = sized_end.max(entry.end);
        }
        !inner
    });
}

fn fill_ends(entries: &mut [TableEntry], segments: &Segments) {
    let mut next_address = u64::MAX;
    let mut current = u64::MAX;
    for entry in entries.iter_mut().rev() {
        if entry.address != current {
            next_address = current;
            current = entry.address;
        }
        let code_end = segments.code_end(entry.address).unwrap_or(entry.address);
        if entry.end == entry.address {
            entry.end = next_address.min(code_end);
        }
        entry.end = entry.end.min(code_end);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::segments::Segment;

    fn table(functions: &[(u64, u64, FunctionKind, u8, &str)]) -> FunctionTable {
        let (segments, _) = Segments::new(vec![Segment {
            offset: 0,
            address: 0x1000,
            file_size: 0x1000,
            memory_size: 0x1000,
            executable: true,
        }]);
        let mut builder = FunctionTableBuilder::default();
        for &(address, size, kind, binding, name) in functions {
            builder.add(address, size, kind, binding, name.as_bytes());
        }
        builder.build(&segments)
    }

    fn name_at(table: &FunctionTable, address: u64) -> Option<String> {
        table.at(address).map(|function| function.name())
    }

    #[test]
    fn addresses_belong_to_the_innermost_function() {
        use FunctionKind::Function as F;
        let table = table(&[
            (0x1000, 0x100, F, 0, "outer"),
            (0x1040, 0x10, F, 0, "inner"),
            (0x1200, 0x10, F, 0, "later"),
        ]);
        let expected = [
            (0xfff, None),
            (0x1000, Some("outer")),
            (0x103f, Some("outer")),
            (0x1040, Some("inner")),
            (0x104f, Some("inner")),
            (0x1050, Some("outer")),
            (0x10ff, Some("outer")),
            (0x1100, None),
            (0x1205, Some("later")),
            (0x1210, None),
        ];
        for (address, name) in expected {
            assert_eq!(name_at(&table, address).as_deref(), name, "{address:#x}");
        }
    }

    #[test]
    fn unknown_sizes_reach_to_the_next_function() {
        use FunctionKind::{Function as F, Label as L};
        let table = table(&[
            (0x1f00, 0, F, 0, "last"),
            (0x1000, 0, L, 0, "first"),
            (0x1000, 0, F, 2, "same"),
            (0x1020, 0x20, F, 0, "sized"),
            (0x1030, 0, L, 0, "label_inside"),
        ]);
        assert_eq!(name_at(&table, 0x101f).as_deref(), Some("same"));
        assert_eq!(name_at(&table, 0x1035).as_deref(), Some("sized"));
        assert_eq!(name_at(&table, 0x1040), None);
        assert_eq!(name_at(&table, 0x1fff).as_deref(), Some("last"));
        assert_eq!(table.iter().count(), 4);
    }

    #[test]
    fn of_several_names_the_most_public_and_shortest_is_shown() {
        use FunctionKind::Function as F;
        let table = table(&[
            (0x1000, 8, F, 2, "a"),
            (0x1000, 8, F, 0, "__longer"),
            (0x1000, 8, F, 0, "malloc"),
            (0x1000, 8, F, 0, "malloc"),
            (0x1000, 8, F, 1, "b"),
        ]);
        assert_eq!(name_at(&table, 0x1007).as_deref(), Some("malloc"));
        assert_eq!(table.iter().count(), 4);
    }

    #[test]
    fn impossible_sizes_end_with_the_segment() {
        let table = table(&[(0x1ff0, u64::MAX, FunctionKind::Function, 0, "huge")]);
        assert_eq!(
            table.at(0x1fff).map(|function| function.end()),
            Some(FileAddress(0x2000))
        );
        assert!(table.at(0x2000).is_none());
    }
}
