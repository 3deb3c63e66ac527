//! What a tool is.

use std::ffi::CString;
use std::path::Path;

use unspool_instrument::{
    Annotation, MappingChange, Signal, Synchronisation, SystemCall, ThreadInfo,
};

use crate::code::Superblock;
use crate::image::Image;

/// A tool. One value of it serves all threads of the program, which call it at the same time.
///
/// The program's threads run the tool's code themselves, each on a stack of its own that the
/// program does not see, so all of the standard library and any crate can be used. A lock
/// that is held makes the threads wait that want it, as ever; what must be quick belongs into
/// [`Tool::Thread`], which needs none.
pub trait Tool: Sized + Send + Sync + 'static {
    /// What the tool keeps for each thread. `()` if it keeps nothing.
    type Thread: Default + Send + 'static;

    /// Whether it may have instructions of the program left out. Code before such an instruction
    /// may then rely on nothing that the instruction would have done, which makes what is inserted
    /// a little slower.
    const LEAVES_OUT: bool = false;

    /// Whether it looks at flags ([`Flags`](crate::Flags)), which are then what the processor has made
    /// them, also where the program overwrites them before it reads them. What is inserted becomes a
    /// little slower, because it must keep them.
    const KEEPS_FLAGS: bool = false;

    /// Whether it wants to be told by which steps threads know of each other
    /// ([`Tool::synchronisation`]): two calls at each atomic instruction.
    const SYNCHRONISATION: bool = false;

    /// Whether [`Tool::mapping`] is to tell how stacks grow, too: a system call or two at each system
    /// call, some 0.2 µs each, and one at each batch of a buffer and each signal.
    const STACK_GROWTH: bool = false;

    /// Says what to insert into a piece of code that is about to be translated. The same
    /// code may come again: in another piece, or because there was no room to keep its
    /// translation.
    fn instrument(&self, superblock: &Superblock<'_, Self>);

    /// Code is in memory: the program, its dynamic loader, the kernel's part, a library, or what
    /// the program made itself. Nothing of it has been executed yet. Other parts of the file,
    /// and what is to be relocated in it, may still be missing.
    fn image_load(&self, image: &Image<'_, Self>) {
        let _ = image;
    }

    /// The last of an image's code is gone. Not called for what is there when the program ends.
    fn image_unload(&self, image: &Image<'_, Self>) {
        let _ = image;
    }

    /// A thread of the program is about to execute its first instruction; in that thread.
    fn thread_start(&self, thread: &ThreadInfo, state: &mut Self::Thread) {
        let _ = (thread, state);
    }

    /// A thread of the program has executed its last instruction; in that thread, behind its last
    /// entries of buffers, and before another thread can know of its end, by joining it for
    /// instance. All threads end before [`Tool::end`], those too that a process's end cuts short.
    fn thread_end(&self, thread: &ThreadInfo, state: Self::Thread) {
        let _ = (thread, state);
    }

    /// A thread is about to make a system call, which can be changed: what is made is what
    /// `call` says then. The kernel's number of a call that does not exist (`u64::MAX`) makes
    /// none, and gives `ENOSYS`.
    fn system_call_entry(&self, state: &mut Self::Thread, call: &mut SystemCall) {
        let _ = (state, call);
    }

    /// A system call is over, and its result can be changed: negative error numbers are as the
    /// kernel gives them. Calls that do not return (`exit`, `execve`, `rt_sigreturn`) do not
    /// come here. One that is interrupted and made again behind a signal's handler is one call: it
    /// is entered once, with the change made then, and comes here when it is over at last.
    fn system_call_exit(&self, state: &mut Self::Thread, call: &SystemCall, result: &mut i64) {
        let _ = (state, call, result);
    }

    /// A thread's system call has changed what is mapped in a range of addresses: memory was mapped,
    /// unmapped or moved, its protection changed, or the program break. It comes before
    /// [`Tool::system_call_exit`] of that call. The first one, for all addresses, tells what the
    /// program starts with.
    ///
    /// The stack of the first thread grows without a system call, where the program touches memory
    /// below it, and so does what it maps with `MAP_GROWSDOWN`. A tool that says
    /// [`Tool::STACK_GROWTH`] is told of that, too ([`MappingCause::Growth`]): by the thread that is
    /// about to tell it something else, before that. So whatever entries of a buffer say is
    /// accessed, and what system calls are given, lies in memory that the tool knows of when it gets
    /// them. This holds
    ///
    /// - before a batch of a buffer with entries of such accesses comes, to a function or to a
    ///   consumer, also by [`Buffer::flush`];
    /// - before [`Tool::system_call_entry`], and before [`Tool::system_call_exit`] for what the kernel
    ///   has written meanwhile;
    /// - before [`Tool::signal`], [`Tool::annotation`], [`Tool::before_fork`] and
    ///   [`Tool::thread_end`].
    ///
    /// It does not hold in functions that inserted code calls: the access before which one is called
    /// has not been made yet, and nothing is asked for it. What a stack may come to at most is known
    /// from the start ([`ThreadInfo::stack_reach`]).
    ///
    /// Steps between two of these moments are told as one, and two threads that find the same at one
    /// time both tell it. Such a mapping shrinks by system calls alone. As an entry may be what is
    /// delivered next, none can be appended while growth is told, and no buffer flushed.
    ///
    /// ```
    /// use std::ops::Range;
    /// use unspool_tool::{MappingCause, MappingChange, Superblock, ThreadInfo, Tool, lock::Mutex, say};
    ///
    /// /// Tells how deep the first thread's stack has got.
    /// #[derive(Default)]
    /// struct Depth {
    ///     stack: Mutex<Range<u64>>,
    /// }
    ///
    /// impl Tool for Depth {
    ///     type Thread = ();
    ///     const STACK_GROWTH: bool = true;
    ///     fn instrument(&self, _: &Superblock<Self>) {}
    ///
    ///     fn thread_start(&self, thread: &ThreadInfo, (): &mut ()) {
    ///         if thread.number == 0 {
    ///             *self.stack.lock() = thread.stack.clone();
    ///         }
    ///     }
    ///
    ///     fn mapping(&self, (): &mut (), change: &MappingChange) {
    ///         let mut stack = self.stack.lock();
    ///         if change.cause == MappingCause::Growth && change.range.end == stack.start {
    ///             stack.start = change.range.start;
    ///         }
    ///     }
    ///
    ///     fn end(&self) {
    ///         let stack = self.stack.lock();
    ///         say(&format!("{} KiB of stack", (stack.end - stack.start) / 1024));
    ///     }
    /// }
    /// ```
    ///
    /// [`MappingCause::Growth`]: crate::MappingCause::Growth
    /// [`Buffer::flush`]: crate::Buffer::flush
    fn mapping(&self, state: &mut Self::Thread, change: &MappingChange) {
        let _ = (state, change);
    }

    /// A thread says something of itself or of the program, by the functions that programs may
    /// include for that: behind all entries of buffers that it has made until then.
    fn annotation(&self, state: &mut Self::Thread, said: &Annotation) {
        let _ = (state, said);
    }

    /// A thread is about to give others to know what it has done before, or has got to know what
    /// others have given: by an atomic instruction, at a futex, or where threads are created, start,
    /// end and are joined. Only for tools that say [`Tool::SYNCHRONISATION`].
    ///
    /// What is given is told before it can be seen, what is taken behind that. So the events of an
    /// object come in an order in which a vector clock of it can be kept: whoever takes has all that
    /// was given to what it has seen. Their numbers say the same. Before an atomic instruction it
    /// is told behind all that the tool has inserted there, and behind the instruction before that;
    /// if the instruction faults, or does not write, it has given to know more than it must.
    ///
    /// ```
    /// use std::collections::HashMap;
    /// use unspool_tool::{Side, Superblock, Synchronisation, SyncObject, Tool, lock::Mutex};
    ///
    /// /// How many threads each thread has heard of.
    /// #[derive(Default)]
    /// struct Hearsay {
    ///     given: Mutex<HashMap<SyncObject, Vec<u32>>>,
    /// }
    ///
    /// impl Tool for Hearsay {
    ///     type Thread = Vec<u32>;
    ///     const SYNCHRONISATION: bool = true;
    ///     fn instrument(&self, _: &Superblock<Self>) {}
    ///
    ///     fn synchronisation(&self, heard_of: &mut Vec<u32>, event: &Synchronisation) {
    ///         let mut given = self.given.lock();
    ///         let object = given.entry(event.object).or_default();
    ///         let (from, to) = match event.side {
    ///             Side::Gives => (heard_of, object),
    ///             Side::Takes => (object, heard_of),
    ///         };
    ///         let news: Vec<_> = from.iter().filter(|it| !to.contains(it)).copied().collect();
    ///         to.extend(news);
    ///     }
    /// }
    /// ```
    ///
    /// Functions of the C library (mutexes, semaphores, condition variables, `std::atomic`, channels
    /// of Rust) are made of these steps; where a tool wants their names, there are
    /// [`Image::routines_named`] and [`Routine::entry`](crate::Routine::entry). Plain moves are not
    /// told of, though some programs synchronise by them: a spin lock is released by one, and a flag
    /// may be read by one. That a thread that had ended is joined is known by the functions' names
    /// (`pthread_join`, `thrd_join`). Pipes, sockets and signals order threads too: see
    /// [`Tool::system_call_entry`] and [`Tool::signal`].
    fn synchronisation(&self, state: &mut Self::Thread, event: &Synchronisation) {
        let _ = (state, event);
    }

    /// A signal is about to be delivered to a thread: its handler is to run, or the process to
    /// die of it. Signals that the program ignores do not come here, nor does `SIGKILL`, nor what the
    /// program waits for by `sigwait` or `signalfd`. The thread's registers can be changed: the
    /// handler sees them so, and the thread goes on with them if the signal is swallowed. An
    /// instruction whose fault is swallowed is executed again: something must have changed then.
    fn signal(&self, state: &mut Self::Thread, signal: &mut Signal<'_>) -> Delivery {
        let _ = (state, signal);
        Delivery::Deliver
    }

    /// The program is about to fork a child with a copy of its memory, in the thread that does
    /// so. (A child that shares the memory until it executes a program, as `vfork` and
    /// `posix_spawn` make it, is part of the thread that waits for it.)
    fn before_fork(&self, state: &mut Self::Thread) {
        let _ = state;
    }

    /// It has forked a child, with this process id, or could not; in the parent. In the child
    /// there is [`Tool::forked`].
    fn after_fork(&self, state: &mut Self::Thread, child: Option<u32>) {
        let _ = (state, child);
    }

    /// The process is about to become another program, as far as can be told before. If it does,
    /// [`Tool::thread_end`] and [`Tool::end`] follow, and the tool starts anew there.
    fn exec(&self, state: &mut Self::Thread, program: &Path, arguments: &[CString]) {
        let _ = (state, program, arguments);
    }

    /// There is no memory left for an allocation of so many bytes, of the tool or of the engine, in
    /// whichever thread: a limit is reached, or the machine or a control group has hardly any. There
    /// is a little now, to say something. When this returns, the process ends.
    fn out_of_memory(&self, bytes: usize) {
        let _ = bytes;
    }

    /// The process was forked by the program, and this is the child, which goes on with a copy of
    /// all that the tool knows. Its counters are at zero, and only the calling thread is there.
    /// A lock that another thread held at that moment stays held here, unless it is one of
    /// [`lock`](crate::lock), which a fork waits for.
    fn forked(&self, state: &mut Self::Thread) {
        let _ = state;
    }

    /// The user of gdb has typed `monitor WORDS` while the program is stopped. What is returned
    /// is shown; `None` says that the tool has no such commands.
    fn monitor(&self, words: &[&str]) -> Option<String> {
        let _ = words;
        None
    }

    /// The program has ended, or makes place for another one (`execve`), which is observed from
    /// its start by a new process of this tool.
    ///
    /// It comes once. Only where the kernel refuses the other program and could not be asked
    /// before (it can since Linux 6.14, but for a lack of memory),
    /// [`exec_failed`](Tool::exec_failed) follows, and another `end`.
    fn end(&self) {}

    /// The program goes on after all: the kernel has refused to execute another one, behind
    /// [`end`](Tool::end), which comes once more at the program's own end. Its threads, which have
    /// ended for the tool, start once more behind this. A tool that has said something at the end
    /// may say that it is not the last word, or count from the start; what it has counted so far
    /// is still there.
    fn exec_failed(&self) {}
}

/// What becomes of a signal.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Delivery {
    /// The program gets it.
    Deliver,
    /// It does not.
    Swallow,
}
