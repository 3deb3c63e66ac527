//! A thread's constructs: for each construct and context, a record in the file and the way
//! to those nested in it.

use unspool_openmp_record::ConstructKind;
use unspool_openmp_record::layout::{NONE, block, construct, stream};

use crate::arena::{self, Fields};
use crate::{call_path, modules};

/// What tells a construct from others in the same context.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(C)]
pub(crate) struct Key {
    pub(crate) address: u64,
    pub(crate) detail: u64,
    pub(crate) kind: ConstructKind,
    /// The thread's slot, for the outermost construct of a worker.
    pub(crate) slot: u32,
}

/// A construct in one context of one thread. It is one cache line, all of which is needed at
/// every passage: a program does much between two, and what is read then has been displaced.
#[derive(Debug)]
#[repr(C, align(64))]
pub(crate) struct Node {
    pub(crate) key: Key,
    pub(crate) number: u64,
    pub(crate) record: Fields,
    pub(crate) parent: *mut Node,
    /// The next construct of the same context; after the last one the first.
    next: *mut Node,
    /// The construct nested in this one that was entered last.
    last_nested: *mut Node,
}

const _: () = assert!(size_of::<Node>() == 64);

/// Finds the construct of this key among those of one context, of which the one that was
/// entered last is given: a program usually enters the same one again, or the one that
/// followed it before.
#[inline]
fn find_among(last: &mut *mut Node, key: Key) -> Option<*mut Node> {
    let start = *last;
    let mut at = start;
    // SAFETY: nodes are never freed, and belong to the thread that calls.
    while let Some(node) = unsafe { at.as_ref() } {
        if node.key == key {
            *last = at;
            return Some(at);
        }
        at = node.next;
        if at == start {
            break;
        }
    }
    None
}

/// All constructs of one thread.
#[derive(Debug)]
pub(crate) struct Constructs {
    /// The outermost one that was entered last.
    last_outermost: *mut Node,
    block: Option<(u64, Fields)>,
}

impl Constructs {
    /// None.
    pub(crate) const fn new() -> Constructs {
        Constructs {
            last_outermost: std::ptr::null_mut(),
            block: None,
        }
    }

    /// The construct of this key within `parent`, which is made if it is new.
    #[inline]
    pub(crate) fn find(
        &mut self,
        owner: u64,
        parent: *mut Node,
        key: Key,
        now: u64,
    ) -> Option<*mut Node> {
        match self.known(parent, key) {
            Some(node) => Some(node),
            None => self.make(owner, parent, key, now),
        }
    }

    /// The same, if it is not new.
    #[inline]
    pub(crate) fn known(&mut self, parent: *mut Node, key: Key) -> Option<*mut Node> {
        find_among(self.last_within(parent), key)
    }

    /// Which construct was entered last within another, or as an outermost one.
    #[inline]
    fn last_within(&mut self, parent: *mut Node) -> &mut *mut Node {
        // SAFETY: nodes are never freed, and belong to the thread that calls.
        match unsafe { parent.as_mut() } {
            Some(parent) => &mut parent.last_nested,
            None => &mut self.last_outermost,
        }
    }

    #[cold]
    fn make(&mut self, owner: u64, parent: *mut Node, key: Key, now: u64) -> Option<*mut Node> {
        let (number, record) = self.new_record(owner)?;
        // SAFETY: nodes are never freed.
        let parent_number = unsafe { parent.as_ref() }.map_or(NONE, |parent| parent.number);
        record.set(construct::PARENT, parent_number);
        record.set(construct::ADDRESS, key.address);
        record.set(construct::DETAIL, key.detail);
        record.set(construct::SLOT, u64::from(key.slot));
        record.set(construct::FIRST, now);
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
            next: std::ptr::null_mut(),
            last_nested: std::ptr::null_mut(),
        }));
        let last = self.last_within(parent);
        // SAFETY: the node is new, and the others are never freed.
        unsafe {
            (*node).next = match last.as_mut() {
                Some(last) => std::mem::replace(&mut last.next, node),
                None => node,
            };
        }
        *last = node;
        Some(node)
    }

    fn new_record(&mut self, owner: u64) -> Option<(u64, Fields)> {
        let has_room =
            |(_, fields): &(u64, Fields)| (fields.get(block::USED) as usize) < construct::IN_BLOCK;
        if !self.block.as_ref().is_some_and(has_room) {
            self.block = arena::new_block(stream::CONSTRUCTS, owner);
        }
        let (number, fields) = self.block?;
        let index = fields.get(block::USED);
        fields.set(block::USED, index + 1);
        let record = fields.at(block::CONTENT + index as usize * construct::BYTES);
        Some(((number << 16) | index, record))
    }
}
