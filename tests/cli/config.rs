//! Configurations: all errors are reported at once, and the files that they name are found.

use pipemill_tests::consumer;
use pipemill_tests::host::Host;
use pipemill_tests::pipemill;
use pipemill_tests::test_dir::TestDir;

use super::{command, run};

const FAULTY: &str = r#"
sokcet = "x"

[[channel]]
name = "a b"
source = { file = "x", fifo = "y" }
decoder = "tfrecord"

[[channel]]
name = "b"
source = { file = "x" }
decoder = "csv"
max_record = "10KB"
[channel.ring]
slots = 2
"#;

#[test]
fn all_faults_of_a_file_are_said_at_once() {
    let place = TestDir::new();
    place.write("p.toml", FAULTY);
    let ended = run(&place, &["config", "check", "p.toml"]).with_code(64);
    let lines: Vec<_> = ended.stderr.lines().filter(|line| line.contains("p.toml:")).collect();
    for says in [
        &["p.toml:2:", "sokcet", "did you mean `socket`"][..],
        &["p.toml:5:", "name"],
        &["p.toml:6:", "source"],
        &["p.toml:13:", "max_record", "10KB"],
        &["p.toml:15:", "ring.slots", "4 to 4096", "2"],
    ] {
        let found = lines.iter().any(|line| says.iter().all(|word| line.contains(word)));
        assert!(found, "expected a line with {says:?} in {lines:#?}");
    }
    // `run` says the same and starts nothing.
    let same = run(&place, &["run", "--config", "p.toml", "--", "touch", "started"]).with_code(64);
    assert_eq!(same.stderr, ended.stderr);
    assert!(!place.path("started").exists());
}

/// The lines that do not mention memory, which depends on the machine.
fn without_memory(text: &str) -> String {
    let lines = text.lines().filter(|line| !line.contains(": takes at most "));
    lines.flat_map(|line| [line, "\n"]).collect()
}

#[test]
fn what_a_channel_may_take_is_said() {
    let place = TestDir::new();
    let channel = "[[channel]]\nname = 'a'\nsource = { file = 'x' }\ndecoder = 'lines'\n";
    place.write("p.toml", format!("{channel}workers = 4\n"));
    let ended = run(&place, &["config", "check", "p.toml"]).with_code(0);
    let text = ended.text();
    let says =
        ["a: takes at most ", "2GiB for decoders (limits.memory)", "296MiB for what workers"];
    let has_all = |line: &str| says.iter().all(|part| line.contains(part));
    assert!(text.lines().any(has_all), "{text}");
    let last = text.lines().last().unwrap_or_default();
    assert!(last.starts_with("pipemill itself: takes at most "), "{text}");
    assert!(
        last.contains("56MiB for code, threads and compiled decoders, 2MiB for lines"),
        "{text}"
    );
    place.write("p.toml", channel);
    let ended = run(&place, &["config", "check", "p.toml"]).with_code(0);
    let text = ended.text();
    assert!(text.contains("512MiB for decoders") && !text.contains("workers"), "{text}");
}

/// Only `run`, which stops at errors in the text, does not look for them.
#[test]
fn an_unknown_decoder_is_said_beside_other_faults() {
    let place = TestDir::new();
    let channel = "[[channel]]\nname = 'a'\nsource = { file = 'x' }\n";
    place.write("p.toml", format!("{channel}decoder = 'cvs'\noptoins = {{}}\nmax_record = 1\n"));
    let ended = run(&place, &["config", "check", "p.toml"]).with_code(64);
    let lines: Vec<_> = ended.stderr.lines().collect();
    assert_eq!(lines.len(), 4, "{lines:#?}");
    let starts = "pipemill: p.toml:4:11: channel `a`: decoder `cvs`: there is no built-in decoder of \
                  that name; did you mean `csv`?";
    assert!(lines[0].starts_with(starts), "{lines:#?}");
    assert!(lines[1].contains(":5:1: channel `a`: optoins: unknown key"), "{lines:#?}");
    assert!(lines[2].contains(":6:14: channel `a`: max_record: expected"), "{lines:#?}");
    assert_eq!(lines[3], "pipemill: p.toml: 3 things are wrong");
}

