//! Small inputs and their records, for each option.

use pipemill_csv::Csv;
use pipemill_plugin::testing::{Outcome, Setup, decode_split, decode_whole};
use pipemill_plugin::{Field, Scalar};

use crate::text;

/// The outcome, which must have no error and be the same for every split.
fn good(options: &[(&str, &str)], input: &str) -> Outcome {
    let setup = Setup::new(options);
    let whole = decode_whole::<Csv>(&setup, input.as_bytes());
    for cut in 0..input.len() {
        assert_eq!(decode_split::<Csv>(&setup, input.as_bytes(), &[cut]), whole, "cut at {cut}");
    }
    assert_eq!(whole.errors, []);
    whole
}

fn names(outcome: &Outcome) -> Vec<String> {
    let schema = outcome.schema.as_ref().expect("known");
    schema.iter().map(|field| field.name.clone()).collect()
}

fn floats(field: &Option<Vec<u8>>) -> Vec<f32> {
    let bytes = field.as_deref().expect("present");
    bytes.chunks_exact(4).map(|b| f32::from_le_bytes([b[0], b[1], b[2], b[3]])).collect()
}

#[test]
fn rfc_4180() {
    let outcome = good(&[], "aaa,\"b \r\nbb\",ccc\r\nzzz,\"y\"\"y\",xxx");
    assert_eq!(text(&outcome), [["aaa", "b \r\nbb", "ccc"], ["zzz", "y\"y", "xxx"]]);
    assert_eq!(outcome.starts, [0, 18]);
    assert_eq!(names(&outcome), ["f0", "f1", "f2"]);
}

#[test]
fn header() {
    let outcome = good(&[("header", "true")], "\u{feff}id,\"na\"\"me\",\n1,2,3\n");
    assert_eq!(names(&outcome), ["id", "na\"me", "f2"]);
    assert_eq!(text(&outcome), [["1", "2", "3"]]);
    let outcome = good(&[("header", "true"), ("names", "x,y")], "a,b\n1,2\n");
    assert_eq!(names(&outcome), ["x", "y"]);
    assert_eq!(text(&outcome), [["1", "2"]]);
    let outcome = good(&[("header", "true")], "a,b\n");
    assert_eq!((names(&outcome), outcome.records), (vec!["a".into(), "b".into()], vec![]));
}

#[test]
fn repeated_header() {
    let options = [("header", "true"), ("drop_repeated_header", "true")];
    let input = "a,b\r\n1,2\na,b\n3,4\n\"a\",b\na,b";
    assert_eq!(text(&good(&options, input)), [["1", "2"], ["3", "4"], ["a", "b"]]);
    let rows = [&options[..], &[("emit", "row")]].concat();
    assert_eq!(text(&good(&rows, input)), [["1,2"], ["3,4"], ["\"a\",b"]]);
    let typed = [&options[..], &[("types", "int64")]].concat();
    assert_eq!(good(&typed, "a,b\n1,2\na,b\n3,4\n").records.len(), 2);
    let dense = [&options[..], &[("emit", "dense")]].concat();
    assert_eq!(good(&dense, "a,b\n1,2\na,b\n3,4\n").records.len(), 2);
}

#[test]
fn other_dialects() {
    assert_eq!(text(&good(&[("delimiter", "tab")], "a,b\tc\n")), [["a,b", "c"]]);
    assert_eq!(text(&good(&[("delimiter", "\\t")], "a\tb\n")), [["a", "b"]]);
    assert_eq!(text(&good(&[("quote", "none")], "\"a,b\"\n")), [["\"a", "b\""]]);
    let escape = [("escape", "\\")];
    assert_eq!(text(&good(&escape, "a\\,b,\"c\\\"d\"\n\\\"e,\n")), [["a,b", "c\"d"], ["\"e", ""]]);
    assert_eq!(text(&good(&escape, "a\\\r\n\"b\"\n")), [["a\r"], ["b"]]);
    let comment = [("comment", "#")];
    assert_eq!(text(&good(&comment, "# \"a\n#\nb,#\n#c")), [["b", "#"]]);
    let cr = [("lone_cr", "true")];
    assert_eq!(text(&good(&cr, "a,b\rc,d\r\n\r\"e\r\",f")), [["a", "b"], ["c", "d"], ["e\r", "f"]]);
}

#[test]
fn whole_rows() {
    let outcome = good(&[("emit", "row")], "a,\"b\n\"\"c\"\r\n\r\n\nd,\"e\"");
    assert_eq!(text(&outcome), [["a,\"b\n\"\"c\""], ["d,\"e\""]]);
    assert_eq!(outcome.schema, Some(vec![Field::bytes("row")]));
    assert_eq!(outcome.starts, [0, 14]);
}

#[test]
fn chosen_columns() {
    let outcome = good(&[("header", "true"), ("columns", "c,0")], "a,b,c\n1,2,3\n4,5,6\n");
    assert_eq!(names(&outcome), ["c", "a"]);
    assert_eq!(text(&outcome), [["3", "1"], ["6", "4"]]);
    // A name has precedence over a number.
    let outcome = good(&[("names", "1,0"), ("columns", "0")], "a,b\n");
    assert_eq!((names(&outcome), text(&outcome)), (vec!["0".into()], vec![vec!["b".into()]]));
}

