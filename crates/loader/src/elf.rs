//! ELF headers, as far as starting a program needs them, judged as the kernel judges them.
//!
//! Source: System V ABI, chapters "Object Files" and "Program Loading", with its AMD64
//! supplement; `fs/binfmt_elf.c` for what Linux insists on. Linux looks at less than the
//! ABI defines (it ignores the class, byte order and version of a 64-bit program), and so
//! does this.

use super::error::Defect;
use super::executable::HEAD_SIZE;
use super::script::{self, ScriptLine};

/// `PT_LOAD`: a segment to be mapped.
pub(crate) const PT_LOAD: u32 = 1;
/// `PT_DYNAMIC`: what the dynamic loader reads.
pub(crate) const PT_DYNAMIC: u32 = 2;
/// `PT_INTERP`: the path of the dynamic loader.
pub(crate) const PT_INTERP: u32 = 3;
/// `PT_GNU_STACK`: its flags are the stack's protection.
pub(crate) const PT_GNU_STACK: u32 = 0x6474_e551;
/// `PF_X`: executable.
pub(crate) const PF_X: u32 = 1;
/// `PF_W`: writable.
pub(crate) const PF_W: u32 = 2;
/// `PF_R`: readable.
pub(crate) const PF_R: u32 = 4;

const FILE_HEADER_SIZE: usize = 64;
/// Bytes of one program header (`Elf64_Phdr`).
pub(crate) const PROGRAM_HEADER_SIZE: usize = 56;
/// The kernel reads no larger table of program headers.
const MAX_PROGRAM_HEADERS_SIZE: usize = 65536;
const EM_X86_64: u16 = 62;

/// The parts of `Elf64_Ehdr` that matter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct FileHeader {
    /// `ET_DYN`: goes to any address. Otherwise `ET_EXEC`.
    pub(crate) relocatable: bool,
    pub(crate) entry: u64,
    pub(crate) program_headers_offset: u64,
    pub(crate) program_header_count: u16,
}

impl FileHeader {
    /// Bytes of the table of program headers.
    pub(crate) fn program_headers_size(&self) -> usize {
        usize::from(self.program_header_count) * PROGRAM_HEADER_SIZE
    }
}

/// `Elf64_Phdr`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct ProgramHeader {
    pub(crate) kind: u32,
    pub(crate) flags: u32,
    pub(crate) offset: u64,
    pub(crate) address: u64,
    pub(crate) file_size: u64,
    pub(crate) memory_size: u64,
    pub(crate) alignment: u64,
}

