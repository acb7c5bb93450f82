//! Who asks: credentials that are found, renewed, missing, or wrong, and never shown.

use std::process::Command;
use std::time::Duration;

use pipemill_s3_test::credentials::{Answers, Credentials, Failure};
use pipemill_s3_test::proxy::{Plan, Proxy};
use pipemill_s3_test::servers::{S3Server, S3s};
use pipemill_tests::process::{Ended, LOG_FORMAT, finish};
use pipemill_tests::test_dir::TestDir;
use pipemill_tests::{consumer, pipemill};

const BUCKET: &str = "bucket";

/// A bucket whose server checks signatures.
fn bucket() -> (TestDir, S3s) {
    let place = TestDir::new();
    let server = S3s::start(&place.make_folder("s3"));
    server.put(BUCKET, "lines.txt", b"one\ntwo\n");
    (place, server)
}

/// The command with nothing in its environment that says who asks.
pub fn command(place: &TestDir, endpoint: &str, args: &[&str]) -> Command {
    let mut command = Command::new(pipemill!());
    for (name, _) in std::env::vars_os() {
        if name.to_string_lossy().starts_with("AWS_") {
            command.env_remove(name);
        }
    }
    command.args(args).current_dir(place.folder()).env_remove("PIPEMILL_LOG");
    // The socket's folder too.
    command.env("XDG_RUNTIME_DIR", place.folder());
    command.env("HOME", place.folder()).env("AWS_EC2_METADATA_DISABLED", "true");
    command.env("AWS_ENDPOINT_URL", endpoint).env("AWS_REGION", "us-east-1");
    command
}

pub fn signed(place: &TestDir, server: &S3s, endpoint: &str, args: &[&str]) -> Command {
    let mut command = command(place, endpoint, args);
    command.env("AWS_ACCESS_KEY_ID", server.access_key());
    command.env("AWS_SECRET_ACCESS_KEY", server.secret_key());
    command
}

const CAT: [&str; 6] = ["cat", "-d", "lines", "--output", "count", "s3://bucket/lines.txt"];

fn is_read(ended: Ended) {
    assert_eq!(ended.with_code(0).text(), "records=2 bytes=6\n");
}

#[test]
fn credentials_from_the_environment() {
    let (place, server) = bucket();
    is_read(finish(&mut signed(&place, &server, &server.endpoint(), &CAT)));
}

#[test]
fn credentials_from_a_profile() {
    let (place, server) = bucket();
    let keys = format!(
        "[mine]\naws_access_key_id = {}\naws_secret_access_key = {}\n",
        server.access_key(),
        server.secret_key()
    );
    place.write(".aws/credentials", keys);
    let args = [&CAT[..], &["--profile", "mine"]].concat();
    is_read(finish(&mut command(&place, &server.endpoint(), &args)));
    let args = [&CAT[..], &["--profile", "main"]].concat();
    finish(&mut signed(&place, &server, &server.endpoint(), &args))
        .with_code(65)
        .says(&["no profile `main` in ~/.aws/config and ~/.aws/credentials; there are: mine"]);
}

#[test]
fn an_endpoint_without_its_scheme_is_named() {
    let (place, server) = bucket();
    let mut command = signed(&place, &server, &server.endpoint(), &CAT);
    command.env("AWS_ENDPOINT_URL", "localhost:9000");
    let says = "the server's URL, set by AWS_ENDPOINT_URL, is no URL that begins with http://";
    finish(&mut command).with_code(65).says(&[says]);
}

