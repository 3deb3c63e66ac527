//! Flame graphs: call paths side by side, as wide as the time on each is long.
//!
//! Source: B. Gregg, "The Flame Graph", CACM 59(6), 2016; drawn by the crate `inferno`.

use inferno::flamegraph::{self, Options};

use crate::profile::Profile;

/// The profile as a picture (SVG) that needs nothing else: a browser shows names and times, searches
/// and enlarges parts of it. What takes no time is left out.
///
/// # Errors
/// Those of drawing: a profile without any time is drawn, too, and says so.
pub fn flame_graph(profile: &Profile) -> std::io::Result<Vec<u8>> {
    let mut options = Options::default();
    options.title = profile.command.join(" ");
    options.count_name = profile.unit.event().unwrap_or("ns").to_owned();
    options.hash = true;
    options.notes = format!("{} samples", profile.samples);
    let paths = profile.to_folded();
    let mut picture = Vec::new();
    // Its error for no lines at all says nothing that the picture does not.
    let drawn = flamegraph::from_lines(&mut options, paths.lines(), &mut picture);
    match drawn {
        Err(_) if paths.is_empty() => Ok(picture),
        Err(error) => Err(std::io::Error::other(error)),
        Ok(()) => Ok(picture),
    }
}
