//! Which checks stand before which instruction of a superblock.

use unspool_events::AccessKind;
use unspool_instructions::decode::{Kind, Segment};
use unspool_instructions::operands::{MemoryOperand, Shape};

use crate::inserted::addresses::{Symbolic, THREAD_POINTER, Values, wide_register};
use crate::inserted::check::Check;
use unspool_engine::translate::superblock::Item;

/// A range that an earlier check has covered.
struct Covered {
    address: Symbolic,
    first: i64,
    last: i64,
    write: bool,
}

/// Decides which checks stand before which instruction. A check spans `span` bytes at most,
/// unless one operand is longer. It holds until the end of the superblock, or to where that is
/// `is_disturbed`: before an instruction, by its number.
pub(crate) fn plan(
    items: &[Item],
    span: i64,
    is_disturbed: impl Fn(usize) -> bool,
) -> Vec<Vec<Check>> {
    let symbols = symbolic_operands(items, &is_disturbed);
    let mut covered: Vec<Covered> = Vec::new();
    let mut plan = Vec::with_capacity(items.len());
    for (index, item) in items.iter().enumerate() {
        let mut checks = Vec::new();
        if is_disturbed(index) {
            covered.clear();
        }
        let until = (index + 1..items.len()).find(|&later| is_disturbed(later));
        let until = until.unwrap_or(items.len());
        for (number, operand) in item.operands().iter().enumerate() {
            if !is_checked(operand) {
                continue;
            }
            let write = operand.kind == AccessKind::Write;
            let (first, last) = reach(operand).unwrap_or((0, i64::from(operand.size) - 1));
            let Some(address) = symbols[index][number] else {
                checks.push(Check {
                    operand: *operand,
                    first,
                    last,
                    write,
                    element: None,
                });
                continue;
            };
            let start = operand.displacement;
            let already = covered.iter().any(|range| {
                range.address.distance(address).is_some_and(|distance| {
                    let start = start.wrapping_add(distance);
                    range.first <= start + first
                        && start + last <= range.last
                        && (range.write || !write)
                })
            });
            if already {
                continue;
            }
            let mut range = Covered {
                address,
                first: start + first,
                last: start + last,
                write,
            };
            range.widen(&items[index..until], &symbols[index..until], span);
            checks.push(Check {
                operand: *operand,
                first: range.first - start,
                last: range.last - start,
                write: range.write,
                element: None,
            });
            covered.push(range);
        }
        plan.push(checks);
    }
    plan
}

impl Covered {
    /// Extends the range over later accesses near it. A line is not taken for a write that
    /// may not come.
    fn widen(&mut self, items: &[Item], symbols: &[Vec<Option<Symbolic>>], span: i64) {
        let mut certain = true;
        for (item, symbols) in items.iter().zip(symbols) {
            for (operand, symbol) in item.operands().iter().zip(symbols) {
                let distance = symbol.and_then(|symbol| self.address.distance(symbol));
                let (Some(distance), Some((first, last))) = (distance, reach(operand)) else {
                    continue;
                };
                let write = operand.kind == AccessKind::Write;
                if write && !self.write && !certain {
                    continue;
                }
                let start = operand.displacement.wrapping_add(distance);
                let low = self.first.min(start.wrapping_add(first));
                let high = self.last.max(start.wrapping_add(last));
                if high.wrapping_sub(low) < span && high >= low {
                    self.first = low;
                    self.last = high;
                    self.write |= write;
                }
            }
            certain &= !matches!(
                item.layout.kind,
                Kind::Jcc { .. } | Kind::JrcxzOrLoop { .. }
            );
        }
    }
}

fn is_checked(operand: &MemoryOperand) -> bool {
    let is_tile = matches!(operand.shape, Shape::Tile { .. });
    operand.size != 0 || is_tile
}

/// The first and last byte that an operand can reach, relative to its address; `None` if the
/// code does not tell. Masked elements count: their line is at worst owned for nothing.
pub(crate) fn reach(operand: &MemoryOperand) -> Option<(i64, i64)> {
    let size = i64::from(operand.size);
    match operand.shape {
        Shape::Plain | Shape::AnyOf { .. } => Some((0, size - 1)),
        Shape::Masked { count, .. } | Shape::Compressed { count, .. } => {
            Some((0, size * i64::from(count) - 1))
        }
        Shape::AlignedDown => Some((1 - size, size - 1)),
        Shape::Repeat { .. }
        | Shape::BitString { .. }
        | Shape::Indexed { .. }
        | Shape::Tile { .. } => None,
    }
}

/// The symbolic address (without displacement) of each operand whose reach is known.
fn symbolic_operands(
    items: &[Item],
    is_disturbed: impl Fn(usize) -> bool,
) -> Vec<Vec<Option<Symbolic>>> {
    let mut values = Values::default();
    let mut all = Vec::with_capacity(items.len());
    for (number, item) in items.iter().enumerate() {
        if is_disturbed(number) {
            values = Values::default();
        }
        let symbols = item
            .operands()
            .iter()
            .map(|operand| symbolic(&values, operand))
            .collect();
        all.push(symbols);
        values.execute(item.decoded(), item.uses().written);
    }
    all
}

fn symbolic(values: &Values, operand: &MemoryOperand) -> Option<Symbolic> {
    use iced_x86::Register;
    reach(operand)?;
    if operand.address_size_32 {
        return None;
    }
    match (operand.segment, operand.base, operand.index) {
        (Some(Segment::Fs), Register::None, Register::None) => {
            values.address(Some(THREAD_POINTER), None)
        }
        (Some(_), ..) | (None, Register::None, _) => None,
        (None, base, Register::None) => values.address(Some(wide_register(base)?), None),
        (None, base, index) => {
            let index = (wide_register(index)?, operand.scale);
            values.address(Some(wide_register(base)?), Some(index))
        }
    }
}
