//! After damage, every split gives the same records and errors, and no damaged data without an error.

use pipemill_npz::Npz;
use pipemill_plugin::testing::{Setup, assert_any_split};
use proptest::prelude::*;

use crate::setup;
use crate::splits::{archives, pieces};
use crate::write::{archive, array, deflated, member, numbers};

proptest! {
    #![proptest_config(ProptestConfig { cases: 800, ..ProptestConfig::default() })]

    #[test]
    fn any_damage(
        (options, mut file, _) in archives(),
        flips in prop::collection::vec((any::<prop::sample::Index>(), 1u8..), 0..5),
        cut in prop::option::of((any::<prop::sample::Index>(), 1usize..200)),
        max_record in prop_oneof![3 => Just(64u64 << 20), 1 => 0u64..3000],
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
        let setup = Setup { skip, max_record, ..setup(&options) };
        assert_any_split::<Npz>(&setup, &file, &pieces);
    }

    /// A damaged byte of data is always an error.
    #[test]
    fn damaged_data(
        rows in 1usize..200,
        is_deflated: bool,
        is_sample: bool,
        at in any::<prop::sample::Index>(),
        flip in 1u8..,
        pieces in pieces(),
    ) {
        let array = array("'<i2'", &format!("({rows},)"), &numbers(rows));
        let x = member("x.npy", &array);
        let x = if is_deflated { deflated(x) } else { x };
        let mut file = archive(std::slice::from_ref(&x));
        let options = [("fields", "x:int16[]")];
        let setup = setup(if is_sample { &options } else { &[] }).skipping();
        let sound = assert_any_split::<Npz>(&setup, &file, &pieces);
        let data = if is_deflated { 35 } else { 35 + array.len() - rows * 2 };
        let at = at.index(x.bytes().len() - data);
        file[data + at] ^= flip;
        let outcome = assert_any_split::<Npz>(&setup, &file, &pieces);
        if is_deflated && outcome.errors.is_empty() {
            // Deflate has bits without a meaning.
            prop_assert_eq!(outcome.records.concat(), sound.records.concat());
            return Ok(());
        }
        prop_assert_eq!(outcome.errors.len(), 1);
        if is_sample || is_deflated {
            prop_assert_eq!(outcome.records.len(), 0);
        } else {
            prop_assert_eq!(outcome.records.len(), rows - 1, "the last row was held back");
        }
    }

    #[test]
    fn random_bytes(bytes in prop::collection::vec(any::<u8>(), 1..300), start in 0usize..4, pieces in pieces()) {
        let start: &[u8] = [&b""[..], b"PK\x03\x04", b"PK\x05\x06", b"PK\x03\x04\x14\0\0\0\0\0\0\0\0\0"][start];
        let file = [start, &bytes].concat();
        for options in [&[][..], &[("fields", "x")]] {
            assert_any_split::<Npz>(&setup(options).skipping(), &file, &pieces);
        }
    }
}
