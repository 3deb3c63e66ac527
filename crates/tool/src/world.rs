//! What a tool can do while the program runs, beside being called.

use std::ops::Range;

use unspool_instrument as instrument;

use crate::argument::Address;

/// Runs something while no other thread executes the program's code: each stands before an
/// instruction, in a system call, or where it is about to stop the others itself. Threads of the
/// tool's own go on. To be called in a function of the tool that the program's threads run, or in
/// a thread of [`spawn`].
///
/// What the function of another thread holds meanwhile (a lock, for instance) it may hold for as
/// long as this runs: threads are let out of the tool's functions before, but not out of
/// callbacks at system calls.
///
/// This tool says every second where the threads are:
///
/// ```
/// use std::time::Duration;
/// use unspool_tool::{ThreadInfo, Superblock, Tool, say, spawn, stop_the_world};
///
/// struct Whereabouts;
///
/// impl Tool for Whereabouts {
///     type Thread = ();
///     fn instrument(&self, _: &Superblock<Self>) {}
///
///     fn thread_start(&self, thread: &ThreadInfo, _: &mut ()) {
///         if thread.number != 0 {
///             return;
///         }
///         let look = || loop {
///             std::thread::sleep(Duration::from_secs(1));
///             let places: Vec<_> = stop_the_world(|threads| {
///                 threads.iter().map(|thread| (thread.number, thread.pc)).collect()
///             });
///             for (number, pc) in places {
///                 say(&format!("thread {number}: {pc:x?}"));
///             }
///         };
///         if let Err(error) = spawn("whereabouts", look) {
///             say(&format!("nobody looks: {error}"));
///         }
///     }
/// }
/// ```
///
/// # Panics
/// In [`Tool::instrument`](crate::Tool::instrument), and where the calling thread has stopped the
/// others already.
pub fn stop_the_world<R>(run: impl FnOnce(&[instrument::StoppedThread]) -> R) -> R {
    instrument::stop_the_world(run)
}

/// Has the tool asked again what to insert, before any code is executed that is in none of the
/// superblocks that threads are just in: these go on as they are until they end.
///
/// This tool has nothing inserted any more once the program has made a million calls:
///
/// ```
/// use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
/// use unspool_tool::{Branch, Superblock, Tool, instrument_again};
///
/// #[derive(Default)]
/// struct FirstCalls {
///     made: AtomicU64,
///     is_enough: AtomicBool,
/// }
///
/// impl FirstCalls {
///     fn called(&self, _: &mut ()) {
///         if self.made.fetch_add(1, Ordering::Relaxed) == 1_000_000 {
///             self.is_enough.store(true, Ordering::Relaxed);
///             instrument_again();
///         }
///     }
/// }
///
/// impl Tool for FirstCalls {
///     type Thread = ();
///
///     fn instrument(&self, superblock: &Superblock<Self>) {
///         if self.is_enough.load(Ordering::Relaxed) {
///             return;
///         }
///         for instruction in superblock.instructions() {
///             if let Some(Branch::Call | Branch::IndirectCall) = instruction.branch() {
///                 instruction.before().call(FirstCalls::called, ());
///             }
///         }
///     }
/// }
/// ```
///
/// # Panics
/// In [`Tool::instrument`](crate::Tool::instrument).
pub fn instrument_again() {
    instrument::instrument_again(0..u64::MAX);
}

/// The same for the code in a range of addresses, and superblocks that hold some of it.
///
/// # Panics
/// As for [`instrument_again`].
pub fn instrument_range_again(range: Range<Address>) {
    instrument::instrument_again(range.start.0..range.end.0);
}

/// Copies program memory. Returns how many bytes could be read: less where the rest is not mapped
/// or must not be read. A few words take a few nanoseconds: nothing else is saved for it than for
/// any other function of the tool, and only memory that is not there costs a fault.
///
/// ```
/// use unspool_tool::{Address, read_memory};
///
/// /// A string of the program's, as far as it is there.
/// fn text(address: Address) -> String {
///     let mut bytes = [0; 256];
///     let length = read_memory(address, &mut bytes);
///     let text = bytes[..length].split(|&byte| byte == 0).next();
///     String::from_utf8_lossy(text.unwrap_or_default()).into_owned()
/// }
/// ```
#[must_use]
#[inline]
pub fn read_memory(address: Address, to: &mut [u8]) -> usize {
    instrument::read_memory(address.0, to)
}

/// The word at an address of the program; `None` if it cannot be read. It takes a few nanoseconds.
#[must_use]
#[inline]
pub fn read_word(address: Address) -> Option<u64> {
    instrument::program_word(address.0)
}

/// Writes memory of the program. Returns how many bytes could be written: less where the rest is not
/// mapped or must not be written. Code that is changed so runs as it is then.
#[must_use]
pub fn write_memory(address: Address, from: &[u8]) -> usize {
    instrument::write_memory(address.0, from)
}

/// Raises a signal in a thread of the program: it is delivered before the next instruction of the
/// thread at which its mask lets it through, or ends the system call that the thread is in, as any
/// other signal. While one of the same number is still to be delivered to the thread, it is left
/// out. Returns whether there is such a thread. [`Tool::signal`](crate::Tool::signal) is told of
/// it.
///
/// What is inserted in the middle of a piece of code may be followed by the rest of that before the
/// signal comes. If an instruction is not to be executed, as one that faults is not, a function
/// before it moves the instruction pointer of a [`FullContext`](crate::FullContext) too.
///
/// ```
/// use unspool_tool::{Image, SignalOrigin, Superblock, ThreadNumber, Tool, raise_signal};
///
/// /// Has `fsync` interrupted by an alarm, to see what the program makes of it.
/// struct Interrupts;
///
/// impl Interrupts {
///     fn begins(&self, _: &mut (), thread: u32) {
///         raise_signal(thread, libc::SIGALRM, SignalOrigin::Queue { value: 0 });
///     }
/// }
///
/// impl Tool for Interrupts {
///     type Thread = ();
///     fn instrument(&self, _: &Superblock<Self>) {}
///     fn image_load(&self, image: &Image<Self>) {
///         for routine in image.routines_named("fsync") {
///             routine.entry().call(Interrupts::begins, (ThreadNumber,));
///         }
///     }
/// }
/// ```
///
/// # Panics
/// If it is no signal that can be caught, or the program is not running yet.
#[track_caller]
pub fn raise_signal(thread: u32, number: i32, origin: instrument::SignalOrigin) -> bool {
    instrument::raise_signal(thread, number, origin)
}

/// Starts a thread of the tool's own. It is none of the program's threads (though
/// `/proc/self/task` lists it): signals of the program do not come to it, the process ends
/// without waiting for it, and a child that the program forks does not have it (start it
/// again in [`Tool::forked`](crate::Tool::forked) if it is wanted there; a lock that it held at
/// that moment stays held in the child, unless it is one of [`lock`](crate::lock)). A panic in it ends the process, as everywhere in a
/// tool.
///
/// # Errors
/// If the system starts no thread.
pub fn spawn(name: &str, run: impl FnOnce() + Send + 'static) -> std::io::Result<()> {
    instrument::spawn(name, run)
}
