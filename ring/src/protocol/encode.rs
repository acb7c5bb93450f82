//! Encodes messages. Messages of a fixed size are arrays, which need no heap memory.

use pipemill_types::Printable;
use serde::Serialize;

use super::*;

/// Encodes HELLO.
pub fn hello(hello: &Hello) -> Vec<u8> {
    json(HELLO, hello)
}

/// Encodes an ACK of one grant.
pub fn ack(grant: u64) -> [u8; 12] {
    numbered(ACK, grant)
}

/// Encodes a RELEASE of one grant.
pub fn release(grant: u64) -> [u8; 12] {
    numbered(RELEASE, grant)
}

/// Encodes END_EPOCH.
pub fn end_epoch(epoch: u32) -> [u8; 8] {
    let mut out = [0; 8];
    out[..4].copy_from_slice(&END_EPOCH.to_le_bytes());
    out[4..].copy_from_slice(&epoch.to_le_bytes());
    out
}

/// Encodes GET_STATUS.
pub fn get_status() -> [u8; 4] {
    GET_STATUS.to_le_bytes()
}

/// Encodes VIEWS.
pub fn views() -> [u8; 4] {
    VIEWS.to_le_bytes()
}

/// Encodes STATUS with as much of `text` as fits a message: all of it, or its first 65,524 bytes.
/// `text` is the unsent part of the status. Also returns the number of bytes of it in the message.
pub fn status(text: &[u8]) -> (Vec<u8>, usize) {
    let part = &text[..text.len().min(MAX_MESSAGE - 12)];
    ([&numbered(STATUS, text.len() as u64), part].concat(), part.len())
}

/// Encodes WELCOME.
pub fn welcome(welcome: &Welcome) -> Vec<u8> {
    json(WELCOME, welcome)
}

/// Encodes REFUSED. The text is for people, so control characters and invisible characters become
/// escapes. It is cut if the message would be longer than [`MAX_MESSAGE`].
pub fn refused(message: &str) -> Vec<u8> {
    let message = Printable::line(message).to_string();
    shortened(&message, |text| json(REFUSED, &RefusedBody { message: text.into() }))
}

/// Encodes SCHEMA. The message may be longer than [`MAX_MESSAGE`]; if so, it must not be sent.
pub fn schema(fields: &[Field]) -> Vec<u8> {
    json(SCHEMA, &SchemaBody { fields })
}

/// Encodes GRANT.
pub fn grant(grant: &Grant) -> [u8; 36] {
    let mut out = [0; 36];
    out[..4].copy_from_slice(&GRANT.to_le_bytes());
    out[4..12].copy_from_slice(&grant.grant.to_le_bytes());
    out[12..20].copy_from_slice(&grant.batch.to_le_bytes());
    out[20..28].copy_from_slice(&grant.bytes.to_le_bytes());
    out[28..32].copy_from_slice(&grant.slot.to_le_bytes());
    out[32..36].copy_from_slice(&grant.epoch.to_le_bytes());
    out
}

/// Encodes EPOCH_END.
pub fn epoch_end(end: &EpochEnd) -> [u8; 28] {
    let mut out = [0; 28];
    out[..4].copy_from_slice(&EPOCH_END.to_le_bytes());
    out[4..12].copy_from_slice(&end.batches.to_le_bytes());
    out[12..20].copy_from_slice(&end.records.to_le_bytes());
    out[20..24].copy_from_slice(&end.epoch.to_le_bytes());
    out[24..28].copy_from_slice(&(if end.early { ENDED_EARLY } else { 0 }).to_le_bytes());
    out
}

/// Encodes LARGER_SLOTS.
pub fn larger_slots(slots: &LargerSlots) -> [u8; 20] {
    let mut out = [0; 20];
    out[..4].copy_from_slice(&LARGER_SLOTS.to_le_bytes());
    out[4..12].copy_from_slice(&slots.slot_bytes.to_le_bytes());
    out[12..16].copy_from_slice(&slots.first.to_le_bytes());
    out[16..20].copy_from_slice(&slots.slots.to_le_bytes());
    out
}

/// Encodes STREAM_END.
pub fn stream_end() -> [u8; 4] {
    STREAM_END.to_le_bytes()
}

/// Encodes ERROR. Its text is made printable, as in [`refused`]. The text and the object's name are
/// cut if the message would be longer than [`MAX_MESSAGE`].
pub fn error(report: &ErrorReport) -> Vec<u8> {
    let message = Printable::line(&report.message).to_string();
    let report = &ErrorReport { message, ..report.clone() };
    let whole = json(ERROR, report);
    if whole.len() <= MAX_MESSAGE {
        return whole;
    }
    let object = report.object.as_ref().map(|name| name.chars().take(1024).collect());
    let report = ErrorReport { object, ..report.clone() };
    shortened(&report.message, |text| {
        json(ERROR, &ErrorReport { message: text.into(), ..report.clone() })
    })
}

fn json(kind: u32, body: &impl Serialize) -> Vec<u8> {
    let mut out = kind.to_le_bytes().to_vec();
    serde_json::to_writer(&mut out, body)
        .expect("writing to memory can't fail, and every key of the bodies is a string");
    out
}

fn numbered(kind: u32, number: u64) -> [u8; 12] {
    let mut out = [0; 12];
    out[..4].copy_from_slice(&kind.to_le_bytes());
    out[4..].copy_from_slice(&number.to_le_bytes());
    out
}

/// The message with as much of `text` as fits: the text is halved until the message fits.
fn shortened(text: &str, build: impl Fn(&str) -> Vec<u8>) -> Vec<u8> {
    let mut text = text;
    loop {
        let message = build(text);
        if message.len() <= MAX_MESSAGE || text.is_empty() {
            return message;
        }
        text = &text[..text.floor_char_boundary(text.len() / 2)];
    }
}
