//! Do threads wait for one another's locks, may they, and are locks used as they must be?
//!
//! The events must have the calls and returns of the functions of [`functions`]. From their arguments
//! and results follows who holds which lock and who waits for one:
//!
//! - A deadlock *has happened* where threads wait for one another in a circle, without a limit of
//!   time: no thread can take the step that would let another go on.
//! - One *may happen* where locks were asked for in an order that allows it (see `order`).
//! - Locks are *misused* where the functions' own rules are broken.
//!
//! What threads know of one another by their creation, their ends, conditions, semaphores and barriers
//! tells which requests cannot meet.

mod coverage;
mod operation;
mod order;
mod report;
mod state;

use std::collections::BTreeMap;
use std::ops::Range;

use rustc_hash::{FxHashMap, FxHashSet};
use unspool_events::{
    Event, FunctionId, Span, SyncOperation, SystemCall, ThreadEvent, ThreadId, TracedFunction,
};

use crate::clock::Clock;
use coverage::Coverage;
pub use operation::{LockKind, functions};
use operation::{Operation, Patience};
use order::{LockId, LockOrder, Use};
pub use report::{
    Certainty, Deadlock, LockReport, LockUse, Misuse, MisuseKind, Party, Step, Succession, Wanted,
};
use state::{Call, Held, Lock, Thread, Waits};

use crate::call_paths::ContextId;

/// Looks at locks. Takes the events in order of time.
#[derive(Debug, Default)]
pub struct LockCheck {
    functions: FxHashMap<FunctionId, Operation>,
    threads: BTreeMap<ThreadId, Thread>,
    locks: FxHashMap<u64, Lock>,
    next_lock: u32,
    order: LockOrder,
    coverage: Coverage,
    actual: Vec<Deadlock>,
    misuse: BTreeMap<(MisuseKind, ContextId, Option<ContextId>), Misuse>,
    /// Misuse that was not kept.
    beyond: u64,
    /// What is given through conditions, semaphores and barriers.
    given: FxHashMap<u64, Clock>,
    /// What creators of threads know, and ended threads have known.
    births: FxHashMap<ThreadId, Clock>,
    ends: FxHashMap<ThreadId, Clock>,
    /// Threads by what `pthread_self` is to them.
    pointers: FxHashMap<u64, ThreadId>,
    /// Attributes by which locks are robust.
    robust: FxHashSet<u64>,
    saw_functions: bool,
    /// Whether the events begin with the program, and not behind a fork.
    saw_beginning: bool,
    /// What has happened since this was last looked at.
    steps: Vec<LockStep>,
}

/// What a thread has done with locks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum LockStep {
    /// It has asked for one while it held others.
    Asks(ThreadId),
    /// It did not get this one, because somebody had it.
    IsRefused(ThreadId, u64),
    /// It holds other locks than before.
    Holds(ThreadId),
}

/// Pairs of places of misuse that are kept.
const MISUSE_KEPT: usize = 1 << 12;

// Results of the functions: `include/uapi/asm-generic/errno.h` of the Linux kernel.
const INVALID: u32 = 22;
const DEADLOCK: u32 = 35;
const TIMED_OUT: u32 = 110;
const OWNER_DIED: u32 = 130;

/// The system calls of waits, and by which a signal handler returns.
const FUTEX: u32 = 202;
const RT_SIGRETURN: u32 = 15;
/// No lock takes more bytes.
const LOCK_BYTES: u64 = 64;

impl LockCheck {
    /// A function whose calls may come.
    pub fn function(&mut self, function: &TracedFunction) {
        if let Some(operation) = operation::operation_of(&function.name) {
            self.functions.insert(function.id, operation);
            self.saw_functions = true;
        }
    }

