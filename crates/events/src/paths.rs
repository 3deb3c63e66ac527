//! The superblocks that are known, by path id, ready to turn records into accesses.

use std::collections::BTreeMap;
use std::num::NonZeroU32;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use crate::access::AccessFlags;
use crate::id::PathId;
use crate::plain_access::PlainAccess;
use crate::raw::PATH_IDS;
use crate::superblock::{
    AccessingInstruction, AddressSource, CacheControl, Extent, Operand, Slot, Superblock,
};

/// Looks up paths. Shared by those who count records and those who read them.
#[derive(Debug, Default)]
pub(crate) struct PathTable {
    codes: Vec<Arc<AccessingCode>>,
    /// What is known of each path id, in pages: ids are given out one after the other.
    pages: Vec<Option<Box<Page>>>,
    /// Whether records are only counted.
    for_counting: bool,
}

/// The paths of a whole trace. Path ids are given out anew after a time: what an id means is said
/// anew for each generation of them.
#[derive(Debug, Default)]
pub(crate) struct Generations {
    tables: BTreeMap<u64, PathTable>,
    none: PathTable,
}

impl Generations {
    /// The paths of a generation, to which some are to be added.
    pub(crate) fn add(&mut self, generation: u64) -> &mut PathTable {
        self.tables.entry(generation).or_default()
    }

    /// The paths of a generation.
    pub(crate) fn of(&self, generation: u64) -> &PathTable {
        self.tables.get(&generation).unwrap_or(&self.none)
    }
}

const PAGE_LENGTH: usize = 256;
type Page = [Option<Place>; PAGE_LENGTH];

/// Where a path runs.
#[derive(Debug, Clone, Copy)]
struct Place {
    /// Its code's index, plus 1.
    code: NonZeroU32,
    accessing: u16,
    executed: u16,
}

/// A path, and the code it runs through.
#[derive(Debug, Clone)]
pub(crate) struct KnownPath<AnyCode> {
    /// The code of its superblock.
    pub(crate) code: AnyCode,
    /// How many accessing instructions of the superblock are on the path.
    pub(crate) accessing: usize,
    /// How many instructions of any kind are.
    pub(crate) executed: u64,
}

/// The path keeps its code.
pub(crate) type OwnedPath = KnownPath<Arc<AccessingCode>>;
/// Its table does.
pub(crate) type BorrowedPath<'table> = KnownPath<&'table Arc<AccessingCode>>;

impl BorrowedPath<'_> {
    /// The same, for longer than the table lives.
    pub(crate) fn to_owned(&self) -> OwnedPath {
        KnownPath {
            code: Arc::clone(self.code),
            accessing: self.accessing,
            executed: self.executed,
        }
    }
}

/// The accessing instructions of a superblock, with all operands in one piece. Where records
/// are only counted, and this needs none of them, it has none.
#[derive(Debug)]
pub(crate) struct AccessingCode {
    instructions: Box<[Instruction]>,
    operands: Box<[Operand]>,
    /// For each number of instructions from the start: what they do.
    sums: Box<[Sum]>,
    has_tickets: bool,
    /// What no other code of this process has.
    number: u64,
    /// Its accesses as far as they are plain, where they were asked for.
    plain: OnceLock<Box<[PlainAccess]>>,
}

/// The number of the code that is read next.
static NEXT_NUMBER: AtomicU64 = AtomicU64::new(0);

/// What some instructions do together.
#[derive(Debug, Clone, Copy, Default)]
struct Sum {
    /// How many accesses they make, or [`DEPENDS`] where that is not known from the code alone.
    accesses: u32,
    /// How many of them make any.
    accessing: u32,
    /// How many events they stand for.
    events: u32,
    /// How many words their accesses need, or [`NOT_PLAIN`].
    words: u32,
}

/// A number of accesses that depends on recorded words.
const DEPENDS: u32 = u32::MAX;
/// What stands for instructions that do not make the same plain accesses each time and nothing else.
const NOT_PLAIN: u32 = u32::MAX;

/// An accessing instruction.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Instruction {
    /// Its address.
    pub(crate) pc: u64,
    /// Whether it is atomic.
    pub(crate) atomic: bool,
    /// Whether its data is to bypass the caches.
    pub(crate) non_temporal: bool,
    /// Whether its last operand is the return address of a call, or of a return.
    pub(crate) calls_or_returns: bool,
    /// Its bytes, where each instruction is recorded.
    pub(crate) fetched: Option<u8>,
    /// What it asks of the caches.
    pub(crate) cache_control: Option<CacheControl>,
    /// The word that holds its ticket.
    pub(crate) ticket: Option<Slot>,
    /// The word that says whether its compare-and-swap succeeded.
    pub(crate) cas_success: Option<Slot>,
    first_operand: u32,
    end_operand: u32,
}

