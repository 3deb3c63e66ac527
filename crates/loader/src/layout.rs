//! From program headers to what must be mapped where. Pure: nothing is mapped here.
//!
//! Source: `elf_load` and `load_elf_binary` in `fs/binfmt_elf.c` (Linux 6.10).

use super::elf::{FileHeader, PF_R, PF_W, PF_X, PT_GNU_STACK, PT_LOAD, ProgramHeader};
use super::error::Defect;

/// Bytes of a page.
pub(crate) const PAGE: u64 = 4096;
/// The address after the last that a program may use, with four-level page tables.
pub(crate) const ADDRESSES_END: u64 = 0x7fff_ffff_f000;

/// Pages to be mapped with one call. Addresses are those of the file: before the bias.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Mapping {
    pub(crate) address: u64,
    pub(crate) size: u64,
    /// `PROT_READ`, `PROT_WRITE`, `PROT_EXEC`.
    pub(crate) protection: i32,
    /// Where in the file; none for memory that starts as zeros.
    pub(crate) offset: Option<u64>,
    /// From here to the mapping's end, what the file has is overwritten with zeros.
    pub(crate) zero_from: Option<u64>,
}

impl Mapping {
    pub(crate) fn end(&self) -> u64 {
        self.address + self.size
    }
}

/// What a program or dynamic loader needs in memory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Layout {
    pub(crate) relocatable: bool,
    pub(crate) entry: u64,
    pub(crate) mappings: Vec<Mapping>,
    /// Page-aligned, of all mappings.
    pub(crate) start: u64,
    pub(crate) end: u64,
    /// A power of two, at least a page.
    pub(crate) alignment: u64,
    /// Where the program headers are in memory, if a segment holds them.
    pub(crate) program_headers: Option<u64>,
    /// The end of the last segment: where the heap may start.
    pub(crate) memory_end: u64,
    pub(crate) executable_stack: bool,
}

impl Layout {
    /// The page ranges that must be free before anything is mapped, in order. The gaps in
    /// a program with fixed addresses may be occupied; those in a relocatable image are
    /// wanted too, because all its parts move together.
    pub(crate) fn ranges(&self) -> Vec<(u64, u64)> {
        if self.relocatable {
            return vec![(self.start, self.end)];
        }
        self.occupied()
    }

    /// The page ranges that the mappings occupy, in order and merged.
    pub(crate) fn occupied(&self) -> Vec<(u64, u64)> {
        let mut parts: Vec<(u64, u64)> = self
            .mappings
            .iter()
            .map(|mapping| (mapping.address, mapping.end()))
            .collect();
        parts.sort_unstable();
        let mut merged: Vec<(u64, u64)> = Vec::new();
        for (start, end) in parts {
            match merged.last_mut() {
                Some(last) if start <= last.1 => last.1 = last.1.max(end),
                _ => merged.push((start, end)),
            }
        }
        merged
    }
}

/// Works out the layout of a file of `file_size` bytes.
pub(crate) fn plan_layout(
    header: &FileHeader,
    program_headers: &[ProgramHeader],
    file_size: u64,
) -> Result<Layout, Defect> {
    let mut segments: Vec<&ProgramHeader> = program_headers
        .iter()
        .filter(|segment| segment.kind == PT_LOAD && segment.memory_size > 0)
        .collect();
    let mut mappings = Vec::new();
    let mut alignment = PAGE;
    for segment in &segments {
        check_segment(segment, file_size)?;
        if segment.alignment.is_power_of_two() {
            alignment = alignment.max(segment.alignment);
        }
        push_pieces(segment, &mut mappings);
    }
    segments.sort_by_key(|segment| segment.address);
    for pair in segments.windows(2) {
        if pair[0].address + pair[0].memory_size > pair[1].address {
            return Err(Defect::Segments(format!(
                "those at {:#x} and {:#x} overlap",
                pair[0].address, pair[1].address
            )));
        }
    }
    let start = mappings.iter().map(|mapping| mapping.address).min();
    let end = mappings.iter().map(Mapping::end).max();
    let (Some(start), Some(end)) = (start, end) else {
        return Err(Defect::Segments("there is none".to_owned()));
    };
    if alignment >= ADDRESSES_END {
        return Err(Defect::Segments(format!(
            "an alignment of {alignment:#x} bytes"
        )));
    }
    let stack = program_headers
        .iter()
        .rev()
        .find(|segment| segment.kind == PT_GNU_STACK);
    Ok(Layout {
        relocatable: header.relocatable,
        entry: header.entry,
        start,
        end,
        alignment,
        program_headers: segments
            .iter()
            .find(|segment| {
                header.program_headers_offset >= segment.offset
                    && header.program_headers_offset - segment.offset < segment.file_size
            })
            .map(|segment| header.program_headers_offset - segment.offset + segment.address),
        memory_end: segments
            .last()
            .map_or(end, |last| last.address + last.memory_size),
        executable_stack: stack.is_some_and(|stack| stack.flags & PF_X != 0),
        mappings,
    })
}

