//! Line-atomic order: the checks that this thread owns what it is about to access.
//!
//! Ownership is given up only at safe points: at the poll that begins each superblock, and
//! inside the engine. So a check holds until the end of the superblock, and accesses to
//! addresses that differ by a constant share one check where they lie within the bytes of a
//! line. If
//! the engine had to give lines away while it acquired one, the superblock is left and the
//! rest of it checked anew.
//!
//! The inlined check compares two adjacent owner words at once with this thread's, so that
//! it covers accesses that reach into the next line. Where that fails, code at the end
//! of the fragment looks at exactly the lines concerned, and at read-shared states.

pub(crate) mod chunks;
mod elements;
mod plan;
mod slow;

use self::chunks::ChunkEnd;
pub(crate) use self::plan::plan;
use self::plan::reach;
use self::slow::acquire_briefly;
pub(crate) use self::slow::finish;
use super::elements::{keep_elements, keep_tile_configuration};
use super::record::{effective_address, with_flags};
use super::traced::Translation;
use crate::ownership::LineLayout;
use crate::slots::offset as trace_offset;
use unspool_code_cache::address::CacheAddress;
use unspool_code_cache::emit::Gpr;
use unspool_code_cache::gates;
use unspool_engine::translate::insertion::detour::{Detour, Jumps};
use unspool_engine::translate::insertion::shadow::{ShadowLayout, ShadowWord};
use unspool_engine::translate::superblock::Item;
use unspool_instructions::operands::{MemoryOperand, Shape};
use unspool_kernel::guarded;
use unspool_kernel::layout::{BRANCH_TABLE, OWNER_WORDS};

/// Bytes that one check may span: what lies in two adjacent lines at most.
pub(crate) fn span(layout: LineLayout) -> i64 {
    1 << layout.shift
}

/// A check before an instruction.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Check {
    /// The operand whose address it starts from.
    operand: MemoryOperand,
    /// First and last byte, relative to that address.
    first: i64,
    last: i64,
    write: bool,
    /// Of a gather or scatter: the element that it is about, if not all.
    element: Option<u8>,
}

/// What the engine must know of a check that fails.
#[derive(Debug, Clone, Copy)]
pub(crate) struct CheckSite {
    /// How the address is computed from the registers.
    pub(crate) operand: MemoryOperand,
    /// First and last byte, relative to the address.
    pub(crate) first: i64,
    /// See `first`.
    pub(crate) last: i64,
    /// Whether the line is to be written.
    pub(crate) write: bool,
    /// How many accessing instructions precede in the record.
    pub(crate) ordinal: usize,
    /// How many words precede in the record.
    pub(crate) words: usize,
    /// The instruction's number in its superblock.
    pub(crate) instruction: u32,
    /// Where the check begins, to be made again.
    pub(crate) start: CacheAddress,
    /// Where the cache goes on behind the check.
    pub(crate) passed: CacheAddress,
    /// Where the cache is left for the engine to look at it.
    pub(crate) leave: CacheAddress,
    /// The register that holds the position in the buffer.
    pub(crate) buffer: Gpr,
    /// Whether the program's flags are in their spill slot.
    pub(crate) flags_live: bool,
    /// It is no check, but the end of a chunk of a repeated string instruction.
    pub(crate) ends_chunk: Option<ChunkEnd>,
}

/// A check whose slow part is still to be emitted at the end of the fragment.
pub(crate) struct SlowCheck {
    /// The way to the slow part, and back to where the check ends.
    detour: Detour,
    /// Where the check begins, to be made again after the engine has acquired the lines.
    start: u64,
    /// None: a poll.
    check: Option<Check>,
    /// The comparisons of single elements, whose jumps lead there instead.
    elements: Vec<elements::Comparison>,
    ordinal: usize,
    words: usize,
    instruction: u32,
    pc: u64,
    flags_live: bool,
}

/// Emits the poll at the start of a superblock: does another thread want an answer?
pub(crate) fn poll(translation: &mut Translation, item: &Item) {
    if !translation.tracer.checks_owners() {
        return;
    }
    with_flags(translation, item.flags_live, |translation| {
        let start = translation.builder.code.here();
        translation
            .builder
            .code
            .compare_slot_zero(trace_offset::POLL);
        let jumps = Jumps::from_slice(&[jump_not_equal(translation)]);
        let detour = translation.detour(jumps);
        let pc = item.pc;
        translation.slow_checks.push(SlowCheck {
            detour,
            start,
            check: None,
            elements: Vec::new(),
            ordinal: 0,
            words: 0,
            instruction: 0,
            pc,
            flags_live: false,
        });
    });
}

fn jump_not_equal(translation: &mut Translation) -> u64 {
    const NOT_EQUAL: u8 = 5;
    translation.builder.code.jump_forward_if(NOT_EQUAL)
}

