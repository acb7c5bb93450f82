//! The socket: one host at a time, this user alone.

use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;

use pipemill_tests::host::{self, Host};
use pipemill_tests::process::{Process, finish};
use pipemill_tests::test_dir::TestDir;
use pipemill_tests::{consumer, pipemill, skip_test};

use super::{lines, numbered};

/// Nobody: the user of Linux that owns nothing.
const NOBODY: u32 = 65534;

fn mode(path: &Path) -> u32 {
    path.metadata().expect("it is there").permissions().mode() & 0o7777
}

fn open_up(path: &Path, mode: u32) {
    std::fs::set_permissions(path, Permissions::from_mode(mode)).expect("it is ours");
}

#[test]
fn the_socket_is_this_users_alone() {
    let place = TestDir::new();
    let host = Host::start(&pipemill!(), &place, &lines(&place, "train", &numbered(10, 10), ""));
    let reader = host.connect("train");
    assert_eq!(mode(&place.path("run")), 0o700);
    assert_eq!(mode(&host.socket), 0o600);
    drop(reader);
}

#[test]
fn a_second_host_leaves_the_first_alone() {
    let place = TestDir::new();
    let config = lines(&place, "train", &numbered(10_000, 100), "");
    let first = Host::start(&pipemill!(), &place, &config);
    let mut reader = first.connect("train");
    let mut second = host::command(&pipemill!(), &place, &config);
    let pid = first.process.pid().to_string();
    finish(&mut second).with_code(71).says(&["host.sock", "serves this socket already", &pid]);
    assert_eq!(consumer::read(&mut reader).well().len(), 30_000);
    first.wait().with_code(0);
}

#[test]
fn a_file_in_the_sockets_place_is_left_alone() {
    let place = TestDir::new();
    let file = place.write("run/host.sock", "precious");
    open_up(&place.path("run"), 0o700);
    let mut host =
        host::command(&pipemill!(), &place, &lines(&place, "train", &numbered(10, 10), ""));
    finish(&mut host)
        .with_code(71)
        .says(&["host.sock", "expected a socket or nothing, found a file"]);
    assert_eq!(std::fs::read(file).expect("it is there"), b"precious");
}

#[test]
fn a_folder_that_others_can_write_to_is_refused() {
    let place = TestDir::new();
    open_up(&place.make_folder("run"), 0o775);
    let mut host =
        host::command(&pipemill!(), &place, &lines(&place, "train", &numbered(10, 10), ""));
    finish(&mut host).with_code(71).says(&["mode 0775", "chmod go-w"]);
}

#[test]
fn an_unknown_channel_is_refused_with_those_there_are() {
    let place = TestDir::new();
    let host = Host::start(&pipemill!(), &place, &lines(&place, "train", &numbered(10, 10), ""));
    let reader = host.connect("train");
    let mut other = Command::new(consumer!());
    let ended = finish(other.arg("tain").env("PIPEMILL_SOCKET", &host.socket)).with_code(3);
    assert!(
        ended.text().contains("no channel \"tain\" here; there are: \"train\""),
        "{}",
        ended.text()
    );
    drop(reader);
}

/// The consumer as another user; its program lies where everybody can get at it.
fn as_nobody(place: &TestDir, socket: &Path) -> Process {
    open_up(place.folder(), 0o755);
    let program = place.path("consumer");
    std::fs::copy(consumer!(), &program).expect("it can be copied");
    let mut command = Command::new(&program);
    Process::start(command.arg("train").env("PIPEMILL_SOCKET", socket).uid(NOBODY).gid(NOBODY))
}

fn is_root(test: &str) -> bool {
    let root = nix::unistd::geteuid().is_root();
    if !root {
        skip_test(test, "root, to become another user");
    }
    root
}

#[test]
fn other_users_are_refused() {
    if !is_root("other_users_are_refused") {
        return;
    }
    let place = TestDir::new();
    let host = Host::start(&pipemill!(), &place, &lines(&place, "train", &numbered(10, 10), ""));
    let reader = host.connect("train");
    let by_folder = as_nobody(&place, &host.socket).wait().with_code(3);
    assert!(by_folder.text().contains("Permission denied"), "{}", by_folder.text());
    // This holds even where somebody has opened the folder and the socket.
    open_up(&place.path("run"), 0o777);
    open_up(&host.socket, 0o777);
    let by_host = as_nobody(&place, &host.socket).wait().with_code(3);
    assert!(
        by_host.text().contains("serves user 0 only, and you are user 65534"),
        "{}",
        by_host.text()
    );
    drop(reader);
}

#[test]
fn other_users_are_served_if_the_configuration_says_so() {
    if !is_root("other_users_are_served_if_the_configuration_says_so") {
        return;
    }
    let place = TestDir::new();
    let config = lines(&place, "train", &numbered(10, 10), "");
    let host = Host::start(&pipemill!(), &place, &format!("allow_other_users = true\n{config}"));
    // It left before it took anything; it only shows that the host is up.
    drop(host.connect("train"));
    let ended = as_nobody(&place, &host.socket).wait().with_code(0);
    let text = ended.text();
    assert!(text.starts_with("connected ") && text.contains("\nabout 0 0 0 10\n"), "{text}");
    host.wait().with_code(0);
}
