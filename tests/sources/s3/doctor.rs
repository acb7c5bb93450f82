//! `pipemill doctor` asks S3 for what it is told to, and says what came of it.

use pipemill_s3_test::servers::{S3Server, S3s};
use pipemill_tests::process::{Ended, finish};
use pipemill_tests::test_dir::TestDir;

use super::credentials::signed;

fn lines(ended: &Ended) -> Vec<String> {
    let text = ended.text();
    text.lines()
        .filter(|line| line.split_whitespace().nth(1) == Some("S3"))
        .map(str::to_owned)
        .collect()
}

#[test]
fn addresses_and_sources_are_asked_for() {
    let place = TestDir::new();
    let server = S3s::start(&place.make_folder("s3"));
    server.put("bucket", "data/1.txt", b"1\n2\n");
    let doctor = |args: &[&str]| {
        let args = [&["doctor"], args].concat();
        finish(&mut signed(&place, &server, &server.endpoint(), &args))
    };
    let found = lines(&doctor(&["s3://bucket/data/"]));
    assert_eq!(
        found,
        [
            "ok     S3             s3://bucket/data/: the first object is s3://bucket/data/1.txt, 4 B"
        ]
    );
    let ended = doctor(&["s3://bucket/data/", "s3://nothing/"]).with_code(71);
    let [found, missing] = lines(&ended).try_into().expect("two addresses");
    assert!(found.starts_with("ok ") && missing.starts_with("wrong "), "{ended:?}");
    assert!(missing.contains("NoSuchBucket") && missing.contains("check the bucket's name"));
    // Without addresses, the sources of the configuration.
    let config = "[[channel]]\nname = 'train'\ndecoder = 'lines'\n\
                  source = { s3 = 's3://bucket/data/', allow_empty = true }\n\
                  [[channel]]\nname = 'none'\ndecoder = 'lines'\n\
                  source = { s3 = 's3://bucket/other/', allow_empty = true }\n";
    let config = place.write("run.toml", config);
    let found = lines(&doctor(&["--config", config.to_str().expect("it is text")]));
    assert_eq!(
        found,
        [
            "ok     S3             channel `train`: the first object is s3://bucket/data/1.txt, 4 B",
            "note   S3             channel `none`: there is no object",
        ]
    );
}
