//! Collapsed stacks, as programs that draw flame graphs read them.

use std::fmt::Write;

use crate::profile::Profile;

impl Profile {
    /// One line for each call path: its functions, outermost first, with semicolons between them,
    /// and the CPU time at its end in microseconds.
    #[must_use]
    pub fn to_folded(&self) -> String {
        let mut text = String::new();
        for (place, node) in self.tree.nodes().iter().enumerate() {
            if node.self_ns == 0 {
                continue;
            }
            let path: Vec<&str> = self
                .tree
                .path(place)
                .map(|node| self.functions[node.function.0].name.as_str())
                .collect();
            let names: Vec<String> = path
                .iter()
                .rev()
                .map(|name| name.replace(';', ":"))
                .collect();
            // Writing to a string cannot fail.
            let _ = writeln!(text, "{} {}", names.join(";"), node.self_ns / 1000);
        }
        text
    }
}
