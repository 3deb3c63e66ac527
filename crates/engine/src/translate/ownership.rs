//! Line-atomic order: the checks that this thread owns what it is about to access.
//!
//! Ownership is given up only at safe points: at the poll that begins each superblock, and
//! inside the engine. So a check holds until the end of the superblock, and accesses to
//! addresses that differ by a constant share one check where they lie within 64 bytes. If
//! the engine had to give lines away while it acquired one, the superblock is left and the
//! rest of it checked anew.
//!
//! The inlined check compares two adjacent owner words at once with this thread's, so that
//! it covers accesses that reach into the next line. Where that fails, code at the end
//! of the fragment looks at exactly the lines concerned, and at read-shared states.

use super::Source;
use super::addresses::{Symbolic, Values, wide_register};
use super::record::{RAX_SPILL, effective_address, with_flags};
use super::traced::{Item, Translation, live_flags_at};
use crate::decode::{Kind, Segment};
use crate::emit::{Gpr, gpr};
use crate::layout::OWNER_WORDS;
use crate::operands::{MemoryOperand, RegisterUse, Shape};
use crate::slots::offset;
use crate::trace::LineLayout;
use unspool_events::AccessKind;

/// Bytes of [`crate::emit::Emitter::leave`].
const LEAVE_SIZE: u64 = 18;
/// Bytes that one check may span.
const SPAN: i64 = 64;

/// Finds where the flags may still be read, from the end of the superblock backwards.
pub(crate) fn find_live_flags(source: &Source, items: &mut [Item], live_after: u16) {
    let mut live = live_after;
    for item in items.iter_mut().rev() {
        if matches!(
            item.layout.kind,
            Kind::Jcc { .. } | Kind::JrcxzOrLoop { .. }
        ) {
            live |= live_flags_at(source, item.layout.target);
        }
        live = live & !item.uses.flags_overwritten | item.uses.flags_read;
        item.flags_live = live & RegisterUse::STATUS != 0;
    }
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
}

/// What the engine must know of a check that fails.
#[derive(Debug, Clone, Copy)]
pub struct CheckSite {
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
    /// The instruction's address.
    pub(crate) pc: u64,
    /// Where the cache goes on behind the check.
    pub(crate) passed: u64,
    /// Whether the program's flags are in their spill slot.
    pub(crate) flags_live: bool,
}

/// A check whose slow part is still to be emitted at the end of the fragment.
pub(crate) struct SlowCheck {
    /// Field of the jump to the slow part.
    field: u64,
    /// Where the check begins, to be made again after the engine has acquired the lines.
    start: u64,
    /// Where the check ends.
    end: u64,
    /// None: a poll.
    check: Option<Check>,
    ordinal: usize,
    words: usize,
    pc: u64,
    flags_live: bool,
}

/// A range that an earlier check has covered.
struct Covered {
    address: Symbolic,
    first: i64,
    last: i64,
    write: bool,
}

/// Decides which checks stand before which instruction.
pub(crate) fn plan(items: &[Item]) -> Vec<Vec<Check>> {
    let symbols = symbolic_operands(items);
    let mut covered: Vec<Covered> = Vec::new();
    let mut plan = Vec::with_capacity(items.len());
    for (index, item) in items.iter().enumerate() {
        let mut checks = Vec::new();
        for (number, operand) in item.operands.iter().enumerate() {
            if !is_checked(operand) {
                continue;
            }
            let write = operand.kind == AccessKind::Write;
            let size = i64::from(operand.size);
            let Some(address) = symbols[index][number] else {
                checks.push(Check {
                    operand: *operand,
                    first: 0,
                    last: size - 1,
                    write,
                });
                continue;
            };
            let start = operand.displacement;
            let already = covered.iter().any(|range| {
                range.address.distance(address).is_some_and(|distance| {
                    let start = start.wrapping_add(distance);
                    range.first <= start
                        && start + size - 1 <= range.last
                        && (range.write || !write)
                })
            });
            if already {
                continue;
            }
            let range = widen(items, &symbols, index, address, start, size, write);
            checks.push(Check {
                operand: *operand,
                first: range.first - start,
                last: range.last - start,
                write: range.write,
            });
            covered.push(range);
        }
        plan.push(checks);
    }
    plan
}

