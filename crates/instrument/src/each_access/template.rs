//! Entries of which only the address differs between the accesses of an instruction.

use crate::conditional_entry::time_stamp;
use crate::{Argument, Context, Field, thread_number};

/// The bytes of a word.
const WORD: usize = 8;

/// Part of an entry.
pub(super) struct Template {
    bytes: Vec<u8>,
    /// Where the address belongs: offset and bytes.
    addresses: Vec<(u16, u8)>,
    /// Where the number of bytes does.
    sizes: Vec<(u16, u8)>,
}

impl Template {
    /// An entry without what differs between accesses.
    pub(super) fn new(bytes: usize, fields: &[Field], context: &Context) -> Template {
        let mut template = Template {
            bytes: vec![0; bytes],
            addresses: Vec::new(),
            sizes: Vec::new(),
        };
        for field in fields {
            let place = (field.offset, field.size);
            match field.value {
                Argument::Constant(value) => template.put(place, value),
                Argument::Register(number) => template.put(place, context.register(number)),
                Argument::ThreadNumber => template.put(place, thread_number().into()),
                Argument::TimeStamp => template.put(place, time_stamp()),
                Argument::ElementAddress => template.addresses.push(place),
                Argument::ElementSize => template.sizes.push(place),
                _ => panic!("{:?} cannot be said of each access", field.value),
            }
        }
        template
    }

    fn put(&mut self, (offset, size): (u16, u8), value: u64) {
        let (offset, size) = (usize::from(offset), usize::from(size));
        self.bytes[offset..offset + size].copy_from_slice(&value.to_le_bytes()[..size]);
    }

    /// From here on accesses have so many bytes.
    pub(super) fn set_size(&mut self, size: u64) {
        for index in 0..self.sizes.len() {
            self.put(self.sizes[index], size);
        }
    }

    /// The entry of an access.
    pub(super) fn at(&mut self, address: u64) -> &[u8] {
        for index in 0..self.addresses.len() {
            self.put(self.addresses[index], address);
        }
        &self.bytes
    }

    /// Writes the entries of these accesses, each so many bytes behind the one before it.
    ///
    /// # Safety
    /// There must be room for them.
    pub(super) unsafe fn fill(
        &mut self,
        mut place: *mut u8,
        stride: usize,
        addresses: impl Iterator<Item = u64>,
    ) {
        // The usual forms without a call or a look at the fields: there may be millions of rounds.
        // SAFETY: there is room for each entry, as the caller says.
        unsafe {
            match (self.bytes.len(), &self.addresses[..]) {
                (8, [(0, 8)]) => self.fill_words::<1>(0, place, stride, addresses),
                (16, &[(offset, 8)]) => self.fill_words::<2>(offset, place, stride, addresses),
                (24, &[(offset, 8)]) => self.fill_words::<3>(offset, place, stride, addresses),
                (32, &[(offset, 8)]) => self.fill_words::<4>(offset, place, stride, addresses),
                (bytes, _) => {
                    for address in addresses {
                        std::ptr::copy_nonoverlapping(self.at(address).as_ptr(), place, bytes);
                        place = place.wrapping_add(stride);
                    }
                }
            }
        }
    }

    /// The same for entries of so many words that have one address, at this offset.
    ///
    /// # Safety
    /// The same.
    unsafe fn fill_words<const WORDS: usize>(
        &self,
        offset: u16,
        mut place: *mut u8,
        stride: usize,
        addresses: impl Iterator<Item = u64>,
    ) {
        let offset = usize::from(offset);
        let words: [[u8; WORD]; WORDS] = std::array::from_fn(|word| {
            let bytes = self.bytes[word * WORD..].first_chunk();
            *bytes.expect("the entry has so many words")
        });
        assert!(offset + WORD <= self.bytes.len());
        for address in addresses {
            // SAFETY: the place has room for the words, and the address lies within them.
            unsafe {
                place.cast::<[[u8; WORD]; WORDS]>().write(words);
                let address_place = place.add(offset).cast::<[u8; WORD]>();
                address_place.write(address.to_le_bytes());
            }
            place = place.wrapping_add(stride);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Entries that are filled at once are those that are made one by one, of any form.
    #[test]
    fn filled_entries_are_those_made_one_by_one() {
        for (bytes, places) in [
            (8, &[(0, 8)][..]),
            (16, &[(0, 8)]),
            (16, &[(5, 8)]),
            (16, &[(8, 4)]),
            (24, &[(16, 8)]),
            (24, &[(0, 8), (16, 8)]),
            (32, &[(8, 8)]),
            (12, &[(4, 8)]),
            (4, &[]),
        ] {
            let mut template = Template {
                bytes: (0..bytes).collect(),
                addresses: places.to_vec(),
                sizes: Vec::new(),
            };
            let addresses = [3, 0x0123_4567_89ab_cdef, u64::MAX, 0x7f00_0000_0000];
            let size = usize::from(bytes);
            let stride = size + 3;
            let mut filled = vec![0xee_u8; stride * addresses.len() + 1];
            let mut expected = filled.clone();
            for (number, address) in addresses.into_iter().enumerate() {
                let entry = template.at(address);
                expected[1 + number * stride..][..size].copy_from_slice(entry);
            }
            let place = filled[1..].as_mut_ptr();
            // SAFETY: there is room for four entries.
            unsafe { template.fill(place, stride, addresses.into_iter()) };
            assert_eq!(filled, expected, "{bytes} bytes, addresses at {places:?}");
        }
    }
}
