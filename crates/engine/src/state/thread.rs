//! The engine's side of one program thread.

use std::cell::Cell;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use unspool_events::ThreadId;

use unspool_code_cache::address::CacheAddress;
use unspool_code_cache::binding::RegisterBinding;
use unspool_code_cache::cache::{Cache, FLAGS, SpillInterval};
use unspool_code_cache::slots::{Slots, slots};
use unspool_kernel::guarded;
use unspool_kernel::ids::Tid;

use crate::call::interrupted::Interrupted;
use crate::client::{ClientData, Clients};
use crate::process::{PidNamespace, Process};
use crate::seccomp::ThreadFilters;
use crate::signals::actions::Actions;
use crate::signals::delivery::Delivery;
use crate::signals::held::Held;
use crate::signals::stepping::Steps;

pub use crate::signals::PendingSignal;

/// A branch that the processor refuses, because no address can be its target.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Refused {
    /// Where the branch is.
    pub(crate) branch: u64,
    /// Its target.
    pub(crate) target: u64,
}

impl Refused {
    /// The branch at a cache address, with this stack pointer.
    #[must_use]
    pub(crate) fn by(cache: &Cache, at: CacheAddress, stack: u64, target: u64) -> Option<Refused> {
        let branch = cache.position(at).or_else(|| {
            // The second half of a call, which has left its return address.
            let back = guarded::read_word(stack)?;
            let mut all = (0..).map_while(|number| cache.position_of(at, number));
            all.find(|position| position.pc + u64::from(position.length) == back)
        });
        branch.map(|position| Refused {
            branch: position.pc,
            target,
        })
    }
}

/// A system call that a tool has seen begin, and that is to be made again.
#[derive(Debug, Clone, Copy)]
pub(crate) struct RestartedCall {
    /// The program counter behind it, and the stack pointer.
    pub place: (u64, u64),
    /// What the program asked for: number and arguments.
    pub asked: (u64, [u64; 6]),
    /// What the tool has made of it.
    pub(crate) made: (u64, [u64; 6]),
}

/// Where a thread of the program runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AddressSpaceRole {
    /// In the process that was started.
    Process,
    /// In a child between `vfork` and `execve` or exit, on its waiting parent's memory.
    VforkChild,
    /// In a child that shares its parent's memory and runs beside it.
    SharedMemoryChild,
}

/// The program's alternate signal stack (`stack_t`).
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct AlternateStack {
    /// Lowest address.
    pub(crate) base: u64,
    /// `SS_DISABLE`, `SS_AUTODISARM`.
    pub(crate) flags: i32,
    /// Bytes.
    pub size: u64,
}

impl AlternateStack {
    /// What `sigaltstack` makes of a `stack_t`.
    ///
    /// # Errors
    /// Its errno.
    pub(crate) fn checked(base: u64, flags: i32, size: u64) -> Result<AlternateStack, i32> {
        const SS_AUTODISARM: i32 = i32::MIN;
        const MINIMUM: u64 = 2048;
        match flags & !SS_AUTODISARM {
            libc::SS_DISABLE => Ok(AlternateStack {
                flags: libc::SS_DISABLE,
                ..AlternateStack::default()
            }),
            0 | libc::SS_ONSTACK if size < MINIMUM => Err(libc::ENOMEM),
            0 | libc::SS_ONSTACK => Ok(AlternateStack {
                base,
                flags: flags & SS_AUTODISARM,
                size,
            }),
            _ => Err(libc::EINVAL),
        }
    }
}

/// What a thread keeps for when the process is let go.
#[derive(Debug, Default)]
pub(crate) struct LettingGo {
    /// The gathering for which the thread stands still; 0 for none.
    pub(crate) standing: AtomicU32,
    /// Whether the kernel would not take its filters (seccomp) when it is let go.
    pub(crate) keeps_filters: AtomicBool,
    /// A child in its parent's place has asked to be traced: from its `execve` on.
    pub(crate) wants_tracer: bool,
}

