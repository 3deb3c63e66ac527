//! Where functions begin in code of which nothing else says it: no call-frame information, no symbols.
//!
//! The code is read from its start to its end, instruction by instruction. A function begins where a direct
//! call leads, and where who asks knows it. It may begin behind what control does not pass: a return, a jump,
//! a trap, and the padding that follows. It does not where a jump leads over that place, from before it
//! to behind it or back: such a *protected interval* holds one function together. Behind a jump through a
//! register, blocks of a `switch` may follow, which only a table names; a function begins there only at an
//! aligned address that padding precedes.
//!
//! Source: N. R. Tallent, J. Mellor-Crummey, M. W. Fagan, "Binary analysis for measurement and attribution of
//! program performance", PLDI 2009, section 3.1.1.

use std::collections::BTreeSet;
use std::ops::Range;

use unspool_instructions::decode::{Encoding, Instruction, Kind, Repeat, decode};

use crate::code::is_padding;
use crate::section::Section;

/// No instruction is longer.
const LONGEST: usize = 15;
/// What compilers align functions to where they align them at all.
const ALIGNMENT: u64 = 16;
/// In code whose functions are aligned, so many of a hundred are at least.
const MOSTLY: usize = 90;

/// Where a larger part of the code is told than one of so many, functions that are not are few, and not
/// looked for.
const MOSTLY_TOLD: u64 = 2;

/// The functions of a file's code that neither call-frame information nor symbols tell, if both leave most
/// of it out. `described` and `named` are those that they tell, in any order; the file is entered at `entry`.
#[must_use]
pub fn undescribed_functions(
    code: &[Section<'_>],
    described: &[Range<u64>],
    named: &[Range<u64>],
    entry: u64,
) -> Vec<Range<u64>> {
    let length = |range: &Range<u64>| range.end.saturating_sub(range.start);
    let sum = |ranges: &[Range<u64>]| ranges.iter().map(length).fold(0, u64::saturating_add);
    let all: u64 = code.iter().map(|code| code.bytes.len() as u64).sum();
    if sum(described).max(sum(named)) > all / MOSTLY_TOLD {
        return Vec::new();
    }
    let told: BTreeSet<u64> = described.iter().chain(named).map(|it| it.start).collect();
    let mut known: Vec<u64> = told.iter().copied().collect();
    known.push(entry);
    let mut functions = Vec::new();
    for code in code {
        let starts = function_starts(*code, &known);
        let ends = starts.iter().skip(1).copied().chain([code.end()]);
        functions.extend(starts.iter().zip(ends).map(|(start, end)| *start..end));
    }
    functions.retain(|function| !told.contains(&function.start));
    functions.sort_unstable_by_key(|function| function.start);
    functions
}

/// A place where a function may begin.
struct Candidate {
    address: u64,
    /// Whether something that does nothing stands before it.
    is_padded: bool,
    before: Before,
    /// Where the last jump through a register or a table is, if there is one: what follows it may be blocks
    /// of its function.
    switch: Option<u64>,
}

/// What stands before a place where a function may begin.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Before {
    /// What control does not pass.
    End,
    /// A call, which may never return.
    Call,
}

impl Candidate {
    /// Whether it looks as if a compiler had aligned it.
    fn is_aligned(&self) -> bool {
        self.is_padded && self.address.is_multiple_of(ALIGNMENT)
    }
}

/// A jump to another place of the code.
struct Jump {
    target: u64,
    /// What it leads over: from the earlier of place and target to the later one.
    over: (u64, u64),
}

/// What was read.
#[derive(Default)]
struct Scan {
    calls: Vec<u64>,
    jumps: Vec<Jump>,
    /// Where jumps lead that are not always taken.
    targets: Vec<u64>,
    candidates: Vec<Candidate>,
}