#[test]
fn types() {
    let options = [("types", "float64,id:int64,n:int32,s:utf8,r:bytes"), ("names", "id,n,s,r,v,w")];
    let outcome = good(&options, "-7, 8 ,\"ü\"\"\",x,1e-3,\"2\"\n9,,\"\",, ,\n");
    let expected = [
        Some((-7i64).to_le_bytes().to_vec()),
        Some(8i32.to_le_bytes().to_vec()),
        Some("ü\"".as_bytes().to_vec()),
        Some(b"x".to_vec()),
        Some(1e-3f64.to_le_bytes().to_vec()),
        Some(2f64.to_le_bytes().to_vec()),
    ];
    assert_eq!(outcome.records[0], expected);
    let empty = Some(Vec::new());
    let nine = Some(9i64.to_le_bytes().to_vec());
    assert_eq!(outcome.records[1], [nine, None, empty.clone(), empty, None, None]);
    let scalars: Vec<_> = outcome.schema.expect("known").iter().map(|field| field.scalar).collect();
    use Scalar::{Bytes, Float64, Int32, Int64, Utf8};
    assert_eq!(scalars, [Int64, Int32, Utf8, Bytes, Float64, Float64]);
}

#[test]
fn dense() {
    let outcome = good(&[("emit", "dense")], "1,2.5,\"-3\"\n4,5e1,6\n");
    let schema = vec![Field::new("x", Scalar::Float32).shaped([3])];
    assert_eq!(outcome.schema, Some(schema));
    assert_eq!(floats(&outcome.records[0][0]), [1.0, 2.5, -3.0]);
    assert_eq!(floats(&outcome.records[1][0]), [4.0, 50.0, 6.0]);

    let outcome = good(&[("emit", "dense"), ("label", "0"), ("empty", "nan")], "1,2,\n3,nan,4\n");
    let schema =
        vec![Field::new("x", Scalar::Float32).shaped([2]), Field::new("y", Scalar::Float32)];
    assert_eq!(outcome.schema, Some(schema));
    assert_eq!(floats(&outcome.records[0][0])[0], 2.0);
    assert!(floats(&outcome.records[0][0])[1].is_nan());
    assert_eq!(floats(&outcome.records[0][1]), [1.0]);

    let outcome =
        good(&[("emit", "dense"), ("header", "true"), ("columns", "c,a")], "a,b,c\n1,x,3\n");
    assert_eq!(floats(&outcome.records[0][0]), [3.0, 1.0]);

    let outcome = good(&[("emit", "dense"), ("flexible", "true")], "1,2\n3\n4,5,6\n");
    assert_eq!(outcome.schema, Some(vec![Field::new("x", Scalar::Float32).shaped([0])]));
    let rows: Vec<_> = outcome.records.iter().map(|record| floats(&record[0])).collect();
    assert_eq!(rows, [vec![1.0, 2.0], vec![3.0], vec![4.0, 5.0, 6.0]]);
}

#[test]
fn dense_rows_of_any_length() {
    let options = [("emit", "dense"), ("flexible", "true"), ("label", "0")];
    let outcome = good(&options, "1\n2,3\n4\n5,6,7\n8,9\n");
    let rows: Vec<_> =
        outcome.records.iter().map(|record| (floats(&record[1])[0], floats(&record[0]))).collect();
    let expected =
        [(1.0, vec![]), (2.0, vec![3.0]), (4.0, vec![]), (5.0, vec![6.0, 7.0]), (8.0, vec![9.0])];
    assert_eq!(rows, expected);
}

#[test]
fn flexible() {
    let outcome = good(&[("flexible", "true")], "a,b\nc\nd,e,f\n");
    assert_eq!(text(&outcome), [["a", "b"], ["c", "-"], ["d", "e"]]);
}

#[test]
fn empty_inputs() {
    for input in ["", "\n", "\r\n", "\u{feff}", "\r"] {
        assert_eq!(good(&[], input).records, Vec::<Vec<_>>::new(), "{input:?}");
    }
}

#[test]
fn quotes_at_the_edges_of_blocks() {
    // The same row at each offset of a 64-byte block of the scanner.
    for before in 0..140 {
        let pad = "p".repeat(before);
        let input = format!("{pad},\"a\"\"b\",\"c,d\",\"\",e\"f,\"\"\"\"\r\n{pad},1,2,3,4,5\n");
        let outcome = good(&[], &input);
        assert_eq!(text(&outcome)[0], [&pad, "a\"b", "c,d", "", "e\"f", "\""], "{before} before");
        assert_eq!(text(&outcome)[1][1..], ["1", "2", "3", "4", "5"]);
        let rows = text(&good(&[("emit", "row")], &input));
        assert_eq!(rows.len(), 2, "{before} before");
    }
}
