//! Random programs of tasks, executed in random orders by two threads, against a graph of what orders
//! what, by which races are looked for in all pairs of accesses.

use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;
use unspool_events::{
    Access, AccessFlags, AccessKind, CalledBack, Dependence, Event, FunctionId, Sink, Span,
    SyncOperation, Synchronisation, ThreadEvent, ThreadId, TracedFunction,
};

use crate::races::{Atomicity, RaceCheck};

/// What a task does.
#[derive(Debug, Clone)]
enum Step {
    Write(u8),
    Make(Vec<(Dependence, u8)>, Vec<Step>),
    Wait,
    Group(Vec<Step>),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![3 => (0..3_u8).prop_map(Step::Write), 1 => Just(Step::Wait)];
    let step = step.prop_recursive(3, 24, 4, |inner| {
        let some = || proptest::collection::vec(inner.clone(), 0..4);
        let kind = prop_oneof![
            Just(Dependence::In),
            Just(Dependence::Out),
            Just(Dependence::InOutSet)
        ];
        // No task names an address twice.
        let dependences = proptest::collection::btree_map(0..2_u8, kind, 0..3).prop_map(|on| {
            on.into_iter()
                .map(|(address, kind)| (kind, address))
                .collect()
        });
        prop_oneof![
            1 => (0..3_u8).prop_map(Step::Write),
            3 => (dependences, some()).prop_map(|(on, steps)| Step::Make(on, steps)),
            1 => some().prop_map(Step::Group),
        ]
    });
    proptest::collection::vec(step, 1..6)
}

/// Tasks that name an address and may run beside one another, and those before them.
#[derive(Debug, Default, Clone)]
struct Siblings<T> {
    kind: Option<Dependence>,
    done: Vec<T>,
    before: Vec<T>,
}

/// Notes that a task depends so on an address, and gives those that it comes behind.
fn depend<T: Clone + Default>(
    table: &mut BTreeMap<u8, Siblings<T>>,
    (kind, address): (Dependence, u8),
    task: T,
) -> Vec<T> {
    let siblings = table.entry(address).or_default();
    if kind == Dependence::Out || siblings.kind != Some(kind) {
        siblings.before = std::mem::take(&mut siblings.done);
        siblings.kind = Some(kind);
    }
    siblings.done.push(task);
    siblings.before.clone()
}

/// What comes directly before each point, and which points are writes.
#[derive(Debug, Default)]
struct Graph {
    before: Vec<Vec<usize>>,
    writes: Vec<(usize, u8)>,
}

impl Graph {
    fn point(&mut self, before: Vec<usize>) -> usize {
        self.before.push(before);
        self.before.len() - 1
    }

    /// The steps of a task from a point on; gives the last point. What ends goes into the group.
    fn walk(
        &mut self,
        steps: &[Step],
        mut at: usize,
        made: &mut (Vec<usize>, BTreeMap<u8, Siblings<usize>>),
        group: &mut Vec<usize>,
    ) -> usize {
        for step in steps {
            match step {
                Step::Write(variable) => {
                    at = self.point(vec![at]);
                    self.writes.push((at, *variable));
                }
                Step::Wait => {
                    let children = made.0.iter().copied();
                    at = self.point(children.chain([at]).collect());
                }
                Step::Group(steps) => {
                    let mut inner = Vec::new();
                    at = self.walk(steps, at, made, &mut inner);
                    at = self.point(inner.into_iter().chain([at]).collect());
                }
                Step::Make(on, steps) => {
                    // The end has its number before it is known what comes before it.
                    let end = self.point(Vec::new());
                    let mut before = vec![at];
                    for &dependence in on {
                        before.extend(depend(&mut made.1, dependence, end));
                    }
                    let begin = self.point(before);
                    let last = self.walk(steps, begin, &mut Default::default(), group);
                    self.before[end].push(last);
                    made.0.push(end);
                    group.push(end);
                }
            }
        }
        at
    }

    fn all_before(&self, point: usize) -> BTreeSet<usize> {
        let (mut found, mut next) = (BTreeSet::new(), vec![point]);
        while let Some(point) = next.pop() {
            if found.insert(point) {
                next.extend(&self.before[point]);
            }
        }
        found
    }

    /// The variables that are written twice with no order.
    fn racing(&self) -> BTreeSet<u8> {
        let mut racing = BTreeSet::new();
        for (number, &(first, variable)) in self.writes.iter().enumerate() {
            for &(second, other) in &self.writes[..number] {
                if variable == other
                    && !self.all_before(first).contains(&second)
                    && !self.all_before(second).contains(&first)
                {
                    racing.insert(variable);
                }
            }
        }
        racing
    }
}

