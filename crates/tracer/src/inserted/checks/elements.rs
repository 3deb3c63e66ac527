//! Checks of gathers and scatters: one for each element that the mask enables.

use iced_x86::Register;
use unspool_code_cache::address::CacheAddress;
use unspool_code_cache::emit::{Address, Gpr};
use unspool_instructions::operands::{ElementMask, MemoryOperand, Shape};

use super::exact::look_closely;
use super::{jump_not_equal, owner_word, push_slow_check};
use crate::inserted::check::{Check, Comparison};
use crate::inserted::elements::keep_elements;
use crate::inserted::translation::Translation;
use crate::slots::offset as trace_offset;
use unspool_engine::translate::insertion::detour::Jumps;
use unspool_engine::translate::superblock::Item;

/// Whether emitted code can check an operand's elements one by one.
pub(super) fn fits(operand: &MemoryOperand) -> bool {
    let indexed = matches!(operand.shape, Shape::Indexed { .. });
    let near = |relative: i64| i32::try_from(operand.displacement.wrapping_add(relative)).is_ok();
    indexed
        && operand.segment.is_none()
        && !operand.address_size_32
        && near(0)
        && near(i64::from(operand.size))
}

/// Emits the comparisons of all elements.
pub(super) fn compare_all(translation: &mut Translation, item: &Item, check: Check) {
    let Shape::Indexed {
        index, count, mask, ..
    } = check.operand.shape
    else {
        return;
    };
    keep_elements(translation, index, mask);
    let start = translation.builder.code.here();
    let mut comparisons = Vec::with_capacity(usize::from(count));
    for element in 0..count {
        let skip = (mask != ElementMask::All).then(|| jump_if_masked(translation, element));
        let check = Check {
            element: Some(element),
            ..check
        };
        let owner = translation.owner();
        let word = owner_word(translation, &check, check.first);
        translation.builder.code.compare_at(word.at(0), owner, 8);
        let field = jump_not_equal(translation);
        let passed = translation.builder.code.here();
        if let Some(skip) = skip {
            let length = passed.bytes_since(skip) as u8;
            translation.builder.patch_byte(skip.before(), length);
        }
        comparisons.push(Comparison {
            element,
            field,
            passed,
        });
    }
    push_slow_check(translation, item, check, start, Jumps::new(), comparisons);
}

/// Emits a short jump that is taken if the mask leaves an element out. Returns what follows it.
fn jump_if_masked(translation: &mut Translation, element: u8) -> CacheAddress {
    let code = &mut translation.builder.code;
    let slot = trace_offset::ELEMENT_MASK + i32::from(element / 8);
    code.on_slot(&[0xf6], 0, slot); // test byte
    code.bytes(&[1 << (element % 8), 0x74, 0]); // je
    code.here()
}

/// Emits the computation of an element's address into the scratch register.
pub(super) fn address(translation: &mut Translation, operand: &MemoryOperand, element: u8) {
    let Shape::Indexed { index_size, .. } = operand.shape else {
        return;
    };
    let scratch = translation.binding.scratch();
    let code = &mut translation.builder.code;
    let slot = trace_offset::ELEMENTS + i32::from(element) * i32::from(index_size);
    match index_size {
        4 => code.load_slot_signed(scratch, slot),
        _ => code.load_slot(scratch, slot),
    }
    let base = operand.base;
    let sum = Address {
        base: (base != Register::None).then(|| base.full_register().number() as Gpr),
        index: Some((scratch, operand.scale)),
        displacement: operand.displacement as i32,
    };
    code.lea_address(scratch, sum, false);
}

/// Emits the slow parts of all elements. It falls through where the engine is needed.
pub(super) fn look_closely_at_all(
    translation: &mut Translation,
    check: &Check,
    comparisons: &[Comparison],
) {
    let mut failures = Vec::with_capacity(comparisons.len());
    for comparison in comparisons {
        translation.builder.code.land(comparison.field);
        let check = Check {
            element: Some(comparison.element),
            ..*check
        };
        look_closely(translation, &check, comparison.passed);
        failures.push(translation.builder.code.jump_forward());
    }
    for field in failures {
        translation.builder.code.land(field);
    }
}
