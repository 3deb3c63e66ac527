//! Figures that are computed from others by formulas that a user gives.

use std::str::FromStr;

use exmex::{Express, FlatEx};

/// A name, and the formula of what it stands for. As text: `NAME=FORMULA`.
///
/// What else was sampled beside time is in braces, by its name, or with what was called: `{total page-faults}`.
///
/// ```
/// use unspool_profile::Metric;
///
/// let metric: Metric = "imbalance = (most - mean) * threads".parse()?;
/// assert_eq!(metric.name(), "imbalance");
/// assert!("ipc = {instructions} / {cycles}".parse::<Metric>().is_ok());
/// assert!("imbalance = most - average".parse::<Metric>().is_err());
/// # Ok::<(), String>(())
/// ```
#[derive(Debug, Clone)]
pub struct Metric {
    name: String,
    text: String,
    formula: FlatEx<f64>,
}

/// What stands before the name of an event that is meant with what was called.
pub(crate) const TOTAL: &str = "total ";

/// What formulas are about. Times are in seconds.
const VARIABLES: [&str; 11] = [
    "self",
    "total",
    "mean",
    "least",
    "most",
    "deviation",
    "run",
    "elapsed",
    "user",
    "system",
    "threads",
];

impl FromStr for Metric {
    type Err = String;

    fn from_str(text: &str) -> Result<Metric, String> {
        let parts = text
            .split_once('=')
            .map(|(name, formula)| (name.trim(), formula.trim()));
        let Some((name, text)) = parts.filter(|(name, _)| !name.is_empty()) else {
            return Err("it must be NAME=FORMULA".to_owned());
        };
        let formula = FlatEx::parse(text).map_err(|problem| problem.to_string())?;
        let mut names = formula.var_names().iter();
        let is_known =
            |name: &str| VARIABLES.contains(&name) || text.contains(&format!("{{{name}}}"));
        if let Some(unknown) = names.find(|it| !is_known(it)) {
            let known = VARIABLES.join(", ");
            return Err(format!(
                "{unknown} is not known; a formula is about {known}, and by {{EVENT}} about an event"
            ));
        }
        Ok(Metric {
            name: name.to_owned(),
            text: text.to_owned(),
            formula,
        })
    }
}

impl Metric {
    /// What it is called.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The formula, as it was given.
    #[must_use]
    pub fn formula(&self) -> &str {
        &self.text
    }

    /// What it is about that is sampled beside time: the names of events, or `off-cpu`.
    pub fn events(&self) -> impl Iterator<Item = &str> {
        let names = self.formula.var_names().iter().map(String::as_str);
        let others = names.filter(|name| !VARIABLES.contains(name));
        others.map(|name| name.strip_prefix(TOTAL).unwrap_or(name))
    }

    /// Its value, if there is one: what it is about must be known, and nothing divided by nothing.
    pub(crate) fn value(&self, known: impl Fn(&str) -> Option<f64>) -> Option<f64> {
        let values = self.formula.var_names().iter().map(|name| known(name));
        let values: Option<Vec<f64>> = values.collect();
        let value = self.formula.eval(&values?).ok()?;
        value.is_finite().then_some(value)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn formulas_are_computed_of_what_is_known() {
        let known = |name: &str| match name {
            "self" => Some(3.0),
            "total" => Some(12.0),
            "most" => Some(2.0),
            "mean" => Some(1.5),
            "threads" => Some(0.0),
            _ => None,
        };
        let value = |text: &str| text.parse::<Metric>().expect("a metric").value(known);
        assert_eq!(value("below = total - self"), Some(9.0));
        assert_eq!(value("x = 1 - self / total"), Some(0.75));
        assert_eq!(value("x=(most-mean)/most + mean"), Some(1.75));
        assert_eq!(value("x = min(self, total) ^ 2 + most"), Some(11.0));
        assert_eq!(value("x = 2 * 3"), Some(6.0));
        assert_eq!(value("x = self / threads"), None);
        assert_eq!(value("x = self + deviation"), None);
        let of_events: Metric = "x = {off-cpu} + {total page-faults} / self"
            .parse()
            .unwrap();
        assert_eq!(
            of_events.events().collect::<Vec<_>>(),
            ["off-cpu", "page-faults"]
        );
    }

    #[test]
    fn what_is_no_metric_is_refused() {
        for text in [
            "",
            "self",
            "=self",
            "x=",
            "x = self +",
            "x = (self",
            "x = cycles / self",
        ] {
            assert!(text.parse::<Metric>().is_err(), "{text}");
        }
    }
}
