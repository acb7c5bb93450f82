//! All readable forms of an archive, with the same rows.

use pipemill_plugin::Field;
use pipemill_plugin::Scalar;

use crate::write::{Member, archive, array, deflated, directory, member, numbers};
use crate::{outcome, records, setup};

/// An array `x` of three rows of two numbers.
fn x() -> Member {
    member("x.npy", &array("'<i2'", "(3, 2)", &numbers(6)))
}

fn rows() -> Vec<Vec<Vec<u8>>> {
    numbers(6).chunks(4).map(|row| vec![row.to_vec()]).collect()
}

#[test]
fn sizes_before_and_after_the_data() {
    for zip64 in [false, true] {
        for descriptor in [None, Some(true), Some(false)] {
            let file = archive(&[Member { zip64, descriptor, ..x() }]);
            assert_eq!(records(&[], &file), rows(), "{zip64} {descriptor:?}");
        }
        let file = archive(&[deflated(Member { zip64, ..x() })]);
        assert_eq!(records(&[], &file), rows(), "{zip64}");
    }
}

#[test]
fn the_array_that_is_named() {
    let y = member("y.npy", &array("'<f8'", "(5, 9)", &[7; 360]));
    let others = [
        member("folder/", b""),
        deflated(member("readme.txt", b"text text text")),
        Member { method: 12, ..member("bzip2", b"BZh") },
        Member { flags: 1, ..member("encrypted.npy", b"????") },
    ];
    for (first, second) in
        [(x(), y.clone()), (deflated(x()), y.clone()), (x(), deflated(y.clone()))]
    {
        let members = [&others[..], &[first, second]].concat();
        let backwards: Vec<_> = members.iter().rev().cloned().collect();
        for members in [members, backwards] {
            for name in ["x", "x.npy"] {
                assert_eq!(records(&[("array", name)], &archive(&members)), rows());
            }
            assert_eq!(records(&[("array", "y")], &archive(&members)).len(), 5);
        }
    }
    // Members whose sizes come after their data are skipped, too, if they are arrays.
    let streamed = |one: Member| Member { descriptor: Some(true), zip64: true, ..one };
    let big_endian = member("z.npy", &array("'>f8'", "(5, 9)", &[7; 360]));
    let complex = member("z.npy", &array("[('a', '<c16'), ('b', '<U3', (2,))]", "(2,)", &[7; 80]));
    for other in [y, big_endian, complex] {
        let file = archive(&[
            streamed(other.clone()),
            streamed(x()),
            streamed(Member { name: "w.npy".into(), ..other }),
        ]);
        assert_eq!(records(&[("array", "x")], &file), rows());
    }
}

#[test]
fn the_schema_has_the_name_of_the_array() {
    let file = archive(&[member("train/x.npy", &array("'<i2'", "(3, 2)", &numbers(6)))]);
    let outcome = outcome(&setup(&[]), &file);
    assert_eq!(outcome.schema, Some(vec![Field::new("train/x", Scalar::Int16).shaped([2])]));
    let structured = member("s.npy", &array("[('a', '<i2'), ('b', '|b1')]", "(2,)", b"aa\0bb\x01"));
    for member in [structured.clone(), deflated(structured)] {
        let outcome = crate::outcome(&setup(&[]), &archive(&[member]));
        let fields = vec![Field::new("a", Scalar::Int16), Field::new("b", Scalar::Boolean)];
        assert_eq!(outcome.schema, Some(fields));
        let record = |a: &[u8], b| vec![Some(a.to_vec()), Some(vec![b])];
        assert_eq!(outcome.records, [record(b"aa", 0), record(b"bb", 1)]);
    }
}

#[test]
fn several_archives() {
    let none = archive(&[member("x.npy", &array("'<i2'", "(0, 2)", b""))]);
    let file = [archive(&[x()]), none, archive(&[deflated(x())]), archive(&[x()])].concat();
    assert_eq!(records(&[], &file), [rows(), rows(), rows()].concat());
}

/// Rows of a deflated array come in several parts, and in several calls.
#[test]
fn deflated_arrays_of_any_size() {
    let data = numbers(60_000);
    let file = archive(&[deflated(member("x.npy", &array("'<i2'", "(20000, 3)", &data)))]);
    let wanted: Vec<_> = data.chunks(6).map(|row| vec![Some(row.to_vec())]).collect();
    for max_record in [file.len() as u64, 150_000, 1 << 26] {
        let setup = pipemill_plugin::testing::Setup { max_record, ..setup(&[]) };
        for sizes in [vec![], vec![1000; 500]] {
            let outcome =
                pipemill_plugin::testing::decode_split::<pipemill_npz::Npz>(&setup, &file, &sizes);
            assert_eq!((outcome.errors, outcome.records.len()), (vec![], 20_000));
            assert!(outcome.records == wanted);
            assert!(outcome.starts.iter().all(|start| *start == 0));
        }
    }
}

#[test]
fn where_records_start() {
    let first = archive(&[x()]);
    let file = [first.clone(), archive(&[deflated(x())])].concat();
    let outcome = outcome(&setup(&[]), &file);
    let data = (30 + 5 + x().data.len() - 12) as u64;
    let second = first.len() as u64;
    assert_eq!(outcome.starts, [data, data + 4, data + 8, second, second, second]);
}

#[test]
fn the_directory_may_be_zip64_without_need() {
    let members = x().bytes();
    let file = [&members[..], &directory(&["x.npy"], members.len(), true)].concat();
    assert_eq!(records(&[], &file), rows());
}
