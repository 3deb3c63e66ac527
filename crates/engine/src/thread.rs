//! The engine's side of one program thread.

use std::cell::Cell;
use std::sync::Arc;

use crate::cache::{Cache, FLAGS, Loan};
use crate::guarded;
use crate::seccomp::ThreadFilters;
use crate::signals::actions::Actions;
use crate::slots::{Slots, slots};

/// A signal that has been taken from the kernel and not yet been given to the program.
#[derive(Clone, Copy)]
pub struct PendingSignal {
    /// Its number.
    pub number: i32,
    /// The kernel's `siginfo`, 128 bytes.
    pub info: [u64; 16],
    /// For faults: error code, trap number and CR2 of the signal context.
    pub fault: Option<[u64; 3]>,
}

/// A branch that the processor refuses, because no address can be its target.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Refused {
    /// Where the branch is.
    pub branch: u64,
    /// Its target.
    pub target: u64,
}

impl Refused {
    /// The branch at a cache address, with this stack pointer.
    #[must_use]
    pub fn by(cache: &Cache, at: u64, stack: u64, target: u64) -> Option<Refused> {
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
pub struct CutShort {
    /// The program counter behind it, and the stack pointer.
    pub place: (u64, u64),
    /// What the program asked for: number and arguments.
    pub asked: (u64, [u64; 6]),
    /// What the tool has made of it.
    pub made: (u64, [u64; 6]),
}

/// Where a thread of the program runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Place {
    /// In the process that was started.
    Process,
    /// In a child between `vfork` and `execve` or exit, on its waiting parent's memory.
    ParentsPlace,
    /// In a child that shares its parent's memory and runs beside it.
    Beside,
}

/// The program's alternate signal stack (`stack_t`).
#[derive(Debug, Clone, Copy, Default)]
pub struct AlternateStack {
    /// Lowest address.
    pub base: u64,
    /// `SS_DISABLE`, `SS_AUTODISARM`.
    pub flags: i32,
    /// Bytes.
    pub size: u64,
}

/// What the engine keeps for one program thread. It lives on the thread's own stack; only
/// that thread (and its signal handlers) use it.
pub struct Thread {
    /// The registers and everything that emitted code touches.
    pub slots: *mut Slots,
    /// The kernel's thread id.
    pub tid: i32,
    /// The number of the thread: 0 for the first.
    pub number: u32,
    /// Where to announce the thread's end (`set_tid_address`, `CLONE_CHILD_CLEARTID`).
    pub clear_tid: u64,
    /// The program's robust futex list.
    pub robust_list: u64,
    /// The program's signal mask.
    pub mask: u64,
    /// Where the program's handlers run, if they ask for it.
    pub alternate_stack: AlternateStack,
    /// The signal that was taken from the kernel. Further ones wait there meanwhile.
    pub signal: Option<PendingSignal>,
    /// Whether the thread is being single-stepped to a boundary between instructions.
    pub stepping: bool,
    /// Whether the step that is being made pushes the flags, and with them a trap flag that is
    /// not the program's.
    pub pushes_flags: bool,
    /// Whether the step that is being made is one of a tool's code, with an access that the
    /// program's alignment-check flag does not allow.
    pub misaligned: bool,
    /// Whether the program has set its trap flag.
    pub trap_flag: bool,
    /// A place in the cache before the one instruction that is to be stepped over for a
    /// program that has; 0 once the thread is at the instruction.
    pub step_from: u64,
    /// What a debugger wants of the thread, and what it is to be told.
    pub(crate) debug: crate::debug::OfThread,
    /// The last branch whose target no address can be.
    pub refused: Option<Refused>,
    /// A branch through the branch table that has just met a target beyond the table.
    pub crossing: Option<u64>,
    /// What it takes to let the process go.
    pub(crate) detach: crate::detach::OfThread,
    /// For whom a trap is due behind the instruction that has just been executed.
    pub trap_due: TrapDue,
    /// What signals do in this process.
    pub actions: Arc<Actions>,
    /// What judges the thread's system calls.
    pub filters: Arc<ThreadFilters>,
    /// Whether the thread is writing the trace, so that a broken pipe is the trace's own.
    pub writing: bool,
    /// Where the thread runs.
    pub place: Place,
    /// The number of the PID namespace in which it is: 0 is that of the process.
    pub namespace: u32,
    /// System calls that are to be made again, behind a signal's handler.
    pub cut_short: Vec<CutShort>,
    /// The repeated string instruction in the cache that is being single-stepped, or 0, and how
    /// many rounds of it have been.
    pub repeating: (u64, u32),
    /// Set by `exit`.
    pub exit_status: Option<i32>,
    /// The signal that has killed this thread alone, or 0.
    pub killed_by: i32,
    /// The trace of this thread; null if there is none. A child between `vfork` and
    /// `execve` uses its parent's.
    pub trace: *mut crate::trace::ThreadTrace,
}

/// For whom a trap is due behind an instruction. That is known when the instruction is over, and
/// not any more when the trap is given: the instruction may have cleared the program's flag, and
/// the debugger may have gone.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct TrapDue {
    /// The program's trap flag was set.
    pub program: bool,
    /// A debugger steps the thread.
    pub debugger: bool,
}

