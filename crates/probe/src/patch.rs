//! Changing an image: jumps at the entries of functions.

use std::cell::OnceCell;
use std::collections::HashMap;
use std::ops::Range;

use crate::branches::callers_may_rely;
use crate::code_bytes::{CodeBytes, JUMP};
use crate::code_memory::CodeMemory;
use crate::counter::Counter;
use crate::far_branches::FarBranches;
use crate::moved::survey;
use crate::near::NearCode;
use crate::passage::{self, EntryPoint, Hook, MOST_BYTES};
use crate::refusal::Refusal;

/// The most that displaced instructions take elsewhere, with what makes them mean the same.
const MOST_MOVED_BYTES: u64 = 160;

/// Changes of one image, which are made all at once, by [`Patch::apply`].
///
/// They are made before anything of the image runs: at the process's start, or when the dynamic
/// loader has just mapped a library. So no thread can be in the middle of what is changed.
#[derive(Debug)]
pub(crate) struct Patch<'a> {
    code: Vec<Code<'a>>,
    near: NearCode,
    changes: HashMap<u64, Change>,
}

/// A segment of the image.
#[derive(Debug)]
struct Code<'a> {
    bytes: CodeBytes<'a>,
    /// Looked for when the first function is changed.
    far: OnceCell<FarBranches<'a>>,
}

/// A jump at the entry of a function.
#[derive(Debug, Clone, Copy)]
struct Change {
    at: u64,
    length: usize,
    to: u64,
    original: u64,
    keeps_all: bool,
}

/// What was done to a function.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Done {
    pub(crate) length: usize,
    pub(crate) keeps_all: bool,
}

impl<'a> Patch<'a> {
    pub(crate) fn new(image: Range<u64>, code: Vec<CodeBytes<'a>>) -> Patch<'a> {
        let code = code.into_iter().map(|bytes| Code {
            bytes,
            far: OnceCell::new(),
        });
        Patch {
            code: code.collect(),
            near: NearCode::new(image),
            changes: HashMap::new(),
        }
    }

    /// Puts a function of the probe in the place of the one from `start` to `end`.
    pub(crate) fn hook(
        &mut self,
        start: u64,
        end: u64,
        entry: &EntryPoint,
        probe: *const (),
    ) -> Result<Done, Refusal> {
        let change = self.change(start, end)?;
        let at = self.near.next(MOST_BYTES)?;
        let hook = Hook::new(Hook {
            island: at,
            result: entry.result as u64,
            // Who comes later is around who came before.
            original: change.to,
            probe,
        });
        self.near.put(&passage::island(entry, hook));
        let mut to = at;
        if change.keeps_all {
            to = self.near.next(MOST_BYTES)?;
            self.near.put(&passage::keeping(hook)?);
        }
        Ok(self.lead(start, change, to))
    }

    /// Has calls of the function from `start` to `end` counted.
    pub(crate) fn count(
        &mut self,
        start: u64,
        end: u64,
        counter: &'static Counter,
    ) -> Result<Done, Refusal> {
        let change = self.change(start, end)?;
        let at = self.near.next(MOST_BYTES)?;
        let code = passage::counting(at, counter.address(), change.to);
        self.near.put(&code);
        let mut done = self.lead(start, change, at);
        done.keeps_all = true;
        Ok(done)
    }

    /// Where the jump of a function is to lead.
    fn lead(&mut self, start: u64, change: Change, to: u64) -> Done {
        self.changes.insert(start, Change { to, ..change });
        Done {
            length: change.length,
            keeps_all: change.keeps_all,
        }
    }

    /// The change of a function: the one that there is, or a new one that leads to what it
    /// displaces.
    fn change(&mut self, start: u64, end: u64) -> Result<Change, Refusal> {
        if let Some(change) = self.changes.get(&start) {
            return Ok(*change);
        }
        let mut code = self.code.iter();
        let code = code.find(|code| code.bytes.contains(start));
        let Code { bytes, far } = code.ok_or(Refusal::Outside)?;
        let far = far.get_or_init(|| FarBranches::new(*bytes));
        let entry = survey(*bytes, far, start, end)?;
        let keeps_all = callers_may_rely(*bytes, start);
        let original = self.near.next(MOST_MOVED_BYTES)?;
        let moved = entry.relocated(original)?;
        if moved.len() as u64 > MOST_MOVED_BYTES {
            return Err(Refusal::Bound("they take too many bytes".to_owned()));
        }
        self.near.put(&moved);
        Ok(Change {
            at: entry.at,
            length: entry.length,
            to: original,
            original,
            keeps_all,
        })
    }

    /// Makes the changes. Returns the functions that could not be changed after all.
    pub(crate) fn apply(self) -> Vec<(u64, Refusal)> {
        let Patch { near, changes, .. } = self;
        let changes = changes.into_iter();
        let mut changes = changes
            .filter(|(_, change)| change.to != change.original)
            .peekable();
        if changes.peek().is_none() {
            return Vec::new();
        }
        let memory = match near.finish().and_then(|()| CodeMemory::open()) {
            Ok(memory) => memory,
            Err(refusal) => return changes.map(|(start, _)| (start, refusal.clone())).collect(),
        };
        changes
            .filter_map(|(start, change)| Some((start, change.write(&memory).err()?)))
            .collect()
    }
}

impl Change {
    fn write(&self, memory: &CodeMemory) -> Result<(), Refusal> {
        let distance = self.to.wrapping_sub(self.at + JUMP as u64) as i64;
        let distance = i32::try_from(distance).map_err(|_| Refusal::NoRoom)?;
        let mut jump = vec![0xe9];
        jump.extend(distance.to_le_bytes());
        // What nobody comes to traps.
        jump.resize(self.length, 0xcc);
        // SAFETY: nothing of the image runs yet, and what was there is kept where `original` is.
        unsafe { memory.write(self.at, &jump) }
    }
}

#[cfg(test)]
#[path = "patch/tests.rs"]
mod tests;
