//! What may run at the same time in a program of OpenMP, though one thread happens to execute it.
//!
//! A runtime hands work to threads by queues, locks and barriers of its own, and what one thread
//! executes comes one behind the other. Neither says what the program has ordered. So what the
//! runtime does itself is not looked at, each part of the program that it calls is a thread of its own
//! (a *part*: what a thread of a team executes of a region, a task, a section), and the calls of the
//! runtime say what orders them: that a part is made before it begins, and what is waited for.
//!
//! The events must have the calls of the runtime, with what they give to be called, and of functions
//! that allocate: memory that is given out again is other memory. Without them there are no parts.

mod operation;
mod tasks;

use std::collections::{BTreeMap, BTreeSet};

use rustc_hash::FxHashMap;
use unspool_events::{
    CalledBack, Dependence, Event, FunctionId, Span, ThreadEvent, ThreadId, TracedFunction,
};

use operation::{Given, Lock, Operation, operation_of};
use tasks::{Made, Sections, Task, TaskLoop, Team, TeamId};

use super::detector::Detector;
use super::known::Known;
use super::program_parts::PartKind;
use crate::call_paths::ContextId;
use crate::heap;

/// The threads as the program sees them.
#[derive(Debug, Default)]
pub(super) struct OpenMp {
    functions: FxHashMap<FunctionId, Function>,
    has_runtime: bool,
    threads: FxHashMap<ThreadId, Thread>,
    /// Those of parts that run, and of threads outside of all regions.
    tasks: FxHashMap<ThreadId, Task>,
    teams: FxHashMap<TeamId, Team>,
    /// The team that executes a function with this data.
    active: FxHashMap<(u64, u64), TeamId>,
    teams_made: u64,
    made: FxHashMap<ThreadId, Made>,
    /// Those that were made of a function, by its address.
    made_of: FxHashMap<u64, BTreeSet<ThreadId>>,
    /// Blocks of memory that the making of tasks has allocated: their sizes, and the task.
    blocks: BTreeMap<u64, (u64, ThreadId)>,
    /// What stands for tasks of LLVM's.
    allocated: FxHashMap<u64, Allocated>,
    loops: FxHashMap<u64, TaskLoop>,
    locks: FxHashMap<LockId, Known>,
    /// What is known by those that end tasks from elsewhere.
    fulfilled: Known,
}

/// A function whose calls are among the events.
#[derive(Debug, Clone, Copy)]
enum Function {
    Runtime(Operation),
    CalledBack(CalledBack, u64),
    Heap(heap::Operation),
}

/// A thread as the system sees it.
#[derive(Debug, Default)]
struct Thread {
    /// Whether a runtime has created it: outside of what it calls it is the runtime's.
    is_of_runtime: bool,
    frames: Vec<Frame>,
    further: [u64; 6],
    dependences: Vec<(Dependence, u64)>,
}

/// A call that has not returned.
#[derive(Debug)]
struct Frame {
    function: FunctionId,
    stack_pointer: u64,
    what: What,
}

#[derive(Debug)]
enum What {
    /// The runtime.
    Runtime(RuntimeCall),
    /// What the runtime has called: the part that runs, none where it is not known.
    Program(Option<Running>),
    /// A function that allocates or frees.
    Heap(heap::Operation, [u64; 3]),
}

/// A call of the runtime.
#[derive(Debug)]
struct RuntimeCall {
    operation: Operation,
    arguments: [u64; 3],
    further: [u64; 6],
    /// What the program is that has called, if it has.
    caller: Option<ThreadId>,
    /// The task that it makes.
    made: Option<ThreadId>,
    /// What the caller comes behind when it returns.
    waits_for: Vec<Known>,
    /// The team that it waits for.
    team: Option<TeamId>,
}

/// A part that runs.
#[derive(Debug, Clone, Copy)]
struct Running {
    part: ThreadId,
    section: Option<ThreadId>,
    /// Whether it ends with the call.
    ends: bool,
    /// Memory of its maker that it has used as its own.
    borrowed: (u64, u64),
}