fn check_segment(segment: &ProgramHeader, file_size: u64) -> Result<(), Defect> {
    let address = segment.address;
    let fail = |reason: &str| {
        Err(Defect::Segments(format!(
            "the one at {address:#x} {reason}"
        )))
    };
    if segment.file_size > segment.memory_size {
        return fail("has more bytes in the file than in memory");
    }
    // One page less than the addresses there are, so that rounding up cannot leave them.
    match address.checked_add(segment.memory_size) {
        Some(end) if end <= ADDRESSES_END - PAGE => {}
        _ => return fail("reaches beyond the addresses that programs have"),
    }
    if segment.file_size == 0 {
        return Ok(());
    }
    match segment.offset.checked_add(segment.file_size) {
        Some(end) if end <= file_size => {}
        _ => {
            return Err(Defect::Truncated(format!(
                "the segment at {address:#x} needs {:#x} bytes from offset {:#x}, and the file \
                 has {file_size:#x}",
                segment.file_size, segment.offset
            )));
        }
    }
    if segment.offset % PAGE != address % PAGE {
        return fail("cannot be mapped: its file offset and address differ within a page");
    }
    Ok(())
}

fn push_pieces(segment: &ProgramHeader, mappings: &mut Vec<Mapping>) {
    let mut protection = 0;
    for (flag, bit) in [
        (PF_R, libc::PROT_READ),
        (PF_W, libc::PROT_WRITE),
        (PF_X, libc::PROT_EXEC),
    ] {
        if segment.flags & flag != 0 {
            protection |= bit;
        }
    }
    let start = page_start(segment.address);
    let file_end = segment.address + segment.file_size;
    let end = page_end(segment.address + segment.memory_size);
    let mut zeros_start = start;
    if segment.file_size > 0 {
        zeros_start = page_end(file_end);
        // Only where the program could have written the zeros itself: the kernel leaves
        // the tail of a read-only page as the file has it.
        let zeroed = segment.memory_size > segment.file_size
            && segment.flags & PF_W != 0
            && file_end < zeros_start;
        mappings.push(Mapping {
            address: start,
            size: zeros_start - start,
            protection,
            offset: Some(page_start(segment.offset)),
            zero_from: zeroed.then_some(file_end),
        });
    }
    if end > zeros_start {
        mappings.push(Mapping {
            address: zeros_start,
            size: end - zeros_start,
            // The kernel maps these like the heap, whatever the segment's flags are.
            protection: libc::PROT_READ | libc::PROT_WRITE | protection & libc::PROT_EXEC,
            offset: None,
            zero_from: None,
        });
    }
}

/// `address` rounded down to a page.
pub(crate) fn page_start(address: u64) -> u64 {
    address & !(PAGE - 1)
}

/// `address` rounded up to a page; the caller knows that it is not in the last one.
pub(crate) fn page_end(address: u64) -> u64 {
    page_start(address + (PAGE - 1))
}
