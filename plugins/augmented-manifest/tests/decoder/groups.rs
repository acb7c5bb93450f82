//! What comes out of sound files, and how much is asked for.

use pipemill_augmented_manifest::AugmentedManifest;
use pipemill_plugin::testing::{Setup, assert_any_split};
use pipemill_plugin::{Decoder, Field, Host, Level, Options, Records, StreamInfo};

use crate::write;

fn opened(attributes: &[(&str, &str)]) -> Result<AugmentedManifest, String> {
    let given: Vec<_> = attributes.iter().map(|(k, v)| (k.to_string(), v.to_string())).collect();
    let options = Options::new(&AugmentedManifest::options(), &given)?;
    let info =
        StreamInfo { channel: "t".into(), epoch: 0, object: "t".into(), max_record: 64 << 20 };
    AugmentedManifest::open(&options, &info)
}

#[test]
fn each_group_is_a_record() {
    let file = write::file(&[b"jpeg one", b"1", b"", b"2"]);
    let setup = Setup::new(&[("attributes", "image-ref, label")]);
    let outcome = assert_any_split::<AugmentedManifest>(&setup, &file, &vec![1; file.len()]);
    assert_eq!(outcome.errors, []);
    assert_eq!(outcome.starts, [0, 28]);
    assert_eq!(outcome.schema, Some(vec![Field::bytes("image-ref"), Field::bytes("label")]));
    let field = |bytes: &[u8]| Some(bytes.to_vec());
    assert_eq!(outcome.records, [[field(b"jpeg one"), field(b"1")], [field(b""), field(b"2")]]);
}

#[test]
fn the_attributes_must_be_said() {
    let refused = |given: &[(&str, &str)]| opened(given).map(|_| ()).expect_err("refused");
    let takes = "option `attributes` takes the channel's AttributeNames, in their order, as in \
                 attributes = \"image-ref,annotations\"";
    assert_eq!(refused(&[]), takes);
    assert_eq!(refused(&[("attributes", "a,,b")]), format!("{takes}, not \"a,,b\""));
    assert_eq!(refused(&[("attributes", "a, a")]), "option `attributes` has `a` twice");
    assert!(opened(&[("attributes", "a,A")]).is_ok(), "names differ in case");
}

struct Nowhere;

impl Host for Nowhere {
    fn emit(&mut self, _: &[u64], _: &[u8], _: &[u32]) {}
    fn check_crc32c(&mut self, _: &[u64], _: &[u32]) -> Option<usize> {
        None
    }
    fn log(&mut self, _: Level, _: &str) {}
}

/// A group is looked at as often as it has headers, not more.
#[test]
fn need_is_exact() {
    let file = write::file(&[&[1; 100], &[2; 1001], b"next"]);
    let told = |length| {
        let mut decoder = opened(&[("attributes", "a,b")]).expect("opens");
        let mut out = Records::new(Box::new(Nowhere), false);
        out.set_fields(2);
        let progress = decoder.decode(&file[..length], false, &mut out).expect("sound");
        (progress.consumed, progress.need)
    };
    assert_eq!(told(0), (0, 8));
    assert_eq!(told(8), (0, 108));
    assert_eq!(told(108), (0, 116));
    assert_eq!(told(115), (0, 116));
    assert_eq!(told(116), (0, 1120));
    assert_eq!(told(1120), (1120, 8));
    assert_eq!(told(1132), (1120, 20));
}