/// What the engine keeps for one program thread. It lives on the thread's own stack; only
/// that thread (and its signal handlers) use it.
pub struct Thread {
    /// The process whose program code it runs.
    pub process: &'static Process,
    /// The registers and everything that emitted code touches.
    slots: &'static Slots,
    /// The kernel's thread id.
    pub tid: Tid,
    /// Which thread of the program it is: as in a trace, 0 for the first, and never another one's as
    /// the kernel's id may be.
    ///
    /// ```compile_fail,E0308
    /// use unspool_engine::requests::ask_place;
    /// use unspool_engine::thread::Thread;
    ///
    /// fn ask(thread: &Thread) {
    ///     ask_place(thread.id);
    /// }
    /// ```
    pub id: ThreadId,
    /// Where to announce the thread's end (`set_tid_address`, `CLONE_CHILD_CLEARTID`).
    pub clear_tid: u64,
    /// The program's robust futex list.
    pub(crate) robust_list: u64,
    /// The program's signal mask, and the signals that it is to get.
    pub delivery: Delivery<PendingSignal>,
    /// What the signal handler has taken from the kernel, and what else it shares.
    pub(crate) held: Arc<Held>,
    /// Where the program's handlers run, if they ask for it.
    pub(crate) alternate_stack: AlternateStack,
    /// Whether a client wants the thread to execute one instruction, and to be told then.
    pub single_step: bool,
    /// Single steps: the engine's, the program's and a client's.
    pub steps: Steps,
    /// The last branch whose target no address can be.
    pub(crate) refused: Option<Refused>,
    /// A branch through the branch table that has just met a target beyond the table.
    pub(crate) crossing: Option<CacheAddress>,
    /// What it takes to let the process go.
    pub(crate) detach: LettingGo,
    /// What signals do in this process.
    pub(crate) actions: Arc<Actions>,
    /// What judges the thread's system calls.
    pub(crate) filters: Arc<ThreadFilters>,
    /// Where the thread runs.
    pub role: AddressSpaceRole,
    /// The PID namespace in which it is.
    pub(crate) namespace: PidNamespace,
    /// System calls that are to be made again, behind a signal's handler.
    pub(crate) restarted_calls: Vec<RestartedCall>,
    /// A system call that is to be made again because the engine has interrupted it.
    pub(crate) interrupted: Option<Interrupted>,
    /// The repeated string instruction in the cache that is being single-stepped, or nowhere, and how
    /// many rounds of it have been.
    pub(crate) repeating: (CacheAddress, u32),
    /// Whether it is about to become another program.
    pub(crate) executing: bool,
    /// Set by `exit`.
    pub exit_status: Option<i32>,
    /// The signal that has killed this thread alone, or 0.
    pub(crate) killed_by: i32,
    /// What clients keep for the thread.
    pub(crate) client_data: ClientData,
}

thread_local! {
    static CURRENT: Cell<*mut Thread> = const { Cell::new(std::ptr::null_mut()) };
    static HELD: Cell<*const Held> = const { Cell::new(std::ptr::null()) };
}

impl Thread {
    /// A thread in its initial state.
    #[must_use]
    pub(crate) fn new(
        process: &'static Process,
        id: ThreadId,
        mask: u64,
        actions: Arc<Actions>,
    ) -> Thread {
        Thread {
            process,
            slots: slots(),
            tid: Tid::own(),
            id,
            clear_tid: 0,
            robust_list: 0,
            delivery: Delivery::new(mask),
            held: Arc::new(Held::new(mask)),
            alternate_stack: AlternateStack {
                flags: libc::SS_DISABLE,
                ..AlternateStack::default()
            },
            single_step: false,
            steps: Steps::default(),
            refused: None,
            crossing: None,
            detach: LettingGo::default(),
            actions,
            filters: Arc::default(),
            role: AddressSpaceRole::Process,
            namespace: PidNamespace::OF_PROCESS,
            restarted_calls: Vec::new(),
            interrupted: None,
            repeating: (CacheAddress::NOWHERE, 0),
            executing: false,
            exit_status: None,
            killed_by: 0,
            client_data: ClientData::default(),
        }
    }

    /// Makes `thread` the one that signal handlers on this thread find.
    pub(crate) fn set_current(thread: &mut Thread) {
        HELD.with(|held| held.set(Arc::as_ptr(&thread.held)));
        CURRENT.with(|current| current.set(thread));
    }

    /// This thread runs no program code from now on.
    pub(crate) fn unset_current() {
        CURRENT.with(|current| current.set(std::ptr::null_mut()));
        HELD.with(|held| held.set(std::ptr::null()));
    }

