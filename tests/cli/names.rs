//! Names and texts from files and decoders: no terminal obeys them, and none can forge a line.

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;

use pipemill_ring::protocol::Hello;
use pipemill_ring::reader::{Event, Reader, ReaderError};
use pipemill_tests::consumer;
use pipemill_tests::host::{self, Host};
use pipemill_tests::inputs::gzip;
use pipemill_tests::nasty::{NASTY, SHOWN, assert_clean, clean};
use pipemill_tests::process::{LOG_FORMAT, Process, finish};
use pipemill_tests::test_dir::TestDir;
use pipemill_tests::{BAD_PLUGIN, pipemill, until};
use serde_json::{Value, json};

use super::{command, run, run_with};

#[test]
fn names_of_objects_in_messages() {
    let place = TestDir::new();
    place.write(NASTY, "1\nx\n");
    let args = ["cat", "-d", "csv", "-o", "types=int32", NASTY];
    let ended = clean(run(&place, &args)).with_code(65);
    let start =
        format!("pipemill: channel `cat`, epoch 0, object {SHOWN}, byte offset 2, record 1");
    assert!(ended.stderr.starts_with(&start) && ended.stderr.lines().count() == 1, "{ended:#?}");
    // Programs get the true name.
    let record: Value = serde_json::from_slice(&ended.stdout).expect("one record");
    assert_eq!(record["object"], NASTY);
    let mut as_json = command(&place, &args);
    let ended = clean(finish(as_json.env(LOG_FORMAT, "json"))).with_code(65);
    let line: Value = serde_json::from_str(&ended.stderr).expect("one line");
    assert_eq!(line["object"], NASTY);
    // It does not exist, or can't be inflated.
    let missing = format!("{NASTY}2");
    clean(run(&place, &["cat", "-d", "csv", &missing])).with_code(66).says(&[SHOWN]);
    let cut = format!("{NASTY}.gz");
    place.write(&cut, &gzip(b"1,2\n")[..15]);
    clean(run(&place, &["cat", "-d", "csv", &cut])).with_code(65).says(&[SHOWN]);
    // The command line itself is wrong.
    clean(run(&place, &["cat", "-d", "csv", &format!("--{NASTY}")])).with_code(64);
    clean(run(&place, &["cat", "-d", NASTY, "x"])).with_code(64).says(&[SHOWN]);
    clean(run(&place, &["cat", "-d", &format!("./{NASTY}"), "x"])).with_code(64).says(&[SHOWN]);
    clean(run(&place, &["cat", "-d", "csv", "-o", &format!("{NASTY}=1"), "x"])).with_code(64);
    clean(run(&place, &["ls", &format!("s3:///{NASTY}")])).with_code(64).says(&[SHOWN]);
    clean(run(&place, &["config", "check", NASTY])).with_code(64).says(&[SHOWN]);
}

/// A path as a string of TOML.
fn in_toml(path: &Path) -> String {
    let text = path.to_str().expect("UTF-8");
    let escaped = text.chars().map(|c| format!("\\U{:08x}", u32::from(c)));
    format!("\"{}\"", escaped.collect::<String>())
}

/// Raw bytes of C1 are not valid UTF-8.
#[test]
fn names_that_are_no_text() {
    let place = TestDir::new();
    let name = OsString::from_vec(b"raw\x9b31m\x80\xff".to_vec());
    std::fs::write(place.folder().join(&name), "1\n").expect("any bytes are a name");
    let mut config = command(&place, &["ls", "-c", "c.toml", "--channel", "a"]);
    place.write(
        "c.toml",
        "[[channel]]\nname = 'a'\ndecoder = 'lines'\nsource = { glob = 'raw*' }\n",
    );
    let ended = clean(finish(&mut config));
    assert!(ended.text().is_empty() || ended.text().contains("raw\u{fffd}31m"), "{ended:#?}");
    let mut cat = command(&place, &["cat", "-d", "./no.wasm"]);
    clean(finish(cat.arg(&name)));
}

#[test]
fn names_in_lists_and_logs() {
    let place = TestDir::new();
    place.write(&format!("in/{NASTY}"), "1\nx\n");
    place.write("in/plain", "2\n");
    let quarantine = place.text("bad.jsonl");
    let config = format!(
        "[[channel]]\nname = 'train'\ndecoder = 'csv'\noptions = {{ types = 'int32' }}\n\
         source = {{ folder = {:?} }}\non_error = 'quarantine'\nquarantine = {quarantine:?}\n",
        place.text("in")
    );
    place.write("c.toml", &config);
    let ls = clean(run(&place, &["ls", "-c", "c.toml", "--channel", "train"])).with_code(0);
    assert_eq!(ls.text().lines().count(), 2, "{ls:#?}");
    assert!(ls.text().contains(&format!("in/{SHOWN}\n")), "{ls:#?}");
    let host = Host::start(&pipemill!(), &place, &config);
    assert_eq!(host.read("train").well().len(), 2);
    clean(host.wait()).with_code(0).says(&["skipped", SHOWN]);
    let kept = std::fs::read(&quarantine).expect("it is there");
    assert_clean(&kept);
    let kept: Value = serde_json::from_slice(&kept).expect("one line");
    assert!(kept["object"].as_str().is_some_and(|name| name.ends_with(NASTY)), "{kept}");
    let mode = std::fs::metadata(&quarantine).expect("it is there").permissions().mode();
    assert_eq!(mode & 0o777, 0o600, "others can read the quarantine");
}