#[test]
fn unknown_decoders_and_options_are_named() {
    let place = TestDir::new();
    let channel = |name: &str, decoder: &str, options: &str| {
        format!(
            "[[channel]]\nname = '{name}'\nsource = {{ file = 'x' }}\ndecoder = '{decoder}'\noptions = {options}\n"
        )
    };
    let config = [
        channel("a", "tfrecords", "{}"),
        channel("b", "tfrecord", "{ verfy = true, other = 1 }"),
        channel("c", "tfrecord", "{ verify = 'maybe' }"),
        channel("d", "./mine.wasm", "{}"),
        channel("e", "csv", "{ emit = 'rows' }"),
    ];
    place.write("p.toml", config.concat());
    let says = [
        "p.toml:4:11: channel `a`",
        "no built-in decoder of that name",
        "p.toml:10:21: channel `b`: decoder `tfrecord` has no option `verfy`; did you mean `verify`?",
        "has no option `other`",
        "p.toml:15:22: channel `c`",
        "maybe",
        "p.toml:19:11: channel `d`: decoder `./mine.wasm`: its file can't be read",
        "p.toml:25:20: channel `e`",
        "rows",
    ];
    run(&place, &["config", "check", "p.toml"]).with_code(64).says(&says);
    run(&place, &["run", "--config", "p.toml", "--", "true"]).with_code(64).says(&says);
}

#[test]
fn what_config_show_prints_is_a_configuration() {
    let place = TestDir::new();
    place.write(
        "p.toml",
        "[[channel]]\nname = 'a${N:-1}'\nsource = { glob = '${DATA}/*.gz', epochs = 2 }\ndecoder = 'lines'\n",
    );
    let shown = pipemill_tests::process::finish(
        command(&place, &["config", "show", "p.toml"]).env("DATA", "/d"),
    );
    let shown = shown.with_code(0).text();
    for part in ["name = \"a1\"", "/d/*.gz", "slots = 16", "max_record = \"64MiB\""] {
        assert!(shown.contains(part), "expected {part} in {shown}");
    }
    place.write("q.toml", &shown);
    run(&place, &["config", "check", "q.toml"]).with_code(0);
    assert_eq!(run(&place, &["config", "show", "q.toml"]).with_code(0).text(), shown);
}

#[test]
fn a_missing_file_and_one_that_is_no_toml_are_told() {
    let place = TestDir::new();
    place.write("p.toml", "[[channel]\nname = ");
    run(&place, &["config", "check", "p.toml"]).with_code(64).says(&["p.toml:1:"]);
    run(&place, &["config", "check", "q.toml"]).with_code(64).says(&["q.toml", "can't be read"]);
}

#[test]
fn a_glob_takes_its_files_by_name_in_every_epoch() {
    let place = TestDir::new();
    for (name, text) in [("b.txt", "b"), ("a.txt", "a"), ("c.dat", "c"), ("sub/d.txt", "d")] {
        place.write(&format!("data/{name}"), text);
    }
    let config = format!(
        "[[channel]]\nname = 'g'\nsource = {{ glob = '{}/**/*.txt', epochs = 2 }}\ndecoder = 'lines'\n",
        place.text("data")
    );
    let host = Host::start(&pipemill!(), &place, &config);
    let read = consumer::read(&mut host.connect("g"));
    assert_eq!(read.epochs.iter().map(|end| end.records).collect::<Vec<_>>(), [3, 3]);
    assert_eq!(read.well(), [b"a", b"b", b"d", b"a", b"b", b"d"]);
    host.wait().with_code(0);
}

/// The decoder itself reports which options are missing, before anything runs.
#[test]
fn decoders_are_opened_with_their_options() {
    let place = TestDir::new();
    place.write(
        "p.toml",
        "[[channel]]\nname = \"a\"\nsource = { file = \"x\" }\ndecoder = \"webdataset\"\n\
         [[channel]]\nname = \"b\"\nsource = { file = \"x\" }\ndecoder = \"fixed\"\n\
         options = { size = 4, type = \"float64\" }\n",
    );
    let ended = run(&place, &["config", "check", "p.toml"]).with_code(64);
    ended.says(&[
        "p.toml:4:11: channel `a`: decoder `webdataset`: the decoder refuses to start",
        "set the option `fields`",
        "p.toml:8:11: channel `b`: decoder `fixed`",
        "option `size` is 4",
    ]);
}

