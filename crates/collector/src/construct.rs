//! A thread's constructs: for each construct and context, a record in the file and the way
//! to those nested in it.

use unspool_openmp_record::Kind;
use unspool_openmp_record::layout::{BLOCK_HEADER_BYTES, NONE, block, construct};

use crate::arena::{self, Fields};
use crate::{call_path, modules};

/// What tells a construct from others in the same context.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Key {
    pub(crate) kind: Kind,
    pub(crate) address: u64,
    pub(crate) detail: u64,
    /// The thread's place, for the outermost construct of a worker.
    pub(crate) place: u64,
}

/// A construct in one context of one thread.
#[derive(Debug)]
pub(crate) struct Node {
    pub(crate) key: Key,
    pub(crate) number: u64,
    pub(crate) record: Fields,
    pub(crate) parent: *mut Node,
    nested: Siblings,
}

/// Constructs of the same context, in the order in which they were first entered. A program
/// usually enters the same one again, or the one that followed it before.
#[derive(Debug, Default)]
struct Siblings {
    all: Vec<(Key, *mut Node)>,
    last: usize,
}

impl Siblings {
    #[inline]
    fn find(&mut self, key: Key) -> Option<*mut Node> {
        let (before, from_last) = self.all.split_at(self.last);
        let is_it = |(found, _): &(Key, *mut Node)| *found == key;
        let index = match from_last.iter().position(is_it) {
            Some(after) => self.last + after,
            None => before.iter().position(is_it)?,
        };
        self.last = index;
        Some(self.all[index].1)
    }
}

/// All constructs of one thread.
#[derive(Debug, Default)]
pub(crate) struct Constructs {
    outermost: Siblings,
    block: Option<(u64, Fields)>,
}

impl Constructs {
    /// The construct of this key within `parent`, which is made if it is new.
    #[inline]
    pub(crate) fn find(&mut self, owner: u64, parent: *mut Node, key: Key) -> Option<*mut Node> {
        // SAFETY: nodes are never freed, and belong to the thread that calls.
        let siblings = match unsafe { parent.as_mut() } {
            Some(parent) => &mut parent.nested,
            None => &mut self.outermost,
        };
        if let Some(node) = siblings.find(key) {
            return Some(node);
        }
        self.make(owner, parent, key)
    }

    #[cold]
    fn make(&mut self, owner: u64, parent: *mut Node, key: Key) -> Option<*mut Node> {
        let (number, record) = self.new_record(owner)?;
        // SAFETY: as in `find`.
        let parent_node = unsafe { parent.as_mut() };
        let parent_number = parent_node.as_ref().map_or(NONE, |parent| parent.number);
        record.set(construct::PARENT, parent_number);
        record.set(construct::ADDRESS, key.address);
        record.set(construct::DETAIL, key.detail);
        record.set(construct::PLACE, key.place);
        if key.address != 0 {
            modules::describe_at(key.address);
            record.set(construct::PATH, call_path::describe(key.address));
        }
        record.set(construct::KIND, key.kind as u64);
        let node = Box::into_raw(Box::new(Node {
            key,
            number,
            record,
            parent,
            nested: Siblings::default(),
        }));
        match parent_node {
            Some(parent) => parent.nested.all.push((key, node)),
            None => self.outermost.all.push((key, node)),
        }
        Some(node)
    }

    fn new_record(&mut self, owner: u64) -> Option<(u64, Fields)> {
        let has_room =
            |(_, fields): &(u64, Fields)| (fields.get(block::USED) as usize) < construct::IN_BLOCK;
        if !self.block.as_ref().is_some_and(has_room) {
            self.block = arena::new_block(block::CONSTRUCTS, Some(owner));
        }
        let (number, fields) = self.block?;
        let index = fields.get(block::USED);
        fields.set(block::USED, index + 1);
        let record = fields.at(BLOCK_HEADER_BYTES + index as usize * construct::BYTES);
        Some(((number << 16) | index, record))
    }
}
