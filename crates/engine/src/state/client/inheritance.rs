//! What a new thread has from the one that created it.

use std::any::Any;
use std::sync::Arc;

use unspool_events::ThreadId;

use super::{Clients, Exhausted};
use crate::process::ThreadOrdinal;
use crate::thread::Thread;

/// What the thread that creates another one has a client keep for the new one.
pub type Inheritance = Box<dyn Any + Send + Sync>;

/// The inheritances of a thread from all clients, in their order.
#[derive(Default)]
pub(crate) struct Inherited(Vec<Option<Inheritance>>);

impl Inherited {
    /// What all clients keep for a thread that `creator` is about to create.
    pub(crate) fn from(
        creator: &mut Thread,
        ordinal: ThreadOrdinal,
    ) -> Result<Arc<Inherited>, Exhausted> {
        let clients = &creator.process.clients;
        let mut inherited = Inherited::default();
        for client in clients.iter() {
            match client.thread_created(creator, ordinal) {
                Ok(inheritance) => inherited.0.push(inheritance),
                Err(exhausted) => {
                    inherited.not_needed(clients, ordinal.id());
                    return Err(exhausted);
                }
            }
        }
        Ok(Arc::new(inherited))
    }

    /// The thread could not be started.
    pub(crate) fn not_needed(&self, clients: &Clients, id: ThreadId) {
        for (client, inheritance) in clients.iter().zip(&self.0) {
            client.thread_not_started(id, inheritance.as_ref());
        }
    }

    /// The thread is about to execute its first instruction.
    pub(crate) fn thread_starts(&self, thread: &mut Thread) {
        for (client, inheritance) in thread.clients().iter().zip(&self.0) {
            client.thread_starts(thread, inheritance.as_ref());
        }
    }
}
