//! Which memory of the program the kernel read and wrote in a system call.
//!
//! Most calls are described by a table: which argument points to how many bytes. The others
//! follow pointers through the program's memory, which is read after the call. That is the
//! limit of this module: a structure that the program changed while the call was going on
//! may be read differently here.
//!
//! Not listed: contents that change because pages are mapped, unmapped or discarded, and
//! what the kernel does later (asynchronous input and output, a thread's clear-tid address).

mod commands;
mod messages;
mod table;
#[cfg(test)]
mod tests;

/// The kernel read or wrote a piece of the program's memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Effect {
    /// Whether it was written.
    pub write: bool,
    /// First byte.
    pub address: u64,
    /// Bytes; never 0.
    pub size: u64,
}

/// Whether the list of effects is whole.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Completeness {
    /// Everything is listed.
    Complete,
    /// The call is not known well enough: assume that everything to which the arguments
    /// lead, through any number of pointers, was read and written.
    Unknown,
}

/// Lists in `out` (cleared first) what the system call `number` accessed.
///
/// `result` is what it returned, minus an errno if negative. `read` copies program memory
/// into the slice that it is given, and returns whether all of it could be read.
pub fn memory_effects(
    number: u64,
    arguments: [u64; 6],
    result: i64,
    read: &dyn Fn(u64, &mut [u8]) -> bool,
    out: &mut Vec<Effect>,
) -> Completeness {
    out.clear();
    // The kernel gave up where it met a bad address; where that was is not known.
    if result == -i64::from(libc::EFAULT) {
        return Completeness::Unknown;
    }
    list(
        number,
        DescribedCall {
            arguments,
            result,
            planned: false,
            read,
            out,
            completeness: Completeness::Complete,
        },
    )
}

/// Lists in `out` (cleared first) what the system call `number`, which is still to be made, may
/// access at most. Sizes that only its result would tell are those of the buffers.
pub fn planned_effects(
    number: u64,
    arguments: [u64; 6],
    read: &dyn Fn(u64, &mut [u8]) -> bool,
    out: &mut Vec<Effect>,
) -> Completeness {
    /// The most that the kernel reads or writes in one call (`MAX_RW_COUNT`).
    const MOST: i64 = 0x7fff_f000;
    out.clear();
    list(
        number,
        DescribedCall {
            arguments,
            result: MOST,
            planned: true,
            read,
            out,
            completeness: Completeness::Complete,
        },
    )
}

fn list(number: u64, mut call: DescribedCall<'_>) -> Completeness {
    match table::parts(number as i64) {
        Some(parts) => {
            for part in parts {
                call.apply(part);
            }
        }
        None if !commands::apply(number as i64, &mut call) => {
            call.completeness = Completeness::Unknown;
        }
        None => {}
    }
    call.completeness
}

/// A piece of memory that an argument points to.
#[derive(Debug, Clone, Copy)]
struct MemoryPart {
    direction: Direction,
    /// Which argument points to it; nothing happens if that is null.
    pointer: usize,
    extent: ArgumentExtent,
}

/// What the kernel does with it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Direction {
    /// It reads it, even if the call then fails.
    Input,
    /// It writes it if the call succeeds.
    Output,
    /// It reads it, and writes it if the call succeeds.
    Update,
    /// It writes it if a signal interrupts the call: the time that remains.
    Remainder,
}

/// How large it is.
#[derive(Debug, Clone, Copy)]
enum ArgumentExtent {
    /// So many bytes.
    Fixed(u64),
    /// So many bytes as this argument says.
    Argument(usize),
    /// As many elements as this argument says, each so large.
    Elements(usize, u64),
    /// As many bytes as the call returned, but no more than this argument says.
    ResultUpTo(usize),
    /// As many elements as the call returned, but no more than this argument says, each so
    /// large.
    ResultElementsUpTo(usize, u64),
    /// As many bytes as the 32-bit number to which this argument points says.
    LengthAt(usize),
    /// A string that ends in zero.
    String,
    /// One bit for each of the file descriptors that this argument counts.
    DescriptorSet(usize),
    /// One bit for each of the memory nodes that this argument counts.
    NodeSet(usize),
    /// An array of as many iovecs as this argument says: they are read, and what they
    /// describe is accessed whole.
    Vectors(usize),
    /// Likewise, but together no more is accessed than the call returned.
    VectorsUpToResult(usize),
    /// One message header, as much of it as the call returned.
    Message,
    /// As many message headers as the call returned, each as much as it says.
    Messages,
}

