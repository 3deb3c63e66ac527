//! Races as annotations of code: lines in what a step of a continuous integration prints, which its
//! service shows beside the source (GitHub's "workflow commands").

use super::described::Described;
use super::source_tree::SourceTree;
use super::text::{PREDICTED, SEEN, message};

/// One line for each race of which a source line is known, and for no more of them than are shown.
pub(super) fn for_github(described: &Described, sources: &SourceTree, show: usize) -> String {
    let mut text = String::new();
    let seen = described.races.iter().take(show);
    let predicted = described.predicted.iter().take(show);
    let all = seen
        .map(|race| (race, "Data race", SEEN))
        .chain(predicted.map(|race| (race, "Predicted data race", PREDICTED)));
    for (race, title, why) in all {
        let mut lines = race.sides().into_iter().filter_map(|(_, stack)| {
            let line = stack.headline()?.place.line.as_deref()?;
            sources.line(line)
        });
        if let Some(place) = lines.next() {
            let file = property(&place.file);
            let message = data(&message(described, race, why));
            text += &format!(
                "::warning file={file},line={},title={title}::{message}\n",
                place.line
            );
        }
    }
    text
}

/// What follows `::` to the line's end.
fn data(text: &str) -> String {
    text.replace('%', "%25")
        .replace('\r', "%0D")
        .replace('\n', "%0A")
}

/// The value of a property, which a comma or a colon ends.
fn property(text: &str) -> String {
    data(text).replace(':', "%3A").replace(',', "%2C")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_would_end_a_part_is_escaped() {
        assert_eq!(property("a,b:c%\n"), "a%2Cb%3Ac%25%0A");
        assert_eq!(data("50%: a,b\r\n"), "50%25: a,b%0D%0A");
    }
}
