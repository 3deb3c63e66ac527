//! The tool of a process, with what is known for it: put together from its parts. Tools ask here
//! what they may ask anywhere.

use std::sync::Arc;

use unspool_kernel::lock::OnceLock;

use super::compiled::CompiledFunctions;
use super::fragments::Fragments;
use super::functions::{Functions, Hooks};
use super::images::{Image, Images};
use super::inserted::Parts;
use super::instrumentation::{Instrumentation, NoTool};
use super::mappings::Mappings;
use super::system_calls::SystemCallPlaces;
use super::watcher::{self, Watcher};

/// The tool with which the program is observed, and what is known for it.
pub(crate) struct Instrumenter {
    pub(crate) tool: Box<dyn Instrumentation>,
    /// What it gave as its address: asked for once, so that functions of the tool which want it
    /// make no call that cannot be followed.
    address: usize,
    pub(crate) images: Images,
    /// What calls have said of the program's memory.
    pub(crate) mappings: Mappings,
    pub(crate) functions: Functions,
    pub(crate) system_calls: SystemCallPlaces,
    pub(crate) fragments: Fragments,
    compiled: CompiledFunctions,
}

static INSTRUMENTER: OnceLock<Instrumenter> = OnceLock::new();

/// Has the program that will be run in this process observed by a tool.
///
/// # Panics
/// If there is a tool already.
#[track_caller]
pub fn install(tool: Box<dyn Instrumentation>) {
    let instrumenter = Instrumenter {
        address: tool.address().expose_provenance(),
        tool,
        images: Images::default(),
        mappings: Mappings::default(),
        functions: Functions::default(),
        system_calls: SystemCallPlaces::default(),
        fragments: Fragments::default(),
        compiled: CompiledFunctions::default(),
    };
    let first = INSTRUMENTER.set(instrumenter).is_ok();
    assert!(first, "a process has one tool");
}

impl Instrumenter {
    /// The tool, if the program is observed by one.
    #[inline]
    pub(crate) fn get() -> Option<&'static Instrumenter> {
        INSTRUMENTER.get()
    }

    /// What inserted code is about.
    pub(crate) fn parts(&'static self) -> Parts {
        Parts {
            tool: &*self.tool,
            images: &self.images,
            functions: &self.functions,
            system_calls: &self.system_calls,
            fragments: &self.fragments,
            compiled: &self.compiled,
        }
    }
}

/// The address that the tool gave as [`Instrumentation::address`]; null if there is no tool.
#[must_use]
pub fn tool_address() -> *const () {
    let instrumenter = Instrumenter::get();
    instrumenter.map_or(std::ptr::null(), |it| {
        std::ptr::with_exposed_provenance(it.address)
    })
}

/// The tool's answer to a command of the user of a debugger. `None`: there is no tool, or it does
/// not listen.
#[must_use]
pub fn ask_tool(words: &str) -> Option<String> {
    Instrumenter::get()?.tool.monitor(words)
}

/// The image that holds the code at an address.
#[must_use]
pub fn image_at(address: u64) -> Option<Arc<Image>> {
    Instrumenter::get()?.images.find(address)
}

/// All images that there are.
#[must_use]
pub fn all_images() -> Arc<Vec<Arc<Image>>> {
    Instrumenter::get().map_or_else(Arc::default, |it| it.images.now().0)
}

/// Hooks the function at an address, beside what is hooked there already. Not to be called
/// while code is being translated.
pub fn hook(address: u64, hooks: Hooks) {
    if let Some(instrumenter) = Instrumenter::get() {
        instrumenter.functions.hook(address, hooks);
    }
}

/// Hooks the functions whose addresses the function at an address returns: that of a symbol
/// which only chooses one (`STT_GNU_IFUNC`).
pub fn hook_result(address: u64, hooks: Hooks) {
    let of_result: &'static Hooks = Box::leak(Box::new(hooks));
    hook(
        address,
        Hooks {
            of_result: Some(of_result),
            ..Hooks::default()
        },
    );
}

/// Has the accesses of the program that will be run in this process tested, whether it is observed
/// by a tool or not.
///
/// # Panics
/// If somebody watches already.
pub fn watch(by: &'static dyn Watcher) {
    if Instrumenter::get().is_none() {
        install(Box::new(NoTool));
    }
    watcher::set(by);
}
