//! The layers of the engine and of the crates below it: the modules of each crate use each other
//! without a circle. Between crates the compiler sees to that.
//!
//! What counts is the module below the crate's root in which something lies: those inside it are
//! its own business. Tests may use what they like.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use syn::UseTree;
use syn::visit::{self, Visit};

/// The crates that are looked at.
const CRATES: [&str; 9] = [
    "instructions",
    "unwind",
    "kernel",
    "container",
    "loader",
    "code-cache",
    "engine",
    "debuggee",
    "debugger",
];

/// Which modules use which.
type Graph = BTreeMap<String, BTreeSet<String>>;

/// The sources of a crate: the path of each module from the root on, and its text.
type Sources = Vec<(Vec<String>, String)>;

/// The paths that lead to somewhere in the crate.
#[derive(Default)]
struct Paths {
    /// The module in which the visitor is.
    module: Vec<String>,
    /// Those that are found, from the root on.
    found: Vec<Vec<String>>,
}

impl Paths {
    fn add(&mut self, segments: &[String]) {
        let Some((first, rest)) = segments.split_first() else {
            return;
        };
        let mut base = match &**first {
            "crate" => Vec::new(),
            "self" => self.module.clone(),
            "super" => self.module[..self.module.len().saturating_sub(1)].to_vec(),
            _ => return,
        };
        let supers = rest.iter().take_while(|it| *it == "super").count();
        base.truncate(base.len().saturating_sub(supers));
        base.extend_from_slice(&rest[supers..]);
        self.found.push(base);
    }
}

/// Calls `each` with all paths of an import, and the names under which they are known.
fn leaves(before: &[String], tree: &UseTree, each: &mut impl FnMut(&[String], String)) {
    let with = |name: &syn::Ident| [before, &[name.to_string()]].concat();
    match tree {
        UseTree::Path(path) => leaves(&with(&path.ident), &path.tree, each),
        UseTree::Name(name) => each(&with(&name.ident), name.ident.to_string()),
        UseTree::Rename(name) => each(&with(&name.ident), name.rename.to_string()),
        UseTree::Glob(_) => each(before, "*".to_owned()),
        UseTree::Group(group) => {
            for tree in &group.items {
                leaves(before, tree, each);
            }
        }
    }
}

fn is_for_tests(attributes: &[syn::Attribute]) -> bool {
    attributes.iter().any(|attribute| {
        let condition = attribute.parse_args::<syn::Ident>();
        attribute.path().is_ident("cfg") && condition.is_ok_and(|it| it == "test")
    })
}

impl Visit<'_> for Paths {
    fn visit_item_mod(&mut self, item: &syn::ItemMod) {
        if !is_for_tests(&item.attrs) {
            self.module.push(item.ident.to_string());
            visit::visit_item_mod(self, item);
            self.module.pop();
        }
    }

    fn visit_item_use(&mut self, item: &syn::ItemUse) {
        leaves(&[], &item.tree, &mut |path, _| self.add(path));
    }

    fn visit_path(&mut self, path: &syn::Path) {
        let segments = path.segments.iter().map(|it| it.ident.to_string());
        self.add(&segments.collect::<Vec<_>>());
        visit::visit_path(self, path);
    }
}

fn parse(text: &str) -> syn::File {
    syn::parse_file(text).expect("the sources are Rust")
}

/// What the root makes known under names of its own, and in which module it is.
fn known_at_the_root(sources: &Sources) -> BTreeMap<String, String> {
    let mut known = BTreeMap::new();
    let roots = sources.iter().filter(|(module, _)| module.is_empty());
    for item in roots.flat_map(|(_, text)| parse(text).items) {
        if let syn::Item::Use(item) = item {
            leaves(&[], &item.tree, &mut |path, name| {
                let place = path.iter().find(|it| !matches!(&***it, "crate" | "self"));
                if let Some(place) = place.filter(|it| **it != name) {
                    known.insert(name, place.clone());
                }
            });
        }
    }
    known
}

