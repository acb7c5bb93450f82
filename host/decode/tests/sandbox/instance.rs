//! How many streams an instance of a decoder has.

use std::collections::BTreeMap;
use std::sync::Arc;

use pipemill_decode::{Bytes, DecodeOutcome, DecoderInstance, Engine, Limits, Plugin, Stream};
use pipemill_testing::tiny::tiny_with_window;
use pipemill_types::{Column, Fault, Field, StreamInfo};
use proptest::prelude::*;

fn engine() -> Engine {
    Engine::new(&pipemill_builtin::BUILTINS).expect("an engine")
}

fn info() -> StreamInfo {
    StreamInfo {
        channel: "train".to_owned(),
        object: "input".to_owned(),
        max_record: 1 << 20,
        offsets: true,
        ..StreamInfo::default()
    }
}

fn options(given: &[(&str, &str)]) -> Vec<(String, String)> {
    given.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
}

/// A stream in this instance, or in a new one.
fn open(
    plugin: &Plugin,
    options: &[(String, String)],
    limits: &Limits,
    instance: Option<DecoderInstance>,
) -> Result<Stream, Fault> {
    match instance {
        Some(instance) => Stream::open_in(instance, options, &info(), None),
        None => Stream::open(plugin, options, &info(), limits),
    }
}

/// All that a stream gives for an input, which it is shown in one piece.
#[derive(Debug, PartialEq)]
struct Given {
    outcome: String,
    fields: Option<Arc<[Field]>>,
    metadata: BTreeMap<String, String>,
    columns: Vec<Column>,
    payload: Vec<u8>,
    starts: Vec<u32>,
    errors: usize,
}

/// Shows the stream the input. A stream must not be called again after a fault.
fn decode(stream: &mut Stream, input: &[u8]) -> (Given, Result<DecodeOutcome, Fault>) {
    let bytes: Bytes = Arc::new(input.to_vec());
    let outcome = stream.decode(&bytes, 0..input.len(), false, 5);
    let decoded = stream.decoded();
    let given = Given {
        outcome: format!("{outcome:?}"),
        fields: stream.schema().cloned(),
        metadata: stream.metadata().clone(),
        columns: decoded.columns.clone(),
        payload: decoded.payload.clone(),
        starts: decoded.starts.clone(),
        errors: decoded.errors.len(),
    };
    (given, outcome)
}

/// A decoder's name, options and pieces of inputs.
type Example = (&'static str, &'static [(&'static str, &'static str)], &'static [&'static str]);

/// Built-in decoders. The suite of splits has all of them.
const DECODERS: [Example; 5] = [
    ("lines", &[], &["a\n", "bc\r\n", "\n", "half"]),
    ("csv", &[("header", "true")], &["a,b\n", "1,\"x\"\"y\"\n", "\"2\n", "3,\"4\",5\n", "c,d\n"]),
    (
        "csv",
        &[("header", "true"), ("emit", "dense")],
        &["a,b\n", "1,2.5\n", "x,1\n", "-3e2,\"4\"\n"],
    ),
    ("jsonl", &[], &["{\"a\":1}\n", "[1]\n", "{\"b\":\"\\u0041\"}\n", "{\n", "\n"]),
    (
        "tfrecord",
        &[],
        &["\u{3}\0\0\0\0\0\0\0", "abc", "\0\0\0\0", "\u{1}\0\0\0\0\0\0\0\0\0\0\0a\0\0\0\0"],
    ),
];

proptest! {
    #![proptest_config(ProptestConfig { cases: 60, ..ProptestConfig::default() })]

    /// Whatever streams were before it, a stream gives what one in a new instance gives.
    #[test]
    fn streams_in_an_instance_know_nothing_of_each_other(
        decoder in 0..DECODERS.len(),
        picks in prop::collection::vec(prop::collection::vec(0_usize..5, 0..12), 1..5),
    ) {
        let (name, given, pieces) = DECODERS[decoder];
        let (engine, options, limits) = (engine(), options(given), Limits::default());
        let plugin = Plugin::load(&engine, name, None).expect("it is built in");
        let mut instance = None;
        for picks in &picks {
            let input: String = picks.iter().map(|pick| pieces[pick % pieces.len()]).collect();
            let mut new = open(&plugin, &options, &limits, None).expect("opens");
            let mut next = open(&plugin, &options, &limits, instance.take()).expect("opens");
            let (expected, _) = decode(&mut new, input.as_bytes());
            let (found, outcome) = decode(&mut next, input.as_bytes());
            prop_assert_eq!(found, expected);
            instance = outcome.ok().and_then(|_| next.close());
            prop_assert!(instance.is_some());
        }
    }
}

/// Others may keep state outside of their streams.
#[test]
fn a_decoder_that_is_not_built_in_has_an_instance_for_each_stream() {
    let wasm = tiny_with_window("(i32.const 0)", "");
    let plugin = Plugin::compile(&engine(), "tiny", &wasm).expect("it fits");
    let stream = open(&plugin, &[], &Limits::default(), None).expect("opens");
    assert!(stream.close().is_none());
}

#[test]
fn an_instance_that_holds_much_of_its_memory_has_no_other_stream() {
    let plugin = Plugin::load(&engine(), "lines", None).expect("it is built in");
    let stream = open(&plugin, &[], &Limits::default(), None).expect("opens");
    let held = stream.memory_held();
    assert!(stream.close().is_some());
    for (memory, is_kept) in [(2 * held - 1, false), (2 * held, true)] {
        let limits = Limits { memory, ..Limits::default() };
        let stream = open(&plugin, &[], &limits, None).expect("opens");
        assert_eq!(stream.close().is_some(), is_kept, "{memory} bytes, {held} held");
    }
}