const DATA: u64 = 0x1000;
const RUNTIME: [&str; 6] = [
    "GOMP_parallel",
    "GOMP_task",
    "GOMP_taskwait",
    "GOMP_taskgroup_start",
    "GOMP_taskgroup_end",
    "GOMP_taskyield",
];
const REGION: u64 = 0x9000;

/// A task that was made and has not begun.
#[derive(Debug)]
struct Made<'a> {
    number: usize,
    maker: usize,
    groups: BTreeSet<usize>,
    behind: Vec<usize>,
    steps: &'a [Step],
}

/// A runtime that executes tasks when and where the bits say.
struct Runtime<'a> {
    check: RaceCheck,
    time: u64,
    depths: [u64; 2],
    chance: u64,
    functions: u32,
    made: Vec<Made<'a>>,
    tasks: usize,
    done: BTreeSet<usize>,
    groups: usize,
}

/// The task whose steps are executed, and where.
struct Place {
    task: usize,
    thread: u32,
    groups: BTreeSet<usize>,
}

impl<'a> Runtime<'a> {
    fn new(chance: u64) -> Runtime<'a> {
        let mut runtime = Runtime {
            check: RaceCheck::new(1 << 30),
            time: 0,
            depths: [0; 2],
            chance: chance | 1,
            functions: 0,
            made: Vec::new(),
            tasks: 0,
            done: BTreeSet::new(),
            groups: 0,
        };
        for name in RUNTIME {
            runtime.function(name, 0);
        }
        for thread in [0, 1] {
            let parent = None;
            let os_thread = thread;
            if thread == 0 {
                runtime.event(thread, ThreadEvent::Start { os_thread, parent });
            }
            let address = 0x4000_0000 + u64::from(thread) * 0x1000_0000;
            let variables = Some(0x100);
            runtime.event(thread, ThreadEvent::Pointer { address, variables });
        }
        runtime
    }

    fn bit(&mut self) -> bool {
        // A full period of 64 bits: Marsaglia's xorshift.
        self.chance ^= self.chance << 13;
        self.chance ^= self.chance >> 7;
        self.chance ^= self.chance << 17;
        self.chance & 1 << 40 != 0
    }

    fn event(&mut self, thread: u32, event: impl Into<Event>) {
        self.time += 1;
        self.check.event(ThreadId(thread), self.time, &event.into());
    }

    fn function(&mut self, name: &str, address: u64) -> FunctionId {
        let id = FunctionId(self.functions);
        self.functions += 1;
        let name = name.to_owned();
        self.check.function(&TracedFunction { id, name, address });
        id
    }

    fn known(name: &str) -> FunctionId {
        let place = RUNTIME.iter().position(|known| *known == name);
        FunctionId(place.expect("a function of the runtime") as u32)
    }

    fn call(&mut self, thread: u32, function: FunctionId, arguments: [u64; 3]) {
        let depth = &mut self.depths[thread as usize];
        *depth += 1;
        let stack_pointer = 0x7000_0000 - u64::from(thread) * 0x1000_0000 - 0x100 * *depth;
        let call = Span::FunctionCall {
            function,
            stack_pointer,
            arguments,
        };
        self.event(thread, call);
    }

    fn back(&mut self, thread: u32, function: FunctionId) {
        let depth = &mut self.depths[thread as usize];
        let stack_pointer = 0x7000_0000 - u64::from(thread) * 0x1000_0000 - 0x100 * *depth;
        *depth -= 1;
        let back = Span::FunctionReturn {
            function,
            stack_pointer,
            value: 0,
            stored: None,
        };
        self.event(thread, back);
    }

    fn region(&mut self, steps: &'a [Step]) {
        let fork = Self::known("GOMP_parallel");
        let region = self.function(CalledBack::Region.name(), REGION);
        self.call(0, fork, [REGION, 0, 0]);
        let child = Synchronisation {
            operation: SyncOperation::ThreadCreate,
            object: 1,
        };
        self.event(0, child);
        let parent = Some(ThreadId(0));
        let os_thread = 1;
        self.event(1, ThreadEvent::Start { os_thread, parent });
        self.call(0, region, [0; 3]);
        let place = Place {
            task: self.tasks,
            thread: 0,
            groups: BTreeSet::new(),
        };
        self.tasks += 1;
        self.task(steps, &place);
        self.back(0, region);
        self.execute(|_| true);
        self.back(0, fork);
    }

    fn task(&mut self, steps: &'a [Step], place: &Place) {
        let mut table = BTreeMap::new();
        self.steps(steps, place, &mut table);
    }

    fn steps(
        &mut self,
        steps: &'a [Step],
        place: &Place,
        table: &mut BTreeMap<u8, Siblings<usize>>,
    ) {
        let thread = place.thread;
        for step in steps {
            match step {
                Step::Write(variable) => {
                    self.time += 1;
                    let write = Access {
                        time: self.time,
                        pc: self.time,
                        address: DATA + 8 * u64::from(*variable),
                        size: 8,
                        kind: AccessKind::Write,
                        flags: AccessFlags::default(),
                    };
                    self.check.accesses(ThreadId(thread), &[write]);
                }
                Step::Wait => self.within("GOMP_taskwait", thread, |runtime| {
                    runtime.execute(|made| made.maker == place.task);
                }),
                Step::Group(steps) => {
                    self.groups += 1;
                    let number = self.groups;
                    self.within("GOMP_taskgroup_start", thread, |_| {});
                    let groups = place.groups.iter().copied().chain([number]).collect();
                    let inner = Place { groups, ..*place };
                    self.steps(steps, &inner, table);
                    self.within("GOMP_taskgroup_end", thread, |runtime| {
                        runtime.execute(|made| made.groups.contains(&number));
                    });
                }
                Step::Make(on, steps) => self.make(on, steps, place, table),
            }
            if self.bit() {
                self.within("GOMP_taskyield", thread, Runtime::execute_one);
            }
        }
    }

    fn within(&mut self, name: &str, thread: u32, does: impl FnOnce(&mut Runtime<'a>)) {
        let function = Self::known(name);
        self.call(thread, function, [0; 3]);
        does(self);
        self.back(thread, function);
    }

    fn make(
        &mut self,
        on: &[(Dependence, u8)],
        steps: &'a [Step],
        place: &Place,
        table: &mut BTreeMap<u8, Siblings<usize>>,
    ) {
        let number = self.tasks;
        self.tasks += 1;
        let mut behind = Vec::new();
        for &(dependence, address) in on {
            behind.extend(depend(table, (dependence, address), number));
            let address = address.into();
            self.event(
                place.thread,
                Span::Dependence {
                    dependence,
                    address,
                },
            );
        }
        let if_and_dependences = [0, 0, 1, 1 << 3, 0, 0];
        let arguments = if_and_dependences;
        self.event(place.thread, Span::FurtherArguments { arguments });
        let function = Self::known("GOMP_task");
        self.call(place.thread, function, [code_of(number), 0, 0]);
        self.made.push(Made {
            number,
            maker: place.task,
            groups: place.groups.clone(),
            behind,
            steps,
        });
        self.back(place.thread, function);
    }

    /// Executes tasks until none is left that is waited for.
    fn execute(&mut self, is_waited_for: impl Fn(&Made<'_>) -> bool) {
        while self.made.iter().any(&is_waited_for) {
            self.execute_one();
        }
    }

    /// Executes a task that may begin, if there is one, in a thread that waits in the runtime: all do.
    fn execute_one(&mut self) {
        let is_ready =
            |made: &Made<'_>| made.behind.iter().all(|number| self.done.contains(number));
        let ready = self.made.iter().enumerate();
        let ready: Vec<usize> = ready
            .filter(|(_, made)| is_ready(made))
            .map(|(place, _)| place)
            .collect();
        let Some(&first) = ready.first() else {
            return;
        };
        let chosen = match self.bit() {
            true => ready[ready.len() - 1],
            false => first,
        };
        let made = self.made.remove(chosen);
        let thread = u32::from(self.bit());
        let function = self.function(CalledBack::Task.name(), code_of(made.number));
        self.call(thread, function, [0; 3]);
        let place = Place {
            task: made.number,
            thread,
            groups: made.groups,
        };
        self.task(made.steps, &place);
        self.back(thread, function);
        self.done.insert(made.number);
    }
}

fn code_of(task: usize) -> u64 {
    0x10_0000 + 16 * task as u64
}

/// The variables of which races are told.
fn told(steps: &[Step], chance: u64) -> BTreeSet<u8> {
    let mut runtime = Runtime::new(chance);
    runtime.region(steps);
    let report = runtime.check.report(&[], |_, _| Atomicity::Plain);
    let races = report.races.iter().chain(&report.possible);
    races
        .map(|race| ((race.address - DATA) / 8) as u8)
        .collect()
}

fn racing(steps: &[Step]) -> BTreeSet<u8> {
    let mut graph = Graph::default();
    let begin = graph.point(Vec::new());
    graph.walk(steps, begin, &mut Default::default(), &mut Vec::new());
    graph.racing()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(20_000))]

    #[test]
    fn races_are_those_of_the_program_whoever_executes_it(steps in steps(), chance: u64) {
        prop_assert_eq!(told(&steps, chance), racing(&steps));
    }
}