impl Instruction {
    /// The flags that all its accesses have each time.
    #[inline]
    pub(crate) fn flags(&self) -> AccessFlags {
        let mut flags = AccessFlags::default();
        if self.atomic {
            flags = flags.with(AccessFlags::ATOMIC);
        }
        if self.non_temporal {
            flags = flags.with(AccessFlags::NON_TEMPORAL);
        }
        flags
    }

    /// The ticket it drew in a record with these words.
    #[inline]
    pub(crate) fn ticket_in(&self, words: &[u64]) -> Option<u64> {
        self.ticket
            .and_then(|slot| words.get(usize::from(slot)).copied())
    }
}

impl PathTable {
    /// A table with which records can be counted, but not read: it needs far less memory.
    pub(crate) fn for_counting() -> PathTable {
        PathTable {
            for_counting: true,
            ..PathTable::default()
        }
    }

    /// Adds a superblock's paths. One that is there already keeps its first meaning. No record
    /// can name an id above [`PATH_IDS`].
    pub(crate) fn add(&mut self, superblock: &Superblock) {
        let mut code = AccessingCode::new(superblock);
        if self.for_counting {
            code.keep_what_counts();
        }
        let accessing = code.accessing_instructions();
        self.codes.push(Arc::new(code));
        let code = u32::try_from(self.codes.len())
            .ok()
            .and_then(NonZeroU32::new);
        let Some(code) = code else {
            return;
        };
        for (id, path) in (superblock.first_path.0..PATH_IDS).zip(&superblock.paths) {
            let id = id as usize;
            if id / PAGE_LENGTH >= self.pages.len() {
                self.pages.resize_with(id / PAGE_LENGTH + 1, || None);
            }
            let page = self.pages[id / PAGE_LENGTH].get_or_insert_with(|| Box::new([None; _]));
            page[id % PAGE_LENGTH].get_or_insert(Place {
                code,
                accessing: path
                    .accessing
                    .min(u16::try_from(accessing).unwrap_or(u16::MAX)),
                executed: path.executed,
            });
        }
    }

    /// The path with this id.
    pub(crate) fn get(&self, path: PathId) -> Option<BorrowedPath<'_>> {
        let id = path.0 as usize;
        let page = self.pages.get(id / PAGE_LENGTH)?.as_ref()?;
        let place = page[id % PAGE_LENGTH]?;
        Some(KnownPath {
            code: &self.codes[place.code.get() as usize - 1],
            accessing: usize::from(place.accessing),
            executed: u64::from(place.executed),
        })
    }
}

impl AccessingCode {
    fn new(superblock: &Superblock) -> AccessingCode {
        let mut operands = Vec::new();
        let mut instructions = Vec::with_capacity(superblock.instructions.len());
        let mut accesses = Some(0);
        let mut sum = Sum::default();
        let mut sums = vec![sum];
        for instruction in &superblock.instructions {
            let first_operand = operands.len() as u32;
            operands.extend(instruction.operands.iter().cloned());
            instructions.push(Instruction {
                pc: instruction.pc,
                atomic: instruction.atomic,
                non_temporal: instruction.non_temporal,
                calls_or_returns: instruction.calls_or_returns,
                fetched: instruction.fetched,
                cache_control: instruction.cache_control,
                ticket: instruction.ticket,
                cas_success: instruction.cas_success,
                first_operand,
                end_operand: operands.len() as u32,
            });
            let plain = instruction
                .operands
                .iter()
                .all(|operand| operand.extent == Extent::Plain);
            accesses = accesses.filter(|_| plain).and_then(|sum: u32| {
                let more = u32::try_from(instruction.operands.len()).ok()?;
                sum.checked_add(more).filter(|&sum| sum != DEPENDS)
            });
            sum.accesses = accesses.unwrap_or(DEPENDS);
            sum.words = words_with(&sum, instruction);
            sum.accessing += u32::from(!instruction.operands.is_empty());
            sum.events += u32::from(instruction.fetched.is_some())
                + u32::from(instruction.cache_control.is_some());
            sums.push(sum);
        }
        let has_tickets = instructions
            .iter()
            .any(|instruction| instruction.ticket.is_some());
        AccessingCode {
            instructions: instructions.into(),
            operands: operands.into(),
            sums: sums.into(),
            has_tickets,
            number: NEXT_NUMBER.fetch_add(1, Ordering::Relaxed),
            plain: OnceLock::new(),
        }
    }

