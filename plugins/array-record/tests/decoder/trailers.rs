//! The footer and the postscript are no records, and nothing else is lost for them.

use pipemill_array_record::ArrayRecord;
use pipemill_plugin::testing::{assert_any_split, decode_whole};

use crate::write::{CODECS, File, MAGIC, varint};
use crate::{bad, good, payloads, setup};

fn with_records() -> File {
    let mut file = File::new();
    file.records(b'z', &[b"one".to_vec(), b"two".to_vec()]);
    file.records(0, &[b"three".to_vec()]);
    file
}

fn written() -> Vec<Vec<u8>> {
    [&b"one"[..], b"two", b"three"].map(<[u8]>::to_vec).to_vec()
}

#[test]
fn the_end_of_a_file_has_no_records() {
    for codec in CODECS {
        for mut file in [File::new(), with_records()] {
            let expected = good(&file.bytes);
            file.finish(codec);
            let place = file.bytes.len() - (1 << 16);
            let pieces = [300, 1, 1, 1, 39, place - 400, 1, 1, 63, 1, 1, 1, 1, 1, 1, 1, 1, 1];
            let outcome = assert_any_split::<ArrayRecord>(&setup(), &file.bytes, &pieces);
            assert_eq!((payloads(&outcome), outcome.errors), (expected, vec![]));
        }
    }
}

#[test]
fn records_that_look_like_a_footer_are_records() {
    for codec in CODECS {
        let mut file = with_records();
        let footer = file.footer();
        file.records(codec, &footer);
        file.records(codec, &[b"last".to_vec()]);
        let expected = [written(), footer, vec![b"last".to_vec()]].concat();
        assert_eq!(good(&file.bytes), expected);
    }
    // A postscript of another file.
    let mut file = with_records();
    let footer = file.footer();
    file.records(0, &footer);
    file.pad(0);
    let message = [vec![0x08], varint(7), vec![0x10], varint(MAGIC)].concat();
    file.records(0, &vec![message; 3]);
    assert_eq!(good(&file.bytes), [written(), footer].concat());
    // Not three equal messages.
    let mut file = with_records();
    file.pad(0);
    file.records(0, &[vec![8, 7], vec![8, 7], vec![8, 7]]);
    assert_eq!(good(&file.bytes)[3..], [vec![8, 7], vec![8, 7], vec![8, 7]]);
}

#[test]
fn a_file_that_ends_after_its_footer_is_cut_short() {
    let mut file = with_records();
    let footer = file.footer();
    file.records(b'z', &footer);
    let (records, why) = bad(&file.bytes);
    assert_eq!(records, written());
    assert!(why.contains("cut short"), "{why}");
}

#[test]
fn a_damaged_end_gives_no_records() {
    let mut file = with_records();
    let footer = file.bytes.len();
    file.finish(b'z');
    let postscript = file.bytes.len() - (1 << 16);
    for at in [footer + 20, footer + 50, postscript + 40, postscript + 80] {
        let mut bytes = file.bytes.clone();
        bytes[at] ^= 1;
        let outcome = decode_whole::<ArrayRecord>(&setup().skipping(), &bytes);
        assert_eq!(payloads(&outcome), written(), "damage at {at}");
        assert!(!outcome.errors.is_empty());
    }
}