/// Extends a range over later accesses near it.
fn widen(
    items: &[Item],
    symbols: &[Vec<Option<Symbolic>>],
    index: usize,
    address: Symbolic,
    start: i64,
    size: i64,
    write: bool,
) -> Covered {
    let mut range = Covered {
        address,
        first: start,
        last: start + size - 1,
        write,
    };
    for (item, symbols) in items.iter().zip(symbols).skip(index) {
        for (operand, symbol) in item.operands.iter().zip(symbols) {
            let Some(distance) = symbol.and_then(|symbol| address.distance(symbol)) else {
                continue;
            };
            let start = operand.displacement.wrapping_add(distance);
            let last = start.wrapping_add(i64::from(operand.size) - 1);
            let (low, high) = (range.first.min(start), range.last.max(last));
            if high.wrapping_sub(low) < SPAN && high >= low {
                range.first = low;
                range.last = high;
                range.write |= operand.kind == AccessKind::Write;
            }
        }
    }
    range
}

fn is_checked(operand: &MemoryOperand) -> bool {
    operand.size != 0
        && operand.segment != Some(Segment::Gs)
        && !matches!(operand.shape, Shape::Tile { .. })
}

/// The symbolic address (without displacement) of each plain operand.
fn symbolic_operands(items: &[Item]) -> Vec<Vec<Option<Symbolic>>> {
    let mut values = Values::default();
    let mut all = Vec::with_capacity(items.len());
    for item in items {
        let symbols = item
            .operands
            .iter()
            .map(|operand| symbolic(&values, operand))
            .collect();
        all.push(symbols);
        values.execute(&item.decoded, item.uses.written);
    }
    all
}

fn symbolic(values: &Values, operand: &MemoryOperand) -> Option<Symbolic> {
    let regular =
        operand.shape == Shape::Plain && operand.segment.is_none() && !operand.address_size_32;
    if !regular
        || operand.base == iced_x86::Register::None && operand.index != iced_x86::Register::None
    {
        return None;
    }
    let base = wide_register(operand.base)?;
    let index = match operand.index {
        iced_x86::Register::None => None,
        register => Some((wide_register(register)?, operand.scale)),
    };
    values.address(Some(base), index)
}

/// Emits the poll at the start of a superblock: does another thread want an answer?
pub(crate) fn poll(translation: &mut Translation, item: &Item) {
    if !translation.tracer.checks_owners() {
        return;
    }
    with_flags(translation, item.flags_live, |translation| {
        let start = translation.builder.code.here();
        translation.builder.code.compare_slot_zero(offset::POLL);
        let field = jump_not_equal(translation);
        let end = translation.builder.code.here();
        let pc = item.pc;
        translation.slow_checks.push(SlowCheck {
            field,
            start,
            end,
            check: None,
            ordinal: 0,
            words: 0,
            pc,
            flags_live: false,
        });
    });
}

fn jump_not_equal(translation: &mut Translation) -> u64 {
    translation.builder.code.bytes(&[0x0f, 0x85]);
    let field = translation.builder.code.here();
    translation.builder.code.imm32(0);
    field
}

/// Emits the checks before an instruction.
pub(crate) fn check(translation: &mut Translation, item: &Item, checks: &[Check]) {
    if checks.is_empty() {
        return;
    }
    let ordinal = translation.superblock.instructions.len();
    with_flags(translation, item.flags_live, |translation| {
        for &check in checks {
            let start = translation.builder.code.here();
            if matches!(check.operand.shape, Shape::Plain) && fits(&check) {
                let (scratch, owner) = (translation.borrowed.scratch, translation.borrowed.owner);
                if let Some(word) = known_word(translation, &check) {
                    // cmp [word], owner (32 bits)
                    let code = &mut translation.builder.code;
                    code.bytes(&[
                        0x40 | (owner >> 3) << 2,
                        0x39,
                        0x04 | (owner & 7) << 3,
                        0x25,
                    ]);
                    code.imm32(word as i32);
                } else {
                    line_index(translation, &check, check.first);
                    compare_words(translation, 0x48, scratch, owner);
                }
                let field = jump_not_equal(translation);
                let end = translation.builder.code.here();
                translation.slow_checks.push(SlowCheck {
                    field,
                    start,
                    end,
                    check: Some(check),
                    ordinal,
                    words: translation.words,
                    pc: item.pc,
                    flags_live: translation.flags_loan.is_some(),
                });
            } else {
                // The extent is known only at run time: the engine looks at it.
                let flags_live = translation.flags_loan.is_some();
                let mut site = check.site(ordinal, translation.words, item.pc, flags_live);
                site.passed = start + LEAVE_SIZE;
                let detail = translation.tracer.add_check_site(site);
                translation.service(detail, item.pc);
                debug_assert_eq!(translation.builder.code.here(), site.passed);
            }
        }
    });
}

