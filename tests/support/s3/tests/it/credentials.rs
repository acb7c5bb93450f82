//! Tests of the endpoint for credentials.

use std::time::Duration;

use pipemill_s3_test::client::{DecodeOutcome, request};
use pipemill_s3_test::credentials::{Answers, Credentials, Failure};

fn send(credentials: &Credentials, authorization: &str) -> std::io::Result<DecodeOutcome> {
    let uri = credentials.uri();
    let endpoint = uri.strip_suffix("/credentials").unwrap();
    request(endpoint, "GET", "/credentials", &[("authorization", authorization)], b"")
}

#[test]
fn answers_are_those_that_were_set() {
    let credentials = Credentials::start(Answers::of("KEY", "SECRET")).unwrap();
    let text = send(&credentials, "").unwrap().text();
    assert!(text.starts_with(r#"{"AccessKeyId":"KEY","SecretAccessKey":"SECRET","Expiration":"2"#));
    assert!(text.ends_with("Z\"}"), "{text}");
    credentials.change(|answers| {
        answers.session_token = Some("SESSION".to_owned());
        answers.lifetime = Duration::ZERO;
        answers.authorization = Some("right".to_owned());
    });
    assert_eq!(send(&credentials, "wrong").unwrap().status, 401);
    assert!(send(&credentials, "right").unwrap().text().contains(r#""Token":"SESSION""#));
    assert_eq!(credentials.requests(), 3);
}

#[test]
fn failures_are_those_that_were_set() {
    let credentials = Credentials::start(Answers::of("KEY", "SECRET")).unwrap();
    let fail = |failure| {
        credentials.change(|answers| answers.failure = failure);
        send(&credentials, "")
    };
    assert_eq!(fail(Some(Failure::Status(503))).unwrap().status, 503);
    assert_eq!(fail(Some(Failure::Malformed)).unwrap().text(), r#"{"AccessKeyId":"KEY""#);
    assert!(!fail(Some(Failure::Incomplete)).unwrap().text().contains("SecretAccessKey"));
    assert!(fail(Some(Failure::Nothing)).is_err());
    assert_eq!(fail(None).unwrap().status, 200);
}
