//! Which of the things that a recording has is shown.

use std::borrow::Cow;

use unspool_profile_record::Recording;

use crate::arguments::ShowChoice;
use crate::failure::Failure;

/// What of a recording is shown, or compared, and what a report has behind it.
pub(super) fn shown<'a>(
    recording: &'a Recording,
    choice: Option<&ShowChoice>,
) -> Result<(Cow<'a, Recording>, Beside), Failure> {
    let nothing = Beside::default();
    Ok(match choice {
        None => (Cow::Borrowed(recording), Beside::of(recording)),
        Some(ShowChoice::Cpu) => (Cow::Borrowed(recording), nothing),
        Some(ShowChoice::OffCpu) => match recording.of_waits() {
            Some(waits) => (Cow::Owned(waits), nothing),
            None => {
                let failure = Failure::new("where threads waited was not recorded");
                let help = "--off-cpu, with a program or --pid, records it";
                return Err(failure.with_help(help));
            }
        },
        Some(ShowChoice::Event(name)) => {
            let mut events = recording.events.values();
            let number = events.find(|it| it.event.name == *name);
            match number.and_then(|it| recording.of_event(it.event.number)) {
                Some(event) => (Cow::Owned(event), nothing),
                None => {
                    let has = recording.events.values().map(|it| it.event.name.clone());
                    let has: Vec<String> = ["cpu".to_owned()].into_iter().chain(has).collect();
                    let failure = Failure::new(format!("where {name} happened was not recorded"));
                    let help = format!(
                        "--event {name}, with a program or --pid, records it; here are {}",
                        has.join(", ")
                    );
                    return Err(failure.with_help(help));
                }
            }
        }
    })
}

/// What a report has behind CPU time.
#[derive(Default)]
pub(super) struct Beside {
    pub(super) waits: Option<Recording>,
    pub(super) events: Vec<Recording>,
}

impl Beside {
    /// All with the names that formulas call them by.
    pub(super) fn named(&self) -> impl Iterator<Item = (&str, &Recording)> {
        let waits = self.waits.iter().map(|waits| (super::WAITS, waits));
        let events = self.events.iter().filter_map(|event| {
            let recorded = event.events.get(&event.sampled_event?)?;
            Some((recorded.event.name.as_str(), event))
        });
        waits.chain(events)
    }

    fn of(recording: &Recording) -> Beside {
        let numbers = recording.events.keys();
        Beside {
            waits: recording.of_waits(),
            events: numbers
                .filter_map(|number| recording.of_event(*number))
                .collect(),
        }
    }
}