    /// The thread is about to enter the cache. Whatever interrupts it there may use the thread
    /// as this reference would be used.
    #[inline]
    pub(crate) fn lend_to_handlers(&mut self) {
        CURRENT.with(|current| current.set(self));
    }

    /// What the handlers of the thread that runs here share with it; null in threads that run no
    /// program code.
    #[must_use]
    #[inline]
    pub(crate) fn current_held() -> *const Held {
        HELD.with(Cell::get)
    }

    /// The thread that runs here; null in threads that run no program code.
    #[must_use]
    #[inline]
    pub fn current() -> *mut Thread {
        CURRENT.with(Cell::get)
    }

    /// Whether each instruction is to be followed by a trap: the program's, or a debugger's.
    #[must_use]
    #[inline]
    pub(crate) fn is_stepped(&self) -> bool {
        self.steps.program_flag || self.single_step
    }

    /// Who listens to the process, or changes it.
    #[must_use]
    #[inline]
    pub fn clients(&self) -> &'static Clients {
        &self.process.clients
    }

    /// The registers and everything that emitted code touches: the program's state while the thread
    /// is out of the cache. Another thread may use the atomics among them as long as this one lives,
    /// and the rest only while it stands still.
    #[must_use]
    #[inline]
    pub fn slots(&self) -> &'static Slots {
        self.slots
    }

    /// The word that makes the thread look for what is pending before it goes into the cache.
    pub(crate) fn pending(&self) -> &AtomicU64 {
        &self.slots.pending
    }

    /// Whether something is pending.
    #[must_use]
    #[inline]
    pub(crate) fn is_pending(&self) -> bool {
        self.pending().load(Ordering::Relaxed) != 0
    }

    /// Something is pending, or not any more.
    #[inline]
    pub fn set_pending(&self, pending: bool) {
        self.pending().store(u64::from(pending), Ordering::SeqCst);
    }

    /// Looks at the signals that the handler has taken meanwhile.
    pub(crate) fn collect_signals(&mut self) {
        // SAFETY: this is the thread itself.
        while let Some(signal) = unsafe { self.held.pop() } {
            self.delivery.take(signal);
        }
        for signal in self.held.mailbox.take() {
            self.delivery.take(signal);
        }
    }

    /// Whether there is a signal that the program is to get now.
    #[must_use]
    pub(crate) fn has_signal(&mut self) -> bool {
        self.collect_signals();
        self.delivery.is_due()
    }

    /// A general register of the program.
    #[must_use]
    #[inline]
    pub fn register(&self, number: u8) -> u64 {
        self.slots.registers[usize::from(number)].get()
    }

    /// Sets a general register of the program.
    #[inline]
    pub fn set_register(&mut self, number: u8, value: u64) {
        self.slots.registers[usize::from(number)].set(value);
    }

    /// Puts back the registers of the program that are bound where the thread has left the cache.
    pub(crate) fn restore_binding(&mut self, binding: RegisterBinding) {
        if binding == RegisterBinding::default() {
            return;
        }
        self.slots.buffer.set(self.register(binding.buffer()));
        for (register, slot) in binding.all() {
            let value = self.slots.spills[usize::from(slot)].get();
            self.set_register(register, value);
        }
    }

    /// Puts a spilled register's program value, or the flags', where the program's state is.
    pub fn restore_spill(&mut self, spill: SpillInterval) {
        const LAHF: u64 = 0xd5;
        const OVERFLOW: u64 = 0x800;
        let value = self.slots.spills[usize::from(spill.slot)].get();
        if spill.register != FLAGS {
            self.set_register(spill.register, value);
            return;
        }
        let overflow = if value & 1 != 0 { OVERFLOW } else { 0 };
        let flags = self.slots.flags.get() & !(LAHF | OVERFLOW);
        self.slots.flags.set(flags | value >> 8 & LAHF | overflow);
    }

    /// The program counter.
    #[must_use]
    #[inline]
    pub fn pc(&self) -> u64 {
        self.slots.pc.get()
    }

    /// Sets the program counter.
    #[inline]
    pub fn set_pc(&mut self, pc: u64) {
        self.slots.pc.set(pc);
    }
}
