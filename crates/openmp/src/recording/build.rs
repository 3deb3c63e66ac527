//! From what the collector counted to one tree of constructs.
//!
//! Each thread has a tree of its own. A worker's starts with the regions that it took part
//! in, which name the construct of the thread that forked them; constructs of the same kind
//! at the same place in the same context are one.

use std::ffi::OsStr;
use std::path::Path;

use rustc_hash::FxHashMap;
use unspool_openmp_record::{Construct as Collected, ConstructKind, ProcessRecord};

use super::{Construct, MOST_THREADS, Process, Recording, Schedule, Share, Span, ThreadTime};
use crate::location::Location;
use crate::sources::{self, Sources};

impl Recording {
    /// Puts together what was collected in the processes of one run.
    #[must_use]
    pub fn new(command: Vec<String>, records: &[ProcessRecord]) -> Recording {
        let mut processes: Vec<Process> = records.iter().map(process).collect();
        processes.sort_by_key(|process| (process.rank, process.start_ns));
        let starts = records.iter().map(|record| record.start_unix_ns);
        Recording {
            command,
            start_unix_ns: starts.min().unwrap_or(0),
            others: None,
            processes,
        }
    }
}

fn process(record: &ProcessRecord) -> Process {
    let mut builder = Builder {
        record,
        sources: Sources::new(&record.modules),
        merged: Vec::new(),
        entries: Vec::new(),
        known: FxHashMap::default(),
        of_number: FxHashMap::default(),
    };
    for one in &record.constructs {
        builder.place(one);
    }
    let creating = ticks_creating(record);
    for one in &record.constructs {
        builder.add_share(one, creating.get(&one.number).copied().unwrap_or(0));
    }
    let spans = record
        .spans
        .iter()
        .filter_map(|span| builder.span(span))
        .collect();
    let runtimes = [
        (record.runtimes.gomp, "GNU libgomp"),
        (record.runtimes.ompt, "LLVM libomp (OMPT)"),
        (record.runtimes.mpi, "MPI"),
    ];
    let mut constructs = builder.merged;
    let slots = constructs
        .iter()
        .flat_map(|one| &one.shares)
        .map(|share| share.thread + 1);
    let peak = usize::try_from(record.peak_threads).unwrap_or(MOST_THREADS);
    let threads = slots.max().unwrap_or(0).max(peak);
    for one in &mut constructs {
        one.shares.sort_by_key(|share| share.thread);
    }
    Process {
        process: record.process,
        arguments: record.arguments.clone(),
        rank: record.rank,
        start_ns: record.start_ns,
        duration_ns: record.duration_ns(),
        threads: threads.clamp(1, MOST_THREADS),
        processors: usize::try_from(record.processors).unwrap_or(0),
        runtimes: runtimes
            .iter()
            .filter(|(is, _)| *is)
            .map(|(_, name)| (*name).to_owned())
            .collect(),
        cancelled: record.cancelled,
        thread_times: thread_times(record),
        constructs,
        spans,
        problems: record.problems.iter().map(ToString::to_string).collect(),
    }
}

/// What the kernel counted, by the number that each thread had for most of its time in regions.
fn thread_times(record: &ProcessRecord) -> Vec<ThreadTime> {
    let mut times: Vec<ThreadTime> = Vec::new();
    for (number, counted) in &record.threads {
        let own = record.constructs.iter().filter(|one| one.thread == *number);
        let Some(longest) = own.max_by_key(|one| one.total) else {
            continue;
        };
        let thread = usize::try_from(longest.slot)
            .unwrap_or(0)
            .min(MOST_THREADS - 1);
        let mut known = times.iter().position(|one| one.thread == thread);
        let index = *known.get_or_insert_with(|| {
            times.push(ThreadTime {
                thread,
                ..ThreadTime::default()
            });
            times.len() - 1
        });
        let time = &mut times[index];
        time.ran_ns = time.ran_ns.saturating_add(counted.ran_ns);
        time.without_ns = time.without_ns.saturating_add(counted.without_ns);
        time.stopped = time.stopped.saturating_add(counted.stopped);
        time.preempted = time.preempted.saturating_add(counted.preempted);
    }
    times.sort_by_key(|one| one.thread);
    times
}

/// Which of the threads that exist at one time does it.
fn thread_of(one: &Collected) -> usize {
    usize::try_from(one.slot).unwrap_or(0).min(MOST_THREADS - 1)
}

