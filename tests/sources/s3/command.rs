//! `cat`, `ls` and `run`, as a person types them.

use std::time::Duration;

use pipemill_s3_test::proxy::{Kind, Plan, Proxy};
use pipemill_s3_test::servers::{S3Server, S3s};
use pipemill_tests::inputs;
use pipemill_tests::process::finish;
use pipemill_tests::test_dir::TestDir;

use super::credentials::signed;

fn bucket() -> (TestDir, S3s) {
    let place = TestDir::new();
    let server = S3s::start(&place.make_folder("s3"));
    for number in 0..4 {
        let lines: String = (0..100).map(|line| format!("{number} {line}\n")).collect();
        server.put("bucket", &format!("data/{number}.txt"), lines.as_bytes());
    }
    (place, server)
}

#[test]
fn cat_reads_objects_and_prefixes() {
    let (place, server) = bucket();
    let cat = |name: &str| {
        let args = ["cat", "-d", "lines", "--output", "count", name];
        finish(&mut signed(&place, &server, &server.endpoint(), &args))
    };
    assert_eq!(cat("s3://bucket/data/1.txt").with_code(0).text(), "records=100 bytes=390\n");
    assert_eq!(cat("s3://bucket/data").with_code(0).text(), "records=400 bytes=1560\n");
    cat("s3://bucket/nothing")
        .with_code(66)
        .says(&["object s3://bucket/nothing", "the bucket `bucket` has no object `nothing`"]);
    cat("s3://bucket/none/")
        .with_code(66)
        .says(&["object s3://bucket/none/", "no key begins with this prefix"]);
    cat("s3://other-bucket/a").with_code(66).says(&[
        "404 NoSuchBucket",
        "`other-bucket`",
        "`--endpoint`",
    ]);
    cat("s3:///a")
        .with_code(64)
        .says(&["is no address in S3: it has no bucket", "s3://bucket/key"]);
}

/// Each command says it in the same words.
#[test]
fn an_object_that_is_gone_does_not_exist() {
    let (place, server) = bucket();
    place.write(
        "c.toml",
        "[[channel]]\nname = \"a\"\ndecoder = \"lines\"\n\
         source = { s3 = \"s3://bucket/data/1.txt\" }\n",
    );
    let commands: [&[&str]; 3] = [
        &["cat", "-d", "lines", "--output", "count", "s3://bucket/data/1.txt"],
        &["config", "check", "c.toml", "--try"],
        &["run", "-c", "c.toml"],
    ];
    let command = |args| finish(&mut signed(&place, &server, &server.endpoint(), args));
    for args in &commands[..2] {
        command(args).with_code(0);
    }
    server.delete("bucket", "data/1.txt");
    for args in commands {
        command(args).with_code(66).says(&[
            "s3://bucket/data/1.txt",
            "the bucket `bucket` has no object `data/1.txt`, and no key begins with that",
            "`pipemill ls s3://bucket/data/` lists those near it",
        ]);
    }
}

#[test]
fn ls_lists_what_a_channel_would_read() {
    let (place, server) = bucket();
    let ls = |args: &[&str]| {
        let args = [&["ls"], args].concat();
        finish(&mut signed(&place, &server, &server.endpoint(), &args))
    };
    let ended = ls(&["s3://bucket/data/"]).with_code(0).says(&["4 objects, 1960 bytes"]);
    let lines = (0..4).map(|number| format!("490\ts3://bucket/data/{number}.txt\n"));
    assert_eq!(ended.text(), lines.collect::<String>());
    let share = |index: u32| {
        let part = format!("{index}/2");
        ls(&["s3://bucket/data/", "--shuffle", "3", "--part", &part]).with_code(0).text()
    };
    let mut both: Vec<_> = [share(0), share(1)].concat().lines().map(str::to_owned).collect();
    both.sort();
    assert_eq!(both, ended.text().lines().collect::<Vec<_>>());
    ls(&["s3://bucket/data/", "--part", "2/2"]).with_code(64).says(&["INDEX/COUNT"]);
    ls(&["data/"]).with_code(66).says(&["data/: can't get its metadata: No such file"]);
    ls(&[]).with_code(64);
    place.write("c.toml", "[[channel]]\nname = \"a\"\ndecoder = \"lines\"\nsource = { s3 = \"s3://bucket/data/0\" }\n");
    let ended = ls(&["-c", "c.toml", "--channel", "a"]).with_code(0);
    assert_eq!(ended.text(), "490\ts3://bucket/data/0.txt\n");
    ls(&["-c", "c.toml", "--channel", "b"]).with_code(64).says(&["no channel `b`; there are: a"]);
}

