//! `plugin new` and `plugin build`: from nothing to a plugin that passes, in each language; and the
//! messages if that fails.

use std::fs::{self, Permissions};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;
use std::process::Command;

use pipemill_tests::inputs::gzip;
use pipemill_tests::process::{Ended, Process};
use pipemill_tests::test_dir::TestDir;
use pipemill_tests::{pipemill, skip_test};

use super::{plugin, run};

/// Makes a project, builds it, tests it, decodes with it, as a newcomer does.
fn from_nothing(place: &TestDir, language: &str) {
    let next = plugin(place, &["new", "mine", "--lang", language]).with_code(0).text();
    assert!(next.contains("    pipemill plugin build mine\n"), "{next}");
    let test = next.lines().find(|line| line.contains("plugin test")).expect("how to test it");
    let built = plugin(place, &["build", "mine"]).with_code(0).text();
    // A plugin of megabytes has a note.
    let has_note = !["go", "python"].contains(&language) && built.contains("note:");
    assert!(!built.contains("warning") && !has_note, "{built}");
    let inspected = plugin(place, &["inspect", "mine/mine.wasm"]).with_code(0).text();
    assert!(inspected.contains("name       mine\n"), "{inspected}");
    if language == "rust" {
        assert!(inspected.contains("version    0.1.0\n"), "{inspected}");
        assert!(inspected.contains("about      A pipemill decoder: strings"), "{inspected}");
    }
    assert!(built.contains("mine/mine.wasm: a decoder for pipemill:decoder@0.1.0"), "{built}");
    if ["c", "cpp", "zig"].contains(&language) {
        // What is optional in the interface is not in a decoder that does not ask for it.
        let component = fs::read(place.path("mine/mine.wasm")).expect("it was built");
        let has = |words: &str| component.windows(words.len()).any(|it| it == words.as_bytes());
        assert!(has("pipemill:decoder/window@0.2.0") && !has("@0.3.0"), "{language}");
    }
    let words: Vec<_> = test.split_whitespace().skip(2).collect();
    let tested = plugin(place, &[&words[..], &["--cases", "100"]].concat()).with_code(0).text();
    assert!(tested.contains("records as expected: 4 compared"), "{tested}");
    assert!(tested.contains("no failure on damaged input"), "{tested}");
    let args = ["cat", "-d", "mine/mine.wasm", "-o", "text=true", "mine/data/greetings.pstr"];
    let printed = run(place, &args).with_code(0).text();
    let expected =
        fs::read_to_string(place.path("mine/data/greetings.jsonl")).expect("its records");
    assert_eq!(printed, expected.replace("data/", "mine/data/"));
}

/// Whether clang and its linker exist; if not, prints that a test is left out.
pub fn has_clang(test: &str) -> bool {
    let answer = Command::new("clang").arg("--print-prog-name=wasm-ld").output();
    let has = answer.is_ok_and(|answer| answer.stdout.contains(&b'/'));
    if !has {
        skip_test(test, "clang and lld");
    }
    has
}

/// Whether Zig's compiler exists, under one of its names; if not, prints that a test is left out.
pub fn has_zig(test: &str) -> bool {
    let has = ["zig", "python-zig"].iter().any(|name| answers(name, "version"));
    if !has {
        skip_test(test, "zig");
    }
    has
}

/// Whether Go's compiler exists; if not, prints that a test is left out.
pub fn has_go(test: &str) -> bool {
    let has = answers("go", "version");
    if !has {
        skip_test(test, "go");
    }
    has
}

fn answers(program: &str, arg: &str) -> bool {
    Command::new(program).arg(arg).output().is_ok_and(|answer| answer.status.success())
}

/// How many tests build plugins in Python, which takes minutes, and how many more of those in Go are
/// run, each of which takes a quarter of one.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Python {
    None,
    Once,
    All,
}

/// Whether at least this many are wanted; if not, prints that a test is left out.
pub fn wants_python(test: &str, least: Python) -> bool {
    let wanted = match std::env::var("PIPEMILL_TEST_PYTHON_PLUGINS").as_deref() {
        Err(_) | Ok("") => Python::None,
        Ok("once") => Python::Once,
        Ok(_) => Python::All,
    };
    if wanted < least {
        skip_test(test, "PIPEMILL_TEST_PYTHON_PLUGINS=1, and componentize-py on PATH");
    }
    wanted >= least
}

