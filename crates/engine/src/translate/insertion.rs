//! What clients have inserted into translated code, and at which points.
//!
//! Each client that inserts has an [`Inserter`] for each superblock. One [`Walk`] goes over the
//! superblock's instructions and copies them; before and behind each of them, on the ways out and
//! at the ends it asks every inserter for what is to stand there. Where there is no inserter, the
//! code is copied as it is.
//!
//! Several inserters stand around an instruction like shells, in the order of their clients: the
//! first one is next to it, before and behind, and whoever is further out leaves the instruction's
//! operands as it wants them to be. What they share of the processor:
//!
//! - **Flags** are the program's, or [borrowed](borrowed::Borrowed). Where they are dead ([`Item::flags_live`]), anybody may change them.
//! - **Registers** that the superblock does not touch are bound for its whole length
//!   ([`RegisterBinding`]) if an inserter wants some. The first that does has the register of the
//!   position; scratch is for anybody between two of its own instructions. Others, and the flags
//!   where they are live, are [borrowed](borrowed::Borrowed).
//! - **Calls** of functions find all program state in place. What a client has found out about
//!   registers and memory before is not to be relied on behind them: see [`Walk::is_disturbed`].

pub mod append;
pub mod borrowed;
pub mod count;
pub mod detour;
mod execute;
#[cfg(test)]
pub(super) mod executed;
pub mod shadow;
mod versions;
pub mod walk;

use unspool_code_cache::binding::RegisterBinding;
use unspool_code_cache::cache::FragmentId;
use unspool_code_cache::cache::{Cache, CacheFull, NewFragment};
use unspool_code_cache::emit::Emitter;
use unspool_code_cache::exit::Version;
use unspool_kernel::lock::Mutex;

use self::walk::Walk;
use super::copy::Builder;
use super::forced_splits::ForcedSplits;
use super::live_flags::{Lookahead, find_live_flags};
use super::reader::CodeReader;
use super::superblock::{CallSites, Item, LIMIT, Limits, SuperblockEnd, fetch, turns};
use super::{Source, Wanted};

/// By what a path ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PathEnd {
    /// An exit, which follows: to this address, if it stays in the cache.
    Exit(Option<u64>),
    /// A call or an indirect jump, which follows. The target of an indirect one is in the scratch
    /// register.
    Transfer,
    /// A return, which has not yet taken its address from the stack.
    Return,
    /// A return, which has its address in the scratch register.
    ReturnTaken,
}

/// That a superblock is one of two versions of the code there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Choice {
    /// Which one.
    pub version: Version,
    /// The slot by which a thread that comes there chooses: 0 for [`Version::Off`].
    pub switch: i32,
}

/// What one client has inserted into one superblock. All methods insert nothing unless an inserter
/// says otherwise.
pub trait Inserter {
    /// What the client wants of superblocks.
    fn limits(&self) -> &dyn Limits;

    /// Says what is inserted, before any of it is emitted. Returns where the superblock ends.
    fn decide(
        &mut self,
        _walk: &mut Walk,
        _items: &mut Vec<Item>,
        end: SuperblockEnd,
    ) -> SuperblockEnd {
        end
    }

    /// All inserters have decided, and the superblock has these instructions.
    fn begin(&mut self, _walk: &Walk, _items: &[Item]) {}

    /// Where the superblock is entered with all program state in place. Returns whether it must
    /// always be entered there.
    fn at_entry(&mut self, _walk: &mut Walk) -> bool {
        false
    }

    /// Before the first instruction, whichever version of the code the thread is going to execute.
    fn reached(&mut self, _walk: &mut Walk, _item: &Item) {}

    /// By what a thread chooses there, if the superblock is one of two versions.
    fn choice(&self) -> Option<Choice> {
        None
    }

    /// Before an instruction.
    fn before(&mut self, _walk: &mut Walk, _item: &Item) {}

    /// Right behind the copy of an instruction.
    fn copied(&mut self, _walk: &mut Walk, _item: &Item) {}

    /// Behind an instruction, on the way that stays in the superblock. Whether flags are live there.
    fn after(&mut self, _walk: &mut Walk, _item: &Item, _flags_live: bool) {}

    /// At a conditional branch out of the superblock. Returns whether something is to be done on
    /// that way.
    fn side_exit(&mut self, _walk: &mut Walk, _item: &Item) -> bool {
        false
    }

    /// On that way, to `target`; its end is told by nothing else.
    fn aside(&mut self, _walk: &mut Walk, _item: &Item, _target: u64) {}

    /// Behind the last instruction.
    fn at_end(&mut self, _walk: &mut Walk, _items: &[Item], _end: &SuperblockEnd) {}

    /// A path ends behind so many instructions. Returns whether the scratch register has lost its
    /// content.
    fn close(&mut self, _walk: &mut Walk, _executed: usize, _end: PathEnd) -> bool {
        false
    }

    /// Before a call pushes its return address.
    fn before_call(&mut self, _walk: &mut Walk) {}

