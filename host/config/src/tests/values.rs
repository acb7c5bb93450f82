//! Single values: valid sizes and times and the messages for others, both ends of each range, and
//! the defaults of a short file.

use std::time::Duration;

use pipemill_source::Compression;

use super::super::key::Number;
use super::super::keys::*;
use super::*;

#[test]
fn balance_needs_parts_and_known_sizes() {
    let faults = |source: &str| {
        let text = format!("[[channel]]\nname = 'a'\ndecoder = 'lines'\nsource = {{ {source} }}\n");
        let said = parse(&text, "c", &|_| None).err().unwrap_or_default();
        said.iter().map(|fault| fault.to_string()).collect::<Vec<_>>().join("\n")
    };
    let part = "part = { index = 0, count = 2 }, balance = 'size'";
    for source in ["files = ['a', 'b']", "folder = 'a'", "glob = 'a*'", "s3 = 's3://b/'"] {
        assert_eq!(faults(&format!("{source}, {part}")), "");
        let without_part = faults(&format!("{source}, balance = 'size'"));
        assert!(without_part.contains("balance: there are no parts to balance; set `part`"));
    }
    for source in ["s3_object = 's3://b/k'", "manifest = 's3://b/k'", "file = 'a'"] {
        let said = faults(&format!("{source}, {part}"));
        assert!(said.contains("it goes with `files`, `glob`, `folder`, `s3` or `index`"), "{said}");
    }
}

#[test]
fn a_wrong_size_or_time_gives_a_message_that_says_how_to_write_it() {
    let size = |text| parse_size(text).map_err(|invalid| invalid.to_string());
    assert_eq!(size("4096B"), Ok(4096));
    assert_eq!(size("64KiB"), Ok(64 << 10));
    assert_eq!(size("4MiB"), Ok(4 << 20));
    assert_eq!(size("1GiB"), Ok(1 << 30));
    for (text, meant) in [
        ("4", "4MiB"),
        ("4 MiB", "4MiB"),
        ("4mb", "4MiB"),
        ("4K", "4KiB"),
        ("4kib", "4KiB"),
        ("4 bytes", "4B"),
        ("7Gi", "7GiB"),
    ] {
        let expected =
            format!("expected a size such as \"4MiB\", found {text:?}; did you mean \"{meant}\"?");
        assert_eq!(size(text), Err(expected));
    }
    let usage = "write a whole number and one of B, KiB, MiB, GiB, TiB, without a space";
    for text in ["", "MiB", "1.5MiB", "-1MiB", "four", "4MiB4"] {
        let expected = format!("expected a size such as \"4MiB\", found {text:?}; {usage}");
        assert_eq!(size(text), Err(expected));
    }
    let expected = format!("the number in \"16777216TiB\" is too large; {usage}");
    assert_eq!(size("16777216TiB"), Err(expected));

    let time = |text| parse_duration(text).map_err(|invalid| invalid.remedy);
    assert_eq!(time("500ms"), Ok(Duration::from_millis(500)));
    assert_eq!(time("2s"), Ok(Duration::from_secs(2)));
    assert_eq!(time("10m"), Ok(Duration::from_secs(600)));
    assert_eq!(time("1h"), Ok(Duration::from_secs(3600)));
    assert_eq!(time("2 seconds"), Err("did you mean \"2s\"?".to_owned()));
    assert_eq!(time("10"), Err("did you mean \"10s\"?".to_owned()));
    assert_eq!(
        time("1d"),
        Err("write a whole number and one of ms, s, m, h, without a space".into())
    );
}

/// A configuration in which this key has this value; the others have usual values.
fn text_with(table: &str, key: &str, value: &str) -> String {
    let quoted = if value.parse::<u64>().is_ok() { value.to_owned() } else { format!("'{value}'") };
    let assignment = format!("{key} = {quoted}");
    let (top, source, line) = match table {
        "top" => (assignment, String::new(), String::new()),
        "source" => (String::new(), format!(", {assignment}"), String::new()),
        _ => (String::new(), String::new(), format!("{table}{assignment}\n")),
    };
    format!(
        "{top}\n[[channel]]\nname = 'a'\ndecoder = 'lines'\nsource = {{ fifo = '/'{source} }}\n\
         on_error = 'skip'\nmode = 'broadcast'\n{line}"
    )
}

