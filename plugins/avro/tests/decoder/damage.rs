//! After damage, every split gives the same records and errors, and the records of all blocks that
//! are not damaged.

use pipemill_avro::Avro;
use pipemill_plugin::testing::{Record, assert_any_split};
use proptest::prelude::*;

use crate::splits::{SCHEMA, Written, block_bytes, blocks, codec, file, pieces, setup_with};
use crate::write::header;

fn records(blocks: &[Vec<Written>]) -> Vec<Record> {
    blocks.concat().into_iter().map(|written| written.record).collect()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 600, ..ProptestConfig::default() })]

    /// Some bytes of a block are overwritten: of its head, its records or its marker.
    #[test]
    fn one_damaged_block(
        codec in codec(),
        blocks in blocks(1..7),
        number in any::<prop::sample::Index>(),
        at in any::<prop::sample::Index>(),
        near_an_end in prop::option::of(0usize..40),
        with in prop::collection::vec(any::<u8>(), 1..8),
        pieces in pieces(),
    ) {
        let number = number.index(blocks.len());
        let start = header(SCHEMA, codec).len()
            + blocks[..number].iter().map(|records| block_bytes(codec, records).len()).sum::<usize>();
        let size = block_bytes(codec, &blocks[number]).len();
        // Heads and markers are hit as often as records.
        let at = match near_an_end {
            None => at.index(size),
            Some(near) => (size + near).saturating_sub(20) % size,
        };
        let mut file = file(codec, &blocks);
        for (place, byte) in (start + at..start + size).zip(with) {
            file[place] = byte;
        }
        let outcome = assert_any_split::<Avro>(&setup_with(64 << 20, true), &file, &pieces);
        let (before, after) = (records(&blocks[..number]), records(&blocks[number + 1..]));
        prop_assert!(outcome.records.len() >= before.len() + after.len(), "{:?}", outcome.errors);
        prop_assert!(outcome.records.starts_with(&before), "{:?}", outcome.errors);
        prop_assert!(outcome.records.ends_with(&after), "{:?}", outcome.errors);
        prop_assert!(outcome.errors.len() <= 2, "{:?}", outcome.errors);
    }

    #[test]
    fn any_damage(
        codec in codec(),
        blocks in blocks(0..5),
        flips in prop::collection::vec((any::<prop::sample::Index>(), 1u8..), 0..6),
        cut in prop::option::of((any::<prop::sample::Index>(), 1usize..2000)),
        max_record in prop_oneof![3 => Just(64u64 << 20), 1 => 0u64..5_000],
        skip: bool,
        pieces in pieces(),
    ) {
        let mut file = file(codec, &blocks);
        let start = header(SCHEMA, codec).len();
        for (at, flip) in flips {
            let at = start + at.index((file.len() - start).max(1));
            if let Some(byte) = file.get_mut(at) {
                *byte ^= flip;
            }
        }
        if let Some((at, length)) = cut {
            let at = start + at.index((file.len() - start).max(1));
            file.drain(at..file.len().min(at + length));
        }
        assert_any_split::<Avro>(&setup_with(max_record, skip), &file, &pieces);
    }

    #[test]
    fn damaged_headers(
        at in any::<prop::sample::Index>(),
        with in prop::collection::vec(any::<u8>(), 0..4),
        remove in 0usize..4,
        pieces in prop::collection::vec(1usize..200, 0..60),
    ) {
        let mut file = header(SCHEMA, "deflate");
        let at = at.index(file.len());
        let end = (at + remove).min(file.len());
        file.splice(at..end, with);
        assert_any_split::<Avro>(&setup_with(64 << 20, true), &file, &pieces);
    }

    /// Bytes of any kind after a header.
    #[test]
    fn random_blocks(
        codec in codec(),
        bytes in prop::collection::vec(prop_oneof![2 => 0u8..20, 1 => any::<u8>()], 0..600),
        skip: bool,
        pieces in pieces(),
    ) {
        let file = [header(SCHEMA, codec), bytes].concat();
        assert_any_split::<Avro>(&setup_with(64 << 20, skip), &file, &pieces);
    }
}