/// The results of an earlier run need not be compiled again.
pub fn keep_cache(place: &TestDir) {
    if let Some(kept) = std::env::var_os("PIPEMILL_TEST_KEPT") {
        let cache = Path::new(&kept).join("plugin-cache");
        fs::create_dir_all(&cache).expect("it may be written to");
        fs::set_permissions(&cache, Permissions::from_mode(0o700)).expect("it is ours");
        symlink(cache, place.path("cache")).expect("it is not there yet");
    }
}

#[test]
fn a_new_project_in_rust_works() {
    from_nothing(&TestDir::new(), "rust");
}

#[test]
fn a_new_project_in_c_works() {
    if has_clang("a_new_project_in_c_works") {
        from_nothing(&TestDir::new(), "c");
    }
}

#[test]
fn a_new_project_in_cpp_works() {
    if has_clang("a_new_project_in_cpp_works") {
        from_nothing(&TestDir::new(), "cpp");
    }
}

#[test]
fn a_new_project_in_zig_works() {
    if has_zig("a_new_project_in_zig_works") {
        from_nothing(&TestDir::new(), "zig");
    }
}

#[test]
fn a_new_project_in_go_works() {
    if has_go("a_new_project_in_go_works") {
        let place = TestDir::new();
        from_nothing(&place, "go");
        let inspected = plugin(&place, &["inspect", "mine/mine.wasm"]).with_code(0).text();
        assert!(!inspected.contains("wasi"), "{inspected}");
    }
}

/// A program in Go asks for files, a clock, randomness and its environment, and gets nothing. What it
/// prints is told.
#[test]
fn a_decoder_in_go_has_no_system() {
    if !has_go("a_decoder_in_go_has_no_system") {
        return;
    }
    let place = TestDir::new();
    plugin(&place, &["new", "mine", "--lang", "go"]).with_code(0);
    place.write("mine/decoder.go", include_str!("fixtures/go/system.go"));
    plugin(&place, &["build", "mine"]).with_code(0);
    place.write("data", "x");
    let cat = |what: &str| {
        let option = format!("do={what}");
        run(&place, &["cat", "-d", "mine/mine.wasm", "-o", &option, "data"])
    };
    let asked = cat("ask").with_code(0);
    let printed = asked.says(&[
        "decoder says: on standard output",
        "decoder says: on standard error, in two parts",
        "decoder says: no UTF-8: ? ? ??, but Gr\u{fc}ezi \u{3053} \u{1f600}",
    ]);
    let printed = String::from_utf8(printed.stdout).expect("JSON");
    let saw =
        "file false, folder false, environment 0, arguments 0, waited 1h0m0s, random 00000000";
    assert!(printed.contains(saw), "{printed}");
    // Twice, and in another process: the same.
    assert_eq!(cat("ask").with_code(0).text(), printed);
    cat("panic").with_code(65).says(&["the decoder failed: panic: on purpose"]);
    cat("nil").with_code(65).says(&["the decoder failed: panic: runtime error: invalid memory"]);
    cat("deadlock")
        .with_code(65)
        .says(&["the decoder failed: fatal error: all goroutines are asleep"]);
    cat("exit").with_code(65).says(&["decoder says: the last words", "the decoder failed"]);
    cat("memory").with_code(65).says(&["the decoder wanted", "raise `limits.memory`"]);
}

