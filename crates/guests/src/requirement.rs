//! What a test needs from the machine, and whether it is there.

use std::ffi::OsStr;
use std::path::PathBuf;

/// Something that not every machine has.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Requirement {
    /// `cpu avx512f`: a processor feature, as `/proc/cpuinfo` spells it.
    Cpu(String),
    /// `program clang`: a program on the search path.
    Program(String),
    /// `file /usr/include/omp.h`: a file.
    File(PathBuf),
}

impl Requirement {
    /// Reads a requirement as a guest's comment spells it.
    ///
    /// # Errors
    /// A sentence that says what is wrong.
    pub fn parse(text: &str) -> Result<Requirement, String> {
        match text.split_once(' ') {
            Some(("cpu", feature)) => Ok(Requirement::Cpu(feature.to_owned())),
            Some(("program", program)) => Ok(Requirement::Program(program.to_owned())),
            Some(("file", file)) => Ok(Requirement::File(file.into())),
            _ => Err(format!("`needs: {text}` is neither cpu, program nor file")),
        }
    }

    /// Why this machine does not meet the requirement; `None` where it does.
    #[must_use]
    pub fn reason_missing(&self) -> Option<String> {
        match self {
            Requirement::Cpu(feature) => {
                let description = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
                let present = description
                    .lines()
                    .find(|line| line.starts_with("flags"))
                    .is_some_and(|flags| flags.split_whitespace().any(|flag| flag == feature));
                (!present).then(|| format!("this processor has no {feature}"))
            }
            Requirement::Program(program) => find_program(program)
                .is_none()
                .then(|| format!("{program} is not installed")),
            Requirement::File(file) => {
                (!file.exists()).then(|| format!("there is no {}", file.display()))
            }
        }
    }
}

/// Where the search path has an executable of this name.
#[must_use]
pub fn find_program(name: impl AsRef<OsStr>) -> Option<PathBuf> {
    let name = name.as_ref();
    std::env::split_paths(&std::env::var_os("PATH")?)
        .map(|folder| folder.join(name))
        .find(|candidate| candidate.is_file())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_there_is_found_and_what_is_not_is_named() {
        let missing = |text: &str| Requirement::parse(text).unwrap().reason_missing();
        assert_eq!(missing("cpu sse2"), None);
        assert_eq!(missing("program sh"), None);
        assert_eq!(missing("file /proc/self/maps"), None);
        assert!(missing("cpu abacus").unwrap().contains("abacus"));
        assert!(
            missing("program no-such-program")
                .unwrap()
                .contains("no-such-program")
        );
        assert!(
            missing("file /no/such/file")
                .unwrap()
                .contains("/no/such/file")
        );
        assert!(Requirement::parse("luck").is_err());
    }
}
