//! The memory of the owner words.
//!
//! It is reserved for all lines that there can be, and becomes accessible chunk by chunk when a
//! check or the engine first looks at a word: by a fault (`inserted` knows what those mean). The program's own
//! accesses do not open it: a wild pointer that leads there faults as it would natively.

use std::ops::Range;

use unspool_kernel::layout;
use unspool_kernel::lock::OnceLock;

/// Bytes that become accessible at once: the words of 32 MiB, where lines have 64 bytes.
const CHUNK: u64 = 2 << 20;
/// The same for lines of code and static data, whose words lie where truncated pointers lead.
const LOW_PIECE: u64 = 64 << 10;

static RESERVED: OnceLock<Vec<Range<u64>>> = OnceLock::new();

/// Reserves the words in these ranges. Called once.
pub(super) fn reserve(ranges: Vec<Range<u64>>) -> std::io::Result<()> {
    for range in &ranges {
        layout::map_own(range.start, range.end - range.start, libc::PROT_NONE)?;
    }
    let _ = RESERVED.set(ranges);
    Ok(())
}

/// Whether there are owner words at all.
pub(crate) fn are_reserved() -> bool {
    RESERVED.get().is_some()
}

/// Whether an address is that of an owner word.
pub(crate) fn is_word(address: u64) -> bool {
    range_of(address).is_some()
}

fn range_of(address: u64) -> Option<&'static Range<u64>> {
    RESERVED
        .get()?
        .iter()
        .find(|range| range.contains(&address))
}

/// All words become 0. False: the kernel does not do that.
pub(super) fn forget() -> bool {
    let all = RESERVED.get().map_or(&[][..], Vec::as_slice);
    all.iter().all(|range| layout::discard(range.clone()))
}

/// Opens the chunk of words at an address. Called in signal handlers.
///
/// Each may make two more mappings, of which the kernel allows 65,530: where it allows no more, the
/// whole range becomes one. Wild pointers that lead there do not fault then.
pub(crate) fn open(address: u64) {
    let Some(range) = range_of(address) else {
        return;
    };
    let chunk = piece_of(range, address);
    let opened = layout::open(chunk.start, chunk.end - chunk.start)
        .or_else(|_| layout::open(range.start, range.end - range.start));
    if let Err(error) = opened {
        unspool_kernel::diagnostics::fatal(&format!(
            "no memory for the owners of cache lines, which line-atomic order needs: {error}"
        ));
    }
}

fn piece_of(range: &Range<u64>, address: u64) -> Range<u64> {
    let size = match address < layout::BRANCH_TABLE {
        true => LOW_PIECE,
        false => CHUNK,
    };
    let start = address & !(size - 1);
    start.max(range.start)..(start + size).min(range.end)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_stay_inside() {
        let low = 0x7000_0000..0x7500_0000;
        let high = 0x2_f510_0000..0x2_f591_0000;
        let cases = [
            (&low, 0x7000_0040, 0x7000_0000..0x7001_0000),
            (&low, 0x74ff_ffff, 0x74ff_0000..0x7500_0000),
            (&high, 0x2_f510_0000, 0x2_f510_0000..0x2_f520_0000),
            (&high, 0x2_f53f_ffff, 0x2_f520_0000..0x2_f540_0000),
            (&high, 0x2_f590_ffff, 0x2_f580_0000..0x2_f591_0000),
        ];
        for (range, address, expected) in cases {
            assert_eq!(piece_of(range, address), expected, "{address:#x}");
        }
    }
}
