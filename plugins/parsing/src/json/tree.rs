//! The JSON pointers (RFC 6901) of the wanted values, as a tree of keys.

use std::ops::Range;

use super::text;

/// The node of a value that is not in the tree, because nobody wants it.
pub(super) const NO_NODE: usize = usize::MAX;

/// A tree of keys. All nodes below a node have the numbers that follow it.
#[derive(Debug)]
pub(super) struct PointerTree {
    nodes: Vec<Node>,
}

#[derive(Debug, Default)]
struct Node {
    children: Vec<Child>,
    /// One more than the highest number of the nodes below this one.
    end: usize,
}

#[derive(Debug)]
struct Child {
    key: String,
    /// The key as an index of an array, if it can be one.
    index: Option<u64>,
    node: usize,
}

impl PointerTree {
    /// The node of the whole JSON text.
    pub(super) const ROOT: usize = 0;

    /// The tree of these pointers, each given by its keys.
    pub(super) fn new(paths: &[Vec<String>]) -> Self {
        let mut tree = Self { nodes: Vec::new() };
        tree.add_node(paths.iter().map(Vec::as_slice).collect());
        tree
    }

    /// Adds the node that these paths start at, and all nodes below it. Returns its number.
    fn add_node(&mut self, paths: Vec<&[String]>) -> usize {
        let number = self.nodes.len();
        self.nodes.push(Node::default());
        let mut keys: Vec<&String> = Vec::new();
        for key in paths.iter().filter_map(|path| path.first()) {
            if !keys.contains(&key) {
                keys.push(key);
            }
        }
        for key in keys {
            let below = paths.iter().filter(|path| path.first() == Some(key));
            let node = self.add_node(below.map(|path| &path[1..]).collect());
            let child = Child { key: key.clone(), index: array_index(key), node };
            self.nodes[number].children.push(child);
        }
        self.nodes[number].end = self.nodes.len();
        number
    }

    /// Number of nodes.
    pub(super) fn len(&self) -> usize {
        self.nodes.len()
    }

    /// The node at the end of one of the paths that the tree was made from.
    pub(super) fn at(&self, path: &[String]) -> usize {
        path.iter().fold(Self::ROOT, |node, key| self.key(node, key.as_bytes(), false))
    }

    /// The child of `node` with this key. `key` is the bytes between the quotes, with escapes if
    /// `escaped`.
    #[inline(always)]
    pub(super) fn key(&self, node: usize, key: &[u8], escaped: bool) -> usize {
        let Some(node) = self.nodes.get(node) else { return NO_NODE };
        if escaped && !node.children.is_empty() {
            return node.escaped_key(key);
        }
        node.key(key)
    }

    /// The child of `node` for this index of an array.
    #[inline(always)]
    pub(super) fn index(&self, node: usize, index: u64) -> usize {
        let Some(node) = self.nodes.get(node) else { return NO_NODE };
        let child = node.children.iter().find(|child| child.index == Some(index));
        child.map_or(NO_NODE, |child| child.node)
    }

    /// The numbers of a node and of all nodes below it.
    pub(super) fn below(&self, node: usize) -> Range<usize> {
        node..self.nodes[node].end
    }
}

impl Node {
    #[inline(always)]
    fn key(&self, key: &[u8]) -> usize {
        let child = self.children.iter().find(|child| child.key.as_bytes() == key);
        child.map_or(NO_NODE, |child| child.node)
    }

    #[cold]
    fn escaped_key(&self, key: &[u8]) -> usize {
        let mut plain = Vec::new();
        text::unescape(key, &mut plain);
        self.key(&plain)
    }
}

/// The index that a key is, if it can be one: digits without leading zeros.
fn array_index(key: &str) -> Option<u64> {
    let plain = key == "0" || !key.starts_with('0');
    (plain && key.bytes().all(|byte| byte.is_ascii_digit())).then(|| key.parse().ok())?
}

/// The keys of a pointer: `/a/b` has two, the empty pointer has none. `~1` is a slash, `~0` a
/// tilde. `None` if the pointer is not valid.
pub fn pointer_keys(pointer: &str) -> Option<Vec<String>> {
    if pointer.is_empty() {
        return Some(Vec::new());
    }
    let keys = pointer.strip_prefix('/')?.split('/');
    keys.map(|key| {
        let valid = key.split('~').skip(1).all(|rest| rest.starts_with(['0', '1']));
        valid.then(|| key.replace("~1", "/").replace("~0", "~"))
    })
    .collect()
}

#[cfg(test)]
mod tests {
    use super::{NO_NODE, PointerTree, pointer_keys};

    fn keys(keys: &[&str]) -> Option<Vec<String>> {
        Some(keys.iter().map(|key| key.to_string()).collect())
    }

    #[test]
    fn pointers() {
        assert_eq!(pointer_keys(""), keys(&[]));
        assert_eq!(pointer_keys("/"), keys(&[""]));
        assert_eq!(pointer_keys("/a/b c/0"), keys(&["a", "b c", "0"]));
        assert_eq!(pointer_keys("/m~0n/a~1b/~01"), keys(&["m~n", "a/b", "~1"]));
        for wrong in ["a", "/~", "/~2", "/a~/b"] {
            assert_eq!(pointer_keys(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn nodes_below_a_node_follow_it() {
        let paths: Vec<_> = ["/a/b", "/c", "/a", "/a/d/0"]
            .map(|p| pointer_keys(p).expect("a valid pointer"))
            .into();
        let tree = PointerTree::new(&paths);
        let [b, c, a, zero] = [0, 1, 2, 3].map(|at| tree.at(&paths[at]));
        assert_eq!((tree.len(), tree.below(a), tree.below(c)), (6, a..c, c..6));
        assert!(a < b && b < zero && zero < c);
        assert_eq!(
            (tree.key(PointerTree::ROOT, b"x", false), tree.key(NO_NODE, b"a", false)),
            (NO_NODE, NO_NODE)
        );
        assert_eq!(tree.key(PointerTree::ROOT, b"\\u0061", true), a);
        assert_eq!(tree.index(tree.key(a, b"d", false), 0), zero);
        assert_eq!(tree.index(tree.key(a, b"d", false), 1), NO_NODE);
    }
}
