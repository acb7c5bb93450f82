//! Tests of this crate's own server: the behaviour that a reader of S3 relies on.

use pipemill_s3_test::client::{Client, DecodeOutcome, get, request, target};
use pipemill_s3_test::servers::{S3Server, S3s};

use crate::{Fixture, SIZE, object};

fn list(fixture: &Fixture, query: &str) -> DecodeOutcome {
    get(&fixture.server.endpoint(), &format!("/bucket?list-type=2{query}"), None).unwrap()
}

fn values<'a>(text: &'a str, name: &str) -> Vec<&'a str> {
    let (open, close) = (format!("<{name}>"), format!("</{name}>"));
    text.split(open.as_str()).skip(1).filter_map(|rest| rest.split(close.as_str()).next()).collect()
}

#[test]
fn objects_and_ranges_have_the_bytes_that_were_put() {
    let fixture = Fixture::new();
    let endpoint = fixture.server.endpoint();
    let whole = get(&endpoint, "/bucket/object", None).unwrap();
    assert_eq!((whole.status, whole.body), (200, object()));
    for (range, from, to) in [
        ("bytes=0-0", 0, 1),
        ("bytes=5-9", 5, 10),
        ("bytes=-7", SIZE - 7, SIZE),
        ("bytes=9-", 9, SIZE),
    ] {
        let part = get(&endpoint, "/bucket/object", Some(range)).unwrap();
        assert_eq!((part.status, &part.body[..]), (206, &object()[from..to]), "{range}");
        let said = format!("bytes {from}-{}/{SIZE}", to - 1);
        assert_eq!(part.header("content-range"), Some(said.as_str()));
    }
}

#[test]
fn a_range_may_end_but_not_begin_beyond_the_end() {
    let fixture = Fixture::new();
    let endpoint = fixture.server.endpoint();
    let over = format!("bytes={}-{}", SIZE - 1, SIZE + 9);
    assert_eq!(get(&endpoint, "/bucket/object", Some(&over)).unwrap().body.len(), 1);
    let beyond = format!("bytes={SIZE}-");
    let answer = get(&endpoint, "/bucket/object", Some(&beyond)).unwrap();
    assert_eq!((answer.status, values(&answer.text(), "Code")), (416, vec!["InvalidRange"]));
    fixture.server.put("bucket", "empty", b"");
    assert_eq!(get(&endpoint, "/bucket/empty", Some("bytes=0-9")).unwrap().status, 416);
    assert_eq!(get(&endpoint, "/bucket/empty", None).unwrap().status, 200);
}

#[test]
fn the_etag_is_the_same_everywhere_until_the_object_is_replaced() {
    let fixture = Fixture::new();
    let endpoint = fixture.server.endpoint();
    let first = request(&endpoint, "HEAD", "/bucket/object", &[], b"").unwrap();
    assert_eq!(first.header("content-length"), Some(SIZE.to_string().as_str()));
    let etag = first.header("etag").unwrap().to_owned();
    let part = get(&endpoint, "/bucket/object", Some("bytes=1-2")).unwrap();
    assert_eq!(part.header("etag"), Some(etag.as_str()));
    assert_eq!(values(&list(&fixture, "").text(), "ETag")[0].replace("&quot;", "\""), etag);
    let when = |etag: &str| {
        request(&endpoint, "GET", "/bucket/object", &[("if-match", etag)], b"").unwrap().status
    };
    assert_eq!(when(&etag), 200);
    fixture.server.put("bucket", "object", b"other");
    assert_eq!(when(&etag), 412);
    fixture.server.delete("bucket", "object");
    assert_eq!(when(&etag), 404);
}

