//! Rows of call-frame information against those that gimli makes, for libraries and programs of
//! this machine.

use gimli::{BaseAddresses, CfaRule, EhFrame, LittleEndian, RegisterRule, UnwindSection};
use object::{Object, ObjectSection};
use unspool_unwind::{
    Cfa, Entries, Module, RETURN_ADDRESS, RSP, Registers, Rule, Section, Step, Unwinder, follow,
    search_table,
};

/// Files that are there on any machine that can build this.
fn files() -> Vec<std::path::PathBuf> {
    let libraries = std::fs::read_dir("/usr/lib/x86_64-linux-gnu").into_iter();
    let libraries = libraries.flatten().flatten().map(|entry| entry.path());
    let mut libraries: Vec<_> = libraries
        .filter(|path| path.to_string_lossy().contains(".so."))
        .filter(|path| std::fs::symlink_metadata(path).is_ok_and(|data| data.is_file()))
        .collect();
    libraries.sort();
    libraries.truncate(40);
    libraries.push("/bin/bash".into());
    libraries.push("/lib/x86_64-linux-gnu/libc.so.6".into());
    libraries.push(std::env::current_exe().unwrap());
    libraries
}

fn section<'a>(file: &object::File<'a>, name: &str) -> Option<Section<'a>> {
    let section = file.section_by_name(name)?;
    Some(Section {
        address: section.address(),
        bytes: section.data().ok()?,
    })
}

/// What gimli says, in our words.
fn rule(rule: Option<&RegisterRule<usize>>, frames: &Section<'_>) -> Rule {
    let _ = frames;
    match rule {
        None | Some(RegisterRule::SameValue) => Rule::Same,
        Some(RegisterRule::Undefined) => Rule::Undefined,
        Some(RegisterRule::Offset(offset)) => Rule::AtCfa(*offset as i32),
        Some(RegisterRule::ValOffset(offset)) => Rule::CfaPlus(*offset as i32),
        Some(RegisterRule::Register(register)) => Rule::Register(register.0 as u8),
        Some(RegisterRule::Expression(expression)) => Rule::AtExpression {
            at: expression.offset as u32,
            length: expression.length as u16,
        },
        Some(RegisterRule::ValExpression(expression)) => Rule::Expression {
            at: expression.offset as u32,
            length: expression.length as u16,
        },
        other => panic!("{other:?}"),
    }
}

fn cfa(rule: &CfaRule<usize>) -> Cfa {
    match rule {
        CfaRule::RegisterAndOffset { register, offset } => Cfa::Register {
            number: register.0 as u8,
            offset: *offset as i32,
        },
        CfaRule::Expression(expression) => Cfa::Expression {
            at: expression.offset as u32,
            length: expression.length as u16,
        },
    }
}

fn compare(path: &std::path::Path) -> Option<(usize, usize)> {
    let data = std::fs::read(path).ok()?;
    let file = object::File::parse(&*data).ok()?;
    let frames = section(&file, ".eh_frame")?;
    let mut theirs = EhFrame::new(frames.bytes, LittleEndian);
    theirs.set_address_size(8);
    let bases = BaseAddresses::default().set_eh_frame(frames.address);
    let mut context = gimli::UnwindContext::new();
    let mut entries = Entries::new(frames);
    let (mut pieces, mut rows) = (0, 0);
    let mut walk = theirs.entries(&bases);
    while let Some(entry) = walk.next().unwrap() {
        let gimli::CieOrFde::Fde(partial) = entry else {
            continue;
        };
        let piece = partial.parse(EhFrame::cie_from_offset).unwrap();
        let own = entries.next().expect("as many entries as gimli finds");
        assert_eq!(
            own.code.start,
            piece.initial_address(),
            "{}",
            path.display()
        );
        assert_eq!(own.code.end, piece.end_address());
        assert_eq!(own.is_signal_frame, piece.is_signal_trampoline());
        pieces += 1;
        let mut table = piece.rows(&theirs, &bases, &mut context).unwrap();
        while let Some(row) = table.next_row().unwrap() {
            if row.start_address() >= own.code.end || row.start_address() == row.end_address() {
                continue;
            }
            for address in [row.start_address(), row.end_address().min(own.code.end) - 1] {
                let recipe = own.recipe(frames, address).expect("a recipe");
                assert_eq!(
                    recipe.cfa,
                    cfa(row.cfa()),
                    "{} {address:#x}",
                    path.display()
                );
                let registers = row.registers();
                for number in 0..=RETURN_ADDRESS {
                    let found = registers
                        .clone()
                        .find(|(register, _)| register.0 == number.into());
                    let expected = rule(found.as_ref().map(|(_, rule)| rule), &frames);
                    assert_eq!(
                        recipe.rules[usize::from(number)],
                        expected,
                        "{} {address:#x} register {number}",
                        path.display()
                    );
                }
                rows += 1;
            }
        }
    }
    assert!(entries.next().is_none(), "no more entries than gimli finds");
    Some((pieces, rows))
}

