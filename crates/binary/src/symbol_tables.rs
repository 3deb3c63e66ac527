//! A few functions of a file, by name, where the rest of them is not needed.

use std::ops::Range;
use std::path::Path;

use object::LittleEndian;
use object::elf::{ProgramHeader64, SHT_SYMTAB};
use object::read::ReadCache;
use object::read::elf::{FileHeader, SectionTable};

use crate::address::FileAddress;
use crate::debug_file::debug_file_path;
use crate::elf_file::{Data, Header, Source, open_file, parse_header};
use crate::error::{ModuleError, Problem, noted};
use crate::function::{FunctionKind, FunctionTableBuilder};
use crate::function_names::FunctionNames;
use crate::minimal_debug_data;
use crate::notes;
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

/// What the headers of a file say.
struct Headers<'data> {
    program_headers: &'data [ProgramHeader64<LittleEndian>],
    sections: SectionTable<'data, Header, Data<'data>>,
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
        let beside = match headers.has_full_symbols(&own) {
            true => None,
            false => headers.beside(&own, &mut problems),
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

impl<'data> Headers<'data> {
    fn read(
        path: &Path,
        data: Data<'data>,
        problems: &mut Vec<Problem>,
    ) -> Result<Headers<'data>, ModuleError> {
        let header = parse_header(path, data)?;
        let program_headers = header.program_headers(LittleEndian, data);
        let sections = header.sections(LittleEndian, data);
        Ok(Headers {
            program_headers: noted(program_headers, "program headers", problems)
                .unwrap_or_default(),
            sections: noted(sections, "sections", problems).unwrap_or_default(),
        })
    }

    fn has_full_symbols(&self, data: Data<'data>) -> bool {
        let table = self.sections.symbols(LittleEndian, data, SHT_SYMTAB);
        table.is_ok_and(|table| !table.is_empty())
    }

    /// The symbols that were split off, or those that the file carries compressed.
    fn beside(&self, data: Data<'data>, problems: &mut Vec<Problem>) -> Option<ReadCache<Source>> {
        let build_id = |headers: &Headers<'data>, data, problems: &mut _| {
            notes::build_id(data, headers.program_headers, &headers.sections, problems)
        };
        let own = build_id(self, data, problems);
        let split_off = own.as_deref().and_then(debug_file_path).and_then(|path| {
            let file = ReadCache::new(Source::File(open_file(&path).ok()?));
            let headers = Headers::read(&path, &file, problems).ok()?;
            let theirs =
                notes::build_id(&file, headers.program_headers, &headers.sections, problems);
            (theirs == own).then_some(file)
        });
        split_off.or_else(|| {
            let compressed = minimal_debug_data::find(data, &self.sections, problems)?;
            let bytes = minimal_debug_data::unpack(&compressed).ok()?;
            Some(ReadCache::new(Source::Bytes(std::io::Cursor::new(bytes))))
        })
    }
}
