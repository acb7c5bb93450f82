//! `plugin test` finds what is wrong with a plugin, shrinks the input that shows it, and prints a
//! command that shows it again. The built-in decoders pass.

use std::process::Command;

use pipemill_tests::BAD_PLUGIN;
use pipemill_tests::process::Process;
use pipemill_tests::test_dir::TestDir;

use super::new::keep_cache;
use super::{COMPILING, plugin, run};

/// 40 letters.
const LETTERS: &str = "abcdefghijklmnopqrstabcdefghijklmnopqrst";

/// Files that the formats' own writers made.
const FIXTURES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../plugins");

/// Tests a built-in decoder with a fixture of its own.
#[track_caller]
fn passes(decoder: &str, options: &[&str], file: &str, cases: &str) {
    let report = passes_with_heads(decoder, options, file, cases);
    assert!(!report.contains("begins at"), "{report}");
}

/// The same, of a format whose records have a head for several of them. The first one may begin after
/// it. Returns the report.
#[track_caller]
fn passes_with_heads(decoder: &str, options: &[&str], file: &str, cases: &str) -> String {
    let place = TestDir::new();
    let data = format!("{FIXTURES}/{file}");
    let options: Vec<_> = options.iter().flat_map(|option| ["-o", option]).collect();
    let args = [&["test", decoder, "--data", &data, "--cases", cases], &options[..]].concat();
    let report = plugin(&place, &args).with_code(0).text();
    for check in [
        "the data as it is",
        "in any pieces",
        "cut off",
        "begin where they are said to",
        "no bytes vanish",
        "`need` is true",
        "only records above max_record",
        "damaged input",
        "little is lost after an error",
    ] {
        assert!(report.contains(check), "{report}");
    }
    assert!(!report.contains("swallowed:"), "{args:?}: {report}");
    let is_checked = report.contains("decoding can begin again where the decoder says");
    // Archives and files with their directory at the end are read as a whole, unless they have a plan.
    let is_whole = ["npz", "parquet"].contains(&decoder) && !report.contains("of its plan");
    assert_eq!(is_checked, !is_whole, "{args:?}: {report}");
    report
}

#[test]
fn csv_passes() {
    for (options, file) in [
        (&["header=true"][..], "pandas-minimal.csv"),
        (&["header=true", "columns=1"], "pandas-all.csv"),
        (&["header=true", "emit=dense", "empty=nan"], "pandas-dense.csv"),
        (&["emit=row"], "python-excel.csv"),
        // Line breaks in quotes: without one of the quotes, a row ends sooner or later.
        (&[], "python-excel.csv"),
    ] {
        passes("csv", options, &format!("csv/tests/fixtures/{file}"), "150");
    }
}

#[test]
fn text_decoders_pass() {
    passes("jsonl", &[], "jsonl/tests/fixtures/nasty.jsonl", "150");
    passes("jsonl", &["validate=false"], "jsonl/tests/fixtures/nasty.jsonl", "50");
    passes("lines", &["utf8=true"], "jsonl/tests/fixtures/nasty.jsonl", "100");
    passes("lines", &["skip_blank=true"], "csv/tests/fixtures/README.md", "200");
}

#[test]
fn decoders_of_framed_records_pass() {
    passes("fixed", &["size=12"], "fixed/tests/fixtures/pairs.bin", "200");
    let npy = &["header=128", "type=float32", "shape=2,3"];
    passes("fixed", npy, "fixed/tests/fixtures/images.npy", "200");
    let delimited = "length-prefixed/tests/fixtures/delimited.pb";
    passes("length-prefixed", &["prefix=varint"], delimited, "100");
    let rows = "msgpack/tests/fixtures/rows.msgpack";
    passes("msgpack", &[], rows, "200");
    passes("msgpack", &["fields=id=0:int64,x=1:float32,name=2:utf8"], rows, "200");
    passes("recordio", &[], "recordio/tests/fixtures/raw.rec", "200");
    passes("tfrecord", &[], "tfrecord/tests/fixtures/plain.tfrecord", "200");
    passes("tfrecord", &["verify=false"], "tfrecord/tests/fixtures/plain.tfrecord", "100");
    let group = &["attributes=image-ref,label"];
    passes("augmented-manifest", group, "recordio/tests/fixtures/images.rec", "200");
}

