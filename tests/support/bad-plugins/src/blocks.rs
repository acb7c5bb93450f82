//! No misdeed, but all that the contract allows beyond one call: compressed blocks that take several
//! calls, bad bytes that are reported inside a call, lists, categories, metadata.
//!
//! The input is items: `u8 kind · u16 length · payload`. The payload of `r` is a record. That of `z` is
//! a deflated block of records, each `u8 length · bytes`. An item `b` is bad, and so is `e`, which is
//! returned as an error. Nothing can be decoded after any other kind.

use std::cell::Cell;

use pipemill_plugin::bindings::exports::pipemill::decoder0_1_0::decoder::{
    DecodeError, Progress, Resume,
};
use pipemill_plugin::bindings::pipemill::decoder0_1_0::host;
use pipemill_plugin::bindings::pipemill::decoder0_1_0::types::Field;

use crate::plugin::{progress, span, typed};

const IN_PAYLOAD: u64 = 1 << 63;
/// Bytes of an item before its payload.
const HEADER: usize = 3;
/// Decompressed bytes in a call, at first.
const PART: u32 = 100;

thread_local! {
    /// Decompressed bytes of the running block whose records are emitted.
    static DONE: Cell<u64> = const { Cell::new(0) };
}

/// The fields of a record.
pub fn schema() -> [Field; 3] {
    let words = Field { shape: vec![0], ..typed("words", "utf8") };
    let categories = vec!["plain".to_owned(), "block".to_owned()];
    [typed("data", "bytes"), words, Field { categories, ..typed("from", "uint8") }]
}

/// Emits the records that lie whole in the chunk, or those of a part of the block at its start.
pub fn records(chunk: &[u8]) -> Result<Progress, DecodeError> {
    let mut out = Out::default();
    let mut at = 0;
    loop {
        let Some(header) = chunk[at..].first_chunk::<HEADER>() else {
            return Ok(out.end(at, HEADER));
        };
        let size = HEADER + usize::from(u16::from_le_bytes([header[1], header[2]]));
        let Some(item) = chunk.get(at..at + size) else { return Ok(out.end(at, size)) };
        let end = at + size;
        match header[0] {
            b'r' => out.record(
                at,
                &item[HEADER..],
                span((at + HEADER) as u32, (size - HEADER) as u32),
                0,
            ),
            b'b' => {
                out.flush();
                if !host::bad(at as u32, end as u32, "a bad item") {
                    return error(at, "a bad item", Resume::At(end as u64));
                }
            }
            b'e' => {
                out.flush();
                return error(at, "an item with an error", Resume::At(end as u64));
            }
            b'z' if at > 0 => {
                let progress = out.end(at, 0);
                return Ok(Progress { more: true, ..progress });
            }
            b'z' => return block(size),
            _ => {
                out.flush();
                return error(at, "not an item", Resume::None);
            }
        }
        at = end;
    }
}

/// Emits the records of the next part of the block in the first `size` bytes of the chunk.
fn block(size: usize) -> Result<Progress, DecodeError> {
    let (done, mut max) = (DONE.get(), PART);
    let mut base = 0;
    loop {
        let span = span(HEADER as u32, (size - HEADER) as u32);
        let part = match host::decompress("deflate", span, done, max) {
            Ok(part) => part,
            Err(why) => {
                DONE.set(0);
                return error(0, &why, Resume::At(size as u64));
            }
        };
        let mut out = Out { base, ..Out::default() };
        let mut at = 0;
        while let Some(length) = part.bytes.get(at).map(|length| usize::from(*length))
            && let Some(record) = part.bytes.get(at + 1..at + 1 + length)
        {
            let place = IN_PAYLOAD | crate::plugin::span((base + at + 1) as u32, length as u32);
            out.in_block(record, place, base + part.bytes.len());
            at += 1 + length;
        }
        out.base = base + part.bytes.len();
        if part.last {
            DONE.set(0);
            let left = part.bytes.len() - at;
            out.flush();
            return match left {
                0 => Ok(progress(size as u32, 0)),
                _ => error(
                    0,
                    &format!("{left} bytes at the end of a block"),
                    Resume::At(size as u64),
                ),
            };
        }
        if at > 0 {
            DONE.set(done + at as u64);
            out.flush();
            return Ok(Progress { consumed: 0, need: 0, more: true });
        }
        // Not one record is whole in the part.
        base += part.bytes.len();
        max *= 2;
    }
}

/// The records of a call that are not handed over.
#[derive(Default)]
struct Out {
    /// Bytes of the call's payload before these.
    base: usize,
    spans: Vec<u64>,
    payload: Vec<u8>,
    starts: Vec<u32>,
}

impl Out {
    fn record(&mut self, start: usize, data: &[u8], place: u64, from: u8) {
        self.starts.push(start as u32);
        self.spans.push(place);
        let words: Vec<_> = std::str::from_utf8(data).unwrap_or("").split(' ').collect();
        let mut end = 4 * (words.len() + 1);
        let mut list = (end as u32).to_le_bytes().to_vec();
        for word in &words {
            end += word.len();
            list.extend((end as u32).to_le_bytes());
        }
        words.iter().for_each(|word| list.extend_from_slice(word.as_bytes()));
        self.made(&list);
        self.made(&[from]);
    }

    fn in_block(&mut self, data: &[u8], place: u64, base: usize) {
        self.base = base;
        self.record(0, data, place, 1);
    }

    fn made(&mut self, bytes: &[u8]) {
        let at = self.base + self.payload.len();
        self.spans.push(IN_PAYLOAD | span(at as u32, bytes.len() as u32));
        self.payload.extend_from_slice(bytes);
    }

    fn flush(&mut self) {
        if !self.starts.is_empty() {
            host::emit(self.starts.len() as u32, &self.spans, &self.payload, &self.starts);
            let base = self.base + self.payload.len();
            *self = Self { base, ..Self::default() };
        }
    }

    fn end(&mut self, consumed: usize, need: usize) -> Progress {
        self.flush();
        progress(consumed as u32, need as u32)
    }
}

fn error(offset: usize, message: &str, resume: Resume) -> Result<Progress, DecodeError> {
    Err(DecodeError { offset: offset as u32, message: message.to_owned(), resume })
}
