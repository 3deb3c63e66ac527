//! How a client joins a run.

use unspool_loader::LoadedProgram;

use super::Client;
use crate::plan::Program;
use crate::start_error::StartError;

/// A client that is about to take part in a run. Whoever puts a run together makes one of each and
/// gives them to [`run`](crate::run), which calls their methods in the order in which they are
/// here, and each of them for all clients in their order.
pub trait NewClient {
    /// Nothing of the run has been set up: this process is still like any other.
    ///
    /// # Errors
    /// If the client cannot do what it is to do.
    fn before(&mut self, program: &Program) -> Result<(), StartError> {
        let _ = program;
        Ok(())
    }

    /// The engine has taken its part of the address space, and nothing else is there: the client
    /// may take what it needs.
    ///
    /// # Errors
    /// If it does not get that.
    fn reserve(&mut self) -> Result<(), StartError> {
        Ok(())
    }

    /// The program has been loaded, and nothing of it has run. Returns the client; `None` if it has
    /// nothing to do.
    ///
    /// # Errors
    /// If it cannot take part in this program's run.
    fn join(
        self: Box<Self>,
        program: &Program,
        loaded: &LoadedProgram,
    ) -> Result<Option<&'static dyn Client>, StartError>;
}