#[test]
fn decoders_of_fields_in_framed_records_pass() {
    let features = &["features=name:utf8?,score:float32?"];
    passes("tf-example", features, "tf-example/tests/fixtures/examples.tfrecord", "150");
    passes("recordio-protobuf", &[], "recordio-protobuf/tests/fixtures/float32.rec", "200");
    passes("recordio-protobuf", &[], "recordio-protobuf/tests/fixtures/sparse.rec", "200");
    let members = &["fields=jpg?,json?,cls?"];
    passes("webdataset", members, "webdataset/tests/fixtures/gnu-v7.tar", "100");
    passes("webdataset", members, "webdataset/tests/fixtures/writer.tar", "100");
}

#[test]
fn decoders_of_arrays_pass() {
    for file in ["several", "structured", "unicode", "images"] {
        passes_with_heads("npy", &[], &format!("npy/tests/fixtures/{file}.npy"), "200");
    }
    passes_with_heads("npz", &["array=x"], "npz/tests/fixtures/two-stored-file.npz", "150");
    passes_with_heads("npz", &["array=x"], "npz/tests/fixtures/two-deflated-file.npz", "150");
    let arrays = &["fields=image:uint8[4,5,3],label:int64,name"];
    passes_with_heads("npz", arrays, "npz/tests/fixtures/sample-stored-pipe.npz", "100");
    passes("tokens", &["length=9"], "tokens/tests/fixtures/train.bin", "200");
    let header = &["length=9", "format=llm.c"];
    passes("tokens", header, "tokens/tests/fixtures/gpt2.bin", "200");
    for (file, options) in [("values", &[][..]), ("pictures", &["columns=pngs,label"])] {
        passes_with_heads("mds", options, &format!("mds/tests/fixtures/{file}.mds"), "100");
    }
    for options in [&[][..], &["records=document"], &["length=9", "tail=drop"]] {
        passes_with_heads("megatron", options, "megatron/tests/fixtures/int32.bin", "100");
    }
}

#[test]
fn decoders_of_columns_pass() {
    for file in ["none", "gzip", "snappy", "zstd", "lz4", "brotli", "v2"] {
        passes_with_heads(
            "parquet",
            &[],
            &format!("parquet/tests/fixtures/rows-{file}.parquet"),
            "60",
        );
    }
    for (options, cases) in [(&[][..], "40"), (&["columns=user.noise,small"], "60")] {
        let report =
            passes_with_heads("parquet", options, "parquet/tests/fixtures/groups.parquet", cases);
        assert!(report.contains("the parts of its plan have the same records"), "{report}");
    }
    let columns = &["columns=vector,tags"];
    passes_with_heads("parquet", columns, "parquet/tests/fixtures/rows-none.parquet", "60");
}

#[test]
fn decoders_of_batches_pass() {
    for file in ["rows-none.arrows", "rows-zstd.arrows", "rows-file.arrow", "words.arrows"] {
        passes_with_heads("arrow", &[], &format!("arrow/tests/fixtures/{file}"), "60");
    }
    let columns = &["columns=vector,tags"];
    passes_with_heads("arrow", columns, "arrow/tests/fixtures/rows-lz4.arrows", "60");
}

