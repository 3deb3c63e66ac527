//! Variables whose type is atomic, as the debugging information (DWARF) says: what is done with them
//! may be plain moves in the code, and is atomic all the same.
//!
//! Types: `DW_TAG_atomic_type` (`_Atomic` of C), and the structures `std::atomic` of C++ and
//! `core::sync::atomic::Atomic…` of Rust, as variables of their own or within others.
//!
//! Of code in C two things are left open. Before version 5 of DWARF nothing says that a type is atomic. And
//! since then, what type the memory has that is no variable's, but a block's or a stack's. (Atomic operations
//! of C++ and Rust are functions, which are told where they were inlined.)

use std::ops::Range;
use std::path::Path;

use addr2line::gimli::{self, Attribute, AttributeValue, EndianSlice, LittleEndian, UnitOffset};

use crate::address::FileAddress;
use crate::debug_file::DebugInformation;
use crate::debug_units::{self, Dwarf, Unit};

type Slice<'data> = EndianSlice<'data, LittleEndian>;
type Entry<'data> = gimli::DebuggingInformationEntry<Slice<'data>>;

/// Where the atomic variables of a module are.
#[derive(Debug, Default)]
pub struct AtomicVariables {
    ranges: Vec<Range<u64>>,
    /// Functions in C that may access others, in the order of their code.
    open: Vec<(Range<u64>, LeftOpen)>,
}

/// What may be atomic in code without being told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LeftOpen {
    /// All memory: the debugging information has no means to tell.
    Everything,
    /// Memory that is no variable's, by accesses of sizes that the code's atomic types have: a bit for each
    /// power of two.
    Unnamed {
        /// The sizes.
        sizes: u8,
    },
}

/// Types within types that are followed.
const DEEPEST: usize = 16;
/// Elements of an array that are looked at.
const MOST_ELEMENTS: u64 = 1 << 12;

impl AtomicVariables {
    /// Of the file at a path. None where it has no debugging information, or it cannot be read.
    #[must_use]
    pub fn open(path: &Path) -> AtomicVariables {
        let mut found = read(path).unwrap_or_default();
        found.ranges.sort_by_key(|range| range.start);
        found.open.sort_by_key(|(code, _)| code.start);
        found
    }

    /// What may be atomic of what the code at an address accesses, without being told.
    #[must_use]
    pub fn left_open_by(&self, code: FileAddress) -> Option<LeftOpen> {
        let after = self.open.partition_point(|(it, _)| it.start <= code.0);
        let (function, left_open) = self.open[..after].last()?;
        function.contains(&code.0).then_some(*left_open)
    }

    /// Whether an address is in one of them.
    #[must_use]
    pub fn contain(&self, address: FileAddress) -> bool {
        let after = self
            .ranges
            .partition_point(|range| range.start <= address.0);
        self.ranges[..after]
            .iter()
            .rev()
            .take(8)
            .any(|range| range.contains(&address.0))
    }
}

fn read(path: &Path) -> Option<AtomicVariables> {
    let information = DebugInformation::of(path)?;
    let mut found = AtomicVariables::default();
    debug_units::for_each(&information.path, &information.package(), |dwarf, unit| {
        if let Ok(unit) = unit {
            // What of a damaged unit was read is used.
            let _ = Search { dwarf, unit }.whole(&mut found);
        }
    });
    Some(found)
}

/// The first version that tells types of C that are atomic.
const TELLS_ATOMIC: u16 = 5;

impl LeftOpen {
    /// Whether this may be a type's that is atomic: an access of so many bytes, to a variable or not.
    #[must_use]
    pub fn allows(self, size: u64, is_variable: bool) -> bool {
        match self {
            LeftOpen::Everything => true,
            LeftOpen::Unnamed { sizes } => !is_variable && sizes & size_bit(size) != 0,
        }
    }
}

