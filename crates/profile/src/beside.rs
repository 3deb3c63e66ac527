//! What metrics know of what was sampled beside time.

/// Where in a profile something is.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Place {
    /// Among the functions.
    Function(usize),
    /// In the tree.
    Context(usize),
    /// Among the loops.
    Loop,
}

/// What else was sampled, by the places of a profile's functions and call paths: alone, and with what was
/// called.
#[derive(Debug, Clone)]
pub(crate) struct Beside {
    pub(crate) name: String,
    pub(crate) functions: Vec<[f64; 2]>,
    pub(crate) contexts: Vec<[f64; 2]>,
}

impl Beside {
    pub(crate) fn at(&self, place: Place, with_callees: bool) -> Option<f64> {
        let weights = match place {
            Place::Function(place) => self.functions.get(place)?,
            Place::Context(place) => self.contexts.get(place)?,
            Place::Loop => return None,
        };
        Some(weights[usize::from(with_callees)])
    }
}