    /// An instruction makes a system call.
    fn system_call(&mut self, _walk: &mut Walk, _item: &Item) {}

    /// Behind all paths: what is away from them.
    fn finish(&mut self, _walk: &mut Walk, _items: &[Item]) {}

    /// The superblock becomes the fragment with this number. Called with the cache locked.
    fn keep(&mut self, binding: Option<RegisterBinding>, fragment: FragmentId);
}

/// What several clients want of superblocks together.
struct Combined<'a>(&'a [Box<dyn Inserter>]);

impl Combined<'_> {
    fn all(&self) -> impl Iterator<Item = &dyn Limits> {
        self.0.iter().map(|inserter| inserter.limits())
    }

    fn first(&self) -> &dyn Limits {
        self.0[0].limits()
    }

    /// The same, or those of the only client: they are asked for each instruction.
    fn narrowest(&self) -> &dyn Limits {
        match self.0 {
            [only] => only.limits(),
            _ => self,
        }
    }
}

impl Limits for Combined<'_> {
    fn most_instructions(&self) -> usize {
        // A fragment has room for so much code, however many have theirs in it.
        LIMIT / self.0.len()
    }

    fn is_alone(&self) -> bool {
        self.0.len() == 1
    }

    fn bound_registers(&self) -> usize {
        let counts = self.all().map(Limits::bound_registers);
        counts.max().unwrap_or(0)
    }

    fn word_bound(&self, item: &Item) -> usize {
        self.all().map(|limits| limits.word_bound(item)).sum()
    }

    fn most_words(&self) -> usize {
        let most = self.all().map(Limits::most_words);
        most.min().unwrap_or(usize::MAX)
    }

    fn forced_splits(&self) -> &ForcedSplits {
        self.first().forced_splits()
    }

    fn follows_calls(&self) -> bool {
        self.all().all(Limits::follows_calls)
    }

    fn is_function(&self, pc: u64) -> bool {
        self.all().any(|limits| limits.is_function(pc))
    }

    fn ends_behind(&self, item: &Item) -> bool {
        self.all().any(|limits| limits.ends_behind(item))
    }

    fn leaves_out(&self) -> bool {
        self.all().any(Limits::leaves_out)
    }

    fn pairs_calls(&self) -> bool {
        self.all().all(Limits::pairs_calls)
    }

    fn call_sites(&self) -> Option<&CallSites> {
        self.0.iter().find_map(|it| it.limits().call_sites())
    }
}

/// Room for a superblock's instructions, which are decoded with the cache locked.
static ROOM: Mutex<Vec<Item>> = Mutex::new(Vec::new());

/// Translates a superblock with what these insert, of which there is one at least, and makes it part
/// of the cache.
///
/// # Errors
/// If the cache is full.
pub(crate) fn translate(
    mut inserters: Vec<Box<dyn Inserter>>,
    cache: &mut Cache,
    source: &Source,
    wanted: Wanted,
) -> Result<(), CacheFull> {
    let pc = wanted.pc;
    let mut builder = Builder::new(cache.begin(pc)?, pc, source.vdso);
    builder.new_fragment.version = wanted.version;
    let mut items = std::mem::take(&mut *ROOM.lock());
    let mut code = CodeReader::new(source);
    let combined = Combined(&inserters);
    let limits = combined.narrowest();
    let end = fetch(cache, (source, &mut code), wanted, limits, &mut items);
    code.jump_about();
    let mut ahead = Lookahead::new(code);
    if !limits.leaves_out() {
        // What is left out overwrites no flags.
        find_live_flags(&mut ahead, &mut items, &end);
    }
    let binding = binding_for(limits.bound_registers(), &items);
    let mut walk = Walk::new(cache, builder, binding, ahead, limits);
    walk.run(&mut inserters, &mut items, end, wanted.by_indirect_branch);
    let (code, mut new_fragment) = walk.into_parts();
    new_fragment.turns.extend(turns(&items));
    commit(inserters, cache, binding, (&code, new_fragment));
    items.clear();
    *ROOM.lock() = items;
    Ok(())
}

fn commit(
    inserters: Vec<Box<dyn Inserter>>,
    cache: &mut Cache,
    binding: Option<RegisterBinding>,
    (code, new_fragment): (&Emitter, NewFragment),
) {
    let fragment = cache.next_fragment();
    for mut inserter in inserters {
        inserter.keep(binding, fragment);
    }
    cache.commit(code, new_fragment);
}

/// The registers that are bound throughout the code of some instructions, if any are to be.
fn binding_for(count: usize, items: &[Item]) -> Option<RegisterBinding> {
    if count == 0 {
        return None;
    }
    let uses = items
        .iter()
        .map(|item| item.uses().read | item.uses().written);
    let touched = uses.fold(0, |mask, used| mask | used);
    let binding = RegisterBinding::for_code(touched, count);
    Some(binding.expect("one instruction leaves enough registers alone"))
}