/// Code that clang compiles without a library of C++: classes, templates, static objects.
#[test]
fn a_decoder_in_cpp_works() {
    if !has_clang("a_decoder_in_cpp_works") {
        return;
    }
    let place = TestDir::new();
    plugin(&place, &["new", "mine", "--lang", "c"]).with_code(0);
    fs::remove_file(place.path("mine/src/decoder.c")).expect("it is there");
    place.write("mine/src/decoder.cpp", include_str!("fixtures/c/decoder.cpp"));
    let built = plugin(&place, &["build", "mine"]).with_code(0).text();
    assert!(!built.contains("warning"), "{built}");
    place.write("data", [[1, 2, 3, 4], [255; 4]].concat());
    let printed = run(&place, &["cat", "-d", "mine/mine.wasm", "data"]).with_code(0).text();
    // The static object is constructed once, before the decoder is prepared, which takes number 100.
    for fields in [r#"{"sum":10,"number":101}"#, r#"{"sum":1020,"number":102}"#] {
        assert!(printed.contains(fields), "{printed}");
    }
    let tested = plugin(&place, &["test", "mine/mine.wasm", "--data", "data", "--cases", "20"]);
    let tested = tested.with_code(0).text();
    for check in [
        "decoding can go on with what the decoder saves",
        "a copy of the prepared memory has the same records",
        "the parts of its plan have the same records",
    ] {
        assert!(tested.contains(check), "{check}: {tested}");
    }
    place.write("mine/src/decoder.cpp", "int missing(");
    let refused = plugin(&place, &["build", "mine"]).with_code(65);
    refused.says(&["src/decoder.cpp:1", "clang has refused it"]);
}

/// Text that goes nowhere is reported when the plugin is built.
#[test]
fn println_is_told() {
    let place = TestDir::new();
    plugin(&place, &["new", "mine", "--lang", "rust"]).with_code(0);
    let (from, to) = ("magic_seen: false", "magic_seen: { println!(\"{}\", 7); false }");
    let built = build_changed(&place, "mine/src/lib.rs", from, to).with_code(0).text();
    assert!(built.contains("note: uses println!"), "{built}");
    assert!(built.contains("`out.log(Level::Info, …)`"), "{built}");
}

#[test]
fn a_new_project_in_python_works() {
    if wants_python("a_new_project_in_python_works", Python::Once) {
        let place = TestDir::new();
        keep_cache(&place);
        from_nothing(&place, "python");
    }
}

/// Strings on both sides of each limit that UTF-8 has.
fn text_at_its_limits() -> Vec<u8> {
    let mut input = b"PSTR".to_vec();
    for first in
        [0x7f, 0xc1, 0xc2, 0xdf, 0xe0, 0xe1, 0xec, 0xed, 0xee, 0xef, 0xf0, 0xf1, 0xf4, 0xf5]
    {
        for second in [0x7f, 0x80, 0x8f, 0x90, 0x9f, 0xa0, 0xbf, 0xc0] {
            for (third, fourth) in
                [(0x7f, 0x80), (0x80, 0x7f), (0xbf, 0xbf), (0xbf, 0xc0), (b'a', b'b')]
            {
                for length in 1..=4 {
                    input.extend([length, 0]);
                    input.extend(&[first, second, third, fourth][..usize::from(length)]);
                }
            }
        }
    }
    input
}

