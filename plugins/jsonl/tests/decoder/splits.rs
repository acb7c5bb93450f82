//! Every split of valid and damaged text gives the same records and errors, with all options.

use pipemill_jsonl::Jsonl;
use pipemill_plugin::testing::{Setup, assert_any_split};
use proptest::prelude::*;

use crate::texts::{damage, damaged, json};

/// The options with which each input is decoded.
const OPTIONS: [&[(&str, &str)]; 5] = [
    &[],
    &[("validate", "false")],
    &[("fields", "/a:bytes?,b=/a/b:utf8?,root=:bytes")],
    &[("fields", "/a:utf8")],
    &[("fields", "/0:float32,v=:float32[]?")],
];

proptest! {
    #![proptest_config(ProptestConfig { cases: 2_000, ..ProptestConfig::default() })]

    #[test]
    fn any_split(
        lines in prop::collection::vec((json(), prop::sample::select(vec!["\n", "\r\n", "\n \n"])), 0..8),
        damage in damage(),
        mark: bool,
        index in 0..OPTIONS.len(),
        skip: bool,
        max_record in prop_oneof![3 => Just(64u64 << 20), 1 => 0u64..60],
        pieces in prop::collection::vec(1usize..60, 0..30),
    ) {
        let mut text = if mark { "\u{feff}".as_bytes().to_vec() } else { Vec::new() };
        for (line, end) in &lines {
            text.extend_from_slice(line.as_bytes());
            text.extend_from_slice(end.as_bytes());
        }
        let text = damaged(text, &damage);
        let setup = Setup { skip, max_record, ..Setup::new(OPTIONS[index]) };
        assert_any_split::<Jsonl>(&setup, &text, &pieces);
    }
}
