//! What is in memory after loading.

use std::ffi::CString;

use unspool_kernel::maps;

use super::crafted::{CraftedElf, segment};
use super::scratch::{Scratch, load};
use crate::elf::{PF_R, PF_W, PF_X, PT_GNU_STACK, ProgramHeader};
use crate::stack::StackContents;
use crate::{LoadError, LoadRequest, LoadedProgram, ProgramStack};

fn load_crafted(elf: &CraftedElf) -> LoadedProgram {
    let scratch = Scratch::new();
    let path = scratch.write("program", &elf.bytes(), 0o755);
    load(&LoadRequest::new(
        path,
        vec![CString::default()],
        Vec::new(),
    ))
    .expect("a good program")
}

fn bytes_at(address: u64, size: usize) -> &'static [u8] {
    // SAFETY: the tests ask for what they have just loaded, and never unload it.
    unsafe { std::slice::from_raw_parts(address as *const u8, size) }
}

/// The line of `/proc/self/maps` that holds the address: its permissions, if it is mapped.
fn permissions_at(address: u64) -> Option<String> {
    let text = maps::read();
    let mut lines = maps::lines(&text);
    let line = lines.find(|line| line.range.contains(&address));
    line.map(|line| line.permissions.to_owned())
}

#[test]
fn segments_hold_their_bytes_and_zeros() {
    let elf = CraftedElf::two_segments();
    let file = elf.bytes();
    let loaded = load_crafted(&elf);
    let base = loaded.program_base;
    assert_eq!(bytes_at(base, 0x1234), &file[..0x1234]);
    assert_eq!(bytes_at(base + 0x3234, 0x100), &file[0x1234..0x1334]);
    assert!(
        bytes_at(base + 0x3334, 0x8234 - 0x3334)
            .iter()
            .all(|&byte| byte == 0)
    );
    assert!(
        bytes_at(base + 0x8234, 0xdcc).iter().all(|&byte| byte == 0),
        "the last page is zero to its end"
    );
    assert_eq!(loaded.entry, base + 0x200);
    assert_eq!(loaded.brk_start, base + 0x9000);
    assert_eq!((loaded.interp_base, loaded.executable_stack), (None, false));
}

#[test]
fn protections_and_gaps_are_the_programs() {
    let loaded = load_crafted(&CraftedElf::two_segments());
    let base = loaded.program_base;
    assert_eq!(permissions_at(base).as_deref(), Some("r-xp"));
    assert_eq!(permissions_at(base + 0x3000).as_deref(), Some("rw-p"));
    assert_eq!(permissions_at(base + 0x4000).as_deref(), Some("rw-p"));
    assert_eq!(permissions_at(base + 0x2000), None, "the gap is free again");
    let expected = [
        (base, 0x2000, libc::PROT_READ | libc::PROT_EXEC, Some(0)),
        (
            base + 0x3000,
            0x1000,
            libc::PROT_READ | libc::PROT_WRITE,
            Some(0x1000),
        ),
        (
            base + 0x4000,
            0x5000,
            libc::PROT_READ | libc::PROT_WRITE,
            None,
        ),
    ];
    let segments: Vec<_> = loaded
        .segments
        .iter()
        .map(|part| {
            let offset = part.file.as_ref().map(|_| part.offset);
            (part.address, part.size, part.protection, offset)
        })
        .collect();
    assert_eq!(segments, expected);
}

#[test]
fn code_goes_below_two_gibibytes_at_its_alignment() {
    let mut elf = CraftedElf::two_segments();
    // Coarser than the steps in which places are tried.
    elf.program_headers[0].alignment = 1 << 26;
    for _ in 0..3 {
        let loaded = load_crafted(&elf);
        assert_eq!(loaded.program_base % (1 << 26), 0);
        assert!(loaded.program_base >= 0x1000_0000 && loaded.brk_start < 0x8000_0000);
    }
}

#[test]
fn an_image_without_room_below_goes_above() {
    let mut elf = CraftedElf::two_segments();
    elf.program_headers[1].memory_size = 3 << 30;
    let loaded = load_crafted(&elf);
    assert!(loaded.program_base >= 0x8000_0000);
    assert_eq!(bytes_at(loaded.program_base, 4), b"\x7fELF");
}

