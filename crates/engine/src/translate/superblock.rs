//! Which instructions make a superblock.
//!
//! A superblock has one entry and, at each conditional branch, an exit. It goes on behind
//! direct jumps and calls at their targets, and repeats itself if it is a loop, as long as
//! there is room: the more instructions share a record, the fewer words it needs for each.

use iced_x86::{InstructionInfoFactory, MemorySize, Register};
use unspool_events::raw::MAX_PATH_WORDS;

use super::plain::MARKER;
use super::reader::{CodeReader, WINDOW};
use super::torn::TornPlaces;
use super::{Source, elements, ownership};
use crate::cache::Cache;
use crate::decode::{Instruction, Kind, MAX_LENGTH, Segment};
use crate::operands::{
    ExtendedStateSizes, InstructionFacts, MemoryOperand, RegisterUse, memory_operands,
    register_use, requested_components,
};
use crate::warmth::Warmth;

/// The most instructions in a superblock.
pub(crate) const LIMIT: usize = 64;
/// The instruction up to which a superblock follows jumps and calls: later there is too
/// little left of it to be worth a second translation of the code there.
const FOLLOW_LIMIT: usize = 40;
/// From so many instructions on a superblock ends also where another one was torn.
const LONG_ENOUGH: usize = LIMIT / 2;
/// Words that one instruction may need at most (a gather of sixteen, with room to spare).
const MOST_WORDS: usize = 16;
/// The most elements that gathers and scatters may have in a superblock: each is checked by
/// itself, and code has a limit.
const MOST_ELEMENTS: usize = 64;

/// An instruction with all that is known of it.
pub(crate) struct Item {
    pub(crate) layout: Instruction,
    pub(crate) bytes: [u8; WINDOW],
    pub(crate) pc: u64,
    pub(crate) decoded: iced_x86::Instruction,
    pub(crate) operands: Vec<MemoryOperand>,
    pub(crate) facts: InstructionFacts,
    pub(crate) uses: RegisterUse,
    /// Whether the flags before the instruction may still be read.
    pub(crate) flags_live: bool,
    /// How the superblock goes on behind it.
    pub(crate) course: Course,
    /// Whether it is left out.
    pub(crate) left_out: bool,
}

/// Where a superblock goes on behind an instruction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Course {
    /// At the next instruction; if a branch is taken, the superblock is left.
    Next,
    /// At the target of the branch; if it is not taken, the superblock is left.
    Target,
}

impl Item {
    fn next_pc(&self) -> u64 {
        self.pc + u64::from(self.layout.length)
    }

    /// Where the superblock goes on behind the instruction.
    pub(crate) fn goes_on(&self) -> u64 {
        match self.course {
            Course::Next => self.next_pc(),
            Course::Target => self.layout.target,
        }
    }

    /// Where a conditional branch goes that leaves the superblock.
    pub(crate) fn side_exit(&self) -> Option<u64> {
        match (self.layout.kind, self.course) {
            _ if self.left_out => None,
            (Kind::Jcc { .. } | Kind::JrcxzOrLoop { .. }, Course::Next) => Some(self.layout.target),
            (Kind::Jcc { .. }, Course::Target) => Some(self.next_pc()),
            _ => None,
        }
    }
}

/// The instructions that do not follow the one before them in the program: number and address.
pub(crate) fn turns(items: &[Item]) -> Vec<(u32, u64)> {
    let follows = items.windows(2).zip(1..);
    follows
        .filter(|(pair, _)| pair[0].next_pc() != pair[1].pc)
        .map(|(pair, number)| (number, pair[1].pc))
        .collect()
}

/// Why a superblock ends behind its last instruction.
pub(crate) enum End {
    /// Its last instruction decides.
    Transfer,
    /// It is long enough; the code goes on here.
    Continue(u64),
    /// The next instruction cannot be fetched.
    Unfetchable(u64),
    /// The next instruction is a marker of the annotation interface.
    Annotation(u64),
}

