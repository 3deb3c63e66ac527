//! A controller: which part of a run a tool looks at.
//!
//! A [`Controller`] turns a [`Switch`] on where a region begins and off where it ends, for each thread
//! by itself or for all of them. What a region is bounded by says a [`Trigger`]. The tool hands on to it
//! what it is told ([`Controller::image_load`] and so on), asks it for the version of each superblock,
//! and is told of beginnings and ends ([`Controlled`]).

mod control;
pub(crate) mod missing;
mod progress;
mod timer;
mod trigger;

use std::sync::Arc;

use unspool_instrument::{Action, Annotation, Counter, Switch, ThreadWord, Version};

pub use self::control::{Control, InvalidControl};
use self::missing::Missing;
use self::progress::Progress;
pub use self::progress::RegionChange;
use self::timer::Together;
pub use self::trigger::Trigger;
use self::trigger::{Event, Sides};
use crate::argument::Constant;
use crate::code::Superblock;
use crate::image::Image;
use crate::tool::Tool;

/// A tool that looks at regions of a run.
///
/// This one counts the instructions that each thread executes between its second and third call of
/// `step`:
///
/// ```
/// use unspool_tool::{
///     Controlled, Controller, Counter, Image, RegionProgress, Superblock, Tool, Trigger, Version, say,
/// };
///
/// struct SecondStep {
///     controller: Controller,
///     executed: Counter,
/// }
///
/// impl Controlled for SecondStep {
///     fn controller(&self) -> &Controller {
///         &self.controller
///     }
///
///     fn progress(region: &mut RegionProgress) -> &mut RegionProgress {
///         region
///     }
/// }
///
/// impl Tool for SecondStep {
///     type Thread = RegionProgress;
///
///     fn image_load(&self, image: &Image<Self>) {
///         self.controller.image_load(image);
///     }
///
///     fn instrument(&self, superblock: &Superblock<Self>) {
///         if self.controller.version(superblock) == Version::On {
///             superblock.instructions().for_each(|it| it.before().count(self.executed, 1));
///         }
///     }
///
///     fn end(&self) {
///         say(&format!("{} instructions", self.executed.total()));
///     }
/// }
///
/// let tool = SecondStep {
///     controller: Controller::of_threads(Trigger::entry("step").nth(2), Trigger::entry("step")).once(),
///     executed: Counter::new(),
/// };
/// ```
pub trait Controlled: Tool {
    /// What says where regions begin and end.
    fn controller(&self) -> &Controller;

    /// How far a thread is, as the tool keeps it for the thread.
    fn progress(state: &mut Self::Thread) -> &mut RegionProgress;

    /// A region has begun. The thread that has brought it about executes the other version from the
    /// next superblock on: behind a routine's entry or exit, or an annotation, from the next instruction
    /// on.
    fn region_begins(&self, state: &mut Self::Thread, change: &RegionChange) {
        let _ = (state, change);
    }

    /// A region has ended.
    fn region_ends(&self, state: &mut Self::Thread, change: &RegionChange) {
        let _ = (state, change);
    }
}

/// How far a thread is with its regions.
#[derive(Debug, Default)]
pub struct RegionProgress(Progress);

/// Turns a switch on where a region begins, and off where it ends. See [`Controlled`].
#[derive(Debug)]
pub struct Controller {
    switch: Switch,
    rules: Rules,
    /// What counts instructions, if a number of them bounds regions.
    count: Option<Count>,
    /// How far all threads are together, if they have regions together.
    together: Option<Arc<Together>>,
    missing: Arc<Missing>,
}

/// Where regions begin and end.
#[derive(Debug, Clone)]
struct Rules {
    begin: Trigger,
    end: Trigger,
    /// Whether there is one only.
    once: bool,
}

/// What counts the instructions of threads.
#[derive(Debug, Clone, Copy)]
struct Count {
    executed: Counter,
    /// At which number the controller is to look again.
    due: ThreadWord,
}

impl Controller {
    /// One by which each thread has regions of its own.
    ///
    /// # Panics
    /// If time bounds them, which passes for all threads.
    #[must_use]
    #[track_caller]
    pub fn of_threads(begin: Trigger, end: Trigger) -> Controller {
        let controller = Controller::new(begin, end);
        assert!(
            !controller.rules.know_time(),
            "time passes for all threads: Controller::of_process"
        );
        controller
    }

    /// One for what a user asks for.
    pub(crate) fn asked(control: &Control) -> Controller {
        let (begin, end) = (control.begin.clone(), control.end.clone());
        let controller = match control.counts() {
            true => Controller::of_threads(begin, end),
            false => Controller::of_process(begin, end),
        };
        match control.repeats {
            true => controller,
            false => controller.once(),
        }
    }

    #[track_caller]
    fn new(begin: Trigger, end: Trigger) -> Controller {
        let triggers = [&begin.event, &end.event];
        let counts = triggers.contains(&&Event::Instruction);
        let missing = Missing::new(&trigger::places(&begin, &end));
        Controller {
            switch: Switch::new(),
            rules: Rules {
                begin,
                end,
                once: false,
            },
            // Not in a closure, whose line would be told if there are too many.
            count: match counts {
                true => Some(Count {
                    executed: Counter::apart(),
                    due: ThreadWord::new(),
                }),
                false => None,
            },
            together: None,
            missing,
        }
    }

    /// One by which all threads have regions together: what any of them does counts, and the switches
    /// of all are turned.
    ///
    /// # Panics
    /// If a number of instructions bounds them, which threads have by themselves.
    #[must_use]
    #[track_caller]
    pub fn of_process(begin: Trigger, end: Trigger) -> Controller {
        let controller = Controller::new(begin, end);
        assert!(
            controller.count.is_none(),
            "instructions are counted for each thread: Controller::of_threads"
        );
        Controller {
            together: Some(Arc::default()),
            ..controller
        }
    }