#[test]
fn decoders_of_blocks_pass() {
    let fields = &["fields=boolean,int,string,kind,first,second,strings,date"];
    for codec in ["null", "deflate", "snappy", "zstandard"] {
        passes_with_heads(
            "avro",
            fields,
            &format!("avro/tests/fixtures/fastavro-{codec}.avro"),
            "50",
        );
    }
    for codec in ["none", "zstd", "brotli", "snappy"] {
        let file = format!("array-record/tests/fixtures/{codec}.riegeli");
        passes_with_heads("array-record", &[], &file, "60");
    }
    passes_with_heads("avro", &[], "avro/tests/fixtures/many-blocks.avro", "50");
    passes_with_heads("avro", &[], "avro/tests/fixtures/large-block.avro", "10");
}

/// `make mutants` tries the mistakes of all decoders. It takes minutes.
#[test]
fn mistakes_in_a_built_in_decoder_are_found() {
    let mut mutants = Command::new(env!("CARGO_BIN_EXE_mutants"));
    mutants.arg("lines").env("PIPEMILL", pipemill_tests::pipemill!());
    let report = Process::start(&mut mutants).wait_for(COMPILING).with_code(0).text();
    assert!(report.contains("7 of 7 mistakes are found"), "{report}");
}

/// A folder for tests of the decoder that misbehaves, which is compiled once for all of them.
fn kept() -> TestDir {
    let place = TestDir::new();
    keep_cache(&place);
    place
}

/// Tests the decoder that misbehaves, then repeats what the report says; gives both reports.
fn found(misdeed: &str, input: impl AsRef<[u8]>) -> (String, String) {
    let place = kept();
    place.write("data", input);
    let option = format!("do={misdeed}");
    let cases = ["--cases", "500"];
    let args = [&["test", BAD_PLUGIN, "-o", &option, "--data", "data"][..], &cases].concat();
    let tested = plugin(&place, &args);
    let report = tested.with_code(65).text();
    let again = report.lines().map(str::trim).find(|line| line.starts_with("pipemill plugin test"));
    let Some(again) = again else { return (report, String::new()) };
    let pipemill = pipemill_tests::pipemill!();
    let mut shell = Command::new("sh");
    shell.arg("-c").arg(again.replacen("pipemill", "\"$PIPEMILL\"", 1)).env("PIPEMILL", pipemill);
    shell.env("PIPEMILL_CACHE", place.path("cache"));
    let repeated = Process::start(shell.current_dir(place.folder())).wait().with_code(65);
    (report, repeated.text())
}

#[track_caller]
fn is_found(misdeed: &str, input: impl AsRef<[u8]>, says: &str) {
    let (report, again) = found(misdeed, input);
    assert!(report.contains(says), "{misdeed}: {report}");
    assert!(again.contains(says), "{misdeed}, repeated: {again}\n{report}");
}

#[test]
fn a_decoder_that_depends_on_the_pieces_is_found() {
    is_found("record-a-chunk", LETTERS, "in pieces it gives something else");
}

#[test]
fn offsets_of_16_bits_are_found_with_a_small_file() {
    is_found("framed-short-offsets", framed(&SIZES), "in pieces it gives something else: record ");
}

#[test]
fn a_record_invented_at_a_cut_is_found() {
    is_found("invent-at-end", LETTERS, "that the whole input does not have");
}

#[test]
fn a_record_lost_with_the_end_is_found() {
    is_found(
        "forget-at-end",
        LETTERS,
        "shown together with its end, the input gives something else",
    );
}

/// Framed records, as `bad-plugins/src/framed.rs` reads them, of these sizes.
fn framed(sizes: &[u8]) -> Vec<u8> {
    let mut input = Vec::new();
    for (number, size) in (0u8..).zip(sizes) {
        let byte = |at: u8| (number.wrapping_mul(31) ^ at.wrapping_mul(7)) & 0x7f;
        let payload: Vec<u8> = (0..*size).map(byte).collect();
        let sum = payload.iter().fold(0u8, |sum, byte| sum.wrapping_add(*byte));
        input.extend([&[0xa5, *size, 0], &payload[..], &[sum]].concat());
    }
    input
}

