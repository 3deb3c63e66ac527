//! Builds the book about writing tools into `target/book`.
//!
//! mdBook itself does the same with `mdbook build docs/book`; this needs nothing installed.

use std::path::{Path, PathBuf};

use anyhow::Context;
use mdbook_driver::MDBook;

fn main() -> anyhow::Result<()> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR"));
    let built = build(folder, None)?;
    println!("{}", built.join("index.html").display());
    Ok(())
}

/// Builds the book of a folder, into another one than it says if one is given.
fn build(folder: &Path, into: Option<&Path>) -> anyhow::Result<PathBuf> {
    let mut book = MDBook::load(folder).context("cannot read the book")?;
    if let Some(into) = into {
        book.config.build.build_dir = into.into();
    }
    book.build().context("cannot build the book")?;
    Ok(book.build_dir_for("html"))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The pages that the summary names, as paths.
    fn chapters(folder: &Path) -> Vec<PathBuf> {
        let book = MDBook::load(folder).unwrap();
        let chapters = book.iter().filter_map(|item| match item {
            mdbook_driver::book::BookItem::Chapter(chapter) => chapter.path.clone(),
            _ => None,
        });
        chapters.collect()
    }

    #[test]
    fn each_page_is_a_chapter_and_all_of_it_is_built() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR"));
        let into = tempfile::tempdir().unwrap();
        let built = build(folder, Some(into.path())).unwrap();
        let mut chapters = chapters(folder);
        for chapter in &chapters {
            let page = built.join(chapter).with_extension("html");
            let text = std::fs::read_to_string(&page).unwrap();
            // What could not be included stays as it is.
            assert!(!text.contains("{{#"), "{}", page.display());
        }
        chapters.push("SUMMARY.md".into());
        chapters.sort();
        let pages = std::fs::read_dir(folder.join("pages")).unwrap();
        let mut pages: Vec<PathBuf> = pages
            .map(|entry| PathBuf::from(entry.unwrap().file_name()))
            .collect();
        pages.sort();
        assert_eq!(pages, chapters);
    }

    #[test]
    fn a_missing_page_is_an_error() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::create_dir(folder.path().join("src")).unwrap();
        let summary = folder.path().join("src/SUMMARY.md");
        std::fs::write(summary, "# Summary\n\n- [One](one.md)\n").unwrap();
        std::fs::write(
            folder.path().join("book.toml"),
            "[build]\ncreate-missing = false\n",
        )
        .unwrap();
        assert!(build(folder.path(), None).is_err());
    }
}
