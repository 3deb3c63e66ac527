//! What metrics are of a profile's functions, call paths and loops.

use crate::metric::Metric;
use crate::profile::{Function, Profile, Spread};

/// What is known of a function, a call path or a loop.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Known<'a> {
    pub(crate) self_weight: u64,
    pub(crate) total_weight: u64,
    /// How the time in a function is spread over threads.
    pub(crate) spread: Option<&'a Spread>,
}

impl<'a> Known<'a> {
    pub(crate) fn of(function: &'a Function) -> Known<'a> {
        Known {
            self_weight: function.self_weight,
            total_weight: function.total_weight,
            spread: Some(&function.spread),
        }
    }
}

impl Profile {
    /// A metric of something, if it has a value there.
    pub(crate) fn value_of(&self, metric: &Metric, known: Known<'_>) -> Option<f64> {
        let seconds = |ns: u64| ns as f64 / 1e9;
        let weight = |weight: u64| self.unit.number(weight as f64);
        let (ending, spread) = (self.ending, known.spread);
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
            _ => None,
        })
    }
}

#[cfg(test)]
mod tests {
    use crate::named_paths::NamedPaths;
    use crate::recordings::of_threads;

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
        let mut functions = profile.functions.iter();
        let main = functions
            .find(|it| it.name.starts_with("main"))
            .expect("main");
        let value = |formula: &str| {
            let metric: Metric = format!("x = {formula}").parse().expect("a metric");
            profile.value_of(&metric, Known::of(main))
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
            ..Known::of(main)
        };
        assert_eq!(profile.value_of(&metric, of_path), None);
    }
}
