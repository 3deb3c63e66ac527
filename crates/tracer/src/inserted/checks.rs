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
mod exact;
mod faults;
mod plan;
mod slow;

pub(crate) use self::faults::{fails_at, fault};
pub(crate) use self::plan::plan;
use self::plan::reach;
use self::slow::acquire_briefly;
pub(crate) use self::slow::finish;
use super::check::{Check, Comparison, SlowCheck};
use super::elements::{keep_elements, keep_tile_configuration};
use super::translation::{Translation, effective_address, with_flags};
use crate::check_sites::{CheckSite, ChunkEnd};
use crate::clean_calls::TracerRequest;
use crate::ownership::LineLayout;
use crate::slots::offset as trace_offset;
use unspool_code_cache::address::CacheAddress;
use unspool_engine::translate::insertion::detour::Jumps;
use unspool_engine::translate::insertion::shadow::{ShadowLayout, ShadowWord};
use unspool_engine::translate::superblock::Item;
use unspool_instructions::operands::{MemoryOperand, Shape};
use unspool_kernel::layout::OWNER_WORDS;

/// Bytes that one check may span: what lies in two adjacent lines at most.
pub(crate) fn span(layout: LineLayout) -> i64 {
    1 << layout.shift
}

/// Emits the poll at the start of a superblock: does another thread want an answer?
pub(crate) fn poll(translation: &mut Translation, item: &Item) {
    if !translation.parts.ownership.is_checking() {
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

fn jump_not_equal(translation: &mut Translation) -> CacheAddress {
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
    let jump = match known_word(translation, &check) {
        Some(word) if !check.write => compare_or_shared(translation, word),
        Some(word) => {
            translation.builder.code.compare_at(word.at(0), owner, 4);
            jump_not_equal(translation)
        }
        None => {
            let word = owner_word(translation, &check, check.first);
            // This one and the next.
            translation.builder.code.compare_at(word.at(0), owner, 8);
            jump_not_equal(translation)
        }
    };
    push_slow_check(
        translation,
        item,
        check,
        start,
        Jumps::from_slice(&[jump]),
        Vec::new(),
    );
}

/// Emits the test whether a line is this thread's, or shared by those who read it, as constants
/// at known addresses are. Returns the field of the jump where it is neither.
fn compare_or_shared(translation: &mut Translation, word: ShadowWord) -> CacheAddress {
    const EQUAL: u8 = 0x74;
    const BELOW: u8 = 2;
    let (scratch, owner) = (translation.binding.scratch(), translation.owner());
    let code = &mut translation.builder.code;
    code.load_at(scratch, word.at(0), 4);
    code.compare_halves(scratch, owner);
    code.bytes(&[EQUAL, 0]);
    let passed = code.here().before();
    code.compare_with_slot(scratch, trace_offset::SHARED_SEEN, 4);
    let failed = code.jump_forward_if(BELOW);
    code.land_short(passed);
    failed
}

/// Notes what is to be emitted at the end of the fragment for a check that ends here.
fn push_slow_check(
    translation: &mut Translation,
    item: &Item,
    check: Check,
    start: CacheAddress,
    jumps: Jumps,
    elements: Vec<Comparison>,
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
    let leave = translation.builder.code.here();
    let number = translation.parts.check_sites.next();
    translation.clean_call(TracerRequest::Check(number), item.pc);
    let passed = translation.builder.code.here();
    translation.parts.check_sites.add(CheckSite {
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
    let LineLayout { shift, mask } = translation.parts.ownership.layout();
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
    check.last - check.first < span(translation.parts.ownership.layout())
        && (absolute || !far(check.first) && !far(check.last))
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