/// `--try` reads what can be read twice, and writes nothing.
#[test]
fn sources_are_tried() {
    let place = TestDir::new();
    place.write("data/a.csv", "1,x\n2,y\n");
    place.write("empty/none.csv", "");
    place.write("bad.tfrecord", [0x55; 40]);
    place.fifo("train_0");
    let csv = |name: &str, source: &str| {
        format!(
            "[[channel]]\nname = \"{name}\"\nsource = {source}\ndecoder = \"csv\"\n\
             options = {{ types = \"int64\" }}\n"
        )
    };
    let good =
        csv("files", "{ folder = \"data\", epochs = 3 }") + &csv("train", "{ fifo = \".\" }");
    place.write("good.toml", &good);
    let ended = run(&place, &["config", "check", "good.toml", "--try"]);
    assert_eq!(
        without_memory(&ended.with_code(65).text()),
        "good.toml: nothing wrong, for `run`; channels: files, train\n\
         train: not tried: a FIFO can be read only once\n"
    );
    place.write("good.toml", good.replace("int64", "utf8"));
    assert_eq!(
        without_memory(
            &run(&place, &["config", "check", "good.toml", "--try"]).with_code(0).text()
        ),
        "good.toml: nothing wrong, for `run`; channels: files, train\n\
         files: the first record of data/a.csv: {\"f0\":\"1\",\"f1\":\"x\"}\n\
         train: not tried: a FIFO can be read only once\n"
    );
    let bad = "[[channel]]\nname = \"bad\"\nsource = { file = \"bad.tfrecord\" }\n\
               decoder = \"tfrecord\"\non_error = \"quarantine\"\nquarantine = \"kept.jsonl\"\n";
    place.write("bad.toml", csv("none", "{ folder = \"empty\" }") + bad);
    let ended = run(&place, &["config", "check", "bad.toml", "--try"]).with_code(65);
    ended.says(&["channel `none`: its source has no record", "channel `bad`, epoch 0"]);
    assert!(!place.path("kept.jsonl").exists());
    place.write("gone.toml", csv("gone", "{ file = \"gone.csv\" }"));
    run(&place, &["config", "check", "gone.toml", "--try"]).with_code(66).says(&["gone.csv"]);
}

/// A feed's file needs no decoder, and none of its sources may be one that `feed` can't read.
#[test]
fn a_file_is_checked_as_the_command_reads_it() {
    let place = TestDir::new();
    place.write("in/a", "no format that is known");
    let channel = |name: &str, source: &str, more: &str| {
        format!("[[channel]]\nname = '{name}'\nsource = {{ {source} }}\n{more}\n")
    };
    let in_folder = channel("train", "folder = 'in'", "");
    let fifo = channel("fifo", "fifo = '/data'", "decoder = 'lines'");
    place.write("either.toml", &in_folder);
    place.write("decoder.toml", channel("train", "folder = 'in'", "decoder = 'csb'"));
    place
        .write("mixed.toml", fifo + &in_folder + &channel("in", "stdin = true", "decoder = 'csv'"));
    place.write("gone.toml", channel("a", "file = 'gone'", "") + &channel("b", "file = 'in'", ""));
    place.write("wrong.toml", channel("a b", "file = 'in/a', epoch = 3", ""));
    let check =
        |file: &str, args: &[&str]| run(&place, &[&["config", "check", file], args].concat());
    let to_feed = |file: &str| check(file, &["--for", "feed"]);

    let said = check("either.toml", &[]).with_code(0).text();
    assert!(said.starts_with("either.toml: nothing wrong, for `run` or `feed`; "), "{said}");
    let said = check("either.toml", &["--for", "run"]).with_code(0).text();
    assert!(said.starts_with("either.toml: nothing wrong, for `run`; channels: train\n"), "{said}");
    let said = to_feed("either.toml").with_code(0).text();
    assert_eq!(said, "either.toml: nothing wrong, for `feed`; channels: train\n");
    let said = check("either.toml", &["--for", "feed", "--try"]).with_code(0).text();
    assert!(said.ends_with("channels: train\ntrain: the first object is in/a\n"), "{said}");
    // `run` would need a decoder for it, and `feed` does not.
    check("either.toml", &["--try"]).with_code(65).says(&["check it with `--for feed`"]);
    check("decoder.toml", &[]).with_code(64).says(&["no built-in decoder of that name"]);
    to_feed("decoder.toml").with_code(0);

    let said = check("mixed.toml", &[]).with_code(0).text();
    assert!(said.starts_with("mixed.toml: nothing wrong, for `run`; channels: "), "{said}");
    let refused = to_feed("mixed.toml")
        .with_code(64)
        .says(&["channel `fifo`: `feed` reads from files", "channel `in`: `feed` reads"]);
    assert!(!refused.stderr.contains("`train`"), "{refused:#?}");
    // `feed` says the same.
    let fed = run(&place, &["feed", "--config", "mixed.toml", "--to", "out"]).with_code(64);
    assert_eq!(fed.stderr, refused.stderr);

    to_feed("gone.toml").with_code(0);
    let tried = check("gone.toml", &["--for", "feed", "--try"]).with_code(66);
    tried.says(&["channel `a`, epoch 0, object gone", "channel `b`, epoch 0, object in"]);
    let wrong = to_feed("wrong.toml").with_code(64);
    wrong.says(&["wrong.toml:2:", "wrong.toml:3:", "did you mean `epochs`", "2 things are wrong"]);
}
