//! Any split gives the records that were written, wherever block headers interrupt them.

use pipemill_array_record::ArrayRecord;
use pipemill_plugin::Decoder as _;
use pipemill_plugin::testing::{Setup, assert_any_split, open};
use proptest::prelude::*;

use crate::write::{CODECS, File};
use crate::{payloads, setup};

pub fn records() -> impl Strategy<Value = Vec<Vec<u8>>> {
    let record = prop_oneof![
        2 => Just(Vec::new()),
        5 => prop::collection::vec(any::<u8>(), 0..20),
        2 => prop::collection::vec(any::<u8>(), 0..300),
        1 => (any::<u8>(), 0_usize..3000).prop_map(|(byte, size)| vec![byte; size]),
    ];
    prop::collection::vec(record, 1..8)
}

/// Something that a file has.
#[derive(Debug, Clone)]
pub enum Part {
    Records(u8, Vec<Vec<u8>>),
    /// The next chunk begins this many bytes before the end of a block.
    Padding(usize),
    /// A chunk of another type, without records.
    Other(u8, Vec<u8>),
}

fn part() -> impl Strategy<Value = Part> {
    let codec = prop::sample::select(&CODECS[..]);
    prop_oneof![
        4 => (codec, records()).prop_map(|(codec, records)| Part::Records(codec, records)),
        2 => prop_oneof![0_usize..120, 0_usize..3000].prop_map(Part::Padding),
        1 => (prop::sample::select(&b"smpx"[..]), prop::collection::vec(any::<u8>(), 0..60))
            .prop_map(|(kind, data)| Part::Other(kind, if kind == b's' { Vec::new() } else { data })),
    ]
}

pub fn parts() -> impl Strategy<Value = Vec<Part>> {
    prop::collection::vec(part(), 0..6)
}

/// The file of these parts, and its records.
pub fn file_of(parts: &[Part]) -> (File, Vec<Vec<u8>>) {
    let (mut file, mut all) = (File::new(), Vec::new());
    for part in parts {
        match part {
            Part::Records(codec, records) => {
                file.records(*codec, records);
                all.extend(records.iter().cloned());
            }
            Part::Padding(before_end) => file.pad(*before_end),
            Part::Other(kind, data) => file.chunk(*kind, data, 0, 0),
        }
    }
    (file, all)
}

/// The stream that begins at a place of the file.
pub fn setup_at(place: usize) -> Setup {
    let extensions = vec![("restart".to_owned(), format!("0 {place}"))];
    Setup { extensions, ..setup() }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 96, ..ProptestConfig::default() })]

    #[test]
    fn written_records_are_read(
        parts in parts(),
        end in prop::option::of(prop::sample::select(&CODECS[..])),
        max_record in prop_oneof![Just(64_u64 << 20), 4_000_u64..30_000],
        pieces in prop::collection::vec(prop_oneof![1_usize..90, 1_usize..70_000], 0..60),
    ) {
        let (mut file, records) = file_of(&parts);
        if let Some(codec) = end {
            file.finish(codec);
        }
        let largest = file.chunks.windows(2).map(|pair| pair[1] - pair[0]);
        prop_assume!(max_record > 1 << 20 || largest.max().unwrap_or(0) < max_record as usize
            || parts.iter().all(|part| !matches!(part, Part::Records(..))));
        let setup = Setup { max_record, ..setup() };
        let outcome = assert_any_split::<ArrayRecord>(&setup, &file.bytes, &pieces);
        prop_assert_eq!(&outcome.errors, &[]);
        prop_assert_eq!(payloads(&outcome), records);
        prop_assert!(outcome.starts.iter().all(|start| file.chunks.contains(&(*start as usize))));
    }

    /// A worker that begins anywhere finds the next block, and by it a chunk.
    #[test]
    fn a_search_finds_a_chunk(
        parts in parts(),
        place in any::<prop::sample::Index>(),
        pieces in prop::collection::vec(1_usize..70_000, 0..20),
    ) {
        let (file, _) = file_of(&parts);
        let place = place.index(file.bytes.len());
        let block = place.next_multiple_of(1 << 16);
        let mut ends = file.chunks.clone();
        ends.push(file.bytes.len());
        // The first chunk that begins at the block or after it, if a chunk has the block's header.
        let expected = (file.bytes.len() > block)
            .then(|| ends.iter().find(|begin| **begin >= block).copied()).flatten();
        let mut decoder = open::<ArrayRecord>(&setup_at(place)).expect("it opens");
        let (mut at, mut shown, mut found) = (place, place, None);
        let mut pieces = pieces.into_iter();
        while found.is_none() {
            let end = shown == file.bytes.len();
            let result = decoder.resync(&file.bytes[at..shown], end);
            at += result.consumed;
            prop_assert!(at <= shown);
            if result.found {
                found = Some(at);
            } else if end {
                break;
            }
            shown = (shown + pieces.next().unwrap_or(usize::MAX / 2)).min(file.bytes.len());
        }
        prop_assert_eq!(found, expected);
    }
}
