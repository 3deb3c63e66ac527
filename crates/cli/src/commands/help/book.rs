//! The book about writing tools, as Markdown.

use anyhow::anyhow;

use crate::failure::Failure;

/// A chapter, with the program texts that it includes.
struct Chapter {
    name: &'static str,
    title: &'static str,
    text: &'static str,
}

/// All of them, in order. The build makes the list from the book's summary.
const CHAPTERS: &[Chapter] = include!(concat!(env!("OUT_DIR"), "/chapters.rs"));

/// One chapter, or `all`; without a name, which there are.
pub(super) fn text(name: Option<&str>) -> Result<String, Failure> {
    match name {
        None => Ok(contents()),
        Some("all") => {
            let texts: Vec<_> = CHAPTERS.iter().map(|chapter| chapter.text).collect();
            Ok(texts.join("\n"))
        }
        Some(name) => {
            let found = CHAPTERS.iter().find(|chapter| chapter.name == name);
            let missing = || {
                let failure = Failure::from(anyhow!("the book has no chapter `{name}`"));
                failure.with_help("unspool help book")
            };
            Ok(found.ok_or_else(missing)?.text.to_owned())
        }
    }
}

fn contents() -> String {
    let mut text = String::from("Writing tools with Unspool\n\n");
    for chapter in CHAPTERS {
        text.push_str(&format!("  {:<18}{}\n", chapter.name, chapter.title));
    }
    text.push_str(
        "\n`unspool help book CHAPTER` prints one, `unspool help book all` all of them.\n",
    );
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_chapter_has_its_title_and_what_it_includes() {
        assert!(CHAPTERS.len() > 4);
        for chapter in CHAPTERS {
            assert!(chapter.text.starts_with("# "), "{}", chapter.name);
            assert!(!chapter.text.contains("{{#"), "{}", chapter.name);
            assert!(contents().contains(chapter.title));
        }
        let cookbook = text(Some("cookbook")).ok().unwrap();
        assert!(cookbook.contains("impl Tool for"), "an included program");
        assert!(text(Some("no-such")).is_err());
    }
}
