//! A tool as the engine knows it: from what the engine tells to the methods of [`Tool`].

use std::ffi::CString;
use std::io::Write;
use std::path::Path;
use std::sync::Arc;

use unspool_instrument::{
    self as instrument, Annotation, Instrumentation, MappingChange, Signal, Synchronisation,
    SystemCall, ThreadInfo, Version,
};

use crate::code::Superblock;
use crate::controller::{Control, Controlled, Controller, RegionProgress, missing};
use crate::image::Image;
use crate::run::tell_call_forms;
use crate::synchronisation;
use crate::tool::{Delivery, Tool};

/// A tool as the engine knows it. Functions of the tool get the adapter's address as that of the tool,
/// which is what it begins with.
#[repr(C)]
pub(crate) struct Adapter<T> {
    tool: T,
    /// What says at which part of the run the tool looks, if it is not to look at all of it.
    controller: Option<Controller>,
}

/// What is kept for a thread. Functions of the tool get its address as that of what the tool keeps, which
/// is what it begins with.
#[derive(Default)]
#[repr(C)]
pub(crate) struct Kept<S> {
    state: S,
    region: RegionProgress,
}

impl<T: Tool> Adapter<T> {
    /// A tool that is to look at all of a run, or at a part of it.
    pub(crate) fn new(tool: T, control: Option<&Control>) -> Adapter<T> {
        let controller = control.map(Controller::asked);
        Adapter { tool, controller }
    }

    /// The state of a thread.
    ///
    /// # Safety
    /// It must be what `thread_starts` returned for the calling thread, which has not ended.
    unsafe fn kept<'a>(state: *mut ()) -> &'a mut Kept<T::Thread> {
        // SAFETY: the caller's.
        unsafe { &mut *state.cast::<Kept<T::Thread>>() }
    }

    /// What the tool keeps of it.
    ///
    /// # Safety
    /// As for [`Adapter::kept`].
    unsafe fn state<'a>(state: *mut ()) -> &'a mut T::Thread {
        // SAFETY: the caller's.
        &mut unsafe { Adapter::<T>::kept(state) }.state
    }
}

/// The adapter is the tool of the controller's functions.
impl<T: Tool> Tool for Adapter<T> {
    type Thread = Kept<T::Thread>;

    /// The tool does that itself.
    fn instrument(&self, _: &Superblock<Self>) {}
}

impl<T: Tool> Controlled for Adapter<T> {
    fn controller(&self) -> &Controller {
        let controller = self.controller.as_ref();
        controller.expect("only a controller's functions ask for it")
    }

    fn progress(kept: &mut Kept<T::Thread>) -> &mut RegionProgress {
        &mut kept.region
    }
}

impl<T: Tool> Instrumentation for Adapter<T> {
    fn address(&self) -> *const () {
        std::ptr::from_ref(self).cast()
    }

    fn leaves_out(&self) -> bool {
        T::LEAVES_OUT
    }

    fn keeps_flags(&self) -> bool {
        T::KEEPS_FLAGS
    }

    fn instrument(&self, superblock: &instrument::Superblock) {
        let controlled = Superblock::<Adapter<T>>::new(superblock);
        let controller = self.controller.as_ref();
        let version = controller.map_or(Version::On, |it| it.version(&controlled));
        let superblock = Superblock::new(superblock);
        if T::SYNCHRONISATION {
            synchronisation::insert_takes(&superblock);
        }
        if version == Version::On {
            self.tool.instrument(&superblock);
        }
        if T::SYNCHRONISATION {
            synchronisation::insert_gives(&superblock);
        }
    }

    fn image_loads(&self, image: &Arc<instrument::images::Image>) {
        if let Some(controller) = &self.controller {
            controller.image_load(&Image::<Adapter<T>>::new(image));
        }
        let image = Image::new(image);
        if T::SYNCHRONISATION {
            synchronisation::hook_joins(&image);
        }
        self.tool.image_load(&image);
    }

    fn image_unloads(&self, image: &Arc<instrument::images::Image>) {
        self.tool.image_unload(&Image::new(image));
    }

