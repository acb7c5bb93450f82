//! Every split gives the same rows and errors, of whole and of damaged files.

use pipemill_parquet::Parquet;
use pipemill_plugin::testing::{decode_split, decode_whole};
use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;
use proptest::sample::Index;

use crate::{FILES, NESTED, setup};

proptest! {
    #[test]
    fn any_pieces_give_the_same(
        file in 0..=FILES.len(),
        sizes in vec(prop_oneof![1usize..20, 1usize..9000], 0..40),
        damage in vec((any::<Index>(), any::<u8>()), 0..3),
        skips in any::<bool>(),
        room in option::weighted(0.3, -30i64..30),
    ) {
        let (options, file) = match FILES.get(file) {
            Some(file) => (&[][..], *file),
            None => (&[("columns", "map,user,people")][..], NESTED),
        };
        let mut bytes = file.to_vec();
        for (at, byte) in damage {
            let at = at.index(bytes.len());
            bytes[at] ^= byte;
        }
        let mut setup = if skips { setup(options).skipping() } else { setup(options) };
        if let Some(room) = room {
            setup.max_record = bytes.len().saturating_add_signed(room as isize) as u64;
        }
        let whole = decode_whole::<Parquet>(&setup, &bytes);
        prop_assert_eq!(whole, decode_split::<Parquet>(&setup, &bytes, &sizes));
    }
}
