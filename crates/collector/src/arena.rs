//! The file that is mapped into memory, and its blocks.

use std::ffi::{CString, OsStr};
use std::fs::OpenOptions;
use std::io::{self, Write};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::OpenOptionsExt;
use std::sync::atomic::{AtomicPtr, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use unspool_container::ThreadId;
use unspool_container::in_place::{self, HEADER_BYTES};
use unspool_container::stream::StreamNumber;
use unspool_openmp_record::layout::{BLOCK_BYTES, block, process_block, stream};

/// Fields in the mapped file, at byte offsets from here.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Fields(*mut u8);

// SAFETY: the fields are only accessed as atomics, and are never unmapped.
unsafe impl Send for Fields {}
// SAFETY: as above.
unsafe impl Sync for Fields {}

impl Fields {
    fn field(&self, offset: usize) -> &AtomicU64 {
        // SAFETY: offsets are constants of the layout, multiples of eight and within the
        // block or record that this points to, which stays mapped as long as the process.
        unsafe { &*self.0.add(offset).cast::<AtomicU64>() }
    }

    #[inline]
    pub(crate) fn get(&self, offset: usize) -> u64 {
        self.field(offset).load(Ordering::Relaxed)
    }

    #[inline]
    pub(crate) fn set(&self, offset: usize, value: u64) {
        self.field(offset).store(value, Ordering::Relaxed);
    }

    /// Adds to a field that only this thread writes.
    #[inline]
    pub(crate) fn add(&self, offset: usize, value: u64) {
        self.set(offset, self.get(offset).wrapping_add(value));
    }

    /// Raises a field that only this thread writes.
    #[inline]
    pub(crate) fn raise(&self, offset: usize, value: u64) {
        if value > self.get(offset) {
            self.set(offset, value);
        }
    }

    /// Adds to a field that several threads write.
    pub(crate) fn add_shared(&self, offset: usize, value: u64) {
        self.field(offset).fetch_add(value, Ordering::Relaxed);
    }

    /// Raises a field that several threads write.
    pub(crate) fn raise_shared(&self, offset: usize, value: u64) {
        self.field(offset).fetch_max(value, Ordering::Relaxed);
    }

    /// Sets bits of a field that several threads write.
    pub(crate) fn set_bits(&self, offset: usize, bits: u64) {
        self.field(offset).fetch_or(bits, Ordering::Relaxed);
    }

    /// Makes a block valid for readers: its header is written, the magic at its start last.
    fn publish(&self, header: &[u8; HEADER_BYTES]) {
        let (words, _) = header.as_chunks();
        for (index, word) in words.iter().enumerate().rev() {
            let word = u64::from_le_bytes(*word);
            self.field(index * 8).store(word, Ordering::Release);
        }
    }

    /// The fields that start at an offset within these.
    pub(crate) fn at(&self, offset: usize) -> Fields {
        // SAFETY: callers stay within the block, by constants of the layout.
        Fields(unsafe { self.0.add(offset) })
    }
}

static PROCESS_BLOCK: AtomicPtr<u8> = AtomicPtr::new(std::ptr::null_mut());

/// The file's path, how much of it is in use, and the block that descriptions go to.
#[derive(Debug)]
pub(crate) struct Growth {
    path: Option<CString>,
    bytes: usize,
    /// How many blocks each stream has.
    blocks: [u64; stream::COUNT],
    descriptions: Option<Fields>,
}

impl Growth {
    const NONE: Growth = Growth {
        path: None,
        bytes: 0,
        blocks: [0; stream::COUNT],
        descriptions: None,
    };
}

static GROWTH: Mutex<Growth> = Mutex::new(Growth::NONE);

/// The right to let the file grow.
pub(crate) fn growth() -> MutexGuard<'static, Growth> {
    GROWTH.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The block of the process, once there is a file.
#[inline]
pub(crate) fn process_block() -> Option<Fields> {
    let block = PROCESS_BLOCK.load(Ordering::Acquire);
    (!block.is_null()).then_some(Fields(block))
}

/// Makes the file, which starts with these bytes, and then has the block of the process, whose
/// fields `fill` sets. Returns the block, or nothing where the file cannot be made.
pub(crate) fn create(path: CString, start: &[u8], fill: impl FnOnce(Fields)) -> Option<Fields> {
    let mut growth = growth();
    write_new(&path, start).ok()?;
    let fields = map(&path, start.len(), process_block::BYTES)?;
    fill(fields);
    let bytes = process_block::BYTES - HEADER_BYTES;
    fields.publish(&in_place::block_header(
        stream::PROCESS,
        ThreadId(0),
        0,
        bytes as u64,
    ));
    *growth = Growth {
        path: Some(path),
        bytes: start.len() + process_block::BYTES,
        ..Growth::NONE
    };
    PROCESS_BLOCK.store(fields.0, Ordering::Release);
    Some(fields)
}

fn write_new(path: &CString, start: &[u8]) -> io::Result<()> {
    let path = OsStr::from_bytes(path.as_bytes());
    let mut options = OpenOptions::new();
    options.write(true).create_new(true).mode(0o600);
    let mut file = options.open(path)?;
    without_size_signal(|| file.write_all(start))
}

/// Forgets the file, in a child that must not write into its parent's.
pub(crate) fn forget(growth: &mut Growth) {
    PROCESS_BLOCK.store(std::ptr::null_mut(), Ordering::Release);
    *growth = Growth::NONE;
}

/// A new block of a stream, of this thread's, with its number in the stream.
pub(crate) fn new_block(stream: StreamNumber, thread: u64) -> Option<(u64, Fields)> {
    growth().grow(stream, Some(thread))
}

/// A new block of the stream of threads, with the number of the thread that it is for.
pub(crate) fn new_thread_block() -> Option<(u64, Fields)> {
    let (number, fields) = growth().grow(stream::THREADS, None)?;
    Some((number + 1, fields))
}

impl Growth {
    /// A new block, which belongs to a thread or, with none given, is for the next new thread.
    fn grow(&mut self, stream: StreamNumber, thread: Option<u64>) -> Option<(u64, Fields)> {
        let process = process_block()?;
        // The file is opened anew each time: a program may close descriptors that it has not
        // opened, and open others under their numbers.
        let Some(fields) = map(self.path.as_ref()?, self.bytes, BLOCK_BYTES) else {
            process.add_shared(process_block::WITHOUT_ROOM, 1);
            return None;
        };
        let blocks = &mut self.blocks[usize::from(stream.0 - stream::PROCESS.0)];
        let number = *blocks;
        *blocks += 1;
        self.bytes += BLOCK_BYTES;
        let thread = ThreadId(thread.unwrap_or(number + 1) as u32);
        let bytes = BLOCK_BYTES - HEADER_BYTES;
        fields.publish(&in_place::block_header(
            stream,
            thread,
            number,
            bytes as u64,
        ));
        Some((number, fields))
    }
}

/// Adds a description, of these words and these bytes.
pub(crate) fn describe(what: u32, words: &[u64], bytes: &[u8]) {
    let mut growth = growth();
    // What is longer than a block is cut at its end; only a path can be.
    let bytes = &bytes[..bytes.len().min(block::ROOM - 8 - words.len() * 8)];
    let length = words.len() * 8 + bytes.len();
    let size = 8 + length.next_multiple_of(8);
    let fits = |fields: &Fields| fields.get(block::USED) as usize + size <= block::ROOM;
    let fields = match growth.descriptions.filter(fits) {
        Some(fields) => fields,
        None => {
            let Some((_, fields)) = growth.grow(stream::DESCRIPTIONS, Some(0)) else {
                return;
            };
            growth.descriptions = Some(fields);
            fields
        }
    };
    let used = fields.get(block::USED) as usize;
    let mut offset = block::CONTENT + used;
    fields.set(offset, u64::from(what) | ((length as u64) << 32));
    for word in words {
        offset += 8;
        fields.set(offset, *word);
    }
    for chunk in bytes.chunks(8) {
        let mut word = [0; 8];
        word[..chunk.len()].copy_from_slice(chunk);
        offset += 8;
        fields.set(offset, u64::from_le_bytes(word));
    }
    fields.set(block::USED, (used + size) as u64);
}

/// Lets the file grow without the signal that tells the program of its limit of file sizes: what is
/// refused is counted as lost.
fn without_size_signal<R>(grow: impl FnOnce() -> R) -> R {
    // SAFETY: the sets are made before they are used, and live as long as the calls.
    unsafe {
        let mut set: libc::sigset_t = std::mem::zeroed();
        let mut before: libc::sigset_t = std::mem::zeroed();
        libc::sigemptyset(&raw mut set);
        libc::sigaddset(&raw mut set, libc::SIGXFSZ);
        libc::pthread_sigmask(libc::SIG_BLOCK, &raw const set, &raw mut before);
        let is_pending = || {
            let mut pending: libc::sigset_t = std::mem::zeroed();
            libc::sigpending(&raw mut pending);
            libc::sigismember(&raw const pending, libc::SIGXFSZ) == 1
        };
        let waited = is_pending();
        let result = grow();
        if !waited && is_pending() {
            let now: libc::timespec = std::mem::zeroed();
            libc::sigtimedwait(&raw const set, std::ptr::null_mut(), &raw const now);
        }
        libc::pthread_sigmask(libc::SIG_SETMASK, &raw const before, std::ptr::null_mut());
        result
    }
}

/// Reserves and maps a part of the file.
fn map(path: &CString, offset: usize, bytes: usize) -> Option<Fields> {
    // SAFETY: the path ends in a zero byte.
    let file = unsafe { libc::open(path.as_ptr(), libc::O_RDWR | libc::O_CLOEXEC) };
    if file < 0 {
        return None;
    }
    let offset = offset as libc::off_t;
    // Reserving tells of a full disk here; writing to the mapping would kill the program.
    // SAFETY: the descriptor is ours; the mapping is new and overlaps nothing.
    let address = unsafe {
        let reserve = || libc::posix_fallocate(file, offset, bytes as libc::off_t);
        let reserved = without_size_signal(reserve) == 0;
        let address = if reserved {
            let protection = libc::PROT_READ | libc::PROT_WRITE;
            libc::mmap(
                std::ptr::null_mut(),
                bytes,
                protection,
                libc::MAP_SHARED,
                file,
                offset,
            )
        } else {
            libc::MAP_FAILED
        };
        libc::close(file);
        address
    };
    (address != libc::MAP_FAILED).then_some(Fields(address.cast()))
}