/// What stands for a task of LLVM's.
#[derive(Debug, Clone, Copy)]
struct Allocated {
    function: u64,
    bytes: u64,
    is_final: bool,
    made: Option<ThreadId>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum LockId {
    Global(u8),
    At(u64),
}

/// `GOMP_TASK_FLAG_FINAL` and `GOMP_TASK_FLAG_NOGROUP`.
const FINAL: u64 = 1 << 1;
const NO_GROUP: u64 = 1 << 11;
/// The bit of a `kmp_tasking_flags_t` that says that a task is final.
const FINAL_OF_LLVM: u64 = 1 << 1;
/// A `bool` or an `int` in a register whose other bits are anything.
const LOW_BYTE: u64 = 0xff;

impl RuntimeCall {
    /// Whether the tasks of a loop that it makes are a group, for which it waits.
    fn loop_is_group(&self, given: Given) -> bool {
        match given {
            Given::Gnu => self.further[2] & NO_GROUP == 0,
            Given::Llvm => self.further[4] as u32 == 0,
        }
    }
}

impl Running {
    fn now(&self) -> ThreadId {
        self.section.unwrap_or(self.part)
    }
}

impl Thread {
    /// What of the program runs in it; none where something else does.
    fn now(&self, id: ThreadId) -> Option<ThreadId> {
        match self.frames.last() {
            None => (!self.is_of_runtime).then_some(id),
            Some(Frame { what, .. }) => match what {
                What::Program(running) => running.map(|it| it.now()),
                What::Runtime(_) | What::Heap(..) => None,
            },
        }
    }

    /// The part that has called the runtime, or what that has called.
    fn part(&self, id: ThreadId) -> Option<ThreadId> {
        let mut inner_first = self.frames.iter().rev();
        let running = inner_first.find_map(|frame| match &frame.what {
            What::Program(running) => Some(running.map(|it| it.part)),
            _ => None,
        });
        running.unwrap_or((!self.is_of_runtime).then_some(id))
    }

    fn running(&mut self) -> Option<&mut Running> {
        let mut inner_first = self.frames.iter_mut().rev();
        inner_first.find_map(|frame| match &mut frame.what {
            What::Program(running) => Some(running.as_mut()),
            _ => None,
        })?
    }

    /// The call of the runtime in which it is.
    fn runtime_call(&mut self) -> Option<&mut RuntimeCall> {
        let Some(Frame {
            what: What::Runtime(call),
            ..
        }) = self.frames.last_mut()
        else {
            return None;
        };
        Some(call)
    }
}

impl OpenMp {
    /// A function whose calls may come.
    pub(super) fn function(&mut self, function: &TracedFunction) {
        let name = &function.name;
        let called_back = CalledBack::ALL.into_iter().find(|it| it.name() == name);
        let known = if let Some(what) = called_back {
            Function::CalledBack(what, function.address)
        } else if let Some(operation) = operation_of(name) {
            self.has_runtime = true;
            Function::Runtime(operation)
        } else if let Some(operation) = heap::operation_of(name) {
            Function::Heap(operation)
        } else {
            return;
        };
        self.functions.insert(function.id, known);
    }

    /// What of the program runs in a thread: a part, or the thread itself. None where a runtime does, or
    /// what allocates memory for the program.
    pub(super) fn now(&self, id: ThreadId) -> Option<ThreadId> {
        match self.threads.get(&id) {
            Some(thread) => thread.now(id),
            None => Some(id),
        }
    }

    /// A thread is created by another. Returns whether the runtime has created it.
    pub(super) fn creates(&mut self, id: ThreadId, child: ThreadId) -> bool {
        let is_of_runtime = self.has_runtime && self.now(id).is_none();
        if is_of_runtime {
            self.threads.entry(child).or_default().is_of_runtime = true;
        }
        is_of_runtime
    }

