//! Which parts of a crate use which, by its sources.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use syn::UseTree;
use syn::visit::{self, Visit};

/// Which parts use which.
pub(crate) type Graph = BTreeMap<String, BTreeSet<String>>;

/// The sources of a crate: the path of each module from the root on, and its text.
pub(crate) type Sources = Vec<(Vec<String>, String)>;

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

/// What a module makes known under names of its own, and in which of its parts that is.
fn known_in(whole: &[String], sources: &Sources) -> BTreeMap<String, String> {
    let mut known = BTreeMap::new();
    let files = sources.iter().filter(|(module, _)| module == whole);
    for item in files.flat_map(|(_, text)| parse(text).items) {
        if let syn::Item::Use(item) = item {
            leaves(&[], &item.tree, &mut |path, name| {
                let is_here = |it: &&String| !matches!(&***it, "crate" | "self");
                let place = match path.first().map(String::as_str) {
                    Some("crate") => path.get(1 + whole.len()),
                    _ => path.iter().find(is_here),
                };
                if let Some(place) = place.filter(|it| **it != name) {
                    known.insert(name, place.clone());
                }
            });
        }
    }
    known
}

/// Which parts of a module use which. What its own file holds is none of them.
pub(crate) fn graph(whole: &[String], sources: &Sources) -> Graph {
    let part = |module: &[String]| module.strip_prefix(whole)?.first().cloned();
    let parts: BTreeSet<String> = sources.iter().filter_map(|(it, _)| part(it)).collect();
    let known = known_in(whole, sources);
    let mut graph = Graph::new();
    for (module, text) in sources {
        let Some(own) = part(module) else { continue };
        let mut paths = Paths {
            module: module.clone(),
            ..Paths::default()
        };
        paths.visit_file(&parse(text));
        let used = graph.entry(own.clone()).or_default();
        for mut name in paths.found.iter().filter_map(|path| part(path)) {
            // It may be known there by way of another name.
            while let Some(place) = known.get(&name).filter(|_| !parts.contains(&name)) {
                name.clone_from(place);
            }
            if parts.contains(&name) && name != own {
                used.insert(name);
            }
        }
    }
    graph
}

/// The modules that have parts.
pub(crate) fn wholes(sources: &Sources) -> BTreeSet<Vec<String>> {
    let above = |module: &Vec<String>| module.split_last().map(|(_, above)| above.to_vec());
    sources.iter().filter_map(|(it, _)| above(it)).collect()
}

/// The parts in circles, and what lies between them: what is left when those are taken away, one
/// after the other, that use nothing of it or are used by nothing of it.
pub(crate) fn circles(graph: &Graph) -> BTreeSet<String> {
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

/// The sources of a crate in a folder.
pub(crate) fn sources(folder: &Path) -> Sources {
    let mut sources = Sources::new();
    read(folder, &[], &mut sources);
    sources
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
        } else if path.extension().is_some_and(|it| it == "rs") {
            let is_root = module.is_empty() && matches!(&*name, "lib" | "main");
            let inside = if is_root { Vec::new() } else { inside };
            sources.push((inside, fs::read_to_string(&path).unwrap()));
        }
    }
}
