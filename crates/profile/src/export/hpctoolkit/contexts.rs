//! From call paths to a tree of functions, and the lines or instructions in them.

use std::collections::BTreeMap;

use rustc_hash::FxHashMap;
use unspool_profile_record::{PathEnd, Sample};

use crate::named_paths::NamedPaths;

/// What all contexts are in, and which none is.
pub(super) const GLOBAL: u32 = 0;

/// How a thread's code was entered.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(u16)]
pub(super) enum Entry {
    Unknown = 0,
    MainThread = 1,
    ApplicationThread = 2,
}

impl Entry {
    pub(super) fn name(self) -> &'static str {
        match self {
            Entry::Unknown => "unknown entry",
            Entry::MainThread => "main thread",
            Entry::ApplicationThread => "application thread",
        }
    }
}

/// A context, apart from where it is. Numbers are places in lists.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Kind {
    Entry(Entry),
    /// A function, which was called or inlined.
    Function {
        function: usize,
        is_inlined: bool,
    },
    Line {
        file: usize,
        line: u32,
    },
    Instruction {
        module: usize,
        offset: u64,
    },
}

impl Kind {
    /// Whether it is a part of the context that it is in, and was not called from there.
    pub(super) fn is_within(self) -> bool {
        matches!(self, Kind::Line { .. } | Kind::Instruction { .. })
    }
}

#[derive(Debug, Clone, Copy)]
pub(super) struct Context {
    pub(super) parent: u32,
    pub(super) kind: Kind,
}

/// A function by its name, and where it begins if that is known.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Function {
    pub(super) name: String,
    pub(super) entry: Option<(usize, u64)>,
}

/// A list in which each is once.
#[derive(Debug)]
pub(super) struct Unique<T> {
    pub(super) all: Vec<T>,
    places: FxHashMap<T, usize>,
}

impl<T> Default for Unique<T> {
    fn default() -> Unique<T> {
        Unique {
            all: Vec::new(),
            places: FxHashMap::default(),
        }
    }
}

impl<T: Clone + Eq + std::hash::Hash> Unique<T> {
    fn place(&mut self, one: T) -> usize {
        let next = self.all.len();
        let place = *self.places.entry(one.clone()).or_insert(next);
        if place == next {
            self.all.push(one);
        }
        place
    }
}

/// The tree. A context's number is one more than its place, and greater than that of the one it is in.
pub(super) struct Contexts<'a> {
    paths: &'a NamedPaths<'a>,
    all: Vec<Context>,
    numbers: FxHashMap<(u32, Kind), u32>,
    of_paths: FxHashMap<(Option<u32>, Entry), u32>,
    pub(super) functions: Unique<Function>,
    pub(super) files: Unique<String>,
    pub(super) modules: Unique<String>,
}

impl<'a> Contexts<'a> {
    pub(super) fn new(paths: &'a NamedPaths<'a>) -> Contexts<'a> {
        Contexts {
            paths,
            all: Vec::new(),
            numbers: FxHashMap::default(),
            of_paths: FxHashMap::default(),
            functions: Unique::default(),
            files: Unique::default(),
            modules: Unique::default(),
        }
    }

    /// How many there are.
    pub(super) fn len(&self) -> usize {
        self.all.len()
    }

    /// All, with their numbers.
    pub(super) fn all(&self) -> impl Iterator<Item = (u32, &Context)> {
        (1..).zip(&self.all)
    }

    pub(super) fn context(&self, number: u32) -> Option<&Context> {
        self.all.get(number.checked_sub(1)? as usize)
    }

    /// The context in which a sample was taken.
    pub(super) fn of(&mut self, sample: &Sample) -> u32 {
        let entry = match sample.end {
            PathEnd::Outermost if sample.pid == sample.tid => Entry::MainThread,
            PathEnd::Outermost => Entry::ApplicationThread,
            PathEnd::CutOff | PathEnd::Failed | PathEnd::NoStack => Entry::Unknown,
        };
        let key = (sample.node, entry);
        if let Some(&known) = self.of_paths.get(&key) {
            return known;
        }
        let mut context = self.number(GLOBAL, Kind::Entry(entry));
        for frame in self.paths.frames(sample).into_iter().rev() {
            context = self.frame(context, frame);
        }
        self.of_paths.insert(key, context);
        context
    }

    /// What a frame is in another context: its functions, those that were inlined last, each with its line.
    fn frame(&mut self, mut context: u32, number: u32) -> u32 {
        let paths = self.paths;
        let frame = &paths.recording.frames[&number];
        let named = paths.frame(number);
        let module = self.modules.place(match named.image.as_str() {
            "" => "[unknown]".to_owned(),
            image => image.to_owned(),
        });
        let start = paths.names.code_of(frame).map(|code| code.start);
        let mut steps: Vec<_> = paths.steps(number).collect();
        steps.reverse();
        let innermost = steps.len().saturating_sub(1);
        for (place, step) in steps.into_iter().enumerate() {
            let is_inlined = place > 0;
            let function = self.functions.place(Function {
                name: step.name.to_owned(),
                entry: start.filter(|_| !is_inlined).map(|start| (module, start)),
            });
            let kind = Kind::Function {
                function,
                is_inlined,
            };
            context = self.number(context, kind);
            let within = match step.line {
                Some(line) => Some(Kind::Line {
                    file: self.files.place(line.file.clone()),
                    line: line.line,
                }),
                None if place == innermost => Some(Kind::Instruction {
                    module,
                    offset: frame.address,
                }),
                None => None,
            };
            if let Some(within) = within {
                context = self.number(context, within);
            }
        }
        context
    }

    fn number(&mut self, parent: u32, kind: Kind) -> u32 {
        let next = u32::try_from(self.all.len() + 1).unwrap_or(u32::MAX);
        let number = *self.numbers.entry((parent, kind)).or_insert(next);
        if number == next {
            self.all.push(Context { parent, kind });
        }
        number
    }
}

/// A thread, as people know it.
pub(super) struct Thread {
    pub(super) rank: Option<u32>,
    /// The kernel's number of its process, and that among all.
    pub(super) process: (u32, u32),
    /// Its number in its process, in the order of the kernel's.
    pub(super) index: u32,
}

/// All threads that were sampled. A thread's number is one more than its place: 0 is all of them.
pub(super) struct Threads {
    pub(super) all: Vec<Thread>,
    numbers: BTreeMap<(u32, u32), u32>,
}

impl Threads {
    pub(super) fn new(paths: &NamedPaths<'_>) -> Threads {
        let recording = paths.recording;
        let waits = recording.waits.iter().flatten().map(|wait| &wait.sample);
        let events = recording.events.values().flat_map(|it| &it.samples);
        let samples = recording.samples.iter().chain(waits).chain(events);
        let mut keys: Vec<(u32, u32)> = samples.map(|it| (it.pid, it.tid)).collect();
        keys.sort_unstable();
        keys.dedup();
        let mut all: Vec<Thread> = Vec::new();
        for (pid, _) in &keys {
            let (process, index) = match all.last() {
                Some(last) if last.process.0 == *pid => (last.process.1, last.index + 1),
                Some(last) => (last.process.1 + 1, 0),
                None => (0, 0),
            };
            all.push(Thread {
                rank: paths.rank(*pid),
                process: (*pid, process),
                index,
            });
        }
        let numbers = keys.into_iter().zip(1..).collect();
        Threads { all, numbers }
    }

    pub(super) fn number(&self, thread: (u32, u32)) -> u32 {
        self.numbers[&thread]
    }
}
