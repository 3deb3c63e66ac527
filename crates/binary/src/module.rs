//! A program or library file, read.

use std::fs::File;
use std::path::{Path, PathBuf};

use object::LittleEndian;
use object::elf::{PT_TLS, ProgramHeader64};
use object::read::ReadCache;
use object::read::elf::ProgramHeader;

use crate::address::{FileAddress, FileOffset, LoadBias, RuntimeAddress};
use crate::debug_file::{Link, SplitOff};
use crate::elf_file::{Data, Source, open_file};
use crate::error::{ModuleError, Problem};
use crate::function::{Function, FunctionTable, FunctionTableBuilder};
use crate::function_names::{FoundFunction, FunctionNames};
use crate::headers::Headers;
use crate::minimal_debug_data;
use crate::sections::{self, Section};
use crate::segments::{Segment, Segments};
use crate::symbols;

/// A program or library.
#[derive(Debug)]
pub struct Module {
    path: PathBuf,
    build_id: Option<Vec<u8>>,
    entry: FileAddress,
    segments: Segments,
    thread_local_bytes: u64,
    sections: Vec<Section>,
    functions: FunctionTable,
    problems: Vec<Problem>,
}

impl Module {
    /// Reads a file, and the separate file with its symbols if they were split off and are
    /// installed. Without that, the compressed symbols that the file may carry itself.
    ///
    /// # Errors
    /// If the file cannot be opened or is not ELF for x86-64. Damage beyond the first
    /// headers is no error: see [`Module::problems`].
    pub fn open(path: &Path) -> Result<Module, ModuleError> {
        Module::from_file(path, open_file(path)?)
    }

    /// The same of a file that is open. The path only names it.
    ///
    /// # Errors
    /// As [`Module::open`].
    pub fn from_file(path: &Path, file: File) -> Result<Module, ModuleError> {
        let source = Source::File(file);
        let mut contents = Contents::read(path, source, None)?;
        if !contents.has_full_symbols {
            contents.add_debug_file(path);
        }
        contents.add_minimal_debug_data(path);
        Ok(contents.finish(path))
    }

    /// Reads a module from memory, such as the vdso. The path only names it.
    ///
    /// # Errors
    /// As [`Module::open`].
    pub fn from_bytes(path: &Path, bytes: Vec<u8>) -> Result<Module, ModuleError> {
        let source = Source::Bytes(std::io::Cursor::new(bytes));
        let mut contents = Contents::read(path, source, None)?;
        contents.add_minimal_debug_data(path);
        Ok(contents.finish(path))
    }

    /// The path that it was opened by.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The identifier that the linker gave it, if any.
    #[must_use]
    pub fn build_id(&self) -> Option<&[u8]> {
        self.build_id.as_deref()
    }

    /// Where execution starts; 0 if nowhere.
    #[must_use]
    pub fn entry(&self) -> FileAddress {
        self.entry
    }

    /// What could not be read.
    #[must_use]
    pub fn problems(&self) -> &[Problem] {
        &self.problems
    }

    /// The addresses from its first segment to the end of its last; none without segments.
    #[must_use]
    pub fn span(&self) -> Option<(FileAddress, FileAddress)> {
        self.segments.span()
    }

    /// Its loadable segments, as the file lists them.
    #[must_use]
    pub fn segments(&self) -> &[Segment] {
        self.segments.all()
    }

    /// The most bytes that its variables take of each thread's memory (`PT_TLS`).
    #[must_use]
    pub fn thread_local_bytes(&self) -> u64 {
        self.thread_local_bytes
    }

    /// Its sections that are loaded, by address; none in files from which they were stripped.
    #[must_use]
    pub fn sections(&self) -> &[Section] {
        &self.sections
    }

    /// The section that holds an address.
    #[must_use]
    pub fn section_at(&self, address: FileAddress) -> Option<&Section> {
        let after = self
            .sections
            .partition_point(|section| section.address <= address);
        let section = &self.sections[after.checked_sub(1)?];
        (address.0 - section.address.0 < section.size).then_some(section)
    }

    /// All functions by address; several where they have several names.
    pub fn functions(&self) -> impl Iterator<Item = Function<'_>> {
        self.functions.iter()
    }

    /// All functions that have one of the names, by address.
    #[must_use]
    pub fn functions_named<'names, 'module>(
        &'module self,
        names: &'names FunctionNames,
    ) -> Vec<FoundFunction<'names, 'module>> {
        names.find_in(&self.functions)
    }

    /// The innermost function that holds the address, by the best of its names, and how far
    /// into it the address is.
    #[must_use]
    pub fn function_at(&self, address: FileAddress) -> Option<(Function<'_>, u64)> {
        let function = self.functions.at(address.0)?;
        Some((function, address.0 - function.address().0))
    }

    /// The address at which a byte of the file is loaded, if it is.
    #[must_use]
    pub fn address_of(&self, offset: FileOffset) -> Option<FileAddress> {
        self.segments.address_of(offset)
    }

    /// Where in the file the byte at an address comes from, if it does.
    #[must_use]
    pub fn offset_of(&self, address: FileAddress) -> Option<FileOffset> {
        self.segments.offset_of(address)
    }

    /// The bias of the module in a program that has mapped the file's page at `offset` to
    /// `address`; none if no segment contains that page.
    #[must_use]
    pub fn bias_of_mapping(
        &self,
        address: RuntimeAddress,
        offset: FileOffset,
        executable: bool,
    ) -> Option<LoadBias> {
        self.segments.bias_of_mapping(address, offset, executable)
    }
}