#[test]
fn any_key_is_found_and_listed_in_the_order_of_bytes() {
    let fixture = Fixture::new();
    fixture.server.delete("bucket", "object");
    let mut keys =
        ["a b", "a+b", "a%2Fb", "é/ü", "a//b", "folder/", "%", "a/../b", "z/&<>\"'", "日本", "a-"];
    for key in keys {
        fixture.server.put("bucket", key, key.as_bytes());
        let answer = get(&fixture.server.endpoint(), &target("bucket", key), None).unwrap();
        assert_eq!((answer.status, answer.text()), (200, key.to_owned()), "{key}");
    }
    keys.sort_unstable();
    let listed = list(&fixture, "").text();
    let listed: Vec<_> = values(&listed, "Key").into_iter().map(plain).collect();
    assert_eq!(listed, keys);
    let encoded = list(&fixture, "&encoding-type=url&prefix=a").text();
    assert!(values(&encoded, "Key").contains(&"a%2Bb"), "{encoded}");
}

fn plain(text: &str) -> String {
    let text = text.replace("&lt;", "<").replace("&gt;", ">").replace("&quot;", "\"");
    text.replace("&apos;", "'").replace("&amp;", "&")
}

#[test]
fn pages_follow_each_other_without_gaps() {
    let fixture = Fixture::new();
    fixture.server.delete("bucket", "object");
    let mut keys: Vec<_> = (0..2345).map(|number| format!("in/{}/{number}", number % 7)).collect();
    for key in &keys {
        fixture.server.put("bucket", key, b"");
    }
    keys.sort_unstable();
    for (query, pages) in [("", 3), ("&max-keys=100", 24), ("&prefix=in/", 3)] {
        let (mut listed, mut count, mut next) = (Vec::new(), 0, String::new());
        loop {
            let page = list(&fixture, &format!("{query}{next}")).text();
            listed.extend(values(&page, "Key").into_iter().map(str::to_owned));
            count += 1;
            match values(&page, "NextContinuationToken")[..] {
                [token] => next = format!("&continuation-token={}", &target("", token)[2..]),
                _ => break,
            }
        }
        assert_eq!((&listed, count), (&keys, pages), "{query}");
    }
    let after = list(&fixture, "&start-after=in/6/9&prefix=in/6").text();
    assert!(values(&after, "Key").iter().all(|key| *key > "in/6/9"));
    let groups = list(&fixture, "&delimiter=/&prefix=in/&max-keys=5").text();
    assert_eq!(values(&groups, "CommonPrefixes").len(), 5);
    assert_eq!(values(&groups, "IsTruncated"), ["true"]);
}

#[test]
fn errors_for_missing_things_are_those_of_s3() {
    let fixture = Fixture::new();
    let code = |target: &str| {
        let answer = get(&fixture.server.endpoint(), target, None).unwrap();
        (answer.status, values(&answer.text(), "Code").concat())
    };
    assert_eq!(code("/bucket/none"), (404, "NoSuchKey".to_owned()));
    assert_eq!(code("/none-such/none"), (404, "NoSuchBucket".to_owned()));
    assert_eq!(code("/none-such?list-type=2"), (404, "NoSuchBucket".to_owned()));
    assert_eq!(
        code("/bucket?list-type=2&continuation-token=x"),
        (400, "InvalidArgument".to_owned())
    );
}

#[test]
fn requests_without_a_signature_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let server = S3s::start(folder.path());
    server.put("bucket", "object", b"secret");
    let answer = get(&server.endpoint(), "/bucket/object", None).unwrap();
    assert_eq!((answer.status, values(&answer.text(), "Code")), (403, vec!["AccessDenied"]));
}

#[test]
fn objects_can_be_put_by_requests() {
    let fixture = Fixture::new();
    let mut client = Client::connect(&fixture.server.endpoint()).unwrap();
    assert_eq!(client.request("PUT", "/new-bucket", &[], b"").unwrap().status, 200);
    let put = client.request("PUT", "/new-bucket/a/b", &[], b"12345").unwrap();
    let got = client.request("GET", "/new-bucket/a/b", &[], b"").unwrap();
    assert_eq!(got.header("etag"), put.header("etag"));
    assert_eq!((got.status, got.body), (200, b"12345".to_vec()));
    assert_eq!(client.request("DELETE", "/new-bucket/a/b", &[], b"").unwrap().status, 204);
    assert_eq!(client.request("GET", "/new-bucket/a/b", &[], b"").unwrap().status, 404);
}