    /// Something has happened in a thread, to which these calls have led.
    pub(super) fn event(
        &mut self,
        detector: &mut Detector,
        id: ThreadId,
        event: &Event,
        context: ContextId,
    ) {
        match event {
            Event::Thread(ThreadEvent::Pointer { address, variables }) => {
                detector.parts.has_pointer(id, *address, *variables);
            }
            Event::Thread(ThreadEvent::End) => {
                self.threads.remove(&id);
                self.tasks.remove(&id);
            }
            Event::Span(span) if self.has_runtime => self.span(detector, id, *span, context),
            _ => {}
        }
    }

    fn span(&mut self, detector: &mut Detector, id: ThreadId, span: Span, context: ContextId) {
        match span {
            Span::FurtherArguments { arguments } => {
                self.threads.entry(id).or_default().further = arguments;
            }
            Span::Dependence {
                dependence,
                address,
            } => {
                let thread = self.threads.entry(id).or_default();
                thread.dependences.push((dependence, address));
            }
            Span::FunctionCall {
                function,
                stack_pointer,
                arguments,
            } => {
                let Some(&known) = self.functions.get(&function) else {
                    return;
                };
                self.leave_frames(detector, id, stack_pointer);
                let is_of_runtime = self.threads.entry(id).or_default().is_of_runtime;
                detector.parts.calls(id, stack_pointer, is_of_runtime);
                let what = self.begins(detector, (id, context), known, stack_pointer, arguments);
                if let Some(what) = what {
                    let thread = self.threads.entry(id).or_default();
                    thread.frames.push(Frame {
                        function,
                        stack_pointer,
                        what,
                    });
                }
            }
            Span::FunctionReturn {
                function,
                stack_pointer,
                value,
                stored,
            } => {
                self.leave_frames(detector, id, stack_pointer);
                let is_it = |frame: &mut Frame| {
                    frame.function == function && frame.stack_pointer == stack_pointer
                };
                let thread = self.threads.entry(id).or_default();
                if let Some(frame) = thread.frames.pop_if(is_it) {
                    self.returns(detector, id, frame.what, (value, stored));
                }
            }
            Span::RegionStart | Span::RegionEnd => {}
        }
    }

    /// Calls were left by a jump out of them whose frames are below what is in use of the stack.
    fn leave_frames(&mut self, detector: &mut Detector, id: ThreadId, stack_pointer: u64) {
        while let Some(thread) = self.threads.get_mut(&id)
            && let Some(frame) = thread
                .frames
                .pop_if(|frame| frame.stack_pointer < stack_pointer)
        {
            self.part_ends(detector, &frame.what);
        }
    }

    /// A function is called.
    fn begins(
        &mut self,
        detector: &mut Detector,
        (id, context): (ThreadId, ContextId),
        function: Function,
        stack_pointer: u64,
        arguments: [u64; 3],
    ) -> Option<What> {
        let thread = self.threads.entry(id).or_default();
        let caller = thread.now(id);
        match function {
            Function::Heap(operation) => Some(What::Heap(operation, arguments)),
            Function::Runtime(operation) => {
                let further = std::mem::take(&mut thread.further);
                let dependences = std::mem::take(&mut thread.dependences);
                let mut call = RuntimeCall {
                    operation,
                    arguments,
                    further,
                    caller,
                    made: None,
                    waits_for: Vec::new(),
                    team: None,
                };
                if let Some(caller) = caller
                    && let Some(part) = thread.part(id)
                {
                    self.enters(
                        detector,
                        (id, context),
                        (caller, part),
                        &mut call,
                        &dependences,
                    );
                }
                Some(What::Runtime(call))
            }
            Function::CalledBack(what, address) => {
                let is_open = |task: &Task| task.open_region.is_some();
                let opens = caller.and_then(|caller| self.tasks.get(&caller));
                if caller.is_some() && !opens.is_some_and(is_open) {
                    // The program calls it itself.
                    return None;
                }
                let place = (id, stack_pointer);
                Some(What::Program(match what {
                    CalledBack::Region => self.region_begins(detector, place, (address, arguments)),
                    CalledBack::Task => self.task_begins(detector, place, (address, arguments)),
                    CalledBack::Caller => self.threads.get(&id)?.part(id).map(|part| Running {
                        part,
                        section: None,
                        ends: false,
                        borrowed: (0, 0),
                    }),
                }))
            }
        }
    }

