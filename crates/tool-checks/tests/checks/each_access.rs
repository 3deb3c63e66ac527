//! The accesses that guests compute from their own masks, indexes and counts, and those of which a
//! tool gets entries.

use std::collections::HashMap;
use std::path::Path;

use unspool_guests::Ending;

/// An access: whether it is a write, and each byte of it in order. Whether elements come one by one
/// or in runs makes no difference so.
type Bytes = Vec<(bool, u64)>;

/// What is accessed by the instructions at these addresses.
fn parse(text: &str) -> HashMap<u64, Bytes> {
    let mut accesses = HashMap::<u64, Bytes>::new();
    for line in text.lines() {
        let words: Vec<&str> = line.split(' ').collect();
        let [pc, kind, address, size] = words[..] else {
            panic!("not an access: {line}");
        };
        let number = |word| u64::from_str_radix(word, 16).expect("a number");
        let (start, size) = (number(address), size.parse::<u64>().expect("bytes"));
        let bytes = (start..start + size).map(|byte| (kind == "w", byte));
        accesses.entry(number(pc)).or_default().extend(bytes);
    }
    accesses
}

/// What differs between what the guest said and what the tool had.
fn difference(said: &HashMap<u64, Bytes>, seen: &HashMap<u64, Bytes>) -> Option<String> {
    let nothing = Bytes::new();
    said.iter().find_map(|(pc, said)| {
        let seen = seen.get(pc).unwrap_or(&nothing);
        let place = (0..said.len().max(seen.len())).find(|&at| said.get(at) != seen.get(at))?;
        Some(format!(
            "byte {place} of those that the instruction at {pc:#x} accesses is {:x?}, not {:x?}",
            seen.get(place),
            said.get(place)
        ))
    })
}

fn observe(
    guest: &str,
    test: &str,
    more: &[&str],
) -> Option<(HashMap<u64, Bytes>, HashMap<u64, Bytes>)> {
    let (_, program) = super::build(guest)?;
    let file = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("{test}.accesses"));
    let name = file.to_str().expect("a name");
    let tool = [&["each-access", name], more].concat();
    let observed = super::under(&tool, &program, &[], test);
    assert_eq!(
        observed.ending,
        Ending::Exited(0),
        "{}",
        observed.stderr_text()
    );
    let seen = parse(&std::fs::read_to_string(&file).expect("the tool's file"));
    std::fs::remove_file(&file).expect("the tool's file");
    let said = parse(&observed.stdout_text());
    assert!(!said.is_empty());
    Some((said, seen))
}

#[test]
fn entries_of_gathers_scatters_and_masked_operands() {
    for (test, more) in [
        ("each-element", &[][..]),
        ("each-element-apart", &["apart"]),
    ] {
        if let Some((said, seen)) = observe("instructions/elements", test, more) {
            assert_eq!(difference(&said, &seen), None);
        }
    }
}

/// Each round has its entries, also where the instruction ends before its count does.
#[test]
fn entries_of_repeated_string_instructions() {
    if let Some((said, seen)) = observe("instructions/string_elements", "each-round", &[]) {
        assert_eq!(difference(&said, &seen), None);
        // The control: one byte falsified.
        let mut falsified = said.clone();
        let longest = falsified.values_mut().max_by_key(|bytes| bytes.len());
        longest.and_then(|bytes| bytes.last_mut()).expect("bytes").1 += 1;
        assert_ne!(difference(&falsified, &seen), None);
    }
}
