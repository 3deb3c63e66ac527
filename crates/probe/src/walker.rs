//! What a walk needs: an unwinder, and what it has read of a stack.

use std::ops::Range;

use unspool_unwind::{Registers, Step, Unwinder};

use crate::mapped::Mapped;
use crate::readable;

/// Bytes of the stack that are read together: all of them can be read, or none.
const PAGE: usize = 4096;

/// An unwinder, the images that it has met, and what it has read of a stack. Too large for the
/// program's stack, of which little may be left.
pub(crate) struct Walker {
    unwinder: Unwinder,
    version: u64,
    stack: Stack,
}

impl Walker {
    pub(crate) fn new() -> Walker {
        Walker {
            unwinder: Unwinder::new(),
            version: u64::MAX,
            stack: Stack {
                page: None,
                bytes: [0; PAGE],
            },
        }
    }

    /// The calls above a frame that are not in `own`.
    pub(crate) fn walk(
        &mut self,
        mapped: &Mapped,
        mut frame: Registers,
        own: &Range<u64>,
        path: &mut [u64],
    ) -> usize {
        let Walker {
            unwinder,
            version,
            stack,
        } = self;
        if std::mem::replace(version, mapped.version) != mapped.version {
            unwinder.forget();
        }
        stack.page = None;
        let mut read = |address| stack.word(address);
        let mut count = 0;
        while count < path.len()
            && let Ok(Step::Caller(_)) = unwinder.step(mapped, &mut frame, &mut read)
        {
            if !own.contains(&frame.pc) {
                path[count] = frame.lookup_address();
                count += 1;
            }
        }
        count
    }
}

/// The page of the stack that was read last.
struct Stack {
    page: Option<u64>,
    bytes: [u8; PAGE],
}

impl Stack {
    fn word(&mut self, address: u64) -> Option<u64> {
        let page = address & !(PAGE as u64 - 1);
        let at = (address - page) as usize;
        if at + 8 > PAGE {
            let mut word = [0; 8];
            return (readable::copy(address, &mut word) == 8).then(|| u64::from_le_bytes(word));
        }
        if self.page != Some(page) {
            self.page = None;
            if readable::copy(page, &mut self.bytes) < PAGE {
                return None;
            }
            self.page = Some(page);
        }
        Some(u64::from_le_bytes(*self.bytes[at..].first_chunk()?))
    }
}