    /// A call has returned.
    fn returns(
        &mut self,
        detector: &mut Detector,
        id: ThreadId,
        what: What,
        (value, stored): (u64, Option<u64>),
    ) {
        match what {
            What::Heap(operation, arguments) => {
                if let Some(size) = operation.allocates(&arguments)
                    && let Some(address) = operation.result(value, stored)
                {
                    self.allocated(detector, id, address, size);
                }
            }
            What::Program(_) => self.part_ends(detector, &what),
            What::Runtime(call) => {
                if let Some(caller) = call.caller {
                    self.leaves(detector, id, caller, call, value);
                }
            }
        }
    }

    /// Memory was given out: what was there before is gone.
    fn allocated(&mut self, detector: &mut Detector, id: ThreadId, address: u64, size: u64) {
        detector.forget(address, size);
        let thread = self.threads.entry(id).or_default();
        if let Some(call) = thread.runtime_call()
            && let Some(made) = call.made
            && let Some(task) = self.made.get_mut(&made)
        {
            task.blocks.push(address);
            self.blocks.insert(address, (size, made));
        }
    }

    fn team_of(&self, part: ThreadId) -> Option<(TeamId, u64)> {
        let task = self.tasks.get(&part)?;
        Some((task.team?, task.barriers_passed))
    }

    fn barrier(&mut self, part: ThreadId) -> Option<Known> {
        let (team, number) = self.team_of(part)?;
        Some(self.teams.get_mut(&team)?.barrier(number))
    }

    fn lock(&mut self, lock: Lock, part: ThreadId, call: &RuntimeCall) -> Option<Known> {
        let id = match lock {
            Lock::Global(number) => LockId::Global(number),
            Lock::At(argument) => LockId::At(call.arguments[argument]),
            Lock::OfTeam(what) => {
                let (team, _) = self.team_of(part)?;
                return Some(self.teams.get_mut(&team)?.own(what));
            }
        };
        Some(self.locks.entry(id).or_default().clone())
    }

