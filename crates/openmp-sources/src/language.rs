//! The languages that can be instrumented.

use std::path::Path;

/// A language and its form.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Language {
    /// Fortran in free form.
    FreeFortran,
    /// Fortran in fixed form.
    FixedFortran,
    /// C or C++.
    C,
}

impl Language {
    /// The language of a file, by its name's ending.
    #[must_use]
    pub fn of(path: &Path) -> Option<Language> {
        match path.extension()?.to_str()?.to_ascii_lowercase().as_str() {
            "f90" | "f95" | "f03" | "f08" => Some(Language::FreeFortran),
            "f" | "for" | "ftn" | "f77" => Some(Language::FixedFortran),
            "c" | "cc" | "cpp" | "cxx" | "h" | "hpp" => Some(Language::C),
            _ => None,
        }
    }
}
