//! One figure of many programs, summed up, with what is not in the sum.

use super::figure::Figure;
use super::results::ProgramResult;
use super::statistics::geometric_mean;

/// What a figure comes to over all programs of which it speaks.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct RatioSummary {
    /// The figures that count. None if none does.
    pub(crate) counted: Option<Counted>,
    /// The programs that are not among them.
    pub(crate) left_out: Vec<LeftOut>,
}

/// Mean, least and greatest of the ratios that count, with the programs that have the latter.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Counted {
    /// How many programs.
    pub(crate) programs: usize,
    /// The geometric mean, or the ratio of the sums.
    pub(crate) mean: f64,
    /// The least.
    pub(crate) least: (f64, &'static str),
    /// The greatest.
    pub(crate) greatest: (f64, &'static str),
}

/// A program whose figure does not count.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct LeftOut {
    /// Its name.
    pub(crate) program: &'static str,
    /// The figure, if there is one.
    pub(crate) value: Option<f64>,
    /// Why it does not count.
    pub(crate) why: String,
}

impl RatioSummary {
    /// Sums up one figure of every program. None stands for a program of which the figure does
    /// not speak; one that has not been observed is left out, and named.
    pub(crate) fn of(
        programs: &[ProgramResult],
        figure: impl Fn(&ProgramResult) -> Option<Figure>,
    ) -> RatioSummary {
        let (values, left_out) = sort_out(programs, figure, |value| *value);
        let bare: Vec<f64> = values.iter().map(|(value, _)| *value).collect();
        let counted = geometric_mean(&bare).and_then(|mean| Counted::new(&values, mean));
        RatioSummary { counted, left_out }
    }

    /// Sums up one (numerator, denominator) of every program: the mean is the ratio of the sums,
    /// so that a program counts as much as there is of it.
    pub(crate) fn together(
        programs: &[ProgramResult],
        figure: impl Fn(&ProgramResult) -> Option<Figure<(f64, f64)>>,
    ) -> RatioSummary {
        let (pairs, left_out) = sort_out(programs, figure, |(above, below)| above / below);
        let sum = |part: fn(&(f64, f64)) -> f64| pairs.iter().map(|(pair, _)| part(pair)).sum();
        let (above, below): (f64, f64) = (sum(|pair| pair.0), sum(|pair| pair.1));
        let values: Vec<_> = pairs
            .iter()
            .map(|((above, below), program)| (above / below, *program))
            .collect();
        let counted = Counted::new(&values, above / below);
        RatioSummary { counted, left_out }
    }

    /// How many programs the figure speaks of.
    pub(crate) fn programs(&self) -> usize {
        let counted = self.counted.as_ref();
        counted.map_or(0, |counted| counted.programs) + self.left_out.len()
    }

    /// Which programs are not in the mean and why, as the end of a sentence. Nothing if all are.
    pub(crate) fn without(&self) -> String {
        let Some(first) = self.left_out.first() else {
            return String::new();
        };
        let alike = self.left_out.iter().all(|one| one.why == first.why);
        if self.counted.is_none() && alike && self.left_out.len() > 1 {
            return format!("; all {} programs: {}", self.left_out.len(), first.why);
        }
        let mut reasons: Vec<(&str, Vec<&str>)> = Vec::new();
        for LeftOut { program, why, .. } in &self.left_out {
            match reasons.iter_mut().find(|(reason, _)| reason == why) {
                Some((_, names)) => names.push(program),
                None => reasons.push((why, vec![program])),
            }
        }
        let parts = reasons
            .iter()
            .map(|(why, names)| format!("{} ({why})", names.join(", ")));
        format!("; left out: {}", parts.collect::<Vec<_>>().join(", "))
    }
}

