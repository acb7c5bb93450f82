//! `pipemill doctor` reports what is wrong with a machine, and what to do.

use std::os::unix::fs::PermissionsExt;
use std::process::Command;

use pipemill_tests::process::{Ended, finish};
use pipemill_tests::test_dir::TestDir;

/// Runs it with an empty home, and with a `python3` that gives this answer.
fn doctor(place: &TestDir, package: &str, change: impl FnOnce(&mut Command)) -> Ended {
    let answer = format!(r#"{{"path": "/p", "version": [3, 11, 7], {package}}}"#);
    let python = place.write("bin/python3", format!("#!/bin/sh\necho '{answer}'\n"));
    std::fs::set_permissions(python, PermissionsExt::from_mode(0o755)).expect("our own file");
    let mut command = super::command(place, &["doctor"]);
    let aws = std::env::vars_os().filter(|(name, _)| name.to_string_lossy().starts_with("AWS_"));
    aws.for_each(|(name, _)| {
        command.env_remove(name);
    });
    command.env_remove("PIPEMILL_CONFIG").env("HOME", place.folder());
    command.env("XDG_RUNTIME_DIR", place.folder()).env("PATH", place.path("bin"));
    change(&mut command);
    finish(&mut command)
}

/// The package of the same version.
const PACKAGE: &str = concat!("\"package\": \"", env!("CARGO_PKG_VERSION"), "\"");

#[track_caller]
fn has(ended: &Ended, level: &str, words: &[&str]) {
    let text = ended.text();
    let is_it =
        |line: &&str| line.starts_with(level) && words.iter().all(|word| line.contains(word));
    assert!(text.lines().any(|line| is_it(&line)), "no {level} with {words:?} in\n{text}");
}

#[test]
fn a_machine_on_which_tests_run_has_nothing_wrong() {
    let place = TestDir::new();
    let ended = doctor(&place, PACKAGE, |_| ()).with_code(0);
    assert_eq!(ended.stderr, "");
    for subject in ["kernel", "shared memory", "open files", "locked memory", "/dev/shm", "memory"]
    {
        has(&ended, "ok ", &[subject]);
    }
    has(&ended, "ok ", &["Python", "3.11.7, /p"]);
    has(&ended, "note ", &["credentials", "to read S3, set AWS_ACCESS_KEY_ID"]);
    assert!(ended.text().ends_with("\nnothing is wrong\n"));
}

#[test]
fn what_is_wrong_is_said_with_its_remedy_and_no_secret() {
    let place = TestDir::new();
    place.write("pipemill.toml", "[[channel]]\nname = 'a'\nsource = 7\n");
    let ended = doctor(&place, r#""package": "0.0.9""#, |command| {
        command.env("AWS_SECRET_ACCESS_KEY", "very-secret");
    });
    let ended = ended.with_code(71).says(&["pipemill: 3 things are wrong"]);
    has(&ended, "wrong ", &["package", "0.0.9", env!("CARGO_PKG_VERSION"), "pip install"]);
    has(&ended, "wrong ", &["credentials", "AWS_ACCESS_KEY_ID is not", "set both"]);
    has(&ended, "wrong ", &["configuration", "source", "pipemill config check pipemill.toml"]);
    assert!(!format!("{ended:?}").contains("very-secret"));
}
