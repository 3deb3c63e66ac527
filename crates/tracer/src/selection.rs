//! What is said where the options have selected nothing.

use std::sync::atomic::{AtomicU32, Ordering};

use crate::annotations::Said;
use crate::plan::TracePlan;

/// What was asked for, and what there was of it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct Selection {
    /// Whether only registered threads were asked for, and how many have registered.
    registered: Option<u32>,
    /// Whether only regions were asked for, and how many have begun.
    regions: Option<u32>,
    threads: u64,
    accesses: u64,
    functions: AskedFunctions,
}

/// AskedFunctions that were asked for.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct AskedFunctions {
    /// Those of which there is none in any program or library.
    pub(crate) unknown: Vec<String>,
    /// Those that were there.
    pub(crate) uncalled: Vec<String>,
    /// Whether any was called.
    pub(crate) any_called: bool,
}

/// What to tell of options that have selected nothing, or not all that they name; `accesses` is what
/// the run has recorded.
pub(crate) fn unselected(
    plan: &TracePlan,
    said: &Said,
    functions: AskedFunctions,
    threads: u64,
    accesses: u64,
) -> Vec<String> {
    let count = |wanted: bool, counted: &AtomicU32| wanted.then(|| counted.load(Ordering::Relaxed));
    let selection = Selection {
        registered: count(plan.registered_only, &said.registrations),
        regions: count(plan.regions_only, &said.regions),
        threads,
        accesses,
        functions,
    };
    let unknown = selection.functions.describe_unknown();
    selection.describe().into_iter().chain(unknown).collect()
}

impl Selection {
    fn describe(&self) -> Option<String> {
        let all = [self.describe_accesses(), self.functions.describe()];
        let parts: Vec<String> = all.into_iter().flatten().collect();
        (!parts.is_empty()).then(|| format!("unspool: nothing was selected: {}", parts.join("; ")))
    }

    fn describe_accesses(&self) -> Option<String> {
        if self.accesses != 0 {
            return None;
        }
        let threads = self.threads;
        let unregistered = (self.registered == Some(0)).then(|| {
            format!(
                "--registered-only records threads that register themselves, and of {threads} none did \
                 (unspool_register_thread, atomic_trace::register_thread)"
            )
        });
        let nowhere = (self.regions == Some(0)).then(|| {
            "--roi records regions of interest, and none began \
             (unspool_start_region, atomic_trace::start_roi)"
                .to_owned()
        });
        let apart = match (self.registered, self.regions) {
            (Some(registered @ 1..), Some(regions @ 1..)) => Some(format!(
                "threads registered ({registered}) and regions began ({regions}), but no registered \
                 thread made an access in a region"
            )),
            (None, Some(regions @ 1..)) => {
                Some(format!("regions began ({regions}), but held no access"))
            }
            _ => None,
        };
        let parts: Vec<String> = [unregistered, nowhere, apart]
            .into_iter()
            .flatten()
            .collect();
        (!parts.is_empty()).then(|| parts.join(", and "))
    }
}

impl AskedFunctions {
    /// Where others were called: a misspelt name would look like one that is never called.
    fn describe_unknown(&self) -> Option<String> {
        (self.any_called && !self.unknown.is_empty()).then(|| {
            format!(
                "unspool: no program or library that process {} loaded has a function named {}",
                std::process::id(),
                self.unknown.join(", ")
            )
        })
    }

    fn describe(&self) -> Option<String> {
        if self.any_called || self.unknown.is_empty() && self.uncalled.is_empty() {
            return None;
        }
        let list = |what: &str, names: &[String]| {
            (!names.is_empty()).then(|| format!("{what}: {}", names.join(", ")))
        };
        let parts = [
            list("there but not called", &self.uncalled),
            list("in no program or library", &self.unknown),
        ];
        let parts: Vec<String> = parts.into_iter().flatten().collect();
        let parts = parts.join("; ");
        Some(format!("--functions names none that was called ({parts})"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(registered: Option<u32>, regions: Option<u32>, accesses: u64, said: &[&str]) {
        let selection = Selection {
            registered,
            regions,
            threads: 3,
            accesses,
            functions: AskedFunctions::default(),
        };
        let text = selection.describe();
        assert_eq!(text.is_some(), !said.is_empty(), "{text:?}");
        for part in said {
            assert!(
                text.as_ref().is_some_and(|text| text.contains(part)),
                "{text:?}"
            );
        }
    }

    #[test]
    fn accesses_that_no_option_lets_through_are_explained() {
        check(None, None, 0, &[]);
        check(Some(0), None, 5, &[]);
        check(Some(0), Some(0), 5, &[]);
        check(Some(0), None, 0, &["--registered-only", "of 3 none did"]);
        check(None, Some(0), 0, &["--roi", "none began"]);
        check(Some(0), Some(0), 0, &["--registered-only", "--roi"]);
        check(Some(0), Some(2), 0, &["--registered-only"]);
        check(Some(2), Some(1), 0, &["(2)", "(1)", "in a region"]);
        check(None, Some(1), 0, &["held no access"]);
        // A thread that registers itself may do nothing more.
        check(Some(1), None, 0, &[]);
    }

    #[test]
    fn functions_that_nobody_called_are_named() {
        let functions = |unknown: &[&str], uncalled: &[&str], any_called| AskedFunctions {
            unknown: unknown.iter().map(|&name| name.to_owned()).collect(),
            uncalled: uncalled.iter().map(|&name| name.to_owned()).collect(),
            any_called,
        };
        assert_eq!(functions(&[], &[], false).describe(), None);
        assert_eq!(functions(&["f"], &["g"], true).describe(), None);
        assert_eq!(
            functions(&["f"], &["g", "h"], false).describe().as_deref(),
            Some(
                "--functions names none that was called (there but not called: g, h; in no program or library: f)"
            )
        );
    }
}
