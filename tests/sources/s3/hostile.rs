//! An endpoint that means harm: answers without end, names and messages that a terminal would obey.

use std::io::Write;
use std::net::{TcpListener, TcpStream};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use pipemill_s3_test::http::{Reader, RequestHead};
use pipemill_tests::host::Host;
use pipemill_tests::nasty::{NASTY, SHOWN, clean};
use pipemill_tests::pipemill;
use pipemill_tests::process::{Ended, Process, finish};
use pipemill_tests::test_dir::TestDir;

/// A server that answers each request as the test says, on a connection of its own.
struct HostileServer {
    endpoint: String,
    /// Bytes that clients took of the answers.
    sent: Arc<AtomicU64>,
}

/// Where an answer is written; counts what is taken.
struct Answer {
    stream: TcpStream,
    sent: Arc<AtomicU64>,
}

impl Answer {
    /// Writes; false if the client has gone.
    fn send(&mut self, bytes: impl AsRef<[u8]>) -> bool {
        let sent = self.stream.write_all(bytes.as_ref()).is_ok();
        self.sent.fetch_add(bytes.as_ref().len() as u64, Ordering::Relaxed);
        sent
    }

    fn head(&mut self, status: u16, length: Option<usize>) {
        let length = length.map_or("Transfer-Encoding: chunked".to_owned(), |length| {
            format!("Content-Length: {length}")
        });
        self.send(format!("HTTP/1.1 {status} X\r\nConnection: close\r\n{length}\r\n\r\n"));
    }

    fn whole(&mut self, status: u16, body: &str) {
        self.head(status, Some(body.len()));
        self.send(body);
    }

    /// The beginning, then the same again until the client has gone.
    fn endless(&mut self, status: u16, begin: &str, again: &str) {
        self.head(status, None);
        let chunk = |text: &str| format!("{:x}\r\n{text}\r\n", text.len());
        let many = chunk(&again.repeat(64 * 1024 / again.len()));
        let mut more = self.send(chunk(begin));
        // It has an end, so that a client that takes all of it fails and does not hang.
        while more && self.sent.load(Ordering::Relaxed) < 1 << 30 {
            more = self.send(&many);
        }
    }
}

impl HostileServer {
    fn start(answer: impl Fn(&RequestHead, &mut Answer) + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port is free");
        let endpoint = format!("http://{}", listener.local_addr().expect("it has an address"));
        let (sent, answer) = (Arc::new(AtomicU64::new(0)), Arc::new(answer));
        let counted = sent.clone();
        // It ends with the test's process.
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let (sent, answer) = (counted.clone(), answer.clone());
                std::thread::spawn(move || {
                    let copy = stream.try_clone().expect("there are descriptors");
                    if let Ok(Some(head)) = Reader::new(Arc::new(copy), 64 << 10).request() {
                        answer(&head, &mut Answer { stream, sent });
                    }
                });
            }
        });
        Self { endpoint, sent }
    }

    fn command(&self, place: &TestDir, args: &[&str]) -> Command {
        let mut command = Command::new(pipemill!());
        command.args(args).args(["--anonymous", "--region", "x", "--endpoint", &self.endpoint]);
        command.current_dir(place.folder()).env_remove("PIPEMILL_LOG");
        command
    }

    fn ls(&self, address: &str) -> Ended {
        clean(finish(&mut self.command(&TestDir::new(), &["ls", address])))
    }

    /// Lists with credentials that this server is asked for, too.
    fn ls_with_credentials(&self) -> Ended {
        let mut command = Command::new(pipemill!());
        command.args(["ls", "s3://bucket/p/", "--region", "x", "--endpoint", &self.endpoint]);
        command.env("AWS_CONTAINER_CREDENTIALS_FULL_URI", format!("{}/credentials", self.endpoint));
        for name in ["AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_PROFILE", "PIPEMILL_LOG"] {
            command.env_remove(name);
        }
        command.env("HOME", "/nonexistent").env("AWS_EC2_METADATA_DISABLED", "true");
        clean(finish(&mut command))
    }

    fn sent(&self) -> u64 {
        self.sent.load(Ordering::Relaxed)
    }
}

