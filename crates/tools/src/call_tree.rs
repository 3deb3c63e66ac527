//! Tells which routines call which, how often, and how many instructions are executed in them:
//! in themselves, and with all that they call.
//!
//! A routine that ends in a jump to another one (a tail call) calls that one. What exceptions
//! and `longjmp` leave is left in the tree too.

use std::collections::HashMap;

use unspool_tool::lock::Mutex;
use unspool_tool::{
    Address, Constant, Counter, Image, StackPointer, Superblock, ThreadInfo, Tool, arguments, say,
};

/// Routines that are named have so many thousandths of all instructions, unless the argument
/// says otherwise.
const WORTH_NAMING: u64 = 1;

/// Builds a tree of calls.
pub struct CallTree {
    executed: Counter,
    names: Mutex<Vec<String>>,
    all: Mutex<Tree>,
}

/// What threads have called. The first node is what is outside of all routines.
pub struct Tree {
    nodes: Vec<Node>,
    /// Calls that have not ended: their nodes, and where their return addresses are.
    open: Vec<(usize, Address)>,
    /// What had been executed when something was last called or ended.
    seen: u64,
}

/// A routine, as called by those above it.
#[derive(Default)]
struct Node {
    routine: usize,
    calls: u64,
    executed: u64,
    callees: HashMap<usize, usize>,
}

impl Default for Tree {
    fn default() -> Tree {
        Tree {
            nodes: vec![Node::default()],
            open: Vec::new(),
            seen: 0,
        }
    }
}

impl Tree {
    fn current(&self) -> usize {
        self.open.last().map_or(0, |open| open.0)
    }

    fn pass(&mut self, executed: u64) {
        let current = self.current();
        self.nodes[current].executed += executed - self.seen;
        self.seen = executed;
    }

    fn callee(&mut self, caller: usize, routine: usize) -> usize {
        let new = self.nodes.len();
        let node = *self.nodes[caller].callees.entry(routine).or_insert(new);
        if node == new {
            self.nodes.push(Node {
                routine,
                ..Node::default()
            });
        }
        node
    }

    /// Adds another tree below a node of this one.
    fn add(&mut self, to: usize, other: &Tree, from: usize) {
        self.nodes[to].calls += other.nodes[from].calls;
        self.nodes[to].executed += other.nodes[from].executed;
        for (&routine, &node) in &other.nodes[from].callees {
            let callee = self.callee(to, routine);
            self.add(callee, other, node);
        }
    }

    fn inclusive(&self, node: usize) -> u64 {
        let node = &self.nodes[node];
        let callees = node.callees.values().map(|&callee| self.inclusive(callee));
        node.executed + callees.sum::<u64>()
    }

    fn show(&self, node: usize, depth: usize, least: u64, names: &[String], text: &mut String) {
        let mut callees: Vec<_> = self.nodes[node].callees.values().copied().collect();
        callees.sort_unstable_by_key(|&callee| (u64::MAX - self.inclusive(callee), callee));
        for callee in callees {
            let all = self.inclusive(callee);
            let node = &self.nodes[callee];
            if all >= least {
                text.push_str(&format!(
                    "\n{all:>14} {:>14} {:>10}  {:depth$}{}",
                    node.executed, node.calls, "", names[node.routine]
                ));
                self.show(callee, depth + 1, least, names, text);
            }
        }
    }
}

impl Default for CallTree {
    fn default() -> CallTree {
        CallTree {
            executed: Counter::new(),
            names: Mutex::default(),
            all: Mutex::default(),
        }
    }
}

impl CallTree {
    fn entered(&self, tree: &mut Tree, routine: usize, place: Address) {
        tree.pass(self.executed.of_this_thread());
        let node = tree.callee(tree.current(), routine);
        tree.nodes[node].calls += 1;
        tree.open.push((node, place));
    }

    fn left(&self, tree: &mut Tree, routine: usize, place: Address) {
        tree.pass(self.executed.of_this_thread());
        let is_it = |open: &(usize, Address)| {
            *open == (open.0, place) && { tree.nodes[open.0].routine == routine }
        };
        if let Some(index) = tree.open.iter().rposition(is_it) {
            tree.open.remove(index);
        }
    }
}

impl Tool for CallTree {
    type Thread = Tree;

    fn instrument(&self, superblock: &Superblock<Self>) {
        for instruction in superblock.instructions() {
            instruction.before().count(self.executed, 1);
        }
    }

    fn image_load(&self, image: &Image<Self>) {
        let mut names = self.names.lock();
        for routine in image.routines() {
            let number = Constant(names.len());
            names.push(routine.name());
            let arguments = (number, StackPointer);
            routine.entry().call(CallTree::entered, arguments);
            routine.exit().call(CallTree::left, arguments);
            routine.unwind().call(CallTree::left, arguments);
        }
    }

    fn thread_end(&self, _: &ThreadInfo, mut tree: Tree) {
        tree.pass(self.executed.of_this_thread());
        let mut all = self.all.lock();
        all.add(0, &tree, 0);
    }

    fn forked(&self, tree: &mut Tree) {
        *tree = Tree::default();
        *self.all.lock() = Tree::default();
    }

    fn end(&self) {
        let all = self.all.lock();
        let names = self.names.lock();
        let executed = all.inclusive(0);
        let thousandths = arguments()
            .first()
            .and_then(|text| text.to_str()?.parse().ok());
        let thousandths = thousandths.unwrap_or(WORTH_NAMING);
        let mut text = format!("{executed} instructions");
        if thousandths <= 1000 {
            let least = executed * thousandths / 1000;
            text.push_str("\n  with callees         itself      calls");
            all.show(0, 0, least, &names, &mut text);
        }
        say(&text);
    }
}