/// The errors of an input, in the words of the decoders in different languages.
#[test]
fn the_templates_of_all_languages_say_the_same_of_bad_input() {
    let place = TestDir::new();
    let mut languages = vec!["rust"];
    let test = "the_templates_of_all_languages_say_the_same_of_bad_input";
    if has_clang(test) {
        languages.extend(["c", "cpp"]);
    }
    languages.extend(has_zig(test).then_some("zig"));
    languages.extend((wants_python(test, Python::All) && has_go(test)).then_some("go"));
    languages.extend(wants_python(test, Python::All).then_some("python"));
    let long = [b"PSTR\xff\xff".as_slice(), &[b'x'; 65_535]].concat();
    let text = text_at_its_limits();
    let inputs: [&[u8]; 10] = [
        b"",
        b"PST",
        b"PSTX",
        b"PSTR\x05\0Hell",
        b"PSTR\x01\0a\x02\0\xc3\x28\x01\0b\x03\0\xe3\x81",
        b"PSTR\x04\0\xf0\x9f\x98\x80\x04\0\xf4\x90\x80\x80\x03\0\xed\xa0\x80\x02\0\xc0\x80",
        b"PSTR\x0b\0long enough\x0d\0 to be eight\xff\x02\0\xc2\x7f",
        b"PSTR\x00",
        &long,
        &text,
    ];
    let mut said: Vec<Vec<_>> = Vec::new();
    for language in languages {
        plugin(&place, &["new", language, "--lang", language]).with_code(0);
        plugin(&place, &["build", language, "--out", "it.wasm"]).with_code(0);
        let of = |input: &&[u8]| {
            place.write("data", input);
            let args = ["cat", "-d", "./it.wasm", "-o", "text=true", "--max-record", "60KiB"];
            let strict = run(&place, &[&args[..], &["data"]].concat());
            let skips = [
                "--on-error",
                "quarantine",
                "--quarantine",
                "bad",
                "--max-errors",
                "99999",
                "data",
            ];
            let skipped = run(&place, &[&args[..], &skips].concat());
            let bad = fs::read_to_string(place.path("bad")).unwrap_or_default();
            let _ = fs::remove_file(place.path("bad"));
            let errors = |ended: &Ended| {
                let lines =
                    ended.stderr.lines().filter(|line| line.starts_with("pipemill: channel"));
                lines.map(str::to_owned).collect::<Vec<_>>()
            };
            (strict.text(), errors(&strict), skipped.text(), bad)
        };
        said.push(inputs.iter().map(of).collect());
    }
    for other in &said[1..] {
        assert_eq!(*other, said[0]);
    }
    let (_, _, good, bad) = said[0].last().expect("one an input");
    assert!(good.lines().count() > 100 && bad.lines().count() > 1_000, "{good}{bad}");
    let all = format!("{said:?}");
    for words in
        ["expected the magic", "expected UTF-8, which ends at byte", "larger than max_record"]
    {
        assert!(all.contains(words), "{words:?} in {all}");
    }
}

/// Memory that a call in C took is freed: the limit is 134 MiB, the input 160.
#[test]
fn a_decoder_in_c_gives_its_memory_back() {
    if !has_clang("a_decoder_in_c_gives_its_memory_back") {
        return;
    }
    let place = TestDir::new();
    plugin(&place, &["new", "mine", "--lang", "c"]).with_code(0);
    // Errors happen on the way, and fields are copied.
    let source = fs::read_to_string(place.path("mine/src/decoder.c")).expect("it is there");
    let source = source.replace(
        "pm_span(place, start, end);",
        "pm_field_bytes(pm_format(\"%.*s\", (int)length, (const char *)at + start), length);\n\
         pm_end_record(place);",
    );
    assert!(source.contains("pm_field_bytes"));
    place.write("mine/src/decoder.c", source);
    plugin(&place, &["build", "mine"]).with_code(0);
    let record = [&[0, 4][..], &[b'x'; 1024]].concat();
    let count = (160 << 20) / record.len();
    place.write("data.gz", gzip(&[b"PSTR".as_slice(), &record.repeat(count)].concat()));
    let args =
        ["cat", "-d", "mine/mine.wasm", "--max-record", "1MiB", "--output", "count", "data.gz"];
    let counted = run(&place, &args).with_code(0).text();
    assert_eq!(counted, format!("records={count} bytes={}\n", count * 1024));
}

#[test]
fn a_decoder_in_c_can_use_all_of_the_header() {
    if has_clang("a_decoder_in_c_can_use_all_of_the_header") {
        let names = ["pm_absent", "pm_decompress"];
        can_use_all("c", "src/decoder.c", include_str!("fixtures/c/decoder.c"), names);
    }
}

#[test]
fn a_decoder_in_zig_can_use_all_of_the_module() {
    if has_zig("a_decoder_in_zig_can_use_all_of_the_module") {
        let names = ["pm_absent", "pm_decompress"];
        can_use_all("zig", "src/decoder.zig", include_str!("fixtures/zig/decoder.zig"), names);
    }
}

#[test]
fn a_decoder_in_go_can_use_all_of_the_package() {
    if has_go("a_decoder_in_go_can_use_all_of_the_package") {
        let names = ["Absent", "Decompress"];
        can_use_all("go", "decoder.go", include_str!("fixtures/go/decoder.go"), names);
    }
}