const LIST: &str = "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n\
                    <ListBucketResult xmlns=\"http://s3.amazonaws.com/doc/2006-03-01/\">\
                    <IsTruncated>false</IsTruncated>";

/// What is read of an endless answer, with all that lies in buffers on the way.
const MAX_TAKEN: u64 = 64 << 20;

#[test]
fn a_list_without_end_is_refused() {
    for again in ["<Contents/>", "<a>", "x", "<Contents><Key>k</Key><Size>1</Size></Contents>"] {
        let server = HostileServer::start(move |_, answer| answer.endless(200, LIST, again));
        let ended = server.ls("s3://bucket/p/").with_code(65);
        ended.says(&["s3://bucket/p/", "its body has more than 8388608 bytes"]);
        assert!(server.sent() < MAX_TAKEN, "{} bytes were taken of {again}", server.sent());
    }
}

#[test]
fn an_error_without_end_is_refused() {
    let begin = "<Error><Code>AccessDenied</Code><Message>";
    let server = HostileServer::start(move |_, answer| answer.endless(403, begin, "no "));
    server.ls("s3://bucket/p/").with_code(65).says(&["s3://bucket/p/", "403"]);
    assert!(server.sent() < MAX_TAKEN, "{} bytes were taken", server.sent());
    // The same for the error of a GET: a HEAD finds the object.
    let server = HostileServer::start(move |head, answer| match &*head.method {
        "HEAD" => answer.head(200, Some(1_000)),
        _ => answer.endless(403, begin, "no "),
    });
    let args = ["cat", "-d", "lines", "s3://bucket/object"];
    let ended = clean(finish(&mut server.command(&TestDir::new(), &args))).with_code(65);
    ended.says(&["s3://bucket/object", "403"]);
    assert!(server.sent() < MAX_TAKEN, "{} bytes were taken", server.sent());
}

/// Credentials come from endpoints, too.
#[test]
fn credentials_without_end_are_refused() {
    let server = HostileServer::start(|_, answer| answer.endless(200, "{\"AccessKeyId\":\"", "x"));
    server.ls_with_credentials().with_code(65).says(&["no credentials"]);
    assert!(server.sent() < 4 * MAX_TAKEN, "{} bytes were taken", server.sent());
}

#[test]
fn credentials_that_dribble_are_given_up() {
    let server = HostileServer::start(|_, answer| {
        answer.head(200, None);
        while answer.send("1\r\nx\r\n") {
            std::thread::sleep(std::time::Duration::from_millis(400));
        }
    });
    server.ls_with_credentials().with_code(65).says(&["no credentials: none came within 60s"]);
}

fn in_xml(text: &str) -> String {
    text.chars().map(|c| format!("&#{};", u32::from(c))).collect()
}

#[test]
fn keys_are_printed_without_control() {
    let key = in_xml(NASTY);
    let list =
        format!("{LIST}<Contents><Key>{key}</Key><Size>1</Size></Contents></ListBucketResult>");
    let server = HostileServer::start(move |head, answer| match &*head.method {
        "GET" if head.target.contains("list-type=2") => answer.whole(200, &list),
        _ => answer.whole(404, ""),
    });
    let ended = server.ls("s3://bucket/").with_code(0);
    assert_eq!(ended.text(), format!("1\ts3://bucket/{SHOWN}\n"));
    let args = ["cat", "-d", "lines", "s3://bucket/"];
    clean(finish(&mut server.command(&TestDir::new(), &args))).with_code(66).says(&[SHOWN]);
}

#[test]
fn a_key_of_a_megabyte_is_refused() {
    let key = "k".repeat(1 << 20);
    let list =
        format!("{LIST}<Contents><Key>{key}</Key><Size>1</Size></Contents></ListBucketResult>");
    let server = HostileServer::start(move |_, answer| answer.whole(200, &list));
    server.ls("s3://bucket/").with_code(65).says(&["a key of more than 4096 bytes"]);
}