/// Records of many sizes.
const SIZES: [u8; 12] = [9, 5, 12, 30, 7, 21, 0, 40, 16, 5, 33, 12];

/// Tests the decoder of framed records.
fn framed_report(mistake: &str, args: &[&str], code: i32) -> String {
    let place = kept();
    place.write("data", framed(&SIZES));
    let option = format!("do={mistake}");
    let cases = ["test", BAD_PLUGIN, "-o", &option, "--data", "data", "--cases", "300"];
    plugin(&place, &[&cases[..], args].concat()).with_code(code).text()
}

#[test]
fn a_sound_decoder_of_framed_records_passes() {
    let report = framed_report("framed", &["--strict-end"], 0);
    // It makes plans of other inputs.
    assert!(report.contains("the plugin shows this input whole"), "{report}");
    assert_eq!(report.matches("note").count(), 1, "{report}");
    assert!(report.contains("12 of 12 records; decoding can begin at 11 of them"), "{report}");
    assert!(report.contains("the largest has 40; tried [40, 39, 20, 41]"), "{report}");
}

#[test]
fn where_decoding_can_begin_again_is_checked() {
    let report = framed_report("framed-restart", &["--strict-end"], 0);
    assert!(report.contains("decoding can begin again where the decoder says"), "{report}");
    assert!(report.contains("places, after the first 0 bytes of the input"), "{report}");
    let report = framed_report("framed", &[], 0);
    assert!(!report.contains("decoding can begin again where"), "{report}");
}

#[test]
fn a_decoder_that_cannot_begin_again_where_it_says_is_found() {
    is_found("framed-restart-in-record", framed(&SIZES), "decoding can't begin again at byte ");
    is_found("framed-restart-with-state", framed(&SIZES), "decoding can't begin again at byte ");
}

#[test]
fn what_a_decoder_saves_is_checked() {
    // A record that is lost changes the numbers of all later ones, which is found after this check.
    let report = framed_report("framed-carry", &["--strict-end"], 65);
    assert!(report.contains("decoding can go on with what the decoder saves"), "{report}");
    assert!(report.contains("places, with at most 17 bytes"), "{report}");
    for (misdeed, says) in [
        ("framed-carry-lies", "decoding can't go on at byte "),
        ("framed-carry-counts", "`save` changes what the decoder does"),
    ] {
        is_found(misdeed, framed(&SIZES), says);
    }
}

#[test]
fn a_swallowed_tail_is_found() {
    let says = "a truncated tail is swallowed: cut off after";
    is_found("framed-swallow-tail", framed(&SIZES), says);
    is_found("framed-swallow-header", framed(&SIZES), says);
}

#[test]
fn a_cut_inside_a_record_is_found() {
    is_found("framed-error-at-cut", framed(&SIZES), "in pieces it gives something else: record 0");
    is_found("framed-part-at-cut", framed(&SIZES), "gives something else: record 0 is");
}

#[test]
fn a_wrong_place_to_go_on_at_is_found() {
    for (mistake, says) in [
        ("framed-resume-late", "1 bytes after the start of a record"),
        ("framed-resume-early", "1 bytes before the start of a record"),
        ("framed-found-late", "1 bytes after the start of a record"),
    ] {
        let (report, again) = found(mistake, framed(&SIZES));
        for report in [report, again] {
            assert!(report.contains("the place to go on at is wrong: byte "), "{report}");
            assert!(report.contains(says), "{mistake}: {report}");
        }
    }
}

#[test]
fn too_much_loss_is_found() {
    for mistake in ["framed-finds-nothing", "framed-search-far", "framed-resume-far"] {
        is_found(mistake, framed(&SIZES), "too much is lost after an error: byte ");
    }
}

