//! `pipemill feed` from S3, and a host at the other end of its FIFOs.

use pipemill_s3_test::servers::{S3Server, S3s};
use pipemill_tests::process::{Process, finish};
use pipemill_tests::test_dir::TestDir;
use pipemill_tests::until;

use super::credentials::signed;

fn bucket() -> (TestDir, S3s) {
    let place = TestDir::new();
    let server = S3s::start(&place.make_folder("s3"));
    for number in 0..4 {
        server.put("bucket", &format!("data/{number}"), format!("0000000{number}\n").as_bytes());
    }
    (place, server)
}

fn read(place: &TestDir, name: &str) -> String {
    // Made by the feeder, by and by.
    let path = place.path(name);
    until(&format!("{name} appears"), || path.exists());
    std::fs::read_to_string(path).expect("it can be read")
}

#[test]
fn feed_streams_one_channel_by_the_command_line() {
    let (place, server) = bucket();
    let args = [
        "feed",
        "--from",
        "s3://bucket/data/",
        "--to",
        "in",
        "--channel",
        "train",
        "--epochs",
        "2",
        "--shuffle",
        "3",
        "--part",
        "0/2",
    ];
    let feeder = Process::start(&mut signed(&place, &server, &server.endpoint(), &args));
    let [first, second] = [read(&place, "in/train_0"), read(&place, "in/train_1")];
    feeder.wait().with_code(0);
    assert!(first.lines().count() == 2 && second.lines().count() == 2);
    assert!(place.names("in").is_empty());
    let ls = ["ls", "s3://bucket/data/", "--shuffle", "3", "--part", "0/2", "--epoch", "1"];
    let listed = finish(&mut signed(&place, &server, &server.endpoint(), &ls)).with_code(0).text();
    let of = |line: &str| format!("0000000{}", line.chars().last().unwrap());
    assert!(second.lines().map(str::to_owned).eq(listed.lines().map(of)), "{second} {listed}");
}

#[test]
fn feed_streams_the_channels_that_the_platform_describes() {
    let (place, server) = bucket();
    place.write("local.txt", "a file\n");
    place.write(
        "feed.toml",
        "[[channel]]\nname = \"train\"\nsource = { s3 = \"s3://bucket/data/\" }\n\
         [[channel]]\nname = \"test\"\nsource = { file = \"local.txt\", epochs = 1 }\n\
         [[channel]]\nname = \"copied\"\nsource = { file = \"local.txt\" }\n",
    );
    place.write(
        "inputdataconfig.json",
        r#"{"train": {"TrainingInputMode": "Pipe", "RecordWrapperType": "RecordIO"},
            "test": {"TrainingInputMode": "Pipe"}, "copied": {"TrainingInputMode": "File"}}"#,
    );
    let args = [
        "feed",
        "--config",
        "feed.toml",
        "--inputdataconfig",
        "inputdataconfig.json",
        "--to",
        "in",
        "--epochs",
        "1",
    ];
    let feeder = Process::start(&mut signed(&place, &server, &server.endpoint(), &args));
    assert_eq!(read(&place, "in/test_0"), "a file\n");
    let run = "[[channel]]\nname = \"train\"\ndecoder = \"recordio\"\nsource = { fifo = \"in\", epochs = 1 }\n";
    place.write("run.toml", run);
    let mut host = signed(&place, &server, "http://127.0.0.1:1", &["run", "-c", "run.toml", "--"]);
    host.arg(pipemill_tests::consumer!()).arg("train");
    let text = finish(&mut host).with_code(0).text();
    assert!(text.contains("epoch 0 4\n"), "{text}");
    feeder.wait().with_code(0);
    assert!(place.names("in").is_empty(), "{:?}", place.names("in"));
}

#[test]
fn feed_refuses_mangled_configurations() {
    let (place, server) = bucket();
    let feed = |toml: &str, json: &str| {
        place.write("feed.toml", toml);
        place.write("input.json", json);
        let args = ["feed", "-c", "feed.toml", "--inputdataconfig", "input.json", "--to", "in"];
        finish(&mut signed(&place, &server, &server.endpoint(), &args)).with_code(64)
    };
    let train = "[[channel]]\nname = \"train\"\nsource = { s3 = \"s3://bucket/data/\" }\n";
    feed(train, r#"{"other": {"TrainingInputMode": "Pipe"}}"#)
        .says(&["Pipe channel `other` has no source"]);
    feed(train, "{").says(&["input.json: EOF"]);
    feed(
        train,
        r#"{"train": {"TrainingInputMode": "Pipe", "S3DistributionType": "ShardedByS3Key"}}"#,
    )
    .says(&["ShardedByS3Key", "part = { index = N, count = N }"]);
    let fifo = "[[channel]]\nname = \"train\"\nsource = { fifo = \"x\" }\n";
    feed(fifo, r#"{"train": {"TrainingInputMode": "Pipe"}}"#).says(&["not from a FIFO"]);
    feed("[[channel]]\nname = \"train\"\n", "{}").says(&["source: missing"]);
}

#[test]
fn an_error_of_feed_names_channel_epoch_and_object() {
    let (place, server) = bucket();
    let args = ["feed", "--from", "s3://bucket/none", "--to", "in", "--channel", "train"];
    let ended = finish(&mut signed(&place, &server, &server.endpoint(), &args)).with_code(66);
    ended.says(&[
        "channel `train`, epoch 0, object s3://bucket/none",
        "the bucket `bucket` has no object `none`",
    ]);
    assert!(place.names("in").is_empty());
}
