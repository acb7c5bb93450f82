//! After damage, every split gives the same records and errors, and the records of all blocks that
//! are not damaged.

use pipemill_avro::Avro;
use pipemill_plugin::testing::{Record, assert_any_split};
use proptest::prelude::*;

use crate::splits::{
    SCHEMA, Written, all_fit, block_bytes, blocks, codec, file, pieces, setup_with,
};
use crate::write::{SYNC, header};

fn records(blocks: &[Vec<Written>]) -> Vec<Record> {
    blocks.concat().into_iter().map(|written| written.record).collect()
}

/// Size in the head of a block; `None` if the head is invalid.
fn said_size(block: &[u8]) -> Option<u64> {
    let is_last = |byte: &u8| *byte < 0x80;
    let records = block.iter().position(is_last)? + 1;
    let size = &block[records..];
    let size = &size[..size.iter().take(9).position(is_last)? + 1];
    let number = size.iter().rev().fold(0, |all, byte| all << 7 | u64::from(byte & 0x7f));
    (number % 2 == 0).then_some(number / 2)
}

/// A deflate block of two bytes may be shorter than the tail that blocks of its file may have. The first
/// block that is decompressed is then an empty one, which is an error wherever decoding begins.
#[test]
fn a_block_that_is_shorter_than_a_tail() {
    let block = [&[0, 4, 3, 101][..], &SYNC].concat();
    let file = [header(SCHEMA, "deflate"), block].concat();
    let outcome = assert_any_split::<Avro>(&setup_with(64 << 20, true), &file, &[1, 7]);
    assert_eq!((outcome.records.len(), outcome.errors.len()), (0, 1), "{:?}", outcome.errors);
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
        // The records of a block that seems large are read before its marker is there. If they
        // extend into the block after it, that one is lost, too.
        let seems_large = codec == "null" && said_size(&file[start..]) > Some(128 << 10);
        let next = if seems_large { number + 2 } else { number + 1 };
        let after = records(&blocks[next.min(blocks.len())..]);
        let before = records(&blocks[..number]);
        prop_assert!(outcome.records.len() >= before.len() + after.len(), "{:?}", outcome.errors);
        prop_assert!(outcome.records.starts_with(&before), "{:?}", outcome.errors);
        prop_assert!(outcome.records.ends_with(&after), "{:?}", outcome.errors);
        prop_assert!(outcome.errors.len() <= 2, "{:?}", outcome.errors);
    }

    /// The same for blocks without compression that are not small: their records are read before
    /// the end of the block has arrived. Damage to a block's head may cost the block after it, too.
    #[test]
    fn one_damaged_block_that_is_not_small(
        blocks in blocks(1..7),
        number in any::<prop::sample::Index>(),
        at in any::<prop::sample::Index>(),
        with in prop::collection::vec(any::<u8>(), 1..8),
        pieces in pieces(),
    ) {
        const MAX_RECORD: u64 = 5000;
        prop_assume!(all_fit("null", &blocks, MAX_RECORD));
        let number = number.index(blocks.len());
        let size = |records: &[Written]| block_bytes("null", records).len();
        let start = header(SCHEMA, "null").len()
            + blocks[..number].iter().map(|records| size(records)).sum::<usize>();
        let at = at.index(size(&blocks[number]));
        let mut file = file("null", &blocks);
        for (place, byte) in (start + at..start + size(&blocks[number])).zip(with) {
            file[place] = byte;
        }
        let outcome = assert_any_split::<Avro>(&setup_with(MAX_RECORD, true), &file, &pieces);
        let next = if at < 8 { number + 2 } else { number + 1 };
        let after = records(&blocks[next.min(blocks.len())..]);
        prop_assert!(outcome.records.starts_with(&records(&blocks[..number])), "{:?}", outcome.errors);
        prop_assert!(outcome.records.ends_with(&after), "{:?}", outcome.errors);
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
