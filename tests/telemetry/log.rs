//! The log as machines gather it: a JSON object a line, with fields for the values that the host
//! knows.

use std::process::Command;
use std::time::Duration;

use pipemill_tests::process::{Ended, LOG_FORMAT, finish};
use pipemill_tests::test_dir::TestDir;
use pipemill_tests::{consumer, host, inputs, pipemill, skip_test};
use serde_json::{Value, json};

use super::command;

/// Standard error, each line of which is an object.
#[track_caller]
fn lines(ended: &Ended) -> Vec<Value> {
    let object = |line: &str| {
        let object: Value =
            serde_json::from_str(line).unwrap_or_else(|error| panic!("{line}: {error}"));
        let word = |key: &str| object[key].as_str().unwrap_or_else(|| panic!("no {key}: {line}"));
        let time = word("time");
        assert!(time.len() == 24 && time.ends_with('Z') && &time[10..11] == "T", "{time}");
        assert!(["error", "warn", "info", "debug"].contains(&word("level")), "{line}");
        assert!(!word("message").is_empty() && line.starts_with("{\"time\":\""), "{line}");
        object
    };
    ended.stderr.lines().map(object).collect()
}

/// The line whose message has these words.
#[track_caller]
fn line<'a>(lines: &'a [Value], words: &str) -> &'a Value {
    let has = |line: &&Value| line["message"].as_str().is_some_and(|text| text.contains(words));
    lines.iter().find(has).unwrap_or_else(|| panic!("no {words:?} in {lines:#?}"))
}

#[track_caller]
fn has(line: &Value, fields: &Value) {
    for (key, value) in fields.as_object().expect("an object") {
        assert_eq!(&line[key], value, "{key} of {line}");
    }
}

/// The host starts like this where nobody has chosen how to log.
fn unsaid(mut command: Command) -> Ended {
    finish(command.env_remove(LOG_FORMAT).env_remove("PIPEMILL_LOG"))
}

/// A channel whose third record is too large.
fn failing(place: &TestDir, more: &str) -> String {
    let file = place.write("bad.txt", format!("00000000\n00000001\n{}\n", "x".repeat(3_000)));
    format!(
        "fail_grace = '50ms'\n[[channel]]\nname = 'bad'\ndecoder = 'lines'\nmax_record = '1KiB'\n\
         source = {{ file = {file:?} }}\n{more}"
    )
}

#[test]
fn a_run_that_fails_says_where() {
    let place = TestDir::new();
    let mut command = host::command(&pipemill!(), &place, &failing(&place, ""));
    command.args(["--", "sleep", "1000"]);
    let said = lines(&unsaid(command).with_code(65));
    line(&said, "serving bad on ");
    let failure = line(&said, "decoder lines: ");
    has(
        failure,
        &json!({"level": "error", "channel": "bad", "epoch": 0, "offset": 18, "record": 2}),
    );
    let object = place.text("bad.txt");
    has(failure, &json!({"object": object, "decoder": "lines", "kind": "decode"}));
    let end = line(&said, "channel `bad` failed");
    has(end, &json!({"level": "info", "channel": "bad", "records": 2, "decode_errors": 0}));
    assert!(end["seconds"].as_f64().is_some_and(|seconds| seconds > 0.0), "{end}");
}

#[test]
fn places_that_are_passed_over_are_told() {
    let place = TestDir::new();
    let config = failing(&place, "on_error = 'skip'\n");
    let mut command = host::command(&pipemill!(), &place, &config);
    command.args(["--", consumer!(), "bad"]);
    let said = lines(&unsaid(command).with_code(0));
    let passed = line(&said, "skipped 3001 bytes");
    has(passed, &json!({"level": "warn", "channel": "bad", "offset": 18, "length": 3001}));
    has(line(&said, "channel `bad` ended"), &json!({"decode_errors": 1}));
}