/// The parts of an SDK that the template does not use. The language has these names for the calls of
/// the host that add an absent field and that decompress.
fn can_use_all(language: &str, file: &str, source: &str, [absent, decompress]: [&str; 2]) {
    let place = TestDir::new();
    plugin(&place, &["new", "mine", "--lang", language]).with_code(0);
    place.write(&format!("mine/{file}"), source);
    plugin(&place, &["build", "mine"]).with_code(0);
    let record = |text: &[u8]| {
        let crc = crc_fast::crc32_iscsi(text).to_le_bytes();
        [b"R", &crc[..], &[text.len() as u8], text].concat()
    };
    place.write("data", [record(b"ab"), record(b""), record(&[7; 255])].concat());
    place.write(
        "expected",
        "{\"fields\":{\"text\":{\"base64\":\"YWI=\"},\"loud\":[97,98]}}\n{}\n{}\n",
    );
    let file = "mine/mine.wasm";
    let test = ["test", file, "--data", "data", "--expect", "expected", "--cases", "200"];
    plugin(&place, &test).with_code(0);
    // The fields are more than the spans that are gathered, and the bytes more than a payload has.
    let wide =
        ["test", file, "--data", "data", "-o", "wide=5000", "-o", "times=70", "--time", "500ms"];
    plugin(&place, &wide).with_code(0);
    let mut damaged = [record(b"ab"), b"rubbish".to_vec(), record(b"cd"), record(b"ef")].concat();
    damaged[6] ^= 1;
    place.write("data", damaged);
    let args =
        ["cat", "-d", file, "--on-error", "skip", "--output", "raw", "-o", "say=hello", "data"];
    let passed_over = run(&place, &args).with_code(0).says(&["wrong checksum", "says: hello"]);
    assert_eq!(passed_over.stdout, b"cdc\0\0\0d\0\0\0efe\0\0\0f\0\0\0");
    // A field of each type, a bad byte that the decoder goes on after, and a compressed block: the
    // texts `cde` and a hundred empty ones, decompressed in parts of 300 bytes.
    let block = b"Z\xc1\xb4\xd3T\x1a\0\0\0x\x9c\x0bJ\xb8\xede\xc6\x9c\x9c\x92\x1a\xc4\0\x02\
                  \xa3\xe4(I]\x12\0\x94'#E";
    place.write("data", [&record(b"ab")[..], b"B", block].concat());
    let all =
        ["-o", "all=true", "-o", "words=x, yy", "-o", "part=300", "--on-error", "skip", "data"];
    let printed = run(&place, &[&["cat", "-d", file][..], &all].concat()).with_code(0);
    let printed = printed.says(&["skipped 1 bytes", "byte offset 8", "found B"]).stdout;
    let printed = String::from_utf8(printed).expect("JSON");
    assert_eq!(printed.lines().count(), 102);
    for fields in [
        r#""loud":[99,100,101],"bool":true,"i8":-1,"i16":-3,"i32":-3,"i64":-3,"u8":"zero","u16":3"#,
        r#""u32":3,"u64":3,"f32":1.5,"f64":0.75,"i8s":[-1,1],"i16s":[-2,2],"i32s":[-3,3]"#,
        r#""i64s":[-4,4],"u8s":[5,250],"u16s":[6],"u32s":[7,8,9],"u64s":[10],"f32s":[0.5,-0.5]"#,
        r#""f64s":[0.25],"words":["x","yy"],"note":"3 bytes"}"#,
    ] {
        assert!(printed.contains(fields), "{fields} in {printed}");
    }
    for (fault, says) in [
        ("absent", "field `text` is absent, but it is not declared nullable"),
        ("missing", &format!("ended after 1 of its 2 fields: `loud` is missing; call {absent}")),
        ("twice", "the schema was set twice"),
        ("inside", &format!("{decompress} was called inside a record")),
    ] {
        let args = ["cat", "-d", file, "-o", &format!("fault={fault}"), "data"];
        run(&place, &args).with_code(65).says(&[says]);
    }
    run(&place, &["cat", "-d", file, "-o", "say=bye", "data"])
        .with_code(64)
        .says(&["bye cat, 7% c -12 00034 00ab"]);
}