/// The address of the owner word of an access to one line at an address known now.
fn known_word(translation: &Translation, check: &Check) -> Option<u64> {
    let operand = &check.operand;
    let absolute = operand.base == iced_x86::Register::None
        && operand.index == iced_x86::Register::None
        && operand.segment.is_none()
        && !operand.address_size_32;
    let LineLayout { shift, mask } = translation.tracer.line_layout();
    let address = |relative: i64| operand.displacement.wrapping_add(relative) as u64;
    let (first, last) = (address(check.first) >> shift, address(check.last) >> shift);
    let line = mask.map_or(first, |mask| first & u64::from(mask));
    let word = OWNER_WORDS.wrapping_add(line.wrapping_mul(4));
    (absolute && first == last && word < 1 << 31).then_some(word)
}

fn fits(check: &Check) -> bool {
    let far =
        |relative: i64| i32::try_from(check.operand.displacement.wrapping_add(relative)).is_err();
    let absolute = check.operand.base == iced_x86::Register::None
        && check.operand.index == iced_x86::Register::None;
    check.last - check.first < SPAN && (absolute || !far(check.first) && !far(check.last))
}

impl Check {
    /// What the engine must know, except where the cache goes on.
    fn site(&self, ordinal: usize, words: usize, pc: u64, flags_live: bool) -> CheckSite {
        let Check {
            operand,
            first,
            last,
            write,
        } = *self;
        CheckSite {
            operand,
            first,
            last,
            write,
            ordinal,
            words,
            pc,
            passed: 0,
            flags_live,
        }
    }
}

/// Emits the number of the owner word of the byte at `relative` into the scratch register.
fn line_index(translation: &mut Translation, check: &Check, relative: i64) {
    let operand = MemoryOperand {
        displacement: check.operand.displacement.wrapping_add(relative),
        ..check.operand
    };
    effective_address(translation, &operand);
    let scratch = translation.borrowed.scratch;
    let LineLayout { shift, mask } = translation.tracer.line_layout();
    let code = &mut translation.builder.code;
    code.bytes(&[0x48 | scratch >> 3, 0xc1, 0xe8 | scratch & 7, shift]); // shr scratch, shift
    if let Some(mask) = mask {
        code.bytes(&[0x48 | scratch >> 3, 0x81, 0xe0 | scratch & 7]); // and scratch, mask
        code.imm32(mask as i32);
    }
}

/// `cmp [index * 4 + OWNER_WORDS], register` with the given REX.W.
fn compare_words(translation: &mut Translation, wide: u8, index: Gpr, register: Gpr) {
    owner_word(translation, 0x40 | wide, 0x39, index, register);
}

fn owner_word(translation: &mut Translation, rex: u8, opcode: u8, index: Gpr, register: Gpr) {
    let rex = rex | (register >> 3) << 2 | (index >> 3) << 1;
    let code = &mut translation.builder.code;
    code.bytes(&[
        rex,
        opcode,
        0x04 | (register & 7) << 3,
        0x85 | (index & 7) << 3,
    ]);
    code.imm32(OWNER_WORDS as i32);
}