    /// The program calls the runtime: `caller` is what runs, a section perhaps, of the part.
    fn enters(
        &mut self,
        detector: &mut Detector,
        (id, context): (ThreadId, ContextId),
        (caller, part): (ThreadId, ThreadId),
        call: &mut RuntimeCall,
        dependences: &[(Dependence, u64)],
    ) {
        let [first, second, third] = call.arguments;
        let released = match call.operation {
            Operation::Region(given) => {
                let key = match given {
                    Given::Gnu => (first, second),
                    Given::Llvm => (third, 0),
                };
                let team = self.fork(key, (caller, context));
                call.team = Some(team);
                self.teams.get(&team).map(|team| team.fork.clone())
            }
            Operation::RegionStart => {
                let team = self.fork((first, second), (caller, context));
                self.tasks.entry(part).or_default().open_region = Some(team);
                self.teams.get(&team).map(|team| team.fork.clone())
            }
            Operation::Barrier | Operation::ReduceEnd { waits: true } => self.barrier(part),
            Operation::Reduce { waits: true } => self.barrier(part),
            Operation::SectionsEnd { waits } => {
                self.section_ends(detector, id);
                match waits {
                    true => self.barrier(part),
                    false => None,
                }
            }
            Operation::Section => {
                self.section_ends(detector, id);
                None
            }
            Operation::Release(lock) => self.lock(lock, part, call),
            Operation::CopyEnd => self.lock(Lock::OfTeam(operation::OfTeam::Copied), part, call),
            Operation::ReduceEnd { waits: false } => None,
            Operation::Task => {
                let (has_condition, flags) = (call.further[2] & LOW_BYTE != 0, call.further[3]);
                let order = Ordered {
                    is_at_once: !has_condition || flags & FINAL != 0,
                    is_final: flags & FINAL != 0,
                    function: first,
                    data: (second, call.further[0]),
                };
                let by = (caller, part, context);
                self.task_made(detector, by, dependences, order, call);
                None
            }
            Operation::TaskMade => {
                if let Some(allocated) = self.allocated.get(&third) {
                    let order = Ordered {
                        is_at_once: allocated.is_final,
                        is_final: allocated.is_final,
                        function: allocated.function,
                        data: (0, 0),
                    };
                    let by = (caller, part, context);
                    self.task_made(detector, by, dependences, order, call);
                }
                if let Some(allocated) = self.allocated.get_mut(&third) {
                    allocated.made = call.made;
                }
                None
            }
            Operation::TaskLoop(given) => {
                self.loop_begins(detector, (caller, part), context, given, call);
                None
            }
            Operation::GroupStart => {
                let group = Known::default();
                self.tasks.entry(part).or_default().groups.push(group);
                None
            }
            Operation::WhichThread => {
                detector.parts.asks(caller);
                None
            }
            Operation::Fulfil => Some(self.fulfilled.clone()),
            Operation::DependenceWait => {
                let task = self.tasks.entry(part).or_default();
                for &(how, address) in dependences {
                    call.waits_for.extend(task.waited_for(how, address));
                }
                None
            }
            _ => None,
        };
        if let Some(released) = released {
            detector.release_to(caller, &released);
        }
        if matches!(call.operation, Operation::ReduceEnd { .. })
            && let Some(lock) = self.lock(Lock::At(2), part, call)
        {
            detector.release_to(caller, &lock);
        }
    }

    /// The runtime returns to the program.
    fn leaves(
        &mut self,
        detector: &mut Detector,
        id: ThreadId,
        caller: ThreadId,
        mut call: RuntimeCall,
        value: u64,
    ) {
        // A section has ended, or begins.
        let Some(part) = self.threads.get(&id).and_then(|thread| thread.part(id)) else {
            return;
        };
        // Where it is an `int`, the upper half of the register is anything.
        let int = value as u32;
        let mut learnt = std::mem::take(&mut call.waits_for);
        match call.operation {
            Operation::Region(_) => learnt.extend(call.team.and_then(|team| self.joined(team))),
            Operation::RegionEnd => {
                let open = self
                    .tasks
                    .get_mut(&part)
                    .and_then(|it| it.open_region.take());
                learnt.extend(open.and_then(|team| self.joined(team)));
            }
            Operation::Barrier
            | Operation::ReduceEnd { waits: true }
            | Operation::SectionsEnd { waits: true } => {
                learnt.extend(self.passed_barrier(part));
                learnt.extend(self.sections_done(part));
            }
            Operation::SectionsEnd { waits: false } => learnt.extend(self.sections_done(part)),
            Operation::Reduce { waits } => {
                if int == 1 {
                    // Which lock it is comes behind the third argument.
                    let lock = LockId::At(call.further[3]);
                    learnt.push(self.locks.entry(lock).or_default().clone());
                }
                match int {
                    0 if waits => learnt.extend(self.passed_barrier(part)),
                    1 if waits => learnt.extend(self.barrier(part)),
                    _ => {}
                }
            }
            Operation::Acquire(lock) => learnt.extend(self.lock(lock, part, &call)),
            Operation::TryAcquire(lock) if int != 0 => {
                learnt.extend(self.lock(lock, part, &call));
            }
            Operation::CopyStart if value != 0 => {
                let copied = Lock::OfTeam(operation::OfTeam::Copied);
                learnt.extend(self.lock(copied, part, &call));
            }
            Operation::TaskAllocate => {
                let [size, shared, function, ..] = call.further;
                let bytes = size.saturating_add(shared);
                detector.forget(value, bytes);
                let allocated = Allocated {
                    function,
                    bytes,
                    is_final: call.arguments[2] & FINAL_OF_LLVM != 0,
                    made: None,
                };
                self.allocated.insert(value, allocated);
            }
            Operation::TaskLoop(given) => learnt.extend(self.loop_ends(part, given, &call)),
            Operation::TaskWait => {
                learnt.push(self.tasks.entry(part).or_default().children.clone());
            }
            Operation::GroupEnd => {
                learnt.extend(self.tasks.entry(part).or_default().groups.pop());
            }
            Operation::Section => {
                let is_in_team = self.team_of(part).is_some();
                if int == 0 {
                    let sections = self.tasks.get(&part).and_then(|it| it.sections.clone());
                    learnt.extend(sections.map(|it| it.done));
                } else if is_in_team {
                    self.section_begins(detector, id, part);
                }
            }
            _ => {}
        }
        let now = match call.operation {
            Operation::Section | Operation::SectionsEnd { .. } => part,
            _ => caller,
        };
        if !learnt.is_empty() {
            learnt.push(self.fulfilled.clone());
        }
        for known in &learnt {
            detector.acquire_from(now, known);
        }
    }