/// A system call that has been made or is to be made, and the list of what it does.
struct DescribedCall<'call> {
    arguments: [u64; 6],
    result: i64,
    /// Whether it is still to be made: everything that it may do is listed.
    planned: bool,
    read: &'call dyn Fn(u64, &mut [u8]) -> bool,
    out: &'call mut Vec<Effect>,
    completeness: Completeness,
}

impl DescribedCall<'_> {
    /// Whether it succeeded.
    fn succeeded(&self) -> bool {
        self.result >= 0
    }

    /// What it returned; 0 if it failed.
    fn returned(&self) -> u64 {
        self.result.max(0) as u64
    }

    /// Lists an effect, unless it is empty or at the null pointer.
    fn add(&mut self, write: bool, address: u64, size: u64) {
        if address != 0 && size != 0 {
            self.out.push(Effect {
                write,
                address,
                size,
            });
        }
    }

    /// Reads program memory; if that fails the list is incomplete.
    fn fetch<const SIZE: usize>(&mut self, address: u64) -> [u8; SIZE] {
        let mut bytes = [0; SIZE];
        if !(self.read)(address, &mut bytes) {
            self.completeness = Completeness::Unknown;
            bytes = [0; SIZE];
        }
        bytes
    }

    fn fetch_u32(&mut self, address: u64) -> u32 {
        u32::from_le_bytes(self.fetch(address))
    }

    fn fetch_u64(&mut self, address: u64) -> u64 {
        u64::from_le_bytes(self.fetch(address))
    }

    /// Lists a piece described by the table.
    fn apply(&mut self, part: &MemoryPart) {
        let address = self.arguments[part.pointer];
        if address == 0 {
            return;
        }
        let reads = matches!(part.direction, Direction::Input | Direction::Update);
        let writes = match part.direction {
            Direction::Input => false,
            Direction::Output | Direction::Update => self.succeeded(),
            Direction::Remainder => self.planned || self.result == -i64::from(libc::EINTR),
        };
        for write in [false, true] {
            if if write { writes } else { reads } {
                self.apply_extent(write, address, part.extent);
            }
        }
    }

    /// Lists the memory at `address`, as far as `extent` says.
    fn apply_extent(&mut self, write: bool, address: u64, extent: ArgumentExtent) {
        let size = match extent {
            ArgumentExtent::Fixed(size) => size,
            ArgumentExtent::Argument(index) => self.arguments[index],
            ArgumentExtent::Elements(index, size) => self.arguments[index].saturating_mul(size),
            ArgumentExtent::ResultUpTo(limit) => self.returned().min(self.arguments[limit]),
            ArgumentExtent::ResultElementsUpTo(limit, size) => {
                let most = u64::from(self.arguments[limit] as u32);
                self.returned().min(most).saturating_mul(size)
            }
            ArgumentExtent::LengthAt(index) => match self.arguments[index] {
                0 => 0,
                length => u64::from(self.fetch_u32(length)),
            },
            ArgumentExtent::String => self.string_size(address),
            // The kernel handles both in words of 64 bits.
            ArgumentExtent::DescriptorSet(index) => {
                (self.arguments[index] as u32).div_ceil(64) as u64 * 8
            }
            ArgumentExtent::NodeSet(index) => self.arguments[index].div_ceil(64) * 8,
            ArgumentExtent::Vectors(count) => {
                let count = self.arguments[count];
                return self.add_vectors(write, address, count, u64::MAX);
            }
            ArgumentExtent::VectorsUpToResult(count) => {
                let (count, limit) = (self.arguments[count], self.returned());
                return self.add_vectors(write, address, count, limit);
            }
            ArgumentExtent::Message => {
                let limit = self.returned();
                return self.add_message(write, address, limit);
            }
            ArgumentExtent::Messages => return self.add_messages(write, address),
        };
        self.add(write, address, size);
    }

    /// The size of a string with its final zero.
    fn string_size(&mut self, address: u64) -> u64 {
        /// Longer than any string that the kernel takes (32 pages).
        const LIMIT: u64 = 1 << 17;
        let mut size = 0;
        while size < LIMIT {
            // A piece never crosses a page, behind which nothing may be mapped.
            let here = address.wrapping_add(size);
            let mut bytes = [0; 64];
            let piece = (64 - here % 64) as usize;
            if !(self.read)(here, &mut bytes[..piece]) {
                break;
            }
            if let Some(end) = bytes[..piece].iter().position(|byte| *byte == 0) {
                return size + end as u64 + 1;
            }
            size += piece as u64;
        }
        self.completeness = Completeness::Unknown;
        size
    }
}
