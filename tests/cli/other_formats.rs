//! Inputs that are not data: markers and hidden files, addresses of other stores, objects of
//! another format.

use pipemill_tests::inputs::{gzip, tfrecord, zlib};
use pipemill_tests::test_dir::TestDir;

use super::run;

#[test]
fn markers_of_spark_are_left_out_and_counted() {
    let place = TestDir::new();
    let folder = place.make_folder("in");
    for (name, text) in [
        ("_SUCCESS", ""),
        ("_committed_17", "{\"added\":[\"part-0.txt\"]}\n"),
        ("_started_17", "x\n"),
        (".part-0.txt.crc", "crc"),
        ("part-0.txt", "one\ntwo\n"),
    ] {
        std::fs::write(folder.join(name), text).expect("the folder is there");
    }
    for source in ["in", "./in/"] {
        let ended = run(&place, &["cat", "-d", "lines", source]).with_code(0);
        assert_eq!(ended.text().lines().count(), 2, "{ended:?}");
        ended.says(&["left out 4 hidden files and markers", "set `hidden = true`"]);
    }
    let ended = run(&place, &["ls", "in"]).with_code(0);
    assert_eq!(ended.text(), "8\tin/part-0.txt\n");
    ended.says(&["left out 4 hidden files and markers", "1 object, 8 bytes"]);
    // A file that is named is read.
    let ended = run(&place, &["cat", "-d", "lines", "in/_started_17"]).with_code(0);
    assert_eq!(ended.text().lines().count(), 1);
    let ls = |source: &str| {
        place.write(
            "p.toml",
            format!("[[channel]]\nname = \"a\"\ndecoder = \"lines\"\nsource = {source}\n"),
        );
        let ended = run(&place, &["ls", "--config", "p.toml", "--channel", "a"]).with_code(0);
        ended.text().lines().count()
    };
    assert_eq!(ls("{ folder = \"in\" }"), 1);
    assert_eq!(ls("{ folder = \"in\", hidden = true }"), 5);
    assert_eq!(ls("{ glob = \"in/*\" }"), 1);
    assert_eq!(ls("{ glob = \"in/_*\" }"), 3);
    assert_eq!(ls("{ glob = \"in/*\", hidden = true }"), 5);
}

#[test]
fn addresses_of_other_stores_are_no_paths() {
    let place = TestDir::new();
    for (address, what, remedy) in [
        ("gs://bucket/x.csv", "Google Cloud Storage", "gcsfuse"),
        ("https://host/x.csv", "an address of the web", "download it first"),
        ("az://container/x", "Azure", "azcopy"),
        ("hdfs:///user/x", "HDFS", "hdfs dfs -get"),
        ("s3a://bucket/x", "Hadoop", "s3://bucket/key"),
    ] {
        for command in [&["cat", "-d", "lines"][..], &["cat"], &["ls"], &["schema"]] {
            run(&place, &[command, &[address]].concat())
                .with_code(64)
                .says(&[address, what, remedy]);
        }
        for key in ["file", "glob", "folder", "s3", "files"] {
            let source = format!("{{ {key} = [\"{address}\"] }}");
            let source = if key == "files" { source } else { source.replace(['[', ']'], "") };
            let text =
                format!("[[channel]]\nname = \"a\"\ndecoder = \"lines\"\nsource = {source}\n");
            place.write("p.toml", text);
            let ended = run(&place, &["config", "check", "p.toml"]);
            assert_ne!(ended.code, Some(0), "{source}");
            ended.says(&[address, what]);
        }
    }
}

#[test]
fn what_tensorflow_compresses_is_inflated_or_named() {
    let place = TestDir::new();
    let records = tfrecord(&[b"one", b"two"]);
    place.write("x.tfrecord.zz", zlib(&records));
    place.write("zlib.tfrecord", zlib(&records));
    place.write("gzip.tfrecord", gzip(&records));
    let count = |args: &[&str]| {
        let args = [&["cat", "-d", "tfrecord", "--output", "count"], args].concat();
        run(&place, &args).with_code(0).text().to_owned()
    };
    assert_eq!(count(&["x.tfrecord.zz"]), "records=2 bytes=6\n");
    assert_eq!(count(&["--compression", "zlib", "zlib.tfrecord"]), "records=2 bytes=6\n");
    for decoder in [&["-d", "tfrecord"][..], &["-d", "tf-example", "-o", "features=x:int64"]] {
        let ended = run(&place, &[&["cat"], decoder, &["gzip.tfrecord"]].concat()).with_code(64);
        ended.says(&["the object is compressed with gzip: set compression"]);
        let ended = run(&place, &[&["cat"], decoder, &["zlib.tfrecord"]].concat()).with_code(65);
        ended.says(&["it may be compressed with zlib: set compression"]);
    }
    place.write("cut.zz", &zlib(&records)[..20]);
    run(&place, &["cat", "-d", "tfrecord", "cut.zz"])
        .with_code(65)
        .says(&["its zlib data ends early"]);
}

#[test]
fn a_pointer_of_git_lfs_is_no_data() {
    let place = TestDir::new();
    let pointer = "version https://git-lfs.github.com/spec/v1\noid sha256:6a2c\nsize 4096\n";
    for (name, args) in [
        ("corpus.txt", &["-d", "lines"][..]),
        ("corpus.bin", &["-d", "tokens", "-o", "length=8", "-o", "tail=drop"]),
        ("x.bin", &["-d", "fixed", "-o", "size=1"]),
        ("x.jsonl", &["-d", "jsonl"]),
        ("x.tfrecord", &["-d", "tfrecord"]),
        ("x.tar", &["-d", "webdataset", "-o", "fields=jpg"]),
        ("x.npy", &["-d", "npy"]),
        ("x.avro", &["-d", "avro"]),
    ] {
        place.write(name, pointer);
        for more in [&[][..], &["--on-error", "skip"]] {
            let ended = run(&place, &[&["cat"], args, more, &[name]].concat()).with_code(64);
            assert_eq!(ended.text(), "", "{name}");
            ended.says(&[name, "a pointer of Git LFS", "git lfs pull"]);
        }
    }
    let args = ["cat", "-d", "lines", "-o", "sniff=false", "corpus.txt"];
    assert_eq!(run(&place, &args).with_code(0).text().lines().count(), 3);
}
