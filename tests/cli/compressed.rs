//! Compressed input: by its name, by option, and broken.

use pipemill_tests::inputs::{gzip, recordio, zstd};
use pipemill_tests::test_dir::TestDir;

use super::{run, run_with};

const COUNT: [&str; 5] = ["cat", "-d", "recordio", "--output", "count"];

fn payloads() -> Vec<Vec<u8>> {
    (0..2_000usize).map(|n| vec![n as u8; n % 100]).collect()
}

fn plain() -> Vec<u8> {
    recordio(&payloads())
}

#[test]
fn compression_is_found_by_name_and_set_by_option() {
    let place = TestDir::new();
    let plain = plain();
    let expected = format!("records=2000 bytes={}\n", payloads().concat().len());
    // Members and frames that follow one another are one object.
    let (head, tail) = plain.split_at(plain.len() / 2);
    place.write("a.rec.gz", [gzip(head), gzip(tail)].concat());
    place.write("a.rec.zst", [zstd(head), zstd(tail)].concat());
    place.write("plain.rec", &plain);
    place.write("gzip.bin", gzip(&plain));
    place.write("zstd.bin", zstd(&plain));
    place.write("a.tgz", gzip(&plain));
    place.write("a.tzst", zstd(&plain));
    place.write("a.rec.zstd", zstd(&plain));
    place.write("A.REC.GZ", gzip(&plain));
    place.write("a.rec.gzip", gzip(&plain));
    // As gzip reads it from a tape: zeros follow the last member.
    let padding = vec![0; 300_000];
    place.write("padded.gz", [gzip(head), gzip(tail), padding].concat());
    for (file, option) in [
        ("a.rec.gz", "auto"),
        ("a.rec.zst", "auto"),
        ("a.tgz", "auto"),
        ("a.tzst", "auto"),
        ("a.rec.zstd", "auto"),
        ("A.REC.GZ", "auto"),
        ("a.rec.gzip", "auto"),
        ("padded.gz", "auto"),
        ("plain.rec", "auto"),
        ("plain.rec", "none"),
        ("gzip.bin", "gzip"),
        ("zstd.bin", "zstd"),
    ] {
        let ended =
            run(&place, &[&COUNT[..], &["--compression", option, file]].concat()).with_code(0);
        assert_eq!(ended.text(), expected, "{file}, {option}");
    }
    let args = [&COUNT[..], &["--compression", "zstd", "-"]].concat();
    assert_eq!(run_with(&place, &args, &zstd(&plain)).with_code(0).text(), expected);
}

#[test]
fn compressed_data_that_is_cut_short_is_an_error() {
    let place = TestDir::new();
    let (gzip, zstd) = (gzip(&plain()), zstd(&plain()));
    place.write("cut.gz", &gzip[..gzip.len() / 2]);
    place.write("cut.zst", &zstd[..zstd.len() / 2]);
    for (file, kind) in [("cut.gz", "gzip"), ("cut.zst", "zstd")] {
        let ended = run(&place, &[&COUNT[..], &[file]].concat()).with_code(65);
        assert!(ended.text().starts_with("records="), "{ended:?}");
        ended.says(&[file, &format!("its {kind} data ends early"), "cut short; get it again"]);
    }
}

#[test]
fn corrupt_compressed_data_is_an_error() {
    let place = TestDir::new();
    let mut broken = gzip(&plain());
    // A block of the type that does not exist, right after the header.
    broken[10] |= 0b110;
    place.write("broken.gz", &broken);
    let mut untrue = gzip(&plain());
    // The checksum of the whole content.
    let checksum = untrue.len() - 8;
    untrue[checksum] ^= 1;
    place.write("untrue.gz", untrue);
    place.write("plain.gz", plain());
    place.write("plain.zst", plain());
    // A member after zeros is no padding.
    place.write("gap.gz", [gzip(&plain()), vec![0; 1000], gzip(&plain())].concat());
    for (file, kind) in [
        ("broken.gz", "gzip"),
        ("untrue.gz", "gzip"),
        ("plain.gz", "gzip"),
        ("gap.gz", "gzip"),
        ("plain.zst", "zstd"),
    ] {
        let ended = run(&place, &[&COUNT[..], &[file]].concat()).with_code(65);
        ended.says(&[file, &format!("its {kind} data is corrupt"), "compression = \"none\""]);
    }
}
