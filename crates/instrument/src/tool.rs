//! The tool as the engine knows it.

use std::collections::{BTreeMap, HashMap};
use std::ffi::CString;
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

use unspool_code_cache::address::CacheAddress;
use unspool_code_cache::binding::{LookupConvention, RegisterBinding};
use unspool_code_cache::gates::CallSlots;
use unspool_code_cache::slots::{SlotsPart, slots};
use unspool_instructions::operands::ExtendedStateSizes;
use unspool_kernel::lock::{Mutex, OnceLock};

use super::functions::Functions;
use super::images::{Image, Images};
use super::insertions::Inserted;
use super::system_calls::{SystemCall, SystemCallPlaces};
use super::{Amounts, BufferId, Compiled, Counter, Signal, Superblock, buffers};
use crate::inserted::sets_stack_pointer;
use crate::slots as tool_slots;
use unspool_engine::client::PerFragment;
use unspool_engine::process::Process;
use unspool_engine::translate::forced_splits::ForcedSplits;
use unspool_engine::translate::superblock::{CallSites, Item, Limits};

/// The address that the tool gave as [`Instrumentation::address`]; null if there is no tool.
#[must_use]
pub fn tool_address() -> *const () {
    let instrumenter = Instrumenter::get();
    instrumenter.map_or(std::ptr::null(), |it| it.tool.address())
}

/// What [`Instrumentation::thread_starts`] returned for the calling thread.
#[must_use]
pub fn thread_state() -> *mut () {
    CallSlots::of(slots()).tool_state.get() as *mut ()
}

/// Where an argument's word is that is not passed in a register, for the call that the calling
/// thread is in.
///
/// # Panics
/// If a call cannot have so many.
#[must_use]
#[inline]
pub fn argument_word(number: usize) -> *mut u64 {
    CallSlots::of(slots()).arguments[number].as_ptr()
}

/// The number of the calling thread of the program: 0 for the first one.
#[must_use]
#[inline]
pub fn thread_number() -> u32 {
    tool_slots::of(slots()).thread_number.get() as u32
}

/// The word at an address of the program; `None` if nothing can be read there.
#[must_use]
#[inline]
pub fn program_word(address: u64) -> Option<u64> {
    unspool_kernel::guarded::read_quickly(address)
}

/// What the engine calls. Every method may be called by any thread of the program; only
/// [`Instrumentation::instrument`] never by two at once.
pub trait Instrumentation: Send + Sync {
    /// What functions get that the tool has called.
    fn address(&self) -> *const ();
    /// Whether the tool may have instructions left out. Nobody relies then on flags that such an
    /// instruction would have overwritten.
    fn leaves_out(&self) -> bool;
    /// Code is about to be translated.
    fn instrument(&self, superblock: &Superblock);
    /// The calling thread is about to execute its first instruction. Returns what the tool
    /// keeps for it.
    fn thread_starts(&self, number: u32) -> *mut ();
    /// Code is in memory now that can be executed from now on; nothing of it has been.
    fn image_loads(&self, image: &Arc<Image>);
    /// The last of an image's code is gone.
    fn image_unloads(&self, image: &Arc<Image>);
    /// The calling thread has executed its last instruction.
    ///
    /// # Safety
    /// `state` must be what [`Instrumentation::thread_starts`] returned for the thread, and
    /// not be used any more.
    unsafe fn thread_ends(&self, number: u32, state: *mut ());
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
    /// The process is about to become another program.
    ///
    /// # Safety
    /// As for [`Instrumentation::forked`].
    unsafe fn executes(&self, state: *mut (), program: &Path, arguments: &[CString]);
    /// There is no memory left for so many bytes, for the tool or for the engine: the process
    /// ends when this returns.
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

    fn thread_starts(&self, _: u32) -> *mut () {
        std::ptr::null_mut()
    }

