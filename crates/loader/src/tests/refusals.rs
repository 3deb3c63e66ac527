//! What is refused, with which words and which errno; and that nothing panics.

use std::path::Path;

use super::crafted::{CraftedElf, segment};
use super::scratch::{Scratch, load};
use crate::elf::{self, Format, PF_R, PF_W, PT_INTERP, ProgramHeader};
use crate::executable::HEAD_SIZE;
use crate::layout::{ADDRESSES_END, plan_layout};
use crate::{ExecutableKind, LoadRequest, check};

fn expect_refusal(path: &Path, errno: i32, words: &str) {
    for result in [
        check(path).map(|_| ()),
        load(&LoadRequest::new(path.to_owned(), Vec::new(), Vec::new())).map(|_| ()),
    ] {
        let error = result.expect_err(words);
        let message = error.to_string();
        assert!(
            message.contains(words),
            "{message:?} does not say {words:?}"
        );
        assert!(
            message.contains(&path.display().to_string()),
            "{message:?} names no file"
        );
        assert_eq!(error.errno(), errno, "{message}");
    }
}

fn refuse_bytes(bytes: &[u8], errno: i32, words: &str) {
    let scratch = Scratch::new();
    expect_refusal(&scratch.write("program", bytes, 0o755), errno, words);
}

fn refuse(change: impl FnOnce(&mut CraftedElf), errno: i32, words: &str) {
    let mut elf = CraftedElf::two_segments();
    change(&mut elf);
    refuse_bytes(&elf.bytes(), errno, words);
}

#[test]
fn files_that_may_not_be_executed() {
    let scratch = Scratch::new();
    expect_refusal(&scratch.path("nothing"), libc::ENOENT, "no such file");
    expect_refusal(scratch.as_ref(), libc::EACCES, "is a directory");
    expect_refusal(Path::new("/dev/null"), libc::EACCES, "not a regular file");
    let plain = scratch.write("plain", &CraftedElf::two_segments().bytes(), 0o644);
    expect_refusal(&plain, libc::EACCES, "not executable");
    expect_refusal(&plain.join("below"), libc::ENOTDIR, "cannot find it");
}

#[test]
fn files_that_are_no_programs() {
    refuse_bytes(b"", libc::ENOEXEC, "an empty file");
    refuse_bytes(b"MZ\x90\0", libc::ENOEXEC, "Windows");
    refuse_bytes(b"echo hello\n", libc::ENOEXEC, "text without a #! line");
    refuse_bytes(b"\x01\x02\0\x03", libc::ENOEXEC, "binary data");
    refuse_bytes(b"#!\n", libc::ENOEXEC, "without an interpreter");
    refuse(|elf| elf.kind = 1, libc::ENOEXEC, "not linked");
    refuse(|elf| elf.kind = 4, libc::ENOEXEC, "core dump");
    refuse(|elf| elf.kind = 77, libc::ENOEXEC, "unknown type");
}

#[test]
fn programs_for_other_processors() {
    refuse(|elf| elf.machine = 183, libc::ENOEXEC, "AArch64");
    refuse(|elf| elf.machine = 0x1234, libc::ENOEXEC, "number 4660");
}

#[test]
fn programs_of_32_bits_are_checked_but_not_loaded() {
    let scratch = Scratch::new();
    for (machine, architecture) in [(3, "i386"), (62, "x32")] {
        let elf = CraftedElf {
            class: 1,
            machine,
            entry_size: 32,
            ..CraftedElf::two_segments()
        };
        let path = scratch.write("program", &elf.bytes(), 0o755);
        assert_eq!(
            check(&path).expect("execve accepts it"),
            ExecutableKind::Elf32 { architecture }
        );
        let error = load(&LoadRequest::new(path, Vec::new(), Vec::new())).expect_err("32 bits");
        assert_eq!(error.errno(), libc::ENOEXEC);
        assert!(error.to_string().contains(architecture), "{error}");
        assert!(error.to_string().contains("without -m32"), "{error}");
    }
}

#[test]
fn headers_that_contradict_themselves() {
    refuse(|elf| elf.size = 20, libc::ENOEXEC, "cut off");
    refuse(
        |elf| elf.size = 100,
        libc::ENOEXEC,
        "program headers lie beyond",
    );
    refuse(|elf| elf.size = 0x1300, libc::ENOEXEC, "cut off");
    refuse(|elf| elf.entry_size = 55, libc::ENOEXEC, "of 55 bytes");
    refuse(
        |elf| elf.program_headers.clear(),
        libc::ENOEXEC,
        "0 program headers",
    );
    refuse(
        |elf| elf.program_headers = vec![ProgramHeader::default(); 1171],
        libc::ENOEXEC,
        "1171 program headers",
    );
}

