//! The file that is mapped into memory, and its blocks.

use std::ffi::CString;
use std::sync::atomic::{AtomicPtr, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use unspool_openmp_record::layout::{
    self, BLOCK_BYTES, BLOCK_HEADER_BYTES, HEADER_BYTES, block, header,
};

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

    /// The fields that start at an offset within these.
    pub(crate) fn at(&self, offset: usize) -> Fields {
        // SAFETY: callers stay within the block, by constants of the layout.
        Fields(unsafe { self.0.add(offset) })
    }
}

static HEADER: AtomicPtr<u8> = AtomicPtr::new(std::ptr::null_mut());

/// The file's path, and the block that descriptions go to.
#[derive(Debug)]
pub(crate) struct Growth {
    path: Option<CString>,
    entries: Option<Fields>,
}

static GROWTH: Mutex<Growth> = Mutex::new(Growth {
    path: None,
    entries: None,
});

/// The right to let the file grow.
pub(crate) fn growth() -> MutexGuard<'static, Growth> {
    GROWTH.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The header, once there is a file.
#[inline]
pub(crate) fn header() -> Option<Fields> {
    let header = HEADER.load(Ordering::Acquire);
    (!header.is_null()).then_some(Fields(header))
}

/// Makes the file. Returns its header, or nothing where it cannot be made.
pub(crate) fn create(path: CString) -> Option<Fields> {
    let mut growth = growth();
    let fields = map(&path, 0, HEADER_BYTES, libc::O_CREAT | libc::O_EXCL)?;
    fields.set(header::VERSION, layout::VERSION);
    fields.set(header::MAGIC, layout::MAGIC);
    growth.path = Some(path);
    growth.entries = None;
    HEADER.store(fields.0, Ordering::Release);
    Some(fields)
}

/// Forgets the file, in a child that must not write into its parent's.
pub(crate) fn forget(growth: &mut Growth) {
    HEADER.store(std::ptr::null_mut(), Ordering::Release);
    growth.path = None;
    growth.entries = None;
}

/// A new block of this kind, with its number.
pub(crate) fn new_block(kind: u64, owner: Option<u64>) -> Option<(u64, Fields)> {
    grow(&growth(), kind, owner)
}

fn grow(growth: &Growth, kind: u64, owner: Option<u64>) -> Option<(u64, Fields)> {
    let header = header()?;
    let number = header.get(header::BLOCKS);
    let offset = HEADER_BYTES + number as usize * BLOCK_BYTES;
    // The file is opened anew each time: a program may close descriptors that it has not
    // opened, and open others under their numbers.
    let Some(fields) = map(growth.path.as_ref()?, offset, BLOCK_BYTES, 0) else {
        header.add_shared(header::WITHOUT_ROOM, 1);
        return None;
    };
    fields.set(block::OWNER, owner.unwrap_or(number));
    fields.set(block::KIND, kind);
    header.set(header::BLOCKS, number + 1);
    Some((number, fields))
}

/// Adds a description, of these words and these bytes.
pub(crate) fn describe(what: u32, words: &[u64], bytes: &[u8]) {
    let mut growth = growth();
    let room = BLOCK_BYTES - BLOCK_HEADER_BYTES;
    // What is longer than a block is cut at its end; only a command line can be.
    let bytes = &bytes[..bytes.len().min(room - 8 - words.len() * 8)];
    let length = words.len() * 8 + bytes.len();
    let size = 8 + length.next_multiple_of(8);
    let fits = |fields: &Fields| fields.get(block::USED) as usize + size <= room;
    let fields = match growth.entries.filter(fits) {
        Some(fields) => fields,
        None => {
            let Some((_, fields)) = grow(&growth, block::ENTRIES, None) else {
                return;
            };
            growth.entries = Some(fields);
            fields
        }
    };
    let used = fields.get(block::USED) as usize;
    let mut offset = BLOCK_HEADER_BYTES + used;
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

/// Reserves and maps a part of the file.
fn map(path: &CString, offset: usize, bytes: usize, flags: i32) -> Option<Fields> {
    // SAFETY: the path ends in a zero byte; the mode is given where a file is made.
    let file = unsafe { libc::open(path.as_ptr(), libc::O_RDWR | libc::O_CLOEXEC | flags, 0o600) };
    if file < 0 {
        return None;
    }
    let offset = offset as libc::off_t;
    // Reserving tells of a full disk here; writing to the mapping would kill the program.
    // SAFETY: the descriptor is ours; the mapping is new and overlaps nothing.
    let address = unsafe {
        let reserved = libc::posix_fallocate(file, offset, bytes as libc::off_t) == 0;
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
