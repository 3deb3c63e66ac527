//! Whether two runs of a case did the same.

use iced_x86::{FlowControl, RflagsBits};

use crate::layout::{DATA_SIZE, Place};
use crate::place::decode;
use crate::record::{COMPLETED, CaseRecord, DIED, HUNG, NOT_RUN, Outcome, REFUSED, SIGNALLED};
use crate::ways::Way;

/// The trap number of a page fault.
const PAGE_FAULT: u64 = 14;

/// A part of how a case ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Part {
    /// Completed, ended by a signal, or not at all.
    Ending,
    /// The signal's number, code or address.
    Signal,
    /// What the processor said of the fault.
    Fault,
    /// The program counter at a signal.
    ProgramCounter,
    /// The general registers.
    Registers,
    /// The flags.
    Flags,
    /// The FS base.
    ThreadPointer,
    /// Vectors.
    Vectors,
    /// x87.
    X87,
    /// Memory.
    Data,
}

/// The status flags.
const STATUS_FLAGS: u64 = 0x8d5;
/// The trap number of an alignment check.
const ALIGNMENT_CHECK: u64 = 17;

/// What differs between a native run of a case and one observed in some way; empty if nothing
/// does. Not compared:
///
/// - Whether a page that a case has no business with is not there, or may not be accessed: what
///   else is mapped near 2 GiB is the observer's choice.
///
/// Where something is inserted, recording or a tool:
///
/// - Status flags at a fault, as far as the code from there on overwrites them before it reads
///   them: inserted arithmetic may use them there.
/// - What an alignment check ends that the program asked for by its flag: accesses of the
///   recording itself meet it too.
/// - Traps between the rounds of a repeated string instruction, which is recorded whole: the
///   trap comes behind it.
#[must_use]
pub fn observed_differences(
    native: &Outcome,
    observed: &Outcome,
    record: &CaseRecord,
    way: &Way,
) -> Vec<Part> {
    let mut observed = *observed;
    if meets_others(native, &observed) {
        (observed.signal[1], observed.fault[0]) = (native.signal[1], native.fault[0]);
    }
    if !way.instrumented || observed.status != SIGNALLED {
        return differences(native, &observed);
    }
    if observed.fault[1] == ALIGNMENT_CHECK || traps_inside_repetition(record, native) {
        return Vec::new();
    }
    let dead = dead_flags(record, native.pc);
    observed.flags = observed.flags & !dead | native.flags & dead;
    differences(native, &observed)
}

/// Whether both ended at the same address outside of all that cases are given, one where nothing
/// is and the other where it may not go.
fn meets_others(native: &Outcome, observed: &Outcome) -> bool {
    const SEGMENTATION_FAULT: u64 = 11;
    const PRESENT: u64 = 1;
    const REASONS: std::ops::RangeInclusive<u64> = 1..=2;
    let address = native.signal[2];
    let own = [Place::Near, Place::Far].into_iter().any(|place| {
        let end = place.data() + DATA_SIZE;
        (place.code()..end).contains(&address)
    });
    let faults = |outcome: &Outcome| {
        outcome.status == SIGNALLED
            && outcome.signal[0] == SEGMENTATION_FAULT
            && REASONS.contains(&outcome.signal[1])
    };
    !own && faults(native)
        && faults(observed)
        && (native.fault[0] ^ observed.fault[0]) & !PRESENT == 0
}

/// Whether the case trapped between two rounds of a repeated string instruction.
fn traps_inside_repetition(record: &CaseRecord, native: &Outcome) -> bool {
    const DEBUG_TRAP: u64 = 1;
    let start = native.pc.wrapping_sub(record.address);
    native.fault[1] == DEBUG_TRAP && start < record.length && {
        let (instruction, _) = decode(&record.code[start as usize..], native.pc);
        instruction.is_string_instruction()
            && (instruction.has_rep_prefix() || instruction.has_repne_prefix())
    }
}

/// The status flags that the code from `pc` on overwrites before it reads them, whichever way
/// its branches go.
fn dead_flags(record: &CaseRecord, pc: u64) -> u64 {
    dead_flags_from(record, pc, STATUS_FLAGS, MOST_BRANCHES)
}

/// Beyond so many branches one after the other, all flags count as read.
const MOST_BRANCHES: u32 = 8;

