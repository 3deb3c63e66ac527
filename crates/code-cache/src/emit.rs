//! A byte emitter for the few instructions that the engine adds to copied code.
//!
//! All of them leave the flags alone unless their name says otherwise.

mod address;
mod jumps;
mod masks;
mod slots;
mod table_branch;
#[cfg(test)]
mod tests;

pub use self::address::Address;
pub use self::masks::Vector;
pub use self::table_branch::{TARGET, TableBranch};
use crate::address::CacheAddress;

/// The number of a general-purpose register, as in ModRM (0 = rax … 15 = r15).
pub type Gpr = u8;

/// Numbers of the registers that are named in emitted code.
pub mod gpr {
    use super::Gpr;
    /// `rax`.
    pub const RAX: Gpr = 0;
    /// `rcx`.
    pub const RCX: Gpr = 1;
    /// `rdx`.
    pub const RDX: Gpr = 2;
    /// `rbx`.
    pub const RBX: Gpr = 3;
    /// `rsp`.
    pub const RSP: Gpr = 4;
    /// `rbp`.
    pub const RBP: Gpr = 5;
    /// `rsi`.
    pub const RSI: Gpr = 6;
    /// `rdi`.
    pub const RDI: Gpr = 7;
    /// `r8`.
    pub const R8: Gpr = 8;
    /// `r9`.
    pub const R9: Gpr = 9;
    /// `r11`.
    pub const R11: Gpr = 11;
}

/// Writes machine code at a cursor in memory.
///
/// The memory must be writable up to `limit`; running past it panics, so callers check
/// the room for a whole fragment first.
pub struct Emitter {
    start: *mut u8,
    cursor: *mut u8,
    limit: *mut u8,
    /// Displacement of the slots from FS.
    slots: i32,
    /// Whether indirect branches go through hashed chains, and not through the branch table.
    pub(crate) hashed: bool,
}

impl Emitter {
    /// Starts at `cursor`.
    ///
    /// # Safety
    /// `cursor..limit` must be writable memory that nothing else writes meanwhile.
    pub unsafe fn new(cursor: *mut u8, limit: *mut u8, slots: i32) -> Emitter {
        Emitter {
            start: cursor,
            cursor,
            limit,
            slots,
            hashed: false,
        }
    }

    /// The address of the next byte. Where code is emitted elsewhere than in the cache, to be copied
    /// there, only distances between such addresses mean something.
    #[inline]
    pub fn here(&self) -> CacheAddress {
        CacheAddress::of_byte(self.cursor)
    }

    /// Where `size` bytes are that were emitted at an address.
    fn emitted(&mut self, at: CacheAddress, size: usize) -> *mut u8 {
        let back = self.here().bytes_since(at) as usize;
        let all = self.cursor as usize - self.start as usize;
        assert!(
            (size..=all).contains(&back),
            "only what is there is changed"
        );
        // SAFETY: so many bytes have been emitted.
        unsafe { self.cursor.sub(back) }
    }

    /// Bytes left.
    pub(crate) fn room(&self) -> usize {
        self.limit as usize - self.cursor as usize
    }

    /// Appends bytes.
    #[inline]
    pub fn bytes(&mut self, bytes: &[u8]) {
        assert!(
            bytes.len() <= self.room(),
            "the caller reserved room for the fragment"
        );
        // SAFETY: the range was checked against the limit; `new` promises that it is ours.
        unsafe {
            std::ptr::copy_nonoverlapping(bytes.as_ptr(), self.cursor, bytes.len());
            self.cursor = self.cursor.add(bytes.len());
        }
    }

    /// Appends the first bytes of a window, so many. Faster than [`Emitter::bytes`] where their number
    /// is not known when this is compiled: what is behind them is written over by what comes next.
    #[inline]
    pub fn first_of(&mut self, window: &[u8; 16], length: usize) {
        if self.room() < window.len() {
            self.bytes(&window[..length]);
            return;
        }
        assert!(length <= window.len(), "it is a part of the window");
        // SAFETY: there is room for the whole window, and `new` promises that it is ours.
        unsafe {
            std::ptr::write_unaligned(self.cursor.cast(), *window);
            self.cursor = self.cursor.add(length);
        }
    }