    fn thread_starts(&self, thread: &ThreadInfo) -> *mut () {
        if let Some(controller) = &self.controller {
            controller.thread_start();
        }
        let mut kept = Box::<Kept<T::Thread>>::default();
        self.tool.thread_start(thread, &mut kept.state);
        Box::into_raw(kept).cast()
    }

    unsafe fn thread_ends(&self, thread: &ThreadInfo, state: *mut ()) {
        // SAFETY: the pointer came from the box of `thread_starts`.
        let kept = unsafe { Box::from_raw(state.cast::<Kept<T::Thread>>()) };
        self.tool.thread_end(thread, kept.state);
    }

    unsafe fn forked(&self, state: *mut ()) {
        // SAFETY: the engine hands out the state of the calling thread.
        let kept = unsafe { Adapter::<T>::kept(state) };
        if let Some(controller) = &self.controller {
            controller.forked::<Adapter<T>>(kept);
        }
        self.tool.forked(&mut kept.state);
    }

    unsafe fn signal_comes(&self, state: *mut (), signal: &mut Signal) -> bool {
        // SAFETY: the caller's.
        let state = unsafe { Adapter::<T>::state(state) };
        self.tool.signal(state, signal) == Delivery::Deliver
    }

    unsafe fn will_fork(&self, state: *mut ()) {
        // SAFETY: the caller's.
        self.tool.before_fork(unsafe { Adapter::<T>::state(state) });
    }

    unsafe fn has_forked(&self, state: *mut (), child: Option<u32>) {
        // SAFETY: the caller's.
        let state = unsafe { Adapter::<T>::state(state) };
        self.tool.after_fork(state, child);
    }

    unsafe fn executes(&self, state: *mut (), program: &Path, arguments: &[CString]) {
        // SAFETY: the caller's.
        let state = unsafe { Adapter::<T>::state(state) };
        self.tool.exec(state, program, arguments);
    }

    fn out_of_memory(&self, bytes: usize) {
        self.tool.out_of_memory(bytes);
    }

    unsafe fn system_call_enters(&self, state: *mut (), call: &mut SystemCall) {
        // SAFETY: the caller's.
        let state = unsafe { Adapter::<T>::state(state) };
        self.tool.system_call_entry(state, call);
    }

    unsafe fn system_call_leaves(&self, state: *mut (), call: &SystemCall, result: &mut i64) {
        // SAFETY: the caller's.
        let state = unsafe { Adapter::<T>::state(state) };
        self.tool.system_call_exit(state, call, result);
    }

    unsafe fn mapping_changes(&self, state: *mut (), change: &MappingChange) {
        // SAFETY: the caller's.
        let state = unsafe { Adapter::<T>::state(state) };
        self.tool.mapping(state, change);
    }

    fn wants_growth(&self) -> bool {
        T::STACK_GROWTH
    }

    unsafe fn annotated(&self, state: *mut (), said: &Annotation) {
        // SAFETY: the caller's.
        let kept = unsafe { Adapter::<T>::kept(state) };
        if let Some(controller) = &self.controller {
            controller.annotation(self, kept, said);
        }
        self.tool.annotation(&mut kept.state, said);
    }

    fn wants_synchronisation(&self) -> bool {
        T::SYNCHRONISATION
    }

    unsafe fn synchronises(&self, state: *mut (), event: &Synchronisation) {
        // SAFETY: the caller's.
        let state = unsafe { Adapter::<T>::state(state) };
        self.tool.synchronisation(state, event);
    }

    fn monitor(&self, words: &str) -> Option<String> {
        self.tool
            .monitor(&words.split_whitespace().collect::<Vec<_>>())
    }

    fn goes_on(&self) {
        self.tool.exec_failed();
    }

    fn ends(&self) {
        self.tool.end();
        missing::tell();
        tell_call_forms();
        // Nothing is written at the end of the process any more; nobody can be told if it fails.
        let _ = std::io::stdout().flush();
    }
}