    /// Something has happened in a thread, to which these calls led.
    pub fn event(&mut self, id: ThreadId, time: u64, event: &Event, context: ContextId) {
        match event {
            Event::Thread(event) => self.thread_event(id, event),
            Event::Synchronisation(event) => match event.operation {
                SyncOperation::ThreadCreate => {
                    if let Ok(child) = u32::try_from(event.object) {
                        let clock = self.gives(id);
                        self.births.insert(ThreadId(child), clock);
                    }
                }
                SyncOperation::ThreadExit => self.thread_exits(id, time),
                _ => {}
            },
            Event::SystemCall(SystemCall::Entry { number, arguments }) => {
                self.saw_beginning |= self.pointers.is_empty();
                match *number {
                    FUTEX => self.sleeps(id, arguments[0], time),
                    RT_SIGRETURN => self.thread(id).handler_returned(),
                    _ => {}
                }
            }
            Event::Span(Span::FunctionCall {
                function,
                stack_pointer,
                arguments,
            }) => {
                if let Some(&operation) = self.functions.get(function) {
                    let call = Call {
                        function: *function,
                        stack_pointer: *stack_pointer,
                        operation,
                        arguments: [arguments[0], arguments[1]],
                        context,
                    };
                    self.call(id, call, time);
                }
            }
            Event::Span(Span::FunctionReturn {
                function,
                stack_pointer,
                value,
                ..
            }) => {
                if let Some(call) = self.thread(id).returned(*function, *stack_pointer) {
                    self.ends_call(id, &call, *value as u32, time);
                }
            }
            _ => {}
        }
    }

    /// Whether the calls of functions that lock are among the events.
    pub(crate) fn saw_functions(&self) -> bool {
        self.saw_functions
    }

    /// What threads have done with locks since this was called before, in its order.
    pub(crate) fn take_steps(&mut self) -> Vec<LockStep> {
        std::mem::take(&mut self.steps)
    }

    /// The memory of the lock that a thread is taking or releasing: what it does there is what these
    /// functions mean.
    pub(crate) fn in_use(&self, id: ThreadId) -> Option<Range<u64>> {
        let call = self.threads.get(&id)?.calls.last()?;
        let lock = match call.operation {
            Operation::Lock { .. } | Operation::Unlock(_) | Operation::MakeFree => {
                call.arguments[0]
            }
            Operation::WaitForCondition => call.arguments[1],
            _ => return None,
        };
        Some(lock..lock.saturating_add(LOCK_BYTES))
    }

    /// The locks that a thread holds, that which it has taken first first.
    pub(crate) fn held(&self, id: ThreadId) -> impl Iterator<Item = LockUse> {
        let held = self.threads.get(&id).into_iter().flat_map(|it| &it.held);
        held.map(|it| it.lock)
    }

    /// What has come of it until now. `may_meet` says of requests, each by a thread at a time, whether
    /// it is known of an order of the same events that it has them all at once.
    #[must_use]
    pub fn report(&self, may_meet: impl FnMut(&[(ThreadId, u64)]) -> bool) -> LockReport {
        let locks_of = |deadlock: &Deadlock| {
            let held = deadlock.parties.iter().filter_map(|it| it.holds);
            let mut locks: Vec<u64> = held.map(|it| it.address).collect();
            locks.sort_unstable();
            locks
        };
        let (mut possible, is_cut_short) = self.order.cycles(may_meet);
        possible.retain(|it| {
            self.actual
                .iter()
                .all(|other| locks_of(other) != locks_of(it))
        });
        possible.sort_by_key(|it| (it.certainty, it.time));
        let mut misuse: Vec<Misuse> = self.misuse.values().cloned().collect();
        misuse.sort_by_key(|it| (it.time, it.kind, it.place));
        LockReport {
            deadlocks: self.actual.iter().cloned().chain(possible).collect(),
            misuse,
            successions: self.coverage.successions(),
            successions_beyond: self.coverage.beyond(),
            saw_functions: self.saw_functions,
            beyond: self.order.beyond + self.beyond,
            is_cut_short,
        }
    }