    /// Somebody begins a region, or one more that cannot be told from it.
    fn fork(&mut self, key: (u64, u64), maker: (ThreadId, ContextId)) -> TeamId {
        let next = &mut self.teams_made;
        let id = *self.active.entry(key).or_insert_with(|| {
            *next += 1;
            TeamId(*next)
        });
        let team = self.teams.entry(id).or_default();
        team.waiting += 1;
        team.maker.get_or_insert(maker);
        id
    }

    /// Somebody has waited for a team.
    fn joined(&mut self, id: TeamId) -> Option<Known> {
        let team = self.teams.get_mut(&id)?;
        team.waiting -= 1;
        let join = team.join.clone();
        if team.waiting == 0 {
            self.teams.remove(&id);
            self.active.retain(|_, active| *active != id);
        }
        Some(join)
    }

    fn passed_barrier(&mut self, part: ThreadId) -> Option<Known> {
        let known = self.barrier(part)?;
        let (team, number) = self.team_of(part)?;
        self.teams.get_mut(&team)?.has_left(number);
        self.tasks.get_mut(&part)?.barriers_passed += 1;
        Some(known)
    }

    /// A thread begins to execute a region's function.
    fn region_begins(
        &mut self,
        detector: &mut Detector,
        place: (ThreadId, u64),
        (function, arguments): (u64, [u64; 3]),
    ) -> Option<Running> {
        let active = self.active.get(&(function, arguments[0]));
        let id = *active.or_else(|| self.active.get(&(function, 0)))?;
        let team = self.teams.get(&id)?;
        let part = detector.parts.number();
        let maker = team.maker?;
        detector.begin_part(
            part,
            PartKind::Region,
            place,
            maker,
            std::slice::from_ref(&team.fork),
        );
        let task = Task {
            team: Some(id),
            into: vec![team.join.clone()],
            ..Task::default()
        };
        self.tasks.insert(part, task);
        Some(Running {
            part,
            section: None,
            ends: true,
            borrowed: (0, 0),
        })
    }