    /// Appends a 32-bit immediate.
    #[inline]
    pub fn imm32(&mut self, value: i32) {
        self.bytes(&value.to_le_bytes());
    }

    /// Overwrites a 32-bit field that was emitted before.
    pub fn patch32(&mut self, at: CacheAddress, value: i32) {
        let field = self.emitted(at, size_of::<i32>());
        // SAFETY: the field lies in what this emitter has written.
        unsafe { std::ptr::write_unaligned(field.cast(), value) };
    }

    /// Overwrites a byte that was emitted before.
    pub fn patch8(&mut self, at: CacheAddress, value: u8) {
        let byte = self.emitted(at, 1);
        // SAFETY: the byte lies in what this emitter has written.
        unsafe { byte.write(value) };
    }

    /// `mov register, imm64`, in its shortest form.
    pub fn load_immediate(&mut self, register: Gpr, value: u64) {
        if u32::try_from(value).is_ok() {
            if register >= 8 {
                self.bytes(&[0x41]);
            }
            self.bytes(&[0xb8 | register & 7]);
            self.imm32(value as u32 as i32);
        } else {
            self.bytes(&[0x48 | register >> 3, 0xb8 | register & 7]);
            self.bytes(&value.to_le_bytes());
        }
    }

    /// A ModRM operand `[base + displacement]` with a 64-bit `opcode`.
    pub fn on_memory(&mut self, opcode: &[u8], register: Gpr, base: Gpr, displacement: i32) {
        self.bytes(&[0x48 | (register >> 3) << 2 | base >> 3]);
        self.bytes(opcode);
        self.memory_operand(register, base, displacement);
    }

    pub(super) fn memory_operand(&mut self, register: Gpr, base: Gpr, displacement: i32) {
        let fields = (register & 7) << 3 | base & 7;
        let short = i8::try_from(displacement).ok();
        let with_base_rbp = base & 7 == 5;
        match short {
            Some(0) if !with_base_rbp => self.modrm_base(fields, base, &[]),
            Some(byte) => self.modrm_base(0x40 | fields, base, &byte.to_le_bytes()),
            None => self.modrm_base(0x80 | fields, base, &displacement.to_le_bytes()),
        }
    }

    fn modrm_base(&mut self, modrm: u8, base: Gpr, displacement: &[u8]) {
        self.bytes(&[modrm]);
        if base & 7 == 4 {
            self.bytes(&[0x24]);
        }
        self.bytes(displacement);
    }

    /// `mov [base + displacement], register`
    pub fn store(&mut self, base: Gpr, displacement: i32, register: Gpr) {
        self.on_memory(&[0x89], register, base, displacement);
    }

    /// `mov [base + displacement], register`, its lowest `size` bytes: 1, 2, 4 or 8.
    pub fn store_part(&mut self, base: Gpr, displacement: i32, register: Gpr, size: u8) {
        self.store_at(Address::at(base, displacement), register, size);
    }

    /// `mov [base + displacement], value`, `size` bytes (1, 2, 4, or 8 with the sign extended).
    pub fn store_constant_part(&mut self, base: Gpr, displacement: i32, value: i32, size: u8) {
        self.store_constant_at(Address::at(base, displacement), value, size);
    }

    /// `setcc byte [base + displacement]`
    pub fn store_condition(&mut self, condition: u8, base: Gpr, displacement: i32) {
        self.bytes(&[0x40 | base >> 3, 0x0f, 0x90 | condition]);
        self.memory_operand(0, base, displacement);
    }

    /// `mov register, [base + displacement]`
    pub fn load(&mut self, register: Gpr, base: Gpr, displacement: i32) {
        self.on_memory(&[0x8b], register, base, displacement);
    }

    /// `mov qword [base + displacement], imm32` (sign-extended)
    pub fn store_immediate(&mut self, base: Gpr, displacement: i32, value: i32) {
        self.on_memory(&[0xc7], 0, base, displacement);
        self.imm32(value);
    }

    /// `lea register, [base + displacement]`
    pub fn lea(&mut self, register: Gpr, base: Gpr, displacement: i32) {
        self.on_memory(&[0x8d], register, base, displacement);
    }