    /// What was asked for from some time on comes before all that follows: which deadlocks another
    /// order of it has is found now. `may_meet` is as for [`LockCheck::report`].
    pub(crate) fn predict(&mut self, since: u64, may_meet: impl FnMut(&[(ThreadId, u64)]) -> bool) {
        self.order.predict(since, may_meet);
    }

    fn thread(&mut self, id: ThreadId) -> &mut Thread {
        self.threads.entry(id).or_default()
    }

    fn thread_event(&mut self, id: ThreadId, event: &ThreadEvent) {
        match event {
            ThreadEvent::Start { .. } => {
                let mut clock = self.births.remove(&id).unwrap_or_default();
                clock.advance(id);
                self.thread(id).clock = clock;
            }
            ThreadEvent::Pointer { address, .. } if *address != 0 => {
                self.pointers.insert(*address, id);
            }
            ThreadEvent::HandlerCalled { .. } => self.thread(id).handler_called(),
            _ => {}
        }
    }

    /// The thread ends by itself; the process goes on.
    fn thread_exits(&mut self, id: ThreadId, time: u64) {
        let clock = self.gives(id);
        self.ends.insert(id, clock);
        let held = std::mem::take(&mut self.thread(id).held);
        if !held.is_empty() {
            self.steps.push(LockStep::Holds(id));
        }
        for it in held {
            let Some(lock) = self.locks.get_mut(&it.lock.address) else {
                continue;
            };
            lock.holders.retain(|holder| *holder != id);
            if !lock.is_robust {
                let about = (it.lock.address, it.lock.kind);
                self.is_misused(
                    MisuseKind::HeldAtEnd,
                    about,
                    (id, it.lock.context),
                    None,
                    time,
                );
            }
        }
    }

    /// What the thread has done until now, for others to learn.
    fn gives(&mut self, id: ThreadId) -> Clock {
        let thread = self.thread(id);
        let clock = thread.clock.clone();
        thread.clock.advance(id);
        clock
    }

    /// The lock at an address.
    fn lock(&mut self, address: u64) -> &mut Lock {
        let next = &mut self.next_lock;
        self.locks.entry(address).or_insert_with(|| {
            *next += 1;
            Lock::new(LockId(*next))
        })
    }

    fn call(&mut self, id: ThreadId, call: Call, time: u64) {
        let thread = self.thread(id);
        thread.leave_frames_below(call.stack_pointer);
        // What the functions of C11, and those that wait for conditions, do by others is theirs.
        if thread.is_within_another(&call) {
            return;
        }
        let address = call.arguments[0];
        match call.operation {
            Operation::Lock {
                kind,
                is_shared,
                patience,
            } => {
                let wants = self.wants(address, kind, is_shared, call.context);
                if patience == Patience::Endless {
                    self.asks(id, wants, time);
                    self.thread(id).waits = Waits::For(wants);
                    self.look_for_circle(id, time);
                }
            }
            Operation::Unlock(kind) => self.unlock(id, address, kind, call.context, time),
            Operation::Initialise(_) => {
                self.locks.remove(&address);
                let is_robust = self.robust.contains(&call.arguments[1]);
                self.lock(address).is_robust = is_robust;
            }
            Operation::MakeFree => match self.thread(id).has(address) {
                true => self.release(id, address),
                false => _ = self.locks.remove(&address),
            },
            Operation::Destroy(kind) => self.destroy(id, address, kind, call.context, time),
            Operation::WaitForCondition => {
                let mutex = call.arguments[1];
                match self.thread(id).has(mutex) {
                    true => self.release(id, mutex),
                    false if self.knows_of(mutex) => {
                        let about = (mutex, LockKind::Mutex);
                        let place = (id, call.context);
                        self.is_misused(MisuseKind::WaitWithoutLock, about, place, None, time);
                    }
                    false => {}
                }
            }
            Operation::Give | Operation::Meet => {
                let clock = self.gives(id);
                self.given.entry(address).or_default().join(&clock);
            }
            Operation::JoinThread(Patience::Endless) => {
                if let Some(&target) = self.pointers.get(&address) {
                    self.thread(id).waits = Waits::ForEnd(target, call.context);
                    self.look_for_circle(id, time);
                }
            }
            Operation::ForgetAttributes => _ = self.robust.remove(&address),
            Operation::MakeRobust => {
                if call.arguments[1] as u32 != 0 {
                    self.robust.insert(address);
                }
            }
            Operation::Take | Operation::JoinThread(Patience::Bounded) => {}
        }
        self.thread(id).calls.push(call);
    }