    /// A task is made by a call.
    fn task_made(
        &mut self,
        detector: &mut Detector,
        (caller, part, context): (ThreadId, ThreadId, ContextId),
        dependences: &[(Dependence, u64)],
        order: Ordered,
        call: &mut RuntimeCall,
    ) {
        let mut task = self.task_by(part);
        task.is_final |= order.is_final;
        let before = Known::default();
        detector.release_to(caller, &before);
        task.after.push(before);
        let made_by = self.tasks.entry(part).or_default();
        for &(how, address) in dependences {
            let (before, done) = made_by.depend(how, address);
            task.after.extend(before);
            task.into.push(done);
        }
        // Whoever makes a task goes on behind one that is not put off, and outside of all regions there
        // is nobody else who might execute it.
        let is_at_once = order.is_at_once || made_by.is_final || task.team.is_none();
        if is_at_once {
            let end = Known::default();
            task.into.push(end.clone());
            call.waits_for.push(end);
        }
        let id = detector.parts.number();
        call.made = Some(id);
        self.made_of.entry(order.function).or_default().insert(id);
        let made = Made {
            task,
            maker: (caller, context),
            data: order.data,
            blocks: Vec::new(),
        };
        self.made.insert(id, made);
    }

    /// What a task comes behind and who waits for it, by who makes it.
    fn task_by(&mut self, part: ThreadId) -> Task {
        let made_by = self.tasks.entry(part).or_default();
        let mut task = Task {
            team: made_by.team,
            barriers_passed: made_by.barriers_passed,
            is_final: made_by.is_final,
            groups: made_by.groups.last().cloned().into_iter().collect(),
            after: vec![self.fulfilled.clone()],
            into: vec![made_by.children.clone()],
            ..Task::default()
        };
        task.into.extend(task.groups.first().cloned());
        let number = task.barriers_passed;
        if let Some(team) = task.team.and_then(|team| self.teams.get_mut(&team)) {
            task.into.extend([team.join.clone(), team.barrier(number)]);
        }
        task
    }

    /// The tasks of a loop are made: the runtime makes them, as many as it likes.
    fn loop_begins(
        &mut self,
        detector: &mut Detector,
        (caller, part): (ThreadId, ThreadId),
        context: ContextId,
        given: Given,
        call: &RuntimeCall,
    ) {
        if call.loop_is_group(given) {
            let made_by = self.tasks.entry(part).or_default();
            made_by.groups.push(Known::default());
        }
        let [first, _, third] = call.arguments;
        let (function, bytes) = match given {
            Given::Gnu => (first, 0),
            Given::Llvm => {
                let Some(allocated) = self.allocated.get(&third) else {
                    return;
                };
                (allocated.function, allocated.bytes)
            }
        };
        let mut task = self.task_by(part);
        // Two loops of the same function at once are not told apart: that orders more than there is.
        let before = match self.loops.get(&function) {
            Some(same) if same.task.team == task.team => same.before.clone(),
            _ => Known::default(),
        };
        detector.release_to(caller, &before);
        task.after.push(before.clone());
        let made = TaskLoop {
            task,
            before,
            maker: (caller, context),
            task_bytes: bytes,
        };
        self.loops.insert(function, made);
    }

    /// All tasks of a loop have been made, and have ended if they are a group.
    fn loop_ends(&mut self, part: ThreadId, given: Given, call: &RuntimeCall) -> Option<Known> {
        let is_group = call.loop_is_group(given);
        is_group.then(|| self.tasks.get_mut(&part)?.groups.pop())?
    }

    /// A thread begins to execute a task's function.
    fn task_begins(
        &mut self,
        detector: &mut Detector,
        place: (ThreadId, u64),
        (function, arguments): (u64, [u64; 3]),
    ) -> Option<Running> {
        let known = self.made_with(place.0, function, arguments);
        let (part, task, maker, borrowed) = match known {
            Some(id) => {
                let made = self.made.remove(&id)?;
                if let Some(of_function) = self.made_of.get_mut(&function) {
                    of_function.remove(&id);
                }
                for block in &made.blocks {
                    self.blocks.remove(block);
                }
                let borrows = made.data.0 != 0 && made.data.0 == arguments[0];
                let borrowed = if borrows { made.data } else { (0, 0) };
                (id, made.task, made.maker, borrowed)
            }
            None => {
                let made = self.loops.get(&function)?;
                // The runtime has copied what stands for the task.
                detector.forget(arguments[1], made.task_bytes);
                let part = detector.parts.number();
                (part, made.task.like(), made.maker, (0, 0))
            }
        };
        detector.begin_part(part, PartKind::Task, place, maker, &task.after);
        self.tasks.insert(part, task);
        Some(Running {
            part,
            section: None,
            ends: true,
            borrowed,
        })
    }