impl Counted {
    fn new(values: &[(f64, &'static str)], mean: f64) -> Option<Counted> {
        Some(Counted {
            programs: values.len(),
            mean,
            least: *values.iter().min_by(|a, b| a.0.total_cmp(&b.0))?,
            greatest: *values.iter().max_by(|a, b| a.0.total_cmp(&b.0))?,
        })
    }
}

/// What counts, and what does not.
fn sort_out<T>(
    programs: &[ProgramResult],
    figure: impl Fn(&ProgramResult) -> Option<Figure<T>>,
    ratio: impl Fn(&T) -> f64,
) -> (Vec<(T, &'static str)>, Vec<LeftOut>) {
    let (mut counted, mut left_out) = (Vec::new(), Vec::new());
    for program in programs {
        let name = program.name;
        match figure(program) {
            None => {}
            Some(Figure::Counts(value)) => counted.push((value, name)),
            Some(figure) => left_out.push(LeftOut {
                program: name,
                value: figure.value().map(&ratio),
                why: figure.doubt().unwrap_or_default(),
            }),
        }
    }
    (counted, left_out)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::catalogue::Sharing;
    use crate::bench::figure::Doubt;

    /// Programs with what was measured of them.
    type Measured<T> = [(&'static str, Option<Figure<T>>)];

    /// Sums up what programs of these names have.
    fn summary<T: Clone>(
        all: &Measured<T>,
        sum_up: impl Fn(&[ProgramResult], &dyn Fn(&ProgramResult) -> Option<Figure<T>>) -> RatioSummary,
    ) -> RatioSummary {
        let programs: Vec<_> = all
            .iter()
            .map(|(name, _)| ProgramResult::bare(name, Sharing::Alone))
            .collect();
        sum_up(&programs, &|wanted| {
            let mut all = all.iter();
            all.find(|(name, _)| *name == wanted.name)?.1.clone()
        })
    }

    fn mean(all: &Measured<f64>) -> RatioSummary {
        summary(all, |programs, figure| RatioSummary::of(programs, figure))
    }

    fn together(all: &Measured<(f64, f64)>) -> RatioSummary {
        summary(all, |programs, figure| {
            RatioSummary::together(programs, figure)
        })
    }

    #[test]
    fn a_mean_leaves_out_what_does_not_count_and_says_why() {
        let failed = || Some(Figure::Missing("failed".to_owned()));
        let summary = mean(&[
            ("a", Some(Figure::Counts(2.0))),
            ("few", Some(Figure::Doubtful(100.0, Doubt::FewRounds(3)))),
            ("apart", Some(Figure::Doubtful(0.1, Doubt::Apart(0.2)))),
            ("b", failed()),
            ("other", None),
            ("c", Some(Figure::Counts(8.0))),
            ("d", failed()),
        ]);
        let counted = summary.counted.as_ref().unwrap();
        assert!((counted.mean - 4.0).abs() < 1e-12);
        assert_eq!((counted.least, counted.greatest), ((2.0, "a"), (8.0, "c")));
        assert_eq!((counted.programs, summary.programs()), (2, 6));
        assert_eq!(
            summary.without(),
            "; left out: few (3 rounds), apart (rounds differ by 20 %), b, d (failed)"
        );
    }

    #[test]
    fn a_mean_of_all_leaves_nothing_out() {
        let summary = mean(&[("a", Some(Figure::Counts(1.0)))]);
        assert_eq!(summary.counted.as_ref().unwrap().mean, 1.0);
        assert_eq!(summary.without(), "");
        assert_eq!(mean(&[]).counted, None);
    }

    #[test]
    fn nothing_observed_is_no_mean() {
        let missing = || Some(Figure::Missing("not run".to_owned()));
        let summary = mean(&[("a", missing()), ("b", missing())]);
        assert_eq!(summary.counted, None);
        assert_eq!(summary.without(), "; all 2 programs: not run");
    }

    #[test]
    fn together_weighs_programs_by_their_size() {
        let summary = together(&[
            ("large", Some(Figure::Counts((9.0, 9.0)))),
            ("small", Some(Figure::Counts((3.0, 1.0)))),
        ]);
        let counted = summary.counted.unwrap();
        assert_eq!(counted.mean, 1.2);
        assert_eq!(counted.least, (1.0, "large"));
        assert_eq!(counted.greatest, (3.0, "small"));
    }

    #[test]
    fn together_leaves_out_what_does_not_count() {
        let doubt = Doubt::Apart(0.5);
        let summary = together(&[
            ("large", Some(Figure::Doubtful((18.0, 9.0), doubt))),
            ("small", Some(Figure::Counts((3.0, 1.0)))),
        ]);
        assert_eq!(summary.counted.as_ref().unwrap().mean, 3.0);
        assert_eq!(summary.left_out[0].value, Some(2.0));
        assert_eq!(
            summary.without(),
            "; left out: large (rounds differ by 50 %)"
        );
        assert_eq!(together(&[]).counted, None);
    }
}
