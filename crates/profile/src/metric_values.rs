//! What metrics are of a profile's functions, call paths and loops.

use rustc_hash::FxHashMap;

use crate::call_tree::FunctionId;
use crate::event_values::{EventValues, Place};
use crate::metric::{Metric, TOTAL};
use crate::profile::{Function, Profile, Spread};

/// What is known of a function, a call path or a loop.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Known<'a> {
    pub(crate) self_weight: u64,
    pub(crate) total_weight: u64,
    /// How the time in a function is spread over threads.
    pub(crate) spread: Option<&'a Spread>,
    pub(crate) place: Place<'a>,
}

impl<'a> Known<'a> {
    pub(crate) fn of(place: usize, function: &'a Function) -> Known<'a> {
        Known {
            self_weight: function.self_weight,
            total_weight: function.total_weight,
            spread: Some(&function.spread),
            place: Place::Function(place),
        }
    }
}

/// What another profile of the same run has at the places of one.
fn event_values(name: &str, other: &Profile, own: &Profile) -> EventValues {
    let mut values = EventValues {
        name: name.to_owned(),
        functions: vec![[0.0; 2]; own.functions.len()],
        contexts: vec![[0.0; 2]; own.tree.nodes().len()],
        loops: FxHashMap::default(),
    };
    let both = |weights: [u64; 2]| weights.map(|weight| other.unit.number(weight as f64));
    for one in &other.loops {
        let of_image = values.loops.entry(one.image.clone()).or_default();
        of_image.insert(one.code.address, both([one.self_weight, one.total_weight]));
    }
    let places = own.functions.iter().enumerate();
    let places: FxHashMap<(&str, &str), usize> = places
        .map(|(place, function)| ((&*function.name, &*function.image), place))
        .collect();
    let own_place = |function: &Function| {
        let key = (&*function.name, &*function.image);
        places.get(&key).copied()
    };
    for function in &other.functions {
        if let Some(place) = own_place(function) {
            values.functions[place] = both([function.self_weight, function.total_weight]);
        }
    }
    let mut own_contexts: Vec<Option<usize>> = Vec::new();
    for node in other.tree.nodes() {
        let function = own_place(&other.functions[node.function.0]).map(FunctionId);
        let parent = node.parent.map(|parent| own_contexts[parent]);
        let place = match (function, parent) {
            // Nothing was sampled on the path of its caller.
            (None, _) | (_, Some(None)) => None,
            (Some(function), parent) => own.tree.known(parent.flatten(), function),
        };
        if let Some(place) = place {
            values.contexts[place] = both([node.self_weight, node.total_weight]);
        }
        own_contexts.push(place);
    }
    values
}

impl Profile {
    /// Has metrics know of what else was sampled in the same run: its name, and its profile with its loops.
    pub fn know_events(&mut self, others: &[(&str, &Profile)]) {
        let others = others.iter();
        let others = others.map(|(name, other)| event_values(name, other, self));
        self.event_values = others.collect();
    }

