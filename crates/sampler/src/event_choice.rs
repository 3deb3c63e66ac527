//! Events that are sampled beside time, by their names.
//!
//! Source of the numbers: `include/uapi/linux/perf_event.h`; names are those of `perf list`.

use std::str::FromStr;

use unspool_profile_record::Rate;

/// An event that a user wants to have sampled. As text: `NAME`, `NAME@PERIOD` for a sample each time that it
/// has happened so often, or `NAME@fHZ` for about so many samples in a second of a thread's time, if it is
/// one of the processor.
///
/// ```
/// use unspool_sampler::EventChoice;
///
/// let misses: EventChoice = "cache-misses@10000".parse()?;
/// assert_eq!(misses.name(), "cache-misses");
/// assert!("cache-kisses".parse::<EventChoice>().is_err());
/// # Ok::<(), String>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EventChoice {
    name: String,
    pub(crate) code: EventCode,
    /// How often, if that was said.
    rate: Option<Rate>,
}

/// What the kernel calls an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EventCode {
    pub(crate) kind: u32,
    pub(crate) number: u64,
    /// Whether it happens in the kernel, where it cannot be seen without the right to sample that.
    pub(crate) is_of_kernel: bool,
    /// For each how many there is a sample, if nobody says otherwise: of the kernel's own events, since it
    /// does not tell truly how many of those samples by frequency stand for.
    period: Option<u64>,
}

const HARDWARE: u32 = 0;
const SOFTWARE: u32 = 1;
const CACHE: u32 = 3;
const RAW: u32 = 4;

/// Counters that most processors have, by `perf_hw_id`.
const PROCESSOR_EVENTS: [(&str, u64); 12] = [
    ("cycles", 0),
    ("instructions", 1),
    ("cache-references", 2),
    ("cache-misses", 3),
    ("branches", 4),
    ("branch-instructions", 4),
    ("branch-misses", 5),
    ("bus-cycles", 6),
    ("stalled-cycles-frontend", 7),
    ("stalled-cycles-backend", 8),
    ("ref-cycles", 9),
    ("cpu-cycles", 0),
];

/// What the kernel counts itself, by `perf_sw_ids`, whether it does so in the kernel, and for how many there
/// is a sample: for each one of those that come seldom, and of the others for so many that they take much
/// longer than the sample.
const KERNEL_EVENTS: [(&str, u64, bool, u64); 10] = [
    ("page-faults", 2, false, 100),
    ("faults", 2, false, 100),
    ("context-switches", 3, true, 1),
    ("cs", 3, true, 1),
    ("cpu-migrations", 4, true, 1),
    ("migrations", 4, true, 1),
    ("minor-faults", 5, false, 100),
    ("major-faults", 6, false, 1),
    ("alignment-faults", 7, false, 1),
    ("emulation-faults", 8, false, 1),
];

/// Caches by `perf_hw_cache_id`. An event is named after one of these, and what is done with it.
const CACHES: [(&str, u64); 7] = [
    ("L1-dcache", 0),
    ("L1-icache", 1),
    ("LLC", 2),
    ("dTLB", 3),
    ("iTLB", 4),
    ("branch", 5),
    ("node", 6),
];

/// What is done: `perf_hw_cache_op_id`, and above it `perf_hw_cache_op_result_id`.
const CACHE_USES: [(&str, u64); 6] = [
    ("loads", 0),
    ("load-misses", 1 << 8),
    ("stores", 1),
    ("store-misses", 1 | 1 << 8),
    ("prefetches", 2),
    ("prefetch-misses", 2 | 1 << 8),
];

impl EventCode {
    fn of(name: &str) -> Option<EventCode> {
        let code = |kind, number| EventCode {
            kind,
            number,
            is_of_kernel: false,
            period: None,
        };
        if let Some((_, number)) = PROCESSOR_EVENTS.iter().find(|it| it.0 == name) {
            return Some(code(HARDWARE, *number));
        }
        if let Some(known) = KERNEL_EVENTS.iter().find(|it| it.0 == name) {
            return Some(EventCode {
                is_of_kernel: known.2,
                period: Some(known.3),
                ..code(SOFTWARE, known.1)
            });
        }
        for (cache, cache_number) in CACHES {
            let used = name
                .strip_prefix(cache)
                .and_then(|rest| rest.strip_prefix('-'));
            let known = CACHE_USES.iter().find(|it| Some(it.0) == used);
            if let Some((_, used)) = known {
                return Some(code(CACHE, cache_number | used << 8));
            }
        }
        let raw = u64::from_str_radix(name.strip_prefix('r')?, 16).ok()?;
        Some(code(RAW, raw))
    }
}

