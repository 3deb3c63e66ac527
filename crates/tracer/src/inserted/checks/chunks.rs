//! Repeated string instructions, a chunk at a time.
//!
//! Before such an instruction the thread acquires the lines that it accesses. They may be
//! millions, and meanwhile no signal is delivered; one that comes again and again would find the
//! program where it was. Where values are recorded, what it moves is copied. So only a bounded
//! number of rounds is prepared for, the count register is lowered by the rest for the instruction
//! alone, and behind it the superblock is left as if a signal had come between two rounds.

use iced_x86::RflagsBits;
use unspool_code_cache::emit::{Address, gpr};

use super::visit_site;
use crate::check_sites::ChunkEnd;
use crate::inserted::check::Check;
use crate::inserted::translation::Translation;
use crate::slots::offset as trace_offset;
use unspool_engine::translate::superblock::Item;

/// Emits, right before the instruction: the count register is lowered to the rounds of a chunk.
pub(crate) fn begin(translation: &mut Translation) {
    let scratch = translation.binding.scratch();
    let code = &mut translation.builder.code;
    code.load_slot(scratch, trace_offset::REST);
    code.bytes(&[0x48 | scratch >> 3, 0xf7, 0xd0 | scratch & 7]); // not
    let lowered = Address {
        base: Some(gpr::RCX),
        index: Some((scratch, 1)),
        displacement: 1,
    };
    code.lea_address(gpr::RCX, lowered, false);
}

/// Emits, right behind the instruction: the count register is what is left of all rounds. If
/// there are more, the engine is asked whether they are to come.
pub(crate) fn end(translation: &mut Translation, item: &Item) {
    let scratch = translation.binding.scratch();
    let exchange = [0x48 | scratch >> 3, 0x87, 0xc8 | scratch & 7]; // xchg scratch, rcx
    let code = &mut translation.builder.code;
    code.load_slot(scratch, trace_offset::REST);
    let raised = Address {
        base: Some(gpr::RCX),
        index: Some((scratch, 1)),
        displacement: 0,
    };
    code.lea_address(gpr::RCX, raised, false);
    code.bytes(&exchange);
    code.bytes(&[0xe3, 0]); // jrcxz
    let last = code.here();
    code.bytes(&exchange);
    let Some(operand) = item.operands().first() else {
        unreachable!("a string instruction accesses memory");
    };
    let check = Check {
        operand: *operand,
        first: 0,
        last: 0,
        write: false,
        element: None,
    };
    let compares = item.decoded().rflags_modified() & RflagsBits::ZF != 0;
    let stops_at = compares.then(|| item.decoded().has_repne_prefix());
    visit_site(translation, item, &check, Some(ChunkEnd { stops_at }));
    let code = &mut translation.builder.code;
    code.bytes(&[0xeb, exchange.len() as u8]); // jmp over the exchange
    let here = code.here();
    code.bytes(&exchange);
    translation
        .builder
        .patch_byte(last.before(), here.bytes_since(last) as u8);
}