    /// There is one region only: of each thread, or of the process. Otherwise the next one begins as
    /// the first did, counted from the end of the one before.
    #[must_use]
    pub fn once(mut self) -> Controller {
        self.rules.once = true;
        self
    }

    /// Whether the calling thread is in a region.
    #[must_use]
    pub fn is_within(&self) -> bool {
        self.switch.is_on()
    }

    /// To be called for each image in [`Tool::image_load`]: routines that bound regions are looked for
    /// there. Where none has them until the program ends, the user is told.
    pub fn image_load<T: Controlled>(&self, image: &Image<T>) {
        let places = trigger::places(&self.rules.begin, &self.rules.end).into_iter();
        let found = places.filter(|(place, sides)| place.hook(image, *sides));
        let found: Vec<_> = found.map(|(place, _)| place).collect();
        self.missing.searched(image, &found);
    }

    /// To be called for what threads say in [`Tool::annotation`], if that bounds regions.
    pub fn annotation<T: Controlled>(&self, tool: &T, state: &mut T::Thread, said: &Annotation) {
        let event = Event::Annotation(said.clone());
        if let Some(sides) = Sides::of_event(&event, [&self.rules.begin, &self.rules.end]) {
            self.passes(tool, state, sides);
        }
    }

    /// To be called in [`Tool::thread_start`] if time bounds regions: it begins with the first thread.
    pub fn thread_start(&self) {
        if let Some(together) = &self.together
            && self.rules.know_time()
        {
            together.keep_time(self.switch, &self.rules);
        }
    }

    /// To be called in [`Tool::forked`] if numbers of instructions or time bound regions. In the child,
    /// whose counters are at zero, instructions are counted from there: what had been executed since
    /// the last region began or ended is not part of it. Time goes on.
    pub fn forked<T: Controlled>(&self, state: &mut T::Thread) {
        if let Some(together) = &self.together
            && self.rules.know_time()
        {
            together.keep_time_anew(self.switch, &self.rules);
        }
        if self.count.is_some() {
            let progress = &mut T::progress(state).0;
            progress.begin_anew();
            self.await_number(progress);
        }
    }

    /// To be called for each superblock in [`Tool::instrument`]: which version of it this is. What the
    /// tool wants of regions it inserts into [`Version::On`].
    #[must_use]
    pub fn version<T: Controlled>(&self, superblock: &Superblock<'_, T>) -> Version {
        if let Some(count) = self.count {
            count.insert(superblock);
        }
        superblock.version(self.switch)
    }

    /// A thread passes a place that bounds regions.
    fn passes<T: Controlled>(&self, tool: &T, state: &mut T::Thread, sides: Sides) {
        let change = match &self.together {
            None => {
                let progress = &mut T::progress(state).0;
                let executed = self.count.map(|count| count.executed.of_this_thread());
                let change = progress.pass((sides, executed), &self.rules);
                self.turn(&change, progress);
                change
            }
            Some(together) => {
                let rules = &self.rules;
                together.change(self.switch, |progress| progress.pass((sides, None), rules))
            }
        };
        tell(tool, state, change);
    }

    /// The thread has come so far; a region of it has begun or ended by that, or not.
    fn turn(&self, change: &Option<RegionChange>, progress: &Progress) {
        if let Some(change) = change {
            self.switch.set(change.is_begin);
        }
        self.await_number(progress);
    }

    /// The controller looks again at the number of instructions that bounds the thread's next region.
    fn await_number(&self, progress: &Progress) {
        if let Some(count) = self.count {
            count.due.set(progress.due(&self.rules));
        }
    }
}

impl Rules {
    fn know_time(&self) -> bool {
        let bounds = [&self.begin, &self.end];
        bounds.iter().any(|it| matches!(it.event, Event::Time(_)))
    }
}

impl Count {
    /// Has the instructions of a superblock counted, and the number looked at where it is reached.
    fn insert<T: Controlled>(self, superblock: &Superblock<'_, T>) {
        let instructions = superblock.instructions();
        instructions.for_each(|it| it.before().count(self.executed, 1));
        superblock.when_reached(|point| Action::Reaches {
            counter: self.executed,
            word: self.due,
            call: point.analysis(counted::<T>, &()),
        });
    }
}

/// What inserted code calls where a thread has executed so many instructions that a region may begin
/// or end: at its start, too.
fn counted<T: Controlled>(tool: &T, state: &mut T::Thread) {
    let controller = tool.controller();
    let Some(count) = controller.count else {
        return;
    };
    let progress = &mut T::progress(state).0;
    let change = progress.count(count.executed.of_this_thread(), &controller.rules);
    controller.turn(&change, progress);
    tell(tool, state, change);
}

/// Tells the tool what has become of regions.
fn tell<T: Controlled>(tool: &T, state: &mut T::Thread, change: Option<RegionChange>) {
    match change {
        Some(change) if change.is_begin => tool.region_begins(state, &change),
        Some(change) => tool.region_ends(state, &change),
        None => {}
    }
}

/// What inserted code calls where a region may begin or end.
fn passed<T: Controlled>(tool: &T, state: &mut T::Thread, sides: u64) {
    tool.controller().passes(tool, state, Sides::of(sides));
}

/// The arguments of [`passed`].
fn argument(sides: Sides) -> (Constant<u64>,) {
    (Constant(sides.number()),)
}
