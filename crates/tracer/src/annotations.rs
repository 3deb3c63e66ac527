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

use unspool_engine::annotation::{Annotation, ThreadNumber};
use unspool_engine::thread::Thread;
use unspool_engine::translate::superblock::MARKER;

use crate::trace_buffer::TraceBuffer;

/// How often something was said in this process.
#[derive(Debug, Default)]
pub(crate) struct Said {
    pub(crate) registrations: AtomicU32,
    pub(crate) regions: AtomicU32,
}

impl Said {
    /// A thread has said something.
    pub(crate) fn hear(&self, thread: &mut Thread, buffer: &mut TraceBuffer, said: Annotation) {
        let in_region = &buffer.recording.in_region;
        match said {
            Annotation::RegisterThread(number) => {
                self.registrations.fetch_add(1, Ordering::Relaxed);
                let (number, name) = number.read(thread);
                buffer.event(&Event::Thread(ThreadEvent::Registered { number, name }));
                buffer.register();
            }
            Annotation::StartRegion => {
                self.regions.fetch_add(1, Ordering::Relaxed);
                in_region.store(true, Ordering::Release);
                buffer.event(&Event::Span(Span::RegionStart));
            }
            Annotation::EndRegion => {
                buffer.event(&Event::Span(Span::RegionEnd));
                in_region.store(false, Ordering::Release);
            }
        }
        buffer.follow_selection();
        let is_region = !matches!(said, Annotation::RegisterThread(_));
        if is_region && buffer.recording.plan.regions_only {
            unspool_engine::requests::interrupt_others(thread);
        }
    }
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
pub(crate) struct Library(FunctionNames);

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
    pub(crate) fn find_in(
        &self,
        module: &unspool_binary::Module,
    ) -> Vec<(unspool_binary::FileAddress, Annotation)> {
        let found = module.functions_named(&self.0).into_iter();
        found
            .filter_map(|found| {
                let said = said_by(found.asked, found.function.symbol())?;
                Some((found.function.address(), said))
            })
            .collect()
    }
}

/// Whether the function at an address says itself what its name does.
pub(crate) fn is_marked(function: u64) -> bool {
    /// These functions do nothing else.
    const LOOKED_AT: usize = 64;
    let mut code = [0; LOOKED_AT];
    let length = guarded::read_short(function, &mut code);
    code[..length]
        .windows(MARKER.len())
        .any(|window| window == MARKER)
}
