//! Collapsed stacks, as programs that draw flame graphs read them.

use std::fmt::Write;

use crate::profile::Profile;
use crate::text::printable;

impl Profile {
    /// One line for each call path: its functions, outermost first, with semicolons between them,
    /// and the CPU time at its end in nanoseconds, which no path is too short for.
    #[must_use]
    pub fn to_folded(&self) -> String {
        let mut text = String::new();
        for (place, node) in self.tree.nodes().iter().enumerate() {
            if node.self_weight == 0 {
                continue;
            }
            let mut names: Vec<String> = self
                .tree
                .path(place)
                .map(|node| within_line(&self.functions[node.function.0].name))
                .collect();
            names.reverse();
            // Writing to a string cannot fail.
            let _ = writeln!(text, "{} {}", names.join(";"), node.self_weight);
        }
        text
    }
}

/// A name without what ends a function or a line there.
fn within_line(name: &str) -> String {
    let character = |character: char| match character {
        ';' => ':',
        other => other,
    };
    printable(name).chars().map(character).collect()
}

#[cfg(test)]
mod tests {
    use crate::named_paths::NamedPaths;
    use crate::profile::Profile;
    use crate::recordings::of_paths;

    /// A function that nobody names is told by its file, which may have any name.
    #[test]
    fn any_name_is_one_of_a_line_and_no_time_is_nothing() {
        let recording = of_paths(&[(&["a;b\nc"], 3), (&["a;b\nc", "d"], 999)]);
        let text = Profile::new(&NamedPaths::new(&recording)).to_folded();
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines, ["a:b c+0x10 3", "a:b c+0x10;d+0x10 999"]);
    }
}
