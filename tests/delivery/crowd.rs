//! Thousands of silent connections, at a host that may open few files.

use std::os::fd::{AsRawFd, OwnedFd};
use std::path::Path;
use std::process::Command;

use nix::sys::resource::{Resource, getrlimit, setrlimit};
use nix::sys::socket::{AddressFamily, SockFlag, SockType, UnixAddr, connect, socket};
use pipemill_tests::host::{self, Host};
use pipemill_tests::process::{Process, finish};
use pipemill_tests::test_dir::TestDir;
use pipemill_tests::{consumer, pipemill};

use super::{lines, numbered};

/// A connection that sends nothing.
pub fn silent(path: &Path) -> OwnedFd {
    let flags = SockFlag::SOCK_CLOEXEC;
    let fd = socket(AddressFamily::Unix, SockType::SeqPacket, flags, None).expect("a socket");
    let address = UnixAddr::new(path).expect("a short path");
    connect(fd.as_raw_fd(), &address).expect("the host accepts it");
    fd
}

/// Lets this process open many files. Returns the limit.
fn raise_open_files() -> u64 {
    let (soft, hard) = getrlimit(Resource::RLIMIT_NOFILE).expect("every process has limits");
    let many = soft.max(hard.min(4_000));
    setrlimit(Resource::RLIMIT_NOFILE, many, hard).expect("up to the hard limit");
    many
}

#[test]
fn silent_connections_keep_no_consumer_and_no_source_out() {
    let many = raise_open_files();
    let place = TestDir::new();
    for number in 0..300 {
        place.write(&format!("data/{number:03}"), numbered(10, 10).join(&b'\n'));
    }
    let config = format!(
        "[[channel]]\nname = 'train'\ndecoder = 'lines'\nsource = {{ folder = {:?} }}\n",
        place.path("data")
    );
    let command = host::command(&pipemill!(), &place, &config);
    let process = Process::start(&mut host::limited(&command, &["-n 256"]));
    let host = Host { process, socket: place.path("run/host.sock") };
    // It only shows that the host is up, and takes nothing.
    drop(host.connect("train"));
    let crowd: Vec<OwnedFd> = (0..2_000.min(many - 200)).map(|_| silent(&host.socket)).collect();
    // The channel opens each file while the crowd is there.
    assert_eq!(consumer::read(&mut host.connect("train")).well().len(), 3_000);
    let pid = format!("process {} (user ", std::process::id());
    let reason = "hanging up: the host has too many connections, and this one was silent";
    host.wait().with_code(0).says(&[&pid, reason, "at most 64 connections at once, not 1024"]);
    drop(crowd);
}

/// Fewer than `max_connections`: the host has to end none of them.
#[test]
fn top_and_a_new_consumer_are_served_beside_a_thousand_silent_connections() {
    let many = raise_open_files();
    let place = TestDir::new();
    let config = lines(&place, "train", &numbered(10, 10), "");
    let host = Host::start(&pipemill!(), &place, &config);
    // It only shows that the host is up, and takes nothing.
    drop(host.connect("train"));
    let crowd: Vec<OwnedFd> = (0..1_000.min(many - 200)).map(|_| silent(&host.socket)).collect();
    let mut top = Command::new(pipemill!());
    top.args(["top", "--json", "--socket"]).arg(&host.socket);
    let said = finish(&mut top).with_code(0).text();
    assert!(said.contains("\"name\":\"train\""), "{said}");
    let mut reader = Command::new(consumer!());
    reader.arg("train").env("PIPEMILL_SOCKET", &host.socket);
    let said = finish(&mut reader).with_code(0).text();
    assert!(said.contains("\nepoch 2 10\nend\n"), "{said}");
    drop(crowd);
    host.wait().with_code(0);
}

#[test]
fn the_host_takes_all_files_that_it_may_open_and_the_command_keeps_its_limit() {
    let place = TestDir::new();
    let mut command =
        host::command(&pipemill!(), &place, &lines(&place, "train", &numbered(10, 10), ""));
    let script = "ulimit -Sn; ulimit -Hn; grep 'open files' /proc/$PPID/limits";
    command.args(["--", "sh", "-c", script]);
    let ended = finish(&mut host::limited(&command, &["-Sn 200", "-Hn 400"])).with_code(0);
    let words: Vec<_> = ended.text().split_whitespace().map(str::to_owned).collect();
    assert_eq!(words, ["200", "400", "Max", "open", "files", "400", "400", "files"]);
}
