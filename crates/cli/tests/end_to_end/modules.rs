//! A trace tells when libraries are mapped and when they are gone, so that an address belongs to
//! one module at a time.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::path::Path;

use libtest_mimic::Trial;
use serde_json::Value;

use crate::observer::{Verdict, exported_in_order, run_well, traced, trial, unspool};
use crate::order::guest_command;
use crate::scratch::Scratch;

pub(crate) fn trials() -> Vec<Trial> {
    let mut trials: Vec<_> = ["line-atomic", "ticket"]
        .map(|order| {
            trial(format!("modules::{order}"), move |scratch| {
                come_and_go(scratch, order)
            })
        })
        .into();
    trials.push(trial("modules::beside_csv".to_owned(), resolve_csv));
    trials.push(trial("modules::shown_late".to_owned(), show_late));
    trials
}

/// Which modules are mapped, as the events so far tell.
#[derive(Debug, Default)]
struct Loaded {
    by_number: BTreeMap<u64, Value>,
    is_loaded: BTreeMap<u64, bool>,
    /// How often a plugin came and went.
    plugins: (u32, u32),
}

impl Loaded {
    fn event(&mut self, kind: &str, number: u64) -> Result<(), String> {
        let module = self
            .by_number
            .get(&number)
            .ok_or("a module without a definition")?;
        let is_plugin = is_plugin(module);
        if kind == "module_unload" {
            self.plugins.1 += u32::from(is_plugin);
            return match self.is_loaded.insert(number, false) {
                Some(true) => Ok(()),
                _ => Err(format!("{module} is unloaded, but was not loaded")),
            };
        }
        self.plugins.0 += u32::from(is_plugin);
        let loaded = self.is_loaded.iter().filter(|&(_, &is_loaded)| is_loaded);
        for (other, _) in loaded {
            if overlap(module, &self.by_number[other]) {
                return Err(format!("{module} is loaded over {}", self.by_number[other]));
            }
        }
        match self.is_loaded.insert(number, true) {
            None => Ok(()),
            Some(_) => Err(format!("{module} is loaded a second time")),
        }
    }
}

fn overlap(one: &Value, other: &Value) -> bool {
    let (one, other) = (addresses(one), addresses(other));
    one.start < other.end && other.start < one.end
}

fn addresses(module: &Value) -> Range<u64> {
    let base = module["base"].as_str().unwrap_or_default();
    let base = number_of(base).unwrap_or_default();
    base..base + module["size"].as_u64().unwrap_or_default()
}

fn number_of(text: &str) -> Option<u64> {
    match text.strip_prefix("0x") {
        Some(digits) => u64::from_str_radix(digits, 16).ok(),
        None => text.parse().ok(),
    }
}

/// How often the guest loads its plugin.
const TIMES: u32 = 100;

fn come_and_go(scratch: &Scratch, order: &str) -> Result<(), Verdict> {
    let command = guest_command("memory/libraries_in_a_loop", &[])?;
    let file = scratch.path().join("modules.unspool");
    run_well(
        scratch,
        &traced(scratch, &["--order", order], &file, &command),
    )?;
    let mut loaded = Loaded::default();
    for item in exported_in_order(scratch, &file)? {
        for module in item["modules"].as_array().into_iter().flatten() {
            let number = module["module"].as_u64().unwrap_or(u64::MAX);
            loaded.by_number.insert(number, module.clone());
        }
        if let (Some(kind @ ("module_load" | "module_unload")), Some(number)) =
            (item["kind"].as_str(), item["module"].as_u64())
        {
            loaded.event(kind, number).map_err(Verdict::Wrong)?;
        }
    }
    if loaded.plugins != (TIMES, TIMES) {
        return Err(Verdict::Wrong(format!(
            "the plugin came and went {:?} times",
            loaded.plugins
        )));
    }
    let never: Vec<_> = loaded
        .by_number
        .keys()
        .filter(|number| !loaded.is_loaded.contains_key(number))
        .collect();
    match never.is_empty() {
        true => Ok(()),
        false => Err(Verdict::Wrong(format!("never loaded: {never:?}"))),
    }
}