/// The variables of a file that each thread has, with what may be left free to align them.
fn thread_local_bytes(headers: &[ProgramHeader64<LittleEndian>]) -> u64 {
    let all = headers
        .iter()
        .filter(|it| it.p_type(LittleEndian) == PT_TLS);
    all.fold(0, |sum, header| {
        let (size, align) = (header.p_memsz(LittleEndian), header.p_align(LittleEndian));
        sum.saturating_add(size).saturating_add(align)
    })
}

/// A module that is still being read.
struct Contents {
    build_id: Option<Vec<u8>>,
    /// What tells the file with what was split off.
    link: Option<Link>,
    entry: FileAddress,
    segments: Segments,
    thread_local_bytes: u64,
    sections: Vec<Section>,
    functions: FunctionTableBuilder,
    has_full_symbols: bool,
    /// The file's compressed symbols (`.gnu_debugdata`), if it has some and needs them.
    minimal_debug_data: Option<Vec<u8>>,
    problems: Vec<Problem>,
}

impl Contents {
    /// Reads a file. Separate debug files have program headers without contents, so that
    /// the module's own segments must be given for them.
    fn read(
        path: &Path,
        source: Source,
        own_segments: Option<&Segments>,
    ) -> Result<Contents, ModuleError> {
        let cache = ReadCache::new(source);
        let data: Data<'_> = &cache;
        let mut problems = Vec::new();
        let headers = Headers::read(path, data, &mut problems)?;
        let (program_headers, sections) = (headers.program_headers, &headers.sections);
        let segments = match own_segments {
            Some(segments) => segments.clone(),
            None => Segments::read(program_headers, &mut problems),
        };
        let build_id = headers.build_id(data, &mut problems);
        let mut functions = FunctionTableBuilder::default();
        let has_full_symbols = symbols::read_functions(
            data,
            program_headers,
            sections,
            &segments,
            None,
            &mut functions,
            &mut problems,
        );
        let minimal_debug_data = match has_full_symbols {
            true => None,
            false => minimal_debug_data::find(data, sections, &mut problems),
        };
        Ok(Contents {
            entry: FileAddress(headers.entry),
            link: Link::read(data, &headers),
            sections: sections::read(sections, &mut problems),
            minimal_debug_data,
            build_id,
            segments,
            thread_local_bytes: thread_local_bytes(program_headers),
            functions,
            has_full_symbols,
            problems,
        })
    }

    /// Reads what was split off this file, if it is there.
    fn add_debug_file(&mut self, path: &Path) {
        let (build_id, link) = (self.build_id.clone(), self.link.take());
        let wanted = SplitOff {
            path,
            build_id: build_id.as_deref(),
            link: link.as_ref(),
        };
        let Some(path) = wanted.find(&mut self.problems) else {
            return;
        };
        let read = open_file(&path)
            .and_then(|file| Contents::read(&path, Source::File(file), Some(&self.segments)));
        match read {
            Ok(debug) => {
                self.minimal_debug_data = None;
                self.functions.append(debug.functions);
                let problems = debug.problems.into_iter();
                self.problems.extend(problems.map(|problem| Problem {
                    part: "debug file",
                    reason: format!("{}: {problem}", path.display()),
                }));
            }
            Err(error) => self.problems.push(Problem {
                part: "debug file",
                reason: error.to_string(),
            }),
        }
    }

    fn add_minimal_debug_data(&mut self, path: &Path) {
        let Some(compressed) = self.minimal_debug_data.take() else {
            return;
        };
        let read = minimal_debug_data::unpack(&compressed).and_then(|bytes| {
            let source = Source::Bytes(std::io::Cursor::new(bytes));
            Contents::read(path, source, Some(&self.segments)).map_err(|error| error.to_string())
        });
        match read {
            Ok(contents) => {
                self.functions.append(contents.functions);
                self.problems.extend(contents.problems);
            }
            Err(reason) => self.problems.push(Problem {
                part: minimal_debug_data::SECTION,
                reason,
            }),
        }
    }

    fn finish(self, path: &Path) -> Module {
        Module {
            path: path.to_owned(),
            build_id: self.build_id,
            entry: self.entry,
            functions: self.functions.build(&self.segments),
            segments: self.segments,
            thread_local_bytes: self.thread_local_bytes,
            sections: self.sections,
            problems: self.problems,
        }
    }
}
