//! The wanted values as a tree of keys, from their JSON pointers (RFC 6901).

use std::ops::Range;

use crate::text;

/// The node of values that nobody wants.
pub(crate) const NOTHING: usize = usize::MAX;

/// A tree of keys. Nodes are numbered so that those below a node follow it.
#[derive(Debug)]
pub(crate) struct Tree {
    nodes: Vec<Node>,
}

#[derive(Debug, Default)]
struct Node {
    children: Vec<Child>,
    /// One more than the highest number below this node.
    end: usize,
}

#[derive(Debug)]
struct Child {
    key: String,
    /// The place in an array that the key is, too.
    index: Option<u64>,
    node: usize,
}

impl Tree {
    /// The node of the whole text.
    pub(crate) const ROOT: usize = 0;

    /// The tree of these paths.
    pub(crate) fn new(paths: &[Vec<String>]) -> Self {
        let mut tree = Self { nodes: Vec::new() };
        tree.grow(paths.iter().map(Vec::as_slice).collect());
        tree
    }

    /// Appends the node that these paths start at; answers its number.
    fn grow(&mut self, paths: Vec<&[String]>) -> usize {
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
            let node = self.grow(below.map(|path| &path[1..]).collect());
            let child = Child { key: key.clone(), index: index(key), node };
            self.nodes[number].children.push(child);
        }
        self.nodes[number].end = self.nodes.len();
        number
    }

    /// How many nodes there are.
    pub(crate) fn len(&self) -> usize {
        self.nodes.len()
    }

    /// The node at the end of a path that the tree was made of.
    pub(crate) fn at(&self, path: &[String]) -> usize {
        path.iter().fold(Self::ROOT, |node, key| self.key(node, key.as_bytes(), false))
    }

    /// The node that a key leads to, as it stands between quotes.
    #[inline(always)]
    pub(crate) fn key(&self, node: usize, key: &[u8], escaped: bool) -> usize {
        let Some(node) = self.nodes.get(node) else { return NOTHING };
        if escaped && !node.children.is_empty() {
            return unescaped(node, key);
        }
        node.key(key)
    }

    /// The node that a place in an array leads to.
    #[inline(always)]
    pub(crate) fn index(&self, node: usize, index: u64) -> usize {
        let Some(node) = self.nodes.get(node) else { return NOTHING };
        let child = node.children.iter().find(|child| child.index == Some(index));
        child.map_or(NOTHING, |child| child.node)
    }

    /// A node and all below it.
    pub(crate) fn below(&self, node: usize) -> Range<usize> {
        node..self.nodes[node].end
    }
}

impl Node {
    #[inline(always)]
    fn key(&self, key: &[u8]) -> usize {
        let child = self.children.iter().find(|child| child.key.as_bytes() == key);
        child.map_or(NOTHING, |child| child.node)
    }
}

#[cold]
fn unescaped(node: &Node, key: &[u8]) -> usize {
    let mut plain = Vec::new();
    text::unescape(key, &mut plain);
    node.key(&plain)
}

/// The place in an array that a key is: digits, without zeros before them.
fn index(key: &str) -> Option<u64> {
    let plain = key == "0" || !key.starts_with('0');
    (plain && key.bytes().all(|byte| byte.is_ascii_digit())).then(|| key.parse().ok())?
}

/// The keys of a pointer: `/a/b` has two, the empty pointer none. `~1` is a slash, `~0` a tilde.
pub(crate) fn path(pointer: &str) -> Option<Vec<String>> {
    if pointer.is_empty() {
        return Some(Vec::new());
    }
    let keys = pointer.strip_prefix('/')?.split('/');
    keys.map(|key| {
        let sound = key.split('~').skip(1).all(|rest| rest.starts_with(['0', '1']));
        sound.then(|| key.replace("~1", "/").replace("~0", "~"))
    })
    .collect()
}

#[cfg(test)]
mod tests {
    use super::{NOTHING, Tree, path};

    fn keys(keys: &[&str]) -> Option<Vec<String>> {
        Some(keys.iter().map(|key| key.to_string()).collect())
    }

    #[test]
    fn pointers() {
        assert_eq!(path(""), keys(&[]));
        assert_eq!(path("/"), keys(&[""]));
        assert_eq!(path("/a/b c/0"), keys(&["a", "b c", "0"]));
        assert_eq!(path("/m~0n/a~1b/~01"), keys(&["m~n", "a/b", "~1"]));
        for wrong in ["a", "/~", "/~2", "/a~/b"] {
            assert_eq!(path(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn numbers_of_nodes() {
        let paths: Vec<_> = ["/a/b", "/c", "/a", "/a/d/0"].map(|p| path(p).expect("sound")).into();
        let tree = Tree::new(&paths);
        let [b, c, a, zero] = [0, 1, 2, 3].map(|at| tree.at(&paths[at]));
        assert_eq!((tree.len(), tree.below(a), tree.below(c)), (6, a..c, c..6));
        assert!(a < b && b < zero && zero < c);
        assert_eq!(
            (tree.key(Tree::ROOT, b"x", false), tree.key(NOTHING, b"a", false)),
            (NOTHING, NOTHING)
        );
        assert_eq!(tree.key(Tree::ROOT, b"\\u0061", true), a);
        assert_eq!(tree.index(tree.key(a, b"d", false), 0), zero);
        assert_eq!(tree.index(tree.key(a, b"d", false), 1), NOTHING);
    }
}
