//! Batches of a buffer that a thread of the tool gets whole.

use std::marker::PhantomData;
use std::ops::Deref;

use unspool_instrument::Filled;

use crate::buffer::Entry;
use crate::tool::Tool;

/// A batch of a buffer's entries, which belongs to whoever has it ([`Buffer::with_consumer`]): it
/// can be kept, and sent to other threads. When it is dropped, its memory goes back to the
/// program's threads. Most is done by what it dereferences to, the entries.
///
/// [`Buffer::with_consumer`]: crate::Buffer::with_consumer
#[derive(Debug)]
pub struct Batch<E> {
    filled: Filled,
    entries: PhantomData<fn() -> E>,
}

impl<E: Entry> Batch<E> {
    /// The number of the thread that has made the entries.
    #[must_use]
    pub fn thread(&self) -> u32 {
        self.filled.thread()
    }

    /// How many batches of this buffer the thread has given away before: they come in this order.
    /// In a forked child it goes on from there.
    #[must_use]
    pub fn number(&self) -> u64 {
        self.filled.number()
    }

    /// Whether it is the last one of its thread, which has ended. Such a batch comes for each thread
    /// that ends, though it may have no entries.
    #[must_use]
    pub fn is_last(&self) -> bool {
        self.filled.is_last()
    }
}

impl<E: Entry> Deref for Batch<E> {
    type Target = [E];

    fn deref(&self) -> &[E] {
        // SAFETY: every field of so many entries has been stored (see `Entry`), in memory that is
        // this batch's.
        unsafe {
            std::slice::from_raw_parts(self.filled.entries().cast::<E>(), self.filled.count())
        }
    }
}

/// Calls a function of the tool with a batch.
pub(crate) fn consume<T, E, F>(filled: Filled)
where
    T: Tool,
    E: Entry,
    F: Fn(&T, Batch<E>) + Copy + 'static,
{
    // SAFETY: `Buffer::with_consumer` was given a value of it.
    let function = unsafe { crate::call::function::<F>() };
    // SAFETY: buffers of this type are filled by a tool of this type, which is there as long as the
    // process.
    let tool = unsafe { crate::call::tool::<T>() };
    let batch = Batch {
        filled,
        entries: PhantomData,
    };
    function(tool, batch);
}