#[test]
fn wrong_starts_are_found() {
    is_found(
        "framed-start-late",
        framed(&SIZES),
        "a start is late, or without its framing: record",
    );
    // Sizes that are all the same show less.
    is_found(
        "framed-start-late",
        framed(&[7; 8]),
        "a start is late, or without its framing: record",
    );
    is_found("framed-start-at-end", framed(&SIZES), "a start is late: record");
    is_found("framed-start-early", framed(&SIZES), "from byte");
}

#[test]
fn emission_beyond_an_error_is_found() {
    is_found("framed-emit-beyond", framed(&SIZES), "emission beyond an error: record");
    is_found("framed-emit-bad", framed(&SIZES), "emission beyond an error: record");
}

#[test]
fn a_need_that_is_too_large_is_found_and_none_is_noted() {
    is_found("framed-need-more", framed(&SIZES), "`need` is over-claimed: at byte 0");
    let report = framed_report("framed-need-none", &[], 0);
    assert!(report.contains("note  each byte is shown "), "{report}");
}

#[test]
fn skipped_garbage_is_found_unless_it_is_allowed() {
    is_found("framed-skip-garbage", framed(&SIZES), "silently skipped garbage: 5 bytes");
    let report = framed_report("framed-skip-garbage", &["--allow-gaps"], 0);
    assert!(report.contains("vanish, which --allow-gaps allows"), "{report}");
}

#[test]
fn skipped_padding_is_found() {
    is_found("framed-skip-zeros", framed(&SIZES), "silently skipped padding: 1 bytes 00");
    is_found("framed-skip-5a", framed(&SIZES), "silently skipped padding: 1 bytes 5a");
    is_found("framed-skip-zeros-at-end", framed(&SIZES), "silently skipped padding: 1 bytes 00");
    is_found("framed-skip-zero-words", framed(&SIZES), "silently skipped padding: 16 bytes 00");
}

/// All bytes are consumed by then.
#[test]
fn a_record_may_be_emitted_at_the_end_of_the_input() {
    let report = framed_report("framed-count-at-end", &[], 0);
    assert!(report.contains("the data as it is: 13 records"), "{report}");
    let place = TestDir::new();
    place.write("data", framed(&SIZES));
    place.write("empty", "");
    let cat = ["cat", "-d", BAD_PLUGIN, "-o", "do=framed-count-at-end"];
    for (file, count) in [("data", "DA=="), ("empty", "AA==")] {
        let printed = run(&place, &[&cat[..], &[file]].concat()).with_code(0).text();
        let last = printed.lines().last().expect("records");
        assert!(last.contains(&format!("{{\"base64\":\"{count}\"}}")), "{file}: {last}");
    }
}

/// Fewer cases are tried: the test ends, and says why.
#[test]
fn a_test_of_a_decoder_with_a_long_set_up_ends() {
    let report = framed_report("framed-slow-set-up", &[], 0);
    assert!(report.contains("note  the set-up of each instance takes "), "{report}");
    assert!(report.contains("--time gives each kind more"), "{report}");
    let report = framed_report("framed", &[], 0);
    assert!(!report.contains("the set-up"), "{report}");
}

#[test]
fn an_error_that_begins_after_the_framing_is_found() {
    for (mistake, says) in [
        ("framed-error-at-payload", "begins 3 bytes after the start of that record"),
        ("framed-error-after-magic", "begins 1 bytes after the start of that record"),
    ] {
        let (report, again) = found(mistake, framed(&SIZES));
        for report in [report, again] {
            assert!(report.contains("an error's offset is wrong: byte "), "{report}");
            assert!(report.contains(says), "{mistake}: {report}");
        }
    }
}

#[test]
fn a_wrong_check_of_max_record_is_found() {
    is_found("framed-too-large-late", framed(&SIZES), "a record is refused too late: at byte");
    let says = "the refusal of a large record depends on the split";
    is_found("framed-too-large-by-split", framed(&SIZES), says);
    let report = framed_report("framed-no-max-record", &[], 0);
    assert!(report.contains("note  records of any size are accepted"), "{report}");
}

