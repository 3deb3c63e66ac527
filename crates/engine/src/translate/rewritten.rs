//! Instructions whose operand in memory is elsewhere than their bytes say.
//!
//! A client that wants that has an address put into a slot before the instruction. The copy names memory
//! by that address alone: a register that it does not use is spilled, and has it meanwhile.

use iced_x86::{Mnemonic, Register};
use unspool_events::AccessKind;
use unspool_instructions::decode::Kind;
use unspool_instructions::operands::{MemoryOperand, Shape};

use super::copy::{Builder, Uncopyable};
use super::gs::bytes_with_base;
use super::item::Item;

impl Item {
    /// Why an operand of it cannot be elsewhere; nothing, if it can.
    #[must_use]
    pub fn fixed_operand(&self, operand: &MemoryOperand) -> Option<&'static str> {
        if !self.operands().contains(operand) {
            return Some("it is an operand of another instruction");
        }
        match operand.shape {
            Shape::Plain
            | Shape::Masked { .. }
            | Shape::AnyOf { .. }
            | Shape::Compressed { .. } => {}
            Shape::BitString { .. } => return Some("a bit number says where in the string it is"),
            Shape::AlignedDown => return Some("it is the line around an address"),
            Shape::Indexed { .. } => return Some("a gather or scatter accesses many places"),
            Shape::Tile { .. } => return Some("a tile has many rows"),
            Shape::Repeat { .. } => {
                return Some("a string instruction goes on from register to register");
            }
        }
        if !self.layout.has_memory_modrm() || !self.is_named_by_modrm(operand) {
            return Some("the instruction does not name it: it is implied");
        }
        (self.layout.kind != Kind::Plain)
            .then_some("the engine does not execute a copy of the instruction")
    }

    /// Whether an operand is the one that ModRM and what follows it name.
    fn is_named_by_modrm(&self, operand: &MemoryOperand) -> bool {
        let decoded = self.decoded();
        // The place on the stack, or the other one, which is named as it is behind the instruction.
        let pops = decoded.mnemonic() == Mnemonic::Pop;
        let on_stack = match decoded.mnemonic() {
            Mnemonic::Push => operand.kind == AccessKind::Write,
            Mnemonic::Pop => operand.kind == AccessKind::Read,
            _ => false,
        };
        let base = match decoded.memory_base() {
            Register::RIP | Register::EIP => Register::None,
            base => base,
        };
        let is_relative = self.layout.rip_relative;
        let displacement = decoded.memory_displacement64() as i64;
        !on_stack
            && operand.base == base
            && operand.index == decoded.memory_index()
            && (is_relative || pops || operand.displacement == displacement)
    }
}

impl Builder {
    /// Emits an instruction with the address in a slot in the place of its operand's.
    ///
    /// # Errors
    /// If there is no register for it.
    pub(super) fn copy_elsewhere(&mut self, item: &Item, slot: i32) -> Result<(), Uncopyable> {
        // What the address was made of is free, unless the instruction uses it besides.
        let mut decoded = *item.decoded();
        decoded.set_memory_base(Register::None);
        decoded.set_memory_index(Register::None);
        self.with_base(&decoded, |builder, base| {
            builder.code.load_slot(base, slot);
            let (bytes, length) = bytes_with_base(&item.layout, &item.bytes, base);
            builder.code.bytes(&bytes[..length]);
        })
    }
}

#[cfg(test)]
mod tests {
    use iced_x86::{Decoder, DecoderOptions, Register};
    use unspool_events::AccessKind::{self, Read, Write};

    use super::bytes_with_base;
    use crate::translate::insertion::executed::item;

