//! What the tracer knows of fragments.

use unspool_code_cache::address::CacheAddress;
use unspool_code_cache::binding::RegisterBinding;

use crate::clean_calls::ValueSite;
use unspool_engine::client::PerFragment;
use unspool_engine::translate::forced_splits::ForcedSplits;
use unspool_events::PathId;

/// What is known of fragments, and of the code that they are made of.
#[derive(Default)]
pub(crate) struct Fragments {
    /// What is known of each.
    pub(crate) records: PerFragment<FragmentTrace>,
    /// Where superblocks are to end.
    pub(crate) forced_splits: ForcedSplits,
}

/// What is known of a fragment of a traced program.
#[derive(Debug)]
pub(crate) struct FragmentTrace {
    /// The id of its first path.
    pub(crate) first_path: PathId,
    /// The registers that it borrows.
    pub(crate) binding: RegisterBinding,
    /// For each instruction: (words, accessing instructions) recorded before it.
    pub(crate) progress: Vec<(u8, u8)>,
    /// Its repeated string instructions.
    pub(crate) repetitions: Vec<Repetition>,
    /// Where in the cache the record of its last path is closed before its last
    /// instruction; nowhere if it is not.
    pub(crate) closed: CacheAddress,
}

/// A repeated string instruction, which a fault or a signal may end in its middle: what it did
/// until then is recorded all the same.
#[derive(Debug)]
pub(crate) struct Repetition {
    /// The number of the instruction.
    pub(crate) instruction: u32,
    /// Where it is in the cache.
    pub(crate) place: CacheAddress,
    /// Words and accessing instructions recorded with it.
    pub(crate) progress: (u8, u8),
    /// What is stored behind it: the word, and what goes there.
    pub(crate) stores: Vec<(u8, StoredRegister)>,
    /// Where its values are recorded: the place before it.
    pub(crate) values: Option<ValueSite>,
    /// Whether only a chunk of it is executed at a time.
    pub(crate) in_chunks: bool,
}

/// A general register as it is stored behind an instruction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct StoredRegister {
    /// Its number.
    pub(crate) number: u8,
    /// Whether only its lower half counts.
    pub(crate) half: bool,
    /// Whether it points into the FS segment: the base is added.
    pub(crate) beyond_fs: bool,
}