/// Whether the value is refused because it is not in the key's range.
fn out_of_range<D>(table: &str, key: &Number<D>, value: u64) -> bool {
    let expected = format!("expected {}, found", key.range());
    messages(&text_with(table, key.name, &key.show(value)))
        .iter()
        .any(|said| said.contains(&expected))
}

fn assert_ends<D>(table: &str, key: &Number<D>) {
    assert!(!out_of_range(table, key, key.min), "{} = {}", key.name, key.min);
    assert!(!out_of_range(table, key, key.max), "{} = {}", key.name, key.max);
    assert!(out_of_range(table, key, key.max + 1), "{} = {}", key.name, key.max + 1);
    if key.min > 0 {
        assert!(out_of_range(table, key, key.min - 1), "{} = {}", key.name, key.min - 1);
    }
}

#[test]
fn each_range_includes_both_ends_and_nothing_outside() {
    for key in [&STOP_TIMEOUT, &FAIL_GRACE] {
        assert_ends("top", key);
    }
    for key in [&MAX_ERRORS, &MAX_RECORD, &CONSUMERS] {
        assert_ends("", key);
    }
    for key in [&FIRST_EPOCH, &OPEN_TIMEOUT, &PIPE_SIZE] {
        assert_ends("source", key);
    }
    for key in [&EPOCHS, &IDLE_TIMEOUT] {
        assert_ends("source", key);
    }
    for key in [&SLOTS, &SLOT_SIZE, &CREDITS, &LINGER] {
        assert_ends("[channel.ring]\n", key);
    }
    for key in [&MEMORY, &CALL_TIMEOUT] {
        assert_ends("[channel.limits]\n", key);
    }
    assert_ends("[channel.limits]\n", &OUTPUT);
}

#[test]
fn a_short_file_has_the_documented_defaults() {
    let text = "[[channel]]\nname = 'a'\nsource = { fifo = '/data' }\ndecoder = 'lines'\n";
    let source = Source::Fifo {
        epoch_file: None,
        dir: "/data".into(),
        epochs: None,
        first_epoch: 0,
        open_timeout: Some(Duration::from_secs(600)),
        idle_timeout: None,
        pipe_size: 1 << 20,
        compression: Compression::Auto,
    };
    let place = TextPosition { line: 4, column: 11 };
    let decoder = DecoderRef::Name("lines".to_owned());
    let channel = Channel { decoder_place: place, ..Channel::new("a", source, decoder) };
    let config = Config {
        file: "pipemill.toml".to_owned(),
        socket: None,
        allow_other_users: false,
        max_connections: 1024,
        cores: None,
        metrics: None,
        stop_timeout: Duration::from_secs(110),
        fail_grace: Duration::from_secs(10),
        s3_budget: None,
        channels: vec![channel],
    };
    assert_eq!(parse_bare(text), Ok(config));
}

#[test]
fn there_are_connections_for_all_consumers_that_the_channels_wait_for() {
    let channel = |name: &str| {
        format!(
            "[[channel]]\nname = '{name}'\nsource = {{ file = 'f' }}\ndecoder = 'lines'\n\
             mode = 'broadcast'\nconsumers = 20\n"
        )
    };
    let config = |max| format!("max_connections = {max}\n{}{}", channel("a"), channel("b"));
    assert_eq!(parse_bare(&config(40)).map(|config| config.max_connections), Ok(40));
    let faults = parse_bare(&config(39)).unwrap_err();
    assert_eq!(faults[0].message, "the channels wait for 40 consumers, and 39 may connect");
}