fn graph(sources: &Sources) -> Graph {
    let modules: BTreeSet<&String> = sources.iter().filter_map(|(it, _)| it.first()).collect();
    let known = known_at_the_root(sources);
    let mut graph = Graph::new();
    for (module, text) in sources {
        let Some(own) = module.first() else { continue };
        let mut paths = Paths {
            module: module.clone(),
            ..Paths::default()
        };
        paths.visit_file(&parse(text));
        let used = graph.entry(own.clone()).or_default();
        for mut name in paths.found.iter().filter_map(|path| path.first()) {
            // It may be known at the root by way of another name there.
            while let Some(place) = known.get(name).filter(|_| !modules.contains(name)) {
                name = place;
            }
            if modules.contains(name) && name != own {
                used.insert(name.clone());
            }
        }
    }
    graph
}

/// The modules in circles, and what lies between them: what is left when those are taken away, one
/// after the other, that use nothing of it or are used by nothing of it.
fn circles(graph: &Graph) -> BTreeSet<String> {
    let mut left: BTreeSet<String> = graph.keys().cloned().collect();
    loop {
        let is_end = |module: &String| {
            !left.iter().any(|other| graph[module].contains(other))
                || !left.iter().any(|other| graph[other].contains(module))
        };
        let rest: BTreeSet<_> = left.iter().filter(|it| !is_end(it)).cloned().collect();
        if rest.len() == left.len() {
            return left;
        }
        left = rest;
    }
}

fn read(folder: &Path, module: &[String], sources: &mut Sources) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_stem().unwrap().to_str().unwrap().to_owned();
        if name == "tests" {
            continue;
        }
        let inside = [module, std::slice::from_ref(&name)].concat();
        if path.is_dir() {
            read(&path, &inside, sources);
        } else {
            let is_root = module.is_empty() && name == "lib";
            let inside = if is_root { Vec::new() } else { inside };
            sources.push((inside, fs::read_to_string(&path).unwrap()));
        }
    }
}

#[test]
fn modules_use_each_other_without_a_circle() {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    for name in CRATES {
        let mut sources = Sources::new();
        read(&crates.join(name).join("src"), &[], &mut sources);
        assert!(sources.len() > 3, "{name}: only {} files", sources.len());
        let mut graph = graph(&sources);
        let circles = circles(&graph);
        graph.retain(|module, _| circles.contains(module));
        for used in graph.values_mut() {
            used.retain(|module| circles.contains(module));
        }
        assert!(graph.is_empty(), "{name}: {graph:#?}");
    }
}

/// The modules of a crate of these texts that are in circles.
fn circles_of(texts: &[(&str, &str)]) -> Vec<String> {
    let sources = texts.iter().map(|(module, text)| {
        let path = module.split("::").filter(|it| !it.is_empty());
        (path.map(str::to_owned).collect(), (*text).to_owned())
    });
    circles(&graph(&sources.collect())).into_iter().collect()
}

#[test]
fn a_circle_is_found_however_it_is_written() {
    let ways_back = [
        "use crate::upper::something;",
        "use crate::{lowest, upper::{self, something}};",
        "fn inside() { crate::upper::something(); }",
        "fn inside() { super::upper::something(); }",
        "type Known = super::Something;",
        "mod part { use super::super::upper; }",
    ];
    for way_back in ways_back {
        let root = "mod upper; mod lower; mod lowest; pub use upper::Something;";
        let texts = [
            ("", root),
            ("upper", "use crate::lower; use crate::lowest;"),
            ("lower", way_back),
            ("lowest", ""),
        ];
        assert_eq!(circles_of(&texts), ["lower", "upper"], "{way_back}");
    }
}

#[test]
fn what_goes_down_or_is_for_tests_is_no_circle() {
    let lower = "//! See [`crate::upper`].\n#[cfg(test)]\nmod tests { use crate::upper; }";
    let texts = [
        ("", "mod upper; mod lower;"),
        ("upper", "use crate::lower;"),
        (
            "upper::inside",
            "use super::Upper; use crate::upper::other;",
        ),
        ("lower", lower),
    ];
    assert_eq!(circles_of(&texts), [""; 0]);
}
