//! Cases that cannot be compared, by how they ended natively.

use iced_x86::FlowControl;

use crate::layout::{DATA_SIZE, Place};
use crate::place::{decode, with_way_out};
use crate::record::{CaseRecord, Outcome, SIGNALLED};

/// Whether the case accessed memory that is nobody's natively, but the engine's (or that of
/// the program's own image, which lies elsewhere) when observed. The engine does not guard
/// what it occupies.
pub(crate) fn is_foreign(outcome: &Outcome) -> bool {
    const PAGE_FAULT: u64 = 14;
    const LOWEST: u64 = 0x1_0000;
    const HIGHEST: u64 = 0x1000_0000_0000;
    // Where the observed program's own image and libraries may be: code to run into.
    const IMAGES: std::ops::Range<u64> = 0x1000_0000..0x7000_0000;
    let address = outcome.fault[2];
    let is_own = [Place::Near, Place::Far].into_iter().any(|place| {
        (place.data() - 0x1_0000..place.data() + DATA_SIZE + 0x1_0000).contains(&address)
    });
    if outcome.status != SIGNALLED {
        return false;
    }
    outcome.fault[1] == PAGE_FAULT
        && (LOWEST..HIGHEST).contains(&address)
        && (address != outcome.pc || IMAGES.contains(&address))
        && !is_own
}

/// Whether the case ended at a branch to an address that no address can be. The processor
/// refuses the branch; the engine, which notices at the target, reports the fault there.
pub(crate) fn branches_nowhere(record: &CaseRecord, outcome: &Outcome) -> bool {
    const PROTECTION_FAULT: u64 = 13;
    let code = with_way_out(record);
    let start = outcome.pc.checked_sub(record.address);
    let Some(code) = start.and_then(|start| code.get(start as usize..)) else {
        return false;
    };
    let (instruction, _) = decode(code, outcome.pc);
    outcome.status == SIGNALLED
        && outcome.fault[1] == PROTECTION_FAULT
        && matches!(
            instruction.flow_control(),
            FlowControl::IndirectBranch | FlowControl::IndirectCall | FlowControl::Return
        )
}
