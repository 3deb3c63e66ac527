//! Locks that a fork finds free.
//!
//! A forked child has a copy of every lock, but only the thread that forked. A lock that another
//! thread held would stay locked there for good, and what it protects half changed. So each lock
//! of the engine's is one of these. A thread that takes its first one is counted among the
//! holders; a fork excludes all of them for as long as it takes to copy the process. A lock that
//! is added later takes part by its type, and the lint `disallowed_types` (`clippy.toml`) refuses
//! the standard library's.
//!
//! What that asks of whoever holds a lock: not to wait for what another thread does, unless that
//! thread needs no lock for it. For a thread without any lock may be kept from its first one by a
//! fork that waits for the holder.
//!
//! A panic does not poison these locks.
//!
//! ```
//! use unspool_kernel::lock::Mutex;
//!
//! static NAMES: Mutex<Vec<String>> = Mutex::new(Vec::new());
//!
//! NAMES.lock().push("main".to_owned());
//! assert_eq!(NAMES.lock().len(), 1);
//! ```

mod condition;
mod futex;
mod holders;
mod mutex;
mod once;
mod own;
mod read_write;
#[cfg(test)]
mod tests;

pub use condition::Condvar;
pub use mutex::{Mutex, MutexGuard};
pub use once::OnceLock;
pub use own::{Change, assert_none_held, exclude_others, held, is_amid_change};
pub use read_write::{RwLock, RwLockReadGuard, RwLockWriteGuard};
