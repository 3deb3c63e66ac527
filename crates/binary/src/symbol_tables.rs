//! A few functions of a file, by name, where the rest of them is not needed.

use std::ops::Range;
use std::path::Path;

use object::LittleEndian;
use object::elf::SHT_SYMTAB;
use object::read::ReadCache;

use crate::address::FileAddress;
use crate::debug_file::split_off;
use crate::elf_file::{Data, Source, open_file};
use crate::error::{ModuleError, Problem};
use crate::function::{FunctionKind, FunctionTableBuilder};
use crate::function_names::FunctionNames;
use crate::headers::Headers;
use crate::minimal_debug_data;
use crate::segments::Segments;
use crate::symbols;

/// The symbols of a program or library, in its own file and in that with what was split off.
///
/// A [`Module`](crate::Module) reads, sorts and bounds all functions, which takes milliseconds
/// for a large library. This compares names, and knows those functions whose symbols tell all.
#[derive(Debug)]
pub struct SymbolTables {
    segments: Segments,
    files: Vec<ReadCache<Source>>,
}

impl SymbolTables {
    /// Opens a file, and what [`Module::open`](crate::Module::open) would read beside it.
    ///
    /// # Errors
    /// As that.
    pub fn open(path: &Path) -> Result<SymbolTables, ModuleError> {
        let own = ReadCache::new(Source::File(open_file(path)?));
        let mut problems = Vec::new();
        let headers = Headers::read(path, &own, &mut problems)?;
        let segments = Segments::read(headers.program_headers, &mut problems);
        let beside = match has_full_symbols(&own, &headers) {
            true => None,
            false => beside(path, &own, &headers, &mut problems),
        };
        let files = std::iter::once(own).chain(beside).collect();
        Ok(SymbolTables { segments, files })
    }

    /// The bounds of all functions that have one of the names, by address. None if the symbols
    /// do not tell them: if a size is missing, or the name is that of a label or of an indirect
    /// function, or may be any symbol's. Then a [`Module`](crate::Module) does.
    #[must_use]
    pub fn find(&self, names: &FunctionNames) -> Option<Vec<Range<FileAddress>>> {
        if !names.can_be_searched() {
            return None;
        }
        let mut functions = FunctionTableBuilder::default();
        let mut problems = Vec::new();
        for data in &self.files {
            let headers = Headers::read(Path::new(""), data, &mut problems).ok()?;
            symbols::read_functions(
                data,
                headers.program_headers,
                &headers.sections,
                &self.segments,
                Some(names),
                &mut functions,
                &mut problems,
            );
        }
        let mut found = Vec::new();
        for (address, end, kind, name) in functions.iter() {
            if !names.contain(name) {
                continue;
            }
            if kind != FunctionKind::Function || address == end {
                return None;
            }
            let end = end.min(self.segments.code_end(address)?);
            found.push((address, end));
        }
        found.sort_unstable();
        found.dedup();
        let bounds = |(start, end)| FileAddress(start)..FileAddress(end);
        Some(found.into_iter().map(bounds).collect())
    }
}

/// The symbols that were split off, or those that the file carries compressed.
fn beside(
    path: &Path,
    data: Data<'_>,
    headers: &Headers<'_>,
    problems: &mut Vec<Problem>,
) -> Option<ReadCache<Source>> {
    let split_off = split_off(path, problems).and_then(|path| open_file(&path).ok());
    let split_off = split_off.map(|file| ReadCache::new(Source::File(file)));
    split_off.or_else(|| {
        let compressed = minimal_debug_data::find(data, &headers.sections, problems)?;
        let bytes = minimal_debug_data::unpack(&compressed).ok()?;
        Some(ReadCache::new(Source::Bytes(std::io::Cursor::new(bytes))))
    })
}

/// Whether a file has all its symbols itself.
fn has_full_symbols(data: Data<'_>, headers: &Headers<'_>) -> bool {
    let table = headers.sections.symbols(LittleEndian, data, SHT_SYMTAB);
    table.is_ok_and(|table| !table.is_empty())
}