/// The bit of a size; none if it is no power of two, or too great for one access.
fn size_bit(size: u64) -> u8 {
    match size.is_power_of_two() && size <= 8 {
        true => 1 << size.trailing_zeros(),
        false => 0,
    }
}

/// Bytes of a variable that lie together: compilers lay members of a structure apart that nothing wants
/// together.
struct Piece {
    /// Which bytes of it.
    bytes: Range<u64>,
    /// Where they are.
    address: u64,
}

impl Piece {
    /// Where a part of the variable is, if it is in this piece.
    fn place(&self, part: &Range<u64>) -> Option<Range<u64>> {
        let is_here = self.bytes.start <= part.start && part.end <= self.bytes.end;
        is_here.then(|| {
            let start = part.start - self.bytes.start;
            let start = self.address.saturating_add(start);
            start..start.saturating_add(part.end - part.start)
        })
    }
}

/// A unit that is gone through.
struct Search<'a, 'data> {
    dwarf: &'a Dwarf<'data>,
    unit: &'a Unit<'data>,
}

impl<'data> Search<'_, 'data> {
    /// What was found before something that is damaged is used.
    fn whole(&self, found: &mut AtomicVariables) -> Result<(), gimli::Error> {
        let variables = self.variables(&mut found.ranges);
        if !self.is_in_c() {
            return variables;
        }
        let (mut functions, mut sizes) = (Vec::new(), 0);
        let whole = self.functions(&mut functions, &mut sizes);
        let left_open = match self.unit.header.version() {
            ..TELLS_ATOMIC => LeftOpen::Everything,
            _ => LeftOpen::Unnamed { sizes },
        };
        if left_open != (LeftOpen::Unnamed { sizes: 0 }) {
            let functions = functions.into_iter().map(|code| (code, left_open));
            found.open.extend(functions);
        }
        variables.and(whole)
    }

    /// The code of functions, and the sizes of atomic types that something is of: a header may define many that
    /// nothing uses.
    fn functions(
        &self,
        functions: &mut Vec<Range<u64>>,
        sizes: &mut u8,
    ) -> Result<(), gimli::Error> {
        let mut entries = self.unit.entries();
        while let Some(entry) = entries.next_dfs()? {
            match entry.tag() {
                gimli::DW_TAG_subprogram => {
                    let mut code = self.dwarf.die_ranges(self.unit, entry)?;
                    while let Some(range) = code.next()? {
                        functions.push(range.begin..range.end);
                    }
                }
                gimli::DW_TAG_member
                | gimli::DW_TAG_variable
                | gimli::DW_TAG_formal_parameter
                | gimli::DW_TAG_pointer_type
                | gimli::DW_TAG_array_type => {
                    if let Some(AttributeValue::UnitRef(kind)) = entry.attr_value(gimli::DW_AT_type)
                    {
                        *sizes |= size_bit(self.atomic_size(kind)?);
                    }
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// The bytes of a type, if it is atomic as a whole; else 0.
    fn atomic_size(&self, mut kind: UnitOffset) -> Result<u64, gimli::Error> {
        for _ in 0..DEEPEST {
            let entry = self.unit.entry(kind)?;
            match (entry.tag(), entry.attr_value(gimli::DW_AT_type)) {
                (gimli::DW_TAG_atomic_type, _) => return self.size(kind, DEEPEST),
                (
                    gimli::DW_TAG_typedef | gimli::DW_TAG_const_type | gimli::DW_TAG_volatile_type,
                    Some(AttributeValue::UnitRef(inner)),
                ) => kind = inner,
                _ => break,
            }
        }
        Ok(0)
    }

    /// Whether the unit is in C.
    fn is_in_c(&self) -> bool {
        let root = self.unit.entry(self.unit.header.root_offset());
        let language = root.map(|root| root.attr_value(gimli::DW_AT_language));
        let Ok(Some(AttributeValue::Language(language))) = language else {
            return false;
        };
        matches!(
            language,
            gimli::DW_LANG_C89
                | gimli::DW_LANG_C
                | gimli::DW_LANG_C99
                | gimli::DW_LANG_C11
                | gimli::DW_LANG_C17
        )
    }

    fn variables(&self, ranges: &mut Vec<Range<u64>>) -> Result<(), gimli::Error> {
        let mut entries = self.unit.entries();
        while let Some(entry) = entries.next_dfs()? {
            if entry.tag() == gimli::DW_TAG_variable {
                self.variable(entry, ranges)?;
            }
        }
        Ok(())
    }

    fn variable(
        &self,
        entry: &Entry<'data>,
        ranges: &mut Vec<Range<u64>>,
    ) -> Result<(), gimli::Error> {
        let location = entry.attr(gimli::DW_AT_location);
        let pieces = location.and_then(|it| self.pieces(it)).unwrap_or_default();
        let kind = entry.attr_value(gimli::DW_AT_type);
        let Some(AttributeValue::UnitRef(kind)) = kind.filter(|_| !pieces.is_empty()) else {
            return Ok(());
        };
        let mut within = Vec::new();
        // What was found before something that is damaged is used.
        let found = self.atomic_parts(kind, 0, DEEPEST, &mut within);
        for part in within {
            let place = pieces.iter().find_map(|piece| piece.place(&part));
            ranges.extend(place);
        }
        found
    }

    /// The pieces of a variable that are in memory; none where its location cannot be read, or tells of
    /// bits.
    fn pieces(&self, location: &Attribute<Slice<'data>>) -> Option<Vec<Piece>> {
        let expression = location.exprloc_value()?;
        let mut operations = expression.operations(self.unit.encoding());
        let (mut pieces, mut said, mut offset) = (Vec::new(), Vec::new(), 0_u64);
        while let Some(operation) = operations.next().ok()? {
            let gimli::Operation::Piece {
                size_in_bits,
                bit_offset,
            } = operation
            else {
                said.push(operation);
                continue;
            };
            if bit_offset.is_some() {
                return None;
            }
            let bytes = offset..offset.saturating_add(size_in_bits / 8);
            offset = bytes.end;
            let address = self.address(&said);
            pieces.extend(address.map(|address| Piece { bytes, address }));
            said.clear();
        }
        // Without pieces it is told as a whole.
        if offset == 0 {
            let (bytes, address) = (0..u64::MAX, self.address(&said));
            pieces.extend(address.map(|address| Piece { bytes, address }));
        }
        Some(pieces)
    }

    /// The address that was said, if it was nothing but one: else a value is computed.
    fn address(&self, said: &[gimli::Operation<Slice<'data>>]) -> Option<u64> {
        match *said {
            [gimli::Operation::Address { address }] => Some(address),
            [gimli::Operation::AddressIndex { index }] => self.dwarf.address(self.unit, index).ok(),
            _ => None,
        }
    }

    /// Adds the parts of a value of this type, at this address, that are atomic.
    fn atomic_parts(
        &self,
        kind: UnitOffset,
        address: u64,
        depth: usize,
        ranges: &mut Vec<Range<u64>>,
    ) -> Result<(), gimli::Error> {
        let Some(depth) = depth.checked_sub(1) else {
            return Ok(());
        };
        let entry = self.unit.entry(kind)?;
        let inner = match entry.attr_value(gimli::DW_AT_type) {
            Some(AttributeValue::UnitRef(inner)) => Some(inner),
            _ => None,
        };
        match entry.tag() {
            gimli::DW_TAG_atomic_type => {
                let size = self.size(kind, depth)?;
                ranges.push(address..address.saturating_add(size));
            }
            gimli::DW_TAG_typedef | gimli::DW_TAG_const_type | gimli::DW_TAG_volatile_type => {
                if let Some(inner) = inner {
                    self.atomic_parts(inner, address, depth, ranges)?;
                }
            }
            gimli::DW_TAG_structure_type | gimli::DW_TAG_class_type
                if self.is_atomic(entry.attr(gimli::DW_AT_name)) =>
            {
                let size = self.size(kind, depth)?;
                ranges.push(address..address.saturating_add(size));
            }
            gimli::DW_TAG_structure_type | gimli::DW_TAG_class_type => {
                self.members(kind, address, depth, ranges)?;
            }
            gimli::DW_TAG_array_type => {
                if let Some(inner) = inner {
                    let size = self.size(inner, depth)?;
                    for number in 0..self.elements(kind)?.min(MOST_ELEMENTS) {
                        let before = ranges.len();
                        let at = address.saturating_add(number.saturating_mul(size));
                        self.atomic_parts(inner, at, depth, ranges)?;
                        if ranges.len() == before {
                            break;
                        }
                    }
                }
            }
            _ => {}
        }
        Ok(())
    }

    fn members(
        &self,
        kind: UnitOffset,
        address: u64,
        depth: usize,
        ranges: &mut Vec<Range<u64>>,
    ) -> Result<(), gimli::Error> {
        let mut tree = self.unit.entries_tree(Some(kind))?;
        let mut children = tree.root()?.children();
        while let Some(child) = children.next()? {
            let entry = child.entry();
            let is_part = matches!(
                entry.tag(),
                gimli::DW_TAG_member | gimli::DW_TAG_inheritance
            );
            let offset = entry.attr(gimli::DW_AT_data_member_location);
            let offset = offset.and_then(Attribute::udata_value);
            let part = entry.attr_value(gimli::DW_AT_type);
            if let (true, Some(offset), Some(AttributeValue::UnitRef(part))) =
                (is_part, offset, part)
            {
                self.atomic_parts(part, address.saturating_add(offset), depth, ranges)?;
            }
        }
        Ok(())
    }

    fn elements(&self, kind: UnitOffset) -> Result<u64, gimli::Error> {
        let mut tree = self.unit.entries_tree(Some(kind))?;
        let mut children = tree.root()?.children();
        let mut count: u64 = 1;
        while let Some(child) = children.next()? {
            let entry = child.entry();
            let number = |name| entry.attr(name).and_then(Attribute::udata_value);
            let last = number(gimli::DW_AT_upper_bound);
            let by_last = last.map(|last| last.saturating_add(1));
            let here = number(gimli::DW_AT_count).or(by_last);
            count = count.saturating_mul(here.unwrap_or(0));
        }
        Ok(count)
    }

    /// The bytes of a type; 0 where that is not said.
    fn size(&self, kind: UnitOffset, depth: usize) -> Result<u64, gimli::Error> {
        let entry = self.unit.entry(kind)?;
        let size = entry.attr(gimli::DW_AT_byte_size);
        if let Some(size) = size.and_then(Attribute::udata_value) {
            return Ok(size);
        }
        match (entry.attr_value(gimli::DW_AT_type), depth.checked_sub(1)) {
            (Some(AttributeValue::UnitRef(inner)), Some(depth)) => self.size(inner, depth),
            (None, _) if entry.tag() == gimli::DW_TAG_pointer_type => Ok(8),
            _ => Ok(0),
        }
    }

    /// Whether this is the name of an atomic type.
    fn is_atomic(&self, name: Option<&Attribute<Slice<'data>>>) -> bool {
        let name = name.and_then(|name| self.dwarf.attr_string(self.unit, name.value()).ok());
        let name = name.and_then(|name| name.to_string().ok());
        name.is_some_and(|name| {
            let is_of_cpp = name.starts_with("atomic<") || name == "atomic_flag";
            let of_rust = name.strip_prefix("Atomic");
            is_of_cpp
                || of_rust.is_some_and(|rest| {
                    rest.starts_with('<')
                        || rest.starts_with("Ptr")
                        || rest == "Bool"
                        || rest.trim_start_matches(['U', 'I']).parse::<u8>().is_ok()
                        || matches!(rest, "Usize" | "Isize")
                })
        })
    }
}