    unsafe fn thread_ends(&self, _: u32, _: *mut ()) {}

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

/// The tool with which the program is observed, and what is known of its fragments.
pub(crate) struct Instrumenter {
    pub(crate) tool: Box<dyn Instrumentation>,
    pub(crate) images: Images,
    pub(crate) functions: Functions,
    pub(crate) system_calls: SystemCallPlaces,
    pub(crate) fragments: PerFragment<FragmentCounts>,
    pub(crate) forced_splits: ForcedSplits,
    pub(crate) call_sites: CallSites,
    /// What is known of functions, by address.
    compiled: Mutex<HashMap<u64, Option<Arc<Compiled>>>>,
    /// Where in the cache code of the tool is: the end of each stretch, by its start.
    tool_code: Mutex<BTreeMap<u64, u64>>,
    /// Room for the next superblock's instructions, and for what is inserted there.
    room: Mutex<Inserted>,
    state_sizes: ExtendedStateSizes,
    process: OnceLock<&'static Process>,
}

/// What a fragment counts, and where: so that it comes out right where the fragment is left
/// in the middle.
#[derive(Debug, Default)]
pub(crate) struct FragmentCounts {
    /// What instructions count when they have been executed: their numbers, in order.
    pub(crate) due: Vec<(u32, Counter, i64)>,
    /// Before which instruction something has been added to counters, and what.
    pub(crate) added: (u32, Amounts),
    /// What instructions append to buffers when they have been executed: their numbers, in
    /// order, and bytes.
    pub(crate) appended: Vec<(u32, BufferId, u16)>,
    /// Where repeated string instructions are in the cache.
    pub(crate) repetitions: Vec<CacheAddress>,
    /// The registers spilled, if any are.
    pub(crate) binding: Option<RegisterBinding>,
}

/// Where there are buffers: registers for a position, and for scratch.
const BOUND: usize = 2;

static INSTRUMENTER: OnceLock<Instrumenter> = OnceLock::new();

/// Has the program that will be run in this process observed by a tool.
///
/// # Panics
/// If there is a tool already.
pub fn install(tool: Box<dyn Instrumentation>) {
    let instrumenter = Instrumenter {
        tool,
        images: Images::default(),
        functions: Functions::default(),
        system_calls: SystemCallPlaces::default(),
        fragments: PerFragment::default(),
        forced_splits: ForcedSplits::default(),
        call_sites: CallSites::default(),
        compiled: Mutex::default(),
        tool_code: Mutex::default(),
        room: Mutex::default(),
        state_sizes: ExtendedStateSizes::of_this_processor(),
        process: OnceLock::new(),
    };
    let first = INSTRUMENTER.set(instrumenter).is_ok();
    assert!(first, "a process has one tool");
}

/// The tool's answer to a command of the user of a debugger. `None`: there is no tool, or it does
/// not listen.
#[must_use]
pub fn ask_tool(words: &str) -> Option<String> {
    Instrumenter::get()?.tool.monitor(words)
}

impl Instrumenter {
    /// The tool, if the program is observed by one.
    #[inline]
    pub(crate) fn get() -> Option<&'static Instrumenter> {
        INSTRUMENTER.get()
    }

    /// There is a process, which the tool observes.
    pub(super) fn run_begins(&self, process: &'static Process) {
        let _ = self.process.set(process);
    }

    /// The process, once there is one: what a tool may ask for anywhere, and at any time.
    pub(super) fn process() -> Option<&'static Process> {
        Instrumenter::get()?.process.get().copied()
    }

    /// What is spilled where indirect branches arrive.
    pub(crate) fn convention(&self) -> LookupConvention {
        match buffers::are_used() {
            true => LookupConvention::Traced,
            false => LookupConvention::Plain,
        }
    }

    /// What is known of a function that is to be called.
    pub(crate) fn compiled(&self, function: u64) -> Option<Arc<Compiled>> {
        self.compiled
            .lock()
            .entry(function)
            .or_insert_with(|| Compiled::examine(function).map(Arc::new))
            .clone()
    }

    /// Code of the tool is in these places of the cache.
    pub(crate) fn add_tool_code(&self, code: &[Range<u64>]) {
        if code.is_empty() {
            return;
        }
        self.tool_code
            .lock()
            .extend(code.iter().map(|range| (range.start, range.end)));
    }

    /// Whether code of the tool is at a place of the cache.
    pub(crate) fn is_tool_code(&self, pc: u64) -> bool {
        let code = self.tool_code.lock();
        code.range(..=pc)
            .next_back()
            .is_some_and(|(_, end)| pc < *end)
    }

    /// Room for what is inserted into a superblock, empty.
    pub(crate) fn room(&self) -> Inserted {
        std::mem::take(&mut *self.room.lock())
    }

    /// Takes it back.
    pub(crate) fn keep_room(&self, mut inserted: Inserted) {
        inserted.clear();
        *self.room.lock() = inserted;
    }

    /// No fragment is left.
    pub(crate) fn forget_fragments(&self) {
        self.tool_code.lock().clear();
        self.fragments.clear();
        self.call_sites.forget();
    }

    /// Calls are made at new places from now on.
    pub(crate) fn forget_call_sites(&self) {
        self.call_sites.forget();
    }
}

impl Limits for Instrumenter {
    fn bound_registers(&self) -> usize {
        match buffers::are_used() {
            true => BOUND,
            false => 0,
        }
    }

    fn state_sizes(&self) -> ExtendedStateSizes {
        self.state_sizes
    }

    fn word_bound(&self, _: &Item) -> usize {
        0
    }

    fn forced_splits(&self) -> &ForcedSplits {
        &self.forced_splits
    }

    /// The processor predicts a return only if each call is made from one place (see
    /// [`CallSites`]), and the code behind such a place cannot be a particular
    /// superblock's.
    fn follows_calls(&self) -> bool {
        false
    }

    fn is_function(&self, pc: u64) -> bool {
        self.functions.hook_at(pc).is_some()
    }

    fn leaves_out(&self) -> bool {
        self.tool.leaves_out()
    }

    fn call_sites(&self) -> Option<&CallSites> {
        Some(&self.call_sites)
    }

    /// What the instructions before it count is to be in the counters when the tool is told that
    /// functions are left there.
    fn ends_behind(&self, item: &Item) -> bool {
        self.functions.follows_returns() && sets_stack_pointer(item)
    }
}
