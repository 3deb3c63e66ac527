//! Watched memory.
//!
//! Translated code tests before each access whether it may touch what is watched
//! ([`unspool_instrument::Watcher`]). If so, [`may_touch`] looks closely, and has the thread stop
//! behind the instruction.

use std::sync::atomic::{AtomicUsize, Ordering};

use unspool_kernel::guarded;
use unspool_kernel::lock::RwLock;

use unspool_instrument::{AccessExtent, Watcher};

use super::of_thread::{Elements, OF_THREAD, Touch, Touched, kept};
use super::reason::{Reason, WatchKind};
use super::world::{World, lock};
use unspool_engine::thread::Thread;

#[derive(Debug, Clone)]
struct Watch {
    address: u64,
    length: u64,
    kind: WatchKind,
    /// What was there when all threads stood for the last time; empty if it is not to be had.
    content: Vec<u8>,
}

static WATCHES: RwLock<Vec<Watch>> = RwLock::new(Vec::new());
/// How many there are, for who must be quick.
static COUNT: AtomicUsize = AtomicUsize::new(0);
/// Threads that are to tell what has become of watched memory, and have not told yet. It becomes
/// less only while the world is locked, and with the stop that tells it: whoever has the lock, and
/// sees a change and then nobody here, is the first to see it.
static UNTOLD: AtomicUsize = AtomicUsize::new(0);

/// What translated code is to test accesses for.
pub(super) struct Watches;

impl Watcher for Watches {
    fn is_any(&self) -> bool {
        is_any()
    }

    fn ranges(&self, write: bool) -> Vec<(u64, u64)> {
        ranges(write)
    }

    fn may_touch(&self) -> unspool_instrument::AnalysisFunction {
        may_touch
    }
}

/// The most ranges that translated code compares an address with.
const MOST_RANGES: usize = 4;
/// More than that is not kept to be compared.
const MOST_CONTENT: u64 = 1 << 16;

fn change<T>(change: impl FnOnce(&mut Vec<Watch>) -> T) -> T {
    let mut watches = WATCHES.write();
    let result = change(&mut watches);
    COUNT.store(watches.len(), Ordering::SeqCst);
    result
}

fn is_any() -> bool {
    COUNT.load(Ordering::Relaxed) != 0
}

fn content(address: u64, length: u64) -> Vec<u8> {
    let mut bytes = vec![0; length.min(MOST_CONTENT) as usize];
    if length > MOST_CONTENT || !guarded::read(address, &mut bytes) {
        bytes.clear();
    }
    bytes
}

pub(super) fn add(address: u64, length: u64, kind: WatchKind) {
    let content = content(address, length);
    change(|watches| {
        watches.push(Watch {
            address,
            length,
            kind,
            content,
        });
    });
}

pub(super) fn remove(address: u64, length: u64, kind: WatchKind) -> bool {
    change(|watches| {
        let wanted = (address, length, kind);
        let place = watches
            .iter()
            .position(|watch| (watch.address, watch.length, watch.kind) == wanted);
        place.map(|place| watches.remove(place)).is_some()
    })
}

/// Returns whether there were any.
pub(super) fn forget_all() -> bool {
    change(|watches| !std::mem::take(watches).is_empty())
}

/// All threads stand, or the debugger has written: notes what is there.
pub(super) fn memory_changed() {
    if is_any() {
        change(|watches| {
            for watch in watches {
                watch.content = content(watch.address, watch.length);
            }
        });
    }
}

/// The ranges in which an access may touch what is watched: first and last byte, a few at most.
fn ranges(write: bool) -> Vec<(u64, u64)> {
    if !is_any() {
        return Vec::new();
    }
    let watches = WATCHES.read();
    let mut ranges: Vec<(u64, u64)> = watches
        .iter()
        .filter(|watch| watch.kind.includes(write))
        .map(|watch| (watch.address, watch.address + (watch.length - 1)))
        .collect();
    drop(watches);
    ranges.sort_unstable();
    while ranges.len() > MOST_RANGES {
        // Those that are closest become one: what lies between is looked at, and found unwatched.
        let gaps = ranges
            .windows(2)
            .map(|pair| pair[1].0.saturating_sub(pair[0].1));
        let (closest, _) = gaps.enumerate().min_by_key(|&(_, gap)| gap).expect("pairs");
        let (_, end) = ranges.remove(closest + 1);
        ranges[closest].1 = ranges[closest].1.max(end);
    }
    ranges
}

