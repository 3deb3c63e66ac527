//! Where something is in the program.

use serde::{Deserialize, Serialize};

/// Where something is in the program.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Location {
    /// The source file.
    pub file: Option<String>,
    /// The line in the source file, from 1.
    pub line: Option<u32>,
    /// The function.
    pub function: Option<String>,
    /// The program file.
    pub module: String,
    /// The address in the program file.
    pub offset: u64,
}

impl Location {
    /// `file:line`, with the file's own name, or what else is known.
    #[must_use]
    pub fn short(&self) -> String {
        let name = |path: &str| path.rsplit('/').next().unwrap_or(path).to_owned();
        match (&self.file, self.line, &self.function) {
            (Some(file), Some(line), _) => format!("{}:{line}", name(file)),
            (Some(file), None, _) => name(file),
            (None, _, Some(function)) => format!("{function} in {}", name(&self.module)),
            _ if self.module.is_empty() => "unknown place".to_owned(),
            _ => format!("{}+{:#x}", name(&self.module), self.offset),
        }
    }
}