    fn ends_call(&mut self, id: ThreadId, call: &Call, result: u32, time: u64) {
        let address = call.arguments[0];
        self.thread(id).waits = Waits::Nothing;
        self.actual
            .retain(|it| it.parties.iter().all(|party| party.thread != id.0));
        match call.operation {
            Operation::Lock {
                kind, is_shared, ..
            } => match result {
                0 | OWNER_DIED => {
                    let wants = self.wants(address, kind, is_shared, call.context);
                    self.acquire(id, wants);
                }
                _ => {
                    self.steps.push(LockStep::IsRefused(id, address));
                    self.cannot(id, (address, kind), call.context, result, time);
                }
            },
            Operation::Unlock(kind) | Operation::Destroy(kind) if result == INVALID => {
                self.cannot(id, (address, kind), call.context, result, time);
            }
            Operation::Destroy(_) if result == 0 => {
                self.lock(address).destroyed = Some((id, call.context));
            }
            Operation::WaitForCondition => {
                if let 0 | TIMED_OUT | OWNER_DIED = result {
                    self.take(id, address);
                    let wants = self.wants(call.arguments[1], LockKind::Mutex, false, call.context);
                    self.asks(id, wants, time);
                    self.acquire(id, wants);
                }
            }
            Operation::Meet => self.take(id, address),
            Operation::Take if result == 0 => self.take(id, address),
            Operation::JoinThread(_) if result == 0 => {
                let ended = self.pointers.get(&address);
                if let Some(clock) = ended.and_then(|ended| self.ends.get(ended)).cloned() {
                    self.thread(id).clock.join(&clock);
                }
            }
            _ => {}
        }
    }

    fn take(&mut self, id: ThreadId, object: u64) {
        if let Some(clock) = self.given.get(&object).cloned() {
            self.thread(id).clock.join(&clock);
        }
    }

    fn wants(&mut self, address: u64, kind: LockKind, is_shared: bool, context: ContextId) -> Use {
        Use {
            id: self.lock(address).id,
            lock: LockUse {
                address,
                kind,
                is_shared,
                context,
            },
        }
    }

    /// A thread is going to wait for a lock, or had to.
    fn asks(&mut self, id: ThreadId, wants: Use, time: u64) {
        let Some(thread) = self.threads.get(&id) else {
            return;
        };
        if thread.held.is_empty() || thread.has(wants.lock.address) {
            return;
        }
        let locks = &self.locks;
        let held = thread.held.iter().filter_map(|it| {
            let id = locks.get(&it.lock.address)?.id;
            Some(Use { id, lock: it.lock })
        });
        let holds: Vec<Use> = held.collect();
        self.steps.push(LockStep::Asks(id));
        self.order.asks(id, &thread.clock, wants, &holds, time);
    }

