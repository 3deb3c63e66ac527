//! Which module an address belongs to at a time.

use unspool_events::{Event, Mapping, Module, Trace};

use crate::placed_module::PlacedModule;

/// The modules of a trace, and when each was mapped.
#[derive(Debug, Default)]
pub(super) struct MappedModules {
    modules: Vec<PlacedModule>,
    /// Where the last one was found: accesses near each other in time are near each other in code.
    last: usize,
}

impl MappedModules {
    /// Of a trace, of which nothing was read yet.
    ///
    /// When modules came and went is told by events all over the trace. Where no two of them were
    /// in the same place that need not be known beforehand, and the trace need not be read.
    pub(super) fn of_trace(trace: &Trace) -> MappedModules {
        let mut mapped = MappedModules::new(trace.modules());
        if mapped.some_overlap() {
            for (time, event) in trace.module_events() {
                mapped.event(time, &event.into());
            }
        }
        mapped
    }

    pub(super) fn new(modules: &[Module]) -> MappedModules {
        MappedModules {
            modules: modules.iter().map(PlacedModule::new).collect(),
            last: 0,
        }
    }

    /// Adds a module, unless it is known.
    pub(super) fn add(&mut self, module: &Module) {
        let mut known = self.modules.iter();
        if !known.any(|placed| placed.module.id == module.id) {
            self.modules.push(PlacedModule::new(module));
        }
    }

    fn some_overlap(&self) -> bool {
        let ranges = self.modules.iter().map(|placed| &placed.module);
        let mut ranges: Vec<_> = ranges.map(|module| (module.base, module.size)).collect();
        ranges.sort_unstable();
        ranges
            .windows(2)
            .any(|pair| pair[1].0.wrapping_sub(pair[0].0) < pair[0].1)
    }

    /// Learns from an event when a module came or went.
    pub(super) fn event(&mut self, time: u64, event: &Event) {
        if let Event::Mapping(Mapping::ModuleLoad { module } | Mapping::ModuleUnload { module }) =
            *event
        {
            let mut modules = self.modules.iter_mut();
            if let Some(placed) = modules.find(|placed| placed.module.id == module) {
                placed.event(time, event);
            }
        }
    }

    /// The module that holds an instruction at a time.
    pub(super) fn find(&mut self, pc: u64, time: u64) -> Option<&Module> {
        let holds = |placed: &PlacedModule| placed.holds(pc, time);
        if !self.modules.get(self.last).is_some_and(holds) {
            self.last = self.modules.iter().position(holds)?;
        }
        Some(&self.modules[self.last].module)
    }
}

#[cfg(test)]
mod tests {
    use unspool_events::ModuleId;

    use super::*;

    fn module(id: u32, base: u64) -> Module {
        Module {
            id: ModuleId(id),
            path: Vec::new(),
            base,
            size: 100,
            build_id: Vec::new(),
        }
    }

    #[test]
    fn an_address_belongs_to_the_module_of_its_time() {
        let [first, second] = [ModuleId(0), ModuleId(1)];
        let mut mapped = MappedModules::new(&[module(0, 1000), module(1, 1000), module(2, 5000)]);
        mapped.event(3, &Event::Mapping(Mapping::ModuleLoad { module: first }));
        mapped.event(5, &Event::Mapping(Mapping::ModuleUnload { module: first }));
        mapped.event(7, &Event::Mapping(Mapping::ModuleLoad { module: second }));
        let mut found = |pc, time| mapped.find(pc, time).map(|module| module.id.0);
        for (pc, time, id) in [
            (1000, 2, None),
            (1000, 3, Some(0)),
            (1099, 4, Some(0)),
            (1100, 4, None),
            (1000, 5, None),
            (1000, 9, Some(1)),
            (5000, 1, Some(2)),
            (999, 9, None),
        ] {
            assert_eq!(found(pc, time), id, "{pc} at {time}");
        }
    }

    #[test]
    fn places_that_two_modules_had_are_noticed() {
        let overlap = |bases: &[u64]| {
            let modules: Vec<_> = bases.iter().map(|&base| module(0, base)).collect();
            MappedModules::new(&modules).some_overlap()
        };
        assert!(!overlap(&[]) && !overlap(&[300, 100, 200]));
        assert!(overlap(&[300, 100, 399]) && overlap(&[7, 7]));
    }
}
