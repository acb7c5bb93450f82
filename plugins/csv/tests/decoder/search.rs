//! The search for a row from any position, which may be inside quotes.

use pipemill_csv::Csv;
use pipemill_plugin::testing::{Setup, decode_whole};
use pipemill_plugin::{Decoder, Options, Resync, StreamInfo};
use proptest::prelude::*;

/// A search from this position of a file on, in pieces of this size.
fn search(file: &[u8], from: usize, piece: usize, options: &[(&str, &str)]) -> Option<usize> {
    let owned = |(key, value): &(&str, &str)| (String::from(*key), String::from(*value));
    let options: Vec<_> = options.iter().map(owned).collect();
    let options = Options::new(&Csv::options(), &options).expect("good options");
    let extensions = vec![("restart".to_owned(), format!("0 {}", from.max(1)))];
    let info = StreamInfo { max_record: 1 << 20, extensions, ..StreamInfo::default() };
    let mut decoder = Csv::open(&options, &info).expect("it opens");
    let (mut at, mut to) = (from, from);
    while to < file.len() {
        to = file.len().min(to + piece);
        let Resync { consumed, found } = decoder.resync(&file[at..to], to == file.len());
        at += consumed;
        assert!(at <= to, "more than the chunk");
        if found {
            return Some(at);
        }
    }
    None
}

/// The positions at which rows start, and the end of the last row.
fn starts(file: &[u8], options: &[(&str, &str)]) -> Vec<usize> {
    let options: Vec<_> = options.iter().copied().chain([("emit", "row")]).collect();
    let outcome = decode_whole::<Csv>(&Setup::new(&options), file);
    outcome.starts.iter().map(|start| *start as usize).chain([file.len()]).collect()
}

/// Text with everything that occurs in rows. It begins with a letter, so that a wrong reader is
/// corrected.
fn texts() -> impl Strategy<Value = String> {
    prop_oneof![
        4 => "[a-z]{1,9}",
        2 => "[a-z][a-z,\n]{0,20}",
        2 => "[a-z][a-z,\n\"]{0,20}[a-z]",
        1 => Just("row\n1,2,3\n4,5,6\n".to_owned()),
    ]
}

fn written(rows: &[Vec<String>]) -> Vec<u8> {
    let field = |text: &String| match text.contains([',', '\n', '"']) {
        true => format!("\"{}\"", text.replace('"', "\"\"")),
        false => text.clone(),
    };
    let row = |row: &Vec<String>| row.iter().map(field).collect::<Vec<_>>().join(",") + "\n";
    rows.iter().map(row).collect::<String>().into_bytes()
}

proptest! {
    #[test]
    fn the_next_row_is_found_once_the_readers_have_met(
        rows in prop::collection::vec(prop::collection::vec(texts(), 3), 1..30),
        from in any::<prop::sample::Index>(),
        piece in 1usize..200,
    ) {
        let mut file = written(&rows);
        let from = from.index(file.len());
        // The readers meet here at the latest.
        file.extend_from_slice(b"x,\"y\",z\n\"x\",\"y\",\"z\"\nx,y,z\n");
        let found = search(&file, from, piece, &[]);
        prop_assert!(found.is_some_and(|at| starts(&file, &[]).contains(&at)), "{:?}", found);
    }

    #[test]
    fn any_text_in_any_pieces_is_searched(
        text in "[a,\n\r\"#\\\\]{1,60}",
        from in any::<prop::sample::Index>(),
        piece in 1usize..70,
        options in prop_oneof![
            Just(vec![]),
            Just(vec![("quote", "none")]),
            Just(vec![("escape", "\\"), ("comment", "#")]),
            Just(vec![("lone_cr", "true"), ("double_quote", "false")]),
        ],
    ) {
        let from = from.index(text.len());
        if let Some(at) = search(text.as_bytes(), from, piece, &options) {
            let end = text.as_bytes()[at - 1];
            prop_assert!(at > from && (end == b'\n' || end == b'\r'));
        } else if !text.contains(['"', '\\', '#', '\r']) {
            prop_assert!(!text[from..].contains('\n'));
        }
    }
}

/// If no quotes are seen, the bytes are read as they look.
#[test]
fn without_quotes_the_next_line_is_a_row() {
    let file = b"1,2,3\n".repeat(30_000);
    for from in [0, 1, 5, 6, 7, 100_001] {
        assert_eq!(search(&file, from, 1 << 16, &[]), Some((from + 1).next_multiple_of(6)));
    }
}

/// All bytes that are seen are in quotes, and look like rows of another width.
#[test]
fn rows_of_another_width_are_taken_for_text() {
    let text = format!("\"{}\"", "\n1,2\n,".repeat(100));
    let file = format!("{text},x,y\n").repeat(20).into_bytes();
    let starts = starts(&file, &[]);
    for from in (0..2_000).step_by(7) {
        let found = search(&file, from, 1 << 16, &[("names", "a,b,c")]);
        assert_eq!(found, starts.iter().copied().find(|start| *start > from));
    }
}

/// A row that is longer than the examined bytes: the chosen reader continues to its end.
#[test]
fn long_rows_are_followed_to_their_end() {
    let row = format!("\"a\",{}\n", "b".repeat(200_000));
    let file = row.repeat(3).into_bytes();
    // In the last ones, the next row's quotes are seen: where the readers meet, that row has begun.
    for (from, rows) in [(0, 1), (1, 1), (100, 1), (150_000, 2), (200_001, 2)] {
        assert_eq!(search(&file, from, 1 << 16, &[]), Some(rows * row.len()), "from {from}");
    }
}
