//! Source files as tools for code review name them: from the folder in which the command was started,
//! which is that of the sources where a build is checked.

use std::path::{Path, PathBuf};

/// The folder from which source files are named.
#[derive(Debug, Clone, Default)]
pub(super) struct SourceTree {
    root: PathBuf,
}

/// A line of a source file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct SourceLine {
    /// The file, as it is named from the root, or its whole path if it lies elsewhere.
    pub(super) file: String,
    /// The line, from 1 on.
    pub(super) line: u64,
}

impl SourceTree {
    /// Names files from the folder that the command is started in.
    pub(super) fn of_working_directory() -> SourceTree {
        // Without one that has a name, whole paths are right everywhere.
        let root = std::env::current_dir().unwrap_or_default();
        SourceTree { root }
    }

    /// What `file:line` stands for. Line 0 is what compilers give to code that no line is for.
    pub(super) fn line(&self, text: &str) -> Option<SourceLine> {
        let (file, line) = text.rsplit_once(':')?;
        let line = line.parse().ok().filter(|&line| line != 0)?;
        let path = Path::new(file);
        let has_root = !self.root.as_os_str().is_empty();
        let inside = path.strip_prefix(&self.root).ok().filter(|_| has_root);
        Some(SourceLine {
            file: inside.unwrap_or(path).display().to_string(),
            line,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_inside_the_tree_are_named_from_its_root() {
        let check = |root: &str, text: &str, expected: Option<(&str, u64)>| {
            let tree = SourceTree { root: root.into() };
            let expected = expected.map(|(file, line)| SourceLine {
                file: file.to_owned(),
                line,
            });
            assert_eq!(tree.line(text), expected, "{text} from {root:?}");
        };
        check("/build", "/build/src/a.c:7", Some(("src/a.c", 7)));
        check("/build", "/builder/a.c:7", Some(("/builder/a.c", 7)));
        check("/build", "a.c:7", Some(("a.c", 7)));
        check("/build", "/build/a:b.c:7", Some(("a:b.c", 7)));
        check("", "/build/a.c:7", Some(("/build/a.c", 7)));
        check("/build", "/build/a.c:0", None);
        check("/build", "/build/a.c", None);
    }
}
