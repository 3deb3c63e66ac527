//! Writes of the kernel's that no system call waits for: requests of `io_uring` and `io_submit`.
//!
//! The kernel takes a request from a queue, and writes into the program's memory whenever it has
//! something. The program learns of it from memory as well. So where a request's buffer lies in
//! pages with code, these are not write-protected from then on as long as they are mapped, and
//! what runs there is looked at each time. A queue is looked at before a call by which the kernel
//! takes requests from it.
//!
//! Where the kernel takes requests without a call (`IORING_SETUP_SQPOLL`), where requests name no
//! buffers (rings of provided buffers) or where the queue is not known (another process has set it
//! up), no page is write-protected any more: see [`Queues::is_blind`].

use std::ops::Range;

use crate::guarded;
use crate::range_set::RangeSet;

/// Where the program maps a queue's state, as an offset of the queue's file.
pub(crate) const RING_OFFSET: u64 = 0;
/// Where the program maps its requests.
pub const REQUESTS_OFFSET: u64 = 0x1000_0000;

/// The kernel takes requests by itself.
const SQPOLL: u32 = 1 << 1;
/// A request has 128 bytes.
const LARGE_REQUESTS: u32 = 1 << 10;
/// The memory is the program's, which says where it is.
const NO_MMAP: u32 = 1 << 14;
/// What `io_uring_setup` returns is no descriptor.
const NO_DESCRIPTOR: u32 = 1 << 15;
/// Requests are taken in order, without an array of their numbers.
const NO_ARRAY: u32 = 1 << 16;
/// Bytes of `struct io_uring_params`.
pub const PARAMETERS_SIZE: usize = 120;

/// A queue of `io_uring`.
#[derive(Debug, Clone, Copy)]
struct Ring {
    descriptor: i32,
    entries: u32,
    flags: u32,
    head: u32,
    tail: u32,
    array: u32,
    /// Where its state is mapped; 0 where it is not.
    state: u64,
    /// Where its requests are mapped; 0 where they are not.
    requests: u64,
}

impl Ring {
    /// From the parameters as the kernel has filled them in.
    fn new(descriptor: i32, parameters: &[u8; PARAMETERS_SIZE]) -> Ring {
        let word = |at: usize| u32::from_le_bytes(field(parameters, at));
        let address = |at: usize| u64::from_le_bytes(field(parameters, at));
        let flags = word(8);
        let placed = |at: usize| if flags & NO_MMAP != 0 { address(at) } else { 0 };
        Ring {
            descriptor: if flags & NO_DESCRIPTOR != 0 {
                -1
            } else {
                descriptor
            },
            entries: word(0),
            flags,
            head: word(40),
            tail: word(44),
            array: word(64),
            requests: placed(72),
            state: placed(112),
        }
    }

    fn is_mapped(&self) -> bool {
        self.state != 0 && self.requests != 0
    }

    /// The requests that the kernel has not taken yet.
    fn waiting(&self) -> impl Iterator<Item = QueuedRequest> + '_ {
        let word = |offset: u64| {
            let mut bytes = [0; 4];
            guarded::read(self.state.wrapping_add(offset), &mut bytes)
                .then(|| u32::from_le_bytes(bytes))
        };
        let head = word(u64::from(self.head)).unwrap_or(0);
        let tail = word(u64::from(self.tail)).unwrap_or(head);
        let count = tail.wrapping_sub(head).min(self.entries);
        let size = if self.flags & LARGE_REQUESTS != 0 {
            128
        } else {
            64
        };
        (0..count).filter_map(move |number| {
            let place = head.wrapping_add(number) & (self.entries.wrapping_sub(1));
            let index = match self.flags & NO_ARRAY {
                0 => word(u64::from(self.array) + u64::from(place) * 4)?,
                _ => place,
            };
            QueuedRequest::read(self.requests.wrapping_add(u64::from(index) * size))
        })
    }
}