    fn acquire(&mut self, id: ThreadId, wants: Use) {
        let LockUse {
            address, is_shared, ..
        } = wants.lock;
        let lock = self.lock(address);
        let before = lock.last.replace((id, wants.lock));
        let before =
            before.filter(|(thread, lock)| *thread != id && !(lock.is_shared && is_shared));
        lock.destroyed = None;
        // Who had it alone has let it go in a way that was not seen.
        let others = match lock.is_shared && is_shared {
            true => Vec::new(),
            false => lock.holders.clone(),
        };
        lock.holders.retain(|holder| !others.contains(holder));
        lock.is_shared = is_shared;
        lock.holders.push(id);
        for other in others.into_iter().filter(|other| *other != id) {
            self.thread(other).let_go_entirely(address);
            self.steps.push(LockStep::Holds(other));
        }
        if let Some((_, before)) = before {
            self.coverage.follows(before, wants.lock);
        }
        self.thread(id).holds(wants.lock);
        self.steps.push(LockStep::Holds(id));
    }

    fn release(&mut self, id: ThreadId, address: u64) {
        if self.thread(id).let_go(address) {
            self.steps.push(LockStep::Holds(id));
            if let Some(lock) = self.locks.get_mut(&address) {
                lock.holders.retain(|holder| *holder != id);
            }
        }
    }

    fn unlock(
        &mut self,
        id: ThreadId,
        address: u64,
        kind: LockKind,
        context: ContextId,
        time: u64,
    ) {
        if self.thread(id).has(address) {
            self.release(id, address);
            return;
        }
        let lock = self.locks.get(&address);
        if lock.is_some_and(|it| it.destroyed.is_some()) || !self.knows_of(address) {
            return;
        }
        let holder = lock.and_then(|it| it.holders.first().copied());
        let before =
            holder.and_then(|holder| Some((holder, self.held_by(holder, address)?.lock.context)));
        let what = match before {
            Some(_) => MisuseKind::UnlockOfOthers,
            None => MisuseKind::UnlockOfFree,
        };
        self.is_misused(what, (address, kind), (id, context), before, time);
        // It is free now, whoever had it.
        if let Some(holder) = holder {
            self.thread(holder).let_go_entirely(address);
            self.steps.push(LockStep::Holds(holder));
            self.lock(address).holders.clear();
        }
    }

    fn destroy(
        &mut self,
        id: ThreadId,
        address: u64,
        kind: LockKind,
        context: ContextId,
        time: u64,
    ) {
        let holder = self
            .locks
            .get(&address)
            .and_then(|it| it.holders.first().copied());
        if let Some(holder) = holder
            && let Some(held) = self.held_by(holder, address)
        {
            let before = Some((holder, held.lock.context));
            let what = MisuseKind::DestroyedWhileHeld;
            self.is_misused(what, (address, kind), (id, context), before, time);
        }
    }

    fn held_by(&self, id: ThreadId, address: u64) -> Option<Held> {
        let held = &self.threads.get(&id)?.held;
        held.iter().find(|it| it.lock.address == address).copied()
    }

    /// Whether it would be known if somebody held the lock. Behind a fork the process may have what
    /// its parent locked.
    fn knows_of(&self, address: u64) -> bool {
        self.saw_beginning || self.locks.contains_key(&address)
    }

    /// A function says that it cannot be done.
    fn cannot(
        &mut self,
        id: ThreadId,
        about: (u64, LockKind),
        context: ContextId,
        result: u32,
        time: u64,
    ) {
        let destroyed = self.locks.get(&about.0).and_then(|it| it.destroyed);
        let (what, before) = match (result, destroyed, self.held_by(id, about.0)) {
            (INVALID, Some(destroyed), _) => (MisuseKind::UsedAfterDestruction, destroyed),
            (DEADLOCK, _, Some(held)) => (MisuseKind::LockedTwice, (id, held.lock.context)),
            _ => return,
        };
        self.is_misused(what, about, (id, context), Some(before), time);
    }

