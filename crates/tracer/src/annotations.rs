//! What the program says of itself: which thread this is, and where a region of interest begins
//! and ends.
//!
//! It says so by the marker of the annotation interface, or by calling the functions of
//! atomic-memory-trace's library (`libannotation`), which are known by their names: programs that
//! are linked with that are recognised as they are. Functions of these names that hold the marker
//! are those of `unspool.h`, and say so themselves.

use std::sync::atomic::{AtomicU32, Ordering};

use unspool_binary::FunctionNames;
use unspool_events::{Event, Span, ThreadEvent};
use unspool_kernel::guarded;

use super::client;
use unspool_engine::annotation::{Annotation, ThreadNumber};
use unspool_engine::thread::Thread;
use unspool_engine::translate::plain::MARKER;

/// How often something was said in this process.
#[derive(Debug, Default)]
pub(super) struct Said {
    pub(super) registrations: AtomicU32,
    pub(super) regions: AtomicU32,
}

/// What a call of a function says, by the name and the symbol of the function.
fn said_by(name: &str, symbol: &[u8]) -> Option<Annotation> {
    match name {
        REGISTER_THREAD => Some(Annotation::RegisterThread(number_type(symbol))),
        START_REGION => Some(Annotation::StartRegion),
        END_REGION => Some(Annotation::EndRegion),
        _ => None,
    }
}

const REGISTER_THREAD: &str = "atomic_trace::register_thread";
const START_REGION: &str = "atomic_trace::start_roi";
const END_REGION: &str = "atomic_trace::end_roi";

/// How the number is passed, by the symbol, which ends with the type of the argument.
fn number_type(symbol: &[u8]) -> ThreadNumber {
    match symbol.last() {
        Some(b'i') => ThreadNumber::Signed,
        Some(b'j') => ThreadNumber::Unsigned,
        _ => ThreadNumber::Whole,
    }
}

/// The functions whose calls say something.
pub(super) struct Library(FunctionNames);

impl Default for Library {
    fn default() -> Library {
        Library(FunctionNames::new([
            REGISTER_THREAD,
            START_REGION,
            END_REGION,
        ]))
    }
}

impl Library {
    /// Those of a module, by their addresses in the file.
    pub(super) fn find_in(
        &self,
        module: &unspool_binary::Module,
    ) -> Vec<(unspool_binary::FileAddress, Annotation)> {
        let found = self.0.find_in(module).into_iter();
        found
            .filter_map(|found| {
                let said = said_by(found.asked, found.function.symbol())?;
                Some((found.function.address(), said))
            })
            .collect()
    }
}

/// Whether the function at an address says itself what its name does.
pub(super) fn is_marked(function: u64) -> bool {
    /// These functions do nothing else.
    const LOOKED_AT: usize = 64;
    let mut code = [0; LOOKED_AT];
    let readable = (1..=LOOKED_AT / 8).rev().map(|words| words * 8);
    let mut readable = readable.filter(|&length| guarded::read(function, &mut code[..length]));
    let length = readable.next().unwrap_or(0);
    code[..length]
        .windows(MARKER.len())
        .any(|window| window == MARKER)
}

/// The program has said something.
pub(super) fn annotation(thread: &mut Thread, said: Annotation) {
    let number = match said {
        Annotation::RegisterThread(number) => Some(number.read(thread)),
        Annotation::StartRegion | Annotation::EndRegion => None,
    };
    let Some((tracer, trace)) = client::of(thread) else {
        return;
    };
    match said {
        Annotation::RegisterThread(_) => {
            tracer.said.registrations.fetch_add(1, Ordering::Relaxed);
            let (number, name) = number.unwrap_or_default();
            trace.event(
                tracer,
                &Event::Thread(ThreadEvent::Registered { number, name }),
            );
            trace.registered = true;
        }
        Annotation::StartRegion => {
            tracer.said.regions.fetch_add(1, Ordering::Relaxed);
            tracer.in_region.store(true, Ordering::Release);
            trace.event(tracer, &Event::Span(Span::RegionStart));
        }
        Annotation::EndRegion => {
            trace.event(tracer, &Event::Span(Span::RegionEnd));
            tracer.in_region.store(false, Ordering::Release);
        }
    }
    trace.set_recording(tracer.should_record(trace.registered));
    let is_region = !matches!(said, Annotation::RegisterThread(_));
    if is_region && tracer.plan.regions_only {
        unspool_engine::requests::interrupt_others(thread);
    }
}
