//! Tests of the parquet decoder: files that pyarrow wrote, any split, options, damage. What pyarrow
//! writes at random is compared in `tests/plugin/test_parquet.py`.

mod parts;
mod splits;

use pipemill_parquet::Parquet;
use pipemill_parsing::testing::assert_refuses_other_formats;
use pipemill_plugin::Codec;
use pipemill_plugin::testing::{
    Outcome, Setup, assert_any_split, decode_split, decode_whole, open,
};
use serde_json::Value;

macro_rules! fixture {
    ($name:literal) => {
        include_bytes!(concat!("../fixtures/", $name)).as_slice()
    };
}

const NONE: &[u8] = fixture!("rows-none.parquet");
const NESTED: &[u8] = fixture!("nested.parquet");
/// The same rows in each.
const FILES: [&[u8]; 7] = [
    NONE,
    fixture!("rows-snappy.parquet"),
    fixture!("rows-gzip.parquet"),
    fixture!("rows-zstd.parquet"),
    fixture!("rows-lz4.parquet"),
    fixture!("rows-brotli.parquet"),
    fixture!("rows-v2.parquet"),
];

/// These options, with a host that decompresses.
fn setup(options: &[(&str, &str)]) -> Setup {
    Setup::new(options).decompressing(decompress)
}

fn decompress(codec: Codec, block: &[u8]) -> Result<Vec<u8>, String> {
    const WINDOW: usize = 64 << 10;
    let codec = pipemill_codecs::Codec::from_word(codec.word()).expect("the host has the codec");
    let mut reader = pipemill_codecs::BlockReader::new(codec, block, 64 << 20)?;
    let mut bytes = Vec::new();
    loop {
        let (window, last) = reader.window(bytes.len() as u64, WINDOW, || true)?;
        bytes.extend_from_slice(window);
        if last {
            return Ok(bytes);
        }
    }
}

/// The outcome, which is the same for small pieces and for many splits in two.
fn outcome(setup: &Setup, file: &[u8]) -> Outcome {
    let whole = assert_any_split::<Parquet>(setup, file, &vec![1; file.len()]);
    for split in (1..file.len()).step_by(1 + file.len() / 200) {
        assert_eq!(whole, decode_split::<Parquet>(setup, file, &[split]), "split at {split}");
    }
    whole
}

/// The message of the only error.
#[track_caller]
fn message(options: &[(&str, &str)], file: &[u8]) -> String {
    let outcome = outcome(&setup(options).skipping(), file);
    let [(.., message)] = &outcome.errors[..] else { panic!("{:?}", outcome.errors) };
    message.clone()
}

/// The value of a field as in `rows.json`.
fn value(name: &str, bytes: Option<&[u8]>) -> Value {
    let Some(bytes) = bytes else { return Value::Null };
    let text = || String::from_utf8(bytes.to_vec()).expect("UTF-8");
    let number = |bytes: &[u8]| f32::from_le_bytes(bytes.try_into().expect("four bytes"));
    match name {
        "id" => i64::from_le_bytes(bytes.try_into().expect("eight bytes")).into(),
        "name" | "price" => text().into(),
        "score" => number(bytes).into(),
        "vector" => bytes.chunks(4).map(number).collect(),
        "tags" => {
            let offset = |at: usize| {
                u32::from_le_bytes(bytes[4 * at..4 * at + 4].try_into().expect("four bytes"))
                    as usize
            };
            let elements = offset(0) / 4 - 1;
            let element = |at| String::from_utf8(bytes[offset(at)..offset(at + 1)].to_vec());
            (0..elements).map(|at| element(at).expect("UTF-8")).collect()
        }
        "day" => i32::from_le_bytes(bytes.try_into().expect("four bytes")).into(),
        other => panic!("{other}"),
    }
}

/// The rows that pyarrow reads; days as numbers.
fn expected() -> Vec<Value> {
    let rows: Vec<Value> = serde_json::from_slice(fixture!("rows.json")).expect("JSON");
    let days = |(number, mut row): (usize, Value)| {
        row["day"] = (18_262 + number as i32).into();
        row
    };
    rows.into_iter().enumerate().map(days).collect()
}

