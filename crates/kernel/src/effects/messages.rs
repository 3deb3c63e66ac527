//! Scattered memory: arrays of iovecs, and socket messages.
//!
//! Layouts: `struct iovec` (16 bytes: address, length), `struct msghdr` (56 bytes: name at 0,
//! its length at 8, iovecs at 16, their number at 24, control data at 32, its length at 40,
//! flags at 48), `struct mmsghdr` (64 bytes: a msghdr and the message's length).

use super::DescribedCall;

/// The most iovecs that the kernel takes.
const MAX_VECTORS: u64 = 1024;

impl DescribedCall<'_> {
    /// Lists the array of `count` iovecs at `array`, and up to `limit` bytes of what they
    /// describe.
    pub(super) fn add_vectors(&mut self, write: bool, array: u64, count: u64, mut limit: u64) {
        let count = count.min(MAX_VECTORS);
        self.add(false, array, count * 16);
        for index in 0..count {
            if limit == 0 {
                return;
            }
            let entry = array.wrapping_add(index * 16);
            let base = self.fetch_u64(entry);
            let size = self.fetch_u64(entry.wrapping_add(8)).min(limit);
            self.add(write, base, size);
            limit -= size;
        }
    }

    /// Lists a message header at `header` and up to `limit` bytes of the message.
    pub(super) fn add_message(&mut self, write: bool, header: u64, limit: u64) {
        self.add(false, header, 56);
        let name = self.fetch_u64(header);
        let name_size = u64::from(self.fetch_u32(header.wrapping_add(8)));
        let vectors = self.fetch_u64(header.wrapping_add(16));
        let count = self.fetch_u64(header.wrapping_add(24));
        let control = self.fetch_u64(header.wrapping_add(32));
        let control_size = self.fetch_u64(header.wrapping_add(40));
        self.add(write, name, name_size);
        self.add_vectors(write, vectors, count, limit);
        self.add(write, control, control_size);
        if write {
            // The lengths of name and control data, and the flags.
            self.add(true, header.wrapping_add(8), 4);
            self.add(true, header.wrapping_add(40), 12);
        }
    }

    /// Lists as many messages of an array as the call returned.
    pub(super) fn add_messages(&mut self, write: bool, array: u64) {
        let count = if self.planned {
            u64::from(self.arguments[2] as u32)
        } else {
            self.returned()
        };
        for index in 0..count.min(MAX_VECTORS) {
            let header = array.wrapping_add(index * 64);
            let limit = if self.planned {
                u64::MAX
            } else {
                u64::from(self.fetch_u32(header.wrapping_add(56)))
            };
            self.add_message(write, header, limit);
            self.add(true, header.wrapping_add(56), 4);
        }
    }
}
