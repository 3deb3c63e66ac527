//! Mappings that the kernel lets grow downwards where the program touches memory below them: the
//! first thread's stack, and those that the program maps so (`MAP_GROWSDOWN`).
//!
//! That is no system call, so nobody comes to the engine for it. A tool that wants to know is told
//! before it is told anything else in which such memory may occur: whoever is about to do that calls
//! [`tell`] first. It costs a system call for each mapping that grows, which asks whether the page
//! below is mapped by now.

use std::ops::Range;

use unspool_engine::process::Process;
use unspool_kernel::lock::{Mutex, OnceLock};
use unspool_kernel::mapped::{is_mapped, lowest_mapped};
use unspool_kernel::regions::{Edge, Regions};

const PAGE: u64 = 4096;

/// A mapping has grown.
#[derive(Debug, Clone)]
pub(crate) struct Growth {
    /// What has come to it.
    pub(crate) range: Range<u64>,
    /// How it is protected.
    pub(crate) protection: i32,
}

/// Tells the tool, in a thread whose state this is.
pub(crate) type Tell = fn(*mut (), &Growth);

static TELL: OnceLock<Tell> = OnceLock::new();

/// Down to where the tool has been told that mappings are which can grow.
static TOLD: Mutex<Vec<Edge>> = Mutex::new(Vec::new());

/// From now on the tool is told.
pub(crate) fn begin(process: &Process, tell: Tell) {
    let _ = TELL.set(tell);
    mappings_changed(process);
}

/// Has the tool told what has grown since it was told last, if it wants that. Two threads that find
/// the same at one time both tell it, so that neither goes on before it is told. No lock is held
/// meanwhile, and that of translations is not taken: the thread may be in a function of the tool that
/// has one in hand which the tool takes while code is translated.
#[inline]
pub(crate) fn tell(state: *mut ()) {
    if let Some(tell) = TELL.get()
        && has_grown()
    {
        tell_of_all(*tell, state);
    }
}

fn has_grown() -> bool {
    let told = TOLD.lock();
    told.iter()
        .any(|edge| is_mapped(edge.address - PAGE..edge.address))
}

#[cold]
fn tell_of_all(tell: Tell, state: *mut ()) {
    let found: Vec<Growth> = TOLD.lock().iter().filter_map(grown).collect();
    for growth in &found {
        tell(state, growth);
    }
    let mut told = TOLD.lock();
    for Growth { range, .. } in &found {
        let same = told.iter_mut().filter(|edge| edge.address == range.end);
        same.for_each(|edge| edge.address = range.start);
    }
}

/// What has come to a mapping that was known to be there down to its edge.
fn grown(edge: &Edge) -> Option<Growth> {
    let range = lowest_mapped(edge.address, edge.floor)..edge.address;
    let protection = edge.protection;
    (!range.is_empty()).then_some(Growth { range, protection })
}

/// Finds out how far everything has grown, for what is known of the program's memory, and tells
/// nobody.
pub(crate) fn follow(process: &Process) {
    let mut code = process.code();
    let found: Vec<Growth> = code.regions.edges().filter_map(|it| grown(&it)).collect();
    for Growth { range, .. } in found {
        code.regions.grow(range.end, range.start);
    }
}

/// A system call has changed what is mapped.
pub(crate) fn mappings_changed(process: &Process) {
    if TELL.get().is_none() {
        return;
    }
    let code = process.code();
    let mut told = TOLD.lock();
    let edges = code.regions.edges().map(|edge| {
        // What has grown since may be known already, and not told.
        let here = told.iter().map(|it| it.address);
        let address = here
            .filter(|it| (edge.address..edge.end).contains(it))
            .max();
        Edge {
            address: address.unwrap_or(edge.address),
            ..edge
        }
    });
    let can_grow = edges.filter(|edge| edge.floor < edge.address);
    let now: Vec<Edge> = can_grow.collect();
    *told = now;
}

/// Down to where the region is mapped at this moment that starts at `start`.
pub(crate) fn lowest(regions: &Regions, start: u64) -> u64 {
    let edge = regions.edge_of(start);
    edge.map_or(start, |edge| lowest_mapped(edge.address, edge.floor))
}