/// How long the runtime worked, in ticks, as the calls that were timed have it.
fn runtime_ticks(one: &Collected) -> u64 {
    match one.runtime_timed {
        0 => 0,
        timed => (u128::from(one.runtime_ticks) * u128::from(one.runtime_calls)
            / u128::from(timed))
        .try_into()
        .unwrap_or(u64::MAX),
    }
}

/// How long tasks were created, by the construct that did.
fn ticks_creating(record: &ProcessRecord) -> FxHashMap<u64, u64> {
    let mut creating = FxHashMap::default();
    let creations = record.constructs.iter();
    for one in creations.filter(|one| one.kind == ConstructKind::TaskCreation) {
        if let Some(creator) = one.parent {
            let sum: &mut u64 = creating.entry(creator).or_default();
            *sum = sum.saturating_add(runtime_ticks(one));
        }
    }
    creating
}

/// What makes constructs one: what encloses them, their kind, address, detail, and of regions within
/// regions which thread forks them.
type Key = (Option<usize>, ConstructKind, u64, u64, Option<usize>);

struct Builder<'record> {
    record: &'record ProcessRecord,
    sources: Sources<'record>,
    merged: Vec<Construct>,
    /// Where the program entered the runtime, of each of those.
    entries: Vec<u64>,
    known: FxHashMap<Key, usize>,
    /// The merged construct of each collected one; nothing while it is being placed.
    of_number: FxHashMap<u64, Option<usize>>,
}

