//! Code that a process has made itself, as far as samples were found in it.

use std::time::SystemTime;

use rustc_hash::FxHashSet;

use crate::perf_map::{Function, PerfMap};

/// The code of one process.
#[derive(Debug)]
pub(crate) struct GeneratedCode {
    pid: u32,
    map: PerfMap,
    /// Addresses of frames, by whether a function has been told of them.
    unnamed: FxHashSet<u64>,
    named: FxHashSet<u64>,
    told: FxHashSet<u64>,
}

impl GeneratedCode {
    /// Of a process.
    pub(crate) fn of(pid: u32) -> GeneratedCode {
        GeneratedCode {
            pid,
            map: PerfMap::default(),
            unnamed: FxHashSet::default(),
            named: FxHashSet::default(),
            told: FxHashSet::default(),
        }
    }

    /// A frame was found at an address.
    pub(crate) fn found(&mut self, address: u64) {
        if !self.named.contains(&address) {
            self.unnamed.insert(address);
        }
    }

    /// Functions in which frames were found, as far as they are not told yet.
    pub(crate) fn new_functions(&mut self, since: SystemTime) -> Vec<Function> {
        let mut new = Vec::new();
        if self.unnamed.is_empty() {
            return new;
        }
        self.map.read(self.pid, since);
        let (map, named, told) = (&self.map, &mut self.named, &mut self.told);
        self.unnamed.retain(|address| {
            let Some(function) = map.at(*address) else {
                return true;
            };
            named.insert(*address);
            if told.insert(function.start) {
                new.push(function.clone());
            }
            false
        });
        new
    }
}