#[test]
fn rows_are_those_of_gimli() {
    let (mut pieces, mut rows) = (0, 0);
    for path in files() {
        if let Some((more_pieces, more_rows)) = compare(&path) {
            pieces += more_pieces;
            rows += more_rows;
        }
    }
    println!("{pieces} pieces of code, {rows} rows");
    assert!(rows > 20_000, "only {rows} rows were compared");
}

#[test]
fn damaged_information_is_no_panic() {
    let data = std::fs::read("/lib/x86_64-linux-gnu/libc.so.6").unwrap();
    let file = object::File::parse(&*data).unwrap();
    let frames = section(&file, ".eh_frame").unwrap();
    let mut bytes = frames.bytes[..frames.bytes.len().min(20_000)].to_vec();
    let mut seed = 1_u32;
    let (mut found, mut refused) = (0, 0);
    for _ in 0..3000 {
        seed = seed.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        let at = seed as usize % bytes.len();
        let before = std::mem::replace(&mut bytes[at], (seed >> 24) as u8);
        let section = Section {
            address: frames.address,
            bytes: &bytes,
        };
        for entry in Entries::new(section).take(20) {
            match entry.recipe(section, entry.code.start) {
                Some(recipe) => {
                    found += 1;
                    let mut registers = Registers::at(entry.code.start);
                    registers.set(RSP, 0x7000);
                    let _ = follow(&recipe, &registers, section, &mut |_| Some(0));
                }
                None => refused += 1,
            }
        }
        bytes[at] = before;
    }
    assert!(found > 0 && refused > 0, "{found} found, {refused} refused");
}

/// The entry by which an address is unwound: where its function begins.
fn function_at(modules: &[Module<'_>], address: u64) -> Option<u64> {
    let mut registers = Registers::at(address);
    for number in 0..16 {
        registers.set(number, 0x7000);
    }
    match Unwinder::new().step(modules, &mut registers, &mut |_| Some(0x10)) {
        Ok(Step::Caller(found)) => Some(found.called),
        _ => None,
    }
}

/// A table that is made leads where the linker's leads; one that is made of other entries does not.
#[test]
fn a_table_is_made_where_there_is_none() {
    let data = std::fs::read("/lib/x86_64-linux-gnu/libc.so.6").unwrap();
    let file = object::File::parse(&*data).unwrap();
    let frames = section(&file, ".eh_frame").unwrap();
    let header = section(&file, ".eh_frame_hdr");
    assert_eq!(search_table(header, frames), None, "the linker's is used");
    let made = search_table(None, frames).unwrap();
    let half = Section {
        bytes: &frames.bytes[..frames.bytes.len() / 2],
        ..frames
    };
    let made_of_half = search_table(None, half).unwrap();
    let module = |header| Module {
        range: 0..u64::MAX,
        frames,
        header,
        ..Module::default()
    };
    let at = |bytes| Section { bytes, ..frames };
    let (mut compared, mut different) = (0, 0);
    for entry in Entries::new(frames).step_by(7) {
        let last = entry.code.end - 1;
        let found = [header, Some(at(&*made)), Some(at(&*made_of_half))]
            .map(|header| function_at(&[module(header)], last));
        assert_eq!(found[0], found[1], "{last:#x}");
        compared += usize::from(found[0].is_some());
        different += usize::from(found[0] != found[2]);
    }
    assert!(compared > 300 && different > 100, "{compared}, {different}");
}
