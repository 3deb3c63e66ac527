//! Calling contexts as a tree: a node for each call, below the node of the call that led to it.
//!
//! Recursion is folded: a call from a place that is on the path already leads back to the node of that
//! place, so that no path has a place twice and none is longer than the program has calls.
//!
//! Source: G. Ammons, T. Ball and J. Larus, "Exploiting Hardware Performance Counters with Flow and
//! Context Sensitive Profiling", PLDI 1997.

use rustc_hash::FxHashMap;

/// The calls that led somewhere: a node of the tree.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct ContextId(pub(super) u32);

impl ContextId {
    /// No call is known.
    pub const NONE: ContextId = ContextId(0);

    /// Its number, from 0.
    #[must_use]
    pub fn number(self) -> u32 {
        self.0
    }
}

/// A call on a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct CallSite {
    /// The instruction that calls, or that was interrupted by a signal.
    pub pc: u64,
    /// Whether a signal handler was called there.
    pub is_interrupted: bool,
    /// Whether calls that lead back here are left out.
    pub is_recursive: bool,
}

/// All contexts.
#[derive(Debug)]
pub(super) struct Tree {
    nodes: Vec<Node>,
    callees: FxHashMap<(ContextId, Place), ContextId>,
    /// The callees that were asked for last.
    recent: Box<[(ContextId, Place, ContextId)]>,
    most_nodes: usize,
    /// Calls that there was no room for.
    pub(super) missing: u64,
}

#[derive(Debug, Clone, Copy)]
struct Node {
    caller: ContextId,
    is_recursive: bool,
    place: Place,
}

/// Where a context was left for a further one: the address of an instruction, with a mark that no
/// address of a program has where a signal was the reason.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct Place(u64);

const INTERRUPTED: u64 = 1 << 63;
const RECENT: usize = 1 << 11;

impl Place {
    pub(super) fn call(pc: u64) -> Place {
        Place(pc & !INTERRUPTED)
    }

    pub(super) fn interrupted(pc: u64) -> Place {
        Place(pc | INTERRUPTED)
    }
}

impl Tree {
    /// What one node takes, with its entry among the callees and room to grow.
    const NODE_BYTES: usize =
        2 * (size_of::<Node>() + size_of::<((ContextId, Place), ContextId)>());

    pub(super) fn new(most_bytes: usize) -> Tree {
        let nowhere = Node {
            caller: ContextId::NONE,
            is_recursive: false,
            place: Place(0),
        };
        Tree {
            nodes: vec![nowhere],
            callees: FxHashMap::default(),
            recent: vec![(ContextId::NONE, Place(u64::MAX), ContextId::NONE); RECENT].into(),
            most_nodes: (most_bytes / Tree::NODE_BYTES).min(u32::MAX as usize),
            missing: 0,
        }
    }

    /// The context behind a call from another one. Where there is no room it is that of the caller.
    #[inline]
    pub(super) fn callee(&mut self, caller: ContextId, place: Place) -> ContextId {
        let mixed = place.0 ^ u64::from(caller.0).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 20;
        let recent = (mixed ^ mixed >> 11) as usize % RECENT;
        let (known_caller, known_place, callee) = self.recent[recent];
        if known_caller == caller && known_place == place {
            return callee;
        }
        let callee = self.look_up(caller, place);
        self.recent[recent] = (caller, place, callee);
        callee
    }

    fn look_up(&mut self, caller: ContextId, place: Place) -> ContextId {
        if let Some(&callee) = self.callees.get(&(caller, place)) {
            return callee;
        }
        if self.callees.len() >= self.most_nodes {
            self.missing += 1;
            return caller;
        }
        let callee = match self.on_path(caller, place) {
            Some(before) => {
                self.nodes[before.0 as usize].is_recursive = true;
                before
            }
            None => {
                self.nodes.push(Node {
                    caller,
                    is_recursive: false,
                    place,
                });
                ContextId(self.nodes.len() as u32 - 1)
            }
        };
        self.callees.insert((caller, place), callee);
        callee
    }

    /// The node of a place on the path to a context.
    fn on_path(&self, context: ContextId, place: Place) -> Option<ContextId> {
        let mut path = self.path(context);
        path.find(|&node| self.nodes[node.0 as usize].place == place)
    }

    /// The nodes that led to a context, itself first.
    fn path(&self, context: ContextId) -> impl Iterator<Item = ContextId> {
        let is_some = |context: &ContextId| *context != ContextId::NONE;
        std::iter::successors(Some(context).filter(is_some), move |context| {
            Some(self.nodes[context.0 as usize].caller).filter(is_some)
        })
    }

    /// Whether another context is on the path to one, or is that.
    pub(super) fn leads_through(&self, context: ContextId, other: ContextId) -> bool {
        other == ContextId::NONE || self.path(context).any(|node| node == other)
    }

    pub(super) fn calls(&self, context: ContextId) -> Vec<CallSite> {
        let nodes = self.path(context).map(|node| self.nodes[node.0 as usize]);
        let calls = nodes.map(|node| CallSite {
            pc: node.place.0 & !INTERRUPTED,
            is_interrupted: node.place.0 & INTERRUPTED != 0,
            is_recursive: node.is_recursive,
        });
        calls.collect()
    }
}
