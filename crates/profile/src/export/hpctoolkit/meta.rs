//! `meta.db`: what was measured, the names, and the tree of contexts.

use super::Metric;
use super::contexts::{Contexts, Kind};
use super::layout::{Layout, Texts};
use super::values::Scope;
use crate::named_paths::NamedPaths;

/// Kinds of identifiers of threads, by their places in this list.
const KINDS: [&str; 4] = ["NODE", "RANK", "PROCESS", "THREAD"];
pub(super) const HOST: u8 = 0;
pub(super) const RANK: u8 = 1;
pub(super) const PROCESS: u8 = 2;
pub(super) const THREAD: u8 = 3;

/// Sections by their places in the header.
const GENERAL: usize = 0;
const KIND_NAMES: usize = 1;
const METRICS: usize = 2;
const CONTEXTS: usize = 3;
const TEXTS: usize = 4;
const MODULES: usize = 5;
const FILES: usize = 6;
const FUNCTIONS: usize = 7;

/// Where the names are that contexts refer to.
struct Places {
    modules: Vec<u64>,
    files: Vec<u64>,
    functions: Vec<u64>,
    /// The names of entries, by their numbers.
    entries: [u64; 3],
}

pub(super) fn file(
    paths: &NamedPaths<'_>,
    metrics: &[&Metric],
    contexts: &Contexts<'_>,
) -> Vec<u8> {
    let mut layout = Layout::new(b"meta", 8);
    write_general(&mut layout, paths);
    write_kinds(&mut layout);
    write_metrics(&mut layout, metrics);
    let places = write_names(&mut layout, contexts);
    write_contexts(&mut layout, contexts, &places);
    layout.finish(b"_meta.db")
}

fn write_general(layout: &mut Layout, paths: &NamedPaths<'_>) {
    let start = layout.room(16);
    let title = layout.text(&paths.command().join(" "));
    let version = env!("CARGO_PKG_VERSION");
    let description = layout.text(&format!("Sampled by Unspool {version}"));
    layout.put(start, title);
    layout.put(start + 8, description);
    layout.section(GENERAL, start);
}

fn write_kinds(layout: &mut Layout) {
    let start = layout.room(16);
    layout.put(start, start + 16);
    layout.put(start + 8, KINDS.len() as u64);
    let names = layout.room(8 * KINDS.len());
    for (place, name) in KINDS.iter().enumerate() {
        let text = layout.text(name);
        layout.put(names + 8 * place as u64, text);
    }
    layout.section(KIND_NAMES, start);
}

/// Each metric with each scope, and its sum over all threads.
fn write_metrics(layout: &mut Layout, metrics: &[&Metric]) {
    const METRIC: usize = 0x20;
    const INSTANCE: usize = 0x10;
    const SUMMARY: usize = 0x18;
    const SCOPE: usize = 0x10;
    /// The standard scopes, and one that goes from each context to the one that it is a part of.
    const TYPES: [u8; 3] = [1, 3, 2];
    let start = layout.room(0x20);
    let list = layout.room(METRIC * metrics.len());
    let scopes = layout.room(SCOPE * Scope::ALL.len());
    layout.put(start, list);
    let sizes = [METRIC, INSTANCE, SUMMARY].map(|size| size as u64);
    let sizes = sizes[0] << 32 | sizes[1] << 40 | sizes[2] << 48;
    layout.put(start + 8, metrics.len() as u64 | sizes);
    layout.put(start + 0x10, scopes);
    layout.put(start + 0x18, Scope::ALL.len() as u64 | (SCOPE as u64) << 16);
    for (place, (name, kind)) in ["point", "function", "execution"]
        .iter()
        .zip(TYPES)
        .enumerate()
    {
        let at = scopes + (place * SCOPE) as u64;
        let text = layout.text(name);
        layout.put(at, text);
        layout.put(at + 8, kind.into());
    }
    let formula = layout.text("$$");
    for (number, metric) in metrics.iter().enumerate() {
        let name = layout.text(&metric.name);
        layout.align(8);
        let count = Scope::ALL.len();
        let instances = layout.room(INSTANCE * count);
        let summaries = layout.room(SUMMARY * count);
        for (place, scope) in Scope::ALL.into_iter().enumerate() {
            let of_scope = scopes + (place * SCOPE) as u64;
            let identifier = u64::from(scope.of_metric(number));
            let instance = instances + (place * INSTANCE) as u64;
            layout.put(instance, of_scope);
            layout.put(instance + 8, identifier);
            let summary = summaries + (place * SUMMARY) as u64;
            layout.put(summary, of_scope);
            layout.put(summary + 8, formula);
            // A sum, and its number.
            layout.put(summary + 0x10, identifier << 16);
        }
        let at = list + (number * METRIC) as u64;
        layout.put(at, name);
        layout.put(at + 8, instances);
        layout.put(at + 0x10, summaries);
        layout.put(at + 0x18, count as u64 | (count as u64) << 16);
    }
    layout.section(METRICS, start);
}