#[test]
fn a_later_segment_wins_a_shared_page() {
    let elf = CraftedElf {
        program_headers: vec![
            segment(PF_R | PF_X, 0, 0, 0x1234, 0x1234),
            segment(PF_R | PF_W, 0x1234, 0x1234, 0x100, 0x100),
        ],
        ..CraftedElf::two_segments()
    };
    let loaded = load_crafted(&elf);
    let base = loaded.program_base;
    assert_eq!(bytes_at(base, 0x2000), &elf.bytes()[..0x2000]);
    let sizes: Vec<_> = loaded
        .segments
        .iter()
        .map(|part| (part.address, part.size))
        .collect();
    assert_eq!(sizes, [(base, 0x1000), (base + 0x1000, 0x1000)]);
    assert_eq!(permissions_at(base + 0x1000).as_deref(), Some("rw-p"));
}

#[test]
fn a_segment_may_have_nothing_in_the_file() {
    let elf = CraftedElf {
        kind: 2,
        entry: 0x7654_0000,
        program_headers: vec![
            segment(PF_R, 0, 0x7654_0000, 0x800, 0x800),
            segment(PF_R | PF_W, 0, 0x7655_0010, 0, 0x2000),
        ],
        ..CraftedElf::two_segments()
    };
    let loaded = load_crafted(&elf);
    assert_eq!(loaded.program_base, 0);
    assert_eq!(bytes_at(0x7655_0000, 0x3000), [0; 0x3000]);
    assert_eq!(permissions_at(0x7654_8000), None, "the gap stays free");
    assert_eq!(
        bytes_at(0x7654_0800, 1),
        &elf.bytes()[0x800..0x801],
        "read-only: not cleared"
    );
}

#[test]
fn the_stack_is_protected_as_the_program_says() {
    for (flags, permissions) in [(PF_R | PF_W, "rw-p"), (PF_R | PF_W | PF_X, "rwxp")] {
        let mut elf = CraftedElf::two_segments();
        elf.program_headers.push(ProgramHeader {
            kind: PT_GNU_STACK,
            flags,
            ..ProgramHeader::default()
        });
        let loaded = load_crafted(&elf);
        let stack = &loaded.stack;
        assert_eq!(permissions_at(stack.end - 1).as_deref(), Some(permissions));
        assert!(stack.contains(&loaded.stack_pointer) && loaded.stack_pointer.is_multiple_of(16));
    }
}

#[test]
fn a_stack_without_room_for_the_arguments_is_refused() {
    let scratch = Scratch::new();
    let path = scratch.write("program", &CraftedElf::two_segments().bytes(), 0o755);
    let own = [CString::default()];
    // Only the process that starts a program has a limit; here the stack's is the system's.
    let error = |size| {
        let stack = ProgramStack::mapped(8 << 20);
        let request = StackContents {
            arguments: &own,
            environment: &[],
            executed_name: c"x",
            platform: None,
            random: [0; 16],
            auxv: &[],
        };
        stack.fill(&path, &request.build(stack.top()), size, false)
    };
    assert!(error(16 << 10).is_ok());
    assert!(matches!(error(8 << 10), Err(LoadError::TooLong { .. })));
}

#[test]
fn a_failed_load_leaves_nothing_behind() {
    let stack_variable = 0_u8;
    let own_stack = &raw const stack_variable as u64 & !0xfff;
    let elf = CraftedElf {
        kind: 2,
        program_headers: vec![
            segment(PF_R, 0, 0x6543_0000, 0x800, 0x800),
            segment(PF_R, 0, own_stack, 0x800, 0x800),
        ],
        ..CraftedElf::two_segments()
    };
    let scratch = Scratch::new();
    let path = scratch.write("program", &elf.bytes(), 0o755);
    let error = load(&LoadRequest::new(path, Vec::new(), Vec::new())).expect_err("in use");
    assert!(error.to_string().contains("in use"), "{error}");
    assert_eq!(permissions_at(0x6543_0000), None);
}