/// What decides, beside the code itself, where superblocks end.
pub(crate) trait Limits {
    /// How many registers their code must leave alone.
    fn borrowed_registers(&self) -> usize;
    /// How large the operands of `xsave` and its kin are.
    fn state_sizes(&self) -> ExtendedStateSizes;
    /// How many words of a record an instruction needs at most.
    fn word_bound(&self, operands: &[MemoryOperand], facts: InstructionFacts) -> usize;
    /// Where superblocks were torn.
    fn torn(&self) -> &TornPlaces;
    /// Whether superblocks go on in the functions that they call.
    fn follows_calls(&self) -> bool;
    /// Whether a superblock must begin here.
    fn is_function(&self, pc: u64) -> bool;
    /// Whether a superblock must end behind an instruction.
    fn ends_behind(&self, item: &Item) -> bool;
}

/// Decodes the instructions of the superblock at `pc`.
pub(crate) fn fetch(
    cache: &Cache,
    source: &Source,
    pc: u64,
    limits: &impl Limits,
) -> (Vec<Item>, End) {
    let count = limits.borrowed_registers();
    let mut items: Vec<Item> = Vec::new();
    let mut reader = Reader::new(source, limits.state_sizes());
    let mut touched = 0;
    let mut words = 0;
    let mut indexed = 0;
    let mut at = pc;
    let mut unrolling = Unrolling::default();
    let mut followed = false;
    let end = loop {
        let known = !followed
            && cache.entry(at).is_some()
            && (items.len() >= LONG_ENOUGH || !limits.torn().contains(at));
        if items.len() >= LIMIT {
            limits.torn().note(at);
            break End::Continue(at);
        }
        let stops = cache.stops.contains(&at);
        if stops && items.is_empty() && cache.passing != Some(at) {
            break End::Unfetchable(at);
        }
        if !items.is_empty() && (known || stops || limits.is_function(at)) {
            break End::Continue(at);
        }
        let mut item = match reader.read(at, &items) {
            Ok(item) => item,
            Err(end) => break end,
        };
        let now_touched = touched | item.uses.read | item.uses.written;
        let now_words = words + limits.word_bound(&item.operands, item.facts);
        let now_indexed = indexed + elements::indexed(&item.operands);
        let full = Warmth::for_code(now_touched, count).is_none()
            || now_indexed > MOST_ELEMENTS
            || now_words + MOST_WORDS > MAX_PATH_WORDS;
        if !items.is_empty() && full {
            limits.torn().note(at);
            break End::Continue(at);
        }
        (touched, words, indexed) = (now_touched, now_words, now_indexed);
        let (kind, target, next) = (item.layout.kind, item.layout.target, item.next_pc());
        let executed = items.len() + 1;
        followed = match kind {
            Kind::Jcc { .. } | Kind::JumpDirect if target == pc => {
                unrolling.goes_on(executed, words)
            }
            Kind::CallDirect if !limits.follows_calls() => false,
            Kind::JumpDirect | Kind::CallDirect => {
                executed < FOLLOW_LIMIT && may_follow(source, target, at)
            }
            _ => false,
        };
        if followed {
            item.course = Course::Target;
        }
        let ends = limits.ends_behind(&item);
        items.push(item);
        if ends && runs_on(kind) && !followed {
            break End::Continue(next);
        }
        at = match kind {
            _ if followed => target,
            // There is no room for another round.
            Kind::Jcc { .. } if target == pc => break End::Continue(next),
            _ if runs_on(kind) => next,
            _ => break End::Transfer,
        };
    };
    let live_after = live_flags_after(source, &items, &end);
    ownership::find_live_flags(source, &mut items, live_after);
    (items, end)
}

/// Whether an instruction can be in the middle of a superblock.
pub(crate) fn runs_on(kind: Kind) -> bool {
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
            | Kind::ReadSegmentBase {
                segment: Segment::Fs,
                ..
            }
    )
}

/// Reads and decodes instructions one after the other.
struct Reader<'a> {
    source: &'a Source<'a>,
    state_sizes: ExtendedStateSizes,
    code: CodeReader<'a>,
    factory: InstructionInfoFactory,
}

