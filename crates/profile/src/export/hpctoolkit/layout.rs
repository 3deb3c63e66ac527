//! How numbers, texts and sections stand in the files: little-endian, aligned to their size, and named by
//! where they are.

use rustc_hash::FxHashMap;

/// Version 4.0 of all formats.
const VERSION: [u8; 2] = [4, 0];

/// A file that is being written.
pub(super) struct Layout {
    bytes: Vec<u8>,
}

impl Layout {
    /// Begins a file of so many sections: their sizes and places come [later](Layout::section).
    pub(super) fn new(format: &[u8; 4], sections: usize) -> Layout {
        let mut bytes = b"HPCTOOLKIT".to_vec();
        bytes.extend(format);
        bytes.extend(VERSION);
        bytes.resize(bytes.len() + 16 * sections, 0);
        Layout { bytes }
    }

    /// Where the next byte will be.
    pub(super) fn here(&self) -> u64 {
        self.bytes.len() as u64
    }

    pub(super) fn align(&mut self, to: usize) {
        self.bytes.resize(self.bytes.len().next_multiple_of(to), 0);
    }

    pub(super) fn u8(&mut self, value: u8) {
        self.bytes.push(value);
    }

    pub(super) fn u16(&mut self, value: u16) {
        self.bytes.extend(value.to_le_bytes());
    }

    pub(super) fn u32(&mut self, value: u32) {
        self.bytes.extend(value.to_le_bytes());
    }

    pub(super) fn u64(&mut self, value: u64) {
        self.bytes.extend(value.to_le_bytes());
    }

    pub(super) fn f64(&mut self, value: f64) {
        self.bytes.extend(value.to_le_bytes());
    }

    /// So many zeros, to be [put](Layout::put) later; says where they are.
    pub(super) fn room(&mut self, bytes: usize) -> u64 {
        let here = self.here();
        self.bytes.resize(self.bytes.len() + bytes, 0);
        here
    }

    /// Puts a number where there is room.
    pub(super) fn put(&mut self, at: u64, value: u64) {
        let at = at as usize;
        self.bytes[at..at + 8].copy_from_slice(&value.to_le_bytes());
    }

    /// A text; says where it is. A zero in it would end it.
    pub(super) fn text(&mut self, text: &str) -> u64 {
        let here = self.here();
        self.bytes.extend(text.bytes().filter(|byte| *byte != 0));
        self.bytes.push(0);
        here
    }

    /// A section is all from a place up to here.
    pub(super) fn section(&mut self, number: usize, start: u64) {
        let at = 16 + 16 * number as u64;
        self.put(at, self.here() - start);
        self.put(at + 8, start);
        self.align(8);
    }

    /// The file, with what stands at its end.
    pub(super) fn finish(mut self, footer: &[u8; 8]) -> Vec<u8> {
        self.bytes.extend(footer);
        self.bytes
    }
}

/// Texts, each of which is there once.
#[derive(Default)]
pub(super) struct Texts {
    places: FxHashMap<String, u64>,
}

impl Texts {
    pub(super) fn place(&mut self, layout: &mut Layout, text: &str) -> u64 {
        if let Some(&place) = self.places.get(text) {
            return place;
        }
        let place = layout.text(text);
        self.places.insert(text.to_owned(), place);
        place
    }
}
