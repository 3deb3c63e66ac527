//! The address and the opcode of the last x87 instruction, which the processor keeps and some
//! instructions store: they must be the program's, not those of the copy in the code cache.

use std::sync::atomic::{AtomicBool, Ordering};

use iced_x86::{Decoder, DecoderOptions, Instruction, Mnemonic, OpKind, Register};
use unspool_code_cache::address::CacheAddress;
use unspool_code_cache::cache::Cache;
use unspool_instructions::decode::{MAX_LENGTH, Segment, decode};
use unspool_kernel::guarded;

use crate::process::Process;
use crate::thread::Thread;

/// The instruction of `length` bytes before the program counter has stored x87 state:
/// corrects the address in it.
pub(crate) fn correct_stored(process: &Process, thread: &mut Thread, length: u8) {
    let pc = thread.pc() - u64::from(length);
    let mut bytes = vec![0; usize::from(length)];
    if !guarded::read(pc, &mut bytes) {
        // Code that is gone since cannot say where it stored.
        return;
    }
    if keeps_state(&bytes, pc) && CacheAddress::of(last_pointer()).is_none() {
        // Mostly the dynamic loader's, which saves all registers when a function is bound.
        return;
    }
    let instruction = Decoder::with_ip(64, &bytes, pc, DecoderOptions::NONE).decode();
    let Some((pointer, size, opcode)) = fields(&instruction, thread) else {
        return;
    };
    let (mut stored, mut code) = ([0; 8], [0; 2]);
    if !guarded::read(pointer, &mut stored[..size]) || !guarded::read(opcode, &mut code) {
        return;
    }
    let last = last_instruction(
        &process.code().cache,
        u64::from_le_bytes(stored),
        u16::from_le_bytes(code),
    );
    let Some((address, code)) = last else {
        return;
    };
    let first = pointer.min(opcode);
    crate::client::memory_written(thread, first, pointer.max(opcode) + size as u64 - first);
    // What cannot be written now was written a moment ago, and taken away since.
    let _gone = guarded::write(pointer, &address.to_le_bytes()[..size])
        && guarded::write(opcode, &code.to_le_bytes());
}

/// Whether an instruction that stores x87 state leaves it as it was: `fxsave` and the XSAVE family,
/// which are in the second map of opcodes.
fn keeps_state(bytes: &[u8], pc: u64) -> bool {
    decode(bytes, pc).is_ok_and(|instruction| instruction.map == 1)
}

/// The address of the last x87 instruction that the processor keeps in this thread; 0 where it
/// keeps or tells none. The engine executes no x87 instruction while the program runs.
fn last_pointer() -> u64 {
    #[repr(C, align(16))]
    struct Area([u64; 64]);
    let mut area = Area([0; 64]);
    // SAFETY: the area has the size and the alignment that the instruction wants.
    unsafe { core::arch::x86_64::_fxsave64((&raw mut area).cast()) };
    area.0[1]
}

/// Where the instruction stores the address, in how many bytes, and where the opcode.
fn fields(instruction: &Instruction, thread: &Thread) -> Option<(u64, usize, u64)> {
    use Mnemonic as M;
    let index =
        (0..instruction.op_count()).find(|&index| instruction.op_kind(index) == OpKind::Memory)?;
    let start = instruction.virtual_address(index, 0, |register, _, _| {
        Some(match register {
            Register::FS => segment_base(thread, Segment::Fs),
            Register::GS => segment_base(thread, Segment::Gs),
            register if register.is_segment_register() => 0,
            register => {
                let value = thread.register(register.full_register().number() as u8);
                if register.size() == 4 {
                    value & 0xffff_ffff
                } else {
                    value
                }
            }
        })
    })?;
    let (pointer, size, opcode) = match instruction.mnemonic() {
        // The short forms keep 16 bits of it, which say nothing of where it was.
        M::Fnstenv | M::Fnsave if matches!(instruction.memory_size().size(), 14 | 94) => {
            return None;
        }
        M::Fnstenv | M::Fnsave | M::Fstenv | M::Fsave => (12, 4, 18),
        M::Fxsave | M::Xsave | M::Xsavec | M::Xsaveopt | M::Xsaves => (8, 4, 6),
        M::Fxsave64 | M::Xsave64 | M::Xsavec64 | M::Xsaveopt64 | M::Xsaves64 => (8, 8, 6),
        _ => return None,
    };
    Some((
        start.wrapping_add(pointer),
        size,
        start.wrapping_add(opcode),
    ))
}

fn segment_base(thread: &Thread, segment: Segment) -> u64 {
    thread.slots().base(segment)
}

/// The program's address of the x87 instruction whose copy is at `address`, and what the
/// processor would have kept as its opcode where it has kept `opcode`; nothing if no copy is
/// there. Recent processors keep that of instructions with unmasked exceptions only.
#[must_use]
pub(crate) fn last_instruction(cache: &Cache, address: u64, opcode: u16) -> Option<(u64, u16)> {
    let position = cache.position(CacheAddress::of(address)?)?;
    let own = opcode_at(position.pc, usize::from(position.length))?;
    let kept = keeps_opcodes() || opcode != 0 && opcode_at(address, MAX_LENGTH) == Some(opcode);
    Some((position.pc, if kept { own } else { opcode }))
}

static KEEPS_OPCODES: AtomicBool = AtomicBool::new(false);

fn keeps_opcodes() -> bool {
    KEEPS_OPCODES.load(Ordering::Relaxed)
}

/// Asks the processor whether it keeps the opcode of every x87 instruction. Before the program
/// begins: it leaves x87 in its initial state.
pub(crate) fn ask_processor() {
    const OPCODE: usize = 18;
    let mut environment = [0_u8; 28];
    // SAFETY: x87 is nobody's yet, and the environment has 28 bytes.
    unsafe {
        std::arch::asm!(
            "fninit",
            "fldz",
            "fadd st(0), st(0)",
            "fnstenv [{environment}]",
            "fninit",
            environment = in(reg) environment.as_mut_ptr(),
            options(nostack)
        );
    }
    let opcode = u16::from_le_bytes([environment[OPCODE], environment[OPCODE + 1]]);
    KEEPS_OPCODES.store(opcode & 0x7ff != 0, Ordering::Relaxed);
}

/// The opcode of the instruction at an address, of the program's or in the code cache, as x87 keeps it.
fn opcode_at(address: u64, length: usize) -> Option<u16> {
    let mut bytes = [0; MAX_LENGTH];
    let bytes = bytes.get_mut(..length)?;
    let instruction = guarded::read_any(address, bytes).then(|| decode(bytes, address).ok())??;
    Some(u16::from(instruction.opcode & 7) << 8 | u16::from(instruction.modrm))
}