#[test]
fn options_are_kept_as_text_in_the_order_of_the_file() {
    let text = "[[channel]]\nname = 'a'\nsource.stdin = true\ndecoder = './x'\n\
                options = { z = 'a b', m = 0x10, a = false }\n";
    let config = parse_bare(text).expect("a valid file");
    let [channel] = &config.channels[..] else { panic!("{config:?}") };
    assert_eq!(channel.decoder, Some(DecoderRef::File("./x".into())));
    let pairs = [("z", "a b"), ("m", "16"), ("a", "false")];
    assert_eq!(channel.options, pairs.map(|(name, value)| (name.to_owned(), value.to_owned())));
    let columns: Vec<_> = channel.option_places.iter().map(|place| place.column).collect();
    assert_eq!(columns, [17, 28, 38]);
}

#[test]
fn numbers_and_flags_can_come_from_variables() {
    let env = |name: &str| match name {
        "SLOTS" => Some("32".to_owned()),
        "OPEN" => Some("true".to_owned()),
        "EMPTY" => Some(String::new()),
        _ => None,
    };
    let text = "allow_other_users = '${OPEN}'\n[[channel]]\nname = 'a-${EMPTY:-0}'\n\
                source = { stdin = '${OPEN}' }\ndecoder = '$$x'\n[channel.ring]\n\
                slots = '${SLOTS}'\nlinger = '${LINGER:-5ms}'\n";
    let config = parse(text, "pipemill.toml", &env).expect("a valid file");
    assert!(config.allow_other_users);
    let channel = &config.channels[0];
    assert_eq!((channel.name.as_str(), channel.ring.slots), ("a-0", 32));
    assert_eq!(channel.ring.linger, Duration::from_millis(5));
    assert_eq!(channel.decoder, Some(DecoderRef::Name("$x".to_owned())));

    let faults = parse(&text.replace("${OPEN}", "${SLOTS}"), "f", &env).unwrap_err();
    let said: Vec<_> = faults.iter().map(|fault| fault.message.as_str()).collect();
    let found = "found \"32\" (from \"${SLOTS}\")";
    assert_eq!(
        said,
        [format!("expected true or false, {found}"), format!("expected true, {found}")]
    );
}

#[test]
fn the_default_of_output_is_four_times_the_larger_of_record_and_slot() {
    let config =
        parse_bare(&text_with("[channel.ring]\n", "slot_size", "128MiB")).expect("a valid file");
    assert_eq!(config.channels[0].limits.output, 512 << 20);
    let config = parse_bare(&text_with("", "max_record", "65MiB")).expect("a valid file");
    assert_eq!(config.channels[0].limits.output, 260 << 20);
}

#[test]
fn decoders_that_may_come_with_the_data_are_named_by_their_sha256() {
    let text = |more: &str| {
        format!("[[channel]]\nname = 'a'\nsource = {{ folder = 'f' }}\ntrust = {more}\n")
    };
    let (one, other) = ("0f".repeat(32), "AB".repeat(32));
    let config = parse_bare(&text(&format!("['sha256:{one}', 'sha256:{other}']"))).unwrap();
    let shown: Vec<_> = config.channels[0].trust.iter().map(ToString::to_string).collect();
    assert_eq!(shown, [one.clone(), other.to_lowercase()]);
    let single = format!("'sha256:{one}'");
    assert_eq!(parse_bare(&text(&single)).unwrap().channels[0].trust.len(), 1);
    let message = |text: &str| parse_bare(text).unwrap_err()[0].message.clone();
    for wrong in [format!("['{one}']"), "['sha256:12']".to_owned(), "['mine@1']".to_owned()] {
        let message = message(&text(&wrong));
        assert!(message.starts_with("expected texts of `sha256:` and 64"), "{message}");
    }
    assert!(message(&text("[]")).contains("an empty list"));
    let named = message(&text(&format!("{single}\ndecoder = 'csv'")));
    assert!(named.starts_with("does not go with `decoder`"), "{named}");
    let of_index = message(&text(&single).replace("folder", "index"));
    assert!(of_index.starts_with("does not go with an index"), "{of_index}");
}
