//! JSON pointers (RFC 6901) as selectors of fields, and the tree of their keys, for decoders of nested
//! maps and arrays.

use std::ops::Range;

use crate::field_spec::{FieldSpec, SpecOption};

/// The node of a value that is not in the tree because it is not wanted.
pub const NO_NODE: usize = usize::MAX;

/// A tree of keys. All nodes below a node have the numbers that follow it.
#[derive(Debug)]
pub struct PointerTree {
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
    /// The node of the whole record.
    pub const ROOT: usize = 0;

    /// The tree of these pointers, each given by its keys.
    #[must_use]
    pub fn new(paths: &[Vec<String>]) -> Self {
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
    pub fn count(&self) -> usize {
        self.nodes.len()
    }

    /// The node at the end of one of the paths from which the tree was made.
    pub fn at(&self, path: &[String]) -> usize {
        path.iter().fold(Self::ROOT, |node, key| self.key(node, key.as_bytes()))
    }

    /// Whether this node's value contains wanted values. [`NO_NODE`] contains none.
    #[inline(always)]
    pub fn has_children(&self, node: usize) -> bool {
        self.nodes.get(node).is_some_and(|node| !node.children.is_empty())
    }

    /// The child of `node` with this key.
    #[inline(always)]
    pub fn key(&self, node: usize, key: &[u8]) -> usize {
        let Some(node) = self.nodes.get(node) else { return NO_NODE };
        let child = node.children.iter().find(|child| child.key.as_bytes() == key);
        child.map_or(NO_NODE, |child| child.node)
    }

    /// The child of `node` for this index of an array.
    #[inline(always)]
    pub fn index(&self, node: usize, index: u64) -> usize {
        let Some(node) = self.nodes.get(node) else { return NO_NODE };
        let child = node.children.iter().find(|child| child.index == Some(index));
        child.map_or(NO_NODE, |child| child.node)
    }

    /// The numbers of a node and of all nodes below it.
    pub fn below(&self, node: usize) -> Range<usize> {
        node..self.nodes[node].end
    }
}

/// The index that a key is, if it can be one: digits without leading zeros.
fn array_index(key: &str) -> Option<u64> {
    let plain = key == "0" || !key.starts_with('0');
    (plain && key.bytes().all(|byte| byte.is_ascii_digit())).then(|| key.parse().ok())?
}

/// The keys of a pointer: `/a/b` has two, the empty pointer has none. `~1` is a slash, `~0` a
/// tilde. `None` if the pointer is not valid.
#[must_use]
pub fn pointer_keys(pointer: &str) -> Option<Vec<String>> {
    if pointer.is_empty() {
        return Some(Vec::new());
    }
    let keys = pointer.strip_prefix('/')?.split('/');
    keys.map(unescape).collect()
}

/// A key without escapes; `None` if it has an invalid one.
fn unescape(key: &str) -> Option<String> {
    let mut parts = key.split('~');
    let mut text = parts.next()?.to_owned();
    for part in parts {
        let (char, rest) = match part.strip_prefix('1') {
            Some(rest) => ('/', rest),
            None => ('~', part.strip_prefix('0')?),
        };
        text.push(char);
        text.push_str(rest);
    }
    Some(text)
}

/// The name of the field that a pointer selects: the name in the spec, otherwise the last key.
///
/// # Errors
/// The error is a message for the operator, if that is empty.
pub fn field_name(
    option: &SpecOption,
    spec: &FieldSpec,
    keys: &[String],
) -> Result<String, String> {
    let name = spec.name.as_ref().or(keys.last()).filter(|name| !name.is_empty());
    name.cloned().ok_or_else(|| {
        let (option, pointer) = (option.name, &spec.selector);
        format!("option `{option}`: `{pointer}` gives no name; put one before it, as in \"name={pointer}\"")
    })
}

/// The number of elements of the array that a pointer selects: 0 for any number, `None` if it is a
/// single value.
///
/// # Errors
/// The error is a message for the operator, if the shape has several dimensions.
pub fn array_size(
    option: &SpecOption,
    spec: &FieldSpec,
    shape: &[u32],
) -> Result<Option<u32>, String> {
    match shape {
        [] => Ok(None),
        [size] => Ok(Some(*size)),
        _ => {
            let (option, pointer) = (option.name, &spec.selector);
            Err(format!(
                "option `{option}`: `{pointer}` can't be an array in rows; arrays have one size, as in \
                 \"{pointer}:float32[128]\", or any, as in \"{pointer}:int64[]\""
            ))
        }
    }
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
        assert_eq!((tree.count(), tree.below(a), tree.below(c)), (6, a..c, c..6));
        assert!(a < b && b < zero && zero < c);
        let [x, of_none] =
            [(PointerTree::ROOT, b"x"), (NO_NODE, b"a")].map(|(n, k)| tree.key(n, k));
        assert_eq!((x, of_none), (NO_NODE, NO_NODE));
        let d = tree.key(a, b"d");
        assert_eq!((tree.index(d, 0), tree.index(d, 1)), (zero, NO_NODE));
        let inner = [PointerTree::ROOT, a, d, b, c, NO_NODE].map(|node| tree.has_children(node));
        assert_eq!(inner, [true, true, true, false, false, false]);
    }
}