    /// The task that was made and is executed by a call of its function with these arguments.
    fn made_with(&mut self, id: ThreadId, function: u64, arguments: [u64; 3]) -> Option<ThreadId> {
        let of_function = self.made_of.get(&function)?;
        let is_it = |made: &ThreadId| of_function.contains(made);
        // LLVM gives what stands for the task.
        if let Some(allocated) = self.allocated.get_mut(&arguments[1])
            && let Some(made) = allocated.made.take_if(|made| is_it(made))
        {
            return Some(made);
        }
        // GCC gives the data, which lie behind what stands for the task.
        if let Some((start, (size, made))) = self.blocks.range(..=arguments[0]).next_back()
            && arguments[0] - start <= *size
            && is_it(made)
        {
            return Some(*made);
        }
        // Or they are where the program has put them, of a task that is executed while it is made.
        let call = self.threads.get_mut(&id)?.runtime_call();
        let in_making = call.and_then(|call| call.made).filter(is_it);
        in_making.or_else(|| of_function.first().copied())
    }

    /// A thread begins a section.
    fn section_begins(&mut self, detector: &mut Detector, id: ThreadId, part: ThreadId) {
        let sections = match self.tasks.entry(part).or_default().sections.clone() {
            Some(sections) => sections,
            None => {
                let sections = Sections::default();
                detector.release_to(part, &sections.before);
                self.tasks.entry(part).or_default().sections = Some(sections.clone());
                sections
            }
        };
        let Some(running) = self.threads.get_mut(&id).and_then(Thread::running) else {
            return;
        };
        let section = detector.parts.number();
        running.section = Some(section);
        let team = self
            .team_of(part)
            .and_then(|(team, _)| self.teams.get(&team));
        let made_at = team.and_then(|team| team.maker).map(|(_, made_at)| made_at);
        detector.begin_part(
            section,
            PartKind::Section,
            (id, 0),
            (part, made_at.unwrap_or_default()),
            &[sections.before],
        );
    }

    /// The section that a thread executes has ended, if there is one.
    fn section_ends(&mut self, detector: &mut Detector, id: ThreadId) {
        let running = self.threads.get_mut(&id).and_then(Thread::running);
        if let Some(running) = running
            && let Some(section) = running.section.take()
            && let Some(task) = self.tasks.get(&running.part)
        {
            let done = task.sections.as_ref().map(|sections| sections.done.clone());
            detector.end_part(section, done.as_slice());
        }
    }

    /// What comes behind all sections of a construct that a thread executes.
    fn sections_done(&mut self, part: ThreadId) -> Option<Known> {
        let sections = self.tasks.get_mut(&part)?.sections.take()?;
        Some(sections.done)
    }

    /// The program returns to what has called it.
    fn part_ends(&mut self, detector: &mut Detector, what: &What) {
        let What::Program(Some(running)) = what else {
            return;
        };
        if !running.ends {
            return;
        }
        if let Some(section) = running.section {
            detector.end_part(section, &[]);
        }
        let task = self.tasks.remove(&running.part).unwrap_or_default();
        detector.end_part(running.part, &task.into);
        let (address, size) = running.borrowed;
        detector.forget(address, size);
    }
}

/// How a task is made.
#[derive(Debug, Clone, Copy)]
struct Ordered {
    /// Whether whoever makes it waits for it.
    is_at_once: bool,
    is_final: bool,
    function: u64,
    /// Where its data are, and how many bytes.
    data: (u64, u64),
}

#[cfg(test)]
mod tests;
