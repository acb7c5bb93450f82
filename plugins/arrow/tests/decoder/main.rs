//! Tests of the arrow decoder: streams and files that pyarrow wrote, any split, options, damage.
//! What pyarrow writes at random is compared in `tests/plugin/test_arrow_decoder.py`.

mod parts;
mod splits;

use pipemill_arrow::Arrow;
use pipemill_parsing::testing::assert_refuses_other_formats;
use pipemill_plugin::Codec;
use pipemill_plugin::testing::{
    Outcome, Setup, assert_any_split, decode_split, decode_whole, open, restarts,
};
use serde_json::Value;

macro_rules! fixture {
    ($name:literal) => {
        include_bytes!(concat!("../fixtures/", $name)).as_slice()
    };
}

const NONE: &[u8] = fixture!("rows-none.arrows");
const FILE: &[u8] = fixture!("rows-file.arrow");
const BARE: &[u8] = fixture!("rows-bare.arrows");
const WORDS: &[u8] = fixture!("words.arrows");
const DELTA: &[u8] = fixture!("words-delta.arrow");
const POLARS: &[u8] = fixture!("polars.arrow");
/// Its dictionary comes after the batches.
const POLARS_WORDS: &[u8] = fixture!("polars-words.arrow");
const NESTED: &[u8] = fixture!("nested.arrow");
/// The same rows in each.
const FILES: [&[u8]; 6] = [
    NONE,
    FILE,
    BARE,
    fixture!("rows-lz4.arrows"),
    fixture!("rows-zstd.arrows"),
    fixture!("rows-zstd.feather"),
];
const ALL: [&[u8]; 11] = [
    FILES[0],
    FILES[1],
    FILES[2],
    FILES[3],
    FILES[4],
    FILES[5],
    WORDS,
    DELTA,
    NESTED,
    POLARS,
    POLARS_WORDS,
];

