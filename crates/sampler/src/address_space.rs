//! Where code is in a process.

use std::rc::Rc;

use unspool_unwind::{ImageCode, Module, Modules, Section};

use crate::image::Image;

/// Code that is mapped.
#[derive(Debug, Clone)]
pub(crate) struct Mapping {
    pub(crate) start: u64,
    pub(crate) end: u64,
    /// What is added to addresses of the image's file; none where there is no file.
    pub(crate) bias: Option<u64>,
    pub(crate) image: Rc<Image>,
}

/// All code of a process.
#[derive(Debug, Clone, Default)]
pub(crate) struct AddressSpace {
    /// By address; none overlap.
    mappings: Vec<Mapping>,
}

impl AddressSpace {
    /// Code is mapped: in the place of what was there, which nobody has told to be gone.
    pub(crate) fn map(&mut self, new: Mapping) {
        let mut kept = Vec::with_capacity(self.mappings.len() + 2);
        for old in self.mappings.drain(..) {
            if old.end <= new.start || old.start >= new.end {
                kept.push(old);
                continue;
            }
            if old.start < new.start {
                let end = new.start;
                kept.push(Mapping { end, ..old.clone() });
            }
            if old.end > new.end {
                let start = new.end;
                kept.push(Mapping { start, ..old });
            }
        }
        let behind = kept.partition_point(|old| old.start < new.start);
        kept.insert(behind, new);
        self.mappings = kept;
    }

    /// Whether all of this is mapped there as it is.
    pub(crate) fn has(&self, start: u64, end: u64, image: &Rc<Image>) -> bool {
        self.mapping_at(start).is_some_and(|known| {
            (known.start, known.end) == (start, end) && Rc::ptr_eq(&known.image, image)
        })
    }

    /// Whether an address is in the code at which an image is entered, which nobody has called.
    pub(crate) fn begins_at(&self, address: u64) -> bool {
        let mapping = self.mapping_at(address);
        let file_address = mapping.and_then(|mapping| Some((mapping, mapping.bias?)));
        file_address
            .is_some_and(|(mapping, bias)| mapping.image.begins_at(address.wrapping_sub(bias)))
    }

    /// What is mapped at an address.
    pub(crate) fn mapping_at(&self, address: u64) -> Option<&Mapping> {
        let behind = self
            .mappings
            .partition_point(|mapping| mapping.start <= address);
        let mapping = &self.mappings[behind.checked_sub(1)?];
        (address < mapping.end).then_some(mapping)
    }
}

/// The code of a process with what has no file, which is read where it is.
pub(crate) struct WithMemory<'a> {
    pub(crate) space: &'a AddressSpace,
    /// Copies memory of the process from an address on; says how much could be copied.
    pub(crate) read: &'a (dyn Fn(u64, &mut [u8]) -> usize + Sync),
}

impl Modules for WithMemory<'_> {
    fn module_at(&self, address: u64) -> Option<Module<'_>> {
        let mapping = self.space.mapping_at(address)?;
        if mapping.bias.is_some() {
            return self.space.module_at(address);
        }
        let range = mapping.start..mapping.end;
        Some(Module {
            range: range.clone(),
            bias: 0,
            frames: Section::default(),
            header: None,
            code: ImageCode::Memory {
                range,
                bias: 0,
                read: self.read,
            },
            functions: &[],
        })
    }
}

impl Modules for AddressSpace {
    fn module_at(&self, address: u64) -> Option<Module<'_>> {
        let mapping = self.mapping_at(address)?;
        let bias = mapping.bias?;
        let unwinding = mapping.image.unwinding(address.wrapping_sub(bias))?;
        Some(Module {
            range: mapping.start..mapping.end,
            bias,
            frames: unwinding.frames,
            header: unwinding.header,
            code: ImageCode::Bytes(unwinding.code),
            functions: unwinding.functions,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_mapped_later_takes_the_place_of_what_was_there() {
        let image = |number| Rc::new(Image::read(number, 0, "//anon"));
        let mut space = AddressSpace::default();
        for (number, start, end) in [(1, 10, 50), (2, 60, 70), (3, 20, 30), (4, 45, 65)] {
            let bias = None;
            let image = image(number);
            space.map(Mapping {
                start,
                end,
                bias,
                image,
            });
        }
        let at = |address| {
            space
                .mapping_at(address)
                .map(|mapping| mapping.image.number)
        };
        let found: Vec<_> = [9, 10, 20, 29, 30, 44, 45, 64, 65, 69, 70].map(at).to_vec();
        let expected =
            [0, 1, 3, 3, 1, 1, 4, 4, 2, 2, 0].map(|number| Some(number).filter(|n| *n > 0));
        assert_eq!(found, expected);
    }
}
