//! A module, and when it was mapped.

use unspool_events::{Event, Mapping, Module};

/// A module, and when it was mapped.
#[derive(Debug, Clone)]
pub(crate) struct PlacedModule {
    pub(crate) module: Module,
    /// Not known where the event is missing: it is there from the start.
    pub(crate) loaded: Option<u64>,
    /// Not known where it was there to the end.
    pub(crate) unloaded: Option<u64>,
}

impl PlacedModule {
    pub(crate) fn new(module: &Module) -> PlacedModule {
        PlacedModule {
            module: module.clone(),
            loaded: None,
            unloaded: None,
        }
    }

    /// Learns from an event of this module's when it came or went.
    pub(crate) fn event(&mut self, time: u64, event: &Event) {
        match event {
            Event::Mapping(Mapping::ModuleLoad { .. }) => _ = self.loaded.get_or_insert(time),
            Event::Mapping(Mapping::ModuleUnload { .. }) => self.unloaded = Some(time),
            _ => {}
        }
    }

    /// Whether it holds an instruction at a time.
    pub(crate) fn holds(&self, pc: u64, time: u64) -> bool {
        let is_inside = pc.wrapping_sub(self.module.base) < self.module.size;
        is_inside
            && self.loaded.is_none_or(|loaded| loaded <= time)
            && self.unloaded.is_none_or(|unloaded| time < unloaded)
    }
}
