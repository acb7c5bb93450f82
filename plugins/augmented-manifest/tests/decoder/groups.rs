//! The records of valid files, the options, and `need`.

use pipemill_augmented_manifest::AugmentedManifest;
use pipemill_parsing::testing::recordio_file;
use pipemill_plugin::Field;
use pipemill_plugin::testing::{Setup, assert_any_split, decode_once, open};

#[test]
fn each_group_is_a_record() {
    let file = recordio_file(&[&b"jpeg one"[..], b"1", b"", b"2"]);
    let setup = Setup::new(&[("attributes", "image-ref, label")]);
    let outcome = assert_any_split::<AugmentedManifest>(&setup, &file, &vec![1; file.len()]);
    assert_eq!(outcome.errors, []);
    assert_eq!(outcome.starts, [0, 28]);
    assert_eq!(outcome.schema, Some(vec![Field::bytes("image-ref"), Field::bytes("label")]));
    let field = |bytes: &[u8]| Some(bytes.to_vec());
    assert_eq!(outcome.records, [[field(b"jpeg one"), field(b"1")], [field(b""), field(b"2")]]);
}

#[test]
fn invalid_attributes_are_refused() {
    let refused = |given: &[(&str, &str)]| {
        open::<AugmentedManifest>(&Setup::new(given)).expect_err("the attributes are not valid")
    };
    let takes = "option `attributes` takes the channel's AttributeNames, in their order, as in \
                 attributes = \"image-ref,annotations\"";
    assert_eq!(refused(&[]), takes);
    assert_eq!(refused(&[("attributes", "a,,b")]), format!("{takes}, not \"a,,b\""));
    assert_eq!(refused(&[("attributes", "a, a")]), "option `attributes` has `a` twice");
    let setup = Setup::new(&[("attributes", "a,A")]);
    assert!(open::<AugmentedManifest>(&setup).is_ok(), "the names differ in case");
}

/// Each group is read once per header, and not more often.
#[test]
fn need_is_exact() {
    let file = recordio_file(&[&[1; 100][..], &[2; 1001], b"next"]);
    let setup = Setup::new(&[("attributes", "a,b")]);
    let progress = |length: usize| {
        let progress = decode_once::<AugmentedManifest>(&setup, &file[..length]).expect("no error");
        (progress.consumed, progress.need)
    };
    assert_eq!(progress(0), (0, 8));
    assert_eq!(progress(8), (0, 108));
    assert_eq!(progress(108), (0, 116));
    assert_eq!(progress(115), (0, 116));
    assert_eq!(progress(116), (0, 1120));
    assert_eq!(progress(1120), (1120, 8));
    assert_eq!(progress(1132), (1120, 20));
}
