//! Reads symbol tables: `.symtab` and `.dynsym`, or without sections what the dynamic
//! segment says.
//!
//! Source: System V ABI, "Symbol Table" and "Dynamic Section"; the GNU hash section, whose
//! chains tell how many symbols there are where no section does.

use object::LittleEndian;
use object::elf::{
    DT_GNU_HASH, DT_HASH, DT_STRSZ, DT_STRTAB, DT_SYMTAB, Dyn64, PT_DYNAMIC, ProgramHeader64,
    SHN_UNDEF, SHT_DYNSYM, SHT_SYMTAB, STB_GLOBAL, STB_WEAK, STT_FUNC, STT_GNU_IFUNC, STT_NOTYPE,
    Sym64,
};
use object::pod;
use object::read::elf::{Dyn, GnuHashTable, ProgramHeader, SectionTable, Sym};
use object::read::{ReadRef, StringTable};

use crate::address::FileAddress;
use crate::elf_file::{Data, Header};
use crate::error::{Problem, noted};
use crate::function::{FunctionKind, FunctionTableBuilder};
use crate::function_names::FunctionNames;
use crate::segments::Segments;

type Symbol = Sym64<LittleEndian>;
type Strings<'data> = StringTable<'data, &'data [u8]>;

/// Adds the functions of both tables, or those that may have one of some names. Tells whether
/// there is a full table (`.symtab`).
pub(crate) fn read_functions<'data>(
    data: Data<'data>,
    program_headers: &[ProgramHeader64<LittleEndian>],
    sections: &SectionTable<'data, Header, Data<'data>>,
    segments: &Segments,
    names: Option<&FunctionNames>,
    functions: &mut FunctionTableBuilder,
    problems: &mut Vec<Problem>,
) -> bool {
    let mut found_full = false;
    let mut found_dynamic = false;
    for (kind, part) in [(SHT_SYMTAB, ".symtab"), (SHT_DYNSYM, ".dynsym")] {
        let Some(table) = noted(sections.symbols(LittleEndian, data, kind), part, problems) else {
            continue;
        };
        if table.is_empty() {
            continue;
        }
        let strings = sections
            .section(table.string_section())
            .and_then(|section| {
                object::read::elf::SectionHeader::data(section, LittleEndian, data)
            });
        let Some(strings) = noted(strings, part, problems) else {
            continue;
        };
        let lost = add_all(table.symbols(), strings, segments, names, functions);
        report_lost(lost, part, problems);
        found_full |= kind == SHT_SYMTAB;
        found_dynamic |= kind == SHT_DYNSYM;
    }
    if !found_dynamic {
        read_dynamic_segment(data, program_headers, segments, names, functions, problems);
    }
    found_full
}

