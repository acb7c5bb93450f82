//! Every split of valid and damaged input, and of any bytes, gives the same records and errors,
//! with all options and limits. `model` gives the expected records.

use pipemill_msgpack::Msgpack;
use pipemill_plugin::testing::{Setup, assert_any_split};
use proptest::prelude::*;

use crate::write::{damage, damaged, file, values};

/// The options with which each input is decoded.
const OPTIONS: [&[(&str, &str)]; 5] = [
    &[],
    &[("fields", "a:bytes?,b=/a/b:utf8?,c=/b/0:int64?")],
    &[("fields", "a:int16")],
    &[("fields", "v=0:float32[]?,w=a:utf8[]?,x=b:int64[]?")],
    &[("fields", "whole=:bytes[]?,t=a:timestamp?,h=b:bfloat16?")],
];

fn pieces() -> impl Strategy<Value = Vec<usize>> {
    prop::collection::vec(1usize..60, 0..30)
}

fn max_record() -> impl Strategy<Value = u64> {
    prop_oneof![2 => Just(64u64 << 20), 2 => 0u64..60, 1 => Just(u64::MAX)]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2_000, ..ProptestConfig::default() })]

    #[test]
    fn values_and_damage(
        values in values(),
        damage in damage(),
        index in 0..OPTIONS.len(),
        skip: bool,
        max_record in max_record(),
        pieces in pieces(),
    ) {
        let bytes = damaged(file(&values), &damage);
        let setup = Setup { skip, max_record, ..Setup::new(OPTIONS[index]) };
        assert_any_split::<Msgpack>(&setup, &bytes, &pieces);
    }

    #[test]
    fn any_bytes(
        bytes in prop::collection::vec(prop_oneof![1 => any::<u8>(), 1 => 0x80u8..0xe0, 1 => 0u8..4], 0..200),
        index in 0..OPTIONS.len(),
        skip: bool,
        max_record in max_record(),
        pieces in pieces(),
    ) {
        let setup = Setup { skip, max_record, ..Setup::new(OPTIONS[index]) };
        assert_any_split::<Msgpack>(&setup, &bytes, &pieces);
    }
}
