//! Which program instruction each stretch of a fragment's code translates.
//!
//! Kept for every fragment and read seldom (faults, signals, invalidation), so it is packed:
//! the length of the prologue, then for each instruction its length in the program and that
//! of its translation, then 0. A length of 255 or more takes three bytes.

use super::NewFragment;
use super::table::Table;

/// The PC maps of all fragments.
#[derive(Debug, Default)]
pub(super) struct PcMap {
    bytes: Table<u8>,
}

/// An instruction of a fragment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct PcStep {
    /// Its number in the fragment.
    pub(super) number: u32,
    /// Its program address.
    pub(super) pc: u64,
    /// Its length in the program.
    pub(super) length: u8,
    /// Where its translation is: the offset in the fragment.
    pub(super) start: u32,
    /// Where its translation ends.
    pub(super) end: u32,
}

impl PcMap {
    /// Adds those of a new fragment. Returns where they are.
    pub(super) fn push(&mut self, new_fragment: &NewFragment) -> u32 {
        let at = self.bytes.len() as u32;
        self.push_length(new_fragment.prologue);
        for &(program, cache) in &new_fragment.pc_map {
            self.bytes.push(program);
            self.push_length(cache);
        }
        self.bytes.push(0);
        at
    }

    fn push_length(&mut self, length: u32) {
        match u8::try_from(length) {
            Ok(byte) if byte < 255 => self.bytes.push(byte),
            _ => {
                let wide =
                    u16::try_from(length).expect("an instruction's translation is below 64 KiB");
                self.bytes.push(255);
                self.bytes.extend(&wide.to_le_bytes());
            }
        }
    }

    /// The instructions of a fragment whose boundaries are at `at`, in order. The first one is
    /// at `pc`; each in `turns` does not follow the one before it.
    pub(super) fn steps<'a>(&'a self, at: u32, pc: u64, turns: &'a [(u32, u64)]) -> PcSteps<'a> {
        let mut bytes = self.bytes.from(at as usize);
        let end = read_length(&mut bytes);
        PcSteps {
            bytes,
            turns,
            number: 0,
            pc,
            end,
        }
    }

    /// All of them, to be kept.
    pub(super) fn bytes(&self) -> &Table<u8> {
        &self.bytes
    }

    /// Those that were kept.
    pub(super) fn kept(bytes: &'static mut [u8]) -> PcMap {
        PcMap {
            bytes: Table::kept(bytes),
        }
    }

    /// Forgets all.
    pub(super) fn clear(&mut self) {
        self.bytes.clear();
    }
}

/// See [`PcMap::steps`].
#[derive(Debug, Clone)]
pub(super) struct PcSteps<'a> {
    bytes: &'a [u8],
    turns: &'a [(u32, u64)],
    number: u32,
    pc: u64,
    end: u32,
}

impl Iterator for PcSteps<'_> {
    type Item = PcStep;

    fn next(&mut self) -> Option<PcStep> {
        let (&length, rest) = self.bytes.split_first()?;
        if length == 0 {
            self.bytes = &[];
            return None;
        }
        self.bytes = rest;
        if let Some((&(_, to), rest)) = self
            .turns
            .split_first()
            .filter(|&(&(turning, _), _)| turning == self.number)
        {
            self.pc = to;
            self.turns = rest;
        }
        let start = self.end;
        self.end += read_length(&mut self.bytes);
        let step = PcStep {
            number: self.number,
            pc: self.pc,
            length,
            start,
            end: self.end,
        };
        self.number += 1;
        self.pc += u64::from(length);
        Some(step)
    }
}

fn read_length(bytes: &mut &[u8]) -> u32 {
    match *bytes {
        [255, low, high, rest @ ..] => {
            *bytes = rest;
            u32::from(u16::from_le_bytes([*low, *high]))
        }
        [length, rest @ ..] => {
            *bytes = rest;
            u32::from(*length)
        }
        [] => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_come_back_as_they_were_pushed() {
        let mut pc_map = PcMap::default();
        pc_map.push(&NewFragment::default());
        let turns = vec![(2, 0x9000)];
        let new_fragment = NewFragment {
            prologue: 255,
            pc_map: vec![(3, 0), (15, 254), (1, 60_000)],
            turns: turns.clone(),
            ..NewFragment::default()
        };
        let at = pc_map.push(&new_fragment);
        let steps: Vec<_> = pc_map
            .steps(at, 0x1000, &turns)
            .map(|step| (step.number, step.pc, step.length, step.start, step.end))
            .collect();
        assert_eq!(
            steps,
            [
                (0, 0x1000, 3, 255, 255),
                (1, 0x1003, 15, 255, 509),
                (2, 0x9000, 1, 509, 60_509)
            ]
        );
    }
}