/// By the file beside a CSV alone, each instruction belongs to at most one module at its time, and
/// each time that the plugin was loaded to another one, though all were in the same place.
fn resolve_csv(scratch: &Scratch) -> Result<(), Verdict> {
    let command = guest_command("memory/libraries_in_a_loop", &[])?;
    let file = scratch.path().join("modules.unspool");
    let lines = scratch.path().join("modules.csv");
    run_well(scratch, &traced(scratch, &[], &file, &command))?;
    let export = unspool(scratch, &["export", "--format", "csv", "-o"]);
    run_well(scratch, &export.arguments([&lines, &file]))?;
    let read = |path: &Path| {
        std::fs::read_to_string(path)
            .map_err(|error| Verdict::Wrong(format!("{}: {error}", path.display())))
    };
    let description = read(&scratch.path().join("modules.csv.trace.json"))?;
    let description: Value = serde_json::from_str(&description)
        .map_err(|error| Verdict::Wrong(format!("{error}: {description}")))?;
    let end = &description["end"];
    if (&end["how"], &end["status"]) != (&"exit".into(), &0.into()) {
        return Err(Verdict::Wrong(format!("the program ended so: {end}")));
    }
    let modules = description["modules"].as_array();
    let modules = modules.map_or(&[][..], |modules| modules);
    let seen = modules_of_accesses(modules, &read(&lines)?)?;
    let plugins = seen.iter().filter(|&&index| is_plugin(&modules[index]));
    match plugins.count() == TIMES as usize {
        true => Ok(()),
        false => Err(Verdict::Wrong(format!("code ran in modules {seen:?}"))),
    }
}

fn is_plugin(module: &Value) -> bool {
    let path = module["path"].as_str();
    path.is_some_and(|path| path.ends_with("plugin.so"))
}

/// Which modules have code that made an access.
fn modules_of_accesses(modules: &[Value], lines: &str) -> Result<BTreeSet<usize>, Verdict> {
    let mapped: Vec<_> = modules
        .iter()
        .map(|module| {
            let loaded = module["loaded"].as_u64().unwrap_or_default();
            let unloaded = module["unloaded"].as_u64().unwrap_or(u64::MAX);
            (addresses(module), loaded..unloaded)
        })
        .collect();
    let mut seen = BTreeSet::new();
    for line in lines.lines() {
        let fields: Vec<&str> = line.split(',').collect();
        let &[time, _, "read" | "write", pc, ..] = &fields[..] else {
            continue;
        };
        let (Ok(time), Some(pc)) = (time.parse::<u64>(), number_of(pc)) else {
            return Err(Verdict::Wrong(format!("no access: {line}")));
        };
        let holds = |(addresses, times): &(Range<u64>, Range<u64>)| {
            addresses.contains(&pc) && times.contains(&time)
        };
        let found: Vec<_> = (0..mapped.len()).filter(|&at| holds(&mapped[at])).collect();
        if found.len() > 1 {
            return Err(Verdict::Wrong(format!("of modules {found:?}: {line}")));
        }
        seen.extend(found);
    }
    Ok(seen)
}

/// The end of a trace is shown as it is within the whole, though what it tells of modules that
/// were loaded before is not in it.
fn show_late(scratch: &Scratch) -> Result<(), Verdict> {
    let command = guest_command("memory/libraries_in_a_loop", &[])?;
    let file = scratch.path().join("modules.unspool");
    run_well(scratch, &traced(scratch, &[], &file, &command))?;
    let show = |from: &str| -> Result<Vec<String>, Verdict> {
        let show = unspool(scratch, &["show", "--from", from]).arguments([&file]);
        let text = run_well(scratch, &show)?.stdout_text();
        let lines = text.lines().filter(|line| !line.starts_with('#'));
        Ok(lines.map(str::to_owned).collect())
    };
    let whole = show("0")?;
    let is_of_plugin = |line: &&String| line.contains("(plugin.so)");
    let all: Vec<_> = whole.iter().filter(is_of_plugin).collect();
    let middle = all
        .get(all.len() / 2)
        .ok_or("the plugin is not shown".to_owned())?;
    let from = middle.split(' ').next().unwrap_or_default();
    let late = show(from)?;
    let starts = whole.iter().position(|line| line.starts_with(from));
    match starts.is_some_and(|start| whole[start..] == late) {
        true => Ok(()),
        false => Err(Verdict::Wrong(format!("another listing from {from} on"))),
    }
}