fn field<const SIZE: usize>(bytes: &[u8], at: usize) -> [u8; SIZE] {
    let mut field = [0; SIZE];
    field.copy_from_slice(&bytes[at..at + SIZE]);
    field
}

/// What is known of writes that no call waits for.
#[derive(Debug, Default)]
pub struct Queues {
    rings: Vec<Ring>,
    /// Pages that the kernel may be writing at any time.
    written: RangeSet,
    blind: bool,
}

impl Queues {
    /// The program has set up a ring.
    pub fn add(&mut self, descriptor: i32, parameters: &[u8; PARAMETERS_SIZE]) {
        let ring = Ring::new(descriptor, parameters);
        // A number that is given out again belongs to what it was given out for last.
        self.rings
            .retain(|other| other.is_mapped() || other.descriptor != descriptor);
        for other in &mut self.rings {
            if other.descriptor == ring.descriptor {
                other.descriptor = -1;
            }
        }
        self.blind |= ring.flags & SQPOLL != 0;
        self.rings.push(ring);
    }

    /// Something of a file was mapped. Whether it may be a ring that is not known.
    #[must_use]
    pub fn mapped(&mut self, descriptor: i32, offset: u64, address: u64) -> bool {
        let mut rings = self.rings.iter_mut();
        match rings.find(|ring| ring.descriptor == descriptor) {
            Some(ring) if offset == RING_OFFSET => ring.state = address,
            Some(ring) if offset == REQUESTS_OFFSET => ring.requests = address,
            Some(_) => {}
            None => return offset == REQUESTS_OFFSET,
        }
        false
    }

    /// A range was unmapped: nothing that is mapped there later is what it was.
    pub fn unmapped(&mut self, range: &Range<u64>) {
        self.written.remove(range);
        self.rings.retain(|ring| {
            !range.contains(&ring.state) && !range.contains(&ring.requests) || !ring.is_mapped()
        });
    }

    /// What the kernel may write for the requests that wait in all rings.
    #[must_use]
    pub fn about_to_be_written(&self) -> Vec<Range<u64>> {
        let mapped = self.rings.iter().filter(|ring| ring.is_mapped());
        let requests = mapped.flat_map(Ring::waiting);
        requests.flat_map(|request| request.written()).collect()
    }

    /// From now on the kernel may write these pages at any time.
    pub fn note(&mut self, pages: Range<u64>) {
        self.written.insert(pages);
    }

    /// Whether the program has set up a ring.
    #[must_use]
    pub fn has_rings(&self) -> bool {
        !self.rings.is_empty()
    }

    /// Whether the kernel writes nothing without a call that waits for it.
    #[must_use]
    pub fn is_idle(&self) -> bool {
        !self.blind && self.written.is_empty()
    }

    /// Whether the kernel may write a range at any time.
    #[must_use]
    pub fn may_write(&self, range: &Range<u64>) -> bool {
        self.blind || self.written.meets(range)
    }

    /// Whether the kernel may write at any time what is not known.
    #[must_use]
    pub fn is_blind(&self) -> bool {
        self.blind
    }

    /// From now on it may.
    pub fn be_blind(&mut self) {
        self.blind = true;
    }
}

/// One request of a ring (`struct io_uring_sqe`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct QueuedRequest {
    operation: u8,
    descriptor: i32,
    second: u64,
    address: u64,
    length: u64,
    third: u64,
}

impl QueuedRequest {
    fn read(at: u64) -> Option<QueuedRequest> {
        let mut bytes = [0; 64];
        guarded::read(at, &mut bytes).then(|| QueuedRequest {
            operation: bytes[0],
            descriptor: i32::from_le_bytes(field(&bytes, 4)),
            second: u64::from_le_bytes(field(&bytes, 8)),
            address: u64::from_le_bytes(field(&bytes, 16)),
            length: u64::from(u32::from_le_bytes(field(&bytes, 24))),
            third: u64::from_le_bytes(field(&bytes, 48)),
        })
    }

