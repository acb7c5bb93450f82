//! Tests: the fast path accepts the same texts as the parser, with the same values. Texts of a
//! stream have the same keys, some of them, or others; some are damaged, and anything may follow
//! them.

use std::ops::Range;

use proptest::prelude::*;

use super::fast_path;
use super::key_cache::KeyCache;
use super::parser::{JsonValue, ValueKind, parse};
use crate::pointers::PointerTree;

/// Keys, with their escapes.
const KEYS: [&str; 14] = [
    "a",
    "b",
    "\\u0061",
    "0",
    "1",
    "",
    "ä",
    "\\\"",
    "a key of sixteen",
    "a key of seventeen",
    "a key of more than 32 bytes, with its blanks",
    "id",
    "text",
    "\\ud83d\\ude00",
];
/// Keys of the pointers.
const POINTER_KEYS: [&str; 7] = ["a", "b", "0", "1", "ä", "id", "\""];
/// Blanks, usually the same ones.
const BLANKS: [&str; 8] = ["", "", "", " ", " ", " ", "\t \r", "                    \n"];
/// Pieces of strings.
const PIECES: [&str; 14] = [
    "a",
    "plain text of some words",
    "ä€😀",
    "\\n",
    "\\\\",
    "\\\"",
    "\\u00e4",
    "\\ud83d\\ude00",
    "\u{7f}",
    "fifteen bytes..",
    "sixteen bytes...",
    "{\"a\":[1,2]}",
    "/",
    "\\/",
];
/// Values without a random part.
const WORDS: [&str; 12] = [
    "true",
    "false",
    "null",
    "0",
    "-0",
    "0.5",
    "1e5",
    "-1.25E-10",
    "12345678901234567890",
    "[]",
    "{}",
    "\"\"",
];
/// Values that are invalid, or valid only with `nan`.
const WRONG: [&str; 19] = [
    "NaN",
    "Infinity",
    "-Infinity",
    "-NaN",
    "01",
    "-",
    "1.",
    ".5",
    "1e",
    "+1",
    "1e+",
    "tru",
    "nulls",
    "\"\\x\"",
    "\"\\ud83d\"",
    "'a'",
    "\"\u{1}\"",
    "[1,]",
    "{\"a\":1,}",
];
/// Bytes that damage a text.
const DAMAGE: &[u8] = b"\"\\{}[],:0159.eE+-truflsnNI \t\r\n\x00\x1f\x7f\xc3\xa4\xff";

/// Random numbers: xorshift.
struct Random(u64);

impl Random {
    fn below(&mut self, count: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 16) as usize % count
    }

    fn one<'a>(&mut self, all: &[&'a str]) -> &'a str {
        all[self.below(all.len())]
    }
}

/// Makes texts: one random number determines their content, another one which keys the objects
/// have.
struct Texts {
    shape: Random,
    content: Random,
}

impl Texts {
    fn value(&mut self, depth: usize, to: &mut String) {
        match self.shape.below(if depth == 0 { 5 } else { 9 }) {
            0 => to.push_str(self.content.one(&WORDS)),
            1 => to.push_str(&(self.content.0 as i64 >> self.content.below(64)).to_string()),
            2 => {
                let number =
                    self.content.0 as i64 as f64 / 10f64.powi(self.content.below(30) as i32);
                to.push_str(&number.to_string());
                self.content.below(2);
            }
            3 | 4 => {
                to.push('"');
                (0..self.content.below(5)).for_each(|_| to.push_str(self.content.one(&PIECES)));
                to.push('"');
            }
            5 | 6 => self.object(depth, to),
            _ if self.content.below(40) == 0 => to.push_str(self.content.one(&WRONG)),
            _ => self.array(depth, to),
        }
    }

    fn object(&mut self, depth: usize, to: &mut String) {
        to.push('{');
        let mut first = true;
        for _ in 0..self.shape.below(6) {
            let (key, blank) = (self.shape.one(&KEYS), self.shape.one(&BLANKS));
            // Some texts lack a key.
            let mut member = format!("\"{key}\"{blank}:{blank}");
            self.value(depth - 1, &mut member);
            if self.content.below(10) > 0 {
                to.push_str(if first { "" } else { "," });
                to.push_str(blank);
                to.push_str(&member);
                first = false;
            }
        }
        to.push_str(self.content.one(&BLANKS));
        to.push('}');
    }

    fn array(&mut self, depth: usize, to: &mut String) {
        to.push('[');
        let count = self.shape.below(4) + self.content.below(2);
        for index in 0..count {
            to.push_str(if index == 0 { "" } else { "," });
            to.push_str(self.shape.one(&BLANKS));
            self.value(depth - 1, to);
        }
        to.push_str(self.shape.one(&BLANKS));
        to.push(']');
    }
}

/// Damages a text at a few positions.
fn damage(text: &mut Vec<u8>, random: &mut Random) {
    for _ in 0..random.below(3) {
        let at = random.below(text.len());
        let byte = DAMAGE[random.below(DAMAGE.len())];
        match random.below(3) {
            0 => text[at] = byte,
            1 => text.insert(at, byte),
            _ => text.truncate(at + 1),
        }
    }
}