/// Where functions begin in code, in order. `known` are places where some do, of this code or not.
#[must_use]
pub fn function_starts(code: Section<'_>, known: &[u64]) -> Vec<u64> {
    let inside = |address: &u64| (code.address..code.end()).contains(address);
    let Scan {
        mut calls,
        mut jumps,
        mut targets,
        candidates,
    } = Scan::of(code);
    targets.sort_unstable();
    calls.extend(known.iter().copied());
    calls.retain(inside);
    calls.sort_unstable();
    calls.dedup();
    // Over the beginning of a function a jump leads to another one, or to a part of its own that lies
    // elsewhere.
    let stays = |jump: &Jump| {
        let next = calls.partition_point(|start| *start <= jump.over.0);
        calls.get(next).is_none_or(|start| *start > jump.over.1)
    };
    // Where control does not pass into what is aligned, a jump to it mostly is a function's last act.
    let is_tail_call = |jump: &Jump| {
        let target = candidates.binary_search_by_key(&jump.target, |candidate| candidate.address);
        target.is_ok_and(|place| {
            candidates[place].before == Before::End && candidates[place].is_aligned()
        })
    };
    jumps.retain(|jump| stays(jump) && !is_tail_call(jump));
    let protected = joined(jumps.iter().map(|jump| jump.over).collect());
    // What is called tells whether functions are aligned in this code: then what is not is none, but
    // where exceptions land, for instance.
    let aligned = calls.iter().filter(|start| start.is_multiple_of(ALIGNMENT));
    let aligns = aligned.count() >= calls.len() * MOSTLY / 100;
    let is_protected = |address: u64| {
        let behind = protected.partition_point(|interval| interval.0 < address);
        behind
            .checked_sub(1)
            .is_some_and(|before| address <= protected[before].1)
    };
    let begins = |candidate: &Candidate| {
        let is_likely = match candidate.before {
            Before::End => !aligns || candidate.is_aligned(),
            Before::Call => candidate.is_aligned(),
        };
        let is_block = candidate.switch.is_some_and(|switch| {
            let next = calls.partition_point(|start| *start <= switch);
            calls
                .get(next)
                .is_none_or(|start| *start > candidate.address)
        });
        is_likely
            && !is_block
            && !is_protected(candidate.address)
            && targets.binary_search(&candidate.address).is_err()
    };
    let found = candidates.iter().filter(|it| begins(it));
    let mut starts: Vec<u64> = found.map(|candidate| candidate.address).collect();
    starts.extend(calls);
    starts.sort_unstable();
    starts.dedup();
    starts
}

/// Intervals that have a place in common are one. In order.
fn joined(mut intervals: Vec<(u64, u64)>) -> Vec<(u64, u64)> {
    intervals.sort_unstable();
    let mut joined: Vec<(u64, u64)> = Vec::new();
    for (from, to) in intervals {
        match joined.last_mut() {
            Some(last) if from <= last.1 => last.1 = last.1.max(to),
            _ => joined.push((from, to)),
        }
    }
    joined
}

impl Scan {
    fn of(code: Section<'_>) -> Scan {
        let mut scan = Scan::default();
        let mut offset = 0;
        // Behind what control does not pass: whether that is a jump through a register, and whether
        // padding has followed.
        let mut behind = Some((Before::End, true));
        let mut switch = None;
        while let Some(bytes) = code.bytes.get(offset..).filter(|bytes| !bytes.is_empty()) {
            let address = code.address.wrapping_add(offset as u64);
            let window = &bytes[..bytes.len().min(LONGEST)];
            let Ok(instruction) = decode(window, address) else {
                offset += 1;
                continue;
            };
            let length = usize::from(instruction.length).max(1);
            let next = address.wrapping_add(length as u64);
            offset += length;
            if is_padding(&instruction) {
                behind = behind.map(|(before, _)| (before, true));
                continue;
            }
            if let Some((before, is_padded)) = behind {
                let mut candidate = Candidate {
                    address,
                    is_padded,
                    before,
                    switch,
                };
                // No block of a function begins as functions do.
                if candidate.is_aligned() && builds_frame(&instruction) {
                    switch = None;
                    candidate.switch = None;
                }
                scan.candidates.push(candidate);
            }
            behind = scan
                .note(&instruction, address, next, code)
                .map(|it| (it, false));
            if instruction.kind == Kind::JumpIndirect && !instruction.rip_relative {
                switch = Some(address);
            }
        }
        scan
    }

