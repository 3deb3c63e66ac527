//! The beginning, the loading of libraries, and the end.

use std::cell::UnsafeCell;
use std::ffi::{c_char, c_int};
use std::sync::atomic::{AtomicBool, Ordering};

use unspool_preload::fork;

use crate::inside::{self, Inside};
use crate::loaded_image::LoadedImage;
use crate::loader::{self, Identity};
use crate::passage::{EntryPoint, Hook, ResultPlace};
use crate::{call_path, children, environment, errno, installed, mapped, own_stack, voice};

/// Exit status of a process that ends because its probe failed, as under a tool.
const PROBE_FAILURE: c_int = 125;

static IS_WATCHING_LOADER: AtomicBool = AtomicBool::new(false);
static KNOWN: Known = Known(UnsafeCell::new(Vec::new()));

/// The images that have been seen.
struct Known(UnsafeCell<Vec<Identity>>);

// SAFETY: only used at the process's start and with the loader's lock.
unsafe impl Sync for Known {}

/// The process's beginning, before anything of the program.
///
/// # Safety
/// To be called by the dynamic loader.
#[doc(hidden)]
pub unsafe fn begin(environment: *mut *mut c_char, start: fn()) {
    // SAFETY: at this time nobody else uses the loader's list and the environment.
    let given = unsafe {
        loader::hide();
        environment::take(environment)
    };
    inside::find();
    errno::find();
    voice::keep(given.is_verbose);
    end_on_panic();
    installed::note_process();
    let Some(_inside) = Inside::enter() else {
        return;
    };
    start();
    if installed::probe().is_none() {
        return;
    }
    if given.follows_children && !given.preload.is_empty() {
        children::follow(given);
    }
    fork::watch(None, None, Some(installed::forked));
    if has_threads() {
        voice::say("warning: the program has threads before it begins, so that nothing is probed");
        return;
    }
    // SAFETY: the loader is not at work: it is what called this.
    unsafe { look(true) };
    if !IS_WATCHING_LOADER.load(Ordering::Relaxed) {
        voice::say(
            "warning: libraries that the program loads later are not probed: nothing tells when",
        );
    }
}

/// Looks at the images that are new.
///
/// # Safety
/// To be called at the process's start, or by the loader.
unsafe fn look(is_start: bool) {
    let Some(probe) = installed::probe() else {
        return;
    };
    // SAFETY: the caller's: nobody else is here.
    let (known, maps) = unsafe { (&mut *KNOWN.0.get(), loader::images()) };
    if probe.asks_for_call_paths() {
        // SAFETY: the caller's.
        unsafe {
            match is_start {
                true => call_path::prepare(),
                false => mapped::look(),
            }
        }
    }
    let now: Vec<Identity> = maps.iter().map(|map| map.identity()).collect();
    let new = maps
        .iter()
        .zip(&now)
        .filter(|(map, identity)| !map.is_own() && !known.contains(identity));
    for image in new.filter_map(|(map, _)| LoadedImage::open(map, is_start)) {
        if is_start {
            prepare(&image);
        }
        probe.image_load(&image);
        image.apply();
    }
    *known = now;
}

/// Changes what is needed of the loader and the C library for a probe to work.
fn prepare(image: &LoadedImage) {
    static NOTHING: () = ();
    let entry = |function, integers| EntryPoint {
        function,
        integers,
        result: ResultPlace::None,
    };
    if let Some(range) = loader::stop_function()
        && image.range().contains(&range.start)
    {
        let entry = entry(on_change as *const (), 0);
        let is_watching = image.hook("_dl_debug_state", &range, &entry, &NOTHING);
        IS_WATCHING_LOADER.store(is_watching, Ordering::Relaxed);
    }
    let name = image.path().file_name().unwrap_or_default();
    if name.as_encoded_bytes().starts_with(b"libc.so") {
        let ends = ("_exit", entry(on_exit as *const (), 1));
        for (name, entry) in children::entries().into_iter().chain([ends]) {
            image.hook_named(name, &entry, &NOTHING);
        }
    }
}

/// The loader's list has changed, or is going to. What was just mapped has not been relocated,
/// and nothing of it has run.
unsafe extern "C-unwind" fn on_change(hook: &'static Hook) {
    type Change = unsafe extern "C-unwind" fn();
    extern "C" fn look_again() {
        // SAFETY: the loader holds its lock.
        unsafe { look(false) }
    }
    // If a function of the probe's loads a library, its mark stays.
    let _inside = Inside::enter();
    // SAFETY: the loader holds its lock; the hook is that of a function without arguments.
    unsafe {
        let before = errno::errno();
        own_stack::call(look_again);
        errno::set_errno(before);
        let original: Change = std::mem::transmute(hook.original);
        original();
    }
}

/// The process ends.
unsafe extern "C-unwind" fn on_exit(status: c_int, hook: &'static Hook) {
    type Exit = unsafe extern "C-unwind" fn(c_int);
    installed::end_with_process();
    // SAFETY: the hook is that of `_exit`.
    unsafe {
        let original: Exit = std::mem::transmute(hook.original);
        original(status);
    }
}

/// A panic is the probe's, not the program's, which must not go on with half of what it asked
/// for.
fn end_on_panic() {
    std::panic::set_hook(Box::new(|panic| {
        let message = panic.payload_as_str().unwrap_or("no message");
        let place = panic.location().map(|place| format!(" at {place}"));
        let place = place.unwrap_or_default();
        voice::say(&format!("error: the probe panicked{place}: {message}"));
        // SAFETY: ends the process, without what the program does at its end.
        unsafe { libc::syscall(libc::SYS_exit_group, PROBE_FAILURE) };
    }));
}

fn has_threads() -> bool {
    std::fs::read_dir("/proc/self/task").is_ok_and(|threads| threads.count() > 1)
}

/// Has a function called when the library is loaded into a program, which is to
/// [`install`](crate::install) a probe. For libraries with several probes; for others there is
/// [`probe!`](macro@crate::probe).
#[macro_export]
macro_rules! start {
    ($start:expr) => {
        const _: () = {
            extern "C" fn begin(
                _: ::core::ffi::c_int,
                _: *mut *mut ::core::ffi::c_char,
                environment: *mut *mut ::core::ffi::c_char,
            ) {
                // SAFETY: the dynamic loader calls this.
                unsafe { $crate::begin(environment, $start) }
            }
            #[used]
            // SAFETY: the dynamic loader calls what stands in this section, after relocation,
            // with the arguments and the environment of the program.
            #[unsafe(link_section = ".init_array")]
            static BEGIN: extern "C" fn(
                ::core::ffi::c_int,
                *mut *mut ::core::ffi::c_char,
                *mut *mut ::core::ffi::c_char,
            ) = begin;
        };
    };
}

/// Makes the library a probe: the expression is evaluated when it is loaded into a program.
///
/// ```
/// # use unspool_probe::{Image, Probe};
/// struct Nothing;
///
/// impl Probe for Nothing {
///     fn image_load(&self, _: &Image<Self>) {}
/// }
///
/// unspool_probe::probe!(Nothing);
/// # fn main() {}
/// ```
#[macro_export]
macro_rules! probe {
    ($probe:expr) => {
        $crate::start!(|| $crate::install($probe));
    };
}
