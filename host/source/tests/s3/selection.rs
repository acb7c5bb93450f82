//! Which objects are read, and in which order.

use std::collections::BTreeSet;

use pipemill_s3_test::proxy::Plan;
use pipemill_s3_test::servers::S3Server;
use pipemill_source::s3::{Selection, Settings};
use pipemill_source::{Balance, Compression, ListPart, Order, ReadSettings};
use pipemill_testing::bucket::{BUCKET, Bucket};
use pipemill_testing::inputs;

use crate::reading::{objects, read, reading, settings};

/// Keys that people make, as UTF-8 sorts them. XML can't have some of their characters.
const ODD: [&str; 15] = [
    "data/\u{1}\u{4}\u{1f}",
    "data/\n",
    "data/ leading space",
    "data/%41%2F",
    "data/&amp;<>'\"",
    "data/+plus+",
    "data//double//slash",
    "data/?versionId",
    "data/a b",
    "data/a/../b",
    "data/~tilde",
    "data/\u{7f}\u{85}",
    "data/ä/ß",
    "data/日本語",
    "data/🙂",
];

#[test]
fn keys_with_odd_characters_are_read() {
    let bucket = Bucket::with(ODD.iter().map(|key| (key, key)));
    let (received, end) = read(&settings(&bucket.server.endpoint(), "data/"));
    assert_eq!(end.ok(), Some(1));
    let names: Vec<_> = received.iter().map(|received| received.name.as_str()).collect();
    assert_eq!(names, ODD);
    assert!(received.iter().all(|received| received.bytes == received.name.as_bytes()));
    // Each by its own name, too.
    let (received, end) = read(&objects(&bucket.server.endpoint(), &ODD));
    assert_eq!(end.ok(), Some(1));
    assert!(
        received
            .iter()
            .map(|received| received.bytes.as_slice())
            .eq(ODD.iter().map(|key| key.as_bytes()))
    );
}

#[test]
fn a_prefix_is_not_a_folder() {
    let keys = ["data-1", "data/", "data/1", "data2/1", "data3", "other"];
    let bucket = Bucket::with(keys.map(|key| (key, if key.ends_with('/') { "" } else { "x" })));
    let names = |prefix| {
        let (received, end) = read(&settings(&bucket.server.endpoint(), prefix));
        assert_eq!(end.ok(), Some(1));
        received.into_iter().map(|received| received.name).collect::<Vec<_>>()
    };
    // What shows an empty folder is no object.
    assert_eq!(names("data"), ["data-1", "data/1", "data2/1", "data3"]);
    assert_eq!(names("data/"), ["data/1"]);
    assert_eq!(names("").len(), 5);
}

#[test]
fn hidden_keys_and_markers_are_left_out_unless_they_are_named() {
    let keys = [
        "t/.hidden/a",
        "t/_SUCCESS",
        "t/_committed_1",
        "t/_delta_log/0.json",
        "t/_year=1/b",
        "t/c",
        "t/c.crc",
    ];
    let bucket = Bucket::with(keys.map(|key| (key, key)));
    let names = |prefix: &str, hidden: bool| {
        let settings = settings(&bucket.server.endpoint(), prefix);
        let with = ReadSettings { hidden, ..ReadSettings::default() };
        let (received, end) = read(&reading(&settings, with));
        end.map(|_| received.into_iter().map(|received| received.name).collect::<Vec<_>>())
    };
    for prefix in ["", "t", "t/"] {
        assert_eq!(names(prefix, false).unwrap(), ["t/_year=1/b", "t/c"], "{prefix}");
        assert_eq!(names(prefix, true).unwrap(), keys, "{prefix}");
    }
    assert_eq!(names("t/_delta", false).unwrap(), ["t/_delta_log/0.json"]);
    assert_eq!(names("t/_delta_log/", false).unwrap(), ["t/_delta_log/0.json"]);
    assert_eq!(names("t/c.crc", false).unwrap(), ["t/c.crc"]);
    let only = Bucket::with([("u/_a", "x"), ("u/_b", "x")]);
    let (_, end) = read(&settings(&only.server.endpoint(), "u/"));
    let error = end.unwrap_err();
    assert!(
        error.missing && error.remedy.contains("left out 2 hidden files and markers"),
        "{error}"
    );
}

