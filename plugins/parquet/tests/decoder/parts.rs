//! The parts of a plan have the rows of the whole file; each can be decoded alone, in any pieces.

use pipemill_parquet::Parquet;
use pipemill_plugin::testing::{self, Setup, assert_restarts, decode_split, decode_whole};
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::Index;

use crate::setup;

const GROUPS: &[u8] = include_bytes!("../fixtures/groups.parquet");

/// The parts of the plan of a file. `None` if it is shown whole.
fn parts(options: &[(&str, &str)], file: &[u8]) -> Option<Vec<Vec<u8>>> {
    testing::parts::<Parquet>(&setup(options), file).expect("it is not refused")
}

fn planned(options: &[(&str, &str)]) -> Setup {
    setup(options).planned()
}

const COLUMNS: [&[(&str, &str)]; 5] = [
    &[],
    &[("columns", "id")],
    &[("columns", "user.noise,id")],
    &[("columns", "tags,name=user.name")],
    &[("columns", "user,small")],
];

#[test]
fn parts_have_the_rows_of_the_whole_file() {
    for columns in COLUMNS {
        let whole = decode_whole::<Parquet>(&setup(columns), GROUPS);
        assert_eq!((whole.records.len(), whole.errors.len()), (900, 0));
        let parts = parts(columns, GROUPS).expect("it is long enough");
        assert_eq!(parts.len(), 4);
        let read: usize = parts.iter().map(Vec::len).sum();
        assert!(columns.is_empty() || read < GROUPS.len(), "{columns:?}: {read} bytes");
        let all = decode_whole::<Parquet>(&planned(columns), &parts.concat());
        assert_eq!((&all.records, &all.schema), (&whole.records, &whole.schema), "{columns:?}");
        // Each part alone, in another order.
        let mut alone: Vec<_> = parts
            .iter()
            .rev()
            .map(|part| decode_whole::<Parquet>(&planned(columns), part))
            .collect();
        alone.reverse();
        assert!(alone.iter().all(|one| one.schema == whole.schema && one.errors.is_empty()));
        let alone: Vec<_> = alone.into_iter().flat_map(|one| one.records).collect();
        assert_eq!(alone, whole.records);
        let restarts = assert_restarts::<Parquet>(&planned(columns), &parts.concat(), &[1000; 40]);
        assert!(restarts.len() >= 4, "{restarts:?}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(100))]
    #[test]
    fn any_pieces_of_parts_give_the_same(
        columns in 0..COLUMNS.len(),
        sizes in vec(prop_oneof![1usize..20, 1usize..9000], 0..40),
        damage in vec((any::<Index>(), any::<u8>()), 0..3),
        skips: bool,
    ) {
        let mut bytes = parts(COLUMNS[columns], GROUPS).expect("it is long enough").concat();
        for (at, byte) in damage {
            let at = at.index(bytes.len());
            bytes[at] ^= byte;
        }
        let setup = planned(COLUMNS[columns]);
        let setup = if skips { setup.skipping() } else { setup };
        let whole = decode_whole::<Parquet>(&setup, &bytes);
        prop_assert_eq!(whole, decode_split::<Parquet>(&setup, &bytes, &sizes));
    }

    /// A plan of a damaged file lies inside of it, and gives no row that the file does not have.
    #[test]
    fn a_damaged_file_has_the_rows_and_the_error_of_the_whole_file(
        damage in vec((any::<Index>(), any::<u8>(), any::<bool>()), 1..4),
        skips: bool,
    ) {
        let mut file = GROUPS.to_vec();
        for (at, byte, is_last) in damage {
            // Half of the damage is in the footer.
            let most = if is_last { 3000 } else { file.len() };
            let at = file.len() - 1 - at.index(most);
            file[at] ^= byte;
        }
        let Some(parts) = parts(&[], &file) else { return Ok(()) };
        let (mut of_parts, mut of_file) = (planned(&[]), setup(&[]));
        (of_parts.skip, of_file.skip) = (skips, skips);
        let parts = decode_whole::<Parquet>(&of_parts, &parts.concat());
        let whole = decode_whole::<Parquet>(&of_file, &file);
        prop_assert_eq!(parts.records, whole.records);
        prop_assert_eq!(parts.refused, whole.refused);
        let messages = |outcome: &[(u64, u64, String)]| -> Vec<String> {
            outcome.iter().map(|(.., message)| message.clone()).collect()
        };
        prop_assert_eq!(messages(&parts.errors), messages(&whole.errors));
    }
}
