//! What the first comment of a guest's source says.
//!
//! The comment starts with a sentence or two for people; then come settings, one on each
//! line, as `name: value`:
//!
//! | setting | meaning | default |
//! |---|---|---|
//! | `flags` | what the compiler is given | `-O2` |
//! | `compiler` | `clang` where only that can build it | gcc |
//! | `libraries` | what the linker is given, after the source | none |
//! | `arguments` | what the guest is run with | none |
//! | `needs` | [`Requirement`]s, separated by commas | none |
//! | `variants` | further builds, separated by commas: `static`, `static-pie`, `non-pie`, `stripped`, `unoptimised`, `clang`, `threaded` | none |
//! | `compare` | `output` or `status`: see [`Comparison`] | `output` |
//! | `ending` | how it ends: `exit N` or `signal N` | `exit 0` |
//! | `limit` | seconds that it may take under observation | 60 |
//! | `plugins` | other sources, built as shared libraries beside it | none |
//! | `trace` | `no` where its memory is too large to trace in a test | `yes` |

use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::{Ending, Requirement};

/// The language of a source, which decides who compiles it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Language {
    /// C, for gcc.
    C,
    /// C++, for g++.
    Cpp,
    /// Fortran, for gfortran.
    Fortran,
    /// Rust, for rustc.
    Rust,
}

impl Language {
    /// The language of a source file, by its name's ending.
    #[must_use]
    pub fn of(source: &Path) -> Option<Language> {
        match source.extension()?.to_str()? {
            "c" => Some(Language::C),
            "cpp" => Some(Language::Cpp),
            "f90" => Some(Language::Fortran),
            "rs" => Some(Language::Rust),
            _ => None,
        }
    }

    fn comment(self) -> &'static str {
        match self {
            Language::C | Language::Cpp | Language::Rust => "//",
            Language::Fortran => "!",
        }
    }
}

/// What must be equal between a native and an observed run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Comparison {
    /// Standard output, standard error and the way of ending.
    Output,
    /// The way of ending alone: the guest checks itself, and its output differs by run.
    Status,
}

/// One guest, as its source describes it.
#[derive(Debug, Clone)]
pub struct Guest {
    /// Folder and stem of the source: `signals/nested`.
    pub name: String,
    /// The source file.
    pub source: PathBuf,
    /// Its language.
    pub language: Language,
    /// The first words of the comment, for people.
    pub summary: String,
    /// What the compiler is given.
    pub flags: Vec<String>,
    /// Whether clang builds it, whatever the variant.
    pub by_clang: bool,
    /// What the linker is given, after the source.
    pub libraries: Vec<String>,
    /// What the guest is run with.
    pub arguments: Vec<String>,
    /// What the machine must have.
    pub requirements: Vec<Requirement>,
    /// Further builds.
    pub variants: Vec<String>,
    /// What must be equal between a native and an observed run.
    pub comparison: Comparison,
    /// How it ends.
    pub ending: Ending,
    /// How long it may take under observation.
    pub limit: Duration,
    /// Sources of shared libraries that it opens.
    pub plugins: Vec<PathBuf>,
    /// Whether the tests trace it.
    pub traced: bool,
}

impl Guest {
    /// Reads the description of the guest `name` from the text of its source.
    ///
    /// # Errors
    /// A sentence that says which setting is wrong.
    pub fn parse(name: &str, source: &Path, text: &str) -> Result<Guest, String> {
        let language = Language::of(source)
            .ok_or_else(|| format!("{}: no known language", source.display()))?;
        let mut guest = Guest {
            name: name.to_owned(),
            source: source.to_owned(),
            language,
            summary: String::new(),
            flags: words("-O2"),
            by_clang: false,
            libraries: Vec::new(),
            arguments: Vec::new(),
            requirements: Vec::new(),
            variants: Vec::new(),
            comparison: Comparison::Output,
            ending: Ending::Exited(0),
            limit: Duration::from_secs(60),
            plugins: Vec::new(),
            traced: true,
        };
        let comment = language.comment();
        let mut in_sentence = false;
        for line in text.lines().map_while(|line| line.strip_prefix(comment)) {
            // Rust's `//!` is part of the comment's mark, not of its text.
            let line = line.trim_start_matches('!').trim();
            // A line that goes on with a sentence may have a colon too.
            let setting = line.split_once(": ").filter(|(key, _)| {
                !in_sentence && key.chars().all(|letter| letter.is_ascii_lowercase())
            });
            if let Some((key, value)) = setting {
                guest
                    .set(key, value.trim())
                    .map_err(|problem| format!("{name}: {problem}"))?;
                continue;
            }
            in_sentence = !line.ends_with('.');
            if guest.summary.is_empty() {
                line.clone_into(&mut guest.summary);
            }
        }
        if guest.summary.is_empty() {
            return Err(format!(
                "{name}: the first comment must say what the guest does"
            ));
        }
        Ok(guest)
    }