/// Those of `unknown` that are dead at `pc`.
fn dead_flags_from(record: &CaseRecord, pc: u64, mut unknown: u64, branches: u32) -> u64 {
    const BITS: [(u32, u64); 6] = [
        (RflagsBits::CF, 0x1),
        (RflagsBits::PF, 0x4),
        (RflagsBits::AF, 0x10),
        (RflagsBits::ZF, 0x40),
        (RflagsBits::SF, 0x80),
        (RflagsBits::OF, 0x800),
    ];
    let end = record.address + record.length;
    let mut dead = 0;
    let mut at = pc;
    while (record.address..end).contains(&at) && unknown != 0 {
        let start = (at - record.address) as usize;
        let (instruction, _) = decode(&record.code[start..record.length as usize], at);
        if instruction.is_invalid() {
            break;
        }
        for (bit, flag) in BITS {
            if instruction.rflags_read() & bit != 0 {
                unknown &= !flag;
            } else if instruction.rflags_modified() & bit != 0 && unknown & flag != 0 {
                dead |= flag;
                unknown &= !flag;
            }
        }
        let next = at + instruction.len() as u64;
        at = match instruction.flow_control() {
            FlowControl::Next => next,
            FlowControl::ConditionalBranch if branches != 0 => {
                let taken = instruction.near_branch_target();
                unknown = dead_flags_from(record, taken, unknown, branches - 1);
                next
            }
            _ => break,
        };
    }
    dead
}

/// What differs; empty if nothing does.
#[must_use]
pub fn differences(left: &Outcome, right: &Outcome) -> Vec<Part> {
    if right.status == REFUSED {
        // Said so, instead of doing something else.
        return Vec::new();
    }
    if left.status != right.status {
        return vec![Part::Ending];
    }
    if matches!(left.status, NOT_RUN | HUNG | DIED) {
        return Vec::new();
    }
    let mut parts = Vec::new();
    if left.status == SIGNALLED {
        if left.signal != right.signal {
            parts.push(Part::Signal);
        }
        // CR2 is that of the last page fault, whoever had it.
        let counted = if left.fault[1] == PAGE_FAULT { 3 } else { 2 };
        if left.fault[..counted] != right.fault[..counted] {
            parts.push(Part::Fault);
        }
        if left.pc != right.pc {
            parts.push(Part::ProgramCounter);
        }
    }
    let mut compare = |part, left: u64, right: u64| {
        if left != right {
            parts.push(part);
        }
    };
    compare(Part::Registers, left.registers, right.registers);
    compare(Part::Flags, left.flags, right.flags);
    compare(
        Part::ThreadPointer,
        left.thread_pointer,
        right.thread_pointer,
    );
    compare(Part::Vectors, left.vectors, right.vectors);
    compare(Part::X87, left.x87, right.x87);
    compare(Part::Data, left.data, right.data);
    parts
}

/// Whether the case can be compared with what others do: it ended.
#[must_use]
pub fn ended(outcome: &Outcome) -> bool {
    matches!(outcome.status, COMPLETED | SIGNALLED)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::case::Case;
    use crate::place::place;

    const ZERO: u64 = 0x40;

    fn dead(case: &str) -> u64 {
        let record = place(&Case::parse(case).unwrap(), 0);
        dead_flags(&record, record.address)
    }

    #[test]
    fn a_flag_is_dead_if_both_ways_overwrite_it() {
        // btc, which leaves ZF alone; jnc over an or; cmp.
        let both = dead("near 66450fbb15571d0008 7308 664608ba6e010000 6638d9; flags=a42");
        assert_eq!(both & ZERO, ZERO);
        // The same, but the branch goes to behind the case.
        let one = dead("near 66450fbb15571d0008 730b 664608ba6e010000 6638d9; flags=a42");
        assert_eq!(one & ZERO, 0);
        // The same, but where it goes sete reads the flag.
        let read = dead("near 66450fbb15571d0008 7308 664608ba6e010000 0f94c0; flags=a42");
        assert_eq!(read & ZERO, 0);
    }

    #[test]
    fn a_loop_without_end_keeps_flags_alive() {
        assert_eq!(dead("near 90 73fd; flags=a42") & ZERO, 0);
    }
}
