//! A run that a person starts: the command has the terminal, and receives Ctrl-C.

use std::io::Write;
use std::process::Command;

use pipemill_tests::process::Process;
use pipemill_tests::test_dir::TestDir;

use super::{line, may, nothing_is_left, numbered, shell};

/// `script` makes a terminal, and types what it is sent.
#[test]
fn the_command_reads_from_the_terminal_and_gets_ctrl_c() {
    if !may(
        "the_command_reads_from_the_terminal_and_gets_ctrl_c",
        &["script", "-qec", "true", "/dev/null"],
    ) {
        return;
    }
    let place = TestDir::new();
    let inner = "trap 'exit 5' INT; read word; echo $word > word; while :; do sleep 0.02; done";
    let host = shell(&place, &numbered(&place, 100, ""), inner);
    let quoted = |word: &std::ffi::OsStr| {
        let word = word.to_str().expect("UTF-8").replace('\'', "'\\''");
        format!("'{word}'")
    };
    let words: Vec<_> =
        [host.get_program()].into_iter().chain(host.get_args()).map(quoted).collect();
    let mut command = Command::new("script");
    command.args(["-qec", &words.join(" "), "/dev/null"]).current_dir(place.folder());
    let (keys, mut typist) = std::io::pipe().expect("the kernel makes pipes");
    let process = Process::start(command.stdin(keys));
    typist.write_all(b"hello\n").expect("it is read");
    assert_eq!(line(&place.path("word")), "hello");
    typist.write_all(b"\x03").expect("it is read");
    process.wait().with_code(5);
    nothing_is_left(&place);
}
