//! After damage, every split gives the same records and errors.

use pipemill_npy::Npy;
use pipemill_plugin::testing::{Setup, assert_any_split};
use proptest::prelude::*;

use crate::splits::{arrays, pieces};

proptest! {
    #![proptest_config(ProptestConfig { cases: 600, ..ProptestConfig::default() })]

    #[test]
    fn any_damage(
        (mut file, _) in arrays(),
        flips in prop::collection::vec((any::<prop::sample::Index>(), 1u8..), 0..6),
        cut in prop::option::of((any::<prop::sample::Index>(), 1usize..200)),
        max_record in prop_oneof![3 => Just(64u64 << 20), 1 => 0u64..30],
        skip: bool,
        pieces in pieces(),
    ) {
        for (at, flip) in flips {
            let at = at.index(file.len());
            file[at] ^= flip;
        }
        if let Some((at, length)) = cut {
            let at = at.index(file.len());
            file.drain(at..file.len().min(at + length));
        }
        prop_assume!(!file.is_empty());
        let setup = Setup { skip, max_record, ..Setup::new(&[]) };
        assert_any_split::<Npy>(&setup, &file, &pieces);
    }

    /// Damage of the data changes only its row.
    #[test]
    fn damaged_data(
        rows in 1usize..40,
        at in any::<prop::sample::Index>(),
        flip in 1u8..,
        pieces in pieces(),
    ) {
        let mut file = crate::write::array("'<i4'", &format!("({rows},)"), &vec![5; rows * 4]);
        let data = file.len() - rows * 4;
        let at = at.index(rows * 4);
        file[data + at] ^= flip;
        let outcome = assert_any_split::<Npy>(&Setup::new(&[]), &file, &pieces);
        prop_assert_eq!(outcome.errors, []);
        let changed: Vec<_> = (0..rows).filter(|row| outcome.records[*row] != [Some(vec![5; 4])]).collect();
        prop_assert_eq!(changed, vec![at / 4]);
    }

    #[test]
    fn random_bytes(bytes in prop::collection::vec(any::<u8>(), 1..300), magic: bool, pieces in pieces()) {
        let start: &[u8] = if magic { b"\x93NUMPY\x01\x00\x20\x00{'descr': " } else { b"" };
        let file = [start, &bytes].concat();
        assert_any_split::<Npy>(&Setup::new(&[]).skipping(), &file, &pieces);
    }

    /// Headers with exchanged parts: usually valid Python, rarely a valid header.
    #[test]
    fn random_headers(
        parts in prop::collection::vec(
            prop::sample::select(vec![
                "{", "}", "(", ")", "[", "]", ",", ":", " ", "'descr'", "'fortran_order'", "'shape'", "'<f4'",
                "'|S3'", "'a'", "True", "False", "None", "3", "18446744073709551615", "0", "\n", "'\\x41'", "\"",
            ]),
            0..30,
        ),
        data in 0usize..100,
        pieces in pieces(),
    ) {
        let file = [crate::write::header(&parts.concat()), vec![0; data]].concat();
        assert_any_split::<Npy>(&Setup::new(&[]).skipping(), &file, &pieces);
    }
}
