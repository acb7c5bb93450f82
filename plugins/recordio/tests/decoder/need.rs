//! `need` is exact, so the host calls `decode` only once per header and once per record.

use pipemill_parsing::testing::write_recordio_part as part;
use pipemill_plugin::testing::{Setup, decode_once};
use pipemill_recordio::RecordIo;

/// `consumed` and `need` for these bytes.
fn progress(bytes: &[u8]) -> (usize, usize) {
    let progress = decode_once::<RecordIo>(&Setup::new(&[]), bytes).expect("no error");
    (progress.consumed, progress.need)
}

#[test]
fn need_of_a_record_in_one_part() {
    let mut file = Vec::new();
    part(&mut file, 0, b"good");
    part(&mut file, 0, &[7; 1001]);
    assert_eq!(progress(b""), (0, 8));
    assert_eq!(progress(&file[..7]), (0, 8));
    assert_eq!(progress(&file[..8]), (0, 12));
    assert_eq!(progress(&file[..12]), (12, 8));
    assert_eq!(progress(&file[..20]), (12, 1012));
    assert_eq!(progress(&file[..1023]), (12, 1012));
    assert_eq!(progress(&file), (1024, 8));
}

#[test]
fn need_of_a_record_in_parts() {
    let mut file = Vec::new();
    part(&mut file, 1, &[1; 100]);
    part(&mut file, 2, &[2; 40]);
    part(&mut file, 3, &[3; 5]);
    assert_eq!(progress(&file[..8]), (0, 116), "the part and the next header");
    assert_eq!(progress(&file[..108]), (0, 116));
    assert_eq!(progress(&file[..116]), (0, 164));
    assert_eq!(progress(&file[..164]), (0, 172));
    assert_eq!(progress(&file[..171]), (0, 172));
    assert_eq!(progress(&file), (172, 8));
}