impl TrapDue {
    /// Whether it is due at all.
    #[must_use]
    #[inline]
    pub fn is_due(self) -> bool {
        self.program || self.debugger
    }
}

thread_local! {
    static CURRENT: Cell<*mut Thread> = const { Cell::new(std::ptr::null_mut()) };
}

impl Thread {
    /// A thread in its initial state.
    #[must_use]
    pub fn new(number: u32, mask: u64, actions: Arc<Actions>) -> Thread {
        Thread {
            slots: slots(),
            // SAFETY: gettid has no preconditions.
            tid: unsafe { libc::gettid() },
            number,
            clear_tid: 0,
            robust_list: 0,
            mask,
            alternate_stack: AlternateStack {
                flags: libc::SS_DISABLE,
                ..AlternateStack::default()
            },
            signal: None,
            stepping: false,
            pushes_flags: false,
            misaligned: false,
            trap_flag: false,
            step_from: 0,
            debug: crate::debug::OfThread::default(),
            refused: None,
            crossing: None,
            detach: crate::detach::OfThread::default(),
            trap_due: TrapDue::default(),
            actions,
            filters: Arc::default(),
            writing: false,
            place: Place::Process,
            namespace: 0,
            cut_short: Vec::new(),
            repeating: (0, 0),
            exit_status: None,
            killed_by: 0,
            trace: std::ptr::null_mut(),
        }
    }

    /// Makes `thread` the one that signal handlers on this thread find.
    pub fn set_current(thread: *mut Thread) {
        CURRENT.with(|current| current.set(thread));
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
    pub fn is_stepped(&self) -> bool {
        self.trap_flag || self.debug.step
    }

    /// A general register of the program.
    #[must_use]
    #[inline]
    pub fn register(&self, number: u8) -> u64 {
        // SAFETY: the slots belong to this thread.
        unsafe { (*self.slots).registers[usize::from(number)] }
    }

    /// Sets a general register of the program.
    #[inline]
    pub fn set_register(&mut self, number: u8, value: u64) {
        // SAFETY: the slots belong to this thread.
        unsafe { (*self.slots).registers[usize::from(number)] = value }
    }

    /// Puts a borrowed register's program value, or the flags', where the program's state is.
    pub fn return_loan(&mut self, loan: Loan) {
        const LAHF: u64 = 0xd5;
        const OVERFLOW: u64 = 0x800;
        // SAFETY: the slots belong to this thread.
        unsafe {
            let value = (*self.slots).spills[usize::from(loan.slot)];
            if loan.register != FLAGS {
                self.set_register(loan.register, value);
                return;
            }
            let overflow = if value & 1 != 0 { OVERFLOW } else { 0 };
            let flags = (*self.slots).flags & !(LAHF | OVERFLOW);
            (*self.slots).flags = flags | value >> 8 & LAHF | overflow;
        }
    }

    /// The program counter.
    #[must_use]
    #[inline]
    pub fn pc(&self) -> u64 {
        // SAFETY: the slots belong to this thread.
        unsafe { (*self.slots).pc }
    }

    /// Sets the program counter.
    #[inline]
    pub fn set_pc(&mut self, pc: u64) {
        // SAFETY: the slots belong to this thread.
        unsafe { (*self.slots).pc = pc }
    }
}
