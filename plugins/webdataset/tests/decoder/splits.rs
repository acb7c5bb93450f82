//! Every split gives the samples that were written, with all kinds of entries between their
//! members.

use pipemill_plugin::testing::{Record, Setup, assert_any_split};
use pipemill_webdataset::WebDataset;
use proptest::prelude::*;

use crate::write::{BLOCK, end, entry, file, pax};

/// The bytes of a sample, and the expected record with [`FIELDS`].
#[derive(Debug, Clone)]
pub struct Sample {
    pub bytes: Vec<u8>,
    pub record: Record,
    /// Whether all names are in headers, which have checksums. Long names are in data.
    pub is_plain: bool,
}

pub const FIELDS: &str = "a,b?,c?";

/// A member. `way` is the form of its name: as pax, as GNU's long name, or in the header.
fn member(name: &str, data: &[u8], way: u8) -> Vec<u8> {
    match way {
        0 => [pax(&[("path", name)]), file("x", data)].concat(),
        1 => [entry(b"././@LongLink", &[name.as_bytes(), b"\0"].concat(), b'L'), file("x", data)]
            .concat(),
        _ => file(name, data),
    }
}

/// An entry that belongs to no sample.
fn other(kind: u8) -> Vec<u8> {
    match kind {
        0 => entry(b"folder/", b"", b'5'),
        1 => file("README", &[b'#'; 700]),
        2 => entry(b"link.a", b"", b'2'),
        _ => Vec::new(),
    }
}

/// The sample with this number, which makes its key.
fn sample(number: usize) -> impl Strategy<Value = Sample> {
    let length = prop_oneof![3 => 0usize..20, 1 => 0usize..1500, 1 => Just(512usize)];
    let data = (length, any::<u8>()).prop_map(|(length, seed)| {
        (0..length).map(|at| (at as u8).wrapping_mul(31) ^ seed).collect::<Vec<u8>>()
    });
    let member = (data, 0u8..8, 0u8..12);
    (prop::collection::vec(member, 4), 1u8..16).prop_map(move |(members, which)| {
        let key = format!("dir.{}/sample-{number}", number % 3);
        let (mut bytes, mut record) = (Vec::new(), vec![Some(key.clone().into_bytes())]);
        for (index, extension) in ["a", "B", "c", "other"].iter().enumerate() {
            let (data, way, between) = &members[index];
            let is_there = index == 0 || which >> index & 1 == 1;
            if is_there {
                bytes.extend(self::member(&format!("{key}.{extension}"), data, *way));
                bytes.extend(other(*between));
            }
            if index < 3 {
                record.push(is_there.then(|| data.clone()));
            }
        }
        let is_plain = members.iter().all(|(_, way, _)| *way > 1);
        Sample { bytes, record, is_plain }
    })
}

pub fn samples(most: usize) -> impl Strategy<Value = Vec<Sample>> {
    (0..most).prop_flat_map(|count| (0..count).map(sample).collect::<Vec<_>>())
}

pub fn pieces() -> impl Strategy<Value = Vec<usize>> {
    let piece = prop_oneof![1 => 1usize..20, 3 => 1usize..600, 2 => 500usize..5000];
    prop::collection::vec(piece, 0..60)
}

proptest! {
    #[test]
    fn written_samples_are_read(
        before in 0u8..5,
        samples in samples(12),
        ends in prop::collection::vec(any::<bool>(), 12),
        pieces in pieces(),
    ) {
        let (mut bytes, mut starts) = (other(before), Vec::new());
        for (sample, end_here) in samples.iter().zip(ends) {
            starts.push(bytes.len() as u64);
            bytes.extend_from_slice(&sample.bytes);
            if end_here {
                bytes.extend(end());
            }
        }
        bytes.extend(end());
        let setup = Setup::new(&[("fields", FIELDS)]);
        let outcome = assert_any_split::<WebDataset>(&setup, &bytes, &pieces);
        prop_assert_eq!(outcome.errors, []);
        prop_assert_eq!(outcome.starts, starts);
        let records: Vec<_> = samples.into_iter().map(|sample| sample.record).collect();
        prop_assert_eq!(outcome.records, records);
    }

    #[test]
    fn samples_larger_than_max_record(
        samples in samples(8),
        max_record in 0u64..6_000,
        skip: bool,
        pieces in pieces(),
    ) {
        let bytes: Vec<_> = samples.iter().flat_map(|sample| sample.bytes.clone()).chain(end()).collect();
        let setup = Setup { max_record, skip, ..Setup::new(&[("fields", FIELDS)]) };
        let outcome = assert_any_split::<WebDataset>(&setup, &bytes, &pieces);
        let fits = |sample: &&Sample| sample.bytes.len() as u64 <= max_record;
        let fitting: Vec<_> = if skip {
            samples.iter().filter(fits).map(|sample| sample.record.clone()).collect()
        } else {
            samples.iter().take_while(fits).map(|sample| sample.record.clone()).collect()
        };
        prop_assert_eq!(outcome.records, fitting);
    }

    #[test]
    fn archives_that_are_cut_short(samples in samples(6), at in any::<prop::sample::Index>(), skip: bool, pieces in pieces()) {
        let bytes: Vec<_> = samples.iter().flat_map(|sample| sample.bytes.clone()).chain(end()).collect();
        let at = at.index(bytes.len());
        let setup = Setup { skip, ..Setup::new(&[("fields", FIELDS)]) };
        let outcome = assert_any_split::<WebDataset>(&setup, &bytes[..at], &pieces);
        let ends: Vec<usize> = samples.iter().scan(0, |end, sample| {
            *end += sample.bytes.len();
            Some(*end)
        }).collect();
        let records: Vec<_> = samples.into_iter().map(|sample| sample.record).collect();
        let sound = match ends.iter().position(|end| *end == at) {
            // The archive ends after a sample, and only the end mark is missing.
            Some(sample) => sample + 1,
            // It has at least one block of the end mark.
            None if at == bytes.len() - BLOCK => records.len(),
            None => {
                // Between two members of a sample, that sample may have fewer members.
                prop_assert!(at == 0 || at % BLOCK == 0 || !outcome.errors.is_empty());
                let sure = outcome.records.len().saturating_sub(1);
                prop_assert!(records.starts_with(&outcome.records[..sure]));
                return Ok(());
            }
        };
        prop_assert_eq!(&outcome.errors, &vec![]);
        prop_assert_eq!(&outcome.records[..], &records[..sound]);
    }
}