impl FromStr for EventChoice {
    type Err = String;

    fn from_str(text: &str) -> Result<EventChoice, String> {
        let (name, rate) = match text.split_once('@') {
            None => (text, None),
            Some((name, rate)) => (name, Some(self::rate(rate)?)),
        };
        let code = EventCode::of(name).ok_or_else(|| {
            let processor = PROCESSOR_EVENTS.map(|it| it.0).join(", ");
            let kernel = KERNEL_EVENTS.map(|it| it.0).join(", ");
            format!(
                "there is no event {name}. Of the processor there are {processor}, those of caches, such as \
                 LLC-load-misses, and rHEX with a number from its manual; of the kernel {kernel}"
            )
        })?;
        if code.period.is_some() && matches!(rate, Some(Rate::Frequency(_))) {
            return Err(format!(
                "the kernel does not tell truly how many {name} samples by frequency stand for: {name}@PERIOD \
                 takes one for each so many"
            ));
        }
        Ok(EventChoice {
            name: name.to_owned(),
            code,
            rate,
        })
    }
}

fn rate(text: &str) -> Result<Rate, String> {
    let (number, make): (_, fn(u64) -> Rate) = match text.strip_prefix('f') {
        Some(frequency) => (frequency, Rate::Frequency),
        None => (text, Rate::Period),
    };
    match number.parse() {
        Ok(number @ 1..=0x7fff_ffff_ffff_ffff) => Ok(make(number)),
        _ => Err(format!(
            "behind @ stands a number of events, or f and a number of samples in a second, and not {text}"
        )),
    }
}

impl EventChoice {
    /// What it is called.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Whether both name the same event, however often they sample it. The kernel gives samples of one of its
    /// own events that is there twice the identifier of either.
    #[must_use]
    pub fn is_same(&self, other: &EventChoice) -> bool {
        (self.code.kind, self.code.number) == (other.code.kind, other.code.number)
    }

    /// How often it is sampled, where others are so often in a second.
    pub(crate) fn rate(&self, frequency_hz: u32) -> Rate {
        let by_frequency = Rate::Frequency(frequency_hz.into());
        let usual = self.code.period.map_or(by_frequency, Rate::Period);
        self.rate.unwrap_or(usual)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_have_the_kernels_numbers() {
        for (text, kind, number, rate) in [
            ("cycles", 0, 0, Rate::Frequency(99)),
            ("instructions@2000000", 0, 1, Rate::Period(2_000_000)),
            ("page-faults@1", 1, 2, Rate::Period(1)),
            ("context-switches", 1, 3, Rate::Period(1)),
            ("faults", 1, 2, Rate::Period(100)),
            ("ref-cycles@f7", 0, 9, Rate::Frequency(7)),
            // perf_hw_cache_id 3, operation 0, result 1.
            ("dTLB-load-misses", 3, 0x1_0003, Rate::Frequency(99)),
            ("LLC-stores", 3, 0x102, Rate::Frequency(99)),
            ("r1a8", 4, 0x1a8, Rate::Frequency(99)),
        ] {
            let choice: EventChoice = text.parse().expect(text);
            assert_eq!(
                (choice.code.kind, choice.code.number),
                (kind, number),
                "{text}"
            );
            assert_eq!(choice.rate(99), rate, "{text}");
        }
    }

    #[test]
    fn an_event_is_the_same_by_all_its_names() {
        let is_same = |one: &str, other: &str| {
            let [one, other] = [one, other].map(|it| it.parse::<EventChoice>().expect(it));
            one.is_same(&other)
        };
        assert!(is_same("faults@3", "page-faults") && is_same("cpu-cycles", "cycles@f9"));
        assert!(!is_same("instructions", "page-faults") && !is_same("cycles", "instructions"));
    }

    #[test]
    fn what_is_no_event_is_refused() {
        for text in [
            "",
            "cycle",
            "cycles@",
            "cycles@0",
            "cycles@f",
            "cycles@-1",
            "faults@f9",
            "LLC",
            "LLC-",
            "rx",
        ] {
            assert!(text.parse::<EventChoice>().is_err(), "{text}");
        }
    }
}
