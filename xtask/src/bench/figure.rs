//! A measured ratio, and whether it counts.

use super::statistics::{least, relative_spread};

/// How far the rounds of a figure that counts lie apart at most, relative to their median.
const AGREEMENT: f64 = 0.1;

/// How many rounds a figure that counts has at least.
pub(crate) const FEWEST_ROUNDS: usize = 5;

/// Why a figure that was measured does not count.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Doubt {
    /// There are only so many rounds.
    FewRounds(usize),
    /// The rounds lie so far apart, relative to their median.
    Apart(f64),
}

impl Doubt {
    /// What speaks against a figure of these rounds.
    pub(crate) fn of(rounds: &[f64]) -> Option<Doubt> {
        if rounds.len() < FEWEST_ROUNDS {
            return Some(Doubt::FewRounds(rounds.len()));
        }
        // Rounds whose median is nothing agree with nothing.
        let apart = relative_spread(rounds).unwrap_or(f64::INFINITY);
        (apart > AGREEMENT).then_some(Doubt::Apart(apart))
    }
}

impl std::fmt::Display for Doubt {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Doubt::FewRounds(1) => formatter.write_str("one round"),
            Doubt::FewRounds(rounds) => write!(formatter, "{rounds} rounds"),
            Doubt::Apart(apart) => write!(formatter, "rounds differ by {:.0} %", apart * 100.0),
        }
    }
}

/// A figure of one program, as far as there is one.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Figure<T = f64> {
    /// Enough rounds agree.
    Counts(T),
    /// It was measured and does not count.
    Doubtful(T, Doubt),
    /// It was not observed, for this reason.
    Missing(String),
}

impl Figure {
    /// A figure that rounds tell. A time that is too short to be seen is none.
    pub(crate) fn of(value: Option<f64>, rounds: &[f64]) -> Figure {
        match value.filter(|value| value.is_finite() && *value > 0.0) {
            Some(value) => Figure::Counts(value).doubted(Doubt::of(rounds)),
            None if rounds.is_empty() => Figure::Missing("no rounds".to_owned()),
            None => Figure::Missing("too short to be measured".to_owned()),
        }
    }

    /// Least over least, of measurements that were made next to each other in each round.
    pub(crate) fn of_times(times: &[f64], base: &[f64]) -> Figure {
        let value = least(times)
            .zip(least(base))
            .map(|(time, base)| time / base);
        Figure::of(value, &over_each_other(times, base))
    }
}

impl Figure<(f64, f64)> {
    /// A cost and what it was paid for, of the round in which that was cheapest.
    pub(crate) fn of_costs(rounds: &[(f64, f64)]) -> Figure<(f64, f64)> {
        let prices: Vec<f64> = rounds.iter().map(|(cost, amount)| cost / amount).collect();
        let cheapest = rounds.iter().zip(&prices).min_by(|a, b| a.1.total_cmp(b.1));
        match Figure::of(least(&prices), &prices) {
            Figure::Missing(why) => Figure::Missing(why),
            judged => match cheapest {
                Some((pair, _)) => judged.map(|_| *pair),
                None => Figure::Missing("no rounds".to_owned()),
            },
        }
    }
}

impl<T> Figure<T> {
    /// The value, whether it counts or not.
    pub(crate) fn value(&self) -> Option<&T> {
        match self {
            Figure::Counts(value) | Figure::Doubtful(value, _) => Some(value),
            Figure::Missing(_) => None,
        }
    }

    /// Why it does not count, if it does not.
    pub(crate) fn doubt(&self) -> Option<String> {
        match self {
            Figure::Counts(_) => None,
            Figure::Doubtful(_, doubt) => Some(doubt.to_string()),
            Figure::Missing(why) => Some(why.clone()),
        }
    }

    /// The same with another value.
    pub(crate) fn map<U>(self, change: impl FnOnce(T) -> U) -> Figure<U> {
        match self {
            Figure::Counts(value) => Figure::Counts(change(value)),
            Figure::Doubtful(value, doubt) => Figure::Doubtful(change(value), doubt),
            Figure::Missing(why) => Figure::Missing(why),
        }
    }

    fn doubted(self, doubt: Option<Doubt>) -> Figure<T> {
        match (self, doubt) {
            (Figure::Counts(value), Some(doubt)) => Figure::Doubtful(value, doubt),
            (figure, _) => figure,
        }
    }
}

/// The ratios of two measurements, round by round, as far as both have one.
pub(crate) fn over_each_other(values: &[f64], base: &[f64]) -> Vec<f64> {
    let rounds = values.iter().zip(base);
    rounds.map(|(value, base)| value / base).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_figure_counts_if_enough_rounds_agree() {
        // What slows a round down slows down both.
        let steady = Figure::of_times(&[1.5, 3.0, 1.6, 1.5, 1.5], &[1.0, 2.0, 1.0, 1.0, 1.0]);
        assert_eq!(steady, Figure::Counts(1.5));
        let unsteady = Figure::of_times(&[2.0, 3.0, 3.0, 3.0, 3.0], &[1.0, 2.0, 2.0, 2.0, 2.0]);
        assert_eq!(unsteady, Figure::Doubtful(2.0, Doubt::Apart(0.5 / 1.5)));
        let few = Figure::of_times(&[2.0; 4], &[1.0; 4]);
        assert_eq!(few, Figure::Doubtful(2.0, Doubt::FewRounds(4)));
        assert_eq!(few.doubt().as_deref(), Some("4 rounds"));
    }

    #[test]
    fn a_tenth_is_the_border() {
        let last = |last: f64| Doubt::of(&[10.0, 10.0, 10.0, 10.0, last]);
        assert_eq!(last(11.0), None);
        assert_eq!(last(11.1), Some(Doubt::Apart((11.1 - 10.0) / 10.0)));
    }

    #[test]
    fn what_was_not_observed_is_no_figure() {
        let missing = |why: &str| Figure::Missing(why.to_owned());
        assert_eq!(Figure::of_times(&[], &[1.0; 5]), missing("no rounds"));
        let none = missing("too short to be measured");
        assert_eq!(Figure::of_times(&[0.0; 5], &[1.0; 5]), none);
        assert_eq!(Figure::of_times(&[1.0; 5], &[0.0; 5]), none);
        assert_eq!(Figure::of_costs(&[]).value(), None);
    }

    #[test]
    fn costs_are_those_of_the_cheapest_round() {
        let rounds = [(8.0, 4.0), (9.0, 5.0), (8.0, 4.0), (8.0, 4.0), (8.0, 4.0)];
        assert_eq!(Figure::of_costs(&rounds), Figure::Counts((9.0, 5.0)));
        let apart = [(8.0, 4.0), (9.0, 6.0), (8.0, 4.0), (8.0, 4.0), (8.0, 4.0)];
        let expected = Figure::Doubtful((9.0, 6.0), Doubt::Apart(0.25));
        assert_eq!(Figure::of_costs(&apart), expected);
    }
}
