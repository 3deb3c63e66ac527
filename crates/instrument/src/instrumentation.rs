//! A tool as the engine calls it.

use std::ffi::CString;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use unspool_code_cache::slots::slots;

use super::annotation::Annotation;
use super::images::Image;
use super::in_tool::in_tool;
use super::mappings::MappingChange;
use super::synchronisation::Synchronisation;
use super::threads::ThreadInfo;
use super::{Signal, Superblock, SystemCall};

/// What the engine calls. Every method may be called by any thread of the program; only
/// [`Instrumentation::instrument`] never by two at once.
pub trait Instrumentation: Send + Sync {
    /// What functions get that the tool has called.
    fn address(&self) -> *const ();
    /// Whether the tool may have instructions left out. Nobody relies then on flags that such an
    /// instruction would have overwritten.
    fn leaves_out(&self) -> bool;
    /// Whether the tool looks at flags, also at those that the program overwrites before it reads
    /// them: nobody else may change them then.
    fn keeps_flags(&self) -> bool {
        false
    }
    /// Code is about to be translated.
    fn instrument(&self, superblock: &Superblock);
    /// The calling thread is about to execute its first instruction. Returns what the tool
    /// keeps for it.
    fn thread_starts(&self, thread: &ThreadInfo) -> *mut ();
    /// Code is in memory now that can be executed from now on; nothing of it has been.
    fn image_loads(&self, image: &Arc<Image>);
    /// The last of an image's code is gone.
    fn image_unloads(&self, image: &Arc<Image>);
    /// The calling thread has executed its last instruction.
    ///
    /// # Safety
    /// `state` must be what [`Instrumentation::thread_starts`] returned for the thread, and
    /// not be used any more.
    unsafe fn thread_ends(&self, thread: &ThreadInfo, state: *mut ());
    /// This process, a forked child with one thread, goes on with a copy of its parent's
    /// memory.
    ///
    /// # Safety
    /// `state` must be what [`Instrumentation::thread_starts`] returned for the thread.
    unsafe fn forked(&self, state: *mut ());
    /// The calling thread makes a system call, which the tool may change.
    ///
    /// # Safety
    /// As for [`Instrumentation::forked`].
    unsafe fn system_call_enters(&self, state: *mut (), call: &mut SystemCall);
    /// The calling thread's system call is over; the tool may change its result.
    ///
    /// # Safety
    /// As for [`Instrumentation::forked`].
    unsafe fn system_call_leaves(&self, state: *mut (), call: &SystemCall, result: &mut i64);
    /// A signal is about to be delivered to the calling thread. Returns whether it is to be.
    ///
    /// # Safety
    /// As for [`Instrumentation::forked`].
    unsafe fn signal_comes(&self, state: *mut (), signal: &mut Signal) -> bool;
    /// The calling thread is about to make a copy of the process.
    ///
    /// # Safety
    /// As for [`Instrumentation::forked`].
    unsafe fn will_fork(&self, state: *mut ());
    /// The calling thread has made a copy of the process, with this id; `None` if it could not.
    ///
    /// # Safety
    /// As for [`Instrumentation::forked`].
    unsafe fn has_forked(&self, state: *mut (), child: Option<u32>);
    /// What is mapped in a range has changed.
    ///
    /// # Safety
    /// As for [`Instrumentation::forked`].
    unsafe fn mapping_changes(&self, state: *mut (), change: &MappingChange) {
        let _ = (state, change);
    }
    /// Whether the tool wants to be told when stacks grow.
    fn wants_growth(&self) -> bool {
        false
    }
    /// The calling thread says something of itself or of the program.
    ///
    /// # Safety
    /// As for [`Instrumentation::forked`].
    unsafe fn annotated(&self, state: *mut (), said: &Annotation) {
        let _ = (state, said);
    }
    /// Whether the tool wants to be told by which steps threads know of each other.
    fn wants_synchronisation(&self) -> bool {
        false
    }
    /// The calling thread has made such a step, or is about to.
    ///
    /// # Safety
    /// As for [`Instrumentation::forked`].
    unsafe fn synchronises(&self, state: *mut (), event: &Synchronisation) {
        let _ = (state, event);
    }
    /// The process is about to become another program.
    ///
    /// # Safety
    /// As for [`Instrumentation::forked`].
    unsafe fn executes(&self, state: *mut (), program: &Path, arguments: &[CString]);
    /// There is no memory left for so many bytes, for the tool or for the engine, or hardly any in all:
    /// the process ends when this returns.
    fn out_of_memory(&self, bytes: usize);
    /// The program has ended, or becomes another one.
    fn ends(&self);
    /// It goes on after [`ends`](Instrumentation::ends), because the kernel has refused the other
    /// one. All its threads start once more behind this.
    fn goes_on(&self);
    /// The user of a debugger says something to the tool, while the program is stopped. `None`:
    /// the tool does not listen.
    fn monitor(&self, words: &str) -> Option<String> {
        let _ = words;
        None
    }
}

/// A tool that does nothing: for what else needs instrumented code.
pub(crate) struct NoTool;

impl Instrumentation for NoTool {
    fn address(&self) -> *const () {
        std::ptr::null()
    }

    fn leaves_out(&self) -> bool {
        false
    }

    fn image_loads(&self, _: &Arc<Image>) {}

    fn image_unloads(&self, _: &Arc<Image>) {}

    fn instrument(&self, _: &Superblock) {}

    fn thread_starts(&self, _: &ThreadInfo) -> *mut () {
        std::ptr::null_mut()
    }

    unsafe fn thread_ends(&self, _: &ThreadInfo, _: *mut ()) {}

    unsafe fn forked(&self, _: *mut ()) {}

    unsafe fn system_call_enters(&self, _: *mut (), _: &mut SystemCall) {}

    unsafe fn system_call_leaves(&self, _: *mut (), _: &SystemCall, _: &mut i64) {}

    unsafe fn signal_comes(&self, _: *mut (), _: &mut Signal) -> bool {
        true
    }

    unsafe fn will_fork(&self, _: *mut ()) {}

    unsafe fn has_forked(&self, _: *mut (), _: Option<u32>) {}

    unsafe fn executes(&self, _: *mut (), _: &Path, _: &[CString]) {}

    fn out_of_memory(&self, _: usize) {}

    fn ends(&self) {}

    fn goes_on(&self) {}
}

/// The thread that is asking the tool what to insert; 0 for none.
static INSTRUMENTING: AtomicUsize = AtomicUsize::new(0);

/// Asks the tool what to insert. The code cache is locked meanwhile.
pub(crate) fn ask(tool: &dyn Instrumentation, superblock: &Superblock) {
    INSTRUMENTING.store(own_address(), Ordering::Relaxed);
    in_tool(|| tool.instrument(superblock));
    INSTRUMENTING.store(0, Ordering::Relaxed);
}

/// Whether the calling thread is asking.
pub(crate) fn is_asking() -> bool {
    let asking = INSTRUMENTING.load(Ordering::Relaxed);
    asking != 0 && asking == own_address()
}

/// By which a thread is told from others: what it has for itself is elsewhere than theirs.
fn own_address() -> usize {
    std::ptr::from_ref(slots()).addr()
}
