//! Comparison with the `tar` crate: it writes the archives, and reads the same members.

use std::io::Read;

use pipemill_plugin::testing::{Record, Setup, assert_any_split};
use pipemill_webdataset::WebDataset;
use proptest::prelude::*;

use crate::splits::pieces;

/// Keys of all lengths, so that some need prefixes or long names.
fn key() -> impl Strategy<Value = String> {
    let part = prop_oneof![4 => "[a-z]{1,12}", 1 => "[a-zäö€ ]{1,90}", 1 => "[a-z]{100,120}"];
    prop::collection::vec(part, 1..5).prop_map(|parts| parts.join("/"))
}

fn write(members: &[(String, Vec<u8>)], gnu: bool) -> Vec<u8> {
    let mut builder = tar::Builder::new(Vec::new());
    for (path, data) in members {
        let mut header = if gnu { tar::Header::new_gnu() } else { tar::Header::new_ustar() };
        header.set_size(data.len() as u64);
        header.set_mode(0o644);
        builder.append_data(&mut header, path, &data[..]).expect("memory can be written to");
    }
    builder.into_inner().expect("memory can be written to")
}

/// The members as the crate reads them.
fn read(file: &[u8]) -> Vec<(String, Vec<u8>)> {
    let mut archive = tar::Archive::new(file);
    let entries = archive.entries().expect("it wrote it");
    entries
        .map(|entry| {
            let mut entry = entry.expect("it wrote it");
            let path = String::from_utf8(entry.path_bytes().into_owned()).expect("from text");
            let mut data = Vec::new();
            entry.read_to_end(&mut data).expect("memory can be read");
            (path, data)
        })
        .collect()
}

proptest! {
    #[test]
    fn same_as_the_tar_crate(
        keys in prop::collection::btree_set(key(), 0..10),
        data in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..700), 20),
        gnu: bool,
        pieces in pieces(),
    ) {
        // Without GNU's long names the crate refuses paths that do not fit, so these are removed.
        let short = |key: &String| gnu || key.len() < 90;
        let keys: Vec<_> = keys.into_iter().filter(short).collect();
        let mut members = Vec::new();
        for (number, key) in keys.iter().enumerate() {
            members.push((format!("{key}.jpg"), data[2 * number].clone()));
            members.push((format!("{key}.meta.json"), data[2 * number + 1].clone()));
        }
        let file = write(&members, gnu);
        let theirs = read(&file);
        prop_assert_eq!(&theirs, &members);
        let wanted: Vec<Record> = theirs
            .chunks(2)
            .map(|pair| {
                let key = pair[0].0.strip_suffix(".jpg").expect("was written so");
                vec![Some(key.as_bytes().to_vec()), Some(pair[0].1.clone()), Some(pair[1].1.clone())]
            })
            .collect();
        let setup = Setup::new(&[("fields", "jpg,meta.json")]);
        let outcome = assert_any_split::<WebDataset>(&setup, &file, &pieces);
        prop_assert_eq!(outcome.errors, []);
        prop_assert_eq!(outcome.records, wanted);
    }
}
