//! Variables that have an address in the file: what symbol tables call objects.

use std::path::Path;

use object::elf::STT_OBJECT;
use object::read::elf::ElfFile64;
use object::{Endianness, Object, ObjectSymbol, ReadCache};

use crate::address::FileAddress;
use crate::debug_file::split_off;
use crate::demangle::demangle;
use crate::elf_file::open_file;

/// The variables of a program or library, by address.
#[derive(Debug, Default)]
pub struct Variables {
    all: Vec<Variable>,
}

/// A variable with an address of its own.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Variable {
    /// Its first byte.
    pub address: FileAddress,
    /// Its bytes.
    pub size: u64,
    /// Its name, as the source has it.
    pub name: String,
}

impl Variables {
    /// Of the file at a path, and of the file with its symbols if they were split off. None where
    /// they cannot be read, or have none.
    #[must_use]
    pub fn open(path: &Path) -> Variables {
        let mut all = Vec::new();
        read(path, &mut all);
        if let Some(beside) = split_off(path, &mut Vec::new()) {
            read(&beside, &mut all);
        }
        all.sort();
        all.dedup_by_key(|variable| (variable.address, variable.size));
        Variables { all }
    }

    /// The variable that holds an address, and how far into it the address is.
    #[must_use]
    pub fn at(&self, address: FileAddress) -> Option<(&Variable, u64)> {
        let after = self
            .all
            .partition_point(|variable| variable.address <= address);
        let mut before = self.all[..after].iter().rev().take(8);
        let variable = before.find(|variable| address.0 - variable.address.0 < variable.size)?;
        Some((variable, address.0 - variable.address.0))
    }
}

/// Adds the variables of a file, if it can be read.
fn read(path: &Path, all: &mut Vec<Variable>) {
    let Ok(file) = open_file(path) else {
        return;
    };
    let cache = ReadCache::new(file);
    let parsed: object::Result<ElfFile64<'_, Endianness, _>> = ElfFile64::parse(&cache);
    let Ok(file) = parsed else {
        return;
    };
    for symbol in file.symbols().chain(file.dynamic_symbols()) {
        let is_object = symbol.elf_symbol().st_type() == STT_OBJECT;
        if is_object
            && symbol.is_definition()
            && symbol.size() > 0
            && let Ok(name) = symbol.name_bytes()
        {
            all.push(Variable {
                address: FileAddress(symbol.address()),
                size: symbol.size(),
                name: demangle(name),
            });
        }
    }
}
