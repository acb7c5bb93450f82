//! Every split gives the rows and samples that were written.

use pipemill_npz::Npz;
use pipemill_plugin::testing::{Record, Setup, assert_any_split};
use proptest::prelude::*;

use crate::setup;
use crate::write::{Member, archive, array, deflated, member};

/// Bytes without a pattern; `text` can be compressed.
fn data(length: usize, seed: u8, text: bool) -> Vec<u8> {
    let byte = |at: usize| (at as u8).wrapping_mul(89) ^ (at >> 3) as u8 ^ seed;
    (0..length).map(|at| if text { byte(at) % 3 } else { byte(at) }).collect()
}

/// One of the ways to write a member.
fn way(member: Member, way: u8) -> Member {
    match way % 6 {
        0 => deflated(member),
        1 => deflated(Member { zip64: true, ..member }),
        2 => Member { descriptor: Some(true), ..member },
        3 => Member { descriptor: Some(false), zip64: true, ..member },
        4 => Member { zip64: true, ..member },
        _ => member,
    }
}

/// An archive: its bytes, and the rows of its array `x`, of six bytes each.
fn with_rows() -> impl Strategy<Value = (Vec<u8>, Vec<Record>)> {
    let rows = prop_oneof![1 => Just(0usize), 4 => 0usize..9, 1 => 0usize..900];
    let other = prop::option::of((0usize..300, any::<u8>()));
    (rows, any::<u8>(), any::<u8>(), any::<bool>(), other.clone(), other).prop_map(
        |(rows, seed, form, text, before, after)| {
            let other = |name: &str, other: Option<(usize, u8)>| {
                other.map(|(size, form)| {
                    way(
                        member(name, &array("'|u1'", &format!("({size},)"), &data(size, 9, true))),
                        form,
                    )
                })
            };
            let bytes = data(rows * 6, seed, text);
            let x = member("x.npy", &array("'<i2'", &format!("({rows}, 3)"), &bytes));
            let members: Vec<_> =
                [other("before.npy", before), Some(way(x, form)), other("after.npy", after)]
                    .into_iter()
                    .flatten()
                    .collect();
            (archive(&members), bytes.chunks(6).map(|row| vec![Some(row.to_vec())]).collect())
        },
    )
}

/// An archive: its bytes, and its record with the arrays `a` and `b`.
fn with_sample() -> impl Strategy<Value = (Vec<u8>, Vec<Record>)> {
    (any::<[u8; 4]>(), 0usize..200, any::<bool>()).prop_map(
        |([seed, one, two, three], count, is_there)| {
            let b = data(count, seed, true);
            let mut members = vec![
                way(member("c.npy", &array("'<i4'", "()", &[1; 4])), three),
                way(member("b.npy", &array("'|u1'", &format!("({count},)"), &b)), one),
            ];
            if is_there {
                members.push(way(member("a.npy", &array("'<i2'", "()", &[seed, 1])), two));
            }
            members.push(member("text", b"text"));
            let record = vec![is_there.then(|| vec![seed, 1]), Some(b)];
            (archive(&members), vec![record])
        },
    )
}

/// Several archives in sequence, with the options for them.
pub fn archives() -> impl Strategy<Value = (Vec<(&'static str, &'static str)>, Vec<u8>, Vec<Record>)>
{
    let join = |all: Vec<(Vec<u8>, Vec<Record>)>| {
        let (files, records): (Vec<_>, Vec<_>) = all.into_iter().unzip();
        (files.concat(), records.concat())
    };
    let rows = prop::collection::vec(with_rows(), 1..4).prop_map(join);
    let samples = prop::collection::vec(with_sample(), 1..5).prop_map(join);
    prop_oneof![
        rows.prop_map(|(file, records)| (vec![("array", "x")], file, records)),
        samples.prop_map(|(file, records)| (vec![("fields", "a:int16?,b:uint8[]")], file, records)),
    ]
}

pub fn pieces() -> impl Strategy<Value = Vec<usize>> {
    prop::collection::vec(prop_oneof![3 => 1usize..30, 2 => 1usize..300, 1 => 1usize..3000], 0..60)
}

proptest! {
    #[test]
    fn written_arrays_are_read((options, file, records) in archives(), verify: bool, skip: bool, pieces in pieces()) {
        let verify = [("verify", if verify { "true" } else { "false" })];
        let setup = Setup { skip, ..setup(&[&options[..], &verify].concat()) };
        let outcome = assert_any_split::<Npz>(&setup, &file, &pieces);
        prop_assert_eq!(outcome.errors, []);
        prop_assert_eq!(outcome.records, records);
    }

    /// A cut is an error, unless it is after a complete archive.
    #[test]
    fn a_cut_is_an_error((options, file, records) in archives(), at in any::<prop::sample::Index>(), skip: bool, pieces in pieces()) {
        let at = 1 + at.index(file.len() - 1);
        let setup = Setup { skip, ..setup(&options) };
        let outcome = assert_any_split::<Npz>(&setup, &file[..at], &pieces);
        prop_assert!(records.starts_with(&outcome.records));
        if outcome.errors.is_empty() {
            prop_assert!(file[..at].ends_with(b"\x03\0end"));
        } else {
            prop_assert_eq!(outcome.errors.len(), 1);
        }
    }
}
