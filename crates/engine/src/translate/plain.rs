//! Translation without instrumentation.
//!
//! A fragment runs on behind conditional branches and, in code that cannot change by
//! itself, behind direct calls, so that likely continuations are found translated and lie
//! next to each other. Every basic block begins with all program state in place, so each
//! is an entry of its own and no block need be translated twice.

use unspool_code_cache::address::CacheAddress;
use unspool_code_cache::cache::{Cache, CacheFull, Exit};
use unspool_code_cache::exit::ExitKind;
use unspool_instructions::decode::Kind;

use super::Source;
use super::copy::Builder;
use super::insertion::walk::Walk;
use super::item::Item;
use super::live_flags::Lookahead;
use super::reader::CodeReader;
use super::superblock::MARKER;

/// Instructions after which a fragment ends at the next block boundary.
const SOFT_LIMIT: usize = 96;
/// Instructions after which a fragment ends anywhere.
const HARD_LIMIT: usize = 256;

/// What follows an instruction.
enum Next {
    /// The next instruction, in the same basic block.
    Instruction,
    /// A new basic block, whose target stub has been emitted if it has one.
    Block { target_stub: Option<CacheAddress> },
    /// Nothing.
    End,
}

/// Translates the code at `pc` and makes it part of the cache. With `by_indirect_branch` an
/// indirect branch has just come there.
///
/// # Errors
/// If the cache is full.
pub(crate) fn translate(
    cache: &mut Cache,
    source: &Source,
    pc: u64,
    by_indirect_branch: bool,
) -> Result<(), CacheFull> {
    let builder = Builder::new(cache.begin(pc)?, pc, source.vdso);
    let ahead = Lookahead::new(CodeReader::new(source));
    let mut translation = Translation {
        walk: Walk::plain(cache, builder, ahead),
        source,
        pc,
    };
    translation.run(by_indirect_branch);
    translation.walk.builder.finish_calls();
    let (code, mut new_fragment) = translation.walk.into_parts();
    new_fragment.plain = true;
    cache.commit(&code, new_fragment);
    Ok(())
}

struct Translation<'a> {
    walk: Walk<'a>,
    source: &'a Source<'a>,
    pc: u64,
}

impl Translation<'_> {
    fn run(&mut self, by_indirect_branch: bool) {
        self.walk.entry(&mut [], by_indirect_branch);
        loop {
            let Some((layout, bytes)) = self.walk.fetch(self.pc) else {
                // The exit explains why there is no instruction.
                self.exit(ExitKind::Unfetchable);
                return;
            };
            let item = Item::new(layout, bytes, self.pc);
            self.walk.begin_item();
            let next = self.item(&item);
            // A target stub counts as the end of the call before it.
            self.walk.end_item(&item);
            let count = self.walk.builder.new_fragment.pc_map.len();
            self.pc = item.next_pc();
            let ends = self.source.ends_at(self.pc);
            match next {
                Next::End => return,
                Next::Instruction if count < HARD_LIMIT && !ends => {}
                Next::Instruction => return self.exit(ExitKind::Direct),
                Next::Block { target_stub } => {
                    if let Some(stub) = target_stub {
                        self.note_stub(self.pc, stub);
                    }
                    // Whether the block is ever entered otherwise shows later: the cache finds any
                    // instruction then.
                    let is_known = target_stub.is_none() && self.walk.cache.knows(self.pc);
                    if count >= SOFT_LIMIT || ends || is_known {
                        return self.exit(ExitKind::Direct);
                    }
                }
            }
        }
    }

    fn item(&mut self, item: &Item) -> Next {
        let next_pc = item.next_pc();
        if item.bytes[..8] == MARKER {
            let exit = Exit::new(ExitKind::Annotation, next_pc);
            self.walk.gate_exit(exit);
            return Next::End;
        }
        let goes_on = self.walk.execute(&mut [], item);
        match item.layout.kind {
            Kind::Syscall => self.after_system_call(next_pc),
            _ if !goes_on => Next::End,
            Kind::Jcc { .. } | Kind::JrcxzOrLoop { .. } => Next::Block { target_stub: None },
            Kind::CallDirect if item.layout.target == next_pc => Next::Block { target_stub: None },
            Kind::CallDirect | Kind::CallIndirect => self.after_call(next_pc),
            _ => Next::Instruction,
        }
    }

    fn exit(&mut self, kind: ExitKind) {
        self.walk.builder.exit_jump(None, kind, self.pc);
    }

    fn note_stub(&mut self, pc: u64, stub: CacheAddress) {
        let stubs = &mut self.walk.builder.new_fragment.target_stubs;
        stubs.push((pc, stub));
    }

    /// The target stub of the call's return, and behind it the code there.
    fn after_call(&mut self, next_pc: u64) -> Next {
        let target_stub = self.walk.builder.target_stub();
        if !self.walk.cache.knows(next_pc) && self.source.fetchable(next_pc) != 0 {
            return Next::Block {
                target_stub: Some(target_stub),
            };
        }
        self.note_stub(next_pc, target_stub);
        self.walk.builder.exit_jump(None, ExitKind::Direct, next_pc);
        Next::End
    }

    fn after_system_call(&mut self, next_pc: u64) -> Next {
        if !self.source.is_stable(next_pc, 1) || self.walk.cache.entry(next_pc).is_some() {
            return Next::End;
        }
        Next::Block { target_stub: None }
    }
}