#[test]
fn folders_and_names_that_can_not_be_used_are_refused() {
    let place = TestDir::new();
    place.write("full/data", "");
    place.make_folder("empty");
    plugin(&place, &["new", "empty", "--lang", "c"]).with_code(0);
    for (args, says) in [
        (["full", "c"], "full is there, and not empty; take another name"),
        (["empty", "rust"], "empty is there, and not empty"),
        (["full/data", "c"], "full/data is there, but no folder"),
        (["Mine", "c"], "lower-case letters, digits, `-` and `_`"),
        (["..", "c"], "can't be called \"..\""),
        (["match", "rust"], "`match-format` will do"),
    ] {
        plugin(&place, &["new", args[0], "--lang", args[1]]).with_code(64).says(&[says]);
    }
    let no_sdk = ["new", "mine", "--lang", "rust", "--sdk", "nowhere"];
    plugin(&place, &no_sdk).with_code(64).says(&["there is no crate in nowhere"]);
    let no_rust = ["new", "mine", "--lang", "c", "--sdk", "0.1"];
    plugin(&place, &no_rust).with_code(64).says(&["--sdk is for Rust"]);
    for (lang, wrap, says) in [
        ("c", "lines", "--wrap is for Rust"),
        ("rust", "orc", "there is no built-in decoder `orc`; there are array-record, arrow, "),
    ] {
        let new = ["new", "mine", "--lang", lang, "--wrap", wrap];
        plugin(&place, &new).with_code(64).says(&[says]);
    }
    let elsewhere = ["new", "mine", "--lang", "rust", "--wrap", "lines", "--sdk"];
    place.write("sdk/Cargo.toml", "");
    plugin(&place, &[&elsewhere[..], &["sdk"]].concat())
        .with_code(64)
        .says(&["expected the crate of `lines` in ", "next to the SDK"]);
    assert!(!place.path("mine").exists());
}

#[test]
fn a_folder_without_project_or_compiler_is_told() {
    let place = TestDir::new();
    place.make_folder("empty");
    plugin(&place, &["build", "nowhere"]).with_code(66).says(&["nowhere can't be opened"]);
    let none = plugin(&place, &["build", "empty"]).with_code(65);
    none.says(&["neither Cargo.toml (Rust)", "pipemill plugin new NAME"]);
    for (language, remedies) in [
        ("rust", ["`rustc` is not on PATH", "https://rustup.rs"]),
        ("c", ["`clang` is not on PATH", "apt-get install clang lld"]),
        ("cpp", ["`clang` is not on PATH", "apt-get install clang lld"]),
        ("zig", ["`zig` is not on PATH", "pip install ziglang"]),
        ("go", ["`go` is not on PATH", "https://go.dev/dl"]),
        ("python", ["`componentize-py` is not on PATH", ".venv/bin/pip install"]),
    ] {
        plugin(&place, &["new", language, "--lang", language]).with_code(0);
        let mut build = Command::new(pipemill!());
        build.current_dir(place.folder()).args(["plugin", "build", language]).env("PATH", "");
        Process::start(&mut build).wait().with_code(71).says(&remedies);
    }
}

/// Changes a project's file and builds it.
fn build_changed(place: &TestDir, file: &str, from: &str, to: &str) -> Ended {
    let folder = file.split('/').next().expect("a path");
    let text = fs::read_to_string(place.path(file)).expect(file);
    assert!(text.contains(from), "{file}");
    place.write(file, text.replace(from, to));
    let built = plugin(place, &["build", folder]);
    place.write(file, text);
    let made = place.path(&format!("{folder}/{folder}.wasm")).exists();
    assert_eq!(made, built.code == Some(0), "{built:#?}");
    built
}