/// Emits the checks before an instruction.
pub(crate) fn check(translation: &mut Translation, item: &Item, checks: &[Check]) {
    if checks.is_empty() {
        return;
    }
    with_flags(translation, item.flags_live, |translation| {
        for &check in checks {
            if reach(&check.operand).is_some() && fits(translation, &check) {
                compare(translation, item, check);
            } else if elements::fits(&check.operand) {
                elements::compare_all(translation, item, check);
            } else {
                visit(translation, item, check);
            }
        }
    });
}

/// Emits the comparison of the lines' owner words with this thread's.
fn compare(translation: &mut Translation, item: &Item, check: Check) {
    let start = translation.builder.code.here();
    let owner = translation.owner();
    if let Some(word) = known_word(translation, &check) {
        translation.builder.code.compare_at(word.at(0), owner, 4);
    } else {
        let word = owner_word(translation, &check, check.first);
        // This one and the next.
        translation.builder.code.compare_at(word.at(0), owner, 8);
    }
    let jumps = Jumps::from_slice(&[jump_not_equal(translation)]);
    push_slow_check(translation, item, check, start, jumps, Vec::new());
}

/// Notes what is to be emitted at the end of the fragment for a check that ends here.
fn push_slow_check(
    translation: &mut Translation,
    item: &Item,
    check: Check,
    start: u64,
    jumps: Jumps,
    elements: Vec<elements::Comparison>,
) {
    let slow_check = SlowCheck {
        detour: translation.detour(jumps),
        start,
        check: Some(check),
        elements,
        ordinal: translation.superblock.instructions.len(),
        words: translation.words,
        instruction: translation.instruction_number(),
        pc: item.pc,
        flags_live: translation.borrowed.has_flags(),
    };
    translation.slow_checks.push(slow_check);
}

/// Emits a call into the engine, where the extent of an access is known only at run time.
/// What it acquires need not be looked at again.
fn visit(translation: &mut Translation, item: &Item, check: Check) {
    match check.operand.shape {
        Shape::Repeat { .. } => acquire_briefly(translation, &check),
        Shape::Tile { .. } => {
            keep_tile_configuration(translation);
            acquire_briefly(translation, &check);
        }
        Shape::Indexed { index, mask, .. } => keep_elements(translation, index, mask),
        _ => {}
    }
    visit_site(translation, item, &check, None);
}

/// Emits the call itself.
fn visit_site(
    translation: &mut Translation,
    item: &Item,
    check: &Check,
    ends_chunk: Option<ChunkEnd>,
) {
    let ordinal = translation.superblock.instructions.len();
    let flags_live = translation.borrowed.has_flags();
    let instruction = translation.instruction_number();
    let site = check.site(ordinal, translation.words, instruction, flags_live);
    let leave = translation.builder.code.place();
    translation.clean_call(translation.tracer.next_check_call(), item.pc);
    let passed = translation.builder.code.place();
    translation.tracer.add_check_site(CheckSite {
        start: passed,
        passed,
        leave,
        buffer: translation.binding.buffer(),
        ends_chunk,
        ..site
    });
}

/// The owner words, found by addresses.
fn layout(translation: &Translation) -> ShadowLayout {
    let LineLayout { shift, mask } = translation.tracer.line_layout();
    ShadowLayout {
        base: OWNER_WORDS,
        shift,
        bits: mask.map(|mask| mask.trailing_ones() as u8),
        word: 4,
    }
}

/// The owner word of an access to one line at an address known now.
fn known_word(translation: &Translation, check: &Check) -> Option<ShadowWord> {
    let operand = &check.operand;
    let absolute = check.element.is_none()
        && operand.base == iced_x86::Register::None
        && operand.index == iced_x86::Register::None
        && operand.segment.is_none()
        && !operand.address_size_32;
    let address = |relative: i64| operand.displacement.wrapping_add(relative) as u64;
    let (first, last) = (address(check.first), address(check.last));
    let layout = layout(translation);
    let is_one = first >> layout.shift == last >> layout.shift;
    (absolute && is_one).then(|| layout.known(first)).flatten()
}

fn fits(translation: &Translation, check: &Check) -> bool {
    let far =
        |relative: i64| i32::try_from(check.operand.displacement.wrapping_add(relative)).is_err();
    let absolute = check.operand.base == iced_x86::Register::None
        && check.operand.index == iced_x86::Register::None;
    check.last - check.first < span(translation.tracer.line_layout())
        && (absolute || !far(check.first) && !far(check.last))
}

impl Check {
    /// What the engine must know, except where the cache goes on.
    fn site(&self, ordinal: usize, words: usize, instruction: u32, flags_live: bool) -> CheckSite {
        let Check {
            operand,
            first,
            last,
            write,
            ..
        } = *self;
        CheckSite {
            operand,
            first,
            last,
            write,
            ordinal,
            words,
            instruction,
            start: CacheAddress::NOWHERE,
            passed: CacheAddress::NOWHERE,
            leave: CacheAddress::NOWHERE,
            buffer: 0,
            flags_live,
            ends_chunk: None,
        }
    }
}

