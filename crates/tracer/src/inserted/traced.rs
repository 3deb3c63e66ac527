//! What the tracer inserts.
//!
//! A record's header is written at the exit, because only there is it known which path was
//! taken. Nothing inserted changes the flags, except ownership checks, which go where the
//! flags are dead or save them.

use unspool_code_cache::binding::RegisterBinding;
use unspool_code_cache::cache::FragmentId;
use unspool_events::PathId;
use unspool_events::raw::path_header;
use unspool_events::superblock::{AccessingInstruction, Path};
use unspool_instructions::decode::Kind;
use unspool_instructions::operands::is_non_temporal;

use super::addresses::Values;
use super::translation::{Recorder, SidePath, Translation};
use super::{checks, record};
use crate::fragments::FragmentTrace;
use unspool_engine::translate::insertion::append::{self, BufferEntry};
use unspool_engine::translate::insertion::{Inserter, PathEnd};
use unspool_engine::translate::superblock::{Item, Limits, SuperblockEnd};
use unspool_engine::translate::walk::Walk;

impl Inserter for Recorder {
    fn limits(&self) -> &dyn Limits {
        &self.parts
    }

    fn begin(&mut self, walk: &Walk, items: &[Item]) {
        self.progress.reserve(items.len() + 1);
        self.checks = match self.parts.ownership.is_checking() {
            true => {
                let span = checks::span(self.parts.ownership.layout());
                checks::plan(items, span, |number| walk.is_disturbed(number))
            }
            false => vec![Vec::new(); items.len()],
        };
    }

    fn at_entry(&mut self, walk: &mut Walk) -> bool {
        // Others may have something in it.
        if let Some(binding) = walk.binding.filter(|_| walk.is_alone()) {
            walk.borrowed.lend_scratch(binding.scratch());
        }
        self.parts.hook(walk, self.superblock.pc)
    }

    fn before(&mut self, walk: &mut Walk, item: &Item) {
        let number = walk.number;
        if walk.is_disturbed(number) {
            self.values = Values::default();
        }
        if !walk.is_alone() {
            // Where the engine takes over from a check, it knows of no registers of others.
            walk.give_back(u16::MAX);
        }
        let mut translation = self.with(walk);
        translation.note_progress();
        if number == 0 {
            checks::poll(&mut translation, item);
        }
        if item.left_out {
            return;
        }
        let checks = std::mem::take(&mut translation.recorder.checks[number]);
        checks::check(&mut translation, item, &checks);
        translation.record(item);
        translation.borrowed.settle(translation.builder, item);
        if translation.parts.has_chunks(item) {
            checks::chunks::begin(&mut translation);
        }
    }

    fn copied(&mut self, walk: &mut Walk, item: &Item) {
        let mut translation = self.with(walk);
        let in_chunks = translation.parts.has_chunks(item);
        record::note_repetition(&mut translation, item, in_chunks);
        if in_chunks {
            checks::chunks::end(&mut translation, item);
        }
        record::after(&mut translation, item);
    }

    fn after(&mut self, _walk: &mut Walk, item: &Item, _flags_live: bool) {
        if !item.left_out {
            let written = item.uses().written;
            self.values.execute(item.decoded(), written);
        }
    }

    fn side_exit(&mut self, walk: &mut Walk, _item: &Item) -> bool {
        let branch = walk.number;
        let path = self.end_path(branch + 1);
        let words = self.words;
        self.side_paths.push(SidePath {
            branch,
            path,
            words,
        });
        true
    }

    fn aside(&mut self, walk: &mut Walk, _item: &Item, _target: u64) {
        let number = walk.number;
        let mut paths = self.side_paths.iter();
        let path = paths.find(|path| path.branch == number);
        let &SidePath { path, words, .. } = path.expect("each way out was told");
        self.with(walk).close_record(path, words);
    }

    fn at_end(&mut self, walk: &mut Walk, _items: &[Item], _end: &SuperblockEnd) {
        let mut translation = self.with(walk);
        translation.note_progress();
    }

    fn close(&mut self, walk: &mut Walk, executed: usize, end: PathEnd) -> bool {
        if end == PathEnd::ReturnTaken {
            return false;
        }
        let path = self.end_path(executed);
        let words = self.words;
        self.with(walk).close_record(path, words);
        if !matches!(end, PathEnd::Exit(_)) {
            self.closed = walk.builder.code.here();
        }
        false
    }

    fn finish(&mut self, walk: &mut Walk, _items: &[Item]) {
        checks::finish(&mut self.with(walk));
    }

    fn keep(&mut self, binding: Option<RegisterBinding>, fragment: FragmentId) {
        let binding = binding.expect("a record needs registers");
        self.parts.recording.define(&self.superblock);
        let kept = FragmentTrace {
            first_path: self.superblock.first_path,
            binding,
            progress: std::mem::take(&mut self.progress),
            repetitions: std::mem::take(&mut self.repetitions),
            closed: self.closed,
        };
        self.parts.fragments.records.keep(fragment, kept);
    }
}

impl Recorder {
    fn note_progress(&mut self) {
        let accessing = self.superblock.instructions.len();
        self.progress.push((self.words as u8, accessing as u8));
    }

    /// Notes a path that ends behind so many instructions.
    fn end_path(&mut self, executed: usize) -> usize {
        let path = Path {
            accessing: self.superblock.instructions.len() as u16,
            executed: executed as u16,
            words: self.words as u8,
        };
        self.superblock.paths.push(path);
        self.superblock.paths.len() - 1
    }
}

impl Translation<'_> {
    /// Writes the header of a path's record and moves on behind it.
    fn close_record(&mut self, path: usize, words: usize) {
        let id = PathId(self.superblock.first_path.0 + path as u32);
        let header = path_header(id, words);
        let code = &mut self.builder.code;
        BufferEntry::bound(self.binding, 0).store_constant(code, 0, header as i32 as u64, 8);
        append::advance_bound(code, self.binding, 8 * (words as u32 + 1));
    }

    /// Records what the instruction accesses, and what it asks of the caches.
    fn record(&mut self, item: &Item) {
        let fetched = self.parts.recording.records_instructions();
        let control = item.cache_control();
        if item.operands().is_empty() && control.is_none() && !fetched {
            return;
        }
        let mut described = AccessingInstruction {
            pc: item.pc,
            atomic: item.facts().atomic,
            non_temporal: is_non_temporal(item.decoded()),
            calls_or_returns: matches!(
                item.layout.kind,
                Kind::CallDirect | Kind::CallIndirect | Kind::Return { .. }
            ),
            fetched: fetched.then_some(item.layout.length),
            cache_control: control.map(|control| record::cache_control(self, control)),
            ..AccessingInstruction::default()
        };
        if !item.operands().is_empty() {
            record::before(self, item, &mut described);
        }
        self.superblock.instructions.push(described);
    }
}