/// A list of these elements. `token`: it goes on there.
fn page(elements: &str, token: Option<String>) -> String {
    let (begin, _) = LIST.split_once("<IsTruncated>").expect("a list has it");
    let more = token.map_or("<IsTruncated>false</IsTruncated>".to_owned(), |token| {
        format!(
            "<IsTruncated>true</IsTruncated><NextContinuationToken>{token}</NextContinuationToken>"
        )
    });
    format!("{begin}{more}{elements}</ListBucketResult>")
}

fn element(key: &str) -> String {
    format!("<Contents><Key>{key}</Key><Size>1</Size></Contents>")
}

/// A server whose list goes on and on. `next`: the elements of a page, and where it goes on.
fn endless_list(next: impl Fn(u64) -> (String, String) + Send + Sync + 'static) -> HostileServer {
    let pages = AtomicU64::new(0);
    HostileServer::start(move |_, answer| {
        let (elements, token) = next(pages.fetch_add(1, Ordering::Relaxed));
        answer.whole(200, &page(&elements, Some(token)));
    })
}

#[test]
fn a_list_that_goes_on_for_ever_is_refused() {
    let empty = endless_list(|page| (String::new(), format!("t{page}")));
    empty
        .ls("s3://bucket/p/")
        .with_code(65)
        .says(&["s3://bucket/p/", "1000 pages in a row without a key"]);
    let round = endless_list(|page| (element(&format!("p/{page}")), format!("t{}", page % 3)));
    round.ls("s3://bucket/p/").with_code(65).says(&["the same continuation token twice"]);
    let again = endless_list(|page| (element(&format!("p/{}", page % 3)), format!("t{page}")));
    again.ls("s3://bucket/p/").with_code(65).says(&["a second page begins with the same key"]);
}

#[test]
fn a_list_that_does_not_say_what_it_has_is_refused() {
    for (elements, says) in [
        ("<Contents><Key>p/a</Key></Contents>", "does not say the size of `p/a`"),
        ("<Contents><Key>p/a</Key><Size>-1</Size></Contents>", "does not say the size of `p/a`"),
        ("<Contents><Size>1</Size></Contents>", "an object without a key"),
        (
            "<Contents><Key>other/a</Key><Size>1</Size></Contents>",
            "the key `other/a`, which has another prefix",
        ),
    ] {
        let list = page(&(element("p/0") + elements), None);
        let server = HostileServer::start(move |_, answer| answer.whole(200, &list));
        server.ls("s3://bucket/p/").with_code(65).says(&["s3://bucket/p/", says]);
    }
    let no_size = |head: &RequestHead, answer: &mut Answer| match &*head.method {
        "HEAD" => {
            answer.send("HTTP/1.1 200 X\r\nConnection: close\r\nETag: \"a\"\r\n\r\n");
        }
        _ => answer.whole(200, "never asked for"),
    };
    let server = HostileServer::start(no_size);
    let args = ["cat", "-d", "lines", "s3://bucket/object"];
    let ended = clean(finish(&mut server.command(&TestDir::new(), &args))).with_code(65);
    ended.says(&["s3://bucket/object", "the answer to HEAD does not say its size"]);
}

/// Reads an object of a megabyte whose bytes come this way.
fn is_too_slow(slowly: impl Fn(&RequestHead, &mut Answer) + Send + Sync + 'static) {
    let server = HostileServer::start(move |head, answer| match &*head.method {
        "HEAD" => {
            let head = "HTTP/1.1 200 X\r\nConnection: close\r\nETag: \"a\"\r\nContent-Length: 1000000\r\n\r\n";
            answer.send(head);
        }
        _ => slowly(head, answer),
    });
    let place = TestDir::new();
    let config = format!(
        "fail_grace = '0ms'\n[[channel]]\nname = 'a'\ndecoder = 'lines'\n\
         source = {{ s3_object = 's3://bucket/slow', anonymous = true, region = 'x', endpoint = {:?}, \
         stall_timeout = '1s', retry_timeout = '1s' }}\n",
        server.endpoint
    );
    let ended = Host::start(&pipemill!(), &place, &config).wait().with_code(65);
    ended.says(&[
        "s3://bucket/slow",
        "its bytes come too slowly, at byte",
        "at least 1024 a second",
    ]);
}