    /// A metric of something, if it has a value there.
    pub(crate) fn value_of(&self, metric: &Metric, known: Known<'_>) -> Option<f64> {
        let seconds = |ns: u64| ns as f64 / 1e9;
        let weight = |weight: u64| self.unit.number(weight as f64);
        let (ending, spread, place) = (self.ending, known.spread, known.place);
        metric.value(|name| match name {
            "self" => Some(weight(known.self_weight)),
            "total" => Some(weight(known.total_weight)),
            "mean" => spread.map(|it| self.unit.number(it.mean)),
            "least" => spread.map(|it| weight(it.least)),
            "most" => spread.map(|it| weight(it.most)),
            "deviation" => spread.map(|it| self.unit.number(it.deviation)),
            "run" => Some(weight(self.total_weight)),
            "elapsed" => ending.map(|it| seconds(it.elapsed_ns)),
            "user" => ending.map(|it| seconds(it.user_ns)),
            "system" => ending.map(|it| seconds(it.system_ns)),
            "threads" => Some(self.threads.len() as f64),
            event => {
                let (name, with_callees) = match event.strip_prefix(TOTAL) {
                    Some(name) => (name, true),
                    None => (event, false),
                };
                let known = self.event_values.iter().find(|it| it.name == name)?;
                known.at(place, with_callees)
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use crate::loop_times::LoopTime;
    use crate::named_paths::NamedPaths;
    use crate::recordings::of_threads;
    use crate::structure::Loop;

    use super::*;

    /// Each name that formulas may have is of something, and of the right thing.
    #[test]
    fn metrics_are_of_functions_and_of_the_run() {
        let recording = of_threads(&[
            &[
                (&["main", "work"], 3_000_000_000),
                (&["main"], 1_000_000_000),
            ],
            &[(&["main", "work"], 1_000_000_000)],
        ]);
        let profile = Profile::new(&NamedPaths::new(&recording));
        let mut functions = profile.functions.iter().enumerate();
        let (place, main) = functions
            .find(|(_, it)| it.name.starts_with("main"))
            .expect("main");
        let value = |formula: &str| {
            let metric: Metric = format!("x = {formula}").parse().expect("a metric");
            profile.value_of(&metric, Known::of(place, main))
        };
        for (formula, expected) in [
            ("self", 1.0),
            ("total", 5.0),
            ("mean", 0.5),
            ("least", 0.0),
            ("most", 1.0),
            ("deviation", 0.5),
            ("run", 5.0),
            ("threads", 2.0),
            ("100 * total / run", 100.0),
        ] {
            assert_eq!(value(formula), Some(expected), "{formula}");
        }
        assert_eq!(
            value("elapsed"),
            profile.ending.map(|it| it.elapsed_ns as f64 / 1e9)
        );
        let metric: Metric = "x = mean".parse().expect("a metric");
        let of_path = Known {
            spread: None,
            ..Known::of(place, main)
        };
        assert_eq!(profile.value_of(&metric, of_path), None);
    }

    /// Events are those of the same function, and of the same path; where none happened there are none.
    #[test]
    fn metrics_are_of_what_was_sampled_beside_time() {
        let recording = of_threads(&[&[
            (&["main", "work"], 3_000_000_000),
            (&["main"], 1_000_000_000),
        ]]);
        let other = of_threads(&[&[
            (&["main", "work", "leaf"], 4_000_000_000),
            (&["main", "work"], 2_000_000_000),
            (&["other", "work"], 1_000_000_000),
        ]]);
        let mut profile = Profile::new(&NamedPaths::new(&recording));
        let other = Profile::new(&NamedPaths::new(&other));
        profile.know_events(&[("off-cpu", &other)]);
        let of = |formula: &str, name: &str| {
            let metric: Metric = format!("x = {formula}").parse().expect("a metric");
            let mut functions = profile.functions.iter().enumerate();
            let (place, function) = functions.find(|(_, it)| it.name == name).expect("it");
            let context = profile
                .tree
                .nodes()
                .iter()
                .position(|node| node.function.0 == place);
            let known = Known::of(place, function);
            let on_path = Known {
                place: Place::Context(context.expect("a path")),
                ..known
            };
            [known, on_path].map(|known| profile.value_of(&metric, known))
        };
        assert_eq!(of("{off-cpu}", "work+0x10"), [Some(3.0), Some(2.0)]);
        assert_eq!(of("{total off-cpu}", "work+0x10"), [Some(7.0), Some(6.0)]);
        assert_eq!(of("{off-cpu} / self", "main+0x10"), [Some(0.0), Some(0.0)]);
        assert_eq!(of("{cycles}", "main+0x10"), [None, None]);
    }

    #[test]
    fn loops_have_what_was_sampled_in_the_same_loop() {
        let recording = of_threads(&[&[(&["main"], 1_000_000_000)]]);
        let mut profile = Profile::new(&NamedPaths::new(&recording));
        let mut other = profile.clone();
        other.loops = vec![LoopTime {
            code: Loop {
                address: 0x14,
                line: None,
                parent: None,
                depth: 0,
                is_irreducible: false,
            },
            function: "main".to_owned(),
            image: "/bin/a".to_owned(),
            self_weight: 2_000_000_000,
            total_weight: 5_000_000_000,
        }];
        profile.know_events(&[("off-cpu", &other)]);
        let of = |formula: &str, place| {
            let metric: Metric = format!("x = {formula}").parse().expect("a metric");
            let known = Known {
                self_weight: 1_000_000_000,
                total_weight: 1_000_000_000,
                spread: None,
                place,
            };
            profile.value_of(&metric, known)
        };
        let it = Place::Loop("/bin/a", 0x14);
        assert_eq!(of("{off-cpu} / self", it), Some(2.0));
        assert_eq!(of("{total off-cpu}", it), Some(5.0));
        for other in [Place::Loop("/bin/a", 0x10), Place::Loop("/bin/b", 0x14)] {
            assert_eq!(of("{off-cpu}", other), Some(0.0));
        }
        assert_eq!(of("{cycles}", it), None);
    }
}
