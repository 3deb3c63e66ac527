//! Which instructions make a superblock.
//!
//! A superblock has one entry and, at each conditional branch, an exit. It goes on behind
//! direct jumps and calls at their targets, and repeats itself if it is a loop, as long as
//! there is room: the more instructions share a record, the fewer words it needs for each.

use iced_x86::InstructionInfoFactory;
use rustc_hash::FxHashMap;

use super::forced_splits::ForcedSplits;
use super::item::Surroundings;
pub use super::item::{BranchDirection, Item, turns};
use super::reader::CodeReader;
use super::{Source, Wanted, element_masks};
use unspool_code_cache::address::CacheAddress;
use unspool_code_cache::binding::RegisterBinding;
use unspool_code_cache::cache::Cache;
use unspool_instructions::decode::{Kind, MAX_LENGTH};
use unspool_kernel::lock::Mutex;

/// The annotation marker: `nopl 0x554E5350(%rax,%rax,1)`.
pub const MARKER: [u8; 8] = [0x0f, 0x1f, 0x84, 0x00, 0x50, 0x53, 0x4e, 0x55];

/// The most instructions in a superblock.
pub const LIMIT: usize = 64;
/// The instruction up to which a superblock follows jumps and calls: later there is too
/// little left of it to be worth a second translation of the code there.
const FOLLOW_LIMIT: usize = 40;
/// Words that one instruction may need at most (a gather of sixteen, with room to spare).
const MOST_WORDS: usize = 16;
/// The most elements that gathers and scatters may have in a superblock: each is checked by
/// itself, and code has a limit.
const MOST_ELEMENTS: usize = 64;

/// Why a superblock ends behind its last instruction.
pub enum SuperblockEnd {
    /// Its last instruction decides.
    Transfer,
    /// It is long enough; the code goes on here.
    Continue(u64),
    /// The next instruction cannot be fetched.
    Unfetchable(u64),
    /// The next instruction is a marker of the annotation interface.
    Annotation(u64),
}

/// What a client wants of superblocks: where they end, and how they are copied.
pub trait Limits {
    /// How many instructions they have at most.
    fn most_instructions(&self) -> usize {
        LIMIT
    }
    /// Whether nobody else inserts anything.
    fn is_alone(&self) -> bool {
        true
    }
    /// How many registers their code must leave alone.
    fn bound_registers(&self) -> usize;
    /// How many words of a record an instruction needs at most.
    fn word_bound(&self, item: &Item) -> usize;
    /// How many words the record of a path has room for.
    fn most_words(&self) -> usize {
        usize::MAX
    }
    /// Where superblocks were split by force.
    fn forced_splits(&self) -> &ForcedSplits;
    /// Whether superblocks go on in the functions that they call.
    fn follows_calls(&self) -> bool;
    /// Whether a superblock must begin here.
    fn is_function(&self, pc: u64) -> bool;
    /// Whether a superblock must end behind an instruction.
    fn ends_behind(&self, item: &Item) -> bool;
    /// Whether nobody may rely on flags being overwritten: instructions may be left out that do, or
    /// somebody looks at flags before.
    fn leaves_out(&self) -> bool {
        false
    }
    /// Whether calls may leave addresses in the cache below the end of the stack, by which the
    /// processor predicts returns.
    fn pairs_calls(&self) -> bool {
        true
    }
    /// Where calls are made, if each is to be made at one place.
    fn call_sites(&self) -> Option<&CallSites> {
        None
    }
}

/// Where in the cache calls are made, by the address to which they return and their callee, which is
/// 0 where it is in the register of the target.
///
/// A return is led to one target stub, however many superblocks hold its call, and the processor
/// predicts it from the call's place. So all of them make it at the same place.
#[derive(Default)]
pub struct CallSites(Mutex<FxHashMap<(u64, u64), CacheAddress>>);

impl CallSites {
    /// Where a call is made.
    pub(crate) fn get(&self, next_pc: u64, target: u64) -> Option<CacheAddress> {
        self.0.lock().get(&(next_pc, target)).copied()
    }

    /// It is made at `place`.
    pub(crate) fn add(&self, next_pc: u64, target: u64, place: CacheAddress) {
        self.0.lock().insert((next_pc, target), place);
    }

    /// Calls are made at new places from now on.
    pub fn forget(&self) {
        self.0.lock().clear();
    }
}

