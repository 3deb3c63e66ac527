//! The probe of this process, which is told of images, of forks and of the end.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicI32, Ordering};

use crate::call_path;
use crate::image::Image;
use crate::inside::Inside;
use crate::loaded_image::LoadedImage;
use crate::probe::Probe;

/// A probe of any type.
pub(crate) trait Installed: Send + Sync {
    fn asks_for_call_paths(&self) -> bool;
    fn image_load(&'static self, image: &LoadedImage);
    fn forked(&self);
    fn end(&self);
}

impl<P: Probe> Installed for P {
    fn asks_for_call_paths(&self) -> bool {
        P::CALL_PATHS
    }

    fn image_load(&'static self, image: &LoadedImage) {
        Probe::image_load(self, &Image::new(image, self));
    }

    fn forked(&self) {
        Probe::forked(self);
    }

    fn end(&self) {
        Probe::end(self);
    }
}

static PROBE: OnceLock<&'static dyn Installed> = OnceLock::new();
/// Which process this is. In a child that shares this one's memory it is another one.
static PROCESS: AtomicI32 = AtomicI32::new(0);
/// The thread that ends the process.
static ENDING: AtomicI32 = AtomicI32::new(0);

/// Has this probe insert what it wants into the program. To be called once, by what
/// [`start!`](macro@crate::start) names; [`probe!`](macro@crate::probe) does so.
pub fn install(probe: impl Probe) {
    // It lives as long as the process.
    let _ = PROBE.set(Box::leak(Box::new(probe)));
}

/// The probe, if one has been installed.
pub(crate) fn probe() -> Option<&'static dyn Installed> {
    PROBE.get().copied()
}

/// Notes which process this is.
pub(crate) fn note_process() {
    // SAFETY: only returns a number.
    PROCESS.store(unsafe { libc::getpid() }, Ordering::Relaxed);
}

/// Another program is going to take this one's place in the process: what there is to tell is
/// told. If it cannot after all, the process goes on, and ends once more.
pub(crate) fn end_for_another_program() {
    // SAFETY: only returns a number.
    let process = unsafe { libc::getpid() };
    if process == PROCESS.load(Ordering::Relaxed) && ENDING.load(Ordering::Relaxed) == 0 {
        end();
    }
}

/// The process is about to end.
pub(crate) fn end_with_process() {
    // SAFETY: these only return numbers.
    let (process, thread) = unsafe { (libc::getpid(), libc::gettid()) };
    // A child of `vfork` ends without this process.
    if process == PROCESS.load(Ordering::Relaxed) {
        match ENDING.compare_exchange(0, thread, Ordering::Relaxed, Ordering::Relaxed) {
            Ok(_) => end(),
            Err(other) if other == thread => {}
            // Another thread is about to end the process, with the status that it has.
            Err(_) => loop {
                // SAFETY: waits.
                unsafe { libc::pause() };
            },
        }
    }
}

fn end() {
    let _inside = Inside::enter();
    if let Some(probe) = PROBE.get() {
        probe.end();
    }
}

/// The process is a copy.
pub(crate) extern "C" fn forked() {
    note_process();
    let inside = Inside::enter();
    call_path::forked(inside.is_none());
    if ENDING.load(Ordering::Relaxed) != 0 {
        // The thread that was ending the process is not in this one. If it is what forked, the
        // probe itself has, at its end, and there is nothing to tell here.
        // SAFETY: only returns a number.
        let thread = unsafe { libc::gettid() };
        let ending = if inside.is_some() { 0 } else { thread };
        ENDING.store(ending, Ordering::Relaxed);
    }
    if let Some(probe) = PROBE.get() {
        probe.forked();
    }
}