/// A template must not rely on short lengths: with lengths of 32 bits it passes too.
fn passes_with_longer_lengths(language: &str, source: &str, changes: &[(&str, &str)]) {
    let place = TestDir::new();
    if language == "python" {
        keep_cache(&place);
    }
    let mut input = b"PSTR".to_vec();
    for size in [5, 0, 70_000, 3] {
        input.extend((size as u32).to_le_bytes());
        input.extend(vec![b'x'; size]);
    }
    place.write("data", &input);
    plugin(&place, &["new", "mine", "--lang", language]).with_code(0);
    let source = format!("mine/{source}");
    let mut text = fs::read_to_string(place.path(&source)).expect("its source");
    for (from, to) in changes {
        assert!(text.contains(from), "{source}: {from}");
        text = text.replace(from, to);
    }
    place.write(&source, text);
    plugin(&place, &["build", "mine"]).with_code(0);
    let test = ["test", "mine/mine.wasm", "--data", "data", "--cases", "100"];
    plugin(&place, &test).with_code(0);
    // A length of 4 GiB is an error at once.
    place.write("long", b"PSTR\xff\xff\xff\xff");
    let ended = run(&place, &["cat", "-d", "mine/mine.wasm", "--max-record", "1MiB", "long"]);
    ended.with_code(65).says(&["a string of 4294967295 bytes", "max_record (1048576)"]);
}

#[test]
fn the_template_in_rust_passes_with_longer_lengths() {
    let changes = [("usize = 2", "usize = 4"), ("u16::from", "u32::from")];
    passes_with_longer_lengths("rust", "src/lib.rs", &changes);
}

#[test]
fn the_template_in_c_passes_with_longer_lengths() {
    if has_clang("the_template_in_c_passes_with_longer_lengths") {
        let changes = [("uint16_t length", "uint32_t length")];
        passes_with_longer_lengths("c", "src/decoder.c", &changes);
    }
}

#[test]
fn the_template_in_cpp_passes_with_longer_lengths() {
    if has_clang("the_template_in_cpp_passes_with_longer_lengths") {
        let changes = [("length_type = uint16_t", "length_type = uint32_t")];
        passes_with_longer_lengths("cpp", "src/decoder.cpp", &changes);
    }
}

#[test]
fn the_template_in_zig_passes_with_longer_lengths() {
    if has_zig("the_template_in_zig_passes_with_longer_lengths") {
        let changes = [("const Length = u16", "const Length = u32")];
        passes_with_longer_lengths("zig", "src/decoder.zig", &changes);
    }
}

#[test]
fn the_template_in_go_passes_with_longer_lengths() {
    let test = "the_template_in_go_passes_with_longer_lengths";
    if wants_python(test, Python::All) && has_go(test) {
        let changes = [("lengthBytes = 2", "lengthBytes = 4"), ("Endian.Uint16", "Endian.Uint32")];
        passes_with_longer_lengths("go", "decoder.go", &changes);
    }
}

#[test]
fn the_template_in_python_passes_with_longer_lengths() {
    if wants_python("the_template_in_python_passes_with_longer_lengths", Python::All) {
        passes_with_longer_lengths("python", "decoder.py", &[("LENGTH = 2", "LENGTH = 4")]);
    }
}

/// A decoder that wraps a built-in one passes as that one does.
#[test]
fn a_new_project_that_wraps_a_decoder_works() {
    let place = TestDir::new();
    let sdk = concat!(env!("CARGO_MANIFEST_DIR"), "/../plugins/sdk");
    let new = ["new", "mine", "--lang", "rust", "--wrap", "length-prefixed", "--sdk", sdk];
    let next = plugin(&place, &new).with_code(0).text();
    assert!(next.contains("pipemill plugin test mine/mine.wasm --data FILE\n"), "{next}");
    plugin(&place, &["build", "mine"]).with_code(0);
    // With lengths of 32 and of 16 bits.
    let data = place.path("mine/data/greetings.bin");
    let long = fs::read(&data).expect("test data");
    let mut short = Vec::new();
    let mut rest = &long[..];
    while let Some((length, after)) = rest.split_first_chunk::<4>() {
        let (text, next) = after.split_at(u32::from_le_bytes(*length) as usize);
        short.extend([&(text.len() as u16).to_le_bytes(), text].concat());
        rest = next;
    }
    place.write("short", short);
    for (prefix, file) in [("u32le", data.to_str().expect("UTF-8")), ("u16le", "short")] {
        let option = format!("prefix={prefix}");
        let args = ["mine/mine.wasm", "-o", &option];
        let test = [&["test"], &args[..], &["--data", file, "--cases", "100"]].concat();
        plugin(&place, &test).with_code(0);
        let printed =
            run(&place, &[&["cat", "-d"], &args[..], &[file]].concat()).with_code(0).text();
        let fields: Vec<_> =
            printed.lines().filter_map(|line| line.split("\"fields\":").nth(1)).collect();
        assert_eq!(fields[0], "{\"data\":{\"base64\":\"SGVsbG8=\"},\"size\":5}}");
        assert_eq!(fields.len(), 4);
    }
}

