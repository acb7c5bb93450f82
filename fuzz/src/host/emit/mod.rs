//! Calls of `emit`: the host accepts exactly the calls of `emit` that the interface allows, and the
//! records reach a consumer with the bytes that their spans name, regardless of the batches'
//! memory.
//!
//! The decoder is a real one in its sandbox. It emits what its chunk says.

mod budget;
mod calls;
mod model;
mod sink;
mod wasm;

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use pipemill_channel::{
    Channel, ChannelStats, ErrorPolicy, Learning, OnError, OnPluginError, Outcome, Workers,
};
use pipemill_decode::{Bytes, DecodeOutcome, DecodedRecords, IN_PAYLOAD, Plugin};
use pipemill_types::ABSENT;

use super::guest::{compile, limits, open};
pub(crate) use budget::budget;
use calls::Call;
use model::{Field, Record};
use sink::{Kept, Objects};

/// No call here takes that long: the target tests only the emitted records.
const NO_TIMEOUT: Duration = Duration::from_secs(3600);

/// The first byte selects the fields of the records, the second the size of a batch's memory; the
/// calls follow.
pub(crate) fn emit(bytes: &[u8]) {
    let Some(([fields, memory], script)) = bytes.split_first_chunk() else { return };
    let (fields, plugin) = decoder(*fields);
    let calls = calls::read(script, fields.len());
    let object = calls::chunk(&calls);
    let expected = model::records(&calls, fields, &object);
    decode(plugin, &object, &expected);
    deliver(plugin, &object, usize::from(*memory) * 16, &expected);
}

/// One of the two decoders, with the fields of its records.
fn decoder(choice: u8) -> (&'static [Field], &'static Plugin) {
    static SINGLE: OnceLock<Plugin> = OnceLock::new();
    static SEVERAL: OnceLock<Plugin> = OnceLock::new();
    if choice & 1 == 0 {
        (model::SINGLE, SINGLE.get_or_init(|| plugin(&wasm::single())))
    } else {
        (model::SEVERAL, SEVERAL.get_or_init(|| plugin(&wasm::several())))
    }
}

fn plugin(wasm: &[u8]) -> Plugin {
    compile(wasm).expect("the target's own decoder is a good one")
}

/// Passes the object to the decoder as one chunk.
fn decode(plugin: &Plugin, object: &[u8], expected: &Result<Vec<Record>, usize>) {
    let mut stream = open(plugin, &limits(NO_TIMEOUT)).expect("the decoder is a good one");
    let chunk: Bytes = Arc::new(object.to_vec());
    let result = stream.decode(&chunk, 0..object.len(), true, 0);
    match (result, expected) {
        (Ok(DecodeOutcome::Progress { consumed, .. }), Ok(records)) => {
            assert_eq!(consumed, object.len());
            assert_eq!(&found(stream.decoded(), object), records);
        }
        (Err(fault), Err(_)) => {
            assert!(!fault.message.is_empty() && !fault.remedy.is_empty(), "{fault:?}");
        }
        (result, expected) => panic!("the host says {result:?}, the model {expected:?}"),
    }
}

/// The records that the host has decoded.
fn found(decoded: &DecodedRecords, chunk: &[u8]) -> Vec<Record> {
    let field = |record: usize, column: &pipemill_types::Column| {
        let (offset, length) = column.get(record);
        if offset == ABSENT {
            return None;
        }
        let (from, place) = match offset & IN_PAYLOAD {
            0 => (offset as usize, chunk),
            _ => ((offset - IN_PAYLOAD) as usize, &*decoded.payload),
        };
        Some(place[from..from + length as usize].to_vec())
    };
    let record = |record| decoded.columns.iter().map(|column| field(record, column)).collect();
    (0..decoded.records).map(record).collect()
}

/// Runs a channel over the object, into batches of this much memory.
fn deliver(plugin: &Plugin, object: &[u8], memory: usize, expected: &Result<Vec<Record>, usize>) {
    let mut sink = Kept::new(memory);
    let mut channel = channel(plugin, Objects::new(object, 1));
    let outcome = channel.run(&mut sink, &ChannelStats::default());
    match (outcome, expected) {
        (Outcome::Ended, Ok(records)) => assert_eq!(&sink.records, records),
        // The records of the calls before the refused one.
        (Outcome::Failed(_), Err(before)) => assert_eq!(sink.records.len(), *before),
        (outcome, expected) => panic!("the channel says {outcome:?}, the model {expected:?}"),
    }
}

/// A channel of this decoder.
fn channel(plugin: &Plugin, source: Objects) -> Channel {
    Channel {
        name: "fuzz".to_owned(),
        source: Box::new(source),
        plugin: plugin.clone(),
        options: Vec::new(),
        limits: limits(NO_TIMEOUT),
        policy: ErrorPolicy::new(OnError::Fail, OnPluginError::Fail, 0),
        max_record: 1 << 20,
        linger: Duration::ZERO,
        batch: None,
        shuffle: None,
        resume: None,
        learning: Learning::FromOwn,
        added_fields: Vec::new(),
        offsets: true,
        inflates_in_background: false,
        workers: Workers::new(1),
        observers: Vec::new(),
        cache: None,
    }
}