impl Builder<'_> {
    /// Finds or makes the merged construct of a collected one.
    fn place(&mut self, one: &Collected) -> Option<usize> {
        if let Some(known) = self.of_number.get(&one.number) {
            // A damaged file may let regions enclose themselves: then one stands alone.
            return *known;
        }
        self.of_number.insert(one.number, None);
        let is_workers = one.kind == ConstructKind::Parallel && one.parent.is_none();
        let outer = if is_workers {
            Some(one.detail)
        } else {
            one.parent
        };
        let outer = outer.and_then(|number| self.record.find(number)).cloned();
        let outer = outer.and_then(|outer| self.place(&outer));
        let index = match (is_workers, outer) {
            // A worker's part of a region is the region.
            (true, Some(index)) if self.merged[index].kind == ConstructKind::Parallel => index,
            _ => self.merge(one, outer),
        };
        self.of_number.insert(one.number, Some(index));
        Some(index)
    }

    fn merge(&mut self, one: &Collected, parent: Option<usize>) -> usize {
        let detail = match one.kind {
            ConstructKind::Critical
            | ConstructKind::Lock
            | ConstructKind::Mpi
            | ConstructKind::Interval => one.detail,
            _ => 0,
        };
        let forked_by = self.forked_by(one, parent);
        let key = (parent, one.kind, one.address, detail, forked_by);
        if let Some(index) = self.known.get(&key) {
            return *index;
        }
        let mut location = self.locate(one, parent);
        let jumped = self.jumped_from(one);
        if let Some(place) = &jumped {
            location = place.clone();
        }
        if location
            .function
            .as_deref()
            .is_none_or(sources::is_outlined)
            && let Some(enclosing) = self.enclosing_function(parent)
        {
            location.function = Some(enclosing);
        }
        let kind = match jumped {
            Some(_) => ConstructKind::Barrier,
            None => self.kind(one, &location),
        };
        let name = match one.kind {
            // LLVM's runtime tells the lock that it has made, which says nothing to anybody.
            ConstructKind::Critical => {
                let name = self.sources.critical_name(detail);
                name.filter(|name| !name.is_empty())
            }
            // A variable may hold several.
            ConstructKind::Lock if detail != 0 => Some(match self.sources.variable_name(detail) {
                Some(variable) => format!("{variable} ({detail:#x})"),
                None => format!("{detail:#x}"),
            }),
            ConstructKind::Mpi | ConstructKind::Interval => {
                let names = &self.record.names;
                let found = names.iter().find(|(number, _)| *number == detail);
                found.map(|(_, name)| name.clone())
            }
            _ => None,
        };
        let call_path = self.call_path(one.path);
        self.merged.push(Construct {
            kind,
            parent,
            name,
            location,
            call_path,
            forked_by,
            team: 0,
            schedule: None,
            shares: Vec::new(),
        });
        self.entries.push(one.address);
        let index = self.merged.len() - 1;
        self.known.insert(key, index);
        index
    }

    /// For a region within a region: which thread forks it.
    fn forked_by(&self, one: &Collected, parent: Option<usize>) -> Option<usize> {
        let around = |index: &usize| self.merged[*index].parent;
        let is_within = std::iter::successors(parent, around)
            .any(|index| self.merged[index].kind == ConstructKind::Parallel);
        (one.kind == ConstructKind::Parallel && is_within).then(|| thread_of(one))
    }

    fn locate(&self, one: &Collected, parent: Option<usize>) -> Location {
        if one.address != 0 && self.sources.is_of_program(one.address) {
            let location = self.sources.locate(one.address);
            return self.mended(one, parent, location);
        }
        // A call at a function's very end leaves no return address in the program.
        parent
            .map(|parent| self.merged[parent].location.clone())
            .unwrap_or_default()
    }

    /// gfortran gives calls that it adds itself lines of what stands before. The function that it makes of
    /// a region's code begins on the region's line; a construct that the same call enters is there, too.
    fn mended(&self, one: &Collected, parent: Option<usize>, location: Location) -> Location {
        let file = location.file.as_deref().map(Path::new);
        let suffix = file.and_then(Path::extension).and_then(OsStr::to_str);
        let is_fortran = suffix.is_some_and(|suffix| suffix.starts_with(['f', 'F']));
        if !is_fortran {
            return location;
        }
        if one.kind == ConstructKind::Parallel {
            let begins = self.sources.locate(one.detail.saturating_add(1));
            let is_known = one.detail != 0 && begins.file == location.file && begins.line.is_some();
            return Location {
                line: if is_known { begins.line } else { location.line },
                ..location
            };
        }
        let region = parent.filter(|&parent| {
            self.merged[parent].kind == ConstructKind::Parallel
                && self.entries[parent] == one.address
        });
        Location {
            line: region.map_or(location.line, |region| self.merged[region].location.line),
            ..location
        }
    }

    /// Where a barrier is at which the program jumped into the runtime instead of calling it.
    fn jumped_from(&mut self, one: &Collected) -> Option<Location> {
        if one.kind != ConstructKind::Barrier
            || one.detail == 0
            || self.sources.is_of_program(one.address)
        {
            return None;
        }
        let barriers = self
            .record
            .constructs
            .iter()
            .filter(|other| other.kind == ConstructKind::Barrier);
        let known: Vec<u64> = barriers.map(|other| other.address).collect();
        self.sources.barrier_without_return(one.detail, &known)
    }

    fn enclosing_function(&self, parent: Option<usize>) -> Option<String> {
        let mut at = parent;
        while let Some(index) = at {
            let function = self.merged[index].location.function.as_deref();
            if let Some(function) = function.filter(|name| !sources::is_outlined(name)) {
                return Some(function.to_owned());
            }
            at = self.merged[index].parent;
        }
        None
    }

    /// What the source tells beyond the runtime's calls. gcc calls the same function for a
    /// barrier that the program asks for and for one at the end of a construct; only the
    /// former stands in the source. And work that it divides itself may be a loop there.
    fn kind(&mut self, one: &Collected, location: &Location) -> ConstructKind {
        if one.kind == ConstructKind::Divided
            && self.sources.text(location).is_some_and(is_loop_directive)
        {
            return ConstructKind::Loop;
        }
        if one.kind != ConstructKind::Barrier || !self.record.runtimes.gomp {
            return one.kind;
        }
        let says_so = |text: &str| text.to_ascii_lowercase().contains("barrier");
        let is_in_source = self.sources.is_of_program(one.address)
            && (location.line.is_none() || self.sources.starts_a_line(one.address))
            && self.sources.text(location).is_none_or(says_so);
        match is_in_source {
            true => ConstructKind::Barrier,
            false => ConstructKind::ImplicitBarrier,
        }
    }

    fn call_path(&self, number: u64) -> Vec<Location> {
        let found = self.record.paths.iter().find(|(one, _)| *one == number);
        let Some((_, addresses)) = found else {
            return Vec::new();
        };
        let of_program = addresses
            .iter()
            .filter(|address| self.sources.is_of_program(**address));
        let mut path: Vec<Location> = of_program
            .map(|address| self.sources.locate(*address))
            .collect();
        // What started the program's own first function says nothing.
        while path
            .last()
            .is_some_and(|last| last.file.is_none() && path.len() > 1)
        {
            path.pop();
        }
        path
    }

    fn add_share(&mut self, one: &Collected, creating: u64) {
        let Some(index) = self.of_number.get(&one.number).copied().flatten() else {
            return;
        };
        let ns = |ticks: u64| self.record.nanoseconds(ticks) as u64;
        let since_start = |ticks: u64| ns(ticks.saturating_sub(self.record.start_ticks));
        // Lack of processors is told apart: what remains is what the construct is the cause of.
        let (own_lacking, wait_lacking) = match one.kind.is_wait() {
            true => (one.wait_for_processor, 0),
            false => (one.without_processor, one.wait_for_processor),
        };
        let own_lacking = own_lacking.min(one.own);
        let wait_lacking = wait_lacking.min(one.wait);
        let startup_lacking = one.startup_without_processor.min(one.startup);
        // So is what the runtime does itself.
        let own = (one.own - own_lacking).saturating_sub(creating);
        let (own, runtime) = match one.kind {
            ConstructKind::TaskCreation => (0, runtime_ticks(one)),
            ConstructKind::Reduction => (0, own),
            _ => {
                let runtime = runtime_ticks(one).min(own);
                (own - runtime, runtime)
            }
        };
        let is_creation = one.kind == ConstructKind::TaskCreation;
        let new = Share {
            thread: thread_of(one),
            forked: one.kind == ConstructKind::Parallel && one.parent.is_some(),
            count: if is_creation {
                one.runtime_calls
            } else {
                one.count
            },
            total_ns: ns(one.total),
            own_ns: ns(own),
            wait_ns: ns(one.wait - wait_lacking),
            longest_wait_ns: ns(one.wait_longest),
            longest_ns: ns(one.longest),
            longest_own_ns: ns(one.own_longest),
            first_ns: since_start(one.first),
            last_ns: since_start(one.last),
            startup_ns: ns(one.startup - startup_lacking),
            last_arrivals: one.last_arrivals,
            path_ns: ns(one.path_total),
            path_wait_ns: ns(one.path_wait),
            last_wait_ns: ns(one.last_wait),
            iterations: one.iterations,
            processor_ns: ns(own_lacking),
            processor_wait_ns: ns(wait_lacking + startup_lacking),
            runtime_calls: one.runtime_calls,
            runtime_ns: ns(runtime),
            chain_ns: ns(one.chain),
        };
        let merged = &mut self.merged[index];
        merged.team = merged.team.max(one.team);
        merged.schedule = Schedule::from_number(one.schedule).or(merged.schedule);
        let known = merged
            .shares
            .iter_mut()
            .find(|share| share.thread == new.thread);
        match known {
            Some(share) => share.add(&new),
            None => merged.shares.push(new),
        }
    }

    fn span(&self, span: &unspool_openmp_record::Span) -> Option<Span> {
        let one = self.record.find(span.construct)?;
        let ns = |ticks: u64| self.record.nanoseconds(ticks) as u64;
        Some(Span {
            construct: self.of_number.get(&one.number).copied().flatten()?,
            thread: usize::try_from(one.slot).ok()?,
            begin_ns: ns(span.begin.saturating_sub(self.record.start_ticks)),
            end_ns: ns(span.end.saturating_sub(self.record.start_ticks)),
            wait_ns: ns(span.wait),
        })
    }
}