/// Emits what finds the owner word of the byte at `relative`; its number is in the scratch register.
fn owner_word(translation: &mut Translation, check: &Check, relative: i64) -> ShadowWord {
    let operand = MemoryOperand {
        displacement: check.operand.displacement.wrapping_add(relative),
        ..check.operand
    };
    match check.element {
        Some(element) => elements::address(translation, &operand, element),
        None => effective_address(translation, &operand),
    }
    let layout = layout(translation);
    layout.find(
        &mut translation.builder.code,
        translation.binding.scratch(),
        None,
    )
}

/// Bytes of the instruction that compares two owner words with the thread's.
pub(crate) const COMPARISON: u64 = 8;

/// Where the program goes on if the comparison of two owner words at `pc` fails; nothing if the
/// code there is something else.
pub(crate) fn check_fails_at(pc: u64) -> Option<u64> {
    const COMPARE: usize = COMPARISON as usize;
    let mut bytes = [0; COMPARE + 6];
    if !gates::in_cache(pc) || !guarded::read_any(pc, &mut bytes) {
        return None;
    }
    let (compare, jump) = bytes.split_at(COMPARE);
    let is_compare = compare[0] & 0xf8 == 0x48
        && compare[1] == 0x39
        && compare[2] & 0xc7 == 0x04
        && compare[3] & 0xc7 == 0x85
        && compare[4..] == (OWNER_WORDS as u32).to_le_bytes();
    let distance = jump.strip_prefix(&[0x0f, 0x85])?.try_into().ok()?;
    let behind = pc + bytes.len() as u64;
    is_compare.then(|| behind.wrapping_add_signed(i64::from(i32::from_le_bytes(distance))))
}

/// Whether the instruction in the cache at `pc` is one of those that checks consist of: they look
/// at an owner word or put the thread there.
pub(crate) fn looks_at_owner(pc: u64) -> bool {
    let mut bytes = [0; 10];
    guarded::read_any(pc, &mut bytes) && is_on_owner_word(&bytes)
}

fn is_on_owner_word(bytes: &[u8; 10]) -> bool {
    let (is_locked, bytes) = match bytes {
        [0xf0, rest @ ..] => (true, rest),
        [rest @ .., _] => (false, rest),
    };
    let [rex, rest @ ..] = bytes;
    let rest: &[u8] = match rest {
        [0x0f, 0xb1, rest @ ..] if is_locked => rest,
        [0x39 | 0x8b, rest @ ..] if !is_locked => rest,
        _ => return false,
    };
    let [modrm, sib, displacement @ ..] = rest else {
        return false;
    };
    let Some(&displacement) = displacement.first_chunk() else {
        return false;
    };
    let displacement = u64::from(u32::from_le_bytes(displacement));
    let at_index = sib & 0xc7 == 0x85 && displacement == OWNER_WORDS;
    let at_known = *sib == 0x25 && (OWNER_WORDS..BRANCH_TABLE).contains(&displacement);
    rex & 0xf0 == 0x40 && modrm & 0xc7 == 0x04 && (at_index || at_known)
}

#[cfg(test)]
mod tests {
    use super::is_on_owner_word;

    #[test]
    fn instructions_of_checks_are_known() {
        let cases: [(&[u8], bool); 10] = [
            // cmp [rcx * 4 + 0x70000000], rdx
            (&[0x48, 0x39, 0x14, 0x8d, 0, 0, 0, 0x70], true),
            // cmp [r9 * 4 + 0x70000000], r10
            (&[0x4e, 0x39, 0x14, 0x8d, 0, 0, 0, 0x70], true),
            // mov ecx, [rcx * 4 + 0x70000000]
            (&[0x40, 0x8b, 0x0c, 0x8d, 0, 0, 0, 0x70], true),
            // lock cmpxchg [rcx * 4 + 0x70000000], edx
            (&[0xf0, 0x40, 0x0f, 0xb1, 0x14, 0x8d, 0, 0, 0, 0x70], true),
            // cmp [0x70123450], edx
            (&[0x40, 0x39, 0x14, 0x25, 0x50, 0x34, 0x12, 0x70], true),
            // The same elsewhere; without the lock; another scale; a base; another operation.
            (&[0x40, 0x39, 0x14, 0x25, 0x50, 0x34, 0x12, 0x75], false),
            (&[0x40, 0x0f, 0xb1, 0x14, 0x8d, 0, 0, 0, 0x70], false),
            (&[0x48, 0x39, 0x14, 0xcd, 0, 0, 0, 0x70], false),
            (&[0x48, 0x39, 0x94, 0x8b, 0, 0, 0, 0x70], false),
            (&[0x48, 0x3b, 0x14, 0x8d, 0, 0, 0, 0x70], false),
        ];
        for (instruction, expected) in cases {
            let mut bytes = [0x90; 10];
            bytes[..instruction.len()].copy_from_slice(instruction);
            assert_eq!(is_on_owner_word(&bytes), expected, "{instruction:x?}");
        }
    }
}
