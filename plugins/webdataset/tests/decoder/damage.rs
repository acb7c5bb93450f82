//! After damage, every split gives the same records and errors, no record that was never written,
//! and every sample that is not next to the damage.

use pipemill_plugin::testing::{Setup, assert_any_split};
use pipemill_webdataset::WebDataset;
use proptest::prelude::*;

use crate::splits::{FIELDS, Sample, pieces, samples};
use crate::write::{BLOCK, end};

fn archive(samples: &[Sample]) -> Vec<u8> {
    samples.iter().flat_map(|sample| sample.bytes.clone()).chain(end()).collect()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 600, ..ProptestConfig::default() })]

    /// Overwrites a block, or its first byte. It may be a header or data.
    #[test]
    fn one_damaged_block(
        samples in samples(9),
        at in any::<prop::sample::Index>(),
        with in prop_oneof![Just(0u8), Just(b'x'), any::<u8>()],
        whole_block: bool,
        pieces in pieces(),
    ) {
        prop_assume!(!samples.is_empty());
        let mut file = archive(&samples);
        let block = at.index((file.len() - end().len()) / BLOCK);
        let place = block * BLOCK..block * BLOCK + if whole_block { BLOCK } else { 1 };
        file[place].fill(with);
        let setup = Setup::new(&[("fields", FIELDS)]).skipping();
        let outcome = assert_any_split::<WebDataset>(&setup, &file, &pieces);

        let mut ends = Vec::new();
        for sample in &samples {
            ends.push(ends.last().copied().unwrap_or(0) + sample.bytes.len());
        }
        // The sample with the damage, and its neighbours, which may be lost, too.
        let hit = ends.iter().position(|end| block * BLOCK < *end).expect("every block belongs to a sample");
        let near = hit.saturating_sub(1)..hit + 2;
        let far: Vec<_> = (0..samples.len()).filter(|number| !near.contains(number)).collect();
        for number in far {
            let record = &samples[number].record;
            let same: Vec<_> = outcome.records.iter().filter(|found| found[0] == record[0]).collect();
            prop_assert_eq!(same, vec![record], "{}", number);
        }
        // Every record was written in this form, except for the data of the sample with the damage.
        // Two kinds of damage can't be noticed: two blocks of zeros are an end mark, and a long
        // name is data without a checksum.
        let is_mark = file[block * BLOCK..][..2 * BLOCK].iter().all(|byte| *byte == 0);
        if !is_mark && samples[hit].is_plain {
            for record in &outcome.records {
                let written = samples.iter().position(|sample| sample.record[0] == record[0]);
                let number = written.expect("the key of some sample");
                let of = &samples[number].record;
                let shape = |record: &[Option<Vec<u8>>]| {
                    record.iter().map(|field| field.as_ref().map(Vec::len)).collect::<Vec<_>>()
                };
                prop_assert_eq!(shape(record), shape(of), "members were lost of {}", number);
                prop_assert!(number == hit || record == of);
            }
        }
    }

    #[test]
    fn any_damage(
        samples in samples(7),
        flips in prop::collection::vec((any::<prop::sample::Index>(), 1u8..), 0..6),
        cut in prop::option::of((any::<prop::sample::Index>(), 1usize..2000)),
        max_record in prop_oneof![3 => Just(64u64 << 20), 1 => 0u64..5_000],
        skip: bool,
        pieces in pieces(),
    ) {
        let mut file = archive(&samples);
        for (at, flip) in flips {
            let at = at.index(file.len());
            file[at] ^= flip;
        }
        if let Some((at, length)) = cut {
            let at = at.index(file.len());
            file.drain(at..file.len().min(at + length));
        }
        let setup = Setup { skip, max_record, ..Setup::new(&[("fields", FIELDS)]) };
        assert_any_split::<WebDataset>(&setup, &file, &pieces);
    }

    #[test]
    fn random_blocks(
        blocks in prop::collection::vec(prop_oneof![Just(0u8), any::<u8>()], 0..20),
        rest in 0usize..512,
        pieces in pieces(),
    ) {
        let mut file: Vec<_> = blocks.iter().flat_map(|byte| [*byte; BLOCK]).collect();
        file.resize(file.len() + rest, 7);
        let setup = Setup::new(&[("fields", FIELDS)]).skipping();
        let outcome = assert_any_split::<WebDataset>(&setup, &file, &pieces);
        prop_assert_eq!(outcome.records.len(), 0);
    }
}