    fn is_misused(
        &mut self,
        kind: MisuseKind,
        about: (u64, LockKind),
        place: (ThreadId, ContextId),
        before: Option<(ThreadId, ContextId)>,
        time: u64,
    ) {
        let key = (kind, place.1, before.map(|it| it.1));
        if let Some(known) = self.misuse.get_mut(&key) {
            known.occurrences += 1;
            return;
        }
        if self.misuse.len() >= MISUSE_KEPT {
            self.beyond += 1;
            return;
        }
        let step = |(thread, context): (ThreadId, ContextId)| Step {
            thread: thread.0,
            context,
        };
        let misuse = Misuse {
            kind,
            lock: about,
            place: step(place),
            before: before.map(step),
            occurrences: 1,
            time,
        };
        self.misuse.insert(key, misuse);
    }

    /// A thread goes to sleep. If it does so for a lock that it holds itself, it is for ever.
    fn sleeps(&mut self, id: ThreadId, word: u64, time: u64) {
        let Some(thread) = self.threads.get(&id) else {
            return;
        };
        let Waits::For(wants) = thread.waits else {
            return;
        };
        let is_its_word = (wants.lock.address..wants.lock.address + LOCK_BYTES).contains(&word);
        let Some(held) = self.held_by(id, wants.lock.address).filter(|_| is_its_word) else {
            return;
        };
        let is_known = self.actual.iter().any(|it| it.parties[0].thread == id.0);
        if !is_known && !held.lock.is_shared {
            self.actual.push(Deadlock {
                certainty: Certainty::Happened,
                parties: vec![Party {
                    thread: id.0,
                    holds: Some(held.lock),
                    wants: Wanted::Lock(wants.lock),
                }],
                time,
            });
        }
    }

    /// A thread has begun to wait. Does what it waits for wait for it?
    fn look_for_circle(&mut self, id: ThreadId, time: u64) {
        let mut path = vec![(id, None)];
        let mut seen = FxHashSet::default();
        if self.leads_back(id, &mut path, &mut seen) {
            let parties = path.iter().filter_map(|&(thread, holds)| {
                let wants = match self.threads.get(&thread)?.waits {
                    Waits::For(wants) => Wanted::Lock(wants.lock),
                    Waits::ForEnd(target, context) => Wanted::End {
                        thread: target.0,
                        context,
                    },
                    Waits::Nothing => return None,
                };
                Some(Party {
                    thread: thread.0,
                    holds,
                    wants,
                })
            });
            let deadlock = Deadlock {
                certainty: Certainty::Happened,
                parties: parties.collect(),
                time,
            };
            self.actual.push(deadlock);
        }
    }

    /// Goes on along who waits for whom. The path has each thread with what the one before it wants;
    /// at the end the first has what the last one wants.
    fn leads_back(
        &self,
        first: ThreadId,
        path: &mut Vec<(ThreadId, Option<LockUse>)>,
        seen: &mut FxHashSet<ThreadId>,
    ) -> bool {
        let Some(&(last, _)) = path.last() else {
            return false;
        };
        for (next, holds) in self.waited_for(last) {
            if next == first && path.len() > 1 {
                path[0].1 = holds;
                return true;
            }
            if next == first || !seen.insert(next) {
                continue;
            }
            path.push((next, holds));
            if self.leads_back(first, path, seen) {
                return true;
            }
            path.pop();
        }
        false
    }

    /// The threads that must do something before this one goes on, each with what it has.
    fn waited_for(&self, id: ThreadId) -> Vec<(ThreadId, Option<LockUse>)> {
        match self.threads.get(&id).map(|thread| thread.waits) {
            Some(Waits::For(wants)) => {
                let lock = self.locks.get(&wants.lock.address);
                let lock = lock.filter(|it| !(it.is_shared && wants.lock.is_shared));
                let holders = lock.into_iter().flat_map(|it| &it.holders);
                let held = holders.filter_map(|&holder| {
                    Some((holder, Some(self.held_by(holder, wants.lock.address)?.lock)))
                });
                held.collect()
            }
            Some(Waits::ForEnd(target, _)) => vec![(target, None)],
            _ => Vec::new(),
        }
    }
}

#[cfg(test)]
mod tests;
