//! The machine code of this executable.

use std::ops::Range;

use iced_x86::{Decoder, DecoderOptions, FlowControl, Instruction, OpKind};
use unspool_kernel::guarded;
use unspool_kernel::lock::OnceLock;

/// Where the executable's code is, and what else in it does not change.
pub(super) struct OwnCode {
    code: Vec<Range<u64>>,
    constant: Vec<Range<u64>>,
    /// The function in which every panic ends.
    pub(super) panics: u64,
}

/// Panics, so that its code shows by which function.
#[inline(never)]
fn fail(number: u64) -> ! {
    panic!("{number}")
}

impl OwnCode {
    /// `None` if it cannot be found.
    pub(super) fn get() -> Option<&'static OwnCode> {
        static FOUND: OnceLock<Option<OwnCode>> = OnceLock::new();
        FOUND.get_or_init(OwnCode::find).as_ref()
    }

    fn find() -> Option<OwnCode> {
        let base = unspool_engine::own_failures::engine_base();
        // SAFETY: asks for words that the kernel gave this process.
        let (headers, count) = unsafe {
            (
                libc::getauxval(libc::AT_PHDR) as *const libc::Elf64_Phdr,
                libc::getauxval(libc::AT_PHNUM) as usize,
            )
        };
        if headers.is_null() {
            return None;
        }
        // SAFETY: the kernel says that so many program headers are there.
        let headers = unsafe { std::slice::from_raw_parts(headers, count) };
        let mut own = OwnCode {
            code: Vec::new(),
            constant: Vec::new(),
            panics: 0,
        };
        for header in headers {
            let start = base.wrapping_add(header.p_vaddr);
            let range = start..start.wrapping_add(header.p_filesz);
            match header.p_type {
                libc::PT_LOAD if header.p_flags & libc::PF_X != 0 => own.code.push(range),
                libc::PT_LOAD if header.p_flags & libc::PF_W == 0 => own.constant.push(range),
                // Written once, when this executable was loaded.
                libc::PT_GNU_RELRO => own.constant.push(range),
                _ => {}
            }
        }
        own.panics = own.first_call(fail as *const () as u64)?;
        Some(own)
    }

    /// What a function calls first.
    fn first_call(&self, entry: u64) -> Option<u64> {
        let mut at = entry;
        for _ in 0..100 {
            let instruction = self.decode(at)?;
            at = match instruction.flow_control() {
                FlowControl::Call | FlowControl::IndirectCall => {
                    return self.target(&instruction);
                }
                FlowControl::UnconditionalBranch => instruction.near_branch_target(),
                _ => instruction.next_ip(),
            };
        }
        None
    }

    /// The instruction at an address, if that is in the code.
    pub(super) fn decode(&self, at: u64) -> Option<Instruction> {
        let bytes = self.bytes(at)?;
        let mut decoder = Decoder::with_ip(64, &bytes, at, DecoderOptions::NONE);
        let instruction = decoder.decode();
        (!instruction.is_invalid()).then_some(instruction)
    }

    /// What is in the code at an address, and what follows, if it is code, up to 15 bytes.
    pub(super) fn bytes(&self, at: u64) -> Option<Vec<u8>> {
        const LONGEST: u64 = 15;
        let range = self.code.iter().find(|range| range.contains(&at))?;
        let mut bytes = vec![0; LONGEST.min(range.end - at) as usize];
        guarded::read(at, &mut bytes).then_some(bytes)
    }

    /// Where a jump or call goes, if that is always the same.
    pub(super) fn target(&self, instruction: &Instruction) -> Option<u64> {
        match instruction.op0_kind() {
            OpKind::NearBranch64 => Some(instruction.near_branch_target()),
            OpKind::Memory if instruction.is_ip_rel_memory_operand() => {
                self.constant(instruction.ip_rel_memory_address())
            }
            _ => None,
        }
    }

    /// The word at an address, if it never changes.
    pub(super) fn constant(&self, at: u64) -> Option<u64> {
        let holds = |range: &Range<u64>| range.contains(&at) && range.contains(&(at + 7));
        self.constant.iter().any(holds).then_some(())?;
        guarded::read_word(at)
    }
}