/// Translated code calls this before an access that may touch what is watched, by the gate for
/// tools' functions: with the address, the value of the register that the extent depends on, the
/// extent, and whether the count is 32 bits wide.
extern "C" fn may_touch(
    _tool: *const (),
    _state: *mut (),
    address: u64,
    register: u64,
    word: u64,
    narrow: u64,
) -> u64 {
    let thread = Thread::current();
    if thread.is_null() {
        return 0;
    }
    // SAFETY: the pointer is this thread's own, whose translated code has called.
    let thread = unsafe { &mut *thread };
    let (extent, write) = AccessExtent::from_word(word);
    let what = match extent {
        AccessExtent::Bytes(size) => Touched::Range(address, size),
        AccessExtent::Around(size) => Touched::Range(address & !(size - 1), size),
        AccessExtent::BitString(size) => {
            let bits = size * 8;
            let number = (register as i64) << (64 - bits) >> (64 - bits);
            let unit = number.div_euclid(bits as i64);
            Touched::Range(address.wrapping_add((unit * size as i64) as u64), size)
        }
        AccessExtent::Repeated(size) => Touched::Elements(Elements {
            address,
            size,
            count: register,
            narrow: narrow != 0,
        }),
        AccessExtent::Anywhere => Touched::Unknown,
    };
    let touches = match what {
        Touched::Range(start, length) => !hits(write, start, length).is_empty(),
        Touched::Elements(elements) => {
            let (start, length) = elements.until(thread, 0);
            !hits(write, start, length).is_empty()
        }
        Touched::Unknown => write,
    };
    if touches && OF_THREAD.of(thread).touches.len() < 4 {
        is_to_tell(thread);
        OF_THREAD.of(thread).touches.push(Touch { write, what });
        thread.set_pending(true);
    }
    0
}

fn is_to_tell(thread: &mut Thread) {
    if !std::mem::replace(&mut OF_THREAD.of(thread).untold, true) {
        UNTOLD.fetch_add(1, Ordering::SeqCst);
    }
}

/// The thread has told what it had to tell, or had nothing to tell after all.
pub(super) fn told(thread: &mut Thread, _world: &World) {
    if std::mem::take(&mut OF_THREAD.of(thread).untold) {
        UNTOLD.fetch_sub(1, Ordering::SeqCst);
    }
}

/// What is watched in a range: the first byte of each, and what for.
fn hits(write: bool, start: u64, length: u64) -> Vec<(u64, WatchKind)> {
    let watches = WATCHES.read();
    let touched = watches.iter().filter(|watch| {
        watch.kind.includes(write)
            && length != 0
            && start <= watch.address + (watch.length - 1)
            && watch.address < start.saturating_add(length)
    });
    touched
        .map(|watch| (start.max(watch.address), watch.kind))
        .collect()
}

/// The first byte that is not what it was when all threads stood.
fn changed() -> Option<(u64, WatchKind)> {
    let watches = WATCHES.read();
    let written = watches.iter().filter(|watch| watch.kind.includes(true));
    written
        .filter(|watch| !watch.content.is_empty())
        .find(|watch| content(watch.address, watch.length) != watch.content)
        .map(|watch| (watch.address, watch.kind))
}

/// The thread is behind the instruction: what it has touched becomes an event, one after the other.
pub(super) fn touched(thread: &mut Thread) {
    if is_touching(thread) {
        let touches = std::mem::take(&mut OF_THREAD.of(thread).touches);
        let mut found: Vec<_> = touches
            .iter()
            .flat_map(|touch| match touch.what {
                Touched::Range(start, length) => hits(touch.write, start, length),
                Touched::Elements(elements) => {
                    let left = thread.register(unspool_code_cache::emit::gpr::RCX);
                    let (start, length) = elements.until(thread, left);
                    hits(touch.write, start, length)
                }
                Touched::Unknown => changed().into_iter().collect(),
            })
            .collect();
        found.dedup();
        OF_THREAD.of(thread).found.extend(found);
    }
    if let Some((address, kind)) = OF_THREAD.of(thread).found.pop() {
        OF_THREAD.of(thread).event = Some(Reason::Watch { address, kind });
    }
}

/// Whether the instruction that is being executed touches watched memory.
pub(super) fn is_touching(thread: &Thread) -> bool {
    kept(thread).is_some_and(|kept| !kept.touches.is_empty())
}

/// The instruction has faulted: it has touched nothing, unless it is repeated.
pub(crate) fn forget_touches(thread: &mut Thread) {
    if !is_touching(thread) {
        return;
    }
    let touches = &mut OF_THREAD.of(thread).touches;
    touches.retain(|touch| matches!(touch.what, Touched::Elements(_)));
    if touches.is_empty() {
        told(thread, &lock());
    }
}

/// A system call is over: if what is watched has changed, and no thread is about to tell that it
/// was it, the kernel has done so.
pub(super) fn call_is_over(thread: &mut Thread, _world: &World) {
    if is_any()
        && let Some((address, kind)) = changed()
        && UNTOLD.load(Ordering::SeqCst) == 0
    {
        is_to_tell(thread);
        OF_THREAD.of(thread).event = Some(Reason::Watch { address, kind });
    }
}
