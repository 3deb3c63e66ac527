//! Where something is in the program.

use serde::{Deserialize, Serialize};

/// Where something is in the program.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Location {
    /// The source file.
    pub file: Option<String>,
    /// The line in the source file, from 1.
    pub line: Option<u32>,
    /// The function.
    pub function: Option<String>,
    /// The program file.
    pub module: String,
    /// The address in the program file.
    pub offset: u64,
}

impl Location {
    /// `file:line`, with the file's own name, or what else is known: without a line, the function
    /// and the address, because a function has several places.
    #[must_use]
    pub fn short(&self) -> String {
        let name = |path: &str| path.rsplit('/').next().unwrap_or(path).to_owned();
        match (&self.file, self.line, &self.function) {
            (Some(file), Some(line), _) => format!("{}:{line}", name(file)),
            (Some(file), None, _) => name(file),
            (None, _, Some(function)) => {
                let function = shortened(function);
                format!("{function} ({}+{:#x})", name(&self.module), self.offset)
            }
            _ if self.module.is_empty() => "unknown place".to_owned(),
            _ => format!("{}+{:#x}", name(&self.module), self.offset),
        }
    }

    /// The function, as far as it fits into a line.
    #[must_use]
    pub fn short_function(&self) -> Option<String> {
        self.function.as_deref().map(shortened)
    }
}

/// A function's name takes no more characters in a line.
const LONGEST_NAME: usize = 60;

/// A function's name as it fits into a line: if it is too long, without its arguments' types, then
/// without those of its templates, and if that is still too long, its end. The whole name is in
/// JSON.
fn shortened(name: &str) -> String {
    let is_long = |name: &str| name.chars().count() > LONGEST_NAME;
    let mut short = name.to_owned();
    for brackets in [('(', ')'), ('<', '>')] {
        if is_long(&short) {
            short = without_content(&short, brackets);
        }
    }
    if is_long(&short) {
        let characters = short.chars().count();
        let end: String = short.chars().skip(characters - LONGEST_NAME + 1).collect();
        short = format!("\u{2026}{end}");
    }
    short
}

/// A text with nothing but an ellipsis between each outermost pair of brackets. Where they do not
/// match, as in `operator<<`, it stays as it is.
fn without_content(text: &str, (open, close): (char, char)) -> String {
    let mut rest = String::new();
    let mut depth = 0_usize;
    for letter in text.chars() {
        if letter == open {
            depth += 1;
            if depth == 1 {
                rest.push(open);
                rest.push('\u{2026}');
            }
        } else if letter == close {
            let Some(outer) = depth.checked_sub(1) else {
                return text.to_owned();
            };
            depth = outer;
        }
        let is_outside = depth == 0;
        if is_outside {
            rest.push(letter);
        }
    }
    match depth {
        0 => rest,
        _ => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_names_lose_types_first() {
        let arguments = "std::vector<double, std::allocator<double> > const&, unsigned long";
        let name = format!("void Solver<{arguments}>::run<float>({arguments})");
        assert_eq!(
            shortened(&name),
            "void Solver<\u{2026}>::run<\u{2026}>(\u{2026})"
        );
        let name = format!("integrate({arguments})");
        assert_eq!(shortened(&name), "integrate(\u{2026})");
        // The controls: what is short stays whole, and brackets that are none.
        assert_eq!(shortened("a<b>(int)"), "a<b>(int)");
        let name = format!("operator<<({})", "x".repeat(60));
        assert_eq!(shortened(&name), "operator<<(\u{2026})");
        let endless = "x".repeat(500) + "end";
        let short = shortened(&endless);
        assert!(
            short.chars().count() == 60 && short.ends_with("xend"),
            "{short}"
        );
    }

    #[test]
    fn places_without_lines_are_told_apart() {
        let at = |offset| Location {
            function: Some("MAIN__".to_owned()),
            module: "/tmp/heat".to_owned(),
            offset,
            ..Location::default()
        };
        assert_eq!(at(0x1234).short(), "MAIN__ (heat+0x1234)");
        assert_ne!(at(0x1234).short(), at(0x1240).short());
    }
}
