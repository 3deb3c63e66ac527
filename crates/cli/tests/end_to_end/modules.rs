//! A trace tells when libraries are mapped and when they are gone, so that an address belongs to
//! one module at a time.

use std::collections::BTreeMap;

use libtest_mimic::Trial;
use serde_json::Value;

use crate::observer::{Verdict, exported_in_order, run_well, traced, trial};
use crate::order::guest_command;
use crate::scratch::Scratch;

pub(crate) fn trials() -> Vec<Trial> {
    ["line-atomic", "ticket"]
        .map(|order| {
            trial(format!("modules::{order}"), move |scratch| {
                come_and_go(scratch, order)
            })
        })
        .into()
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
        let is_plugin = module["path"]
            .as_str()
            .is_some_and(|path| path.ends_with("plugin.so"));
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
    let range = |module: &Value| {
        let base = module["base"]
            .as_str()
            .unwrap_or_default()
            .trim_start_matches("0x");
        let base = u64::from_str_radix(base, 16).unwrap_or_default();
        base..base + module["size"].as_u64().unwrap_or_default()
    };
    let (one, other) = (range(one), range(other));
    one.start < other.end && other.start < one.end
}

fn come_and_go(scratch: &Scratch, order: &str) -> Result<(), Verdict> {
    const TIMES: u32 = 100;
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