    /// The ranges that it may have written (`include/uapi/linux/io_uring.h`). Of a request that is
    /// not known, whatever its addresses could mean.
    fn written(&self) -> Vec<Range<u64>> {
        const UNKNOWN: u64 = 4096;
        match self.operation {
            // readv, readv_fixed
            1 | 60 => vectors(self.address, self.length),
            // read_fixed, read, recv
            4 | 22 | 27 => vec![bytes_from(self.address, self.length)],
            // recvmsg
            10 => message(self.address),
            // accept
            13 => vec![bytes_from(self.address, 128), bytes_from(self.second, 4)],
            // statx
            21 => vec![bytes_from(self.second, 256)],
            // files_update
            20 => vec![bytes_from(self.address, self.length * 4)],
            // madvise, which may discard
            25 => vec![bytes_from(self.address, self.length.max(self.second))],
            // provide_buffers: `descriptor` of them
            31 => vec![bytes_from(
                self.address,
                self.length * u64::from(self.descriptor as u32),
            )],
            // fgetxattr, getxattr
            43 | 44 => vec![bytes_from(self.second, self.length)],
            // waitid
            50 => vec![bytes_from(self.second, 128)],
            // futex_wait, futex_wake: the kernel wants to be able to write
            51 | 52 => vec![bytes_from(self.address, 4)],
            // epoll_wait
            59 => vec![bytes_from(self.address, self.length * 12)],
            // pipe
            62 => vec![bytes_from(self.address, 8)],
            // uring_cmd, and what is not known
            46 | 63.. => vec![
                bytes_from(self.address, self.length.max(UNKNOWN)),
                bytes_from(self.second, UNKNOWN),
                bytes_from(self.third, UNKNOWN),
            ],
            // What writes elsewhere, or nothing.
            _ => Vec::new(),
        }
    }
}

fn bytes_from(address: u64, size: u64) -> Range<u64> {
    address..address.saturating_add(size)
}

/// What `count` iovecs describe.
#[must_use]
pub fn vectors(array: u64, count: u64) -> Vec<Range<u64>> {
    /// The kernel takes no more at once (`UIO_MAXIOV`); registered buffers may be 16 times as many.
    const MOST: u64 = 16 << 10;
    let read = |index: u64| {
        let at = array.wrapping_add(index * 16);
        let (base, size) = (
            guarded::read_word(at)?,
            guarded::read_word(at.wrapping_add(8))?,
        );
        Some(bytes_from(base, size))
    };
    (0..count.min(MOST)).map_while(read).collect()
}

/// What `recvmsg` may write: parts of the header, and what it names.
fn message(header: u64) -> Vec<Range<u64>> {
    const SIZE: u64 = size_of::<libc::msghdr>() as u64;
    let word = |at: u64| guarded::read_word(header.wrapping_add(at)).unwrap_or(0);
    let mut written = vectors(word(16), word(24));
    written.extend([
        bytes_from(header, SIZE),
        bytes_from(word(0), word(8) & 0xffff_ffff),
        bytes_from(word(32), word(40)),
    ]);
    written
}

/// What one request of `io_submit` (`struct iocb`) may have written.
#[must_use]
pub fn written_by_iocb(at: u64) -> Vec<Range<u64>> {
    const READ: u16 = 0;
    const READ_VECTORS: u16 = 7;
    let mut bytes = [0; 64];
    if !guarded::read(at, &mut bytes) {
        return Vec::new();
    }
    let (buffer, size) = (
        u64::from_le_bytes(field(&bytes, 24)),
        u64::from_le_bytes(field(&bytes, 32)),
    );
    match u16::from_le_bytes(field(&bytes, 16)) {
        READ => vec![bytes_from(buffer, size)],
        READ_VECTORS => vectors(buffer, size),
        _ => Vec::new(),
    }
}