#[test]
fn run_streams_all_records_through_faults() {
    let (place, server) = bucket();
    let payloads: Vec<_> =
        (0..500).map(|number| format!("{number:08}{}", "x".repeat(400))).collect();
    let records = inputs::tfrecord(&payloads);
    for number in 0..6 {
        server.put("bucket", &format!("tf/{number}.tfrecord"), &records);
    }
    let config = "[[channel]]\nname = \"train\"\ndecoder = \"tfrecord\"\n\
                  source = { s3 = \"s3://bucket/tf/\", part_size = \"64KiB\", stall_timeout = \"1s\", epochs = 2 }\n";
    place.write("run.toml", config);
    for seed in 0..3 {
        let plan = Plan { hold: Duration::from_millis(50), ..Plan::random(seed, 0.2, &Kind::ALL) };
        let proxy = Proxy::start(&server.endpoint(), plan).unwrap();
        let mut command =
            signed(&place, &server, &proxy.endpoint(), &["run", "-c", "run.toml", "--"]);
        command.arg(pipemill_tests::consumer!()).arg("train");
        let text = finish(&mut command).with_code(0).text();
        assert!(
            text.contains("epoch 0 3000\nepoch 1 3000\nend\n") || text.contains("epoch 1 3000"),
            "{text}"
        );
        assert!(!proxy.faults().is_empty());
    }
}

/// By names and first bytes, compressed and not: by `cat`, and by a channel for a consumer.
#[test]
fn the_decoder_of_objects_is_found() {
    let (place, server) = bucket();
    server.put("bucket", "tables/a.csv", b"id,x\n1,0.5\n2,1\n");
    server.put("bucket", "tables/b.csv.gz", &inputs::gzip(b"id,x\n3,1.5\n"));
    server.put("bucket", "odd", &inputs::tfrecord(&["one"]));
    let run = |args: &[&str]| finish(&mut signed(&place, &server, &server.endpoint(), args));
    let ended = run(&["cat", "--output", "csv", "s3://bucket/tables/"]).with_code(0);
    assert_eq!(ended.text(), "id,x\n1,0.5\n2,1.0\n3,1.5\n");
    ended.says(&["s3://bucket/tables/a.csv: decoder csv with ", "its name ends in .csv"]);
    let ended = run(&["cat", "--output", "raw", "s3://bucket/odd"]).with_code(0);
    assert_eq!(ended.text(), "one");
    for (key, gzipped) in [("a.tfrecord", false), ("b.tfrecord.gz", true)] {
        let object = inputs::tfrecord(&["00000000"]);
        let object = if gzipped { inputs::gzip(&object) } else { object };
        server.put("bucket", &format!("records/{key}"), &object);
    }
    let config = "[[channel]]\nname = \"train\"\nsource = { s3 = \"s3://bucket/records/\" }\n";
    place.write("run.toml", config);
    let consumer = pipemill_tests::consumer!();
    let ended = run(&["run", "-c", "run.toml", "--", consumer, "train"]);
    assert!(ended.with_code(0).text().contains("epoch 0 2\nend\n"));
    // An object that disagrees with the first one is never decoded as that one.
    server.put("bucket", "tables/c.csv", &inputs::tfrecord(&["one"]));
    run(&["cat", "s3://bucket/tables/"]).with_code(65).says(&["s3://bucket/tables/c.csv"]);
}

#[test]
fn a_failure_names_its_place() {
    let (place, server) = bucket();
    server.put("bucket", "tf/broken", &inputs::tfrecord(&["one", "two"])[..30]);
    let args = ["cat", "-d", "tfrecord", "s3://bucket/tf/broken"];
    let ended = finish(&mut signed(&place, &server, &server.endpoint(), &args));
    ended
        .with_code(65)
        .says(&["epoch 0, object s3://bucket/tf/broken, byte offset", "ends inside a record"]);
}