#[test]
fn what_a_compiler_refuses_is_shown() {
    let place = TestDir::new();
    plugin(&place, &["new", "r", "--lang", "rust"]).with_code(0);
    let refused = build_changed(&place, "r/src/lib.rs", "magic_seen: false", "magic_seen: 0");
    refused.with_code(65).says(&["error[E0308]", "src/lib.rs:", "cargo has refused it, see above"]);
    let unnamed = build_changed(&place, "r/src/lib.rs", "pipemill_plugin::export!(Strings);", "");
    unnamed.with_code(65).says(&["exports no `pipemill:decoder/decoder@0.1.0`"]);
    let library = build_changed(&place, "r/Cargo.toml", "\"cdylib\", ", "");
    library.with_code(65).says(&["needs `crate-type = [\"cdylib\", \"rlib\"]`"]);
    if !has_clang("what_a_compiler_refuses_is_shown") {
        return;
    }
    plugin(&place, &["new", "c", "--lang", "c"]).with_code(0);
    let refused =
        build_changed(&place, "c/src/decoder.c", "max_record = info", "max_recort = info");
    refused
        .with_code(65)
        .says(&["use of undeclared identifier 'max_recort'", "clang has refused it"]);
    let forgotten =
        build_changed(&place, "c/src/decoder.c", "pm_resynced pm_resync", "pm_resynced other");
    forgotten.with_code(65).says(&["undefined symbol: pm_resync", "clang has refused it"]);
    let export = build_changed(&place, "c/src/pipemill.c", "EXPORT(DECODER \"#options\")", "");
    export.with_code(65).says(&["what was compiled is not a decoder", "function `options`"]);
}

/// Zig and Go show what their compilers refuse, and the bugs that the checks of Zig find.
#[test]
fn what_zig_and_go_refuse_is_shown() {
    let place = TestDir::new();
    let test = "what_zig_and_go_refuse_is_shown";
    if has_zig(test) {
        plugin(&place, &["new", "z", "--lang", "zig"]).with_code(0);
        let file = "z/src/decoder.zig";
        build_changed(&place, file, "info.max_record;", "info.max_recort;").with_code(65).says(&[
            "src/decoder.zig:",
            "max_recort",
            "zig has refused it",
        ]);
        let bug = ("pm.span(place, start, @intCast(end));", "_ = bytes[bytes.len..][0];");
        build_changed(&place, file, bug.0, bug.1).with_code(0);
        run(&place, &["cat", "-d", "z/z.wasm", "z/data/greetings.pstr"])
            .with_code(65)
            .says(&["the decoder failed: index out of bounds"]);
    }
    if has_go(test) {
        plugin(&place, &["new", "g", "--lang", "go"]).with_code(0);
        build_changed(&place, "g/decoder.go", "info.MaxRecord", "info.MaxRecort")
            .with_code(65)
            .says(&["decoder.go:", "MaxRecort", "go has refused it"]);
    }
}

#[test]
fn a_plugin_with_a_wrong_declaration_is_not_written() {
    if !has_clang("a_plugin_with_a_wrong_declaration_is_not_written") {
        return;
    }
    let place = TestDir::new();
    plugin(&place, &["new", "c", "--lang", "c"]).with_code(0);
    let wrong = build_changed(&place, "c/src/decoder.c", "\"bool\"", "\"boolean\"").with_code(65);
    assert!(wrong.text().contains("wrong: option `text`: its kind is \"boolean\""), "{wrong:?}");
    let unknown =
        build_changed(&place, "c/src/decoder.c", "pm_is_on(\"text\")", "pm_is_on(\"txet\")");
    let output = unknown.with_code(65).text();
    assert!(
        output.contains("wrong: the decoder failed")
            && output.contains("does not declare the option `txet`"),
        "{output}"
    );
}