#[test]
fn metadata_are_compared() {
    is_found("framed-metadata-of-chunk", framed(&SIZES), "its metadata is {\"first chunk\":");
}

/// If a search reaches the end of the part that was cut off, it is unknown whether it would have
/// found a record there.
#[test]
fn a_tail_that_a_search_passes_over_is_not_swallowed() {
    let place = kept();
    let mut archive = std::fs::read(format!("{FIXTURES}/webdataset/tests/fixtures/writer.tar"))
        .expect("a fixture");
    // A byte in the name of the second sample's first member.
    archive[3073] ^= 1;
    place.write("data", archive);
    let args = ["test", "webdataset", "-o", "fields=txt?", "--data", "data", "--on-error", "skip"];
    plugin(&place, &[&args[..], &["--cases", "60"]].concat()).with_code(0);
}

/// Blocks of several calls, errors inside of a call, lists, categories and metadata.
#[test]
fn errors_can_be_expected() {
    let place = TestDir::new();
    let item = |kind: u8, payload: &[u8]| {
        [&[kind], &(payload.len() as u16).to_le_bytes()[..], payload].concat()
    };
    let records = |count: u8| -> Vec<u8> {
        (0..count).flat_map(|number| [3, b'a' + number % 26, b' ', b'x']).collect()
    };
    let deflated = |bytes: &[u8]| {
        let zlib = pipemill_tests::inputs::zlib(bytes);
        zlib[2..zlib.len() - 4].to_vec()
    };
    let data = [
        item(b'r', b"one two"),
        item(b'b', b"????"),
        item(b'z', &deflated(&records(100))),
        item(b'e', b""),
        item(b'r', b"three"),
    ];
    place.write("data", data.concat());
    let option = ["-o", "do=blocks-schema"];
    let test = |args: &[&str]| {
        let data = ["test", BAD_PLUGIN, "--data", "data", "--cases", "300"];
        plugin(&place, &[&data, &option[..], args].concat())
    };
    let report = test(&[]).with_code(65).text();
    assert!(
        report.contains("FAIL  the data as it is: \"a bad item\" at byte offset 10"),
        "{report}"
    );
    let quarantine =
        ["cat", "-d", BAD_PLUGIN, "--on-error", "quarantine", "--quarantine", "errors"];
    let printed = run(&place, &[&quarantine, &option[..], &["data"]].concat()).with_code(0).text();
    let metadata = "{\"metadata\":{\"format\":\"items\"}}\n";
    place.write("expect", [printed.as_str(), metadata].concat());
    let skip = ["--on-error", "skip", "--expect", "expect", "--expect-errors", "errors"];
    let report = test(&skip).with_code(0).text();
    assert!(report.contains("102 records, 2 errors; metadata {\"format\":\"items\"}"), "{report}");
    assert!(report.contains("records as expected: 102 compared"), "{report}");
    assert!(report.contains("errors as expected: 2 compared"), "{report}");
    // Without skipping, the first error is the last.
    place.write("first", "{\"offset\":10,\"message\":\"bad\"}\n");
    test(&["--expect-errors", "first"]).with_code(0);
    for (expected, says) in [
        ("{\"offset\":9}", "error 0: expected it at byte offset 9; it is \"a bad item\""),
        ("{\"message\":\"worse\"}", "error 0: expected a message with \"worse\""),
        ("{\"length\":6}", "error 0: expected 6 bytes to be skipped, but 7 are"),
        ("{}", "there are 2 errors; expected 1"),
        ("{}\n{}\n{}", "error 2 is missing: there are 2"),
    ] {
        place.write("errors", expected);
        let args = ["--on-error", "skip", "--expect-errors", "errors"];
        let report = test(&args).with_code(65).text();
        assert!(report.contains(says), "{expected}: {report}");
    }
    place.write("expect", "{\"metadata\":{}}\n");
    let report = test(&["--on-error", "skip", "--expect", "expect"]).with_code(65).text();
    assert!(report.contains("the metadata is {\"format\":\"items\"}; expected {}"), "{report}");
}

