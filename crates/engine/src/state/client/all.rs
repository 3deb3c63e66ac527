//! All clients of a run together.

use std::ops::Deref;

use unspool_code_cache::address::CacheAddress;
use unspool_code_cache::binding::LookupConvention;
use unspool_code_cache::cache::{Cache, CacheFull, Position};
use unspool_code_cache::gates::Callees;

use super::{Client, ClientFault, Rounds};
use crate::translate::insertion::Inserter;

/// Bytes of engine stack of a thread; touched pages only cost memory.
pub const THREAD_STACK: usize = 1 << 20;

/// All clients of a run, in their order.
#[derive(Default)]
pub struct Clients(Vec<&'static dyn Client>);

impl Deref for Clients {
    type Target = [&'static dyn Client];

    fn deref(&self) -> &Self::Target {
        &self.0
    }
}

impl FromIterator<&'static dyn Client> for Clients {
    fn from_iter<I: IntoIterator<Item = &'static dyn Client>>(clients: I) -> Clients {
        Clients(clients.into_iter().collect())
    }
}

impl Clients {
    /// Tells all of them something.
    #[inline]
    pub fn each(&self, tell: impl FnMut(&dyn Client)) {
        self.iter().copied().for_each(tell);
    }

    /// What they insert into the superblock at `pc`.
    ///
    /// # Errors
    /// If translations have to begin anew first.
    pub(crate) fn inserters(&self, pc: u64) -> Result<Vec<Box<dyn Inserter>>, CacheFull> {
        let all = self.iter().map(|client| client.inserter(pc));
        all.filter_map(Result::transpose).collect()
    }

    /// Makes all translations unreachable: see [`Cache::clear`].
    pub fn clear_translations(&self, cache: &mut Cache) {
        cache.clear(self.convention());
        self.each(|client| client.translations_unreachable());
    }

    /// Bytes of a new thread's engine stack.
    pub(crate) fn stack_size(&self) -> usize {
        let wanted = self.iter().map(|client| client.stack_size());
        wanted.fold(THREAD_STACK, usize::max)
    }

    /// See [`Client::fault`].
    pub(crate) fn fault(&self, pc: u64, address: u64) -> Option<ClientFault> {
        self.iter().find_map(|client| client.fault(pc, address))
    }

    /// See [`Client::slow_part`].
    pub(crate) fn slow_part(&self, at: CacheAddress) -> Option<CacheAddress> {
        self.iter().find_map(|client| client.slow_part(at))
    }

    /// See [`Client::passes_over`].
    pub(crate) fn passes_over(&self, at: CacheAddress) -> Option<CacheAddress> {
        self.iter().find_map(|client| client.passes_over(at))
    }

    /// See [`Client::leaves_between_rounds`].
    pub(crate) fn leaves_between_rounds(&self, at: CacheAddress, position: &Position) -> Rounds {
        let answers = self
            .iter()
            .map(|client| client.leaves_between_rounds(at, position));
        answers.min().unwrap_or(Rounds::All)
    }

    /// Whether one wants all threads to come out of the code cache.
    pub(crate) fn wants_all_outside(&self) -> bool {
        self.iter().any(|client| client.wants_all_outside())
    }

    /// What is spilled where indirect branches arrive.
    pub(crate) fn convention(&self) -> LookupConvention {
        let mut wishes = self.iter().filter_map(|client| client.convention());
        wishes.next().unwrap_or(LookupConvention::Plain)
    }

    /// What emitted code calls for them.
    pub(crate) fn callees(&self) -> Callees {
        Callees {
            slow_check: self.iter().find_map(|client| client.slow_check()),
            functions: self.iter().any(|client| client.has_functions()),
        }
    }

    /// The calling thread waits in the kernel, perhaps for long, as long as what is returned lives.
    pub(crate) fn rest(&self) -> Rest<'_> {
        self.each(|client| client.begin_rest());
        Rest(self)
    }
}

/// See [`Clients::rest`].
pub(crate) struct Rest<'clients>(&'clients Clients);

impl Drop for Rest<'_> {
    fn drop(&mut self) {
        self.0.each(|client| client.end_rest());
    }
}