/// Decodes the instructions of a superblock into `items`, which is empty.
pub(crate) fn fetch(
    cache: &Cache,
    (source, code): (&Source, &mut CodeReader),
    wanted: Wanted,
    limits: &dyn Limits,
    items: &mut Vec<Item>,
) -> SuperblockEnd {
    let pc = wanted.pc;
    let count = limits.bound_registers();
    let most = limits.most_instructions();
    let most_words = limits.most_words();
    let mut factory = None;
    let mut touched = 0;
    let mut words = 0;
    let mut indexed = 0;
    let mut at = pc;
    let mut unrolling = Unrolling::default();
    let mut followed = false;
    loop {
        let known = !followed
            && cache.entry(at).is_some()
            && (items.len() >= most / 2 || !limits.forced_splits().contains(at));
        if items.len() >= most {
            limits.forced_splits().note(at);
            break SuperblockEnd::Continue(at);
        }
        let stops = cache.stops.contains(&at);
        // A thread that goes on in another version has passed a breakpoint there.
        let has_passed = cache.passing == Some(at) || wanted.version.is_some();
        if stops && items.is_empty() && !has_passed {
            break SuperblockEnd::Unfetchable(at);
        }
        let ends = known || stops || limits.is_function(at) || source.ends_at(at);
        if !items.is_empty() && ends {
            break SuperblockEnd::Continue(at);
        }
        let Some((layout, bytes)) = code.instruction(at) else {
            break SuperblockEnd::Unfetchable(at);
        };
        if bytes[..8] == MARKER {
            break SuperblockEnd::Annotation(at + u64::from(layout.length));
        }
        let mut item = Item::new(layout, bytes, at);
        let surroundings = Surroundings {
            before: items,
            vdso: source.vdso,
        };
        if count == 0 {
            // Nothing is spilled or recorded, so what it works on limits nothing.
            if item.depends_on(&surroundings) {
                let factory = factory.get_or_insert_with(InstructionInfoFactory::new);
                item.examine(&surroundings, factory);
            }
        } else {
            let factory = factory.get_or_insert_with(InstructionInfoFactory::new);
            item.examine(&surroundings, factory);
            let uses = item.uses();
            let now_touched = touched | uses.read | uses.written;
            let now_words = words + limits.word_bound(&item);
            let now_indexed = indexed + element_masks::indexed(item.operands());
            let touches_more = now_touched != touched;
            let full = touches_more && RegisterBinding::for_code(now_touched, count).is_none()
                || now_indexed > MOST_ELEMENTS
                || now_words + MOST_WORDS > most_words;
            if !items.is_empty() && full {
                limits.forced_splits().note(at);
                break SuperblockEnd::Continue(at);
            }
            (touched, words, indexed) = (now_touched, now_words, now_indexed);
        }
        let (kind, target, next) = (item.layout.kind, item.layout.target, item.next_pc());
        let executed = items.len() + 1;
        followed = match kind {
            Kind::Jcc { .. } | Kind::JumpDirect if target == pc => {
                unrolling.goes_on((executed, most), (words, most_words))
            }
            Kind::CallDirect if !limits.follows_calls() => false,
            Kind::JumpDirect | Kind::CallDirect => {
                executed < FOLLOW_LIMIT && may_follow(source, target, at)
            }
            _ => false,
        };
        if followed {
            item.direction = BranchDirection::Target;
        }
        let ends = limits.ends_behind(&item);
        items.push(item);
        if ends && runs_on(kind) && !followed {
            break SuperblockEnd::Continue(next);
        }
        at = match kind {
            _ if followed => target,
            // There is no room for another round.
            Kind::Jcc { .. } if target == pc => break SuperblockEnd::Continue(next),
            _ if runs_on(kind) => next,
            _ => break SuperblockEnd::Transfer,
        };
    }
}

/// Whether an instruction can be in the middle of a superblock.
#[inline]
pub fn runs_on(kind: Kind) -> bool {
    matches!(
        kind,
        Kind::Plain
            | Kind::Jcc { .. }
            | Kind::JrcxzOrLoop { .. }
            | Kind::ReadSegment(_)
            | Kind::Xtest
            | Kind::Cpuid
            | Kind::Rdtsc
            | Kind::Rdtscp
            | Kind::Xgetbv
            | Kind::ReadSegmentBase { .. }
    )
}

/// A superblock that is a loop repeats the loop's body as long as there is room: pointers
/// that advance by constants then follow from the words of the first round.
#[derive(Debug, Default)]
struct Unrolling {
    /// Instructions and words of one round; 0 as long as its end has not been seen.
    instructions: usize,
    words: usize,
}

impl Unrolling {
    /// At the end of a round: whether another one is sure to fit.
    fn goes_on(
        &mut self,
        (instructions, most): (usize, usize),
        (words, most_words): (usize, usize),
    ) -> bool {
        if self.instructions == 0 {
            (self.instructions, self.words) = (instructions, words);
        }
        instructions + self.instructions <= most && words + self.words + MOST_WORDS <= most_words
    }
}

/// Whether a superblock goes on at the target of a jump or call at `pc`: in code that changes
/// by system calls only, because only the pages behind a superblock's start are watched.
fn may_follow(source: &Source, target: u64, pc: u64) -> bool {
    const REACH: u64 = (LIMIT * MAX_LENGTH) as u64;
    target != pc && source.is_stable(pc, REACH) && source.is_stable(target, REACH)
}
