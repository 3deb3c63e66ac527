//! Calls that are made each n-th time.

use unspool_instrument::SamplerId;

/// A countdown of each thread: what [`call_sampled`](crate::Point::call_sampled) inserts with
/// it is called when it ends, and it begins anew. A tool can have 64.
///
/// ```
/// use unspool_tool::{Address, InstructionPointer, Sampler, Superblock, Tool};
///
/// struct Samples {
///     sampler: Sampler,
/// }
///
/// impl Samples {
///     fn sampled(&self, samples: &mut Vec<Address>, at: Address) {
///         samples.push(at);
///     }
/// }
///
/// impl Tool for Samples {
///     type Thread = Vec<Address>;
///     fn instrument(&self, superblock: &Superblock<Self>) {
///         for block in superblock.blocks() {
///             block.before().call_sampled(self.sampler, Samples::sampled, (InstructionPointer,));
///         }
///     }
/// }
///
/// let tool = Samples { sampler: Sampler::about_every(10_000, 1000) };
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Sampler(SamplerId);

impl Sampler {
    /// A call each `passages`.
    ///
    /// # Panics
    /// If the program runs already, if there are too many, or if `passages` is 0 or above two
    /// thousand million.
    #[must_use]
    #[track_caller]
    pub fn every(passages: u32) -> Sampler {
        Sampler(SamplerId::new(passages, 0))
    }

    /// A call each `passages`, more or less by up to `jitter`, all of them equally likely: so
    /// that what a program does regularly is not always met at the same point.
    ///
    /// # Panics
    /// As for [`Sampler::every`], and if the jitter is not below `passages`.
    #[must_use]
    #[track_caller]
    pub fn about_every(passages: u32, jitter: u32) -> Sampler {
        Sampler(SamplerId::new(passages, jitter))
    }

    pub(crate) fn id(self) -> SamplerId {
        self.0
    }
}