#[test]
fn names_on_the_screen_of_top() {
    let place = TestDir::new();
    let report = place.text("report.html");
    let file = place.write(NASTY, "1\n");
    // The second channel waits for its pipe until the test is over.
    let config = format!(
        "[[channel]]\nname = 'train'\ndecoder = 'lines'\nsource = {{ file = {} }}\n\
         [[channel]]\nname = 'stays'\ndecoder = 'lines'\nsource = {{ fifo = {:?} }}\n",
        in_toml(&file),
        place.text("pipes"),
    );
    let mut command = host::command(&pipemill!(), &place, &config);
    command.args(["--report", &report]);
    let process = Process::start(&mut command);
    let socket = place.text("run/host.sock");
    let top = |more: &[&str]| {
        let mut command = Command::new(pipemill!());
        command.args(["top", "--socket", &socket]).args(more);
        finish(&mut command)
    };
    let mut status = Value::Null;
    until("the channel has read its object", || {
        let ended = top(&["--json"]);
        if ended.code == Some(0) {
            assert_clean(&ended.stdout);
            status = serde_json::from_slice(&ended.stdout).expect("it is JSON");
        }
        let object = &status["channels"][0]["object"];
        object.as_str().is_some_and(|name| name.ends_with(NASTY))
    });
    clean(top(&["--once"])).with_code(0);
    process.signal(nix::sys::signal::Signal::SIGTERM);
    clean(process.wait());
    let page = std::fs::read(&report).expect("the report is there");
    assert_clean(&page);
}

/// A state's texts are whatever a consumer sends, and an object's name is in the trace.
#[test]
fn names_in_refusals_and_in_the_trace() {
    let place = TestDir::new();
    let (trace, file) = (place.text("trace.json"), place.write(NASTY, "1\n2\n3\n"));
    let config = format!(
        "[[channel]]\nname = 'train'\ndecoder = 'lines'\nbatch = 1\nsource = {{ file = {} }}\n",
        in_toml(&file)
    );
    let mut command = host::command(&pipemill!(), &place, &config);
    command.args(["--trace", &trace]);
    let process = Process::start(&mut command);
    let socket = place.path("run/host.sock");
    let mut reader = consumer::connect(&socket, "train", None);
    assert!(matches!(reader.next(), Ok(Event::Batch(_))));
    let state = serde_json::to_value(reader.state().expect("a state")).expect("it is JSON");
    drop(reader);
    let mut refusals = 0;
    for state in edits(&state) {
        let hello = Hello { state: Some(state), ..Hello::new("train", NASTY) };
        if let Err(ReaderError::Refused(why)) = Reader::connect_as(&socket, &hello, false) {
            assert_clean(why.as_bytes());
            assert!(!why.contains('\n'), "{why:?}");
            refusals += usize::from(why.contains("\\u{1b}[2J"));
        }
    }
    assert!(refusals >= 3, "{refusals} refusals show what was sent");
    let unknown = Reader::connect(&socket, NASTY, None).expect_err("there is none").to_string();
    assert_clean(unknown.as_bytes());
    process.signal(nix::sys::signal::Signal::SIGTERM);
    clean(process.wait());
    let trace = std::fs::read(trace).expect("it is there");
    assert_clean(&trace);
    let trace: Value = serde_json::from_slice(&trace).expect("it is JSON");
    assert!(trace.to_string().contains(&json!(NASTY).to_string()[1..]), "{trace}");
}

/// A state with something nasty in the place of each of its texts and numbers, and of their names.
fn edits(state: &Value) -> Vec<Value> {
    let mut all = Vec::new();
    for pointer in pointers(state, String::new()) {
        for nasty in [json!(NASTY), json!({ NASTY: NASTY })] {
            let mut edited = state.clone();
            *edited.pointer_mut(&pointer).expect("it is there") = nasty;
            all.push(edited);
        }
    }
    all
}

fn pointers(value: &Value, at: String) -> Vec<String> {
    let inner = value.as_object().into_iter().flatten();
    let mut all: Vec<_> =
        inner.flat_map(|(name, value)| pointers(value, format!("{at}/{name}"))).collect();
    all.push(at);
    all
}