#[test]
fn a_name_is_one_object_or_else_a_prefix() {
    let bucket = Bucket::with(["part", "part-1", "x/1", "x/2"].map(|key| (key, key)));
    let names = |name: &str| {
        let address = format!("s3://{BUCKET}/{name}").parse().unwrap();
        let settings = settings(&bucket.server.endpoint(), "");
        let (received, end) =
            read(&Settings { selection: Selection::Named(vec![address]), ..settings });
        end.map(|_| received.into_iter().map(|received| received.name).collect::<Vec<_>>())
    };
    assert_eq!(names("part").unwrap(), ["part"]);
    assert_eq!(names("par").unwrap(), ["part", "part-1"]);
    assert_eq!(names("x").unwrap(), ["x/1", "x/2"]);
    assert_eq!(names("").unwrap().len(), 4);
    assert!(names("y").unwrap_err().missing);
}

#[test]
fn a_source_without_objects_is_an_error() {
    let bucket = Bucket::with([("a/", "")]);
    for prefix in ["nothing/", "a/"] {
        let settings = settings(&bucket.server.endpoint(), prefix);
        let (_, end) = read(&settings);
        let error = end.unwrap_err();
        assert!(error.missing && error.message == "no key begins with this prefix", "{error}");
        let (received, end) = read(&Settings { allow_empty: true, ..settings });
        assert!(received.is_empty() && end.ok() == Some(1));
    }
    let (_, end) = read(&objects(&bucket.server.endpoint(), &["nothing"]));
    let error = end.unwrap_err();
    assert!(error.missing && error.object.as_deref() == Some("s3://bucket/nothing"), "{error:?}");
}

#[test]
fn epochs_are_shuffled_and_divided_into_parts() {
    let keys: Vec<_> = (0..40).map(|number| format!("k{number:02}")).collect();
    let bucket = Bucket::with(keys.iter().map(|key| (key, key)));
    let plain = settings(&bucket.server.endpoint(), "");
    let names = |order| {
        let (received, end) =
            read(&reading(&plain, ReadSettings { epochs: 2, order, ..ReadSettings::default() }));
        assert_eq!(end.ok(), Some(2));
        let of = |epoch| {
            let received = received.iter().filter(|received| received.epoch == epoch);
            received.map(|received| received.name.clone()).collect::<Vec<_>>()
        };
        [of(0), of(1)]
    };
    assert_eq!(names(Order::default()), [keys.clone(), keys.clone()]);
    let shuffled = Order { shuffle: Some(5), ..Order::default() };
    let [first, second] = names(shuffled);
    assert!(first != keys && second != keys && first != second);
    assert_eq!(names(shuffled), [first.clone(), second]);
    let mut all = BTreeSet::new();
    for index in 0..3 {
        let [share, _] = names(Order {
            part: Some(ListPart { index, count: 3, balance: Balance::Count }),
            ..shuffled
        });
        assert!(share.iter().all(|name| all.insert(name.clone())), "an object was read twice");
    }
    assert_eq!(all.into_iter().collect::<Vec<_>>(), keys);
}

#[test]
fn parts_of_equal_size() {
    let objects: Vec<_> =
        (0..60).map(|number| (format!("k{number:02}"), number * 37 % 61 * 10)).collect();
    let contents = objects.iter().map(|(key, size)| (key, "x".repeat(*size)));
    let bucket = Bucket::with(contents.collect::<Vec<_>>().iter().map(|(key, text)| (key, text)));
    let plain = settings(&bucket.server.endpoint(), "");
    for shuffle in [None, Some(3)] {
        let mut all = BTreeSet::new();
        for index in 0..4 {
            let part = Some(ListPart { index, count: 4, balance: Balance::Size });
            let order = Order { shuffle, part, blocks: None };
            let (received, end) =
                read(&reading(&plain, ReadSettings { order, ..ReadSettings::default() }));
            assert_eq!(end.ok(), Some(1));
            let bytes: usize = received.iter().map(|received| received.bytes.len()).sum();
            let total: usize = objects.iter().map(|(_, size)| size).sum();
            assert!(bytes <= total / 4 + 600, "{bytes} of {total}");
            assert!(
                received.iter().all(|received| all.insert(received.name.clone())),
                "read twice"
            );
        }
        assert_eq!(all.len(), objects.len());
    }
    // What tells no sizes is not divided by count in silence.
    let selection = Selection::Objects(vec!["s3://bucket/k01".parse().unwrap()]);
    let part = Some(ListPart { index: 0, count: 4, balance: Balance::Size });
    let order = Order { part, ..Order::default() };
    let settings = Settings {
        selection,
        ..reading(&plain, ReadSettings { order, ..ReadSettings::default() })
    };
    let (_, end) = read(&settings);
    let error = end.unwrap_err();
    assert!(error.message.contains("does not tell the sizes") && error.remedy.contains("balance"));
}

