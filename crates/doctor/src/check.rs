//! What was found of one thing.

/// What a check is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Area {
    /// Taking samples of native programs: `unspool profile`.
    Sampling,
    /// Running programs translated: `run`, `trace`, `race`, `verify`, `tool`.
    Translation,
    /// What else bears on several commands.
    Machine,
}

impl Area {
    /// In a sentence.
    #[must_use]
    pub fn title(self) -> &'static str {
        match self {
            Area::Sampling => "Samples of native programs (profile)",
            Area::Translation => "Translated programs (run, trace, race, verify, tool)",
            Area::Machine => "The machine",
        }
    }

    pub(crate) fn word(self) -> &'static str {
        match self {
            Area::Sampling => "sampling",
            Area::Translation => "translation",
            Area::Machine => "machine",
        }
    }
}

/// How well something is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Verdict {
    /// All that commands want is there.
    Good,
    /// Commands work, and say or do less.
    Limited,
    /// A command does not work.
    Missing,
}

impl Verdict {
    pub(crate) fn word(self) -> &'static str {
        match self {
            Verdict::Good => "good",
            Verdict::Limited => "limited",
            Verdict::Missing => "missing",
        }
    }
}

/// What was found of one thing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Check {
    /// What it is about.
    pub area: Area,
    /// What was looked at, in words that do not change.
    pub name: &'static str,
    /// How well it is.
    pub verdict: Verdict,
    /// What was found.
    pub found: String,
    /// What to do about it; none where all is well.
    pub remedy: Option<String>,
}

impl Check {
    pub(crate) fn good(area: Area, name: &'static str, found: impl Into<String>) -> Check {
        Check {
            area,
            name,
            verdict: Verdict::Good,
            found: found.into(),
            remedy: None,
        }
    }

    pub(crate) fn limited(self, remedy: impl Into<String>) -> Check {
        self.with(Verdict::Limited, remedy.into())
    }

    pub(crate) fn missing(self, remedy: impl Into<String>) -> Check {
        self.with(Verdict::Missing, remedy.into())
    }

    fn with(self, verdict: Verdict, remedy: String) -> Check {
        Check {
            verdict,
            remedy: Some(remedy),
            ..self
        }
    }
}
