//! The file of a module, if it is still the one that ran.

use std::fs::File;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::Path;

use iced_x86::{Decoder, DecoderOptions, Formatter, GasFormatter};
use unspool_binary::{
    FileAddress, FileOffset, LoadBias, Module, RuntimeAddress, SourceFrame, SourceLines,
};

use super::plain_file;
use crate::description::hexadecimal;

/// The longest instruction.
const INSTRUCTION_BYTES: usize = 15;

const PAGE: u64 = 4096;

/// A file of code, and what it tells about its instructions.
pub(crate) struct CodeFile {
    file: File,
    module: Module,
    lines: SourceLines,
}

impl std::fmt::Debug for CodeFile {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.module.fmt(formatter)
    }
}

impl CodeFile {
    /// Opens the file with the build-id that ran, or, where it had none, one that was not changed
    /// since `started_ns`. Otherwise says why not.
    pub(crate) fn open(path: &Path, build_id: &[u8], started_ns: u64) -> Result<CodeFile, String> {
        let file = plain_file::open(path)?;
        let changed = file.metadata().map_err(|error| error.to_string())?;
        let reader = file.try_clone().map_err(|error| error.to_string())?;
        let module = Module::from_file(path, reader).map_err(|error| error.to_string())?;
        let found = module.build_id().unwrap_or_default();
        if found != build_id {
            let (found, ran) = (hexadecimal(found), hexadecimal(build_id));
            return Err(format!(
                "it has changed since: its build-id is {found}, and {ran} ran"
            ));
        }
        let changed_ns =
            i128::from(changed.mtime()) * 1_000_000_000 + i128::from(changed.mtime_nsec());
        if build_id.is_empty() && changed_ns > i128::from(started_ns) {
            return Err("it has changed since, and has no build-id".to_owned());
        }
        Ok(CodeFile {
            file,
            module,
            lines: SourceLines::open(path),
        })
    }

    /// How addresses in the file and in the program relate, where this address is in a segment
    /// with code, and byte 0 of the file would be at `base`.
    pub(crate) fn bias(&self, pc: u64, base: u64) -> Option<LoadBias> {
        let page = pc & !(PAGE - 1);
        let offset = FileOffset(page.wrapping_sub(base));
        self.module
            .bias_of_mapping(RuntimeAddress(page), offset, true)
    }

    /// The function that holds an instruction, and how far into it that is.
    pub(crate) fn function(&self, pc: u64, bias: LoadBias) -> Option<String> {
        let (function, offset) = self.module.function_at(RuntimeAddress(pc).in_file(bias))?;
        Some(format!("{}+{offset:#x}", function.name()))
    }

    /// The function that holds an instruction.
    pub(crate) fn function_name(&self, pc: u64, bias: LoadBias) -> Option<String> {
        let (function, _) = self.module.function_at(RuntimeAddress(pc).in_file(bias))?;
        Some(function.name())
    }

    /// The functions that were inlined to where an instruction is, and the one that it is in, with
    /// their lines, innermost first.
    pub(crate) fn frames(&self, pc: u64, bias: LoadBias) -> Vec<SourceFrame> {
        self.lines.frames(RuntimeAddress(pc).in_file(bias))
    }

    /// What the file says of its parts.
    pub(crate) fn module(&self) -> &Module {
        &self.module
    }

    /// The section that holds an address.
    pub(crate) fn section(&self, address: FileAddress) -> Option<String> {
        Some(self.module.section_at(address)?.name.clone())
    }

    /// The line of the source that an instruction comes from.
    pub(crate) fn line(&self, pc: u64, bias: LoadBias) -> Option<String> {
        let line = self.lines.find(RuntimeAddress(pc).in_file(bias))?;
        Some(line.to_string())
    }

    /// The instruction at an address, as the GNU assembler writes it.
    pub(crate) fn disassembly(&self, pc: u64, base: u64) -> Option<String> {
        let mut bytes = [0; INSTRUCTION_BYTES];
        let offset = pc.wrapping_sub(base);
        let read = self.file.read_at(&mut bytes, offset).ok()?;
        let mut decoder = Decoder::with_ip(64, &bytes[..read], pc, DecoderOptions::NONE);
        let instruction = decoder.decode();
        if instruction.is_invalid() {
            return None;
        }
        let mut text = String::new();
        GasFormatter::new().format(&instruction, &mut text);
        Some(text)
    }
}