fn rows(outcome: &Outcome) -> Vec<Value> {
    let fields = outcome.schema.as_deref().expect("a schema");
    let row = |record: &Vec<Option<Vec<u8>>>| {
        let values = fields.iter().zip(record);
        let values =
            values.map(|(field, one)| (field.name.clone(), value(&field.name, one.as_deref())));
        Value::Object(values.collect())
    };
    outcome.records.iter().map(row).collect()
}

#[test]
fn the_rows_are_those_that_pyarrow_reads() {
    for file in FILES {
        let outcome = outcome(&setup(&[]), file);
        assert_eq!(outcome.errors, []);
        assert_eq!(rows(&outcome), expected());
    }
}

#[test]
fn columns_are_selected_in_the_order_of_the_option() {
    let outcome = outcome(&setup(&[("columns", "tags,number=id")]), NONE);
    let names: Vec<_> = outcome.schema.iter().flatten().map(|field| field.name.as_str()).collect();
    assert_eq!(names, ["tags", "number"]);
    assert_eq!(outcome.records[7][1].as_deref(), Some(&7i64.to_le_bytes()[..]));
    let said = message(&[("columns", "id,nobody")], NONE);
    assert!(said.contains("no column `nobody`; it has id, name, score"), "{said}");
    let said = message(&[("columns", "id,user=user")], NESTED);
    assert!(said.contains("no column `id`"), "{said}");
    let said = message(&[("columns", "one=user")], NESTED);
    assert!(said.contains("`user` is a group"), "{said}");
    let said = open::<Parquet>(&setup(&[("columns", "a=id,a=name")])).expect_err("two names");
    assert!(said.contains("two fields called `a`"), "{said}");
    let said = message(&[("columns", "user.name,user")], NESTED);
    assert!(said.contains("two fields are called `user.name`"), "{said}");
}

#[test]
fn groups_are_fields_with_dots_and_what_is_no_field_is_refused() {
    let outcome = outcome(&setup(&[("columns", "user")]), NESTED);
    let id = |number: i64| Some(number.to_le_bytes().to_vec());
    let text = |text: &str| Some(text.as_bytes().to_vec());
    let names: Vec<_> = outcome.schema.iter().flatten().map(|field| field.name.as_str()).collect();
    assert_eq!(names, ["user.id", "user.name"]);
    let expected = [vec![id(1), text("Eve")], vec![None, None], vec![None, text("Adam")]];
    assert_eq!(outcome.records, expected);
    let said = message(&[("columns", "matrix")], NESTED);
    let expected = "`matrix` is a list inside of a list, which can't be a field of a record";
    assert!(said.contains(expected) && said.contains("columns = \"user.id,"), "{said}");
    let said = message(&[("columns", "holes")], NESTED);
    assert!(
        said.contains("column `holes` in row group 0: a list has an element that is null"),
        "{said}"
    );
    // In the footer, the number of BROTLI becomes that of LZO.
    let mut file = fixture!("rows-brotli.parquet").to_vec();
    let footer = file.len()
        - 8
        - usize::from(file[file.len() - 8])
        - 256 * usize::from(file[file.len() - 7]);
    for at in footer..file.len() - 2 {
        if file[at..at + 2] == [0x15, 8] {
            file[at + 1] = 6;
        }
    }
    let said = message(&[], &file);
    assert!(said.contains("compressed with LZO; supported are"), "{said}");
}

#[test]
fn maps_and_lists_of_groups_are_a_list_for_each_of_their_columns() {
    let outcome = outcome(&setup(&[("columns", "map,age=people.age")]), NESTED);
    let fields: Vec<_> = outcome.schema.iter().flatten().collect();
    let names: Vec<_> = fields.iter().map(|field| field.name.as_str()).collect();
    assert_eq!(names, ["map.key", "map.value", "age"]);
    assert!(fields.iter().all(|field| field.nullable && field.shape == [0]), "{fields:?}");
    let number = |number: i64| Some(number.to_le_bytes().to_vec());
    let of_text = |bytes: &[u8]| Some(bytes.to_vec());
    let expected = [
        vec![of_text(b"\x08\0\0\0\x09\0\0\0a"), number(1), number(3)],
        vec![of_text(b"\x04\0\0\0"), Some(Vec::new()), Some(Vec::new())],
        vec![None, None, None],
    ];
    assert_eq!(outcome.records, expected);
    let said = message(&[("columns", "map.key,map.nothing")], NESTED);
    assert!(said.contains("no column `map.nothing`"), "{said}");
}

