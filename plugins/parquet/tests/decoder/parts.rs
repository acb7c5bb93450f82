//! The parts of a plan have the rows of the whole file; each can be decoded alone, in any pieces.

use pipemill_parquet::{OUT_OF_ORDER, Parquet};
use pipemill_plugin::testing::{self, Outcome, Setup, assert_restarts, decode_split, decode_whole};
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
        let Some((parts, whole)) = in_parts_and_whole(&file, skips) else { return Ok(()) };
        let (of_parts, of_whole) = (messages(&parts), messages(&whole));
        match of_whole.split_last() {
            Some((last, before)) if last.contains(OUT_OF_ORDER) => {
                prop_assert!(parts.records.starts_with(&whole.records));
                let (in_parts, _) = of_parts.split_at(of_whole.len());
                prop_assert_eq!(&in_parts[..before.len()], before);
                prop_assert!(last.starts_with(&in_parts[before.len()]));
            }
            _ => {
                prop_assert_eq!(parts.records, whole.records);
                prop_assert_eq!((of_parts, parts.refused), (of_whole, whole.refused));
            }
        }
    }
}

/// What the parts of a file give, and the whole of it. `None` if it has no plan.
fn in_parts_and_whole(file: &[u8], skips: bool) -> Option<(Outcome, Outcome)> {
    let parts = parts(&[], file)?;
    let (mut of_parts, mut of_file) = (planned(&[]), setup(&[]));
    (of_parts.skip, of_file.skip) = (skips, skips);
    let parts = decode_whole::<Parquet>(&of_parts, &parts.concat());
    Some((parts, decode_whole::<Parquet>(&of_file, file)))
}

fn messages(outcome: &Outcome) -> Vec<String> {
    outcome.errors.iter().map(|(.., message)| message.clone()).collect()
}

/// The footer has another field in the place of a size, so the last group seems to begin before
/// the third one, which has a damaged page.
#[test]
fn the_message_counts_the_rows_of_groups_that_share_their_bytes() {
    let mut file = GROUPS.to_vec();
    file[20_034] ^= 1;
    file[27_442] ^= 32;
    let (parts, whole) = in_parts_and_whole(&file, true).expect("it has a plan");
    assert_eq!((parts.records.len(), whole.records.len()), (500, 500));
    let lost = "the last 250 rows of the group can't be decoded";
    assert!(messages(&parts)[0].ends_with(lost) && messages(&parts).len() == 2);
    assert_eq!(messages(&whole).len(), 1);
    assert!(messages(&whole)[0].ends_with(&format!("{lost}, nor the 150 {OUT_OF_ORDER}")));
}
