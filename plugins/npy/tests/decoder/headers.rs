//! Headers: which are read, in which form, and which fields they give.

use pipemill_plugin::{Field, Scalar};

use crate::read;
use crate::write::{array, dict, header};

#[test]
fn the_fields_of_a_row() {
    use Scalar::*;
    let data = |scalar| Field::new("data", scalar);
    let cases = [
        ("'<f4'", "(1, 2, 3)", data(Float32).shaped([2, 3])),
        ("'<f8'", "(1,)", data(Float64)),
        ("'<f2'", "()", data(Float16)),
        ("'|b1'", "(1, 2)", data(Boolean).shaped([2])),
        ("'|i1'", "()", data(Int8)),
        ("'|u1'", "(1, 1)", data(Uint8).shaped([1])),
        ("'<u2'", "(1,)", data(Uint16)),
        ("'<u4'", "(1,)", data(Uint32)),
        ("'<u8'", "(1,)", data(Uint64)),
        ("'<i2'", "(1,)", data(Int16)),
        ("'<i4'", "(1,)", data(Int32)),
        ("'<i8'", "(1,)", data(Int64)),
        ("'|S7'", "(1,)", data(Bytes)),
        ("'|S7'", "(1, 3)", data(Bytes).list()),
        ("'<M8[s]'", "(1,)", data(Int64).logical("timestamp[s]")),
        ("'<M8[ms]'", "(1,)", data(Int64).logical("timestamp[ms]")),
        ("'<M8[us]'", "(1, 2)", data(Int64).logical("timestamp[us]").shaped([2])),
        ("'<M8[ns]'", "()", data(Int64).logical("timestamp[ns]")),
    ];
    for (descr, shape, field) in cases {
        // Zeros are enough data for each case.
        let (fields, _) = {
            let size: usize = match field.scalar {
                Bytes => 7 * if field.shape.is_empty() { 1 } else { 3 },
                scalar => scalar.size() * field.shape.iter().product::<u32>() as usize,
            };
            read(&array(descr, shape, &vec![0; size]))
        };
        assert_eq!(fields, [field], "{descr} {shape}");
    }
}

#[test]
fn a_field_for_each_member() {
    let descr = "[('a', '<i2'), ('', '|V1'), ('b', '|u1', (2,)), (('title', 'c'), '|S3'), ('d', '|b1'), \
                 ('e', '|S2', (2,)), ('', '|V2')]";
    let row = b"\x01\x02_xyab\0\x01a\0\0\0__";
    let (fields, records) = read(&array(descr, "(2,)", &row.repeat(2)));
    let wanted = [
        Field::new("a", Scalar::Int16),
        Field::new("b", Scalar::Uint8).shaped([2]),
        Field::bytes("c"),
        Field::new("d", Scalar::Boolean),
        Field::bytes("e").list(),
    ];
    assert_eq!(fields, wanted);
    let list = b"\x0c\0\0\0\x0d\0\0\0\x0d\0\0\0a".to_vec();
    let record = [b"\x01\x02".to_vec(), b"xy".to_vec(), b"ab".to_vec(), vec![1], list];
    assert_eq!(records, [record.clone(), record]);
}

/// One member without padding is as fast as a plain array; with padding it is not the whole row.
#[test]
fn a_single_member() {
    let (fields, records) = read(&array("[('x', '<i2')]", "(2,)", b"abcd"));
    assert_eq!(
        (fields, records),
        (vec![Field::new("x", Scalar::Int16)], vec![vec![b"ab".to_vec()], vec![b"cd".to_vec()]])
    );
    let (_, records) = read(&array("[('x', '<i2'), ('', '|V1')]", "(2,)", b"ab_cd_"));
    assert_eq!(records, [[b"ab"], [b"cd"]]);
}

#[test]
fn all_forms_of_a_header() {
    let texts = [
        dict("'<i2'", "(2,)"),
        "{'descr':'<i2','fortran_order':False,'shape':(2,)}".to_owned(),
        "  {\"shape\" : ( 2 , ) , 'fortran_order' : False\n,\t'descr': \"<i2\"}   \n\n".to_owned(),
        "{'descr': '<i2', 'fortran_order': True, 'shape': (2L,), }".to_owned(),
    ];
    for text in texts {
        let (_, records) = read(&[&header(&text)[..], b"abcd"].concat());
        assert_eq!(records, [[b"ab"], [b"cd"]], "{text}");
    }
    for version in [2, 3] {
        let text = dict("[('größe', '|u1')]", "(1,)");
        let mut file =
            [b"\x93NUMPY".as_slice(), &[version, 0], &(text.len() as u32).to_le_bytes()].concat();
        file.extend_from_slice(text.as_bytes());
        file.push(7);
        let (fields, records) = read(&file);
        // Only version 3 is UTF-8.
        assert_eq!(fields[0].name, if version == 3 { "größe" } else { "grÃ¶Ã\u{9f}e" });
        assert_eq!(records, [[[7]]]);
    }
}

#[test]
fn arrays_one_after_the_other() {
    let file = [
        array("'<i2'", "(0,)", b""),
        array("'<i2'", "(2,)", b"aabb"),
        array("'<i2'", "()", b"cc"),
        array("'<i2'", "(0,)", b""),
        array("'<i2'", "(1,)", b"dd"),
    ]
    .concat();
    assert_eq!(read(&file).1, [[b"aa"], [b"bb"], [b"cc"], [b"dd"]]);
}

/// The data may look like a header.
#[test]
fn arrays_in_arrays() {
    let inner = array("'|u1'", "(3,)", b"abc");
    let outer = array("'|u1'", &format!("({},)", inner.len()), &inner);
    assert_eq!(read(&outer).1.concat().concat(), inner);
}

#[test]
fn no_rows() {
    let (fields, records) = read(&array("'<f4'", "(0, 3)", b""));
    assert_eq!((fields, records.len()), (vec![Field::new("data", Scalar::Float32).shaped([3])], 0));
}

#[test]
fn where_records_start() {
    let file = [array("'<i2'", "(2,)", b"aabb"), array("'<i2'", "(1,)", b"cc")].concat();
    let outcome = crate::outcome(&pipemill_plugin::testing::Setup::new(&[]), &file);
    let header = (file.len() - 6) as u64 / 2;
    assert_eq!(outcome.starts, [header, header + 2, 2 * header + 4]);
}