#[test]
fn a_decoder_that_fails_on_damaged_input_is_found_with_the_smallest_input() {
    let (report, again) = found("fall-over-percent", LETTERS);
    assert!(report.contains("no failure on damaged input: the decoder failed"), "{report}");
    // Shrunk to the one byte.
    assert!(report.contains("--hex '25'"), "{report}");
    assert!(again.contains("100 %"), "{again}");
}

#[test]
fn a_value_that_does_not_fit_its_type_is_found() {
    let place = kept();
    place.write("data", [0xff, 0xfe]);
    for (misdeed, says) in [
        ("no-text-schema", "field `text`: is declared utf8, but holds other bytes"),
        ("no-boolean-schema", "field `flag`: is declared boolean, but holds the byte"),
        ("short-number-schema", "1 bytes in field `number`; its type and shape want 4"),
    ] {
        let option = format!("do={misdeed}");
        let tested = plugin(&place, &["test", BAD_PLUGIN, "-o", &option, "--data", "data"]);
        let report = tested.with_code(65).text();
        assert!(report.contains(says), "{misdeed}: {report}");
    }
}

#[test]
fn a_decoder_that_hangs_or_breaks_its_contract_is_found() {
    for (misdeed, says) in [
        ("spin", "of CPU time in one call"),
        ("alloc", "bytes of memory; its limit is"),
        ("panic", "I was told to panic"),
        ("consume-too-much", "broke its contract: consumed 41 bytes of a chunk of 40"),
        ("bad-need", "but got no further"),
    ] {
        let (report, _) = found(misdeed, LETTERS);
        assert!(report.contains("FAIL  the data as it is"), "{misdeed}: {report}");
        assert!(report.contains(says), "{misdeed}: {report}");
    }
}

#[test]
fn records_are_compared_with_those_expected() {
    let place = TestDir::new();
    place.write("data", "one\ntwo\n");
    let printed = run(&place, &["cat", "-d", "lines", "-o", "utf8=true", "data"]).with_code(0);
    let test = |expect: &str| {
        place.write("expect.jsonl", expect);
        let args = ["test", "lines", "-o", "utf8=true", "--data", "data", "--cases", "10"];
        plugin(&place, &[&args[..], &["--expect", "expect.jsonl"]].concat())
    };
    let passed = test(&printed.text()).with_code(0).text();
    assert!(passed.contains("records as expected: 2 compared"), "{passed}");
    test("{\"fields\":{\"line\":\"one\"}}\n{\"offset\":4}\n").with_code(0);
    let other = test("{\"fields\":{\"line\":\"one\"}}\n{\"fields\":{\"line\":\"three\"}}\n");
    let other = other.with_code(65).text();
    assert!(other.contains("record 1: `fields` is {\"line\":\"two\"}; expected"), "{other}");
    let fewer = test("{\"fields\":{\"line\":\"one\"}}\n").with_code(65).text();
    assert!(fewer.contains("there are 2 records; expected 1"), "{fewer}");
    let more = test("{}\n{}\n{}\n").with_code(65).text();
    assert!(more.contains("record 2 is missing: there are 2"), "{more}");
    test("[not json\n").with_code(64).says(&["expect.jsonl: line 1"]);
}

#[test]
fn a_last_record_cut_short_is_told_or_refused() {
    let place = TestDir::new();
    place.write("data", "one\ntwo\n");
    let args = ["test", "lines", "--data", "data", "--cases", "10"];
    let output = plugin(&place, &args).with_code(0).text();
    assert!(output.contains("at 4 of them the end of the input ends a record"), "{output}");
    let strict = plugin(&place, &[&args[..], &["--strict-end"]].concat()).with_code(65).text();
    assert!(strict.contains("silently cuts the last record short"), "{strict}");
}
