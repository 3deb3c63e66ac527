//! What a guest does, and what a tool is told of it.

use unspool_guests::Ending;

/// What is said in lines that begin with one of these words.
fn lines<'a>(text: &'a str, words: &[&str]) -> Vec<&'a str> {
    let begins = |line: &&str| words.iter().any(|word| line.starts_with(word));
    text.lines().filter(begins).collect()
}

/// A number behind a word of a line.
fn behind<'a>(line: &'a str, word: &str) -> &'a str {
    let mut words = line.split(' ').skip_while(|it| *it != word);
    words
        .nth(1)
        .unwrap_or_else(|| panic!("no {word} in: {line}"))
}

/// What the guest said and what the tool was told.
fn observe(tool: &[&str], test: &str) -> Option<(String, String)> {
    let (_, program) = super::build("annotated/told")?;
    let observed = super::under(tool, &program, &[], test);
    assert_eq!(
        observed.ending,
        Ending::Exited(0),
        "{}",
        observed.stderr_text()
    );
    Some((observed.stdout_text(), observed.stderr_text()))
}

const SAID: [&str; 4] = ["mapping", "kernel", "annotated", "region"];

#[test]
fn mappings_calls_and_annotations_are_told() {
    if let Some((said, told)) = observe(&["told"], "told") {
        assert_eq!(lines(&said, &SAID), lines(&told, &SAID));
        threads(&said, &told);
    }
    // The control.
    if let Some((said, told)) = observe(&["told", "spoilt"], "told-spoilt") {
        assert_ne!(lines(&said, &["mapping"]), lines(&told, &["mapping"]));
        assert_ne!(lines(&said, &["kernel"]), lines(&told, &["kernel"]));
    }
}

/// Each thread is known by its kernel id: its number, parent, `pthread_t`, stack and name.
fn threads(said: &str, told: &str) {
    let threads = lines(said, &["thread"]);
    assert_eq!(threads.len(), 3, "{said}");
    // The second thread speaks first, the main thread last.
    for (line, number, parent) in [(0, "2", "1"), (1, "1", "0"), (2, "0", "none")] {
        let line = threads[line];
        let id = behind(line, "id");
        let find = |word| {
            let lines = lines(told, &[word]);
            let mut found = lines.into_iter().filter(|it| behind(it, "id") == id);
            found
                .next()
                .unwrap_or_else(|| panic!("no {word} of {id}: {told}"))
        };
        let (start, end) = (find("start"), find("end"));
        assert_eq!(behind(start, "start"), number, "{start}");
        assert_eq!(behind(start, "by"), parent, "{start}");
        assert_eq!(behind(end, "end"), number, "{end}");
        assert_eq!(behind(end, "at"), behind(line, "at"), "{end}");
        let name = line.split_once(" name ").map(|(_, name)| name);
        assert_eq!(
            end.split_once(" name ").map(|(_, name)| name),
            name,
            "{end}"
        );
        if number == "0" {
            continue;
        }
        assert_eq!(behind(start, "at"), behind(line, "at"), "{start}");
        let hexadecimal = |text| u64::from_str_radix(text, 16).expect("an address");
        let local = hexadecimal(behind(line, "stack"));
        let mut bounds = start.split(' ').skip_while(|it| *it != "stack").skip(1);
        let stack = hexadecimal(bounds.next().expect("a start"))
            ..hexadecimal(bounds.next().expect("an end"));
        assert!(stack.contains(&local), "{start}: {local:x}");
    }
}