#[test]
fn a_footer_need_not_count_the_rows_of_the_file() {
    let count = b"\x16\x06\x19";
    let at = NESTED.windows(3).rposition(|bytes| bytes == count).expect("three rows, then groups");
    let with = |rows: u8| {
        let mut file = NESTED.to_vec();
        file[at + 1] = rows;
        file
    };
    let setup = [("columns", "user")];
    assert_eq!(outcome(&self::setup(&setup), &with(0)).records.len(), 3);
    let said = message(&setup, &with(8));
    assert!(said.contains("the file has 4 rows, and its row groups have 3"), "{said}");
}

#[test]
fn damage_costs_the_rest_of_a_row_group() {
    // The first page of the second group: its values, not its header.
    let outcome_of = |at: usize| {
        let mut file = NONE.to_vec();
        file[at] ^= 0xff;
        outcome(&setup(&[("columns", "id")]).skipping(), &file)
    };
    let clean = outcome(&setup(&[("columns", "id")]), NONE);
    let group = clean.starts[25] as usize;
    let damaged = outcome_of(group + 40);
    let [(at, _, message)] = &damaged.errors[..] else { panic!("{:?}", damaged.errors) };
    assert_eq!(*at, group as u64);
    assert!(
        message.contains("column `id` in row group 1: expected a page with the CRC-32"),
        "{message}"
    );
    assert!(message.ends_with("the last 25 rows of the group can't be decoded"), "{message}");
    assert_eq!(damaged.records, [&clean.records[..25], &clean.records[50..]].concat());
}

#[test]
fn a_file_that_is_cut_short_or_followed_by_another_is_refused() {
    let all = [("columns", "id")];
    for size in [4, 11, 12, 500, NONE.len() - 1] {
        let said = message(&all, &NONE[..size]);
        assert!(said.contains("expected `PAR1` at the end"), "{size}: {said}");
    }
    let two = [NONE, NONE].concat();
    let said = message(&all, &two);
    assert!(said.contains("several Parquet files follow each other"), "{said}");
    let outcome = decode_whole::<Parquet>(&setup(&all), &two);
    assert!(outcome.records.is_empty() && outcome.refused);
    assert!(outcome_is_empty(b""));
}

fn outcome_is_empty(file: &[u8]) -> bool {
    let outcome = outcome(&setup(&[]), file);
    outcome.records.is_empty() && outcome.errors.is_empty()
}

#[test]
fn a_file_that_is_larger_than_max_record_is_refused() {
    // Only a byte more than the file shows that it is at its end.
    let most = Setup { max_record: NONE.len() as u64 + 1, ..setup(&[]) };
    assert_eq!(decode_whole::<Parquet>(&most, NONE).records.len(), 60);
    let less = Setup { max_record: NONE.len() as u64 - 1, ..setup(&[]) };
    let outcome = decode_split::<Parquet>(&less, NONE, &[100; 80]);
    assert!(
        outcome.refused && outcome.errors[0].2.contains("raise max_record"),
        "{:?}",
        outcome.errors
    );
}

#[test]
fn a_file_that_does_not_begin_as_one_is_an_error() {
    for file in [&b"PAR2\x15\x04\x15\x10"[..], b"\0\0\0\0\0\0", b"PA"] {
        let said = message(&[], file);
        assert!(said.contains("expected `PAR1` at the "), "{said}");
    }
}

#[test]
fn other_formats_are_refused() {
    assert_refuses_other_formats::<Parquet>(&Setup::new(&[]), "decoder = \"parquet\"");
}
