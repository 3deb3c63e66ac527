//! How the tool joins a run.

use unspool_loader::LoadedProgram;

use super::{Instrumenter, buffers, counters, samplers, shadow};
use unspool_engine::StartError;
use unspool_engine::client::{Client, NewClient};
use unspool_engine::own_failures;
use unspool_engine::plan::Program;

/// The tool that has been [installed](super::install), if one has. With `beside_recorder` another
/// client may keep the register of the position in a buffer for itself.
#[must_use]
pub fn instrumenter(beside_recorder: bool) -> Option<Box<dyn NewClient>> {
    let instrumenter = Instrumenter::get()?;
    Some(Box::new(NewInstrumenter {
        instrumenter,
        position_is_taken: beside_recorder,
    }))
}

struct NewInstrumenter {
    instrumenter: &'static Instrumenter,
    position_is_taken: bool,
}

impl NewClient for NewInstrumenter {
    /// From now on nothing is added that threads have of their own.
    fn reserve(&mut self) -> Result<(), StartError> {
        buffers::settle(self.position_is_taken);
        samplers::settle();
        shadow::settle();
        counters::settle().map_err(StartError::Reserve)?;
        own_failures::keep_reserve();
        Ok(())
    }

    fn join(
        self: Box<Self>,
        _program: &Program,
        _loaded: &LoadedProgram,
    ) -> Result<Option<&'static dyn Client>, StartError> {
        Ok(Some(self.instrumenter))
    }
}