/// The bytes that a GET asks for, of a megabyte.
fn range(head: &RequestHead) -> (u64, u64) {
    let range = head.header("range").and_then(|range| range.strip_prefix("bytes="));
    let range = range.and_then(|range| range.split_once('-'));
    range.map_or((0, 999_999), |(from, to)| {
        (from.parse().expect("a number"), to.parse().expect("a number"))
    })
}

fn head_of_range(head: &RequestHead) -> String {
    let (from, to) = range(head);
    let length = to - from + 1;
    format!(
        "HTTP/1.1 206 X\r\nConnection: close\r\nETag: \"a\"\r\nContent-Length: {length}\r\n\
         Content-Range: bytes {from}-{to}/1000000\r\n\r\n"
    )
}

#[test]
fn a_body_that_dribbles_is_given_up() {
    is_too_slow(|head, answer| {
        answer.send(head_of_range(head));
        while answer.send("x") {
            std::thread::sleep(std::time::Duration::from_millis(100));
        }
    });
}

/// Each try makes some progress.
#[test]
fn bodies_that_break_off_after_a_byte_are_given_up() {
    is_too_slow(|head, answer| {
        answer.send(head_of_range(head) + "x");
    });
}

#[test]
fn messages_are_printed_without_control_and_cut() {
    let message = in_xml(NASTY) + &"x".repeat(1 << 20);
    let code = in_xml(NASTY);
    let body = format!("<Error><Code>{code}</Code><Message>{message}</Message></Error>");
    let server = HostileServer::start(move |_, answer| answer.whole(403, &body));
    let ended = server.ls("s3://bucket/p/").with_code(65);
    assert!(ended.stderr.lines().count() == 1 && ended.stderr.len() < 10_000, "{ended:#?}");
    ended.says(&["403", "\\u{1b}[2J", "forged", "check the credentials"]);
}

/// Each of its elements has 3 bytes. Parsed as a whole, each would need 100 and more.
#[test]
fn a_manifest_of_many_short_elements_needs_little_memory() {
    const ELEMENTS: usize = 2_000_000;
    let manifest = format!("[{{\"prefix\":\"s3://bucket/k\"}}{}]", ",\"\"".repeat(ELEMENTS));
    let size = manifest.len();
    let heads = Arc::new(AtomicU64::new(0));
    let counted = heads.clone();
    let server = HostileServer::start(move |head, answer| {
        match (&*head.method, head.target.contains("/manifest")) {
            ("HEAD", true) => answer.head(200, Some(size)),
            ("GET", true) => answer.whole(200, &manifest),
            _ => {
                counted.fetch_add(1, Ordering::Relaxed);
                answer.head(200, Some(1));
            }
        }
    });
    let place = TestDir::new();
    let config = format!(
        "[[channel]]\nname = 'a'\ndecoder = 'lines'\nsource = {{ manifest = 's3://bucket/manifest', \
         anonymous = true, region = 'x', endpoint = {:?} }}\n",
        server.endpoint
    );
    place.write("c.toml", config);
    let mut command = Command::new(pipemill!());
    command.args(["ls", "-c", "c.toml", "--channel", "a"]).current_dir(place.folder());
    let listing = Process::start(command.stdout(std::process::Stdio::piped()));
    pipemill_tests::until("objects are planned", || heads.load(Ordering::Relaxed) > 100);
    let status = std::fs::read_to_string(format!("/proc/{}/status", listing.pid()));
    let status = status.expect("it runs");
    let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).expect("a line");
    let peak: u64 = peak.trim().trim_end_matches(" kB").parse().expect("a number");
    assert!(peak < 120 << 10, "{peak} KiB for a manifest of {} KiB", size >> 10);
}
