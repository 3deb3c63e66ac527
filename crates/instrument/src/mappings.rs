//! What is mapped where: what the program's system calls have changed, and what has grown.

use std::collections::BTreeMap;
use std::ops::Range;

use unspool_engine::call::{Call, succeeded};
use unspool_engine::process::Process;
use unspool_kernel::lock::Mutex;
use unspool_kernel::regions::Regions;

use super::growth::Growth;

const PAGE: u64 = 4096;

/// Memory of the program that is mapped.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Mapping {
    /// Where.
    pub range: Range<u64>,
    /// Whether the program may read it.
    pub readable: bool,
    /// Whether it may write it.
    pub writable: bool,
    /// Whether it may execute it.
    pub executable: bool,
}

impl Mapping {
    fn new(range: Range<u64>, protection: i32) -> Mapping {
        Mapping {
            range,
            readable: protection & libc::PROT_READ != 0,
            writable: protection & libc::PROT_WRITE != 0,
            executable: protection & libc::PROT_EXEC != 0,
        }
    }
}

/// What is mapped in a range has changed.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct MappingChange {
    /// The range: whole pages.
    pub range: Range<u64>,
    /// What is mapped in it now, in order; the rest of it is not.
    pub mapped: Vec<Mapping>,
    /// By what it has changed.
    pub cause: MappingCause,
}

/// By what it has changed what is mapped.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum MappingCause {
    /// The program starts with it.
    Start,
    /// By a system call of the thread that is told, which is over next.
    SystemCall,
    /// The kernel has let a stack grow, or another mapping that grows downwards (`MAP_GROWSDOWN`),
    /// because memory below it was touched. All of the range is mapped now.
    Growth,
}

impl MappingChange {
    /// What is mapped in a range that has changed; `None` if that is empty.
    pub(crate) fn of(
        process: &Process,
        range: Range<u64>,
        cause: MappingCause,
    ) -> Option<MappingChange> {
        let mapped = mapped(&process.code().regions, range.clone());
        (!range.is_empty()).then_some(MappingChange {
            range,
            mapped,
            cause,
        })
    }

    /// That something has grown.
    pub(crate) fn growth(growth: &Growth) -> MappingChange {
        let range = growth.range.clone();
        MappingChange {
            mapped: vec![Mapping::new(range.clone(), growth.protection)],
            range,
            cause: MappingCause::Growth,
        }
    }
}

/// What calls say the beginning of only.
#[derive(Debug, Default)]
pub(crate) struct Mappings {
    /// Ends of shared memory of System V, by their starts.
    attached: Mutex<BTreeMap<u64, u64>>,
    /// The end of the pages below the program break.
    break_end: Mutex<Option<u64>>,
}

/// The pages that bytes touch.
fn whole_pages(start: u64, size: u64) -> Range<u64> {
    let end = start.saturating_add(size);
    start & !(PAGE - 1)..end.checked_next_multiple_of(PAGE).unwrap_or(u64::MAX)
}

fn mapped(regions: &Regions, range: Range<u64>) -> Vec<Mapping> {
    let all = regions.mapped(range);
    all.map(|(range, region)| Mapping::new(range, region.protection))
        .collect()
}

/// Whether a call may change what is mapped below the lowest address of something that grows, or how.
pub(crate) fn may_change(call: &Call) -> bool {
    matches!(
        call.number as i64,
        libc::SYS_mmap
            | libc::SYS_munmap
            | libc::SYS_mprotect
            | libc::SYS_pkey_mprotect
            | libc::SYS_mremap
            | libc::SYS_shmat
    )
}

impl Mappings {
    /// Where what is mapped may have changed by a call.
    pub(crate) fn changed(&self, process: &Process, call: &Call, result: i64) -> [Range<u64>; 2] {
        let [first, second, third, ..] = call.arguments;
        let number = call.number as i64;
        let nowhere = 0..0;
        if number == libc::SYS_brk {
            return [self.break_moved(process, result as u64), nowhere];
        }
        if !succeeded(result) {
            return [nowhere.clone(), nowhere];
        }
        let result = result as u64;
        match number {
            libc::SYS_mmap => [whole_pages(result, second), nowhere],
            libc::SYS_munmap | libc::SYS_mprotect | libc::SYS_pkey_mprotect => {
                [whole_pages(first, second), nowhere]
            }
            libc::SYS_mremap => [whole_pages(first, second), whole_pages(result, third)],
            libc::SYS_shmat => [self.attached(process, result), nowhere],
            libc::SYS_shmdt => [self.detached(first), nowhere],
            _ => [nowhere.clone(), nowhere],
        }
    }

    /// The break is at an address now. Returns the pages between where it was and there.
    fn break_moved(&self, process: &Process, to: u64) -> Range<u64> {
        let start = process.program_break.lock().0;
        let mut end = self.break_end.lock();
        let old = end.unwrap_or(start.next_multiple_of(PAGE));
        let new = to.next_multiple_of(PAGE);
        *end = Some(new);
        old.min(new)..old.max(new)
    }

    fn attached(&self, process: &Process, start: u64) -> Range<u64> {
        let found = process.code().regions.find(start);
        let end = found.map_or(start, |(_, region)| region.end);
        self.attached.lock().insert(start, end);
        start..end
    }

    fn detached(&self, start: u64) -> Range<u64> {
        let end = self.attached.lock().remove(&start);
        start..end.unwrap_or(start)
    }
}