impl<'a> Reader<'a> {
    fn new(source: &'a Source<'a>, state_sizes: ExtendedStateSizes) -> Reader<'a> {
        Reader {
            source,
            state_sizes,
            code: CodeReader::new(source),
            factory: InstructionInfoFactory::new(),
        }
    }

    /// The instruction at an address, which follows `before`; otherwise why the superblock ends
    /// there.
    fn read(&mut self, at: u64, before: &[Item]) -> Result<Item, End> {
        let fetched = self.code.instruction(at);
        let (layout, bytes) = fetched.ok_or(End::Unfetchable(at))?;
        if bytes[..8] == MARKER {
            return Err(End::Annotation(at + u64::from(layout.length)));
        }
        let decoded = decode_fully(&layout, &bytes, at);
        let mut operands = Vec::new();
        let sizes = state_sizes(&decoded, before, self.state_sizes);
        let facts = memory_operands(&decoded, &mut self.factory, sizes, &mut operands);
        for operand in &mut operands {
            let absolute = operand.base == Register::None && operand.index == Register::None;
            if absolute && layout.rip_relative {
                let address = operand.displacement as u64;
                operand.displacement = self.source.vdso.resolve(at, address) as i64;
            }
        }
        elements::simplify_masks(before, &mut operands);
        Ok(Item {
            uses: register_use(&decoded, &mut self.factory),
            layout,
            bytes,
            pc: at,
            decoded,
            operands,
            facts,
            flags_live: true,
            course: Course::Next,
            left_out: false,
        })
    }
}

/// How much memory the instruction uses if it is `xsave` or one of its kin.
fn state_sizes(
    instruction: &iced_x86::Instruction,
    before: &[Item],
    all: ExtendedStateSizes,
) -> ExtendedStateSizes {
    let kin = matches!(
        instruction.memory_size(),
        MemorySize::Xsave | MemorySize::Xsave64
    );
    let before = before.iter().rev();
    kin.then(|| requested_components(before.map(|item| (&item.decoded, item.uses.written))))
        .flatten()
        .map_or(all, |mask| all.with_components(mask))
}

/// What is to be known of an instruction beyond its layout.
fn decode_fully(layout: &Instruction, bytes: &[u8], pc: u64) -> iced_x86::Instruction {
    let bytes = &bytes[..usize::from(layout.length)];
    iced_x86::Decoder::with_ip(64, bytes, pc, iced_x86::DecoderOptions::NONE).decode()
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
    fn goes_on(&mut self, instructions: usize, words: usize) -> bool {
        if self.instructions == 0 {
            (self.instructions, self.words) = (instructions, words);
        }
        instructions + self.instructions <= LIMIT
            && words + self.words + MOST_WORDS <= MAX_PATH_WORDS
    }
}

/// Whether a superblock goes on at the target of a jump or call at `pc`: in code that changes
/// by system calls only, because only the pages behind a superblock's start are watched.
fn may_follow(source: &Source, target: u64, pc: u64) -> bool {
    const REACH: u64 = (LIMIT * MAX_LENGTH) as u64;
    target != pc && source.is_stable(pc, REACH) && source.is_stable(target, REACH)
}

/// Which flags may be read after the superblock: those that the code to come reads before it
/// overwrites them. Only code that is reached for certain is looked at.
fn live_flags_after(source: &Source, items: &[Item], end: &End) -> u16 {
    let Some(last) = items.last() else {
        return RegisterUse::STATUS;
    };
    match (end, last.layout.kind) {
        (End::Continue(pc), _) => live_flags_at(source, *pc),
        (End::Transfer, Kind::JumpDirect | Kind::CallDirect) => {
            live_flags_at(source, last.layout.target)
        }
        _ => RegisterUse::STATUS,
    }
}

/// Which flags the code at an address may read before it overwrites them.
pub(crate) fn live_flags_at(source: &Source, pc: u64) -> u16 {
    const FAR_ENOUGH: usize = 6;
    let mut at = pc;
    let mut unknown = RegisterUse::STATUS;
    let mut live = 0;
    let mut factory = InstructionInfoFactory::new();
    let mut code = CodeReader::new(source);
    for _ in 0..FAR_ENOUGH {
        let Some((layout, bytes)) = code.instruction(at) else {
            break;
        };
        let uses = register_use(&decode_fully(&layout, &bytes, at), &mut factory);
        live |= uses.flags_read & unknown;
        unknown &= !uses.flags_overwritten;
        if unknown == 0 || layout.kind != Kind::Plain {
            break;
        }
        at += u64::from(layout.length);
    }
    live | unknown
}