/// Compares the two for the line at `start`.
fn compare_line(chunk: &[u8], start: usize, tree: &PointerTree, keys: &mut KeyCache, nan: bool) {
    let length = chunk[start..].iter().position(|byte| *byte == b'\n').expect("a line end");
    let next = start + length + 1;
    let line = chunk[start..next - 1].strip_suffix(b"\r").unwrap_or(&chunk[start..next - 1]);
    let range = start..start + line.len();
    let mut expected = vec![None; tree.count()];
    let is_valid = parse(chunk, range.clone(), tree, &mut expected, nan).is_ok();
    let mut found = vec![None; tree.count()];
    let plain = fast_path::parse_line(chunk, start, tree, keys, &mut found, nan);
    let shown = String::from_utf8_lossy(line);
    assert!(is_valid || plain.is_none(), "{shown:?} is not valid");
    if chunk.len() - next >= 64 {
        assert_eq!(plain.is_some(), is_valid, "{shown:?}");
    }
    if let Some(plain) = plain {
        assert_eq!(plain, (range, next), "{shown:?}");
        assert_eq!(places(&found), places(&expected), "{shown:?}");
    }
}

fn places(values: &[Option<JsonValue>]) -> Vec<Option<(ValueKind, Range<usize>)>> {
    values.iter().map(|value| value.map(|v| (v.kind, v.range()))).collect()
}

/// Compares the two for a stream of texts.
fn compare(seed: u64, nan: bool, pointers: &[Vec<String>]) {
    let tree = PointerTree::new(pointers);
    let (mut keys, mut line_keys) = (KeyCache::default(), KeyCache::default());
    let mut random = Random(seed | 1);
    let mut shape = random.below(1 << 40) as u64 | 1;
    for _ in 0..8 {
        if random.below(4) == 0 {
            shape = random.below(1 << 40) as u64 | 1;
        }
        let content = Random(random.below(1 << 40) as u64 | 1);
        let mut text = random.one(&BLANKS).to_owned();
        Texts { shape: Random(shape), content }.value(4, &mut text);
        text.push_str(random.one(&BLANKS));
        let mut text = text.into_bytes();
        if random.below(3) == 0 {
            damage(&mut text, &mut random);
        }
        // The bytes after the text are not a part of it, even if they look like it.
        let before = random.below(20);
        let follows = ["\n", "\"", "0", "}", "]", " ", "1]}", ",", "\u{e4}"];
        let after = random.one(&follows).repeat(random.below(3) * 64);
        let chunk = [&vec![b'"'; before], &text[..], after.as_bytes()].concat();
        let range = before..before + text.len();
        let mut expected = vec![None; tree.count()];
        let is_valid = parse(&chunk, range.clone(), &tree, &mut expected, nan).is_ok();
        let mut found = vec![None; tree.count()];
        let is_plain = fast_path::parse(&chunk, range, &tree, &mut keys, &mut found, nan);
        let shown = || String::from_utf8_lossy(&text).into_owned();
        assert!(is_valid || !is_plain, "{seed}: {:?} is not valid", shown());
        // A number may seem to continue.
        if after.len() >= 64 && !after.starts_with(|c: char| c.is_ascii_digit()) {
            assert_eq!(is_plain, is_valid, "{seed}: {:?}", shown());
        }
        if is_plain {
            assert_eq!(places(&found), places(&expected), "{seed}: {:?}", shown());
        }
        let end = random.one(&["\n", "\r\n", " \n", "\t \r\n"]);
        let after = random.one(&follows).repeat(random.below(3) * 64);
        let chunk = [&vec![b'"'; before], &text[..], end.as_bytes(), after.as_bytes()].concat();
        compare_line(&chunk, before, &tree, &mut line_keys, nan);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 4_000, ..ProptestConfig::default() })]

    #[test]
    fn the_fast_path_takes_what_the_parser_takes(
        seed: u64,
        nan: bool,
        pointers in prop::collection::vec(
            prop::collection::vec(prop::sample::select(&POINTER_KEYS[..]), 0..4),
            0..4,
        ),
    ) {
        let pointers: Vec<Vec<String>> =
            pointers.iter().map(|keys| keys.iter().map(|key| key.to_string()).collect()).collect();
        compare(seed, nan, &pointers);
    }
}

#[test]
fn arrays_may_be_128_deep() {
    for depth in [127, 128, 129] {
        let text = ["[".repeat(depth), "]".repeat(depth), " ".repeat(64)].concat();
        let tree = PointerTree::new(&[]);
        let (mut keys, mut found) = (KeyCache::default(), vec![None; tree.count()]);
        let range = 0..2 * depth;
        let is_plain =
            fast_path::parse(text.as_bytes(), range, &tree, &mut keys, &mut found, false);
        assert_eq!(is_plain, depth <= 128);
    }
}

/// A key that occurred in an invalid text is not a reason to accept another one.
#[test]
fn keys_of_damaged_texts() {
    let tree = PointerTree::new(&[]);
    let (mut keys, mut found) = (KeyCache::default(), vec![None; tree.count()]);
    let padding = [b' '; 64];
    for text in [
        &b"{\"a\":1,\"\xff\":2}"[..],
        b"{\"a\":1,\"\xff\":2}",
        b"{\"a\":1,,\"b\":2}",
        b"{,\"b\":2}",
    ] {
        let chunk = [text, &padding].concat();
        assert!(!fast_path::parse(&chunk, 0..text.len(), &tree, &mut keys, &mut found, false));
    }
}

/// A known key is also found before other blanks.
#[test]
fn blanks_after_a_known_key() {
    let tree = PointerTree::new(&[vec!["a".to_owned()]]);
    let mut keys = KeyCache::default();
    for text in ["{\"a\":1}", "{\"a\": 1}", "{\"a\": \t2}", "{\"a\":   []}"] {
        let chunk = [text.as_bytes(), &[b' '; 64]].concat();
        let mut found = vec![None; tree.count()];
        assert!(fast_path::parse(&chunk, 0..text.len(), &tree, &mut keys, &mut found, false));
        assert_eq!(found[1].expect("a value").range().end, text.len() - 1);
    }
}
