//! Every split gives the rows that were written.

use pipemill_npy::Npy;
use pipemill_plugin::testing::{Record, Setup, assert_any_split};
use proptest::prelude::*;

use crate::write::array;

/// A type: Python's text, the size of a row in bytes, and the conversion of a row to a record.
type Form = (&'static str, &'static str, usize, fn(&[u8]) -> Record);

/// Types, and the dimensions after the first, as text.
const FORMS: [Form; 6] = [
    ("'<i2'", "", 2, |row| vec![Some(row.to_vec())]),
    ("'<f4'", "3, 2", 24, |row| vec![Some(row.to_vec())]),
    ("'|b1'", "5", 5, |row| vec![Some(row.iter().map(|byte| byte & 1).collect())]),
    ("'|S4'", "", 4, |row| vec![Some(unpadded(row))]),
    ("[('a', '|u1'), ('', '|V2'), ('b', '<i8', (2,))]", "", 19, |row| {
        vec![Some(row[..1].to_vec()), Some(row[3..].to_vec())]
    }),
    ("'|S2'", "2", 4, |row| {
        let (one, two) = (unpadded(&row[..2]), unpadded(&row[2..]));
        let offsets = [12, 12 + one.len(), 12 + one.len() + two.len()];
        let offsets = offsets.map(|offset| (offset as u32).to_le_bytes()).concat();
        vec![Some([offsets, one, two].concat())]
    }),
];

fn unpadded(bytes: &[u8]) -> Vec<u8> {
    let mut bytes = bytes.to_vec();
    while bytes.last() == Some(&0) {
        bytes.pop();
    }
    bytes
}

/// An input of arrays of one form, and its records.
pub fn arrays() -> impl Strategy<Value = (Vec<u8>, Vec<Record>)> {
    let sizes = prop::collection::vec(prop_oneof![3 => 0usize..8, 1 => 0usize..300], 1..5);
    (0..FORMS.len(), sizes, any::<u8>()).prop_map(|(form, sizes, seed)| {
        let (descr, dims, size, record) = FORMS[form];
        let (mut file, mut records) = (Vec::new(), Vec::new());
        for rows in sizes {
            let data: Vec<u8> = (0..rows * size)
                .map(|at| (at as u8).wrapping_mul(37) ^ (at >> 8) as u8 ^ seed)
                .map(|byte| match descr {
                    "'|b1'" => byte & 1,
                    // Some texts are short.
                    _ if descr.starts_with("'|S") && byte % 3 == 0 => 0,
                    _ => byte,
                })
                .collect();
            file.extend(array(descr, &format!("({rows}, {dims})"), &data));
            records.extend(data.chunks(size).map(record));
        }
        (file, records)
    })
}

pub fn pieces() -> impl Strategy<Value = Vec<usize>> {
    prop::collection::vec(prop_oneof![3 => 1usize..30, 2 => 1usize..300, 1 => 1usize..3000], 0..60)
}

proptest! {
    #[test]
    fn written_rows_are_read((file, records) in arrays(), pieces in pieces(), skip: bool) {
        let setup = Setup { skip, ..Setup::new(&[]) };
        let outcome = assert_any_split::<Npy>(&setup, &file, &pieces);
        prop_assert_eq!(outcome.errors, []);
        prop_assert_eq!(outcome.records, records);
    }

    /// Rows before the cut are read, except for the one that may have been the last.
    #[test]
    fn a_cut_is_an_error((file, records) in arrays(), at in any::<prop::sample::Index>(), skip: bool, pieces in pieces()) {
        let at = 1 + at.index(file.len() - 1);
        let setup = Setup { skip, ..Setup::new(&[]) };
        let outcome = assert_any_split::<Npy>(&setup, &file[..at], &pieces);
        prop_assert!(records.starts_with(&outcome.records));
        prop_assert!(outcome.errors.len() <= 1);
        if outcome.errors.is_empty() {
            // The cut is after a complete array.
            let rest = &file[at..];
            prop_assert!(rest.is_empty() || rest.starts_with(b"\x93NUMPY"));
        }
    }
}