    /// Takes note of where an instruction leads; says what follows it, if control does not pass it.
    fn note(
        &mut self,
        instruction: &Instruction,
        address: u64,
        next: u64,
        code: Section<'_>,
    ) -> Option<Before> {
        let target = instruction.target;
        let over = (address.min(target), target.max(next));
        let is_inside = (code.address..code.end()).contains(&target);
        match instruction.kind {
            Kind::CallDirect => {
                // To the next instruction it is no call: code looks up where it is.
                if is_inside && target != next {
                    self.calls.push(target);
                }
                Some(Before::Call)
            }
            Kind::CallIndirect => Some(Before::Call),
            Kind::Jcc { .. } | Kind::JrcxzOrLoop { .. } => {
                if is_inside {
                    self.jumps.push(Jump { target, over });
                    self.targets.push(target);
                }
                None
            }
            Kind::JumpDirect => {
                if is_inside {
                    self.jumps.push(Jump { target, over });
                }
                Some(Before::End)
            }
            Kind::JumpIndirect | Kind::Return { .. } | Kind::Ud | Kind::Hlt | Kind::FarTransfer => {
                Some(Before::End)
            }
            _ => None,
        }
    }
}

/// Whether an instruction is one that functions begin with: `push`, `sub rsp`, `endbr64`.
fn builds_frame(instruction: &Instruction) -> bool {
    if instruction.encoding != Encoding::Legacy {
        return false;
    }
    match (instruction.map, instruction.opcode, instruction.modrm) {
        (0, 0x50..=0x57, _) | (0, 0x81 | 0x83, 0xec) => true,
        (1, 0x1e, 0xfa) => instruction.repeat == Repeat::Rep,
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use object::{Object, ObjectSection, ObjectSymbol};

    use super::*;
    use crate::Entries;

    fn section<'a>(file: &object::File<'a>, name: &str) -> Section<'a> {
        let section = file.section_by_name(name).expect("a section");
        Section {
            address: section.address(),
            bytes: section.data().expect("its bytes"),
        }
    }

    /// How many functions there are, how many of them were found, and how many that are none.
    fn compare(path: &str) -> (usize, usize, usize) {
        let data = std::fs::read(path).unwrap();
        let file = object::File::parse(&*data).unwrap();
        let code = section(&file, ".text");
        let is_part = |symbol: &object::Symbol<'_, '_>| {
            symbol.name().is_ok_and(|name| name.contains(".cold"))
        };
        let parts: BTreeSet<u64> = file
            .symbols()
            .filter(is_part)
            .map(|it| it.address())
            .collect();
        let frames = section(&file, ".eh_frame");
        // Parts of functions that lie elsewhere begin in the middle of a frame.
        let is_whole = |entry: &crate::FrameDescription| {
            let recipe = entry.recipe(frames, entry.code.start);
            recipe.is_some_and(|recipe| recipe.cfa == crate::Recipe::at_entry().cfa)
        };
        let all: BTreeSet<u64> = Entries::new(frames).map(|entry| entry.code.start).collect();
        let starts = Entries::new(frames)
            .filter(is_whole)
            .map(|entry| entry.code.start);
        let inside = starts.filter(|start| (code.address..code.end()).contains(start));
        // Where names were stripped, such parts that have no frame are told by where they begin: compilers
        // align whole functions, in files whose functions are aligned.
        let whole: Vec<u64> = inside.filter(|start| !parts.contains(start)).collect();
        let aligned = whole.iter().filter(|start| start.is_multiple_of(ALIGNMENT));
        let aligns = aligned.count() * 2 > whole.len();
        let is_part = |start: &u64| aligns && !start.is_multiple_of(ALIGNMENT);
        let functions: BTreeSet<u64> = whole.into_iter().filter(|start| !is_part(start)).collect();
        let pointers = file.dynamic_relocations().into_iter().flatten();
        let mut known: Vec<u64> = pointers
            .map(|(_, to)| to.addend().cast_unsigned())
            .collect();
        known.push(file.entry());
        let found: BTreeSet<u64> = function_starts(code, &known).into_iter().collect();
        let wrong: Vec<u64> = found.difference(&all).copied().collect();
        let missing: Vec<u64> = functions.difference(&found).copied().collect();
        println!("{path}: wrong {:x?}", &wrong[..wrong.len().min(12)]);
        println!("{path}: missing {:x?}", &missing[..missing.len().min(12)]);
        (
            functions.len(),
            functions.len() - missing.len(),
            wrong.len(),
        )
    }

    /// A file that tells of its functions is not looked at; one that tells of a few is.
    #[test]
    fn what_is_told_is_not_looked_for() {
        // Two functions, each with its end, and the padding of the first.
        let mut bytes = vec![0x90; 32];
        bytes[0] = 0xc3;
        bytes[16] = 0xc3;
        let code = [Section {
            address: 0x1000,
            bytes: &bytes,
        }];
        let found = |described: Option<Range<u64>>, named: Option<Range<u64>>| {
            let (described, named) = (described.as_slice(), named.as_slice());
            let found = undescribed_functions(&code, described, named, 0x1000);
            found
                .iter()
                .map(|function| function.start)
                .collect::<Vec<_>>()
        };
        assert_eq!(found(None, None), [0x1000, 0x1010]);
        assert_eq!(found(Some(0x1000..0x1008), None), [0x1010]);
        assert_eq!(found(None, Some(0x1010..0x1018)), [0x1000]);
        assert_eq!(found(Some(0x1000..0x1020), None), [0_u64; 0]);
        assert_eq!(found(None, Some(0x1000..0x1020)), [0_u64; 0]);
    }

    #[test]
    fn code_that_nobody_has_compiled_is_read_to_its_end() {
        let mut seed = 7_u64;
        let mut random = || {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (seed >> 56) as u8
        };
        for round in 0..200 {
            let bytes: Vec<u8> = (0..400).map(|_| random()).collect();
            // At the end of the address space, where some of it cannot be.
            let address = [0, 0x1000, u64::MAX - 300][round % 3];
            let code = Section {
                address,
                bytes: &bytes,
            };
            let starts = function_starts(code, &[address, u64::MAX]);
            assert!(starts.is_sorted() && starts.contains(&address));
            let _ = undescribed_functions(&[code], &[0..9, 4..u64::MAX], &[], u64::MAX);
        }
    }

    fn files() -> Vec<String> {
        let own = std::env::current_exe().unwrap().display().to_string();
        let named = std::env::var("UNSPOOL_UNWIND_FILES").ok();
        named.map_or(
            vec![
                "/lib/x86_64-linux-gnu/libc.so.6".into(),
                "/bin/bash".into(),
                own,
            ],
            |files| files.split(':').map(str::to_owned).collect(),
        )
    }

    #[test]
    fn functions_are_found_without_being_told() {
        for path in files() {
            let (functions, found, wrong) = compare(&path);
            println!("{path}: {found} of {functions} found, {wrong} wrong");
            // What starts programs has no call-frame information though it is there, and assembly in Rust's
            // own library is called in the middle.
            assert!(
                found * 100 >= functions * 88,
                "{path}: {found} of {functions}"
            );
            assert!(wrong * 100 <= found * 4, "{path}: {wrong} of {found}");
        }
    }
}