/// Finds the dynamic symbols as the dynamic loader does, in files without sections.
fn read_dynamic_segment<'data>(
    data: Data<'data>,
    program_headers: &[ProgramHeader64<LittleEndian>],
    segments: &Segments,
    names: Option<&FunctionNames>,
    functions: &mut FunctionTableBuilder,
    problems: &mut Vec<Problem>,
) {
    const PART: &str = "dynamic segment";
    let Some(header) = program_headers
        .iter()
        .find(|header| header.p_type(LittleEndian) == PT_DYNAMIC)
    else {
        return;
    };
    let result = (|| -> Result<usize, &'static str> {
        let bytes = header
            .data(LittleEndian, data)
            .map_err(|()| "it lies beyond the file")?;
        let count = bytes.len() / size_of::<Dyn64<LittleEndian>>();
        let (entries, _) = pod::slice_from_bytes::<Dyn64<LittleEndian>>(bytes, count)
            .map_err(|()| "it is not aligned")?;
        let value = |tag| {
            let entry = entries
                .iter()
                .take_while(|entry| entry.tag(LittleEndian) != 0);
            entry
                .into_iter()
                .find(|entry| entry.tag(LittleEndian) == tag)
                .map(|e| e.val(LittleEndian))
        };
        let (Some(symbols), Some(strings), Some(strings_size)) =
            (value(DT_SYMTAB), value(DT_STRTAB), value(DT_STRSZ))
        else {
            return Ok(0);
        };
        let at = |address| {
            segments
                .offset_of(FileAddress(address))
                .map(|offset| offset.0)
        };
        let outside = "a table lies outside the file";
        let strings = at(strings)
            .and_then(|offset| data.read_bytes_at(offset, strings_size).ok())
            .ok_or(outside)?;
        let count = if let Some(offset) = value(DT_HASH).and_then(at) {
            // Source: System V ABI, "Hash Table": the second word is the number of chains,
            // which is the number of symbols.
            let word = data
                .read_bytes_at(offset.saturating_add(4), 4)
                .map_err(|()| outside)?;
            u32::from_le_bytes(word.try_into().unwrap_or_default())
        } else if let Some(offset) = value(DT_GNU_HASH).and_then(at) {
            let length = data.len().map_err(|()| outside)?;
            let rest = data
                .read_bytes_at(offset, length.saturating_sub(offset))
                .map_err(|()| outside)?;
            GnuHashTable::<Header>::parse(LittleEndian, rest)
                .ok()
                .and_then(|table| table.symbol_table_length(LittleEndian))
                .unwrap_or(0)
        } else {
            return Err("it tells no number of symbols");
        };
        let size = u64::from(count) * size_of::<Symbol>() as u64;
        let symbols = at(symbols)
            .and_then(|offset| data.read_bytes_at(offset, size).ok())
            .ok_or(outside)?;
        let (symbols, _) = pod::slice_from_bytes::<Symbol>(symbols, count as usize)
            .map_err(|()| "the symbols are not aligned")?;
        Ok(add_all(symbols, strings, segments, names, functions))
    })();
    match result {
        Ok(lost) => report_lost(lost, PART, problems),
        Err(reason) => problems.push(Problem {
            part: PART,
            reason: reason.to_owned(),
        }),
    }
}

/// Adds what may be functions; gives how many had unreadable names.
fn add_all(
    symbols: &[Symbol],
    strings: &[u8],
    segments: &Segments,
    names: Option<&FunctionNames>,
    functions: &mut FunctionTableBuilder,
) -> usize {
    let beginnings = names.and_then(|names| names.beginnings(strings));
    let strings: Strings<'_> = StringTable::new(strings, 0, strings.len() as u64);
    let mut lost = 0;
    for symbol in symbols {
        if let Some(beginnings) = &beginnings
            && !holds(beginnings, symbol.st_name(LittleEndian))
        {
            continue;
        }
        let kind = match symbol.st_type() {
            STT_FUNC => FunctionKind::Function,
            STT_GNU_IFUNC => FunctionKind::Resolver,
            STT_NOTYPE => FunctionKind::Label,
            _ => continue,
        };
        let address = symbol.st_value(LittleEndian);
        if symbol.st_shndx(LittleEndian) == SHN_UNDEF || segments.code_end(address).is_none() {
            continue;
        }
        let Ok(name) = symbol.name(LittleEndian, strings) else {
            lost += 1;
            continue;
        };
        let binding = match symbol.st_bind() {
            STB_GLOBAL => 0,
            STB_WEAK => 1,
            _ => 2,
        };
        let name = without_version(name);
        if !name.is_empty() {
            functions.add(address, symbol.st_size(LittleEndian), kind, binding, name);
        }
    }
    lost
}

/// Whether a bit is set.
fn holds(bits: &[u64], number: u32) -> bool {
    let word = bits.get((number / 64) as usize);
    word.is_some_and(|word| word & (1 << (number % 64)) != 0)
}

fn report_lost(lost: usize, part: &'static str, problems: &mut Vec<Problem>) {
    if lost > 0 {
        problems.push(Problem {
            part,
            reason: format!("{lost} symbols have unreadable names"),
        });
    }
}

/// `name@VERSION` and `name@@VERSION` without the version.
fn without_version(name: &[u8]) -> &[u8] {
    match name.iter().position(|&byte| byte == b'@') {
        Some(position) if position > 0 => &name[..position],
        _ => name,
    }
}
