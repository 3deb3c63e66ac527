//! Places that are to bound regions and are in no image. At the end the user is told of them: a misspelt
//! name would look like a region that never begins.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::{Arc, Weak};

use unspool_instrument::images::{Image, ImageKind};
use unspool_kernel::lock::Mutex;

use super::trigger::{Place, Sides};
use crate::run::say;

/// What the controllers of the process look for.
static ALL: Mutex<Vec<Weak<Missing>>> = Mutex::new(Vec::new());

/// How many files, and how many names, are listed at most.
const MOST_FILES: usize = 8;
const MOST_NAMES: usize = 3;

/// The places of a controller's that were found nowhere so far.
#[derive(Debug)]
pub(super) struct Missing {
    search: Mutex<Search>,
}

#[derive(Debug)]
struct Search {
    places: Vec<(Place, Sides)>,
    /// The files in which they were looked for.
    files: BTreeSet<PathBuf>,
    /// The process in which that was done last. A forked child that has loaded nothing leaves it to its
    /// parent to tell.
    process: u32,
}

impl Missing {
    /// These places are looked for from now on.
    pub(super) fn new(places: &[(&Place, Sides)]) -> Arc<Missing> {
        let places = places.iter().map(|&(place, sides)| (place.clone(), sides));
        let missing = Arc::new(Missing {
            search: Mutex::new(Search {
                places: places.collect(),
                files: BTreeSet::new(),
                process: std::process::id(),
            }),
        });
        let mut all = ALL.lock();
        all.retain(|other| other.strong_count() != 0);
        all.push(Arc::downgrade(&missing));
        missing
    }

    /// They were looked for in an image, which has some of them.
    pub(super) fn searched(&self, image: &Image, found: &[&Place]) {
        let mut search = self.search.lock();
        search.places.retain(|(place, _)| !found.contains(&place));
        search.process = std::process::id();
        if !search.places.is_empty() && image.kind() != ImageKind::Generated {
            search.files.insert(image.path().to_owned());
        }
    }
}

/// The process ends: tells of the places that were found nowhere, once.
pub(crate) fn tell() {
    let all: Vec<_> = ALL.lock().iter().filter_map(Weak::upgrade).collect();
    for missing in all {
        let (places, files) = {
            let mut search = missing.search.lock();
            if search.process != std::process::id() {
                continue;
            }
            (std::mem::take(&mut search.places), search.files.clone())
        };
        let files: Vec<_> = files
            .iter()
            .map(|file| file.display().to_string())
            .collect();
        for (place, sides) in places {
            let near = place.routine().map(|name| near(name, &names()));
            say(&describe(
                (&place, sides),
                &files,
                &near.unwrap_or_default(),
            ));
        }
    }
}

/// The names of all routines of the images that there are, without the types of arguments.
fn names() -> BTreeSet<String> {
    let images = unspool_instrument::all_images();
    let routines = images.iter().flat_map(|image| image.routines());
    let without_types = |name: String| name.split('(').next().unwrap_or_default().to_owned();
    routines.map(|it| without_types(it.name())).collect()
}

/// Those of some names that are much like one, the most alike first.
fn near(sought: &str, names: &BTreeSet<String>) -> Vec<String> {
    let sought = sought.to_lowercase();
    // A slip of the finger, and one more in each six letters.
    let most = 1 + sought.chars().count() / 6;
    let slips = |name: &str| {
        let name = name.to_lowercase();
        let is_possible = name.len().abs_diff(sought.len()) <= 4 * most;
        is_possible.then(|| strsim::osa_distance(&sought, &name))
    };
    let mut alike: Vec<(usize, &String)> = names
        .iter()
        .filter_map(|name| {
            // What is asked for may lack the namespace.
            let last = name.rsplit("::").next().unwrap_or_default();
            let least = slips(name).into_iter().chain(slips(last)).min()?;
            (least <= most).then_some((least, name))
        })
        .collect();
    alike.sort();
    alike.truncate(MOST_NAMES);
    alike.into_iter().map(|(_, name)| name.clone()).collect()
}

/// What is told of a place, and of names that are like that of its routine.
fn describe((place, sides): (&Place, Sides), files: &[String], near: &[String]) -> String {
    let process = std::process::id();
    let what = match (sides.has(Sides::BEGIN), sides.has(Sides::END)) {
        (true, true) => "begin and end",
        (true, false) => "begin",
        _ => "end",
    };
    let (when, lacking) = match place {
        Place::Entry(name) => (format!("where `{name}` is entered"), "no such routine"),
        Place::Exit(name) => (format!("where `{name}` is left"), "no such routine"),
        Place::Address(address) => (format!("at {address:#x}"), "no such code"),
    };
    let start = format!("warning: regions are to {what} {when}, but ");
    if files.is_empty() {
        return start + "the tool hands no image to its controller (Controller::image_load)";
    }
    if let Place::Address(_) = place {
        return format!("{start}the program of process {process} has {lacking}");
    }
    let listed = files[..files.len().min(MOST_FILES)].join(", ");
    let others = match files.len().saturating_sub(MOST_FILES) {
        0 => String::new(),
        others => format!(", and {others} others"),
    };
    let help = match near {
        [] => String::new(),
        near => format!("\nhelp: there is `{}`", near.join("`, `")),
    };
    format!("{start}process {process} has loaded {lacking}: {listed}{others} were searched{help}")
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::super::trigger::{Place, Sides};
    use super::{describe, near};

    #[test]
    fn names_with_a_slip_are_near() {
        let names = [
            "step",
            "steps_of_all",
            "main_loop",
            "sim::advance",
            "stop",
            "other",
        ];
        let names: BTreeSet<String> = names.map(str::to_owned).into();
        for (sought, expected) in [
            ("stepp", &["step"][..]),
            ("Step", &["step", "stop"]),
            ("mian_loop", &["main_loop"]),
            ("advance", &["sim::advance"]),
            ("sim::advence", &["sim::advance"]),
            ("solve", &[]),
        ] {
            assert_eq!(near(sought, &names), expected, "{sought}");
        }
    }

    #[test]
    fn what_was_searched_is_told() {
        let entry = Place::Entry("stepp".to_owned());
        let files = ["/bin/program", "/lib/library.so"].map(str::to_owned);
        let process = std::process::id();
        let told = describe((&entry, Sides::BEGIN), &files, &["step".to_owned()]);
        let expected = format!(
            "warning: regions are to begin where `stepp` is entered, but process {process} has loaded no such routine: /bin/program, /lib/library.so were searched\nhelp: there is `step`"
        );
        assert_eq!(told, expected);
        let many: Vec<String> = (0..10).map(|number| format!("/lib/{number}")).collect();
        let exit = Place::Exit("stepp".to_owned());
        let told = describe((&exit, Sides::BEGIN.and(Sides::END)), &many, &[]);
        assert!(
            told.contains("begin and end where `stepp` is left"),
            "{told}"
        );
        assert!(
            told.ends_with("/lib/7, and 2 others were searched"),
            "{told}"
        );
        let told = describe((&entry, Sides::END), &[], &[]);
        assert!(told.ends_with("(Controller::image_load)"), "{told}");
    }
}