    fn set(&mut self, key: &str, value: &str) -> Result<(), String> {
        match key {
            "flags" => self.flags = words(value),
            "compiler" => match value {
                "clang" => self.by_clang = true,
                _ => return Err(format!("`compiler: {value}` is not clang")),
            },
            "libraries" => self.libraries = words(value),
            "arguments" => self.arguments = words(value),
            "needs" => {
                self.requirements = list(value)
                    .map(Requirement::parse)
                    .collect::<Result<_, _>>()?
            }
            "variants" => self.variants = list(value).map(str::to_owned).collect(),
            "compare" => {
                self.comparison = match value {
                    "output" => Comparison::Output,
                    "status" => Comparison::Status,
                    _ => return Err(format!("`compare: {value}` is neither output nor status")),
                }
            }
            "ending" => {
                let (kind, number) = value.split_once(' ').ok_or("`ending` takes two words")?;
                let number = number
                    .parse()
                    .map_err(|_| format!("`ending: {value}`: not a number"))?;
                self.ending = match kind {
                    "exit" => Ending::Exited(number),
                    "signal" => Ending::Signalled(number),
                    _ => return Err(format!("`ending: {value}` is neither exit nor signal")),
                }
            }
            "limit" => {
                let seconds = value
                    .parse()
                    .map_err(|_| format!("`limit: {value}`: not a number"))?;
                self.limit = Duration::from_secs(seconds);
            }
            "plugins" => {
                let folder = self.source.parent().unwrap_or(Path::new("."));
                self.plugins = words(value)
                    .into_iter()
                    .map(|file| folder.join(file))
                    .collect();
            }
            "trace" => self.traced = value != "no",
            _ => return Err(format!("unknown setting `{key}`")),
        }
        Ok(())
    }
}

fn words(value: &str) -> Vec<String> {
    value.split_whitespace().map(str::to_owned).collect()
}

fn list(value: &str) -> impl Iterator<Item = &str> {
    value.split(',').map(str::trim)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<Guest, String> {
        Guest::parse("a/b", Path::new("/programs/a/b.c"), text)
    }

    #[test]
    fn settings_are_read_from_the_first_comment_only() {
        let guest = parse(
            "// Divides by zero, and this is\n// deliberate: twice.\n// flags: -O1 -g\n\
             // ending: signal 8\n// plugins: p.c\n\n// limit: 5\n",
        )
        .unwrap();
        assert_eq!(guest.summary, "Divides by zero, and this is");
        assert_eq!(guest.flags, ["-O1", "-g"]);
        assert_eq!(guest.ending, Ending::Signalled(8));
        assert_eq!(guest.plugins, [Path::new("/programs/a/p.c")]);
        assert_eq!(guest.limit, Duration::from_secs(60));
    }

    #[test]
    fn mistakes_are_named() {
        assert!(
            parse("// A guest.\n// flasg: -O1\n")
                .unwrap_err()
                .contains("flasg")
        );
        assert!(
            parse("// A guest.\n// compare: all\n")
                .unwrap_err()
                .contains("all")
        );
        assert!(
            parse("// A guest.\n// ending: signal nine\n")
                .unwrap_err()
                .contains("nine")
        );
        assert!(parse("int main;\n").unwrap_err().contains("first comment"));
    }
}