#[test]
fn segments_that_cannot_be() {
    let changed = |index: usize, change: fn(&mut ProgramHeader), words: &str| {
        refuse(
            |elf| change(&mut elf.program_headers[index]),
            libc::EINVAL,
            words,
        );
    };
    changed(
        1,
        |segment| segment.memory_size = 0xff,
        "more bytes in the file",
    );
    changed(
        1,
        |segment| segment.address = u64::MAX - 0x10,
        "beyond the addresses",
    );
    changed(
        1,
        |segment| segment.memory_size = u64::MAX,
        "beyond the addresses",
    );
    changed(
        1,
        |segment| segment.address = ADDRESSES_END - 0x2000,
        "beyond the addresses",
    );
    changed(1, |segment| segment.address += 1, "differ within a page");
    changed(
        1,
        |segment| (segment.address, segment.offset) = (0x1200, 0x1200),
        "overlap",
    );
    changed(0, |segment| segment.alignment = 1 << 63, "an alignment of");
    refuse(
        |elf| {
            elf.program_headers
                .iter_mut()
                .for_each(|segment| segment.kind = 0)
        },
        libc::EINVAL,
        "there is none",
    );
}

#[test]
fn loaders_that_cannot_be_used() {
    let scratch = Scratch::new();
    let with_interpreter = |interpreter: &str, unterminated: bool| {
        let mut elf = CraftedElf::two_segments();
        let size = interpreter.len() as u64 + u64::from(!unterminated);
        let header = segment(0, 0x2000, 0x2000, size, size);
        elf.program_headers.push(ProgramHeader {
            kind: PT_INTERP,
            ..header
        });
        let mut bytes = elf.bytes();
        bytes[0x2000..0x2000 + interpreter.len()].copy_from_slice(interpreter.as_bytes());
        bytes[0x2000 + interpreter.len()] = 0;
        scratch.write("program", &bytes, 0o755)
    };
    let refuse = |interpreter: &Path, errno, words| {
        let name = interpreter.to_str().expect("a plain name");
        expect_refusal(&with_interpreter(name, false), errno, words);
    };
    refuse(
        Path::new("/no/such/loader"),
        libc::ENOENT,
        "needs /no/such/loader, which does not",
    );
    expect_refusal(&with_interpreter("/lib", true), libc::ENOEXEC, "has no end");
    expect_refusal(&with_interpreter("", false), libc::ENOEXEC, "has 1 bytes");
    refuse(
        &scratch.write("text", b"text\n", 0o755),
        libc::ELIBBAD,
        "text without",
    );
    let foreign = CraftedElf {
        machine: 8,
        ..CraftedElf::two_segments()
    }
    .bytes();
    refuse(
        &scratch.write("foreign", &foreign, 0o755),
        libc::ELIBBAD,
        "MIPS",
    );
    let cut = CraftedElf {
        size: 0x1300,
        ..CraftedElf::two_segments()
    }
    .bytes();
    refuse(&scratch.write("cut", &cut, 0o755), libc::ELIBBAD, "cut off");
}

#[test]
fn addresses_in_use_are_not_taken_over() {
    let occupied = Box::new([7_u8; 3 * 4096]);
    let address = (occupied.as_ptr() as u64).next_multiple_of(4096);
    let elf = CraftedElf {
        kind: 2,
        program_headers: vec![segment(PF_R | PF_W, 0, address, 0x100, 0x100)],
        ..CraftedElf::two_segments()
    };
    let scratch = Scratch::new();
    let path = scratch.write("program", &elf.bytes(), 0o755);
    assert!(matches!(check(&path), Ok(ExecutableKind::Elf64 { .. })));
    let error = load(&LoadRequest::new(path, Vec::new(), Vec::new())).expect_err("in use");
    assert!(error.to_string().contains("in use"), "{error}");
    assert_eq!(error.errno(), libc::ENOMEM);
    assert_eq!(*occupied, [7; 3 * 4096]);
}

/// Any bytes give an answer, and a layout that is accepted keeps its promises.
#[test]
fn damaged_headers_never_panic() {
    let mut random = 0x9e37_79b9_7f4a_7c15_u64;
    let mut next = || {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        random
    };
    let original = CraftedElf::two_segments().bytes();
    let mut accepted = 0;
    for _ in 0..200_000 {
        let mut bytes = original[..HEAD_SIZE].to_vec();
        for _ in 0..=next() % 3 {
            let position = (next() % 176) as usize;
            bytes[position] = match next() % 3 {
                0 => 0,
                1 => 0xff,
                _ => next() as u8,
            };
        }
        let head: [u8; HEAD_SIZE] = bytes.as_slice().try_into().expect("cut to size");
        let Format::Elf64(header) = elf::recognise(&head, HEAD_SIZE) else {
            continue;
        };
        let Some(table) = bytes.get(header.program_headers_offset.min(HEAD_SIZE as u64) as usize..)
        else {
            continue;
        };
        let Ok(program_headers) = elf::parse_program_headers(&header, table) else {
            continue;
        };
        let Ok(layout) = plan_layout(&header, &program_headers, 0x4000) else {
            continue;
        };
        accepted += 1;
        assert!(layout.start < layout.end && layout.end <= ADDRESSES_END);
        assert!(layout.alignment.is_power_of_two());
        for mapping in &layout.mappings {
            assert!(mapping.address % 4096 == 0 && mapping.size % 4096 == 0 && mapping.size > 0);
            assert!(layout.start <= mapping.address && mapping.end() <= layout.end);
        }
    }
    assert!(accepted > 1000, "only {accepted} layouts were tested");
}
