//! What metrics know of what was sampled beside time.

use rustc_hash::FxHashMap;

/// Where in a profile something is.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Place<'a> {
    /// Among the functions.
    Function(usize),
    /// In the tree.
    Context(usize),
    /// The loop that is entered at an address of an image.
    Loop(&'a str, u64),
}

/// What else was sampled, by the places of a profile's functions and call paths, and by loops: alone, and with
/// what was called.
#[derive(Debug, Clone)]
pub(crate) struct EventValues {
    pub(crate) name: String,
    pub(crate) functions: Vec<[f64; 2]>,
    pub(crate) contexts: Vec<[f64; 2]>,
    /// By images and addresses, as far as there is anything.
    pub(crate) loops: FxHashMap<String, FxHashMap<u64, [f64; 2]>>,
}

impl EventValues {
    pub(crate) fn at(&self, place: Place<'_>, with_callees: bool) -> Option<f64> {
        let weights = match place {
            Place::Function(place) => *self.functions.get(place)?,
            Place::Context(place) => *self.contexts.get(place)?,
            Place::Loop(image, address) => {
                let of_image = self.loops.get(image);
                let known = of_image.and_then(|loops| loops.get(&address));
                known.copied().unwrap_or_default()
            }
        };
        Some(weights[usize::from(with_callees)])
    }
}