/// Names of fields come from the input.
#[test]
fn names_of_fields() {
    let place = TestDir::new();
    let quoted = NASTY.replace('"', "\"\"");
    let table = format!("\"{quoted}\",\"b\"\n1,2\n3\n");
    let args = ["cat", "-d", "csv", "-o", "header=true", "-"];
    let ended = clean(run_with(&place, &args, table.as_bytes())).with_code(65);
    let record: Value =
        serde_json::from_str(ended.text().lines().next().expect("a record")).expect("JSON");
    assert!(record["fields"].as_object().is_some_and(|fields| fields.contains_key(NASTY)));
    let twice = format!("\"{quoted}\",\"{quoted}\"\n1,2\n");
    clean(run_with(&place, &args, twice.as_bytes())).with_code(64);
    let typed = ["cat", "-d", "csv", "-o", "header=true", "-o", "types=int32", "-"];
    clean(run_with(&place, &typed, format!("\"{quoted}\"\nx\n").as_bytes())).with_code(65);
    // A name of 1 MB, in the messages about it.
    let long = "x".repeat(1 << 20);
    clean(run_with(&place, &args, format!("\"{long}\",b\n1\n").as_bytes())).with_code(65);
    clean(run_with(&place, &typed, format!("{long}\nx\n").as_bytes())).with_code(65);
    for list in [format!("fields={NASTY}:int32"), format!("names={NASTY}")] {
        clean(run(&place, &["plugin", "inspect", "fixed", "-o", &list]));
        clean(run(&place, &["plugin", "check", "csv", "-o", &list]));
    }
}

/// Decoders whose imports and functions have any names, and that say anything.
#[test]
fn names_and_texts_of_decoders() {
    let place = TestDir::new();
    let in_text =
        |name: &str| -> String { name.bytes().map(|byte| format!("\\{byte:02x}")).collect() };
    let (module, function) = (in_text(NASTY), in_text(&"f\n\u{1b}[2J".repeat(1 << 17)));
    let wasm = wat::parse_str(format!("(module (import \"{module}\" \"{function}\" (func)))"));
    place.write("imports.wasm", wasm.expect("a module"));
    for action in ["check", "inspect", "list"] {
        let ended = clean(run(&place, &["plugin", action, "./imports.wasm"]));
        assert_ne!(ended.code, Some(0), "{ended:#?}");
    }
    clean(run(&place, &["cat", "-d", "./imports.wasm", "x"])).with_code(64);
    place.write("data", "0123456789abcdef");
    for misdeed in [
        "control-characters",
        "panic",
        "refuse",
        "unknown-type-schema",
        "unknown-codec",
        "long-message",
        "wordy-schema",
        "log-flood",
    ] {
        let option = format!("do={misdeed}");
        clean(run(&place, &["cat", "-d", BAD_PLUGIN, "-o", &option, "data"]));
        clean(run(&place, &["plugin", "inspect", BAD_PLUGIN, "-o", &option]));
        // One case is enough: they all say the same.
        let test =
            ["plugin", "test", BAD_PLUGIN, "-o", &option, "--data", "data", "--pieces", "8,8"];
        clean(run(&place, &test));
    }
}

/// The platform shows this message of a job that failed.
#[test]
fn names_in_the_failure_file() {
    let place = TestDir::new();
    place.write("ml/input/config/inputdataconfig.json", json!({}).to_string());
    let file = place.write(&format!("in/{NASTY}"), "1\nx\n");
    let config = format!(
        "fail_grace = '1ms'\n[[channel]]\nname = 'train'\ndecoder = 'csv'\n\
         options = {{ types = 'int32' }}\nsource = {{ file = {} }}\n",
        in_toml(&file)
    );
    let mut command = host::command(&pipemill!(), &place, &config);
    command.env("SAGEMAKER_BASE_DIR", place.path("ml")).args(["--", "sleep", "1000"]);
    clean(finish(&mut command)).with_code(65);
    let failure = std::fs::read(place.path("ml/output/failure")).expect("it is there");
    assert_clean(&failure);
    assert_eq!(String::from_utf8_lossy(&failure).lines().count(), 1);
}

/// The configuration of somebody else.
#[test]
fn texts_of_a_configuration() {
    let place = TestDir::new();
    let quoted = in_toml(NASTY.as_ref());
    for text in [
        format!(
            "[[channel]]\nname = {quoted}\ndecoder = {quoted}\nsource = {{ file = {quoted} }}\n"
        ),
        format!("{quoted} = 1\n"),
        format!("[[channel]]\nname = 'a'\ndecoder = {quoted}\nsource = {{ file = {quoted} }}\n"),
        format!("[[channel]]\nname = 'a'\ndecoder = 'lines'\nsource = {{ file = {quoted} }}\n"),
        format!("no TOML {NASTY}"),
    ] {
        place.write("c.toml", &text);
        for args in [&["config", "check", "--try", "c.toml"][..], &["config", "show", "c.toml"]] {
            clean(run(&place, args));
        }
    }
}