/// Emits the slow parts of all checks, at the end of the fragment.
pub(crate) fn finish(translation: &mut Translation) {
    for slow in std::mem::take(&mut translation.slow_checks) {
        let here = translation.builder.code.here();
        translation
            .builder
            .code
            .patch32(slow.field, (here - (slow.field + 4)) as i32);
        let detail = match &slow.check {
            None => translation.tracer.poll_detail(),
            Some(check) => {
                look_closely(translation, check, slow.end);
                claim_untouched(translation, check, slow.start);
                let site = check.site(slow.ordinal, slow.words, slow.pc, slow.flags_live);
                translation.tracer.add_check_site(CheckSite {
                    passed: slow.end,
                    ..site
                })
            }
        };
        translation.service(detail, slow.pc);
        translation.builder.code.jump(slow.start);
    }
}

/// Emits the claim of lines that nobody has touched: most lines change hands only this once.
/// It jumps to `again` if it got one, or falls through.
fn claim_untouched(translation: &mut Translation, check: &Check, again: u64) {
    let (scratch, owner) = (translation.borrowed.scratch, translation.borrowed.owner);
    for (relative, is_last) in [(check.first, false), (check.last, true)] {
        if is_last && check.first == check.last {
            return;
        }
        line_index(translation, check, relative);
        let code = &mut translation.builder.code;
        code.store_slot(offset::spill(RAX_SPILL), gpr::RAX);
        code.bytes(&[0x31, 0xc0, 0xf0]); // xor eax, eax; lock
        // cmpxchg [scratch * 4 + OWNER_WORDS], owner (32 bits)
        let rex = 0x40 | (owner >> 3) << 2 | (scratch >> 3) << 1;
        code.bytes(&[
            rex,
            0x0f,
            0xb1,
            0x04 | (owner & 7) << 3,
            0x85 | (scratch & 7) << 3,
        ]);
        code.imm32(OWNER_WORDS as i32);
        code.load_slot(gpr::RAX, offset::spill(RAX_SPILL));
        code.jump_if(4, again); // je
    }
}

/// Emits the exact test of the first and the last byte's line; it jumps to `passed`, or
/// falls through where the engine is needed.
fn look_closely(translation: &mut Translation, check: &Check, passed: u64) {
    let (scratch, owner) = (translation.borrowed.scratch, translation.borrowed.owner);
    let mut failures = Vec::new();
    for (relative, is_last) in [(check.first, false), (check.last, true)] {
        if is_last && check.first == check.last {
            translation.builder.code.jump(passed);
            break;
        }
        // The inlined check left the first line's number in the scratch register, unless it
        // knew the word's address.
        if is_last || known_word(translation, check).is_some() {
            line_index(translation, check, relative);
        }
        // mov scratch (32 bits), [scratch * 4 + OWNER_WORDS]
        owner_word(translation, 0x40, 0x8b, scratch, scratch);
        // cmp scratch, owner (32 bits)
        let rex = 0x40 | (owner >> 3) << 2 | scratch >> 3;
        let modrm = 0xc0 | (owner & 7) << 3 | scratch & 7;
        translation.builder.code.bytes(&[rex, 0x39, modrm]);
        let mut next = None;
        if check.write {
            if is_last {
                translation.builder.code.jump_if(4, passed);
            } else {
                failures.push(jump_not_equal(translation));
            }
        } else {
            if is_last {
                translation.builder.code.jump_if(4, passed);
            } else {
                translation.builder.code.bytes(&[0x74, 0]); // je over the next test
                next = Some(translation.builder.code.here());
            }
            // cmp scratch, fs:[SHARED_SEEN] (32 bits)
            translation
                .builder
                .code
                .compare_register_slot(scratch, offset::SHARED_SEEN);
            if is_last {
                translation.builder.code.jump_if(3, passed); // jae
            } else {
                translation.builder.code.bytes(&[0x0f, 0x82]); // jb
                failures.push(translation.builder.code.here());
                translation.builder.code.imm32(0);
            }
        }
        if let Some(next) = next {
            let length = (translation.builder.code.here() - next) as u8;
            translation.builder.patch_byte(next - 1, length);
        }
    }
    let here = translation.builder.code.here();
    for field in failures {
        translation
            .builder
            .code
            .patch32(field, (here - (field + 4)) as i32);
    }
}
