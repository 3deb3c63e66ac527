//! The program's registers, for functions that look at all of them or change them.

use std::marker::PhantomData;

use unspool_code_cache::slots::{Slots, slots};

use super::process::process;
use unspool_engine::translate::state_sizes::state_sizes;
use unspool_instructions::decode::Segment;
use unspool_instructions::operands::state_component::{AVX, HI16_ZMM, OPMASK, SSE, ZMM_HI256};

/// Where the legacy area of an XSAVE area has the low 128 bits of vector registers.
const LOW: usize = 160;
/// Where the header of an XSAVE area says what is saved, and in which format.
const HEADER: usize = 512;

/// The program's state at the place of a call. What is changed here is the program's when the
/// function returns. It belongs to the thread that is in the call.
#[derive(Debug)]
pub struct Context {
    of_this_thread: PhantomData<*mut ()>,
}

impl Context {
    /// The state of the calling thread, while it is in a call with an argument
    /// [`Argument::Context`](super::Argument::Context). At other times its values mean nothing.
    #[must_use]
    pub fn current() -> Context {
        Context {
            of_this_thread: PhantomData,
        }
    }

    fn slots(&self) -> &'static Slots {
        slots()
    }

    /// A general register, by its number (rax 0, rcx 1, rdx 2, rbx 3, rsp 4, …, r15 15).
    ///
    /// # Panics
    /// If there is no such register.
    #[must_use]
    pub fn register(&self, number: u8) -> u64 {
        assert!(number < 16, "there are sixteen general registers");
        self.slots().registers[usize::from(number)].get()
    }

    /// Changes a general register.
    ///
    /// # Panics
    /// If there is no such register.
    pub fn set_register(&mut self, number: u8, value: u64) {
        assert!(number < 16, "there are sixteen general registers");
        self.slots().registers[usize::from(number)].set(value);
    }

    /// RFLAGS. Where the program overwrites status flags before it reads them, they may differ
    /// from what they would be.
    #[must_use]
    pub fn flags(&self) -> u64 {
        self.slots().flags.get()
    }

    /// Changes the status flags and the direction flag; the others stay.
    pub fn set_flags(&mut self, flags: u64) {
        const CHANGEABLE: u64 = 0xcd5;
        let all = &self.slots().flags;
        all.update(|all| all & !CHANGEABLE | flags & CHANGEABLE);
    }

    /// The address at which the program goes on.
    #[must_use]
    pub fn instruction_pointer(&self) -> u64 {
        self.slots().pc.get()
    }

    /// Has the program go on elsewhere when the function returns. What else is inserted at the
    /// place is left out then, and instructions that are not reached do not count.
    pub fn set_instruction_pointer(&mut self, address: u64) {
        self.slots().pc.set(address);
    }

    /// The base of the program's segment FS.
    #[must_use]
    pub fn fs_base(&self) -> u64 {
        self.slots().program_fs.get()
    }

    /// The base of one of the program's segments.
    #[must_use]
    pub fn segment_base(&self, segment: Segment) -> u64 {
        self.slots().base(segment)
    }

    /// A vector register, zmm0 to zmm31, lowest byte first. What the processor does not have is
    /// zero.
    ///
    /// # Panics
    /// If there is no such register.
    #[must_use]
    pub fn vector(&self, number: usize) -> [u8; 64] {
        assert!(number < 32, "there are 32 vector registers");
        let mut value = [0; 64];
        for (component, at, range) in parts(number) {
            if let Some(place) = self.component(component, false) {
                // SAFETY: the component, which is there, has so many bytes for each register.
                let bytes =
                    unsafe { std::slice::from_raw_parts(place.add(at), range.end - range.start) };
                value[range].copy_from_slice(bytes);
            }
        }
        value
    }

    /// Changes a vector register. Bytes that the processor does not have are left out.
    ///
    /// # Panics
    /// If there is no such register.
    pub fn set_vector(&mut self, number: usize, value: &[u8; 64]) {
        assert!(number < 32, "there are 32 vector registers");
        for (component, at, range) in parts(number) {
            // What is zero need not come into use.
            let is_zero = value[range.clone()].iter().all(|&byte| byte == 0);
            if let Some(place) = self.component(component, !is_zero) {
                // SAFETY: as above.
                let bytes = unsafe {
                    std::slice::from_raw_parts_mut(place.add(at), range.end - range.start)
                };
                bytes.copy_from_slice(&value[range]);
            }
        }
    }

    /// A mask register, k0 to k7.
    ///
    /// # Panics
    /// If there is no such register.
    #[must_use]
    pub fn mask(&self, number: usize) -> u64 {
        assert!(number < 8, "there are eight mask registers");
        let place = self.component(OPMASK, false);
        // SAFETY: the component has eight words.
        place.map_or(0, |place| unsafe {
            place.cast::<u64>().add(number).read_unaligned()
        })
    }

    /// Where a component is saved. If it is in its initial state, `None`, or with `create` zeros
    /// that are put there; `None` also if the processor does not have it.
    fn component(&self, component: u32, create: bool) -> Option<*mut u8> {
        const COMPACT: u64 = 1 << 63;
        // SAFETY: the slots belong to this thread, and hold an XSAVE area.
        unsafe {
            let area = self.slots().vectors.area();
            let used = area.add(HEADER).cast::<u64>();
            let format = area.add(HEADER + 8).cast::<u64>().read();
            let has = process()?.vectors.mask;
            if has & 1 << component == 0 {
                return None;
            }
            let compacted = (format & COMPACT != 0).then_some(format as u32);
            let (offset, size) = match component {
                SSE => (LOW, 256),
                _ => state_sizes().place_of(component, compacted)?,
            };
            let place = area.add(offset);
            if *used & 1 << component == 0 {
                if !create {
                    return None;
                }
                place.write_bytes(0, size);
                *used |= 1 << component;
            }
            Some(place)
        }
    }
}

/// The parts of a vector register: component, offset there, and bytes of the register.
fn parts(number: usize) -> impl Iterator<Item = (u32, usize, std::ops::Range<usize>)> {
    let parts = match number {
        0..16 => [
            Some((SSE, 16 * number, 0..16)),
            Some((AVX, 16 * number, 16..32)),
            Some((ZMM_HI256, 32 * number, 32..64)),
        ],
        _ => [Some((HI16_ZMM, 64 * (number - 16), 0..64)), None, None],
    };
    parts.into_iter().flatten()
}