#[test]
fn manifests_name_the_objects() {
    let bucket = Bucket::with([
        ("m.manifest", r#"[{"prefix": "s3://bucket/data/"}, "2", "1"]"#),
        ("data/1", "one"),
        ("data/2", "two"),
        (
            "lines",
            "{\"n\": 1, \"x-ref\": \"s3://bucket/data/1\"}\n\n{\"n\": \"z\", \"x-ref\": \
             \"s3://bucket/data/2\"}\n",
        ),
    ]);
    let select = |selection| Settings { selection, ..settings(&bucket.server.endpoint(), "") };
    let (received, end) =
        read(&select(Selection::Manifest("s3://bucket/m.manifest".parse().unwrap())));
    assert_eq!(end.ok(), Some(1));
    let received: Vec<_> =
        received.into_iter().map(|received| (received.name, received.bytes)).collect();
    assert_eq!(
        received,
        [("data/2".to_owned(), b"two".to_vec()), ("data/1".to_owned(), b"one".to_vec())]
    );

    let attributes = vec!["x-ref".to_owned(), "n".to_owned()];
    let manifest = "s3://bucket/lines".parse().unwrap();
    let lines = select(Selection::Augmented { manifest, attributes });
    let (received, end) = read(&lines);
    assert_eq!(end.ok(), Some(1));
    let received: Vec<_> =
        received.into_iter().map(|received| (received.name, received.bytes)).collect();
    let expected = [("lines line 1", &b"one1"[..]), ("lines line 3", b"twoz")];
    assert_eq!(received, expected.map(|(name, bytes)| (name.to_owned(), bytes.to_vec())));

    let (received, end) =
        read(&reading(&lines, ReadSettings { wrap: true, ..ReadSettings::default() }));
    assert_eq!(end.ok(), Some(1));
    let record = |bytes: &[u8]| {
        let mut record =
            [0xced7_230a_u32.to_le_bytes(), (bytes.len() as u32).to_le_bytes()].concat();
        record.extend_from_slice(bytes);
        record.resize(record.len().next_multiple_of(4), 0);
        record
    };
    assert_eq!(received[1].bytes, [record(b"two"), record(b"z")].concat());
}

#[test]
fn a_listed_object_that_is_missing_is_named() {
    let bucket = Bucket::with([("lines", r#"{"x-ref": "s3://bucket/gone"}"#)]);
    let manifest = "s3://bucket/lines".parse().unwrap();
    let selection = Selection::Augmented { manifest, attributes: vec!["x-ref".to_owned()] };
    let (_, end) = read(&Settings { selection, ..settings(&bucket.server.endpoint(), "") });
    let error = end.unwrap_err();
    assert_eq!(error.object.as_deref(), Some("s3://bucket/lines line 1"));
    assert!(
        error.message.contains("its object s3://bucket/gone: HEAD was answered with 404"),
        "{error}"
    );
}

#[test]
fn compressed_objects_are_inflated() {
    let text = b"some text ".repeat(10_000);
    let (gzip, zstd) = (inputs::gzip(&text), inputs::zstd(&text));
    let bucket = Bucket::with([("a.gz", &gzip), ("b.zst", &zstd), ("c", &text)]);
    let all = settings(&bucket.server.endpoint(), "");
    let (received, end) = read(&all);
    assert_eq!(end.ok(), Some(1));
    assert!(received.iter().all(|received| received.bytes == text));
    let plain = ReadSettings { compression: Compression::None, ..ReadSettings::default() };
    let (received, _) = read(&reading(&all, plain));
    assert!(received[0].bytes == gzip && received[1].bytes == zstd);
    // Wrapped is what was inflated.
    let (received, _) =
        read(&reading(&all, ReadSettings { wrap: true, ..ReadSettings::default() }));
    assert!(received.iter().all(|received| received.bytes[8..8 + text.len()] == text));
}

#[test]
fn a_listed_object_is_fetched_by_one_request_a_part() {
    let bucket = Bucket::with([("a", vec![1; 10]), ("b", vec![]), ("c", vec![3; 40_000])]);
    let proxy = bucket.proxy(Plan::default());
    let (received, end) = read(&settings(&proxy.endpoint(), ""));
    assert!(end.is_ok() && received.len() == 3);
    // The list; none for the empty one; three parts of 16 KiB.
    assert_eq!(proxy.requests(), 1 + 1 + 3, "{:#?}", proxy.log());
}