/// Texts, modules, files and functions.
fn write_names(layout: &mut Layout, contexts: &Contexts<'_>) -> Places {
    use super::contexts::Entry;
    const FUNCTION: usize = 0x28;
    let mut texts = Texts::default();
    let start = layout.here();
    let entries = [Entry::Unknown, Entry::MainThread, Entry::ApplicationThread];
    let entries = entries.map(|entry| texts.place(layout, entry.name()));
    let mut of = |all: &mut dyn Iterator<Item = &str>| -> Vec<u64> {
        all.map(|text| texts.place(layout, text)).collect()
    };
    let modules = of(&mut contexts.modules.all.iter().map(String::as_str));
    let files = of(&mut contexts.files.all.iter().map(String::as_str));
    let names = of(&mut contexts.functions.all.iter().map(|it| it.name.as_str()));
    layout.section(TEXTS, start);
    let modules = write_paths(layout, MODULES, &modules);
    let files = write_paths(layout, FILES, &files);
    let start = layout.room(16);
    layout.put(start, start + 16);
    layout.put(start + 8, names.len() as u64 | (FUNCTION as u64) << 32);
    let mut functions = Vec::new();
    for (function, name) in contexts.functions.all.iter().zip(names) {
        let at = layout.room(FUNCTION);
        layout.put(at, name);
        if let Some((module, offset)) = function.entry {
            layout.put(at + 8, modules[module]);
            layout.put(at + 0x10, offset);
        }
        functions.push(at);
    }
    layout.section(FUNCTIONS, start);
    Places {
        modules,
        files,
        functions,
        entries,
    }
}

/// A list of files by their paths; gives the place of each.
fn write_paths(layout: &mut Layout, section: usize, paths: &[u64]) -> Vec<u64> {
    const FILE: usize = 0x10;
    let start = layout.room(16);
    layout.put(start, start + 16);
    layout.put(start + 8, paths.len() as u64 | (FILE as u64) << 32);
    let mut places = Vec::new();
    for path in paths {
        let at = layout.room(FILE);
        layout.put(at + 8, *path);
        places.push(at);
    }
    layout.section(section, start);
    places
}

fn write_contexts(layout: &mut Layout, contexts: &Contexts<'_>, places: &Places) {
    const ENTRY: usize = 0x20;
    let mut children: Vec<Vec<u32>> = vec![Vec::new(); contexts.len() + 1];
    let mut entries = Vec::new();
    for (number, context) in contexts.all() {
        match context.kind {
            Kind::Entry(_) => entries.push(number),
            _ => children[context.parent as usize].push(number),
        }
    }
    let start = layout.room(16);
    layout.put(start, start + 16);
    layout.put(start + 8, entries.len() as u64 | (ENTRY as u64) << 16);
    let list = layout.room(ENTRY * entries.len());
    // Where the size and the place of its children stand, for each context that has any.
    let mut waiting: Vec<(u32, u64)> = Vec::new();
    for (place, number) in entries.into_iter().enumerate() {
        let at = list + (place * ENTRY) as u64;
        let entry = match contexts.context(number).map(|context| context.kind) {
            Some(Kind::Entry(entry)) => entry,
            _ => continue,
        };
        layout.put(at + 0x10, u64::from(number) | (entry as u64) << 32);
        layout.put(at + 0x18, places.entries[entry as usize]);
        waiting.push((number, at));
    }
    while let Some((number, at)) = waiting.pop() {
        let own = &children[number as usize];
        if own.is_empty() {
            continue;
        }
        let first = layout.here();
        for child in own {
            let at = layout.here();
            if let Some(context) = contexts.context(*child) {
                write_context(layout, *child, context.kind, places);
            }
            waiting.push((*child, at));
        }
        layout.put(at, layout.here() - first);
        layout.put(at + 8, first);
    }
    layout.section(CONTEXTS, start);
}

fn write_context(layout: &mut Layout, number: u32, kind: Kind, places: &Places) {
    let (has, relation, lexical, words): (u8, u8, u8, Vec<u64>) = match kind {
        Kind::Function {
            function,
            is_inlined,
        } => (
            1,
            1 + u8::from(is_inlined),
            0,
            vec![places.functions[function]],
        ),
        Kind::Line { file, line } => (2, 0, 2, vec![places.files[file], line.into()]),
        Kind::Instruction { module, offset } => (4, 0, 3, vec![places.modules[module], offset]),
        // Entries are in a list of their own.
        Kind::Entry(_) => (0, 0, 0, Vec::new()),
    };
    layout.room(0x10);
    layout.u32(number);
    layout.u8(has);
    layout.u8(relation);
    layout.u8(lexical);
    layout.u8(u8::try_from(words.len()).unwrap_or(0));
    // The scope of a function takes in what is a part of it.
    layout.u16(u16::from(kind.is_within()));
    layout.align(8);
    words.into_iter().for_each(|word| layout.u64(word));
}
