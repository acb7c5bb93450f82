//! State that is saved: the number of the records so far, which the decoder of framed records needs to
//! number the next ones. And misdeeds with it.

use pipemill_plugin::bindings::exports::pipemill::decoder0_1_0::decoder::StreamInfo;
use pipemill_plugin::bindings::pipemill::decoder0_1_0::host;
use pipemill_plugin::bindings::pipemill::decoder0_1_0::types::Level;

use crate::framed::Framed;
use crate::plugin::{emit, span};

/// What stands before the number.
const MARK: &[u8] = b"framed 1 ";

/// Saves the number, or does wrong.
pub fn save(misdeed: &str, stream: &Framed) -> Option<Vec<u8>> {
    let (records, mut after) = (stream.records.get(), 0);
    match misdeed {
        "framed-carry" | "framed-carry-long" | "framed-carry-lies" => {}
        "framed-carry-large" => after = (64 << 10) - MARK.len() - size_of::<u64>(),
        "framed-carry-huge" => after = (64 << 10) + 1 - MARK.len() - size_of::<u64>(),
        "framed-carry-panic" => panic!("I can't save"),
        "framed-carry-spin" => loop {
            std::hint::black_box(());
        },
        "framed-carry-emits" => emit(&[span(0, 1)], &[], &[0]),
        "framed-carry-counts" => stream.records.set(records + 1),
        _ => return None,
    }
    Some([MARK, &records.to_le_bytes(), &vec![7; after]].concat())
}

/// Goes on after this number.
pub fn load(misdeed: &str, stream: &Framed, info: &StreamInfo, saved: &[u8]) -> Result<(), String> {
    let number = saved.strip_prefix(MARK).and_then(|rest| rest.first_chunk());
    let Some(number) = number else {
        return Err(format!("expected {MARK:?} and a number,\x1b[31m found {} bytes", saved.len()));
    };
    let records = u64::from_le_bytes(*number);
    let place = info.extensions.iter().find(|(key, _)| key == "restart");
    let place = place.map_or("", |(_, place)| place.as_str());
    host::log(Level::Warn, &format!("I go on after {records} records, at {place}"));
    let off = if misdeed == "framed-carry-lies" { 1 } else { 0 };
    stream.records.set(records + off);
    Ok(())
}