#[test]
fn credentials_from_the_container_are_renewed_while_it_is_read() {
    let (place, server) = bucket();
    for number in 0..30 {
        server.put(BUCKET, &format!("many/{number:02}"), b"00000000\n");
    }
    let mut answers = Answers::of(server.access_key(), server.secret_key());
    // Shorter than reading takes.
    answers.lifetime = Duration::from_secs(1);
    answers.session_token = Some("token".to_owned());
    let credentials = Credentials::start(answers).unwrap();
    let plan = Plan { latency: Duration::from_millis(100), ..Plan::default() };
    let proxy = Proxy::start(&server.endpoint(), plan).unwrap();
    let config = "[[channel]]\nname = \"train\"\ndecoder = \"lines\"\n\
                  source = { s3 = \"s3://bucket/many/\", concurrency = 1, epochs = 2 }\n";
    place.write("run.toml", config);
    let mut command = command(&place, &proxy.endpoint(), &["run", "-c", "run.toml", "--"]);
    command.arg(consumer!()).arg("train");
    command.env("AWS_CONTAINER_CREDENTIALS_FULL_URI", credentials.uri());
    let ended = finish(&mut command).with_code(0);
    assert_eq!(ended.text().matches("epoch 0 30").count(), 1, "{ended:#?}");
    assert_eq!(ended.text().matches("epoch 1 30").count(), 1, "{ended:#?}");
    assert!(credentials.requests() > 2, "asked {} times", credentials.requests());
}

#[test]
fn the_container_is_asked_without_a_proxy() {
    let (place, server) = bucket();
    let mut answers = Answers::of(server.access_key(), server.secret_key());
    answers.session_token = Some("token".to_owned());
    let credentials = Credentials::start(answers).unwrap();
    let endpoint = server.endpoint().replace("127.0.0.1", "localhost");
    let mut command = command(&place, &endpoint, &CAT);
    command.env("AWS_CONTAINER_CREDENTIALS_FULL_URI", credentials.uri());
    // Nobody is there.
    command.env("HTTP_PROXY", "http://127.0.0.1:9").env("NO_PROXY", "localhost");
    is_read(finish(&mut command));
    assert!(credentials.uri().contains("127.0.0.1") && credentials.requests() > 0);
}

#[test]
fn each_source_of_credentials_that_failed_is_named() {
    let (place, server) = bucket();
    let ended = finish(&mut command(&place, &server.endpoint(), &CAT)).with_code(65);
    ended.says(&[
        "no credentials",
        "Environment: ",
        "Profile: ",
        "WebIdentityToken: ",
        "EcsContainer: ",
        "Ec2InstanceMetadata: ",
        "AWS_EC2_METADATA_DISABLED",
        "`--anonymous`",
    ]);

    let mut answers = Answers::of("a", "b");
    answers.failure = Some(Failure::Status(403));
    let credentials = Credentials::start(answers).unwrap();
    let mut refused = command(&place, &server.endpoint(), &CAT);
    refused.env("AWS_CONTAINER_CREDENTIALS_FULL_URI", credentials.uri());
    finish(&mut refused).with_code(65).says(&["no credentials", "403"]);
}

#[test]
fn wrong_credentials_are_told() {
    let (place, server) = bucket();
    let mut command = signed(&place, &server, &server.endpoint(), &["ls", "s3://bucket/"]);
    command.env("AWS_SECRET_ACCESS_KEY", "not-the-secret");
    finish(&mut command)
        .with_code(65)
        .says(&["403 SignatureDoesNotMatch", "check the credentials"]);
}

#[test]
fn nothing_secret_is_shown() {
    let (place, server) = bucket();
    let token = "a-very-secret-session-token";
    let config = format!(
        "[[channel]]\nname = \"train\"\ndecoder = \"lines\"\n\
         source = {{ s3 = \"s3://bucket/\", endpoint = {:?} }}\n",
        server.endpoint()
    );
    place.write("run.toml", config);
    for args in [
        &CAT[..],
        &["ls", "s3://bucket/"],
        &["config", "show", "run.toml"],
        &["cat", "-d", "lines", "s3://nob/"],
        &["run", "-c", "run.toml", "--", consumer!(), "train"],
    ] {
        let mut command = signed(&place, &server, &server.endpoint(), args);
        command
            .env("PIPEMILL_LOG", "trace")
            .env(LOG_FORMAT, "json")
            .env("AWS_SESSION_TOKEN", token);
        let ended = finish(&mut command);
        let said = format!("{}{}", ended.stderr, ended.text());
        assert!(!said.contains(server.secret_key()) && !said.contains(token), "{args:?}: {said}");
        assert!(!said.contains("Signature="), "{args:?}: {said}");
    }
}