/// Whether a source line is a directive for a loop.
fn is_loop_directive(text: &str) -> bool {
    let text = text.to_ascii_lowercase();
    let is_word = |letter: char| letter.is_ascii_alphanumeric() || letter == '_';
    let mut words = text.split(|letter| !is_word(letter));
    words.any(|word| word == "omp") && words.any(|word| word == "for" || word == "do")
}

impl Share {
    fn add(&mut self, other: &Share) {
        let sums = [
            (&mut self.count, other.count),
            (&mut self.total_ns, other.total_ns),
            (&mut self.own_ns, other.own_ns),
            (&mut self.wait_ns, other.wait_ns),
            (&mut self.startup_ns, other.startup_ns),
            (&mut self.last_arrivals, other.last_arrivals),
            (&mut self.path_ns, other.path_ns),
            (&mut self.path_wait_ns, other.path_wait_ns),
            (&mut self.last_wait_ns, other.last_wait_ns),
            (&mut self.iterations, other.iterations),
            (&mut self.processor_ns, other.processor_ns),
            (&mut self.processor_wait_ns, other.processor_wait_ns),
            (&mut self.runtime_calls, other.runtime_calls),
            (&mut self.runtime_ns, other.runtime_ns),
            (&mut self.chain_ns, other.chain_ns),
        ];
        for (mine, more) in sums {
            *mine = mine.saturating_add(more);
        }
        self.forked |= other.forked;
        self.longest_wait_ns = self.longest_wait_ns.max(other.longest_wait_ns);
        self.longest_ns = self.longest_ns.max(other.longest_ns);
        self.longest_own_ns = self.longest_own_ns.max(other.longest_own_ns);
        self.first_ns = self.first_ns.min(other.first_ns);
        self.last_ns = self.last_ns.max(other.last_ns);
    }
}
