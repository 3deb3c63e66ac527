//! Regions as users ask for them on a command line, in the words of Pin's controller.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use unspool_instrument::Annotation;

use super::trigger::{Event, Trigger};

/// Which part of a run is to be looked at: `start:EVENT,stop:EVENT`, as a user says it. Without
/// `,stop:EVENT` it lasts until the end.
///
/// | event | when |
/// |---|---|
/// | `enter_func:NAME` | a routine of this name is entered |
/// | `exit_func:NAME` | it returns, or is left by an exception or by `longjmp` |
/// | `address:ADDRESS` | a thread comes to this address of the program's file, as `objdump -d` shows it |
/// | `icount:NUMBER` | the thread has executed so many instructions, since its start, or since `start` |
/// | `timeout:SECONDS` | so much time has passed, since the program's start, or since `start` |
/// | `roi` | the program says that its region of interest starts, or ends (`unspool.h`) |
///
/// With `:countN` behind it, an event is meant that comes for the N-th time. With `:repeat` behind the
/// event of the start, regions come again, each counted from the end of the one before.
///
/// A region is of all threads together, whichever brings it about; with `icount`, each thread has one of
/// its own.
///
/// ```
/// use unspool_tool::Control;
///
/// let control: Control = "start:enter_func:solve:count3,stop:exit_func:solve".parse().unwrap();
/// assert_eq!(control.to_string(), "start:enter_func:solve:count3,stop:exit_func:solve");
/// assert!("start:solve".parse::<Control>().is_err());
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Control {
    text: String,
    pub(super) begin: Trigger,
    pub(super) end: Trigger,
    pub(super) repeats: bool,
}

/// Why words say of no part of a run which it is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InvalidControl(String);

impl fmt::Display for InvalidControl {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&self.0)
    }
}

impl std::error::Error for InvalidControl {}

impl fmt::Display for Control {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&self.text)
    }
}

impl Control {
    /// Whether numbers of instructions bound regions.
    pub(super) fn counts(&self) -> bool {
        [&self.begin, &self.end]
            .iter()
            .any(|trigger| trigger.event == Event::Instruction)
    }

    fn knows_time(&self) -> bool {
        let bounds = [&self.begin, &self.end];
        bounds.iter().any(|it| matches!(it.event, Event::Time(_)))
    }
}

impl FromStr for Control {
    type Err = InvalidControl;

    fn from_str(text: &str) -> Result<Control, InvalidControl> {
        let events = text.strip_prefix("start:");
        let events = events.ok_or_else(|| {
            InvalidControl(format!("`{text}` does not say `start:EVENT,stop:EVENT`"))
        })?;
        // Names of routines may have commas.
        let (begin, end) = match events.rsplit_once(",stop:") {
            Some((begin, end)) => (begin, Some(end)),
            None => (events, None),
        };
        let once = begin.strip_suffix(":repeat");
        let control = Control {
            text: text.to_owned(),
            begin: trigger(once.unwrap_or(begin), Annotation::RegionStart)?,
            end: end.map_or(Ok(Trigger::never()), |end| {
                trigger(end, Annotation::RegionEnd)
            })?,
            repeats: once.is_some(),
        };
        match control.counts() && control.knows_time() {
            true => Err(InvalidControl(
                "instructions are counted for each thread, and time passes for all: `icount` and `timeout` bound no region together".to_owned(),
            )),
            false => Ok(control),
        }
    }
}

/// The trigger that an event names; `roi` is what the program says then.
fn trigger(event: &str, roi: Annotation) -> Result<Trigger, InvalidControl> {
    let counted = event.rsplit_once(":count");
    let counted = counted.and_then(|(event, count)| Some((event, count.parse::<u64>().ok()?)));
    let (once, count) = counted.unwrap_or((event, 1));
    let (kind, value) = once.split_once(':').unwrap_or((once, ""));
    let name = Some(value).filter(|name| !name.is_empty());
    let trigger = match kind {
        "enter_func" => name.map(Trigger::entry),
        "exit_func" => name.map(Trigger::exit),
        "address" => number(value).map(Trigger::address),
        "icount" => number(value)
            .filter(|it| *it != 0)
            .map(Trigger::instructions),
        "timeout" => {
            let seconds = value.parse().ok();
            let time = seconds.and_then(|it| Duration::try_from_secs_f64(it).ok());
            time.map(Trigger::time)
        }
        "roi" => name.is_none().then(|| Trigger::annotation(roi)),
        _ => None,
    };
    let trigger = trigger.filter(|_| count != 0);
    trigger.map(|trigger| trigger.nth(count)).ok_or_else(|| {
        InvalidControl(format!(
            "`{event}` is no event: there are enter_func:NAME, exit_func:NAME, address:ADDRESS, icount:NUMBER, timeout:SECONDS and roi, each with or without :countN behind it"
        ))
    })
}

/// In decimal digits, or in hexadecimal ones behind `0x`.
fn number(word: &str) -> Option<u64> {
    match word.strip_prefix("0x") {
        Some(digits) => u64::from_str_radix(digits, 16).ok(),
        None => word.parse().ok(),
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use unspool_instrument::Annotation;

    use super::{Control, Trigger};

    fn check(text: &str, begin: &Trigger, end: &Trigger, repeats: bool) {
        let control: Control = text.parse().unwrap();
        assert_eq!((&control.begin, &control.end), (begin, end), "{text}");
        assert_eq!(control.repeats, repeats, "{text}");
        assert_eq!(control.to_string(), text);
    }

    #[test]
    fn each_event_is_a_trigger() {
        let (enter, exit) = (Trigger::entry("f"), Trigger::exit("f"));
        check("start:enter_func:f,stop:exit_func:f", &enter, &exit, false);
        check("start:enter_func:f", &enter, &Trigger::never(), false);
        let third = enter.clone().nth(3);
        check(
            "start:enter_func:f:count3:repeat,stop:exit_func:f",
            &third,
            &exit,
            true,
        );
        let overloaded = Trigger::entry("ns::f(int, count)");
        check(
            "start:enter_func:ns::f(int, count),stop:exit_func:f",
            &overloaded,
            &exit,
            false,
        );
        let (address, count) = (Trigger::address(0x1139), Trigger::instructions(5000));
        check(
            "start:address:0x1139,stop:icount:5000",
            &address,
            &count,
            false,
        );
        let time = Trigger::time(Duration::from_millis(1500));
        let said = Trigger::annotation(Annotation::RegionEnd).nth(2);
        check("start:timeout:1.5,stop:roi:count2", &time, &said, false);
        let said = Trigger::annotation(Annotation::RegionStart);
        check(
            "start:roi,stop:roi:count2",
            &said,
            &Trigger::annotation(Annotation::RegionEnd).nth(2),
            false,
        );
    }

    #[test]
    fn what_is_no_event_is_refused() {
        for text in [
            "",
            "enter_func:f",
            "start:f",
            "start:enter_func:,stop:exit_func:f",
            "start:enter_func:f,stop:",
            "start:enter_func:f:count0",
            "start:address:main",
            "start:icount:0",
            "start:timeout:-1",
            "start:roi:now",
            "start:icount:5,stop:timeout:1",
        ] {
            assert!(text.parse::<Control>().is_err(), "{text}");
        }
    }
}
