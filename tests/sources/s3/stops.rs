//! Whoever stops: nothing is asked for any more, and what was asked for is let go.

use std::process::Command;

use nix::sys::signal::Signal;
use pipemill_s3_test::proxy::Proxy;
use pipemill_tests::bucket::{BUCKET, Bucket, until_asked, until_quiet};
use pipemill_tests::process::Process;
use pipemill_tests::test_dir::TestDir;

use super::credentials::command;

fn slow() -> (Bucket, Proxy) {
    let bucket = Bucket::with([("one", vec![b'\n'; 64 << 20])]);
    let proxy = bucket.slow_proxy();
    (bucket, proxy)
}

fn host(place: &TestDir, proxy: &Proxy, words: &[&str]) -> Command {
    let config = format!(
        "[[channel]]\nname = \"train\"\ndecoder = \"lines\"\n\
         source = {{ s3 = \"s3://{BUCKET}/one\", part_size = \"1MiB\", anonymous = true }}\n"
    );
    place.write("run.toml", config);
    let mut command = command(place, &proxy.endpoint(), &["run", "-c", "run.toml", "--"]);
    command.args(words);
    command
}

#[test]
fn sigterm_ends_all_requests() {
    let (bucket, proxy) = slow();
    let process = Process::start(&mut host(&bucket.place, &proxy, &["sleep", "1000"]));
    until_asked(&proxy);
    process.signal(Signal::SIGTERM);
    until_quiet(&proxy);
    process.wait().with_code(128 + Signal::SIGTERM as i32);
}

#[test]
fn the_commands_end_ends_all_requests() {
    let (bucket, proxy) = slow();
    let gate = bucket.place.fifo("gate");
    let words = ["sh", "-c", &format!("read line <{}; exit 3", gate.display())];
    let process = Process::start(&mut host(&bucket.place, &proxy, &words));
    until_asked(&proxy);
    std::fs::write(&gate, "go\n").unwrap();
    process.wait().with_code(3);
    until_quiet(&proxy);
}

#[test]
fn a_killed_host_has_no_requests_left() {
    let (bucket, proxy) = slow();
    let process = Process::start(&mut host(&bucket.place, &proxy, &["sleep", "1"]));
    until_asked(&proxy);
    process.signal(Signal::SIGKILL);
    until_quiet(&proxy);
    drop(process.wait());
}
