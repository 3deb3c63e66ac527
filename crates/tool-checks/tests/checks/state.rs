//! The state of the processor as a guest knows it, and as a tool has got it.

use std::path::Path;

use unspool_guests::Ending;

/// The lines of the guest that are not among the tool's, of which each counts once.
fn missing<'a>(said: &[&'a str], seen: &[&str]) -> Vec<&'a str> {
    let count = |lines: &[&str], wanted: &str| {
        let same = lines.iter().filter(|line| **line == wanted);
        same.count()
    };
    let mut missing: Vec<_> = said
        .iter()
        .copied()
        .filter(|line| count(said, line) > count(seen, line))
        .collect();
    missing.sort_unstable();
    missing
}

#[test]
fn state_is_what_the_program_has() {
    as_told("instructions/state_told", "words", 24);
}

#[test]
fn vectors_are_what_the_program_has() {
    as_told("instructions/vectors_told", "vectors", 6);
}

/// Without AVX-512 it is left out, and the guest above has zeros instead.
#[test]
fn registers_of_avx512_are_what_the_program_has() {
    as_told("instructions/vectors_512_told", "vectors", 3);
}

/// What a guest tells in so many lines is what the tool has got.
fn as_told(guest: &str, what: &str, lines: usize) {
    let Some((_, program)) = super::build(guest) else {
        return;
    };
    for way in ["appended", "called"] {
        let test = format!("{}-{way}", guest.replace('/', "-"));
        let file = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("{test}.told"));
        let name = file.to_str().expect("a name");
        let observed = super::under(&["state", name, way, what], &program, &[], &test);
        let text = observed.stderr_text();
        assert_eq!(observed.ending, Ending::Exited(0), "{way}: {text}");
        let output = observed.stdout_text();
        let told = std::fs::read_to_string(&file).expect("the tool's file");
        std::fs::remove_file(&file).expect("the tool's file");
        let said: Vec<_> = output.lines().collect();
        let seen: Vec<_> = told.lines().collect();
        assert_eq!(said.len(), lines);
        let missing_lines = missing(&said, &seen);
        assert!(
            missing_lines.is_empty(),
            "{way}:\n{}",
            missing_lines.join("\n")
        );
        // The control: one that the guest has not said.
        let other = format!("{}1", said[0]);
        assert_eq!(missing(&[&other], &seen), [other.as_str()]);
    }
}