    /// `mov to, from` (64 bits)
    pub fn copy(&mut self, to: Gpr, from: Gpr) {
        self.bytes(&[
            0x48 | (from >> 3) << 2 | to >> 3,
            0x89,
            0xc0 | (from & 7) << 3 | to & 7,
        ]);
    }

    /// Instructions that do nothing, `count` bytes long.
    pub fn nops(&mut self, count: usize) {
        const NOPS: [&[u8]; 5] = [
            &[],
            &[0x90],
            &[0x66, 0x90],
            &[0x0f, 0x1f, 0x00],
            &[0x0f, 0x1f, 0x40, 0x00],
        ];
        let mut left = count;
        while left > 0 {
            let length = left.min(4);
            self.bytes(NOPS[length]);
            left -= length;
        }
    }

    /// `push imm64`: pushes a return address of the program.
    pub fn push_immediate(&mut self, value: u64) {
        self.bytes(&[0x68]);
        self.imm32(value as u32 as i32);
        let sign_extended = value as u32 as i32 as i64 as u64;
        if sign_extended != value {
            self.store_high_half(value);
        }
    }

    /// `push register`
    pub fn push(&mut self, register: Gpr) {
        if register >= 8 {
            self.bytes(&[0x41]);
        }
        self.bytes(&[0x50 | register & 7]);
    }

    /// `pop register`
    pub fn pop(&mut self, register: Gpr) {
        if register >= 8 {
            self.bytes(&[0x41]);
        }
        self.bytes(&[0x58 | register & 7]);
    }

    /// Puts the status flags into rax: `lahf; seto al`.
    pub fn take_flags(&mut self) {
        self.bytes(&[0x9f, 0x0f, 0x90, 0xc0]);
    }

    /// Brings back the status flags that [`Emitter::take_flags`] has put into rax:
    /// `add al, 127; sahf`.
    pub fn bring_back_flags(&mut self) {
        self.bytes(&[0x04, 0x7f, 0x9e]);
    }

    /// `mov qword [rsp], imm64`: replaces a return address by one of the program.
    pub fn store_return_address(&mut self, value: u64) {
        let sign_extended = value as u32 as i32 as i64 as u64;
        if sign_extended == value {
            self.bytes(&[0x48]);
        }
        self.bytes(&[0xc7, 0x04, 0x24]);
        self.imm32(value as u32 as i32);
        if sign_extended != value {
            self.store_high_half(value);
        }
    }

    /// `mov dword [rsp + 4], high half`
    fn store_high_half(&mut self, value: u64) {
        self.bytes(&[0xc7, 0x44, 0x24, 0x04]);
        self.imm32((value >> 32) as u32 as i32);
    }
}

impl Emitter {
    /// `xor register, constant`, 4 bytes; sets the flags.
    pub fn xor_constant(&mut self, register: Gpr, constant: u32) {
        self.bytes(&[0x40 | register >> 3, 0x81, 0xf0 | register & 7]);
        self.imm32(constant as i32);
    }

    /// `test register, mask`, 4 bytes; sets the flags.
    pub fn test(&mut self, register: Gpr, mask: u32) {
        self.bytes(&[0x40 | register >> 3, 0xf7, 0xc0 | register & 7]);
        self.imm32(mask as i32);
    }

    /// `cmp left, right` (32 bits); sets the flags.
    pub fn compare_halves(&mut self, left: Gpr, right: Gpr) {
        let rex = 0x40 | (right >> 3) << 2 | left >> 3;
        self.bytes(&[rex, 0x39, 0xc0 | (right & 7) << 3 | left & 7]);
    }

    /// `shl` or, to the right, `shr register, count` (64 bits); sets the flags.
    pub fn shift_by(&mut self, right: bool, register: Gpr, count: u8) {
        let extension = if right { 0xe8 } else { 0xe0 };
        self.bytes(&[0x48 | register >> 3, 0xc1, extension | register & 7, count]);
    }

    /// `mov to, from` (32 bits, zero-extended)
    pub fn zero_extend(&mut self, to: Gpr, from: Gpr) {
        let rex = 0x40 | (from >> 3) << 2 | to >> 3;
        self.bytes(&[rex, 0x89, 0xc0 | (from & 7) << 3 | to & 7]);
    }
}
