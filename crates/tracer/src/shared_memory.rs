//! Which memory a shared mapping shows: addresses alone do not tell that two mappings are one
//! memory.

use unspool_events::{Event, Mapping};
use unspool_kernel::regions::Region;

use unspool_engine::call::{Call, succeeded};
use unspool_engine::process::{Process, Translations};

/// What a system call has mapped that others may show as well.
pub(crate) fn mapped(process: &Process, call: &Call, result: i64) -> Option<Event> {
    let maps = match call.number as i64 {
        libc::SYS_mmap => is_memory(call),
        number => [libc::SYS_mremap, libc::SYS_shmat].contains(&number),
    };
    if !(succeeded(result) && maps) {
        return None;
    }
    let code = process.code();
    let (start, region) = code.regions.find(result as u64)?;
    event(&code, start, &region)
}

/// Whether what is mapped is a plain file, or memory without one. A device may give other memory
/// to each who asks.
fn is_memory(call: &Call) -> bool {
    let [_, _, _, flags, file, _] = call.arguments;
    // SAFETY: all fields are integers.
    let mut facts: libc::stat = unsafe { std::mem::zeroed() };
    flags & libc::MAP_ANONYMOUS as u64 != 0
        // SAFETY: there is room for the answer; a descriptor that is closed has none.
        || unsafe { libc::fstat(file as i32, &raw mut facts) } == 0
            && facts.st_mode & libc::S_IFMT == libc::S_IFREG
}

fn event(code: &Translations, start: u64, region: &Region) -> Option<Event> {
    let view = region.view.filter(|view| view.shared)?;
    Some(Event::Mapping(Mapping::Shared {
        address: start,
        size: region.end - start,
        device: view.object.device,
        inode: view.object.inode,
        offset: view.offset,
        own: code.lending.is_own(view.object) && !code.regions.changes_from_outside(region),
    }))
}

/// A forked child has the shared mappings of its parent.
pub(crate) fn inherited(process: &Process) -> Vec<Event> {
    let code = process.code();
    let views = code.regions.shared_views();
    let events = views.filter_map(|(start, region, _)| event(&code, start, region));
    let as_foreign = |mut event| {
        if let Event::Mapping(Mapping::Shared { own, .. }) = &mut event {
            *own = false;
        }
        event
    };
    events.map(as_foreign).collect()
}
