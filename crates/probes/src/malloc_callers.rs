//! Tells through which calls a program allocates, by a function of its own around `malloc`.
//!
//! Its argument is how many paths are told, those with the most bytes: ten unless it says.

use std::collections::HashMap;
use std::sync::atomic::{AtomicPtr, Ordering};
use std::sync::{Mutex, PoisonError};

use unspool_probe::{Address, Functions, Image, Original, Probe, arguments, call_path, say};

type Malloc = extern "C" fn(usize) -> Address;

/// So many callers are told apart.
const DEPTH: usize = 64;

/// Blocks and bytes by the calls that led there.
type Paths = Mutex<HashMap<Vec<u64>, (u64, u64)>>;

/// Adds up allocations by their call paths.
pub(crate) struct MallocCallers {
    /// Those of this process. A child begins with others: one of its parent's threads may have
    /// locked these, which is not in the child.
    paths: AtomicPtr<Paths>,
}

impl Default for MallocCallers {
    fn default() -> MallocCallers {
        MallocCallers {
            paths: AtomicPtr::new(Box::leak(Box::default())),
        }
    }
}

impl MallocCallers {
    fn malloc(&self, original: &mut Original<Malloc>, size: usize) -> Address {
        let block = original.call(size);
        if block != Address(0) {
            let mut path = [0; DEPTH];
            let length = call_path(&mut path);
            let mut paths = self.paths().lock().unwrap_or_else(PoisonError::into_inner);
            let key = &path[..length];
            let total = match paths.get_mut(key) {
                Some(total) => total,
                None => paths.entry(key.to_vec()).or_default(),
            };
            *total = (total.0 + 1, total.1 + size as u64);
        }
        block
    }

    fn paths(&self) -> &Paths {
        // SAFETY: those that have been current are never freed.
        unsafe { &*self.paths.load(Ordering::Acquire) }
    }
}

impl Probe for MallocCallers {
    const CALL_PATHS: bool = true;

    fn image_load(&self, image: &Image<Self>) {
        image.wrap::<Malloc>("malloc", MallocCallers::malloc);
    }

    fn forked(&self) {
        self.paths
            .store(Box::leak(Box::default()), Ordering::Release);
    }

    fn end(&self) {
        let wanted = arguments().first().and_then(|word| word.to_str());
        let wanted = wanted.and_then(|word| word.parse().ok()).unwrap_or(10);
        let paths = self.paths().lock().unwrap_or_else(PoisonError::into_inner);
        let mut paths: Vec<_> = paths.iter().collect();
        paths.sort_by_key(|(path, (_, bytes))| (std::cmp::Reverse(*bytes), *path));
        let mut functions = Functions::new();
        let mut name = |address: &u64| {
            let named = functions.name_at(*address);
            named.unwrap_or_else(|| format!("{address:#x}"))
        };
        let told = wanted.min(paths.len());
        for (path, (blocks, bytes)) in &paths[..told] {
            let callers: Vec<String> = path.iter().map(&mut name).collect();
            let callers = callers.join(", ");
            say(&format!("{bytes} bytes in {blocks} blocks from {callers}"));
        }
        let others = &paths[told..];
        if !others.is_empty() {
            let bytes: u64 = others.iter().map(|(_, (_, bytes))| bytes).sum();
            say(&format!("{bytes} bytes by {} other paths", others.len()));
        }
    }
}
