//! Every split gives the same rows and errors, of whole and of damaged files, and decoding can
//! begin again where the decoder says.

use pipemill_arrow::Arrow;
use pipemill_plugin::testing::{Setup, assert_any_split, assert_restarts};
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::Index;

use crate::{ALL, FILES, setup};

proptest! {
    #[test]
    fn any_pieces_give_the_same(
        file in 0..ALL.len(),
        sizes in vec(prop_oneof![1usize..20, 1usize..9000], 0..40),
        damage in vec((any::<Index>(), any::<u8>()), 0..3),
        repeat in 1..3usize,
        max_record in prop_oneof![Just(64u64 << 20), 200u64..4000],
        skips in any::<bool>(),
    ) {
        let mut bytes = ALL[file].repeat(repeat);
        for (at, byte) in damage {
            let at = at.index(bytes.len());
            bytes[at] ^= byte;
        }
        let setup = Setup { max_record, ..setup(&[("columns", crate::columns(ALL[file]))]) };
        let setup = if skips { setup.skipping() } else { setup };
        assert_any_split::<Arrow>(&setup, &bytes, &sizes);
    }
}

#[test]
fn decoding_begins_again_after_each_batch() {
    for file in FILES {
        let restarts = assert_restarts::<Arrow>(&setup(&[]), file, &[100; 100]);
        assert!(restarts.len() >= 3, "{restarts:?}");
        assert!(restarts.iter().any(|restart| restart.records == 25), "{restarts:?}");
    }
}
