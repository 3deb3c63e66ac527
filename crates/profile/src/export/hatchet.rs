//! The calling context tree for Hatchet, a library of Python for the analysis of such trees:
//! `GraphFrame.from_literal` takes it.
//!
//! Source of the format: the documentation of Hatchet, "Reading in a Dataset".

use serde_json::{Value, json};

use crate::profile::Profile;

/// The tree as a list of nested nodes: each has the name of its function, its file, the seconds in it
/// (`time`), with those in what it called (`time (inc)`), and its `children`. Of an event, there are numbers of
/// it under its name.
#[must_use]
pub fn hatchet(profile: &Profile) -> Value {
    let nodes = profile.tree.nodes();
    let name = profile.unit.event().unwrap_or("time");
    let mut built: Vec<Vec<Value>> = vec![Vec::new(); nodes.len()];
    let mut outermost = Vec::new();
    // Callers come before those they call.
    for (place, node) in nodes.iter().enumerate().rev() {
        let function = &profile.functions[node.function.0];
        let mut children = std::mem::take(&mut built[place]);
        children.reverse();
        let mut one = json!({
            "frame": {"name": function.name, "type": "function", "module": function.image},
            "metrics": {
                (name): profile.unit.number(node.self_weight as f64),
                (format!("{name} (inc)")): profile.unit.number(node.total_weight as f64),
            },
        });
        if !children.is_empty() {
            one["children"] = children.into();
        }
        match node.parent {
            Some(parent) => built[parent].push(one),
            None => outermost.push(one),
        }
    }
    outermost.reverse();
    outermost.into()
}
