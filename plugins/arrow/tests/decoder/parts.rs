//! The parts of a plan have the rows of the whole file; each can be decoded alone, in any pieces.

use pipemill_arrow::Arrow;
use pipemill_plugin::testing::{self, Setup, assert_restarts, decode_split, decode_whole};
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::Index;

use crate::setup;

const LONG: &[u8] = include_bytes!("../fixtures/long.arrow");
const LONG_ZSTD: &[u8] = include_bytes!("../fixtures/long-zstd.arrow");

/// The parts of the plan of a file. `None` if it is shown whole.
fn parts(setup: &Setup, file: &[u8]) -> Option<Vec<Vec<u8>>> {
    testing::parts::<Arrow>(setup, file).expect("it is not refused")
}

/// A file and columns, and the number of parts.
type Case = (&'static [u8], &'static [(&'static str, &'static str)], usize);

const CASES: [Case; 10] = [
    (LONG, &[], 4),
    (LONG, &[("columns", "id")], 4),
    (LONG, &[("columns", "word,id")], 4),
    (LONG, &[("columns", "user.name,flag,tags")], 4),
    (LONG, &[("columns", "view,none,vector")], 4),
    (LONG, &[("columns", "noise,view,user,tags,word,vector,flag,id,none")], 4),
    (LONG_ZSTD, &[], 2),
    (LONG_ZSTD, &[("columns", "id")], 2),
    (LONG_ZSTD, &[("columns", "view,flag,user,none")], 2),
    (LONG_ZSTD, &[("columns", "tags,vector")], 2),
];

#[test]
fn parts_have_the_rows_of_the_whole_file() {
    for (file, columns, count) in CASES {
        let whole = decode_whole::<Arrow>(&setup(columns), file);
        assert!(whole.records.len() >= 600 && whole.errors.is_empty(), "{columns:?}");
        let parts = parts(&setup(columns), file).expect("its batches are long enough");
        assert_eq!(parts.len(), count);
        let planned = setup(columns).planned();
        let all = decode_whole::<Arrow>(&planned, &parts.concat());
        assert!(all.records == whole.records && all.schema == whole.schema, "{columns:?}");
        assert!(all.errors.is_empty());
        // Each part alone, in another order.
        let alone = parts.iter().rev().map(|part| decode_whole::<Arrow>(&planned, part));
        let mut alone: Vec<_> = alone.collect();
        alone.reverse();
        assert!(alone.iter().all(|one| one.schema == whole.schema && one.errors.is_empty()));
        let alone: Vec<_> = alone.into_iter().flat_map(|one| one.records).collect();
        assert!(alone == whole.records, "{columns:?}");
        let restarts = assert_restarts::<Arrow>(&planned, &parts.concat(), &[1000; 40]);
        assert!(restarts.len() >= count, "{restarts:?}");
    }
}

#[test]
fn only_the_buffers_of_wanted_columns_are_read() {
    let bytes = |columns: &str, file: &[u8]| -> usize {
        let parts = parts(&setup(&[("columns", columns)]), file).expect("it has parts");
        parts.iter().map(Vec::len).sum()
    };
    // Its numbers take 8 bytes for each row; the rest is metadata.
    assert!((4800..20_000).contains(&bytes("id", LONG)), "{}", bytes("id", LONG));
    assert!(bytes("id,flag,vector,none", LONG) < LONG.len() / 4);
    assert!(bytes("id,flag", LONG_ZSTD) < LONG_ZSTD.len() / 4);
}

#[test]
fn other_files_are_read_as_a_whole() {
    let whole = |file: &[u8], setup: &Setup| assert_eq!(parts(setup, file), None);
    for file in crate::ALL {
        whole(file, &setup(&[]));
        whole(&file.repeat(30), &setup(&[]));
    }
    whole(&LONG.repeat(2), &setup(&[]));
    whole(&LONG[..LONG.len() - 1], &setup(&[]));
    whole(&[LONG, b" "].concat(), &setup(&[]));
    whole(&LONG[8..], &setup(&[]));
    whole(LONG, &setup(&[("columns", "missing")]));
    // A batch is too long, as in the whole file.
    whole(LONG, &Setup { max_record: 20_000, ..setup(&[]) });
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]
    #[test]
    fn any_pieces_of_parts_give_the_same(
        case in 0..CASES.len(),
        sizes in vec(prop_oneof![1usize..20, 1usize..9000], 0..40),
        damage in vec((any::<Index>(), any::<u8>()), 0..3),
        skips: bool,
    ) {
        let (file, columns, _) = CASES[case];
        let mut bytes = parts(&setup(columns), file).expect("it has parts").concat();
        for (at, byte) in damage {
            let at = at.index(bytes.len());
            bytes[at] ^= byte;
        }
        let setup = setup(columns).planned();
        let setup = if skips { setup.skipping() } else { setup };
        let whole = decode_whole::<Arrow>(&setup, &bytes);
        prop_assert!(whole == decode_split::<Arrow>(&setup, &bytes, &sizes));
    }

    /// A plan of a damaged file lies inside of it, and gives the rows and the error of the file.
    /// Only damage of what no wanted column needs may be missed.
    #[test]
    fn a_damaged_file_has_the_rows_and_the_error_of_the_whole_file(
        case in 0..CASES.len(),
        damage in vec((any::<Index>(), any::<u8>(), 0..3u8), 1..4),
    ) {
        let (original, columns, _) = CASES[case];
        let mut file = original.to_vec();
        for (at, byte, place) in damage {
            // Some of the damage is in the footer, and some in the schema and the first metadata.
            let at = match place {
                0 => at.index(file.len()),
                1 => file.len() - 1 - at.index(2000),
                _ => at.index(3000),
            };
            file[at] ^= byte;
        }
        let Some(parts) = parts(&setup(columns), &file) else { return Ok(()) };
        let of_parts = decode_whole::<Arrow>(&setup(columns).planned(), &parts.concat());
        let of_file = decode_whole::<Arrow>(&setup(columns), &file);
        let (read, whole) = (of_parts.records.len(), of_file.records.len());
        let messages = |outcome: &[(u64, u64, String)]| -> Vec<String> {
            outcome.iter().map(|(.., message)| message.clone()).collect()
        };
        if of_parts.errors.iter().any(|(.., message)| message.contains("the footer says that")) {
            // The stream of the whole file goes on where the message says.
            prop_assert!(of_file.records.starts_with(&of_parts.records));
            return Ok(());
        }
        let needs_dictionary = columns.is_empty() || columns[0].1.contains("word");
        if original == LONG && !needs_dictionary {
            // The file may have an error in its dictionary, too, which comes before.
            prop_assert!(of_parts.records.starts_with(&of_file.records));
            return Ok(());
        }
        prop_assert_eq!(messages(&of_parts.errors), messages(&of_file.errors));
        prop_assert_eq!(of_parts.refused, of_file.refused);
        prop_assert!(of_parts.records == of_file.records, "{read} rows, {whole} in the file");
    }
}
