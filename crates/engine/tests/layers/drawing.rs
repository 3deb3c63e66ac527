//! The layers as ARCHITECTURE.md draws them: a block of text below the heading of a crate, or of the
//! code map for the crates themselves. Each line is a layer: names, two spaces between them, then
//! what they are for. Each uses what is on its own line or below.

use std::collections::{BTreeMap, BTreeSet};

use crate::imports::Graph;

/// In which line each name is drawn.
pub(crate) type Layers = BTreeMap<String, usize>;

/// The block that is drawn first below a heading, as far as its words are `names`.
pub(crate) fn layers(text: &str, heading: &str, names: &BTreeSet<String>) -> Option<Layers> {
    let mut lines = text.lines().skip_while(|line| *line != heading).skip(1);
    let section = lines.by_ref().take_while(|line| !line.starts_with("###"));
    let block = section.skip_while(|line| *line != "```text").skip(1);
    let block: Vec<&str> = block.take_while(|line| *line != "```").collect();
    let mut layers = Layers::new();
    for (number, line) in block.iter().enumerate() {
        let words = line.split("  ").map(str::trim);
        for name in words.filter(|word| names.contains(*word)) {
            let before = layers.insert(name.to_owned(), number);
            assert!(before.is_none(), "{heading}: {name} is drawn twice");
        }
    }
    (!block.is_empty()).then_some(layers)
}

/// What uses something that is drawn above it, or is not drawn itself.
pub(crate) fn against(layers: &Layers, graph: &Graph) -> Vec<String> {
    let mut found = Vec::new();
    for (user, used) in graph {
        let Some(layer) = layers.get(user) else {
            found.push(format!("{user} is not drawn"));
            continue;
        };
        let above = used.iter().filter(|it| layers.get(*it) < Some(layer));
        found.extend(above.map(|it| format!("{user} uses {it}, which is above it")));
    }
    found
}
