//! A copy of the program's memory, as far as it is known.

use rustc_hash::FxHashMap;

const PAGE_BYTES: u64 = 4096;

/// Bytes by address. Addresses wrap, as the processor's do.
#[derive(Debug, Default)]
pub(super) struct ShadowMemory {
    pages: FxHashMap<u64, Box<Page>>,
}

#[derive(Debug)]
struct Page {
    bytes: [u8; PAGE_BYTES as usize],
    /// One bit for each byte: whether it is known.
    known: [u64; (PAGE_BYTES / 64) as usize],
}

/// What a read found.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Found {
    /// Bytes that were known.
    pub(super) compared: u64,
    /// If one of them was another: all bytes as they should have been (those not known are
    /// as seen).
    pub(super) expected: Option<Vec<u8>>,
}

impl ShadowMemory {
    /// Stores what was written.
    pub(super) fn write(&mut self, address: u64, value: &[u8]) {
        for (page, start, part) in pieces(address, value) {
            let page = self.pages.entry(page).or_insert_with(Page::unknown);
            page.bytes[start..start + part.len()].copy_from_slice(part);
            (start..start + part.len()).for_each(|index| page.set_known(index));
        }
    }

    /// Compares what was read with what is known, and knows it from now on.
    pub(super) fn compare_and_learn(&mut self, address: u64, seen: &[u8]) -> Found {
        let mut compared = 0;
        let mut different = false;
        let mut expected = seen.to_vec();
        let mut done = 0;
        for (page, start, part) in pieces(address, seen) {
            let page = self.pages.entry(page).or_insert_with(Page::unknown);
            for (offset, byte) in part.iter().enumerate() {
                let index = start + offset;
                if page.is_known(index) {
                    compared += 1;
                    different |= page.bytes[index] != *byte;
                    expected[done + offset] = page.bytes[index];
                }
                page.bytes[index] = *byte;
                page.set_known(index);
            }
            done += part.len();
        }
        Found {
            compared,
            expected: different.then_some(expected),
        }
    }

    /// Nothing is known any more of a range.
    pub(super) fn forget(&mut self, address: u64, size: u64) {
        let Some(last) = size.checked_sub(1).map(|rest| address.saturating_add(rest)) else {
            return;
        };
        let (first_page, last_page) = (address / PAGE_BYTES, last / PAGE_BYTES);
        // A large range may have few known pages.
        if last_page - first_page > self.pages.len() as u64 {
            self.pages
                .retain(|page, _| *page <= first_page || *page >= last_page);
        } else {
            for page in first_page + 1..last_page {
                self.pages.remove(&page);
            }
        }
        for page in [first_page, last_page] {
            if let Some(contents) = self.pages.get_mut(&page) {
                let start = address.max(page * PAGE_BYTES) % PAGE_BYTES;
                let end = last.min(page * PAGE_BYTES + (PAGE_BYTES - 1)) % PAGE_BYTES;
                (start..=end).for_each(|index| contents.set_unknown(index as usize));
            }
        }
    }
}

impl Page {
    fn unknown() -> Box<Page> {
        Box::new(Page {
            bytes: [0; PAGE_BYTES as usize],
            known: [0; (PAGE_BYTES / 64) as usize],
        })
    }

    fn is_known(&self, index: usize) -> bool {
        self.known[index / 64] >> (index % 64) & 1 == 1
    }

    fn set_known(&mut self, index: usize) {
        self.known[index / 64] |= 1 << (index % 64);
    }

    fn set_unknown(&mut self, index: usize) {
        self.known[index / 64] &= !(1 << (index % 64));
    }
}

/// Splits a value where it crosses pages: page number, first byte in the page, bytes.
fn pieces(address: u64, value: &[u8]) -> impl Iterator<Item = (u64, usize, &[u8])> {
    let mut address = address;
    let mut rest = value;
    std::iter::from_fn(move || {
        if rest.is_empty() {
            return None;
        }
        let start = address % PAGE_BYTES;
        let (part, after) = rest.split_at(rest.len().min((PAGE_BYTES - start) as usize));
        let piece = (address / PAGE_BYTES, start as usize, part);
        address = address.wrapping_add(part.len() as u64);
        rest = after;
        Some(piece)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[derive(Debug, Clone)]
    enum Operation {
        Write(u64, Vec<u8>),
        Read(u64, Vec<u8>),
        Forget(u64, u64),
    }

    /// Addresses around page boundaries, and values of two bits so that they often agree.
    fn step() -> impl Strategy<Value = Operation> {
        let address = (0_u64..4, 0_u64..64).prop_map(|(page, offset)| page * 4096 + offset + 4064);
        let value = prop::collection::vec(0_u8..4, 1..70);
        (address, value, 0..3, 0_u64..9000).prop_map(|(address, value, kind, size)| match kind {
            0 => Operation::Write(address, value),
            1 => Operation::Read(address, value),
            _ => Operation::Forget(address, size),
        })
    }

    proptest! {
        #[test]
        fn behaves_like_a_map_of_bytes(steps in prop::collection::vec(step(), 1..60)) {
            let mut memory = ShadowMemory::default();
            let mut model = std::collections::HashMap::new();
            for step in steps {
                match step {
                    Operation::Write(address, value) => {
                        memory.write(address, &value);
                        model.extend((address..).zip(value));
                    }
                    Operation::Forget(address, size) => {
                        memory.forget(address, size);
                        model.retain(|at, _| *at < address || *at >= address + size);
                    }
                    Operation::Read(address, value) => {
                        let known: Vec<Option<u8>> =
                            (address..).zip(&value).map(|(at, _)| model.get(&at).copied()).collect();
                        let expected: Vec<u8> =
                            known.iter().zip(&value).map(|(known, seen)| known.unwrap_or(*seen)).collect();
                        let found = memory.compare_and_learn(address, &value);
                        prop_assert_eq!(found.compared, known.iter().flatten().count() as u64);
                        prop_assert_eq!(found.expected, (expected != value).then_some(expected));
                        model.extend((address..).zip(value));
                    }
                }
            }
        }
    }

    #[test]
    fn the_whole_address_space_can_be_forgotten() {
        let mut memory = ShadowMemory::default();
        memory.write(u64::MAX - 1, &[1, 2, 3]);
        memory.forget(0, u64::MAX);
        memory.forget(5, u64::MAX);
        memory.forget(u64::MAX, 1);
        assert_eq!(
            memory.compare_and_learn(u64::MAX - 1, &[9, 9, 9]).compared,
            0
        );
    }
}