    /// Forgets what counting does not need.
    fn keep_what_counts(&mut self) {
        let depends = self.sums.iter().any(|sum| sum.accesses == DEPENDS);
        if !depends && !self.has_tickets {
            self.instructions = Box::default();
            self.operands = Box::default();
        }
    }

    /// How many accessing instructions it has.
    pub(crate) fn accessing_instructions(&self) -> usize {
        self.sums.len() - 1
    }

    /// The ticket that its instruction `index` drew in a record with these words.
    pub(crate) fn ticket_in(&self, index: usize, words: &[u64]) -> Option<u64> {
        self.instructions.get(index)?.ticket_in(words)
    }

    /// Its accessing instructions.
    pub(crate) fn instructions(&self) -> &[Instruction] {
        &self.instructions
    }

    /// The operands of one of its instructions.
    pub(crate) fn operands(&self, instruction: &Instruction) -> &[Operand] {
        &self.operands[instruction.first_operand as usize..instruction.end_operand as usize]
    }

    /// How many accesses the first `instructions` instructions make, where that does not
    /// depend on recorded words.
    pub(crate) fn fixed_accesses(&self, instructions: usize) -> Option<u64> {
        let sum = self.sums.get(instructions)?;
        (sum.accesses != DEPENDS).then_some(u64::from(sum.accesses))
    }

    /// What no other code of this process has.
    #[inline]
    pub(crate) fn number(&self) -> u64 {
        self.number
    }

    /// How many words the first `instructions` instructions need at least, if each is not atomic, and
    /// stands for accesses alone whose extent is known from the code.
    #[inline]
    pub(crate) fn plain_words(&self, instructions: usize) -> Option<usize> {
        let words = self.sums.get(instructions)?.words;
        (words != NOT_PLAIN).then_some(words as usize)
    }

    /// The accesses of the first `instructions` instructions, for which there are
    /// [`AccessingCode::plain_words`].
    #[inline]
    pub(crate) fn plain_accesses(&self, instructions: usize) -> &[PlainAccess] {
        let plain = self.plain.get_or_init(|| self.all_plain_accesses());
        &plain[..self.sums[instructions].accesses as usize]
    }

    /// All accesses, as far as they are plain.
    fn all_plain_accesses(&self) -> Box<[PlainAccess]> {
        let mut accesses = Vec::new();
        for (number, instruction) in self.instructions().iter().enumerate() {
            if self.plain_words(number + 1).is_none() {
                break;
            }
            let first = accesses.len();
            for operand in self.operands(instruction) {
                let (slot, offset) = match operand.address {
                    AddressSource::Absolute(address) => (None, address),
                    AddressSource::Word { slot, add } => (Some(slot), add as u64),
                };
                debug_assert_eq!(operand.extent, Extent::Plain);
                let mut flags = instruction.flags();
                if accesses.len() == first {
                    flags = flags.with(AccessFlags::FIRST);
                }
                accesses.push(PlainAccess {
                    pc: instruction.pc,
                    offset,
                    size: operand.size,
                    instruction: number as u16,
                    slot,
                    kind: operand.kind,
                    flags,
                });
            }
            if instruction.calls_or_returns
                && let Some(last) = accesses[first..].last_mut()
            {
                last.flags = last.flags.with(AccessFlags::RETURN_ADDRESS);
            }
        }
        accesses.into()
    }

    /// How many of the first `instructions` instructions access memory, and how many events
    /// they stand for.
    pub(crate) fn accessing_and_events(&self, instructions: usize) -> (u64, u64) {
        let sum = self.sums.get(instructions).copied().unwrap_or_default();
        (u64::from(sum.accessing), u64::from(sum.events))
    }

    /// Whether any instruction draws tickets.
    pub(crate) fn has_tickets(&self) -> bool {
        self.has_tickets
    }
}

/// How many words are needed with one instruction more, which `sum` has the accesses of.
fn words_with(sum: &Sum, instruction: &AccessingInstruction) -> u32 {
    let is_plain = sum.words != NOT_PLAIN
        && sum.accesses != DEPENDS
        && !instruction.atomic
        && instruction.ticket.is_none()
        && instruction.cas_success.is_none()
        && instruction.fetched.is_none()
        && instruction.cache_control.is_none()
        && !instruction.operands.is_empty();
    if !is_plain {
        return NOT_PLAIN;
    }
    let operands = instruction.operands.iter();
    let needed = operands.map(|operand| match operand.address {
        AddressSource::Word { slot, .. } => u32::from(slot) + 1,
        AddressSource::Absolute(_) => 0,
    });
    needed.fold(sum.words, u32::max)
}