/// Columns of a file that can be fields.
fn columns(file: &[u8]) -> &'static str {
    match file {
        NESTED => "user,pairs,view",
        POLARS | POLARS_WORDS => "name,score,id",
        WORDS | DELTA => "id,word",
        _ => "id,name,tags,vector,price,day,score",
    }
}

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
    let whole = assert_any_split::<Arrow>(setup, file, &vec![1; file.len()]);
    for split in (1..file.len()).step_by(1 + file.len() / 200) {
        assert_eq!(whole, decode_split::<Arrow>(setup, file, &[split]), "split at {split}");
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

/// The texts of the second field.
fn words(outcome: &Outcome) -> Vec<Option<String>> {
    let text = |bytes: &Vec<u8>| String::from_utf8(bytes.clone()).expect("UTF-8");
    outcome.records.iter().map(|record| record[1].as_ref().map(text)).collect()
}

fn texts(words: &[&str]) -> Vec<Option<String>> {
    words.iter().map(|word| (!word.is_empty()).then(|| String::from(*word))).collect()
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
fn files_of_polars_are_read() {
    let mut expected = expected();
    for row in &mut expected {
        let columns = row.as_object_mut().expect("a row");
        columns.retain(|name, _| matches!(name.as_str(), "id" | "name" | "score"));
    }
    for file in [POLARS, POLARS_WORDS] {
        let outcome = outcome(&setup(&[("columns", "id,name,score")]), file);
        assert_eq!(outcome.errors, []);
        assert_eq!(rows(&outcome), expected);
    }
    let said = message(&[], &POLARS[..100]);
    assert!(said.contains("expected the schema of the file, found no end of it in 92"), "{said}");
    let less = Setup { max_record: 1500, ..setup(&[]) };
    let outcome = outcome(&less, POLARS_WORDS);
    assert!(outcome.refused && outcome.records.is_empty());
    let said = &outcome.errors[0].2;
    assert!(said.contains("needs a dictionary that comes later in the file"), "{said}");
}

#[test]
fn columns_are_selected_in_the_order_of_the_option() {
    let outcome = outcome(&setup(&[("columns", "tags,number=id")]), NONE);
    let names: Vec<_> = outcome.schema.iter().flatten().map(|field| field.name.as_str()).collect();
    assert_eq!(names, ["tags", "number"]);
    assert_eq!(outcome.records[7][1].as_deref(), Some(&7i64.to_le_bytes()[..]));
    let said = message(&[("columns", "id,nobody")], NONE);
    assert!(said.contains("no column `nobody`; it has id, name, score"), "{said}");
    let said = message(&[("columns", "one=user")], NESTED);
    assert!(said.contains("`user` is a group"), "{said}");
    let said = open::<Arrow>(&setup(&[("columns", "a=id,a=name")])).expect_err("two names");
    assert!(said.contains("two fields called `a`"), "{said}");
}

#[test]
fn structs_are_fields_with_dots_and_what_is_no_field_is_refused() {
    let outcome = outcome(&setup(&[("columns", "user,pairs,view")]), NESTED);
    let id = |number: i64| Some(number.to_le_bytes().to_vec());
    let text = |text: &str| Some(text.as_bytes().to_vec());
    let names: Vec<_> = outcome.schema.iter().flatten().map(|field| field.name.as_str()).collect();
    assert_eq!(names, ["user.id", "user.name", "pairs", "view"]);
    assert_eq!(outcome.schema.iter().flatten().nth(2).expect("pairs").shape, [0, 2]);
    let expected = [
        vec![id(1), text("Eve"), Some(vec![1, 2, 3, 4]), text("short")],
        vec![None, None, Some(vec![]), text("longer than twelve bytes")],
        vec![None, text("Adam"), None, None],
    ];
    assert_eq!(outcome.records, expected);
    for (column, what) in [
        ("map", "a map"),
        ("people", "a list or dictionary of structs"),
        ("matrix", "a list of lists"),
    ] {
        let said = message(&[("columns", column)], NESTED);
        let expected = format!("`{column}` is {what}, which can't be a field of a record");
        assert!(said.contains(&expected) && said.contains("columns = \"user.id,"), "{said}");
    }
    let said = message(&[("columns", "holes")], NESTED);
    assert!(
        said.contains("column `holes` in record batch 0: a list has an element that is null"),
        "{said}"
    );
    assert!(said.ends_with("the last 2 rows of the batch can't be decoded"), "{said}");
}

#[test]
fn dictionaries_grow_and_are_replaced() {
    let all = texts(&["a", "b", "b", "a", "c", "a", "x", ""]);
    let outcome_of = |file| outcome(&setup(&[]), file);
    assert_eq!((words(&outcome_of(WORDS)), outcome_of(WORDS).errors), (all.clone(), vec![]));
    assert_eq!(words(&outcome_of(DELTA)), all[..6]);
    // After the third dictionary, decoding can't begin again with the first one.
    let places = restarts::<Arrow>(&setup(&[]), WORDS, &[50; 60]);
    assert_eq!(places.iter().map(|place| place.records).max(), Some(4), "{places:?}");
    // Without the column there is nothing that could be missing.
    let ids = &setup(&[("columns", "id")]);
    let places = restarts::<Arrow>(ids, WORDS, &[50; 60]);
    // The last two records are consumed together with the end mark.
    assert_eq!(places.iter().map(|place| place.records).max(), Some(6), "{places:?}");
}

#[test]
fn a_damaged_dictionary_gives_no_wrong_word() {
    // The text of the first dictionary is no longer UTF-8.
    let at = WORDS.windows(3).position(|bytes| bytes == b"ab\0").expect("the dictionary");
    let mut file = WORDS.to_vec();
    file[at] = 0xff;
    let outcome = outcome(&setup(&[]).skipping(), &file);
    let said: Vec<_> = outcome.errors.iter().map(|(.., message)| message.as_str()).collect();
    assert!(said[0].contains("dictionary 0: value 0: expected a value of its type"), "{said:?}");
    assert!(said[1].contains("column `word` in record batch 0: its dictionary 0"), "{said:?}");
    assert!(said.iter().any(|one| one.contains("adds to one that was damaged")), "{said:?}");
    // The last dictionary replaces it.
    assert_eq!(words(&outcome), texts(&["x", ""]));
}

#[test]
fn damage_costs_a_batch() {
    let clean = outcome(&setup(&[]), NONE);
    let second = clean.starts[25] as usize;
    // The metadata of the second batch.
    let mut file = NONE.to_vec();
    file[second + 8] ^= 0xff;
    let damaged = outcome(&setup(&[]).skipping(), &file);
    let [(at, skipped, message)] = &damaged.errors[..] else { panic!("{:?}", damaged.errors) };
    assert_eq!((*at, at + skipped), (clean.starts[25], clean.starts[50]));
    assert!(message.contains("in the metadata of a message"), "{message}");
    assert_eq!(damaged.records, [&clean.records[..25], &clean.records[50..]].concat());
    // A name that is no text: the rows before it stay.
    let name = second + NONE[second..].windows(6).position(|bytes| bytes == b"name 2").expect("27");
    let mut file = NONE.to_vec();
    file[name + 12] = 0xff;
    let damaged = outcome(&setup(&[]).skipping(), &file);
    let [(at, _, message)] = &damaged.errors[..] else { panic!("{:?}", damaged.errors) };
    assert_eq!(*at, clean.starts[25]);
    assert!(message.contains("column `name` in record batch 1: expected a value"), "{message}");
    assert!(message.contains("text that is not UTF-8"), "{message}");
    assert!(damaged.records.len() > 35 && damaged.records.len() < 60);
    let lost = 60 - damaged.records.len();
    assert!(message.ends_with(&format!("the last {lost} rows of the batch can't be decoded")));
}

#[test]
fn what_is_cut_short_is_an_error_with_its_place() {
    let clean = outcome(&setup(&[]), FILE);
    for size in [1, 7, 8, 20, 700, FILE.len() / 2, FILE.len() - 1] {
        let outcome = outcome(&setup(&[]), &FILE[..size]);
        let [(at, _, message)] = &outcome.errors[..] else { panic!("{:?}", outcome.errors) };
        assert!(*at <= size as u64 && message.contains(", found "), "{size}: {message}");
        assert_eq!(outcome.records, clean.records[..outcome.records.len()]);
    }
    // At the border of two messages, the footer is missing.
    let border = clean.starts[50] as usize;
    let said = message(&[], &FILE[..border]);
    assert!(
        said.contains("its end mark and footer, found the end; the file is cut short"),
        "{said}"
    );
    // A stream may end there.
    let stream = outcome(&setup(&[]), &NONE[..clean.starts[50] as usize - 8]);
    assert_eq!((stream.records.len(), stream.errors.len()), (50, 0));
    let said = message(&[], &[FILE, b"more"].concat());
    assert!(
        said.contains("expected the start of an Arrow stream or file, found 4 bytes"),
        "{said}"
    );
    let empty = outcome_of_nothing();
    assert!(empty.records.is_empty() && empty.errors.is_empty());
}

fn outcome_of_nothing() -> Outcome {
    outcome(&setup(&[]), b"")
}

/// The host may call the decoder after the error that has led to the end, or not.
#[test]
fn damage_up_to_the_end_is_one_error() {
    let last = outcome(&setup(&[]), FILE).starts[50] as usize;
    let mut file = FILE.to_vec();
    file[last + 8] ^= 0xff;
    let outcome = outcome(&setup(&[]).skipping(), &file);
    assert_eq!((outcome.records.len(), outcome.errors.len()), (50, 1), "{:?}", outcome.errors);
}

#[test]
fn a_footer_that_is_damaged_is_an_error() {
    for from_end in [1, 6, 7, 10] {
        let mut file = FILE.to_vec();
        let at = file.len() - from_end;
        file[at] ^= 1;
        let outcome = outcome(&setup(&[]), &file);
        assert_eq!(outcome.records.len(), 60);
        assert!(outcome.errors[0].2.contains("expected the file's footer"), "{from_end}");
    }
}

#[test]
fn several_streams_and_files_follow_each_other() {
    let all = [NONE, FILE, BARE, FILES[3], FILES[5]].concat();
    let outcome = outcome(&setup(&[]), &all);
    assert_eq!(outcome.errors, []);
    assert_eq!(
        rows(&outcome),
        [expected(), expected(), expected(), expected(), expected()].concat()
    );
    let said = message(&[], &[NONE, WORDS].concat());
    assert!(said.contains("another stream follows, whose records have other fields"), "{said}");
}

#[test]
fn a_batch_above_max_record_is_an_error() {
    // The second batch is the largest one.
    let starts = outcome(&setup(&[]), NONE).starts;
    let size = starts[50] - starts[25];
    assert!(size > starts[25] - starts[0]);
    let with = |max_record| Setup { max_record, ..setup(&[]) };
    assert_eq!(outcome(&with(size + 8), NONE).errors, []);
    let outcome = outcome(&with(size - 1), NONE);
    let said = &outcome.errors[0].2;
    assert!(said.contains(&format!("{size} bytes, more than max_record")), "{said}");
}

/// A message with a schema of no columns, in the byte order of this number.
fn schema_of_order(order: u8) -> Vec<u8> {
    let words =
        |words: &[u16]| words.iter().flat_map(|word| word.to_le_bytes()).collect::<Vec<_>>();
    let metadata = [
        &16u32.to_le_bytes()[..],
        // The places of the fields of the message, then the message.
        &words(&[10, 12, 4, 6, 8, 0]),
        &12u32.to_le_bytes(),
        &[4, 0, 1, 0],
        &12u32.to_le_bytes(),
        // The same of the schema.
        &words(&[6, 8, 4, 0]),
        &8u32.to_le_bytes(),
        &[order, 0, 0, 0],
        &[0; 4],
    ]
    .concat();
    [&[0xff; 4][..], &(metadata.len() as u32).to_le_bytes(), &metadata].concat()
}

#[test]
fn big_endian_streams_and_other_formats_of_the_name_are_refused() {
    let said = message(&[], &schema_of_order(1));
    assert!(said.contains("its numbers are big-endian, which is not supported"), "{said}");
    let said = message(&[], &schema_of_order(0));
    assert!(said.contains("the file has no columns"), "{said}");
    let feather = [b"FEA1".as_slice(), &[0; 60]].concat();
    let said = message(&[], &feather);
    assert!(said.contains("a Feather file of version 1"), "{said}");
}

#[test]
fn other_formats_are_refused() {
    assert_refuses_other_formats::<Arrow>(&Setup::new(&[]), "decoder = \"arrow\"");
    assert!(decode_whole::<Arrow>(&setup(&[]), b"a,b,c\n1,2,3\n4,5,6\n").errors.len() == 1);
}
