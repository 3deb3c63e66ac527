//! The calling context tree, by function.

use rustc_hash::FxHashMap;

/// A function's place in the profile's list.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct FunctionId(pub usize);

/// A function called along one path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TreeNode {
    /// The function.
    pub function: FunctionId,
    /// The place of its caller in the tree, which is before its own; none for an outermost one.
    pub parent: Option<usize>,
    /// The time in the function itself.
    pub self_weight: u64,
    /// The same with what it called.
    pub total_weight: u64,
}

/// A tree of calls: what was called from where.
#[derive(Debug, Clone, Default)]
pub struct CallTree {
    nodes: Vec<TreeNode>,
    places: FxHashMap<(Option<usize>, FunctionId), usize>,
}

impl CallTree {
    /// The place of a function called from another place. A function that calls itself stays where
    /// it is.
    pub(crate) fn place(&mut self, parent: Option<usize>, function: FunctionId) -> usize {
        if let Some(parent) = parent
            && self.nodes[parent].function == function
        {
            return parent;
        }
        let next = self.nodes.len();
        let place = *self.places.entry((parent, function)).or_insert(next);
        if place == next {
            self.nodes.push(TreeNode {
                function,
                parent,
                self_weight: 0,
                total_weight: 0,
            });
        }
        place
    }

    /// The place of a function called from another place, if it is there.
    pub(crate) fn known(&self, parent: Option<usize>, function: FunctionId) -> Option<usize> {
        match parent {
            Some(parent) if self.nodes[parent].function == function => Some(parent),
            _ => self.places.get(&(parent, function)).copied(),
        }
    }

    /// Time was spent there.
    pub(crate) fn spend(&mut self, place: usize, ns: u64) {
        let node = &mut self.nodes[place];
        node.self_weight = node.self_weight.saturating_add(ns);
    }

    /// All time has been added: works the totals out.
    pub(crate) fn sum_up(&mut self) {
        for place in (0..self.nodes.len()).rev() {
            let node = &mut self.nodes[place];
            node.total_weight = node.total_weight.saturating_add(node.self_weight);
            let (parent, total_weight) = (node.parent, node.total_weight);
            if let Some(parent) = parent {
                let parent = &mut self.nodes[parent];
                parent.total_weight = parent.total_weight.saturating_add(total_weight);
            }
        }
    }

    /// All places, callers before those they call.
    #[must_use]
    pub fn nodes(&self) -> &[TreeNode] {
        &self.nodes
    }

    /// The places that are called from each, those with the most time first; behind them, the
    /// outermost ones.
    pub(crate) fn children(&self) -> (Vec<Vec<usize>>, Vec<usize>) {
        let mut children = vec![Vec::new(); self.nodes.len()];
        let mut outermost = Vec::new();
        for (place, node) in self.nodes.iter().enumerate() {
            match node.parent {
                Some(parent) => children[parent].push(place),
                None => outermost.push(place),
            }
        }
        let by_time = |place: &usize| std::cmp::Reverse(self.nodes[*place].total_weight);
        children
            .iter_mut()
            .for_each(|list| list.sort_by_key(by_time));
        outermost.sort_by_key(by_time);
        (children, outermost)
    }

    /// The places from one out to the outermost.
    pub fn path(&self, place: usize) -> impl Iterator<Item = &TreeNode> {
        let mut next = Some(place);
        std::iter::from_fn(move || {
            let node = &self.nodes[next?];
            next = node.parent;
            Some(node)
        })
    }

    /// The functions in which time was spent, each with those that called it below it: the tree
    /// from below.
    #[must_use]
    pub fn callers(&self) -> CallTree {
        let mut callers = CallTree::default();
        for (place, node) in self.nodes.iter().enumerate() {
            if node.self_weight == 0 {
                continue;
            }
            let mut at = None;
            for caller in self.path(place) {
                at = Some(callers.place(at, caller.function));
            }
            if let Some(at) = at {
                callers.spend(at, node.self_weight);
            }
        }
        callers.sum_up();
        callers
    }

    /// The time on paths that lead through each function, however often.
    pub(crate) fn totals(&self, functions: usize) -> Vec<u64> {
        let mut totals = vec![0_u64; functions];
        for (place, node) in self.nodes.iter().enumerate() {
            let is_outer = self
                .path(place)
                .skip(1)
                .all(|caller| caller.function != node.function);
            if is_outer {
                let total = &mut totals[node.function.0];
                *total = total.saturating_add(node.total_weight);
            }
        }
        totals
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A tree of paths, outermost function first, with the time spent at the end of each.
    fn tree(paths: &[(&[usize], u64)]) -> CallTree {
        let mut tree = CallTree::default();
        for (path, ns) in paths {
            let mut at = None;
            for &function in *path {
                at = Some(tree.place(at, FunctionId(function)));
            }
            tree.spend(at.unwrap(), *ns);
        }
        tree.sum_up();
        tree
    }

    #[test]
    fn time_goes_to_each_caller_once() {
        // 0 calls 1 and 2; both call 3, which calls 2 again.
        let tree = tree(&[(&[0, 1, 3], 70), (&[0, 2, 3], 20), (&[0, 2, 3, 2], 10)]);
        assert_eq!(tree.totals(4), [100, 70, 30, 100]);
        let selves: Vec<u64> = tree.nodes().iter().map(|node| node.self_weight).collect();
        assert_eq!(selves.iter().sum::<u64>(), 100);
    }

    #[test]
    fn a_function_that_calls_itself_is_one_place() {
        let tree = tree(&[(&[0, 1, 1, 1], 5), (&[0, 1], 6)]);
        assert_eq!(tree.nodes().len(), 2);
        assert_eq!(tree.nodes()[1].self_weight, 11);
        assert_eq!(tree.totals(2), [11, 11]);
    }

    #[test]
    fn from_below_time_is_shared_among_callers() {
        let callers = tree(&[(&[0, 1, 3], 70), (&[0, 2, 3], 30)]).callers();
        let of = |function, parent: Option<usize>| {
            let is = |node: &&TreeNode| {
                let called = node.parent.map(|parent| callers.nodes()[parent].function.0);
                node.function.0 == function && called == parent
            };
            callers
                .nodes()
                .iter()
                .find(is)
                .map(|node| node.total_weight)
        };
        assert_eq!(
            (of(3, None), of(1, Some(3)), of(2, Some(3))),
            (Some(100), Some(70), Some(30))
        );
        assert_eq!(of(0, None), None);
    }
}