/// Errors that end a run before anything was started are logged in the same way.
#[test]
fn each_fault_of_a_configuration_is_a_line() {
    let place = TestDir::new();
    place.write("c.toml", "x = 1\n[[channel]]\nname = 'a b'\nsource = { stdin = true }\n");
    let said = lines(&unsaid(command(&place, &["run", "-c", "c.toml"])).with_code(64));
    assert!(said.len() == 4 && said.iter().all(|line| line["level"] == "error"), "{said:#?}");
    line(&said, "c.toml:1:1: ");
    line(&said, "c.toml: 3 things are wrong");
}

#[test]
fn a_feeder_that_fails_says_where() {
    let place = TestDir::new();
    place.write("in/a", "a\n");
    place.write("in/b", [0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 3, 0xff, 0xff]);
    place.write(
        "c.toml",
        "[[channel]]\nname = 'train'\nsource = { folder = 'in', compression = 'gzip' }\n",
    );
    place.write("in/a", inputs::gzip(b"a\n"));
    let reader = place.path("fifos/train_0");
    let feed = command(&place, &["feed", "-c", "c.toml", "--to", "fifos", "--epochs", "1"]);
    let reading = std::thread::spawn(move || {
        while !reader.exists() {
            std::thread::sleep(Duration::from_millis(2));
        }
        std::fs::read(reader)
    });
    let said = lines(&unsaid(feed).with_code(65));
    has(&said[0], &json!({"level": "error", "channel": "train", "epoch": 0, "object": "in/b"}));
    assert_eq!(said.len(), 1);
    drop(reading.join());
}

#[test]
fn one_shot_commands_write_text_unless_asked() {
    let place = TestDir::new();
    place.write("bad.csv", "1\nx\n");
    let args = ["cat", "-d", "csv", "-o", "types=int32", "bad.csv"];
    let ended = unsaid(command(&place, &args)).with_code(65);
    assert!(ended.stderr.starts_with("pipemill: channel `cat`, epoch 0, object bad.csv, byte"));
    let mut as_json = command(&place, &args);
    let ended = finish(as_json.env(LOG_FORMAT, "json")).with_code(65);
    let said = lines(&ended);
    has(&said[0], &json!({"channel": "cat", "object": "bad.csv", "offset": 2, "record": 1}));
}

#[test]
fn the_variables_for_format_and_level_count() {
    let place = TestDir::new();
    let start = |format: &str, level: &str| {
        let mut command = host::command(&pipemill!(), &place, &failing(&place, ""));
        command.args(["--", "true"]).env(LOG_FORMAT, format).env("PIPEMILL_LOG", level);
        finish(&mut command)
    };
    let human = start("human", "info");
    assert!(human.stderr.starts_with("pipemill: info: serving bad on "), "{}", human.stderr);
    assert!(lines(&start("json", "error")).iter().all(|line| line["level"] == "error"));
    let wrong = lines(&start("xml", "loud"));
    let says = "PIPEMILL_LOG_FORMAT is \"xml\", expected human or json";
    has(line(&wrong, says), &json!({"level": "warn"}));
    line(&wrong, "PIPEMILL_LOG is \"loud\", expected error, warn, info, debug, trace or off");
    line(&wrong, "serving bad on ");
}

/// `script` makes a terminal.
#[test]
fn the_log_on_a_terminal_is_text() {
    let mut probe = Command::new("script");
    if finish(probe.args(["-qec", "true", "/dev/null"])).code != Some(0) {
        skip_test("the_log_on_a_terminal_is_text", "script");
        return;
    }
    let place = TestDir::new();
    let host = host::command(&pipemill!(), &place, &failing(&place, ""));
    let words: Vec<_> = [host.get_program()].into_iter().chain(host.get_args()).collect();
    let words: Vec<_> = words.iter().map(|word| format!("'{}'", word.display())).collect();
    let mut command = Command::new("script");
    command.args(["-qec", &format!("{} -- true", words.join(" ")), "/dev/null"]);
    let ended = unsaid(command);
    assert!(ended.text().starts_with("pipemill: info: serving bad on "), "{ended:#?}");
}
