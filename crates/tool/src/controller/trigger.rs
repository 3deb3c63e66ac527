//! What bounds regions.

use std::time::Duration;

use unspool_instrument::Annotation;
use unspool_instrument::images::ImageKind;

use super::{Controlled, argument, passed};
use crate::image::Image;

/// By what a region begins or ends.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Trigger {
    pub(super) event: Event,
    /// How often that must have happened.
    pub(super) count: u64,
}

/// What happens.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) enum Event {
    /// Control passes a place.
    Place(Place),
    /// The program says something of itself.
    Annotation(Annotation),
    /// The thread executes an instruction.
    Instruction,
    /// So much time has passed.
    Time(Duration),
    /// Nothing.
    Never,
}

/// A place that threads pass.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) enum Place {
    /// Where routines of this name are entered.
    Entry(String),
    /// Where they return, or are left by an exception or by `longjmp`.
    Exit(String),
    /// Before the instruction at an address of the program's file.
    Address(u64),
}

impl Trigger {
    /// A routine of this name is entered: before its first instruction.
    #[must_use]
    pub fn entry(routine: &str) -> Trigger {
        Trigger::of(Event::Place(Place::Entry(routine.to_owned())))
    }

    /// A routine of this name returns, or is left by an exception or by `longjmp`: before the
    /// instruction at which its caller goes on.
    #[must_use]
    pub fn exit(routine: &str) -> Trigger {
        Trigger::of(Event::Place(Place::Exit(routine.to_owned())))
    }

    /// A thread comes to the instruction at this address, however it comes there. The address is that
    /// of the program's file, as `objdump -d` shows it; for one of a library, the library's routines
    /// have names.
    #[must_use]
    pub fn address(address: u64) -> Trigger {
        Trigger::of(Event::Place(Place::Address(address)))
    }

    /// The program says this by the functions that programs may include for that (`unspool.h`, or the
    /// crate `unspool-annotate`), such as [`Annotation::RegionStart`]: before the instruction behind.
    ///
    /// ```
    /// use unspool_tool::{Annotation, Controller, Trigger};
    ///
    /// let as_the_program_says = Controller::of_process(
    ///     Trigger::annotation(Annotation::RegionStart),
    ///     Trigger::annotation(Annotation::RegionEnd),
    /// );
    /// ```
    #[must_use]
    pub fn annotation(said: Annotation) -> Trigger {
        Trigger::of(Event::Annotation(said))
    }

    /// A thread has executed so many instructions: since it has begun, or since the last region began
    /// or ended. The region is bounded where the thread enters a superblock next, 63 instructions later
    /// at most; the number is told ([`RegionChange::instructions`](super::RegionChange::instructions)).
    /// Threads count by themselves: only for [`Controller::of_threads`](super::Controller::of_threads).
    ///
    /// It costs an addition and a comparison for each superblock, in both versions.
    #[must_use]
    pub fn instructions(count: u64) -> Trigger {
        Trigger {
            event: Event::Instruction,
            count,
        }
    }

    /// So much time has passed: since the program's start, or since the last region began or ended. It
    /// passes for all threads: only for [`Controller::of_process`](super::Controller::of_process).
    ///
    /// A thread of the tool's own keeps it ([`spawn`](crate::spawn)), and turns the switches of all
    /// threads, which follow where they enter a superblock next; one that sleeps, when it goes on. No
    /// thread of the program has brought it about, so none is told
    /// ([`Controlled::region_begins`]). It costs nothing while it
    /// passes.
    #[must_use]
    pub fn time(duration: Duration) -> Trigger {
        Trigger::of(Event::Time(duration))
    }

    /// The end of the program: nothing that happens before.
    pub(super) fn never() -> Trigger {
        Trigger::of(Event::Never)
    }

    fn of(event: Event) -> Trigger {
        Trigger { event, count: 1 }
    }

    /// When that happens for the `count`th time: since the thread (or the program) has begun, or since
    /// the last region began or ended.
    ///
    /// # Panics
    /// If `count` is 0.
    #[must_use]
    #[track_caller]
    pub fn nth(self, count: u64) -> Trigger {
        assert!(count != 0, "the first time is the one with number 1");
        Trigger {
            count: self.count.saturating_mul(count),
            ..self
        }
    }
}

/// Which sides of regions something bounds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Sides(u8);

impl Sides {
    pub(super) const BEGIN: Sides = Sides(1);
    pub(super) const END: Sides = Sides(2);

    /// Those on which there is what bounds regions this way.
    pub(super) fn of_event(event: &Event, [begin, end]: [&Trigger; 2]) -> Option<Sides> {
        match [begin, end].map(|trigger| trigger.event == *event) {
            [true, true] => Some(Sides::BEGIN.and(Sides::END)),
            [true, false] => Some(Sides::BEGIN),
            [false, true] => Some(Sides::END),
            [false, false] => None,
        }
    }

    pub(super) fn and(self, other: Sides) -> Sides {
        Sides(self.0 | other.0)
    }

    pub(super) fn has(self, side: Sides) -> bool {
        self.0 & side.0 != 0
    }

    /// As inserted code has it.
    pub(super) fn number(self) -> u64 {
        u64::from(self.0)
    }

    pub(super) fn of(number: u64) -> Sides {
        Sides(number as u8)
    }
}

/// The places that bound regions, each once, and on which sides.
pub(super) fn places<'a>(begin: &'a Trigger, end: &'a Trigger) -> Vec<(&'a Place, Sides)> {
    let mut places = Vec::new();
    for trigger in [begin, end] {
        let sides = Sides::of_event(&trigger.event, [begin, end]);
        if let (Event::Place(place), Some(sides)) = (&trigger.event, sides)
            && !places.contains(&(place, sides))
        {
            places.push((place, sides));
        }
    }
    places
}

impl Place {
    /// Has inserted code say when the place is passed, if it is in this image. Returns whether it is.
    pub(super) fn hook<T: Controlled>(&self, image: &Image<T>, sides: Sides) -> bool {
        match self {
            Place::Entry(name) => {
                let routines = image.routines_named(name);
                for routine in &routines {
                    routine.entry().call(passed::<T>, argument(sides));
                }
                !routines.is_empty()
            }
            Place::Exit(name) => {
                let routines = image.routines_named(name);
                for routine in &routines {
                    routine.exit().call(passed::<T>, argument(sides));
                    routine.unwind().call(passed::<T>, argument(sides));
                }
                !routines.is_empty()
            }
            Place::Address(address) if image.kind() == ImageKind::Program => {
                let address = address.wrapping_add(image.bias().unwrap_or(0));
                let place = image.routine_starting_at(address);
                if let Some(place) = &place {
                    place.entry().call(passed::<T>, argument(sides));
                }
                place.is_some()
            }
            Place::Address(_) => false,
        }
    }

    /// The name of its routine, if it has that.
    pub(super) fn routine(&self) -> Option<&str> {
        match self {
            Place::Entry(name) | Place::Exit(name) => Some(name),
            Place::Address(_) => None,
        }
    }
}
