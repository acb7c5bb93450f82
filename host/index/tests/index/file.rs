//! The file of an index.

use std::fs;

use pipemill_index::{Index, IndexedObject, Objects, Place};
use pipemill_source::Compression;
use pipemill_types::{Field, Scalar};
use proptest::prelude::*;
use proptest::sample::Index as At;

pub fn config(cases: u32) -> ProptestConfig {
    ProptestConfig { failure_persistence: None, cases, ..ProptestConfig::default() }
}

fn places() -> impl Strategy<Value = Vec<(u64, u64, u32, Vec<u8>)>> {
    let step = (0u64..1_000, 1u64..100_000, 0u32..10, prop::collection::vec(any::<u8>(), 0..9));
    prop::collection::vec(step, 0..5)
}

prop_compose! {
    fn objects()(all in prop::collection::vec(
        ("[a-zä/]{0,9}", "[a-z0-9:,]{0,30}", 0u64..1 << 60, 0u64..99, places()), 0..40
    )) -> Objects {
        let mut objects = Objects::default();
        for (name, identity, size, errors, steps) in all {
            let (mut record, mut offset) = (0, 0);
            let places: Vec<_> = steps.into_iter().map(|(records, bytes, header, inflate)| {
                (record, offset) = (record + records, offset + bytes);
                let header = header.min(u32::try_from(offset).unwrap_or(u32::MAX));
                Place { record, offset, header, inflate: inflate.into() }
            }).collect();
            let (name, identity, records) = (name.as_str(), identity.as_str(), record + 3);
            objects.push(IndexedObject { name, identity, size, records, errors, places: &places });
        }
        objects
    }
}

pub fn index(objects: Objects) -> Index {
    let header = serde_json::json!({
        "version": 3, "decoder": "csv", "decoder_identity": "csv 1",
        "options": [["header", "true"]],
        "fields": [Field::new("a", Scalar::Int64, Vec::new())],
        "lengths": [{"min": 8, "max": 8, "sum": 80, "absent": 0}],
        "compression": Compression::Auto, "skips_errors": false, "max_record": 1 << 20,
        "sources": ["/data"], "root": "/data", "objects": 0, "records": 0, "bytes": 0, "digest": "",
        "places_digest": "",
    });
    Index { header: serde_json::from_value(header).unwrap(), objects }
}

proptest! {
    #![proptest_config(config(64))]

    #[test]
    fn an_index_is_read_as_it_was_written(objects in objects()) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.index");
        let index = index(objects);
        index.write(&path).unwrap();
        prop_assert_eq!(Index::read(&path).unwrap(), index);
        prop_assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
    }

    /// Of objects alone, the file has no records.
    #[test]
    fn an_index_of_objects_alone_is_read_as_it_was_written(objects in objects()) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.index");
        let mut alone = Objects::default();
        for object in objects.iter() {
            alone.push(IndexedObject { records: 0, errors: 0, places: &[], ..object });
        }
        let mut index = index(objects);
        index.header.objects_only = true;
        (index.header.version, index.header.fields) = (2, Vec::new());
        index.write(&path).unwrap();
        let read = Index::read(&path).unwrap();
        prop_assert_eq!(read, Index { objects: alone, ..index });
    }

    #[test]
    fn a_file_that_was_changed_is_refused(
        objects in objects(), at: At, flip in 1u8..=255, cut: bool
    ) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.index");
        index(objects).write(&path).unwrap();
        let mut bytes = fs::read(&path).unwrap();
        let at = at.index(bytes.len());
        if cut { bytes.truncate(at) } else { bytes[at] ^= flip }
        fs::write(&path, bytes).unwrap();
        let error = Index::read(&path).unwrap_err();
        prop_assert!(!error.remedy.is_empty(), "{}", error);
    }
}

/// Several threads read the row groups of 65,536 objects, and their order stays.
#[test]
fn an_index_of_many_objects_is_read_as_it_was_written() {
    let mut objects = Objects::default();
    for number in 0..150_000_u64 {
        let place = |record| {
            let (offset, inflate) = (100 * record, vec![number as u8; 3].into());
            Place { record, offset, header: 0, inflate }
        };
        let places: Vec<_> = (1..number % 4).map(place).collect();
        let (name, identity) = (format!("{number}.csv"), format!("size:{number}"));
        let (name, identity) = (name.as_str(), identity.as_str());
        let (size, records, errors) = (number, 10 + number, number % 3);
        objects.push(IndexedObject { name, identity, size, records, errors, places: &places });
    }
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.index");
    let index = index(objects);
    index.write(&path).unwrap();
    assert!(Index::read(&path).unwrap() == index);
}

#[test]
fn other_files_are_refused_with_what_to_do() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.index");
    let error = Index::read(&path).unwrap_err();
    assert!(error.missing && error.to_string().contains("pipemill index SOURCE --out"), "{error}");
    for bytes in [&b""[..], b"PAR1", b"PAR1pipemill", b"a,b\n1,2\n", &[0; 100]] {
        fs::write(&path, bytes).unwrap();
        let error = Index::read(&path).unwrap_err();
        assert!(error.to_string().contains("a.index"), "{error}");
    }
}