/// What a file is, by its first bytes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Format {
    Elf64(FileHeader),
    Elf32 { architecture: &'static str },
    Foreign { architecture: String },
    Script(ScriptLine),
    Defective(Defect),
    Unknown { looks_like: &'static str },
}

/// Tells a file's format from its first bytes, of which `length` are really in the file.
pub(crate) fn recognise(head: &[u8; HEAD_SIZE], length: usize) -> Format {
    if script::is_script(head) {
        return script::parse_script_line(head).map_or(
            Format::Unknown {
                looks_like: "a script without an interpreter in its #! line",
            },
            Format::Script,
        );
    }
    if !head.starts_with(b"\x7fELF") {
        return Format::Unknown {
            looks_like: appearance(&head[..length.min(HEAD_SIZE)]),
        };
    }
    if length < FILE_HEADER_SIZE {
        return Format::Defective(Defect::Truncated(format!(
            "{length} bytes, and the ELF header alone has {FILE_HEADER_SIZE}"
        )));
    }
    recognise_elf(head)
}

fn recognise_elf(head: &[u8; HEAD_SIZE]) -> Format {
    let class_32 = head[4] == 1;
    let kind = u16_at(head, 16);
    let machine = u16_at(head, 18);
    let entry_size = usize::from(u16_at(head, 54));
    match machine {
        EM_X86_64 if class_32 && entry_size != PROGRAM_HEADER_SIZE => {
            return Format::Elf32 {
                architecture: "x32",
            };
        }
        EM_X86_64 => {}
        3 if class_32 => {
            return Format::Elf32 {
                architecture: "i386",
            };
        }
        _ => {
            return Format::Foreign {
                architecture: machine_name(machine, head[5] == 2),
            };
        }
    }
    let relocatable = match kind {
        2 => false,
        3 => true,
        1 => {
            return Format::Unknown {
                looks_like: "an object file, not linked yet",
            };
        }
        4 => {
            return Format::Unknown {
                looks_like: "a core dump",
            };
        }
        _ => {
            return Format::Unknown {
                looks_like: "an ELF file of unknown type",
            };
        }
    };
    let header = FileHeader {
        relocatable,
        entry: u64_at(head, 24),
        program_headers_offset: u64_at(head, 32),
        program_header_count: u16_at(head, 56),
    };
    let table = header.program_headers_size();
    if entry_size != PROGRAM_HEADER_SIZE {
        return Format::Defective(Defect::Headers(format!(
            "program headers of {entry_size} bytes, where {PROGRAM_HEADER_SIZE} are expected"
        )));
    }
    if table == 0 || table > MAX_PROGRAM_HEADERS_SIZE {
        return Format::Defective(Defect::Headers(format!(
            "{} program headers, where 1 to {} are expected",
            header.program_header_count,
            MAX_PROGRAM_HEADERS_SIZE / PROGRAM_HEADER_SIZE
        )));
    }
    Format::Elf64(header)
}

/// Reads the table of program headers, which must be as long as the header says.
pub(crate) fn parse_program_headers(
    header: &FileHeader,
    table: &[u8],
) -> Result<Vec<ProgramHeader>, Defect> {
    if table.len() < header.program_headers_size() {
        return Err(Defect::Truncated(
            "the program headers lie beyond its end".to_owned(),
        ));
    }
    Ok(table
        .chunks_exact(PROGRAM_HEADER_SIZE)
        .take(usize::from(header.program_header_count))
        .map(|bytes| ProgramHeader {
            kind: u32_at(bytes, 0),
            flags: u32_at(bytes, 4),
            offset: u64_at(bytes, 8),
            address: u64_at(bytes, 16),
            file_size: u64_at(bytes, 32),
            memory_size: u64_at(bytes, 40),
            alignment: u64_at(bytes, 48),
        })
        .collect())
}

fn field<const SIZE: usize>(bytes: &[u8], offset: usize) -> [u8; SIZE] {
    let mut value = [0; SIZE];
    if let Some(source) = bytes.get(offset..offset + SIZE) {
        value.copy_from_slice(source);
    }
    value
}

fn u16_at(bytes: &[u8], offset: usize) -> u16 {
    u16::from_le_bytes(field(bytes, offset))
}

fn u32_at(bytes: &[u8], offset: usize) -> u32 {
    u32::from_le_bytes(field(bytes, offset))
}

fn u64_at(bytes: &[u8], offset: usize) -> u64 {
    u64::from_le_bytes(field(bytes, offset))
}

fn machine_name(machine: u16, big_endian: bool) -> String {
    let machine = if big_endian {
        machine.swap_bytes()
    } else {
        machine
    };
    let name = match machine {
        2 | 18 | 43 => "SPARC",
        3 => "64-bit file for i386",
        4 => "Motorola 68000",
        8 => "MIPS",
        20 => "PowerPC",
        21 => "PowerPC 64",
        22 => "IBM Z",
        40 => "32-bit Arm",
        42 => "SuperH",
        50 => "Itanium",
        183 => "AArch64, 64-bit Arm",
        243 => "RISC-V",
        247 => "eBPF",
        258 => "LoongArch",
        _ => return format!("ELF machine number {machine}"),
    };
    name.to_owned()
}

/// What a file that is not ELF seems to be.
fn appearance(head: &[u8]) -> &'static str {
    let known: [(&[u8], &str); 12] = [
        (b"MZ", "a Windows or DOS program"),
        (b"\xca\xfe\xba\xbe", "a Java class or a macOS program"),
        (b"\xcf\xfa\xed\xfe", "a macOS program"),
        (b"!<arch>", "a static library"),
        (b"!<thin>", "a static library"),
        (
            b"PK\x03\x04",
            "a zip archive, for instance a jar: run it with `java -jar`",
        ),
        (b"\x1f\x8b", "a gzip archive"),
        (b"\xfd7zXZ", "an xz archive"),
        (b"\x28\xb5\x2f\xfd", "a zstd archive"),
        (b"BC\xc0\xde", "LLVM bitcode"),
        (b"\0asm", "a WebAssembly module"),
        (
            b"\xef\xbb\xbf#!",
            "a script with a byte-order mark before its #! line",
        ),
    ];
    if head.is_empty() {
        return "an empty file";
    }
    if let Some((_, name)) = known.iter().find(|(magic, _)| head.starts_with(magic)) {
        return name;
    }
    // The test that shells make before they run a file as a script: no zero byte in the
    // first line.
    let first_line = head.split(|&byte| byte == b'\n').next().unwrap_or(head);
    if first_line.contains(&0) {
        "binary data of unknown format"
    } else {
        "text without a #! line: name its interpreter, for instance `sh FILE`"
    }
}
