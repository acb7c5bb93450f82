//! What a folder or a pattern must not select: what nobody has stored there.

use std::fs;
use std::os::unix::fs::symlink;
use std::os::unix::net::UnixListener;
use std::process::Command;

use pipemill_tests::host::Host;
use pipemill_tests::pipemill;
use pipemill_tests::process::{Ended, Process, finish};
use pipemill_tests::test_dir::TestDir;

const SECRET: &str = "the-secret-of-this-host";

/// Runs in the folder, with a secret in the environment.
fn run(place: &TestDir, args: &[&str]) -> Ended {
    let mut command = Command::new(pipemill!());
    command.args(args).env("TOKEN", SECRET).current_dir(place.folder()).env_remove("PIPEMILL_LOG");
    finish(&mut command)
}

/// A folder with a file and a link. Each way to read it is refused, and nothing of the secret comes.
fn is_refused(target: &str, says: &str) {
    let place = TestDir::new();
    place.write("in/a.txt", "a record\n");
    symlink(target, place.path("in/link.txt")).expect("a link can be made");
    let refused = |ended: Ended| {
        let ended = ended.with_code(65).says(&["in/link.txt", says, "regular files only"]);
        assert!(!ended.text().contains(SECRET), "{}", ended.text());
    };
    refused(run(&place, &["cat", "-d", "lines", "in"]));
    let folder = place.path("in");
    for source in ["folder = '{}'", "glob = '{}/*.txt'", "glob = '{}/**/*.txt'"] {
        let source = source.replace("{}", folder.to_str().expect("UTF-8"));
        let config = format!(
            "fail_grace = '0ms'\n[[channel]]\nname = 'train'\ndecoder = 'lines'\nsource = {{ {source} }}\n"
        );
        refused(Host::start(&pipemill!(), &place, &config).wait());
    }
}

#[test]
fn what_the_kernel_shows_of_processes() {
    is_refused("/proc/self/environ", "what the kernel shows");
    is_refused("/proc/self/cmdline", "what the kernel shows");
    is_refused("/sys/kernel/mm/transparent_hugepage/enabled", "what the kernel shows");
}

#[test]
fn folders_of_the_kernel() {
    let place = TestDir::new();
    place.make_folder("in");
    symlink("/proc/self", place.path("in/link")).expect("a link can be made");
    run(&place, &["cat", "-d", "lines", "in"]).with_code(65).says(&["in/link", "the kernel shows"]);
}

/// Nobody writes to it, so it would be waited for for ever.
#[test]
fn pipes_sockets_and_devices() {
    let place = TestDir::new();
    let fifo = place.fifo("fifo");
    is_refused(fifo.to_str().expect("UTF-8"), "a FIFO");
    is_refused("/dev/zero", "a device");
    let socket = place.path("socket");
    let _listener = UnixListener::bind(&socket).expect("a socket can be made");
    is_refused(socket.to_str().expect("UTF-8"), "a socket");
}

#[test]
fn a_fifo_that_lies_in_the_folder_itself() {
    let place = TestDir::new();
    place.write("in/a.txt", "a record\n");
    place.fifo("in/b.txt");
    run(&place, &["cat", "-d", "lines", "in"]).with_code(65).says(&["in/b.txt", "a FIFO"]);
}

/// Who names it means it.
#[test]
fn what_is_named_itself_is_read() {
    let place = TestDir::new();
    let ended = run(&place, &["cat", "-d", "lines", "--output", "raw", "/proc/self/comm"]);
    assert!(ended.with_code(0).text().contains("pipemill"));
    let ended = run(&place, &["cat", "-d", "lines", "--output", "count", "/dev/null"]);
    assert_eq!(ended.with_code(0).text(), "records=0 bytes=0\n");
    let mut command = Command::new(pipemill!());
    command.args(["cat", "-d", "lines", "--output", "raw", "/dev/stdin"]);
    let (read, _) = nix::unistd::pipe().expect("a pipe");
    command.stdin(fs::File::from(read));
    Process::start(&mut command).wait().with_code(0);
    // A link in a folder may lead to files elsewhere.
    place.write("elsewhere", "linked\n");
    place.make_folder("in");
    symlink(place.path("elsewhere"), place.path("in/link")).expect("a link can be made");
    let ended = run(&place, &["cat", "-d", "lines", "--output", "raw", "in"]).with_code(0);
    assert_eq!(ended.text(), "linked");
}
