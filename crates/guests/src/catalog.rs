//! All guests, as the folder of programs lists them.

use std::path::{Path, PathBuf};

use crate::{Guest, Language};

/// The folder of the sources.
#[must_use]
pub fn programs_folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("programs")
}

/// Every guest, in the order of their names. Sources in folders called `parts` are parts of
/// other guests.
///
/// # Panics
/// If a source cannot be read or describes itself wrongly: that is a mistake in this
/// repository.
#[must_use]
pub fn guests() -> Vec<Guest> {
    let folder = programs_folder();
    let mut guests = Vec::new();
    for group in files_in(&folder).into_iter().filter(|path| path.is_dir()) {
        for source in files_in(&group) {
            if Language::of(&source).is_none() {
                continue;
            }
            let relative = source
                .strip_prefix(&folder)
                .expect("the file was found there");
            let name = relative.with_extension("").display().to_string();
            let text = std::fs::read_to_string(&source)
                .unwrap_or_else(|problem| panic!("{}: {problem}", source.display()));
            match Guest::parse(&name, &source, &text) {
                Ok(guest) => guests.push(guest),
                Err(problem) => panic!("{problem}"),
            }
        }
    }
    guests
}

/// What sources may include, of all folders of programs.
pub(crate) fn headers() -> Vec<PathBuf> {
    let all = files_in(&programs_folder());
    let in_groups = all.iter().filter(|path| path.is_dir());
    let nested: Vec<PathBuf> = in_groups.flat_map(|group| files_in(group)).collect();
    let is_header = |path: &PathBuf| path.extension().is_some_and(|ending| ending == "h");
    all.into_iter().chain(nested).filter(is_header).collect()
}

fn files_in(folder: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder)
        .unwrap_or_else(|problem| panic!("{}: {problem}", folder.display()));
    let mut paths: Vec<PathBuf> = entries
        .map(|entry| entry.expect("the folder can be listed").path())
        .collect();
    paths.sort();
    paths
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    #[test]
    fn headers_of_all_folders_are_known() {
        let headers = super::headers();
        for name in ["expect.h", "order/litmus.h", "seccomp/filters.h"] {
            assert!(
                headers.iter().any(|header| header.ends_with(name)),
                "{name}"
            );
        }
    }

    #[test]
    fn names_are_unique() {
        let guests = super::guests();
        assert!(guests.len() > 50, "only {} guests were found", guests.len());
        let names: HashSet<&str> = guests.iter().map(|guest| guest.name.as_str()).collect();
        assert_eq!(names.len(), guests.len());
    }
}