    /// With a register alone as its operand, an instruction is the same for another decoder, but for that.
    #[test]
    fn all_but_the_address_stays() {
        let cases: [&[u8]; 14] = [
            &[0x48, 0x8b, 0x44, 0x8b, 0x40],       // mov rax, [rbx+rcx*4+64]
            &[0x47, 0x8b, 0x84, 0xac, 0, 1, 0, 0], // mov r8d, [r12+r13*4+256]
            &[0x64, 0x48, 0x03, 0x04, 0x25, 8, 0, 0, 0], // add rax, fs:[8]
            &[0x65, 0xf0, 0x0f, 0xc1, 0x11],       // lock xadd gs:[rcx], edx
            &[0x67, 0x66, 0x89, 0x4d, 0x04],       // mov [ebp+4], cx
            &[0x48, 0x81, 0x3d, 0x10, 0, 0, 0, 1, 2, 3, 4], // cmp qword [rip+16], 0x04030201
            &[0x49, 0x0f, 0xc7, 0x0c, 0x24],       // cmpxchg16b [r12]
            &[0xff, 0x75, 0xf8],                   // push [rbp-8]
            &[0x8f, 0x44, 0x24, 0x08],             // pop [rsp+8]
            &[0x66, 0x44, 0x0f, 0xfe, 0x4b, 0x10], // paddd xmm9, [rbx+16]
            &[0xc5, 0xfc, 0x10, 0x47, 0x20],       // vmovups ymm0, [rdi+32]
            &[0xc4, 0x01, 0x34, 0x58, 0x4c, 0xac, 0x04], // vaddps ymm9, ymm9, [r12+r13*4+4]
            &[0x62, 0x41, 0x7c, 0xc9, 0x10, 0x64, 0x24, 0x01], // vmovups zmm28{k1}{z}, [r12+64]
            &[0xd9, 0x44, 0x24, 0x04],             // fld dword [rsp+4]
        ];
        for bytes in cases {
            let item = item(bytes);
            let original = *item.decoded();
            for (base, register) in [(3, Register::RBX), (6, Register::RSI), (7, Register::RDI)] {
                let (made, length) = bytes_with_base(&item.layout, &item.bytes, base);
                let options = DecoderOptions::NONE;
                let made = Decoder::with_ip(64, &made[..length], 0, options).decode();
                assert_eq!(made.len(), length, "{bytes:x?}");
                assert_eq!(made.code(), original.code(), "{bytes:x?}");
                assert_eq!(made.memory_base(), register);
                assert_eq!(made.memory_index(), Register::None);
                assert_eq!(made.memory_displacement64(), 0);
                assert_eq!(made.segment_prefix(), Register::None);
                assert_eq!(made.has_lock_prefix(), original.has_lock_prefix());
                assert_eq!(made.op_mask(), original.op_mask());
                assert_eq!(made.zeroing_masking(), original.zeroing_masking());
                for number in 0..original.op_count() {
                    assert_eq!(made.op_kind(number), original.op_kind(number));
                    assert_eq!(made.op_register(number), original.op_register(number));
                }
            }
        }
    }

    #[test]
    fn what_cannot_be_elsewhere_says_why() {
        let cases: [(&[u8], AccessKind, &str); 12] = [
            (&[0x8b, 0x03], Read, ""),                        // mov eax, [rbx]
            (&[0x01, 0x03], Write, ""),                       // add [rbx], eax
            (&[0xff, 0x33], Read, ""),                        // push [rbx]
            (&[0xff, 0x33], Write, "implied"),                // its place on the stack
            (&[0x8f, 0x44, 0x24, 0x08], Write, ""),           // pop [rsp+8]
            (&[0x8f, 0x44, 0x24, 0x08], Read, "implied"),     // its place on the stack
            (&[0x55], Write, "implied"),                      // push rbp
            (&[0xa4], Read, "implied"),                       // movsb
            (&[0xf3, 0xa4], Read, "string instruction"),      // rep movsb
            (&[0x0f, 0xa3, 0x03], Read, "bit number"),        // bt [rbx], eax
            (&[0xff, 0x23], Read, "does not execute a copy"), // jmp [rbx]
            (&[0xc4, 0xe2, 0x6d, 0x92, 0x04, 0x8b], Read, "many places"), // vgatherdps
        ];
        for (bytes, kind, reason) in cases {
            let item = item(bytes);
            let mut operands = item.operands().iter().filter(|it| it.kind == kind);
            let operand = operands.next().expect("there is one");
            let said = item.fixed_operand(operand);
            assert_eq!(said.is_none(), reason.is_empty(), "{bytes:x?}: {said:?}");
            assert!(said.unwrap_or("").contains(reason), "{bytes:x?}: {said:?}");
        }
        let [one, other] = [&[0x8b, 0x03], &[0x8b, 0x01]].map(|bytes| item(bytes));
        assert!(one.fixed_operand(&other.operands()[0]).is_some());
    }
}
