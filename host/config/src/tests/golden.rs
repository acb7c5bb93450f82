//! The texts of the messages: a file with many faults and the messages for it, and short texts with
//! one fault each.

use super::*;

#[test]
fn all_faults_of_a_file_are_reported_in_one_pass() {
    let env = |name: &str| (name == "SLOT_SIZE").then(|| "65000B".to_owned());
    let faults = parse(include_str!("../testdata/faults.toml"), "faults.toml", &env).unwrap_err();
    let actual: String = faults.iter().map(|fault| format!("{fault}\n")).collect();
    let expected = include_str!("../testdata/faults.txt");
    let missing = expected.lines().filter(|line| !actual.lines().any(|other| other == *line));
    let new = actual.lines().filter(|line| !expected.lines().any(|other| other == *line));
    let difference: Vec<_> = missing
        .map(|line| format!("- {line}"))
        .chain(new.map(|line| format!("+ {line}")))
        .collect();
    assert!(actual == expected, "against testdata/faults.txt:\n{}", difference.join("\n"));
}

/// A text with one fault, and the message for it.
const SINGLE: &[(&str, &str)] = &[
    ("", "pipemill.toml:1:1: channel: missing; give a list of tables, [[channel]]"),
    (
        "channel = []",
        "pipemill.toml:1:11: channel: expected a list of tables, [[channel]], found an empty list; \
         begin each channel with a line [[channel]]",
    ),
    (
        "channel = [1]",
        "pipemill.toml:1:12: channel[0]: expected a table, found 1; begin each channel with a line \
         [[channel]]",
    ),
    ("[[chanel]]\nname = \"a\"", "pipemill.toml:1:3: chanel: unknown key; did you mean `channel`?"),
    (
        "[channel]\nname = 'a'\nsource = { stdin = true }\ndecoder = 'lines'\n",
        "pipemill.toml:1:1: channel: expected a list of tables, [[channel]], found a single table; \
         begin each channel with a line [[channel]]",
    ),
    (
        "[[channel]]\nname = 'a'\nsource = { file = 'x' }\ndecoder = 'lines'\nshuffle = { seed = 1 \
         }\n",
        "pipemill.toml:5:11: channel `a`: shuffle: the source has one object at a time, so there \
         is nothing to shuffle; add a window, such as window = \"256MiB\", to shuffle its records, \
         or leave this out",
    ),
    (
        "[[channel]]\nname = 'a'\nsource = { stdin = true }\ndecoder = 'lines'\nworkers = 2\n",
        "pipemill.toml:5:11: channel `a`: workers: only files and objects in S3 are decoded by \
         several workers; leave it out, or bring the input as files",
    ),
    (
        "[[channel]]\nname = 'a'\nsource = { folder = 'x' }\ndecoder = 'lines'\nworkers = 'all'\n",
        "pipemill.toml:5:11: channel `a`: workers: expected a whole number from 1 to 256, or \
         \"auto\", found \"all\"",
    ),
    (
        "[[channel]]\nname = 'a'\nsource = { stdin = true }\ndecoder = 'lines'\n\
         shuffle = { seed = 1, window = '1MiB' }\n",
        "pipemill.toml:5:32: channel `a`: shuffle.window: needs `batch`; set the channel's \
         `batch`, or leave this out",
    ),
    (
        "[[channel]]\nname = 'a'\nsource = { stdin = true }\ndecoder = 'lines'\nbatch = 2\n\
         batch_across = 'object'\nshuffle = { seed = 1, window = 2 }\n",
        "pipemill.toml:7:32: channel `a`: shuffle.window: mixes the records of objects, and \
         `batch_across` is \"object\"; leave one of them out",
    ),
    (
        "[[channel]]\nname = 'a'\nsource = { stdin = true }\ndecoder = 'lines'\nbatch = 2\n\
         shuffle = { seed = 1, window = 1 }\n",
        "pipemill.toml:6:32: channel `a`: shuffle.window: expected a whole number from 2 to \
         1000000000, found 1",
    ),
    (
        "[[channel]]\nname = 'a'\nsource = { stdin = true }\ndecoder = 'lines'\nbatch = 2\n\
         shuffle = { window = '1MiB' }\n",
        "pipemill.toml:6:11: channel `a`: shuffle.seed: missing; give a whole number from 0 to \
         9223372036854775807",
    ),
    (
        "[[channel]]\nname = 'a'\nsource = { folder = 'x' }\ndecoder = 'lines'\n\
         order = 'any'\n",
        "pipemill.toml:5:9: channel `a`: order: needs `workers` of 2 or more; set that, or leave \
         this out",
    ),
    (
        "[[channel]]\nname = 'a'\nsource = { folder = 'x' }\ndecoder = 'lines'\n\
         workers = 2\norder = 'any'\nbatch = 2\nbatch_across = 'object'\n",
        "pipemill.toml:6:9: channel `a`: order: \"any\" mixes the records of objects, and \
         `batch_across` is \"object\"; leave out batch_across, or set order = \"strict\"",
    ),
    (
        "[[channel]]\nname = 'a'\nsource = { folder = 'x' }\ndecoder = 'lines'\n\
         workers = 2\norder = 'any'\nbatch = 2\nshuffle = { seed = 1, window = 2 }\n",
        "pipemill.toml:6:9: channel `a`: order: \"any\" is another one in each run, and that of a \
         window follows from its seed; leave out the window, or set order = \"strict\"",
    ),
    (
        "[[channel]]\nname = 'a'\nsource = { folder = 'x' }\ndecoder = 'lines'\n\
         workers = 2\norder = 'any'\nbatch = 2\ncheckpoint = { path = 'c' }\n",
        "pipemill.toml:6:9: channel `a`: order: \"any\" leaves no place to go on at, and \
         `checkpoint` keeps one; leave out checkpoint, or set order = \"strict\"",
    ),
    ("[[channel]\n", "pipemill.toml:1:11: not TOML: unclosed array table, expected `]`"),
    ("a = 1\na = 2\n", "pipemill.toml:2:1: not TOML: duplicate key"),
    (
        "a = \"ü\" b\n",
        "pipemill.toml:1:9: not TOML: unexpected key or value, expected newline, `#`",
    ),
];

#[test]
fn a_single_fault_gives_the_expected_message() {
    for (text, expected) in SINGLE {
        assert_eq!(messages(text), [*expected], "for {text:?}");
    }
}

#[test]
fn only_one_channel_can_read_standard_input() {
    let channel =
        |name| format!("[[channel]]\nname = '{name}'\nsource.stdin = true\ndecoder = 'lines'\n");
    let actual = messages(&format!("{}{}", channel("a"), channel("b")));
    let expected = "pipemill.toml:7:1: channel `b`: source: the channel in line 3 already reads \
                    standard input; one channel can read it";
    assert_eq!(actual, [expected]);
}

#[test]
fn a_fault_has_its_place_and_path_as_fields() {
    let faults = parse_bare("[[channel]]\nname = 'a'\nsource.stdin = true\n").unwrap_err();
    let [fault] = &faults[..] else { panic!("{faults:?}") };
    assert_eq!(fault.place, TextPosition { line: 1, column: 1 });
    assert_eq!(fault.path, "channel[0].decoder");
    assert_eq!(fault.channel.as_deref(), Some("a"));
    assert_eq!(fault.message, "missing");
}
