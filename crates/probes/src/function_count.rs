//! Counts the calls of the functions that its arguments name, whatever their types.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};

use unspool_probe::{Counter, Image, Probe, arguments, say};

/// Counts calls.
pub(crate) struct FunctionCount {
    functions: BTreeMap<String, Function>,
}

/// What is known of the functions of a name.
struct Function {
    calls: &'static Counter,
    /// How many there are whose calls are counted.
    probed: AtomicUsize,
}

impl Default for FunctionCount {
    fn default() -> FunctionCount {
        let names = arguments()
            .iter()
            .map(|name| name.to_string_lossy().into_owned());
        let function = || Function {
            calls: Box::leak(Box::default()),
            probed: AtomicUsize::new(0),
        };
        FunctionCount {
            functions: names.map(|name| (name, function())).collect(),
        }
    }
}

impl Probe for FunctionCount {
    fn image_load(&self, image: &Image<Self>) {
        for (name, function) in &self.functions {
            let probed = image.count(name, function.calls);
            function.probed.fetch_add(probed, Ordering::Relaxed);
        }
    }

    fn forked(&self) {
        self.functions
            .values()
            .for_each(|function| function.calls.reset());
    }

    fn end(&self) {
        for (name, function) in &self.functions {
            match function.probed.load(Ordering::Relaxed) {
                0 => say(&format!("{name} was not probed")),
                _ => say(&format!("{} calls of {name}", function.calls.total())),
            }
        }
    }
}
